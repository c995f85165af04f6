"""Recovery: take a ledger from its writer, and close it at an end that all clients agree on.

1. In metadata, OPEN becomes IN_RECOVERY. The tail is read only from the last ensemble of the
   metadata that this step leaves.
2. That ensemble is fenced until it is covered. The tail starts after the highest LAC heard, and not
   before the last fragment.
3. The tail is read forward, with a fence in each request (``tail_read``). The entries that are kept
   are written back to an ack quorum. They are the same entries, in packets rebuilt with the LAC
   that the recovery started from. So a recovery that dies half-way leaves no LAC of its own, which
   could mislead the next recovery.
4. Bookies that fail meanwhile are replaced in memory only. The new ensembles are published in the
   same compare-and-set that closes the ledger. Published earlier, they would send another recovery
   to bookies that have no entries yet.

Any number of recoveries may run at once, and each may die. One closing wins, and the others accept
it. A recovery never decides what is unknown: it fails, and leaves the ledger IN_RECOVERY for the
next recovery.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from zonekeeper.client.base import boundary, errors
from zonekeeper.client.base.asks import Asks
from zonekeeper.client.base.tasks import Tasks
from zonekeeper.client.bookies.bookies import Bookies
from zonekeeper.client.reading import checking, tail_read
from zonekeeper.client.reading.share_read import ReadStanding
from zonekeeper.client.reading.survey import Survey
from zonekeeper.client.reading.tail_read import TailRead, WindowStanding
from zonekeeper.client.sessions import newcomers, standing
from zonekeeper.client.sessions.identity import Identity
from zonekeeper.client.sessions.newcomers import NewcomerLostError
from zonekeeper.client.sessions.read_session import Reading
from zonekeeper.client.sessions.write_session import WriteSession
from zonekeeper.client.writing import writer_events as ev
from zonekeeper.client.writing.writer_core import WriterCore
from zonekeeper.client.writing.writer_start import WriterLimits, WriterStart
from zonekeeper.metadata.formats import ledger_metadata, placement_stamp
from zonekeeper.metadata.formats.ledger_metadata import Fragment, LedgerMetadata, LedgerState
from zonekeeper.metadata.formats.malformed import UnreadableError
from zonekeeper.metadata.ledgers import ledgers
from zonekeeper.metadata.store.errors import StoreError
from zonekeeper.metadata.store.store import Check
from zonekeeper.placement.base.ids import NO_ENTRY, BookieId, EntryId, LedgerId
from zonekeeper.placement.ensembles.failures import PlacementError
from zonekeeper.wire.formats import digests
from zonekeeper.wire.formats import errors as wire_errors
from zonekeeper.wire.formats.entries import Entry

#: The number of entries that are read, and then written back, at a time.
WINDOW_ENTRIES: Final = 1_024
#: A recovery whose newcomers were started again begins anew, so many times in all.
ATTEMPTS_MAX: Final = 3


class _InMemory:
    """A ``write_session.Steward`` that keeps new ensembles in memory."""

    def __init__(self, bookies: Bookies, reading: Reading, last: Fragment) -> None:
        self._bookies = bookies
        self._reading = reading
        self._ensemble = last.ensemble
        self.fragments: list[Fragment] = []

    async def change(self, wanted: ev.ChangeEnsemble) -> ev.ChangeEvent:
        """Replace failed members; ``_close`` publishes the new ensembles."""
        positions = [at for at, _ in wanted.failed]
        try:
            ensemble = self._bookies.replace(self._reading.quorums, self._ensemble, positions)
        except PlacementError as error:
            return ev.ChangeImpossible(error=error)
        self._ensemble = ensemble
        self.fragments.append(Fragment(wanted.first_entry, ensemble))
        return ev.Changed(ensemble=ensemble, zones=self._bookies.zones(ensemble))

    async def look_up(self) -> ev.StandingEvent:
        """Read whether the ledger is still there; who closed it meanwhile is seen at the end."""
        ledger_id, token = self._reading.sealer.ledger_id, self._reading.create_token
        try:
            await standing.look_up(self._bookies.cluster, ledger_id, token)
        except ledgers.NoLedgerError as error:
            return ev.LedgerGone(error=errors.ClosedByOther(str(error)))
        except (StoreError, UnreadableError) as error:
            return ev.LedgerUnknown(error=error)
        return ev.LedgerStands()

    async def abandon(self, last_entry: EntryId, length: int) -> None:
        """Leave the ledger to the next recovery."""


@dataclass(slots=True)
class Recovery:
    """One recovery of one ledger."""

    ledger_id: LedgerId
    reading: Reading
    bookies: Bookies
    tasks: Tasks
    limits: WriterLimits

    async def run(self) -> LedgerMetadata:
        """Recover, and give the closed ledger; raises ``RecoveryFailed``."""
        try:
            with boundary.translated(f"recovering ledger {self.ledger_id}"):
                for _ in range(ATTEMPTS_MAX - 1):
                    with contextlib.suppress(NewcomerLostError):
                        return await self._run()
                return await self._run()
        except errors.RecoveryFailed as failed:
            await self._check_there(failed)
            if self.tasks.over:  # the recovery failed because the client has ended
                raise self.tasks.closed(maybe_applied=True) from failed
            raise

    async def _check_there(self, failed: errors.RecoveryFailed) -> None:
        """Raise ``NoSuchLedger`` if a recovery failed because the ledger was deleted meanwhile."""
        try:
            await standing.look_up(self.bookies.cluster, self.ledger_id, self.reading.create_token)
        except ledgers.NoLedgerError as error:
            raise errors.NoSuchLedger(
                f"recovering ledger {self.ledger_id}: it was deleted meanwhile: {error}"
            ) from failed
        except (StoreError, UnreadableError):
            pass  # what the recovery failed by is told

    async def _run(self) -> LedgerMetadata:
        ledger = await self._take()
        if ledger.is_closed:
            return ledger
        start, lengths = await self._fence(ledger)
        steward = _InMemory(self.bookies, self.reading, ledger.last_fragment)
        session: WriteSession | None = None
        try:
            last, length = start, lengths.get(start)
            async with aclosing(self._tail(ledger, start)) as tail:
                async for kept in tail:
                    if session is None:
                        before = kept[0].length - len(kept[0].payload)
                        session = self._session(ledger, start, before, steward)
                    await self._write_back(session, kept)
                    last, length = kept[-1].entry_id, kept[-1].length
        finally:
            if session is not None:
                session.end(errors.WriterClosed("the recovery is over"))
        if length is None:
            length = await self._length(ledger, last)
        starts = {} if session is None else self._unnamed(ledger, steward, session)
        if lost := await newcomers.started_again(self.bookies, starts):
            raise newcomers.lost(self.ledger_id, lost.values())
        within_s: float | None = None
        try:
            return await self._close(ledger, last, length, steward.fragments, starts)
        except asyncio.CancelledError:
            within_s = newcomers.CANCELLED_S
            raise
        except StoreError:
            within_s = newcomers.IN_DOUBT_S
            raise
        finally:
            # After an error, too: a write that was tried may have been applied.
            await newcomers.look_again(self.bookies, self.ledger_id, starts, within_s=within_s)

    def _unnamed(
        self, ledger: LedgerMetadata, steward: _InMemory, session: WriteSession
    ) -> dict[BookieId, int]:
        """Give the newcomers that metadata does not name yet, with the start that took entries."""
        named = {bookie for fragment in ledger.fragments for bookie in fragment.ensemble}
        to_be_named = {bookie for fragment in steward.fragments for bookie in fragment.ensemble}
        return {
            bookie: start
            for bookie, start in session.first_starts.items()
            if bookie in to_be_named - named
        }

    async def _take(self) -> LedgerMetadata:
        def decide(ledger: LedgerMetadata) -> LedgerMetadata | None:
            standing.check(self.ledger_id, self.reading.create_token, ledger)
            if not ledger.is_closed:
                self._check_promise(ledger)
            if ledger.state is not LedgerState.OPEN:
                return None
            return ledger_metadata.taken_for_recovery(ledger)

        stored = await ledgers.change(self.bookies.cluster, self.ledger_id, decide)
        return stored.metadata

    def _check_promise(self, ledger: LedgerMetadata) -> None:
        """Refuse a ledger whose placement stamp cannot be read.

        Without the stamp it is unknown what the writer's acknowledgements promised.
        """
        try:
            placement_stamp.promised(ledger)
        except UnreadableError as error:
            raise errors.MetadataFailed(
                f"ledger {self.ledger_id} is not recovered, and nothing was done to it: {error}: "
                "it is unknown in how many zones its entries must be acknowledged; open it with "
                "recover=False to read it",
                retryable=False,
                maybe_applied=False,
            ) from error

    async def _fence(self, ledger: LedgerMetadata) -> tuple[EntryId, dict[EntryId, int]]:
        """Fence the last ensemble; give the LAC to start from, and the lengths that were seen."""
        fragment = ledger.last_fragment
        found = Survey(
            quorums=self.reading.quorums,
            zones=self.bookies.zones(fragment.ensemble),
            last_add_confirmed=EntryId(fragment.first_entry - 1),
        )
        await self.reading.survey(fragment, digests.master_key(ledger.password), found)
        if not found.complete:
            self._refused(found.errors)
            raise errors.RecoveryFailed(
                f"ledger {self.ledger_id}: too few of {', '.join(fragment.ensemble)} are fenced "
                f"({self._failures(fragment, found.errors)}); it stays in recovery, try again"
            )
        found.lengths[NO_ENTRY] = 0
        return found.last_add_confirmed, found.lengths

    async def _tail(
        self, ledger: LedgerMetadata, start: EntryId
    ) -> AsyncGenerator[list[Entry], None]:
        """Read the entries to keep after ``start``, window by window."""
        first = start + 1
        while True:
            read = await self._window(ledger, range(first, first + WINDOW_ENTRIES))
            if read.verdict is WindowStanding.UNKNOWN:
                self._refused(read.failures)
                raise errors.RecoveryFailed(
                    f"ledger {self.ledger_id}, entry {first + len(read.found)}: no bookie gave it, "
                    "and too few bookies deny it "
                    f"({self._failures(ledger.last_fragment, read.failures)}); "
                    "the ledger stays in recovery, try again"
                )
            if read.found:
                yield read.found
            if read.verdict is WindowStanding.ENDED:
                return
            first += WINDOW_ENTRIES

    async def _window(self, ledger: LedgerMetadata, window: range) -> TailRead:
        fragment, key = ledger.last_fragment, digests.master_key(ledger.password)
        read = TailRead(
            quorums=self.reading.quorums,
            zones=self.bookies.zones(fragment.ensemble),
            window=window,
        )
        async with Asks[tuple[int, _Told]](self.tasks) as asks:
            wanted = read.start()
            while True:
                for each in wanted:
                    bookie = fragment.ensemble[each.position]
                    asks.ask(self._ask(bookie, each.position, each.wanted, key))
                if read.verdict is not WindowStanding.GOING_ON:
                    return read
                position, told = await asks.next()
                wanted = told(read, position)

    async def _ask(
        self, bookie: BookieId, position: int, wanted: range, key: digests.MasterKey
    ) -> "tuple[int, _Told]":
        try:
            checked, until = await self.reading.entries(bookie, wanted, key)
        except wire_errors.Negative:
            return position, lambda read, at: read.denied(at)
        except wire_errors.ProtocolError as error:
            return position, _silent(error)
        return position, _spoken(checked, until)

    def _session(
        self, ledger: LedgerMetadata, start: EntryId, length: int, steward: _InMemory
    ) -> WriteSession:
        """Make the session that writes back, after ``start``."""
        fragment, quorums = ledger.last_fragment, self.reading.quorums
        core = WriterCore(
            self.reading.sealer,
            quorums,
            WriterStart(
                fragment_first=fragment.first_entry,
                ensemble=fragment.ensemble,
                zones=self.bookies.zones(fragment.ensemble),
                confirmed=start,
                length=length,
                recovery=True,
            ),
            self.limits,
        )
        identity = Identity(
            ledger_id=self.ledger_id,
            master_key=digests.master_key(ledger.password),
            quorums=quorums,
            digest=ledger.digest,
            create_token=ledger.create_token,
        )
        return WriteSession(identity, core, self.reading.sealer, steward, self.bookies, self.tasks)

    async def _write_back(self, session: WriteSession, kept: Sequence[Entry]) -> None:
        for entry in kept:
            put = session.put(entry.payload)
            assert put == entry.entry_id, "what is kept has no gap"
        try:
            await session.confirmed(kept[-1].entry_id)
        except errors.WriterStopped as error:
            raise errors.RecoveryFailed(
                f"ledger {self.ledger_id}: entries {kept[0].entry_id} to {kept[-1].entry_id} were "
                f"not written back: {error}; the ledger stays in recovery, try again"
            ) from error
        if session.core.confirmed_length != kept[-1].length:
            raise errors.RecoveryFailed(
                f"ledger {self.ledger_id}: entry {kept[-1].entry_id} says that the ledger is "
                f"{kept[-1].length} bytes long there, but its entries add up to "
                f"{session.core.confirmed_length}: a bookie holds entries of two writers"
            )

    async def _length(self, ledger: LedgerMetadata, last: EntryId) -> int:
        """Read the ledger's length from its last entry, if no answer so far has told it."""
        read = await self.reading.share(ledger.fragment_of(last), range(last, last + 1))
        if read.outcome is not ReadStanding.GOT:
            raise errors.RecoveryFailed(
                f"ledger {self.ledger_id}: its last entry {last} cannot be read, so its length is "
                "not known; it stays in recovery, try again"
            )
        return read.entries[0].length

    async def _close(
        self,
        taken: LedgerMetadata,
        last: EntryId,
        length: int,
        kept_back: Sequence[Fragment],
        starts: Mapping[BookieId, int],
    ) -> LedgerMetadata:
        """Publish the ledger's end and the new ensembles at once, or accept another closing.

        Nobody changes the last fragment of a ledger that is in recovery. So another one than that
        which was taken shows that the store was set back, and what was read is not of it.
        """

        def decide(ledger: LedgerMetadata) -> LedgerMetadata | None:
            standing.check(self.ledger_id, self.reading.create_token, ledger)
            if ledger.is_closed:
                return None
            if ledger.last_fragment != taken.last_fragment:
                raise errors.RecoveryFailed(
                    f"ledger {self.ledger_id}: its last fragment in the metadata is another one "
                    "than the one that was recovered: the store was set back to an older state; "
                    "see `zonekeeper metadata restored` before you try again"
                )
            fragments = ledger.fragments
            for fragment in kept_back:
                fragments = ledger_metadata.grown(fragments, fragment)
            return ledger_metadata.closed(
                ledger, last_entry=last, length=length, fragments=fragments
            )

        async def alongside() -> Sequence[Check]:
            return await newcomers.checks(self.bookies, self.ledger_id, starts)

        stored = await ledgers.change(
            self.bookies.cluster, self.ledger_id, decide, alongside=alongside
        )
        return stored.metadata

    def _refused(self, failures: dict[int, Exception]) -> None:
        for error in failures.values():
            if isinstance(error, wire_errors.NotPermitted):
                # The metadata says already that the ledger is in recovery.
                raise errors.NotPermitted(
                    f"ledger {self.ledger_id}: {error}; the ledger stays in recovery, until a "
                    "client recovers it that may",
                    maybe_applied=True,
                ) from error
            if isinstance(error, wire_errors.UnauthorizedAccess):
                raise errors.Unauthorized(
                    f"ledger {self.ledger_id}: {error}; check its password and this client's rights"
                ) from error

    def _failures(self, fragment: Fragment, failures: dict[int, Exception]) -> str:
        named = (
            errors.describe(fragment.ensemble[at], error) for at, error in sorted(failures.items())
        )
        return "; ".join(named) or "no answers"


_Told = Callable[[TailRead, int], list[tail_read.AskMember]]


def _silent(error: Exception) -> _Told:
    return lambda read, position: read.silent(position, error)


def _spoken(checked: checking.CheckedReply, until: EntryId) -> _Told:
    return lambda read, position: read.told(position, checked.good, until, checked.bad)
