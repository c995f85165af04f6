"""A ledger's writer, as an application has it.

``append`` gives an entry its id and returns; the network is never waited for. What was appended is
acknowledged in the order of its ids, and ``flushed`` waits for that. The bytes that are held for
entries are limited: when they are spent ``append`` waits, ``append_nowait`` raises, and nothing of
what was refused was begun.

A ledger with deferred sync is for those who append much and can lose the last of it: bookies answer
before they have synced. ``flushed`` then says only that an ack quorum has the entry, which a power
loss may undo; ``force`` makes durable what was appended, and the ledger is confirmed up to there,
and no further. Closing forces first. When half of the byte budget is not forced, the writer forces
by itself.

Each method may be cancelled. An ``append`` that was cancelled has appended nothing; the others only
wait, so what they waited for goes on.
"""

import asyncio
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Final, NoReturn, Self

from zonekeeper.client.base import errors
from zonekeeper.client.sessions.owner import Owner
from zonekeeper.client.sessions.write_session import WriteSession
from zonekeeper.client.writing.batches import ENTRY_OVERHEAD_BYTES
from zonekeeper.placement.base.ids import BookieId, EntryId, LedgerId
from zonekeeper.wire.formats import carriers, entries

#: After appending so much without a pause the loop gets a turn, or nothing would ever be sent.
TURN_BYTES: Final = carriers.CARRIER_BYTES_AIM
#: A writer that closes waits so long for bookies that its ack quorum did not need. Without that,
#: who writes little and closes at once leaves ledgers that lack copies until they are checked.
LAGGARDS_MS: Final = 1_000
#: Whether a writer is quiet is looked at so seldom at least, however soon it counts as quiet.
_LOOK_AGAIN_S: Final = 0.001

Data = bytes | bytearray | memoryview


def as_bytes(data: Data) -> bytes:
    """Give what cannot change any more; raises TypeError, for ``bytes`` itself takes a number."""
    if isinstance(data, bytes):
        return data
    if not isinstance(data, bytearray | memoryview):
        raise TypeError(
            f"an entry is bytes, a bytearray or a memoryview, not {type(data).__name__}; "
            "it was not appended"
        )
    return bytes(data)


def as_many(many: Iterable[Data]) -> Iterable[Data]:
    """Give several entries; raises TypeError for the bytes of one, which are numbers."""
    if isinstance(many, bytes | bytearray | memoryview):
        raise TypeError(
            f"append_many takes several entries, such as a list of bytes, not one of "
            f"{type(many).__name__}: use append; nothing was appended"
        )
    return many


