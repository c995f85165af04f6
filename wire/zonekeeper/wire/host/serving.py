"""The host: a bookie's half of the streams, between a transport and the bookie.

A ``Host`` serves one ``BookieService``. It reads carriers, makes streams keep the rules that are
the same for every bookie, and packs answers:

* The first message of a stream is a Hello with the bookie's boot epoch, and a nonce (``proving``).
* The items on an Append stream have ascending numbers, and each gets one answer.
* A ledger must be opened on a stream (the opening is acknowledged) before it is written there.
  Otherwise the write is refused with NotOpened. At most ``open_ledgers_max`` ledgers are open on a
  stream. Beyond that, the ledger without a write for the longest time is forgotten, and its writer
  opens it again. So is, on every stream, a ledger that the bookie forgets: the next one with its id
  is another ledger (``Host.forgotten``).
* The bytes without an answer are bounded for each stream. Beyond the bound the stream is not read
  until answers have left, and the network's own flow control stops the sender.
* The answers to reads and tails are also bounded over all streams. They are packed by turns
  (``turns``), so that an acknowledgement waits for at most ``TURN_BYTES_MAX`` of them, or for one
  larger answer. A transport ends the stream of a peer that takes nothing for long, so that this
  peer does not use up the share of the others.

* The streams of one principal take at most a part of what there is for all (``shares``).

* What a caller asks is checked against its rights (``access``) before anything is done.

A peer that breaks a rule loses its stream, and is told the reason. Other streams are not affected.

Acknowledgements are coalesced like everything else: while one message of them is being sent, more
of them gather for the next.
"""

import asyncio
import dataclasses
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing, contextmanager
from functools import partial
from itertools import islice
from typing import Final

from zonekeeper.placement.base.ids import BookieId, LedgerId
from zonekeeper.wire.contract import messages, service
from zonekeeper.wire.contract.inlets import Inlet, Outlet, PipedOutlet
from zonekeeper.wire.contract.pipes import Pipe, until_one_ends
from zonekeeper.wire.formats import carriers, errors, openings, versions
from zonekeeper.wire.formats.proofs import ProofAct
from zonekeeper.wire.formats.versions import WireVersions
from zonekeeper.wire.host import owning, packing
from zonekeeper.wire.host.access import Access, Guard
from zonekeeper.wire.host.host_limits import REPLY_BYTES_MAX, HostLimits
from zonekeeper.wire.host.owning import OwnedLedgers
from zonekeeper.wire.host.packing import ReplyBudget
from zonekeeper.wire.host.proving import ProofSessions
from zonekeeper.wire.host.read_stream import ReadStream, ReplyShares
from zonekeeper.wire.host.shares import PrincipalShare, PrincipalShares, Shared, StreamCaller
from zonekeeper.wire.host.turns import Turns
from zonekeeper.wire.identity import operations
from zonekeeper.wire.identity.rights import Operation

RANGES_MAX: Final = 100_000
#: In one turn of the event loop, this much of the answers to readers is packed and sent.
TURN_BYTES_MAX: Final = carriers.CARRIER_BYTES_AIM
#: A tail without news gets an update no more often than this.
QUIET_MS_MIN: Final = 1_000


#: Refusals in one message; with their texts they stay under the aim.
_REFUSED_MAX: Final = carriers.CARRIER_BYTES_AIM // (2 * carriers.DETAIL_BYTES_MAX)


