"""The client's half of an Append stream: lanes, budget and outcomes, without any I/O.

One ``Lanes`` lives as long as one stream. Frames come in through lanes, and carriers go out through
``next_carrier``. Replies come in through ``received``. ``lost`` ends all lanes.

::

    append -> pending --next_carrier--> sent --Acked--------> acked
                 |                        +---Refused-------> failed (what the bookie says)
                 |                        +---expire--------> failed (Timeout: unknown)
                 |                        +---lost----------> failed (ConnectionLost: unknown)
                 +--expire--> failed (TooManyRequests)  \\
                 +--close---> failed (NotOpened)         >  never sent: not applied
                 +--lost----> failed (NotConnected)     /

An opening goes the same way, in a lane that its caller does not have yet. Its outcome goes to the
caller that opens. An opening uses no budget, so that a new ledger does not wait behind the frames
of others.

Invariants: each thing that is put in has exactly one outcome. The bytes of pending and sent things
together are within the budget. A carrier counts as under way until all things in it have their
outcome. A reply to a thing that already has its outcome (it came after the timeout) changes
nothing.

State is changed before a sink is called, so that a sink may put in more at once. A thing gets its
number on the stream when it leaves, because flows take turns. It gets its number in its lane when
it is put in.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final

from zonekeeper.placement.base.ids import LedgerId
from zonekeeper.wire.contract.links import AppendSink
from zonekeeper.wire.formats import carriers, errors, openings, proofs
from zonekeeper.wire.formats.digests import MasterKey
from zonekeeper.wire.formats.frames import Frame
from zonekeeper.wire.formats.openings import FragmentOpening
from zonekeeper.wire.formats.proofs import ProofAct, Prover
from zonekeeper.wire.lanes.coalescing import Coalescer

#: The part ``1 / RESERVED_SHARE`` of the budget is kept for lanes with little in them ...
RESERVED_SHARE: Final = 8
#: ... that is, with at most this many bytes.
LITTLE_BYTES: Final = carriers.CARRIER_BYTES_AIM

#: The greatest size of a carrier's item without its frame or opening.
_ITEM_BYTES: Final = 64
#: An opening has no number in its lane.
NO_NUMBER: Final = -1


@dataclass(slots=True)
class _Batch:
    """A carrier under way."""

    #: The number of things in it that have no outcome yet.
    left: int


@dataclass(slots=True, eq=False)
class _Put:
    """A thing that was put into a lane and has no outcome yet."""

    lane: "Lane"
    #: Its number in its lane; it gets another number, on the stream, when it leaves.
    number: int
    #: A frame, a LAC packet, or the opening of the lane.
    what: Frame | bytes | FragmentOpening
    #: The bytes of the budget that it uses.
    size_bytes: int
    since_s: float
    #: For an opening: called with its outcome.
    opener: Callable[[errors.ProtocolError | None], None] | None = None
    #: For an opening: had the caller the ledger open on this bookie before?
    was_open: bool = False
    batch: _Batch | None = None

    def item(self, number: int) -> carriers.Request:
        """Give its item, with its number on the stream."""
        match self.what:
            case Frame() as frame:
                return carriers.Append(number=number, frame=frame)
            case bytes() as packet:
                ledger_id = self.lane.ledger_id
                return carriers.WriteLac(number=number, ledger_id=ledger_id, packet=packet)
            case opening:
                return self.lane.proven(
                    carriers.Open(number=number, opening=opening, was_open=self.was_open)
                )

    def tell(self, error: errors.ProtocolError | None) -> None:
        """Report its outcome: an error, or None if it is acknowledged."""
        if self.opener is not None:
            self.opener(error)
        elif error is None:
            self.lane.sink.acked(self.number)
        else:
            self.lane.sink.failed(self.number, error)


class Lane:
    """One ledger on one stream; see ``links.AppendLane``."""

    __slots__ = ("_lanes", "closed", "ledger_id", "next_number", "outstanding_bytes", "sink")

    def __init__(self, lanes: "Lanes", ledger_id: LedgerId, sink: AppendSink) -> None:
        self._lanes = lanes
        self.ledger_id = ledger_id
        self.sink = sink
        self.closed = False
        self.next_number = 0
        self.outstanding_bytes = 0

    @property
    def boot_epoch(self) -> int:
        """The boot epoch of the bookie at the other end of this lane."""
        return self._lanes.boot_epoch

    @property
    def alive(self) -> bool:
        """Does this lane still take frames?"""
        return self._lanes.alive and not self.closed

    def append(self, frame: Frame) -> int:
        """Put a frame in."""
        assert frame.ledger_id == self.ledger_id
        return self._lanes.put(self, frame, frame.size_bytes)

    def write_lac(self, packet: bytes) -> int:
        """Put a LAC packet in."""
        return self._lanes.put(self, packet, len(packet))

    def close(self) -> None:
        """Take nothing more, and fail all that was not sent."""
        self._lanes.close(self)

    def proven(self, item: carriers.Open) -> carriers.Open:
        """Give an opening as it travels: with a proof of the key, where the key is secret."""
        prover, key = self._lanes.prover, item.opening.master_key
        if prover is None or not proofs.needed(key):
            return item
        proof = MasterKey(prover.on_stream(ProofAct.OPEN, key, self.ledger_id))
        return replace(item, opening=replace(item.opening, master_key=proof), proven=True)


class Lanes:
    """All lanes of one stream."""

    def __init__(  # noqa: PLR0913 each is a part of its own, and has a name
        self,
        hello: carriers.Hello,
        *,
        budget_bytes: int,
        timeout_s: float,
        clock: Callable[[], float],
        on_pending: Callable[[], None],
        wire_version: int = 1,
        prover: Prover | None = None,
    ) -> None:
        self.boot_epoch = hello.boot_epoch
        #: Proves keys on this stream; None: the bookie has given no nonce.
        self.prover = prover
        self._wire_version = wire_version
        self._budget_bytes = budget_bytes
        self._timeout_s = timeout_s
        self._clock = clock
        #: Called whenever there may be a carrier to send.
        self._on_pending = on_pending
        #: Called once the stream was left and nothing is in it any more.
        self.on_left: Callable[[], None] = _nothing
        self._is_left = False
        #: The lanes that are open, or are being opened; a dict because sets have no order.
        self._open: dict[Lane, None] = {}
        #: Before this time nothing expires.
        self._patient_until_s = -math.inf
        #: False after ``lost``, and after ``leave`` once nothing is left.
        self.alive = True
        self._used_bytes = 0
        self._pending: Coalescer[Lane, _Put] = Coalescer(
            aim_bytes=carriers.APPENDS_BYTES_AIM - carriers.HEADER_BYTES,
            items_max=carriers.ITEMS_MAX,
        )
        self._next_number = 0
        #: By number on the stream, ascending.
        self._sent: dict[int, _Put] = {}
        #: Lanes that were refused for lack of budget, in order; a dict because sets have no order.
        self._want_room: dict[Lane, None] = {}

    @property
    def used_bytes(self) -> int:
        """The bytes of the budget without an outcome."""
        return self._used_bytes

    def open(
        self,
        opening: FragmentOpening,
        sink: AppendSink,
        opener: Callable[[errors.ProtocolError | None], None],
        *,
        was_open: bool = False,
    ) -> Lane:
        """Open a fragment: the lane may be used once ``opener`` was called with None.

        Raises NotConnected if the stream is gone; then ``opener`` is never called.
        """
        if not self.alive:
            raise errors.NotConnected(
                f"ledger {opening.ledger_id}: the connection was lost before the fragment was "
                "opened; open it again"
            )
        lane = Lane(self, opening.ledger_id, sink)
        self._open[lane] = None
        put = _Put(lane, NO_NUMBER, opening, 0, self._clock(), opener, was_open)
        self._pending.put(lane, put, openings.size_of(opening) + _ITEM_BYTES)
        self._on_pending()
        return lane

    def put(self, lane: Lane, what: Frame | bytes, size_bytes: int) -> int:
        """Put something into a lane, and give its number there."""
        if not lane.alive:
            raise errors.NotOpened(
                f"ledger {lane.ledger_id}: this lane has ended; open the fragment again"
            )
        if not self._has_room(lane, size_bytes):
            self._want_room[lane] = None
            raise errors.TooManyRequests(
                f"ledger {lane.ledger_id}: {self._used_bytes} of {self._budget_bytes} bytes to "
                "this bookie are without an answer; wait for room, or replace it"
            )
        number = lane.next_number
        lane.next_number += 1
        lane.outstanding_bytes += size_bytes
        self._used_bytes += size_bytes
        put = _Put(lane, number, what, size_bytes, self._clock())
        self._pending.put(lane, put, size_bytes + _ITEM_BYTES)
        self._on_pending()
        return number

    def close(self, lane: Lane) -> None:
        """End a lane: everything of it that was not sent fails."""
        lane.closed = True
        self._open.pop(lane, None)
        self._want_room.pop(lane, None)
        error = errors.NotOpened(f"ledger {lane.ledger_id}: the lane was closed before it was sent")
        self._fail(self._pending.drop(lane), error)
        self._tell_room()

    def leave(self) -> None:
        """End the stream once all its lanes are closed and all in it has its outcome."""
        self._is_left = True
        self._look_left()

    def next_carrier(self) -> bytes | None:
        """Give the carrier to send now; None if nothing is pending, or enough is under way."""
        puts = self._pending.take()
        if not puts:
            return None
        batch = _Batch(left=len(puts))
        items: list[carriers.Item] = []
        for number, put in enumerate(puts, self._next_number):
            put.batch = batch
            self._sent[number] = put
            items.append(put.item(number))
        self._next_number += len(puts)
        return carriers.build(items, self._wire_version)

    def received(self, items: Iterable[carriers.Item]) -> None:
        """Take the items of a carrier that came from the bookie."""
        for item in items:
            match item:
                case carriers.Acked(number=first, last=last):
                    self._acked(first, last)
                case carriers.Refused(number=number, code=code, detail=detail):
                    if put := self._sent.pop(number, None):
                        self._fail([put], errors.from_number(code, detail))
                case _:
                    raise errors.BadRequest(f"the bookie sent {item} on an Append stream")
        self._tell_room()

    def wait_anew(self) -> None:
        """Begin the timeout of everything anew.

        The caller noticed that this process stood still: answers that came in time may still be
        unread.
        """
        self._patient_until_s = self._clock() + self._timeout_s

    def expire(self) -> None:
        """Fail everything that has waited longer than the timeout."""
        now_s = self._clock()
        if now_s < self._patient_until_s:
            return
        oldest_s = now_s - self._timeout_s
        late = [number for number, put in self._sent.items() if put.since_s <= oldest_s]
        sent = [self._sent.pop(number) for number in late]
        unsent = self._pending.drop_while(lambda put: put.since_s <= oldest_s)
        waited = f"after {self._timeout_s:g} s"
        self._fail(sent, errors.Timeout(f"the bookie has not answered {waited}"))
        self._fail(unsent, errors.TooManyRequests(f"the bookie had no room for it {waited}"))
        self._tell_room()

    def lost(self, error: errors.ProtocolError) -> None:
        """End all lanes: the stream is gone."""
        if not self.alive:
            return
        self.alive = False
        sent, self._sent = list(self._sent.values()), {}
        unsent = self._pending.drop_while(lambda _: True)
        unknown = errors.ConnectionLost(f"the connection ended before the answer: {error}")
        never = errors.NotConnected(f"the connection ended before it was sent: {error}")
        self._fail(sent, unknown)
        self._fail(unsent, never)
        self._tell_room()

    def _acked(self, first: int, last: int) -> None:
        if last >= self._next_number:
            raise errors.BadRequest(f"the bookie acked up to {last}, which was never sent")
        numbers: Iterable[int] = range(first, last + 1)
        if last - first >= len(self._sent):  # never do more work than there are sent things
            numbers = [number for number in self._sent if first <= number <= last]
        for number in numbers:
            if put := self._sent.pop(number, None):
                self._release(put)
                put.tell(None)

    def _has_room(self, lane: Lane, size_bytes: int) -> bool:
        """Is there room in the budget? A frame larger than all of it may go when it is alone."""
        used, of_lane = self._used_bytes, lane.outstanding_bytes
        has_little = of_lane == 0 or of_lane + size_bytes <= LITTLE_BYTES
        reserved = 0 if has_little else self._budget_bytes // RESERVED_SHARE
        return used == 0 or used + size_bytes <= self._budget_bytes - reserved

    def _release(self, put: _Put) -> None:
        put.lane.outstanding_bytes -= put.size_bytes
        self._used_bytes -= put.size_bytes
        if put.batch is not None:
            put.batch.left -= 1
            if put.batch.left == 0:
                self._pending.finished()
                self._on_pending()

    def _fail(self, puts: Iterable[_Put], error: errors.ProtocolError) -> None:
        for put in puts:
            self._release(put)
            if put.opener is not None:
                self._open.pop(put.lane, None)
            put.tell(error)

    def _tell_room(self) -> None:
        """Tell the refused lanes to try again, once half of the budget is free."""
        if self._want_room and self._used_bytes <= self._budget_bytes // 2:
            waiting, self._want_room = self._want_room, {}
            for lane in waiting:
                lane.sink.room()
        self._look_left()

    def _look_left(self) -> None:
        if self._is_left and self.alive and not (self._open or self._sent or self._used_bytes):
            self.alive = False
            self.on_left()


def _nothing() -> None:
    """Stand where nobody waits for the end of a stream that was left."""