class Writer:
    """The one writer of a ledger. Closing it closes the ledger; ``async with`` does."""

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
        #: Why the ledger was not closed at what was appended.
        self._failure: errors.ClientError | None = None

    @property
    def last_appended(self) -> EntryId:
        """The last id that was given out; -1: none."""
        return self._session.last_appended

    @property
    def last_confirmed(self) -> EntryId:
        """Up to here everything is acknowledged for good; -1: nothing."""
        return self._session.core.confirmed

    @property
    def used_bytes(self) -> int:
        """What is held of the byte budget now."""
        return self._session.used_bytes

    @property
    def ensemble(self) -> tuple[BookieId, ...]:
        """The bookies that are written to now."""
        return self._session.core.ensemble

    async def append(self, data: Data) -> EntryId:
        """Append an entry, waiting only while the byte budget is spent."""
        payload = self._payload(data)
        if self._without_turn_bytes >= TURN_BYTES:
            self._without_turn_bytes = 0
            await asyncio.sleep(0)
        while not self._has_room(len(payload)):
            await self._session.room()
        return self._put(payload)

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

    async def append_many(self, many: Iterable[Data]) -> EntryId:
        """Append entries in order, and give the id of the last one (or of the last before).

        Where that is cancelled or fails, some were appended: ``last_appended`` says which was the
        last.
        """
        last = before = self.last_appended
        try:
            for data in as_many(many):
                last = await self.append(data)
        except errors.ClientError as error:
            error.maybe_applied = error.maybe_applied or last != before
            raise
        return last

    async def append_and_wait(self, data: Data) -> EntryId:
        """Append an entry, and wait until it is acknowledged."""
        entry_id = await self.append(data)
        await self.flushed(entry_id)
        return entry_id

    async def flushed(self, entry_id: EntryId) -> None:
        """Wait until an entry, and so everything before it, is acknowledged.

        With deferred sync: by bookies that may not have synced it.
        """
        if entry_id > self.last_appended:
            raise ValueError(
                f"ledger {self.ledger_id}: entry {entry_id} was not appended; "
                f"the last one is {self.last_appended}"
            )
        await self._session.written(entry_id)

    async def flush(self) -> None:
        """Wait until everything that was appended so far is acknowledged."""
        await self.flushed(self.last_appended)

    async def force(self) -> None:
        """Wait until everything that was appended so far is on disk, and readers may see it.

        Without deferred sync that is so when it is flushed.
        """
        await self._session.forced(self.last_appended)

    async def tell_confirmed(self) -> None:
        """Have every reader who asks from now on hear of ``last_confirmed``.

        Readers hear of entries by those behind them, and of the last ones when the writer has been
        quiet for a moment; this is for who cannot wait for that. Raises ``LacNotTold`` if too few
        bookies can be told; the writer goes on.
        """
        if self._over:
            self._refuse()
        await self._session.lac_known()

    async def close(self) -> None:
        """Wait for what was appended, and close the ledger behind it; twice is as good as once.

        Bookies that the ack quorum did not need get a moment to have their copies, too.

        Raises what stopped the writer, if something did; the ledger is then closed at its LAC, or
        left to a recovery.
        """
        if self._closed:
            if self._failure is not None:
                raise self._failure.with_traceback(None)
            return
        self._closing = True
        core = self._session.core
        try:
            await self.force()
            await self._session.copied(LAGGARDS_MS)
            await self._owner.close(core.confirmed, core.confirmed_length)
        except errors.ClientError as error:
            if error.retryable:
                raise  # the ledger may still be closed: call again
            await self._session.settled()
            self._failure = error
            self._end()
            raise
        self._end()

    def halt(self) -> None:
        """Stop without a word, as a process does that dies; the ledger is left to a recovery."""
        self._closing = True
        if not self._closed:
            # Who closes it now must not hear that it is closed.
            self._failure = errors.WriterClosed(
                f"ledger {self.ledger_id}: the writer was halted, by its owner or with its client, "
                "and the ledger is not closed; whoever opens it recovers it, and may find there "
                f"what was appended behind entry {self.last_confirmed}",
                maybe_applied=True,
            )
        self._end()

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

    def _payload(self, data: Data) -> bytes:
        """Give what is appended, as what cannot change any more."""
        if self._over:
            self._refuse()
        payload = as_bytes(data)
        if len(payload) > entries.PAYLOAD_BYTES_MAX:
            raise errors.TooLarge(
                f"ledger {self.ledger_id}: an entry of {len(payload)} bytes; "
                f"the limit is {entries.PAYLOAD_BYTES_MAX}: split it"
            )
        return payload

    @property
    def _over(self) -> bool:
        """Can nothing be begun any more?"""
        return self._closing or self._session.stopped is not None

    def _refuse(self) -> NoReturn:
        """Say why nothing is begun any more; what stopped the writer comes first."""
        stopped = self._session.stopped
        if isinstance(stopped, errors.WriterStopped | errors.ClientClosed):
            raise type(stopped)(
                f"ledger {self.ledger_id}: the writer has stopped, and nothing more is begun: "
                f"{stopped}",
                maybe_applied=False,
            ) from stopped
        raise errors.WriterClosed(
            f"ledger {self.ledger_id}: the writer was closed or halted, and nothing more is begun"
        )

    def _has_room(self, payload_bytes: int) -> bool:
        """Is there budget? One entry may always be held; a stopped writer refuses otherwise."""
        used = self._session.used_bytes
        return used == 0 or used + payload_bytes + ENTRY_OVERHEAD_BYTES <= self._budget_bytes

    def _put(self, payload: bytes) -> EntryId:
        if self._over:  # it has ended while this append waited
            self._refuse()
        self._without_turn_bytes += len(payload) + ENTRY_OVERHEAD_BYTES
        self._appended_s = self._loop.time()
        if self._quiet_timer is None:
            self._quiet_timer = self._loop.call_later(self._quiet_s, self._look_quiet)
        return self._session.put(payload)

    def _look_quiet(self) -> None:
        """Tell the LAC if nothing was appended for a while, and all of it is acknowledged."""
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
