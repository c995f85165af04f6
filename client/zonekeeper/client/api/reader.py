"""The reader of a ledger, for applications.

A reader gives no entry beyond the confirmed end: the last entry of a closed ledger, or the LAC that
the reader knows of an open ledger. The one exception is ``read_unconfirmed``, which promises
nothing about entries beyond that end. Entries come in order, each once, and each digest is checked.
If every known replica fails, the reader reads the metadata again before it gives up, because the
ledger may have another ensemble by then.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

from zonekeeper.client.api.tail import FetchedEntries, Tail
from zonekeeper.client.base import boundary, errors, time_limits
from zonekeeper.client.base.asks import Asks
from zonekeeper.client.base.tasks import Tasks
from zonekeeper.client.reading import checking
from zonekeeper.client.reading.share_read import ReadStanding, ShareRead
from zonekeeper.client.reading.survey import Survey
from zonekeeper.client.sessions import standing
from zonekeeper.client.sessions.read_session import Reading
from zonekeeper.client.sessions.tailing import Spell
from zonekeeper.metadata.formats.ledger_metadata import Fragment, LedgerMetadata
from zonekeeper.metadata.ledgers.ledgers import NoLedgerError
from zonekeeper.placement.base.ids import EntryId, LedgerId
from zonekeeper.wire.formats import errors as wire_errors
from zonekeeper.wire.formats.entries import Entry

#: With E > Qw: the payload bytes that one window of all shares together aims at.
WINDOW_BYTES_AIM: Final = 1 << 20
#: The most entries of one window.
WINDOW_ENTRIES_MAX: Final = 4_096

#: A tail pauses when there was nothing new. The pause doubles each time, from the first value up
#: to the second.
_PAUSE_FIRST_S: Final = 0.02
_PAUSE_MAX_S: Final = 2.0
#: While its replica is silent, a tail asks the other replicas again after this many silences
#: (``tailing.QUIET_MS``) at the latest. It never stops, because a quiet writer may go on any time.
_SILENCES_MAX: Final = 8

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ReadBatch:
    """Consecutive entries, at least one."""

    entries: Sequence[Entry]

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries)

    @property
    def first(self) -> EntryId:
        """The lowest entry id."""
        return self.entries[0].entry_id

    @property
    def last(self) -> EntryId:
        """The highest entry id."""
        return self.entries[-1].entry_id


class Reader:
    """Reads one ledger, open or closed."""

    def __init__(
        self,
        ledger_id: LedgerId,
        metadata: LedgerMetadata,
        reading: Reading,
        tasks: Tasks,
    ) -> None:
        self.ledger_id = ledger_id
        self._metadata = metadata
        self._reading = reading
        self._tasks = tasks
        self._confirmed = _end_by(metadata)
        #: With E > Qw: the number of entries that the next window asks for.
        self._window = metadata.ensemble_size

    def __repr__(self) -> str:
        known = self._metadata
        return (
            f"<Reader of ledger {self.ledger_id}: {known.state.value}, confirmed to "
            f"{self._confirmed}, on {', '.join(known.last_fragment.ensemble)}>"
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Do nothing: a reader holds nothing that its client does not hold."""

    @property
    def metadata(self) -> LedgerMetadata:
        """The ledger's metadata as last read."""
        return self._metadata

    @property
    def last_confirmed(self) -> EntryId:
        """The last entry that this reader may read; -1: none."""
        return self._confirmed

    async def read_last_confirmed(self, timeout: float | None = None) -> EntryId:
        """Ask for the LAC of an open ledger; ``last_confirmed`` never falls.

        Raises ``WaitTimedOut`` after ``timeout`` seconds.
        """
        return await time_limits.of(timeout).hold(
            self._ask_last_confirmed(),
            lambda: errors.WaitTimedOut(
                f"ledger {self.ledger_id}: too few bookies have said how far it is confirmed, "
                f"which is entry {self._confirmed} or a later one: call again"
            ),
        )

    async def refresh(self, timeout: float | None = None) -> bool:
        """Read the metadata again; say whether the fragments have changed.

        Raises ``WaitTimedOut`` after ``timeout`` seconds.
        """
        return await time_limits.of(timeout).hold(
            self._refresh(),
            lambda: errors.WaitTimedOut(
                f"ledger {self.ledger_id}: the metadata store has not answered, and the metadata "
                "is as it was read before: call again"
            ),
        )

    async def _ask_last_confirmed(self) -> EntryId:
        await self._refresh()
        if not self._metadata.is_closed:
            fragment, quorums = self._metadata.last_fragment, self._reading.quorums
            found = Survey(
                quorums=quorums,
                zones=self._reading.bookies.zones(fragment.ensemble),
                last_add_confirmed=self._confirmed,
            )
            await self._reading.survey(fragment, None, found)
            if not found.complete:
                if self._tasks.over:
                    raise self._tasks.closed()
                failed = ", ".join(
                    errors.describe(fragment.ensemble[at], error)
                    for at, error in sorted(found.errors.items())
                )
                self._not_permitted(found.errors.values())
                raise errors.ReadFailed(
                    f"ledger {self.ledger_id}: too few bookies say how far it is confirmed; "
                    f"{failed}; try again"
                )
            self._confirmed = max(self._confirmed, found.last_add_confirmed)
        return self._confirmed

    async def _refresh(self) -> bool:
        self._tasks.home.check()
        cluster, token = self._reading.bookies.cluster, self._reading.create_token
        with boundary.translated(f"reading the metadata of ledger {self.ledger_id}"):
            try:
                now = await standing.look_up(cluster, self.ledger_id, token)
            except standing.MadeAnewError as error:
                raise errors.NoSuchLedger(str(error)) from error
            except NoLedgerError as error:
                raise errors.NoSuchLedger(f"ledger {self.ledger_id} was deleted") from error
        before, self._metadata = self._metadata, now
        self._confirmed = max(self._confirmed, _end_by(now))
        return before.fragments != now.fragments

    async def read(
        self, first: int = 0, last: int | None = None
    ) -> AsyncGenerator[ReadBatch, None]:
        """Read entries from ``first`` to ``last`` (None: ``last_confirmed``), in batches.

        The next batch is fetched while the caller works on one.
        """
        self._check_bounds(first, last)
        end = self._confirmed if last is None else EntryId(last)
        if end > self._confirmed:
            raise errors.BeyondEnd(
                f"ledger {self.ledger_id}: entry {end} is beyond the confirmed end, entry "
                f"{self._confirmed}; read_last_confirmed() asks for a newer one"
            )
        if first > end:
            return
        fetching = self._start(EntryId(first), end)
        try:
            while True:
                batch = await self._tasks.result(fetching)
                if isinstance(batch, errors.ClientError):
                    raise batch
                following = EntryId(batch.last + 1)
                if following <= end:
                    fetching = self._start(following, end)
                yield batch
                if following > end:
                    return
        finally:
            fetching.cancel()

    async def read_entries(
        self, first: int = 0, last: int | None = None
    ) -> AsyncGenerator[Entry, None]:
        """Read like ``read``, entry by entry."""
        async with aclosing(self.read(first, last)) as batches:
            async for batch in batches:
                for entry in batch:
                    yield entry

    async def read_unconfirmed(
        self, first: int = 0, last: int | None = None
    ) -> AsyncGenerator[ReadBatch, None]:
        """UNSAFE: read also entries beyond the confirmed end of an open ledger.

        Those entries are not acknowledged. When the ledger is recovered they may vanish, and other
        entries may take their ids. The reading ends at ``last``, or before the first entry that no
        replica has. A closed ledger is read like in ``read``, up to its end.
        """
        self._check_bounds(first, last)
        following = EntryId(first)
        while True:
            confirmed = self._confirmed if last is None else min(self._confirmed, last)
            if following <= confirmed:
                async with aclosing(self.read(following, confirmed)) as batches:
                    async for batch in batches:
                        following = EntryId(batch.last + 1)
                        yield batch
            if last is not None and following > last:
                return
            if following <= self._confirmed:  # the confirmed end has moved meanwhile
                continue
            if self._metadata.is_closed:
                return
            tried = self._metadata
            try:
                batch = await self._fetch(following, self._unconfirmed_to(following, last))
            except (errors.ReadFailed, errors.EntryLost) as error:
                if await self._is_elsewhere(tried):
                    continue
                if isinstance(error, errors.EntryLost):
                    return
                raise
            following = EntryId(batch.last + 1)
            yield batch

    def _unconfirmed_to(self, first: EntryId, last: int | None) -> EntryId:
        """Give the last entry to ask for in one request.

        With E > Qw it is one entry at a time, because striped entries beyond the end may have gaps.
        """
        if self._reading.quorums.ensemble > self._reading.quorums.write:
            return first
        end = first + WINDOW_ENTRIES_MAX - 1
        return EntryId(end if last is None else min(end, last))

    def follow(self, first: int = 0) -> Tail:
        """Follow an open ledger from an entry on, until it is closed and all entries are given.

        A failure that may pass (``retryable``) is retried without limit.
        """
        self._check_bounds(first, None)
        fetched = FetchedEntries(self.ledger_id, self._follow, self._tasks)
        return Tail(self.ledger_id, EntryId(first), fetched)

    async def _follow(self, following: EntryId) -> AsyncGenerator[Sequence[Entry], None]:
        """Give the entries of a tail. It ends by itself only when all of them were given."""
        pause_s = _PAUSE_FIRST_S
        while True:
            failed = False
            try:
                async with aclosing(self._known(following)) as batches:
                    async for batch in batches:
                        following, pause_s = EntryId(batch.last + 1), _PAUSE_FIRST_S
                        yield batch.entries
                if following <= self._confirmed:  # the confirmed end has moved meanwhile
                    continue
                if self._metadata.is_closed:
                    return
                async with aclosing(self._spell(following)) as batches:
                    async for batch in batches:
                        following, pause_s = EntryId(batch.last + 1), _PAUSE_FIRST_S
                        yield batch.entries
                await self._ask_last_confirmed()
            except errors.ClientError as error:
                if not error.retryable:
                    raise
                failed = True
                _logger.warning("following ledger %d at %d: %s", self.ledger_id, following, error)
            # A failure may repeat at once, for example of a link that backs off: so always pause.
            if failed or (following > self._confirmed and not self._metadata.is_closed):
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _PAUSE_MAX_S)

    async def _known(self, following: EntryId) -> AsyncGenerator[ReadBatch, None]:
        """Read up to the confirmed end that is known."""
        if following <= self._confirmed:
            async with aclosing(self.read(following)) as batches:
                async for batch in batches:
                    yield batch

    async def _spell(self, following: EntryId) -> AsyncGenerator[ReadBatch, None]:
        """Follow one replica until it fails or the metadata changes.

        The replica may be one that was never told the LAC. So while it has no news, the other
        replicas are asked: after 1, 2, 4 and 8 silences in a row, and then every 8 silences. If the
        others have news, the count begins anew, because the replica may lag behind.
        """
        silent = 0
        known, confirmed = self._metadata, self._confirmed
        async with Spell(self._reading, known, following, confirmed, self._tasks) as spell:
            while (update := await spell.next()) is not None:
                silent = 0 if update.frames else silent + 1
                self._confirmed = max(self._confirmed, update.last_add_confirmed)
                due = silent.bit_count() == 1 or (silent > 0 and silent % _SILENCES_MAX == 0)
                if due and following > self._confirmed:
                    with suppress(errors.ReadFailed):
                        await self._ask_last_confirmed()
                    if following <= self._confirmed:
                        silent = 0
                fresh = [
                    entry
                    for entry in checking.check(self._reading.sealer, update.frames).good
                    if entry.entry_id >= following
                ]
                if fresh and fresh[-1].entry_id - following == len(fresh) - 1:
                    following = EntryId(fresh[-1].entry_id + 1)
                    yield ReadBatch(fresh)
                async with aclosing(self._known(following)) as batches:
                    async for batch in batches:
                        following = EntryId(batch.last + 1)
                        yield batch

    def _start(
        self, first: EntryId, last: EntryId
    ) -> "asyncio.Task[ReadBatch | errors.ClientError]":
        return self._tasks.start(self._fetch_or_fail(first, last))

    async def _fetch_or_fail(self, first: EntryId, last: EntryId) -> ReadBatch | errors.ClientError:
        """Fetch a batch; give a failure as a value, because the caller may have gone."""
        tried = self._metadata
        try:
            try:
                return await self._fetch(first, last)
            except (errors.ReadFailed, errors.EntryLost):
                if not await self._is_elsewhere(tried):
                    raise
                return await self._fetch(first, last)
        except errors.ClientError as error:
            return error

    async def _is_elsewhere(self, tried: LedgerMetadata) -> bool:
        """Read the metadata again; say whether it differs from ``tried``, with which a read failed.

        The comparison is with ``tried``, because another read of this reader may have refreshed the
        metadata already.
        """
        await self._refresh()
        now = self._metadata
        return (now.fragments, now.is_closed) != (tried.fragments, tried.is_closed)

    def _check_bounds(self, first: int, last: int | None) -> None:
        """Refuse bad bounds here, before a task would fail by them."""
        self._tasks.home.check()
        for name, bound in (("first", first), ("last", last)):
            if bound is not None and not isinstance(bound, int):
                raise TypeError(
                    f"ledger {self.ledger_id}: {name} is {bound!r}; entries are numbered by "
                    "whole numbers"
                )
        if first < 0 or (last is not None and last < first):
            end = self._confirmed if last is None else last
            raise ValueError(f"ledger {self.ledger_id}: no entries from {first} to {end}")

    async def _fetch(self, first: EntryId, last: EntryId) -> ReadBatch:
        """Read some entries from ``first`` on: ``first`` itself, and perhaps more."""
        fragment, fragment_end = self._fragment(first, last)
        if self._reading.quorums.ensemble == self._reading.quorums.write:
            read = await self._reading.share(fragment, range(first, fragment_end + 1))
            return ReadBatch(self._entries(read, fragment))
        window_end = min(fragment_end, first + self._window - 1)
        return await self._fetch_window(fragment, range(first, window_end + 1))

    def _fragment(self, first: EntryId, last: EntryId) -> tuple[Fragment, int]:
        """Give the fragment that holds ``first``, and the last entry up to ``last`` in it."""
        fragment, end = self._metadata.fragment_of(first), last
        for other in self._metadata.fragments:
            if other.first_entry > first:
                end = min(end, EntryId(other.first_entry - 1))
        return fragment, end

    async def _fetch_window(self, fragment: Fragment, window: range) -> ReadBatch:
        """Read entries that are striped over the ensemble: each stripe from its own replicas.

        A replica gives as many entries as fit into one answer, so the window may have gaps. The
        entries after the first gap are dropped, and are read again later. So the size of a batch is
        bounded, even if the entries become much larger.
        """
        size = self._reading.quorums.ensemble
        stripes = [window[at::size] for at in range(min(size, len(window)))]
        found: list[Entry] = []
        async with Asks[list[Entry] | errors.ClientError](self._tasks) as asks:
            for stripe in stripes:
                asks.ask(self._stripe(fragment, stripe))
            for _ in stripes:
                answer = await asks.next()
                if isinstance(answer, errors.ClientError):
                    raise answer
                found += answer
        found.sort()
        read_bytes = sum(len(entry.payload) for entry in found)
        fitting = WINDOW_BYTES_AIM * len(found) // max(read_bytes, 1)
        self._window = max(1, min(2 * self._window, fitting, WINDOW_ENTRIES_MAX))
        return ReadBatch(
            [entry for entry, id_ in zip(found, window, strict=False) if entry.entry_id == id_]
        )

    async def _stripe(self, fragment: Fragment, stripe: range) -> list[Entry] | errors.ClientError:
        """Read the part of a stripe that one answer holds: its first entry, and perhaps more."""
        try:
            return self._entries(await self._reading.share(fragment, stripe), fragment)
        except errors.ClientError as error:
            return error

    def _entries(self, read: ShareRead, fragment: Fragment) -> list[Entry]:
        """Give the entries of a finished read; raises EntryLost or ReadFailed if there are none."""
        if read.outcome is ReadStanding.GOT:
            return read.entries
        entry_id, asked = read.wanted[0], [fragment.ensemble[at] for at in read.order]
        if read.outcome is ReadStanding.MISSING:
            raise errors.EntryLost(
                f"ledger {self.ledger_id}, entry {entry_id}: {', '.join(asked)} say that they "
                "never had it, though it is confirmed; look for a lost disk among them"
            )
        failed = ", ".join(
            errors.describe(fragment.ensemble[at], error) for at, error in read.errors.items()
        )
        self._not_permitted(read.errors.values())
        raise errors.ReadFailed(
            f"ledger {self.ledger_id}, entry {entry_id}: none of {', '.join(asked)} gave it "
            f"({failed}); try again when they are back"
        )

    def _not_permitted(self, failures: Iterable[Exception]) -> None:
        """Raise NotPermitted if a bookie said so: every other one would say it, too."""
        for error in failures:
            if isinstance(error, wire_errors.NotPermitted):
                raise errors.NotPermitted(f"ledger {self.ledger_id}: {error}") from error


def _end_by(metadata: LedgerMetadata) -> EntryId:
    """Give the confirmed end that follows from the metadata alone.

    An open ledger is confirmed at least up to the entry before its last fragment.
    """
    if metadata.is_closed:
        return metadata.last_entry
    return EntryId(metadata.last_fragment.first_entry - 1)
