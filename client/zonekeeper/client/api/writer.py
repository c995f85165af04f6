"""The writer of a ledger, for applications.

``append`` gives an entry its id and returns; it does not wait for the network. Entries are
acknowledged in the order of their ids, and ``flushed`` waits for that. The bytes that the writer
holds for entries have a budget. When the budget is spent, ``append`` waits and ``append_nowait``
raises; an entry that is refused was not appended.

A ledger with deferred sync is for an application that appends much and can lose the last entries.
Bookies then acknowledge before they have synced. ``flushed`` says only that an ack quorum has
written the entry, which a power loss may undo. ``force`` makes all appended entries durable, and
the ledger is confirmed only up to the last forced entry. ``close`` forces first. When entries that
are not forced fill half of the byte budget, the writer forces by itself.

Each method may be cancelled. A cancelled ``append`` has appended nothing. A cancelled
``append_many`` may have appended some. The other methods only wait; cancelling them does not stop
the writer's work. A method whose ``timeout`` (in seconds) is over is cancelled, too, and raises
``WaitTimedOut``. A method that need not wait succeeds whatever its timeout is.
"""

import asyncio
import warnings
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Final, NoReturn, Self

from zonekeeper.client.api import entry_data
from zonekeeper.client.api.entry_data import Data
from zonekeeper.client.base import errors, time_limits
from zonekeeper.client.base.time_limits import TimeLimit
from zonekeeper.client.sessions.owner import Owner
from zonekeeper.client.sessions.write_session import WriteSession
from zonekeeper.client.writing import writer_events as ev
from zonekeeper.client.writing.batches import ENTRY_OVERHEAD_BYTES
from zonekeeper.placement.base.ids import BookieId, EntryId, LedgerId
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.wire.formats import carriers, entries
from zonekeeper.wire.formats import errors as wire_errors

#: After so many appended bytes ``append`` yields to the event loop once. Without that a long run of
#: appends would keep the loop from sending.
TURN_BYTES: Final = carriers.CARRIER_BYTES_AIM
#: The longest time that ``close`` waits for bookies that the ack quorum did not need. Without this
#: wait, a short ledger that is closed at once would lack copies until a check finds that.
LAGGARDS_MS: Final = 1_000
#: The shortest pause between two looks whether the writer is quiet, for any ``quiet_ms``.
_LOOK_AGAIN_S: Final = 0.001