class Host:
    """One bookie, ready for transports."""

    def __init__(
        self,
        bookie: service.BookieService,
        limits: HostLimits | None = None,
        *,
        speaks: WireVersions | None = versions.SPOKEN,
        access: Access | None = None,
    ) -> None:
        """Without ``access`` every caller may do everything."""
        self.bookie = bookie
        self.access = access or Access()
        #: What this side says of its versions of the wire; None: nothing.
        self.speaks = speaks
        self._limits = limits or HostLimits()
        self._replies = ReplyBudget(self._limits.all_replies_bytes_max)
        self._turns = Turns(TURN_BYTES_MAX)
        self._reply_shares = ReplyShares(self._limits, self._replies, self._turns)
        #: What each principal takes of this host.
        self.shares = PrincipalShares(self._limits, self.access)
        self._proofs = ProofSessions(bookie.bookie_id)
        self._tails = 0
        #: The Append streams that are being served.
        self._appending: dict[_AppendStream, None] = {}

    @property
    def reply_bytes(self) -> int:
        """The bytes of answers to reads and tails that have not left."""
        return self._replies.taken

    def meet(self, client: WireVersions | None, name: BookieId) -> int:
        """Give the wire version for a client that speaks these; raises UnsupportedVersion.

        A transport asks this before each request and stream, and does nothing if it raises.
        """
        return versions.common(client, self.speaks, name)

    async def serve_appends(
        self, pipe: Pipe, wire_version: int = 1, guard: Guard | None = None
    ) -> None:
        """Serve an Append stream until it ends; raises the error that ended it.

        ``guard`` is that of the connection; None: there is no TLS.
        """
        outlet = PipedOutlet()
        with self.appending(outlet, wire_version, guard) as stream:
            await outlet.exchange(pipe, stream)

    @contextmanager
    def appending(
        self, outlet: Outlet, wire_version: int, guard: Guard | None = None
    ) -> Iterator[Inlet]:
        """Give an Append stream, which lasts as long as the block, and greet on it.

        After that it still gets answers from the bookie. They are dropped.
        """
        guard = guard or self.nobody()
        with self.shares.joined(guard, Shared.STREAMS) as share:
            caller = StreamCaller(guard, self._proofs.begun(), share)
            stream = _AppendStream(self.bookie, self._limits, wire_version, outlet, caller)
            outlet.put(caller.session.hello(self.bookie.boot_epoch, wire_version))
            self._appending[stream] = None
            share.follow(stream)
            try:
                yield stream
            finally:
                stream.end()
                del self._appending[stream]

    def forgotten(self, ledger_id: LedgerId) -> None:
        """Close a ledger on all streams; the bookie calls this when it forgets the ledger.

        A frame names only the ledger's id. So a writer that still has its lane could write into a
        ledger that is made anew under the id. It must open the ledger again, and its create token
        then shows that this is another one. Not promised: two writers of one connection, one of
        each ledger, are not told apart once the later one has opened its ledger. So a client ends
        the earlier one.
        """
        for stream in self._appending:
            stream.forgotten(ledger_id)

    async def serve_reads(
        self, pipe: Pipe, wire_version: int = 1, guard: Guard | None = None
    ) -> None:
        """Serve a Read stream until it ends; raises the error that ended it."""
        guard = guard or self.nobody()
        with (
            self.shares.joined(guard, Shared.STREAMS) as share,
            self._proofs.reading() as session,
        ):
            await pipe.send(session.hello(self.bookie.boot_epoch, wire_version))
            caller = StreamCaller(guard, session, share)
            stream = ReadStream(self.bookie, self._reply_shares, wire_version, caller)
            try:
                await until_one_ends(
                    partial(stream.take_in, pipe),
                    partial(stream.answer, pipe),
                    session.until_guessing,
                )
            finally:
                stream.ended()

    async def fence(self, asked: messages.FenceCall) -> service.LacEvidence:
        """Fence a ledger."""
        with self._proofs.called(ProofAct.FENCE, asked.ledger_id, asked.master_key) as shown:
            assert shown is not None, "a fence shows a key"
            return await self.bookie.fence(asked.ledger_id, shown, asked.create_token)

    async def read_lac(self, asked: messages.LedgerCall) -> service.LacEvidence:
        """Give the evidence for the LAC."""
        with self._proofs.called(ProofAct.READ_LAC, asked.ledger_id, asked.key) as shown:
            return await self.bookie.read_lac(asked.ledger_id, shown)

    async def force(self, asked: messages.LedgerCall) -> None:
        """Return when all that was acknowledged is on disk."""
        with self._proofs.called(ProofAct.FORCE, asked.ledger_id, asked.key) as shown:
            await self.bookie.force(asked.ledger_id, shown)

    async def list_entries(self, request: service.ListEntriesRequest) -> service.EntryRanges:
        """List a page that is not too long for a message."""
        bounded = min(request.ranges_max, RANGES_MAX)
        with self._proofs.called(ProofAct.LIST, request.ledger_id, request.key) as shown:
            return await self.bookie.list_entries(
                dataclasses.replace(request, ranges_max=bounded, key=shown)
            )

    async def tail(
        self, request: service.TailRequest, guard: Guard
    ) -> AsyncGenerator[service.TailUpdate, None]:
        """Follow a ledger; updates are neither too large nor too frequent."""
        with (
            self._proofs.called(ProofAct.TAIL, request.ledger_id, request.key) as shown,
            self.shares.joined(guard, Shared.TAILS) as share,
        ):
            bounded = self._bounded(dataclasses.replace(request, key=shown), share)
            async with aclosing(bounded) as updates:
                async for update in updates:
                    yield update

    async def _bounded(
        self, request: service.TailRequest, share: PrincipalShare
    ) -> AsyncGenerator[service.TailUpdate, None]:
        bounded = dataclasses.replace(
            request,
            bytes_max=min(request.bytes_max, REPLY_BYTES_MAX),
            quiet_ms=max(request.quiet_ms, QUIET_MS_MIN),
        )
        if self._tails >= self._limits.tails_max:
            raise errors.TooManyRequests(f"{self._tails} ledgers are followed here: go elsewhere")
        self._tails += 1
        try:
            async with aclosing(self.bookie.tail(bounded)) as updates:
                async for update in updates:
                    size_bytes = sum(frame.size_bytes for frame in update.frames)
                    budgets = (share.replies, self._replies)
                    await packing.room_in(*budgets)
                    for budget in budgets:
                        budget.take(size_bytes)
                    try:
                        await self._turns.mine(size_bytes)
                        yield update
                    finally:
                        for budget in budgets:
                            budget.take(-size_bytes)
        finally:
            self._tails -= 1

    async def check_owner(
        self, guard: Guard, operation: Operation, ledger_id: LedgerId, create_token: int = 0
    ) -> None:
        """Raise NotPermitted for a ledger of another owner, or why the owner is not known."""
        await owning.check(self.bookie, guard, operation, ledger_id, create_token)

    def nobody(self) -> Guard:
        """Give the guard of a caller whom no certificate names."""
        return self.access.guard(None, "a peer without TLS")