class Writer:
    """The one writer of a ledger. ``close``, or the end of ``async with``, closes the ledger."""

    def __init__(
        self,
        ledger_id: LedgerId,
        session: WriteSession,
        owner: Owner,
        *,
        budget_bytes: int,
        quiet_ms: int,
        on_end: Callable[[], object],
    ) -> None:
        self.ledger_id = ledger_id
        self._session = session
        self._owner = owner
        self._budget_bytes = budget_bytes
        self._quiet_s = quiet_ms / 1_000
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        self._quiet_timer: asyncio.TimerHandle | None = None
        self._appended_s = 0.0
        self._without_turn_bytes = 0
        self._closing = False
        self._closed = False
        #: Why the ledger was not closed at the last appended entry; None: it was, or is still open.
        self._failure: errors.ClientError | None = None

    def __repr__(self) -> str:
        return (
            f"<Writer of ledger {self.ledger_id}: {self._state}, appended to {self.last_appended}, "
            f"confirmed to {self.last_confirmed}, on {', '.join(self.ensemble)}>"
        )

    @property
    def _state(self) -> str:
        """Say in a word or two how far the writer's life is, for people."""
        stopped = self._session.stopped
        if self._closed and self._failure is None:
            return "closed"
        if isinstance(self._failure, errors.WriterClosed):
            return "halted, and its ledger is not closed"
        if isinstance(stopped, errors.WriterStopped | errors.ClientClosed):
            return f"stopped ({type(stopped).__name__}: {stopped})"
        return "closing" if self._closing else "open"

    @property
    def last_appended(self) -> EntryId:
        """The last entry id that was given out; -1: none."""
        return self._session.last_appended

    @property
    def last_confirmed(self) -> EntryId:
        """The last entry up to which everything is acknowledged for good; -1: none."""
        return self._session.core.confirmed

    @property
    def used_bytes(self) -> int:
        """The bytes of the budget in use now."""
        return self._session.used_bytes

    @property
    def ensemble(self) -> tuple[BookieId, ...]:
        """The bookies that the writer writes to now."""
        return self._session.core.ensemble

    @property
    def behind(self) -> dict[BookieId, EntryId]:
        """For each member that owes an answer: the first entry that it has not answered for.

        A member that has failed, and whose place is to be taken, is not among them.
        """
        seats = self._session.core.seating.seats
        sent, found = max(seat.following for seat in seats), dict[BookieId, EntryId]()
        for seat in seats:
            lane = self._session.lanes.get(seat.term)
            unanswered = [] if lane is None else lane.sink.unanswered
            first = min([seat.following, *unanswered])
            if not seat.failed and first < sent:
                found[seat.bookie] = first
        return found

    @property
    def quorums(self) -> Quorums:
        """The quorums of the ledger."""
        return self._session.core.seating.quorums

    def can_lose(self, bookie: BookieId) -> bool:
        """Can everything that is under way be acknowledged without a member?"""
        return self._session.core.seating.can_lose(bookie)

    def give_up(self, bookie: BookieId, why: str) -> None:
        """Treat a member as failed: another bookie takes its place, if there is one.

        New ensembles of this client avoid the bookie for a while. A bookie that is no member, or
        has failed already, changes nothing.
        """
        self._session.home.check()
        for seat in self._session.core.seating.seats:
            if seat.bookie == bookie and not seat.failed:
                error = wire_errors.TooManyRequests(why)
                self._session.feed(ev.LaneRefused(term=seat.term, error=error))

    async def prepare(self, timeout: float | None = None) -> None:
        """Open the ledger at its bookies before there is an entry, and wait for their answers.

        Without this call it is opened when the first entry is sent, which then waits for that. A
        bookie that cannot be prepared is replaced with the first entry, as ever.
        """
        limit = time_limits.of(timeout)
        self._session.home.check()
        if self._over:
            self._refuse()
        await limit.hold(
            self._prepared(),
            lambda: self._not_yet(
                "not all of its bookies have opened it yet. They go on: append, or prepare() again"
            ),
        )

    async def _prepared(self) -> None:
        self._session.feed(ev.LanesWanted())
        await self._session.while_so(lambda: self._session.core.seating.opening)
        if self._session.stopped is not None:
            self._refuse()

    async def append(self, data: Data, timeout: float | None = None) -> EntryId:
        """Append an entry; wait only while the byte budget is spent."""
        return await self._append(data, time_limits.of(timeout))

    async def _append(self, data: Data, limit: TimeLimit) -> EntryId:
        payload = self._payload(data)
        if self._without_turn_bytes >= TURN_BYTES:
            self._without_turn_bytes = 0
            await asyncio.sleep(0)
        if not self._has_room(len(payload)):
            await limit.hold(self._room(len(payload)), lambda: self._no_room(len(payload)))
        return self._put(payload)

    async def _room(self, payload_bytes: int) -> None:
        while not self._has_room(payload_bytes):
            await self._session.room()

    def _no_room(self, payload_bytes: int) -> errors.WaitTimedOut:
        return errors.WaitTimedOut(
            f"ledger {self.ledger_id}: no room for an entry of {payload_bytes} bytes, as "
            f"{self._session.used_bytes} of {self._budget_bytes} bytes are not acknowledged. The "
            f"entry was not appended; the last one that was is entry {self.last_appended}. Append "
            "it again, or await flushed() before (with deferred sync: force())"
        )

    def append_nowait(self, data: Data) -> EntryId:
        """Append an entry, or raise ``BudgetSpent``."""
        payload = self._payload(data)
        if not self._has_room(len(payload)):
            raise errors.BudgetSpent(
                f"ledger {self.ledger_id}: {self._session.used_bytes} of {self._budget_bytes} "
                "bytes are not acknowledged; await flushed() (with deferred sync: force()), or use "
                "append()"
            )
        return self._put(payload)

    async def append_many(self, many: Iterable[Data], timeout: float | None = None) -> EntryId:
        """Append entries in order; give the id of the last one, or ``last_appended`` if none came.

        If the call is cancelled or fails, some entries may have been appended: ``last_appended``
        says which was the last.
        """
        limit = time_limits.of(timeout)
        with entry_data.several(self.last_appended) as done:
            for data in entry_data.as_many(many):
                done.last = await self._append(data, limit)
        return done.last

    async def append_and_wait(self, data: Data, timeout: float | None = None) -> EntryId:
        """Append an entry, and wait until it is acknowledged.

        ``WaitTimedOut`` says whether the entry was appended (``maybe_applied``).
        """
        limit = time_limits.of(timeout)
        entry_id = await self._append(data, limit)
        await limit.hold(
            self._session.written(entry_id),
            lambda: self._not_yet(
                f"entry {entry_id} was appended and is not acknowledged yet. Do not append it "
                f"again, but wait with flushed({entry_id})"
            ),
        )
        return entry_id

    async def flushed(self, entry_id: int, timeout: float | None = None) -> None:
        """Wait until an entry, and so everything before it, is acknowledged.

        With deferred sync the bookies may not have synced it yet.
        """
        limit = time_limits.of(timeout)
        self._session.home.check()
        if entry_id > self.last_appended:
            raise ValueError(
                f"ledger {self.ledger_id}: entry {entry_id} was not appended; "
                f"the last one is {self.last_appended}"
            )
        await limit.hold(
            self._session.written(EntryId(entry_id)),
            lambda: self._not_yet(f"entry {entry_id} is not acknowledged yet. Wait for it again"),
        )

    async def flush(self, timeout: float | None = None) -> None:
        """Wait until everything that was appended so far is acknowledged."""
        await self.flushed(self.last_appended, timeout)

    async def force(self, timeout: float | None = None) -> None:
        """Wait until everything that was appended so far is on disk, and readers may see it.

        Without deferred sync this is the same as ``flush``.
        """
        last, limit = self.last_appended, time_limits.of(timeout)
        self._session.home.check()
        await limit.hold(
            self._session.forced(last),
            lambda: self._not_yet(
                f"not all entries up to {last} are on disk yet, but those up to "
                f"{self.last_confirmed}. Call force() again"
            ),
        )

    async def tell_confirmed(self, timeout: float | None = None) -> None:
        """Make ``last_confirmed`` known to every reader that asks from now on.

        Without this call, a reader learns of an entry through later entries, and of the last
        entries when the writer has been quiet for a moment. Call it if a reader must not wait for
        that. Raises ``LacNotTold`` if too few bookies can be told; the writer goes on.
        """
        limit = time_limits.of(timeout)
        self._session.home.check()
        if self._over:
            self._refuse()
        await limit.hold(
            self._session.lac_known(),
            lambda: self._not_yet(
                f"too few bookies have said that they know the LAC, entry {self.last_confirmed}; "
                "some may know it. Call tell_confirmed() again"
            ),
        )

    async def close(self, timeout: float | None = None) -> None:
        """Wait until everything appended is acknowledged; close the ledger at its last entry.

        Bookies that the ack quorum did not need get ``LAGGARDS_MS`` to acknowledge, too. If the
        writer has stopped, this raises the error that stopped it. The ledger is then closed at its
        LAC, or left to a recovery.

        After a retryable error, call it again. Once the writer has ended, another call does
        nothing, or raises the same error.
        """
        limit = time_limits.of(timeout)
        self._session.home.check()
        await limit.hold(
            self._close(),
            lambda: self._not_yet(
                "it may be closed or not, and nothing can be appended to it any more. Call close() "
                "again"
            ),
        )

    async def _close(self) -> None:
        if self._closed:
            if self._failure is not None:
                raise self._failure.with_traceback(None)
            return
        self._closing = True
        core = self._session.core
        try:
            await self._session.forced(self.last_appended)
            await self._session.copied(LAGGARDS_MS)
            await self._owner.close(core.confirmed, core.confirmed_length)
        except errors.ClientError as error:
            if error.retryable:
                raise  # a second call may still close the ledger
            await self._session.settled()
            self._failure = error
            self._end()
            raise
        self._end()

    def halt(self) -> None:
        """Stop at once, like a process that dies; the ledger is left to a recovery."""
        self._session.home.check()
        self._closing = True
        if not self._closed:
            # A later ``close`` must raise this: the ledger is not closed.
            self._failure = errors.WriterClosed(
                f"ledger {self.ledger_id}: the writer was halted, by its owner or with its client, "
                "and the ledger is not closed; opening it recovers it, and may find entries that "
                f"were appended after entry {self.last_confirmed}",
                maybe_applied=True,
            )
        self._end()

    def __del__(self, _warn: Callable[..., None] = warnings.warn) -> None:
        """Warn of a writer that was dropped; its entries have gone out, or it has stopped.

        No warning: the application closed or halted it, its client ended, a call has raised why it
        stopped, or this is a copy in a process that was forked.
        """
        session = self._session
        if self._closing or session.home.forked or (session.stopped is not None and session.told):
            return
        lacking = session.lacking
        lost = f", and {lacking[0]} to {lacking[-1]} are not acknowledged" if lacking else ""
        _warn(
            f"ledger {self.ledger_id}: its writer was dropped and never closed{lost}: the ledger "
            "stays open until a recovery closes it; close writers, or use them in `async with`",
            ResourceWarning,
            source=self,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            await self.close()
        elif isinstance(error, Exception):
            try:
                await self.close()
            except errors.ClientError as second:
                error.add_note(f"closing ledger {self.ledger_id} failed, too: {second}")
        else:
            self.halt()

    def _not_yet(self, what: str) -> errors.WaitTimedOut:
        """Give the error of a call that waits for what the writer goes on to do."""
        return errors.WaitTimedOut(f"ledger {self.ledger_id}: {what}", maybe_applied=True)

    def _payload(self, data: Data) -> bytes:
        """Check the data of an entry, and give it as bytes."""
        self._session.home.check()
        if self._over:
            self._refuse()
        payload = entry_data.as_bytes(data)
        if len(payload) > entries.PAYLOAD_BYTES_MAX:
            raise errors.TooLarge(
                f"ledger {self.ledger_id}: an entry of {len(payload)} bytes; "
                f"the limit is {entries.PAYLOAD_BYTES_MAX}: split it"
            )
        return payload

    @property
    def _over(self) -> bool:
        """Is the writer closing, closed or stopped, so that nothing may be begun?"""
        return self._closing or self._session.stopped is not None

    def _refuse(self) -> NoReturn:
        """Raise why nothing is begun any more; the error that stopped the writer comes first."""
        stopped = self._session.stopped
        if isinstance(stopped, errors.WriterStopped | errors.ClientClosed):
            self._session.told = True
            raise type(stopped)(
                f"ledger {self.ledger_id}: the writer has stopped, and nothing more is begun: "
                f"{stopped}",
                maybe_applied=False,
            ) from stopped
        raise errors.WriterClosed(
            f"ledger {self.ledger_id}: the writer was closed or halted, and nothing more is begun"
        )

    def _has_room(self, payload_bytes: int) -> bool:
        """Does an entry fit into the budget? If nothing is held, an entry of any size does.

        After a stop nothing is held, so this is true, and ``_put`` refuses the entry.
        """
        used = self._session.used_bytes
        return used == 0 or used + payload_bytes + ENTRY_OVERHEAD_BYTES <= self._budget_bytes

    def _put(self, payload: bytes) -> EntryId:
        if self._over:  # the writer has ended while this append waited
            self._refuse()
        self._without_turn_bytes += len(payload) + ENTRY_OVERHEAD_BYTES
        self._appended_s = self._loop.time()
        if self._quiet_timer is None:
            self._quiet_timer = self._loop.call_later(self._quiet_s, self._look_quiet)
        return self._session.put(payload)

    def _look_quiet(self) -> None:
        """Tell the LAC if nothing was appended for ``quiet_ms`` and everything is acknowledged."""
        self._quiet_timer = None
        left_s = self._appended_s + self._quiet_s - self._loop.time()
        if left_s > 0 or not self._session.quiet:
            wait_s = max(left_s, self._quiet_s / 2, _LOOK_AGAIN_S)
            if self._session.stopped is None:
                self._quiet_timer = self._loop.call_later(wait_s, self._look_quiet)
        else:
            self._session.fell_quiet()

    def _end(self) -> None:
        self._closed = True
        if self._quiet_timer is not None:
            self._quiet_timer.cancel()
        self._on_end()
        closed = errors.WriterClosed(f"ledger {self.ledger_id}: the writer was closed")
        self._session.end(self._failure or closed)