class _AppendStream:
    """One Append stream; the ``service.Replies`` for the requests that came on it.

    Acks leave in the turn of the loop in which the bookie gives them: it gives those of one sync
    together. Refusals leave at the end of the turn, because each is given alone.
    """

    def __init__(
        self,
        bookie: service.BookieService,
        limits: HostLimits,
        wire_version: int,
        outlet: Outlet,
        caller: StreamCaller,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._guard = caller.guard
        self._outlet = outlet
        self._session = caller.session
        self._share = caller.share
        self._is_over = False
        #: Nothing is handed over: there is no room.
        self._is_held = False
        #: Answers are sent at the end of this turn of the loop.
        self._is_answering = False
        self._bookie = bookie
        self._limits = limits
        self._wire_version = wire_version
        #: The ledgers that are open, the least recently written first.
        self._opened: OrderedDict[LedgerId, None] = OrderedDict()
        #: Openings without an answer: number to ledger.
        self._opening: dict[int, LedgerId] = {}
        self._owned = OwnedLedgers(caller.guard, self._opening)
        self._last_number = -1
        #: Requests that the bookie has and has not answered: number to bytes.
        self._waiting: dict[int, int] = {}
        self._waiting_bytes = 0
        #: Bytes of the message that is being taken, as far as it was admitted.
        self._coming_bytes = 0
        #: Answers that have not left.
        self._acked: list[int] = []
        self._refused: deque[carriers.Refused] = deque()
        #: The number of answers in the message that is being sent.
        self._leaving = 0

    @property
    def peer(self) -> object:
        return self

    def acked(self, numbers: Sequence[int]) -> None:
        if self._is_over:
            for number in numbers:
                self._give_back(number)
            return
        for number in numbers:
            self._release(number)
            if self._opening and (ledger_id := self._opening.pop(number, None)) is not None:
                self._open(number, ledger_id)
        self._acked.extend(numbers)
        self._answer()

    def refused(self, number: int, error: errors.ProtocolError) -> None:
        if self._is_over:
            self._give_back(number)
            return
        self._release(number)
        if self._opening.pop(number, None) is not None:
            self._session.heard(error)
            self._owned.not_opened(number)
        self._refuse(number, error)

    def forgotten(self, ledger_id: LedgerId) -> None:
        self._opened.pop(ledger_id, None)
        self._owned.forget(ledger_id)
        # Openings that were decided before open nothing when they are acknowledged.
        for number in [each for each, opens in self._opening.items() if opens == ledger_id]:
            del self._opening[number]
            self._owned.not_opened(number)

    def taken(self, message: bytes | bytearray) -> None:
        items = packing.items(message, self._wire_version)
        if self._owned.is_another_caller_s():
            self._opened.clear()
            self._opening.clear()  # what was decided for another caller opens nothing
            self._owned.clear()
        openings_before = len(self._opening)
        self._coming_bytes = 0
        admitted = [self._admit(item) for item in items]
        accepted = [item for item in admitted if item is not None]
        if len(self._opening) > openings_before:
            for item in accepted:  # each opening may be a guess, and a carrier holds thousands
                self._session.refuse_guessing()
                self._hand_over((item,))
        elif accepted:
            self._hand_over([*accepted])

    def _hand_over(self, items: Sequence[tuple[carriers.Request, int]]) -> None:
        """Give requests to the bookie; they count from now on, because it answers each."""
        total = 0
        for item, size_bytes in items:
            self._waiting[item.number] = size_bytes
            total += size_bytes
        self._waiting_bytes += total
        self._share.take(total)
        self.look_for_room()
        self._bookie.append([item for item, _ in items], self)

    def has_room_again(self) -> None:
        self._answer()

    def end(self) -> None:
        """Drop all further answers; what the bookie has not answered yet counts until then."""
        self._is_over = True
        self._share.leave(self)

    def _answer(self) -> None:
        self._is_answering = False
        while self._outlet.has_room and not self._is_over:
            self._leaving = 0  # what was put before has left, or is the network's
            if not (items := self._take_answers()):
                break
            self._outlet.put(carriers.build(items, self._wire_version))
        self.look_for_room()

    def _open(self, number: int, ledger_id: LedgerId) -> None:
        self._owned.opened(number, ledger_id)
        self._opened[ledger_id] = None
        self._opened.move_to_end(ledger_id)
        if len(self._opened) > self._limits.open_ledgers_max:
            self._owned.forget(self._opened.popitem(last=False)[0])

    def _admit(self, item: carriers.Item) -> tuple[carriers.Request, int] | None:
        """Check an item against the rules, and give its bytes; None if it was refused already."""
        match item:
            case carriers.Append(frame=frame):
                ledger_id, size_bytes = frame.ledger_id, frame.size_bytes
            case carriers.WriteLac(ledger_id=ledger_id, packet=packet):
                size_bytes = len(packet)
            case carriers.Open(opening=opening):
                ledger_id, size_bytes = opening.ledger_id, openings.memory_of(opening)
            case _:
                raise errors.BadRequest(f"{item} does not belong on an Append stream")
        if item.number <= self._last_number:
            raise errors.BadRequest(f"append {item.number} came after {self._last_number}")
        self._last_number = item.number
        operation = operations.of_item(item)
        refusal: errors.ProtocolError | None = self._guard.refusal(operation, ledger_id)
        if refusal is None and self._owned and not isinstance(item, carriers.Open):
            refusal = self._owned.refusal(operation, ledger_id)
        if refusal is None and not isinstance(item, carriers.Open):
            refusal = self._share.refusal(self._coming_bytes, size_bytes)
        if refusal is not None:
            self._refuse(item.number, refusal)
            return None
        if isinstance(item, carriers.Open):
            self._opening[item.number] = ledger_id
            item = self._session.of_opening(item)
            if (judge := self._owned.judge(item.number, ledger_id)) is not None:
                item = dataclasses.replace(item, judge=judge)
        elif ledger_id in self._opened:
            self._opened.move_to_end(ledger_id)
        else:
            self._refuse(
                item.number,
                errors.NotOpened(
                    f"ledger {ledger_id} is not open on this stream; open a fragment first"
                ),
            )
            return None
        self._coming_bytes += size_bytes
        return item, size_bytes

    def _release(self, number: int) -> None:
        self._give_back(number)
        self.look_for_room()

    def _give_back(self, number: int) -> None:
        assert number in self._waiting, "a bookie answers each append once"
        size_bytes = self._waiting.pop(number)
        self._waiting_bytes -= size_bytes
        self._share.give(size_bytes)

    def look_for_room(self) -> None:
        """Take requests as long as there is room, and let none come otherwise."""
        if self._is_over:
            return
        answers = self._leaving + len(self._acked) + len(self._refused)
        limits = self._limits
        has_room = self._waiting_bytes <= limits.append_bytes_max and answers < limits.answers_max
        has_room = has_room and not self._share.is_full
        if has_room and self._is_held:
            self._is_held = False
            self._outlet.go_on()
        elif not has_room and not self._is_held:
            self._is_held = True
            self._outlet.hold()

    def _refuse(self, number: int, error: errors.ProtocolError) -> None:
        refused = carriers.Refused(number=number, code=error.code, detail=error.detail)
        self._refused.append(refused)
        if not self._is_answering:
            self._is_answering = True
            self._loop.call_soon(self._answer)
        self.look_for_room()

    def _take_answers(self) -> list[carriers.Item]:
        """Give answers for one message: acks first, as runs, because they free budget."""
        items: list[carriers.Item] = []
        acked, self._acked = self._acked, []
        for first, last in packing.runs(sorted(acked)):
            if len(items) < carriers.ITEMS_MAX:
                items.append(carriers.Acked(number=first, last=last))
            else:
                self._acked.extend(range(first, last + 1))
        room = min(carriers.ITEMS_MAX - len(items), _REFUSED_MAX)
        refused = list(islice(self._refused, room))
        for _ in refused:
            self._refused.popleft()
        self._leaving = len(acked) - len(self._acked) + len(refused)
        return [*items, *refused]
