"""Bugs that are planted to see whether the simulator finds them; they exist only here.

Each has a number (docs/simulator.md lists them), takes away one rule of the real code, and must be
found in the profile that stands beside it within so many seeds. Those without one die in other
lanes: what happens to single bytes of a disk in the crash states, what few histories show in
directed tests.
"""

import dataclasses
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from types import MappingProxyType
from typing import Final
from weakref import WeakKeyDictionary

from tests.simulation.patching import Patch
from tests.simulation.planting import Mutant
from zonekeeper.bookie.disk.memory_files import MemoryFile, MemoryFileSystem
from zonekeeper.bookie.ledgers import admission, records
from zonekeeper.bookie.segments import log
from zonekeeper.bookie.segments.arrivals import Sizes
from zonekeeper.bookie.segments.devices import Devices
from zonekeeper.bookie.segments.log import LogPut
from zonekeeper.bookie.serving.service import BookieServer
from zonekeeper.bookie.storage import reading
from zonekeeper.bookie.storage import storage as storages
from zonekeeper.bookie.storage.ledgers import Ledger
from zonekeeper.bookie.storage.storage import Storage, StoragePolicy
from zonekeeper.client.reading import checking, tail_read
from zonekeeper.client.reading.tail_read import TailRead
from zonekeeper.client.sessions import recovery
from zonekeeper.client.sessions.read_session import Reading
from zonekeeper.client.sessions.recovery import Recovery
from zonekeeper.client.writing import writer_events as ev
from zonekeeper.client.writing.batches import Batch
from zonekeeper.client.writing.flight import Flight
from zonekeeper.client.writing.writer_core import WriterCore
from zonekeeper.client.writing.writer_start import WriterLimits, WriterStart
from zonekeeper.metadata.formats import ledger_metadata
from zonekeeper.metadata.formats.ledger_metadata import Fragment, LedgerMetadata
from zonekeeper.metadata.ledgers import ledgers
from zonekeeper.placement.base import coverage
from zonekeeper.placement.base.coverage import Coverage
from zonekeeper.placement.base.ids import NO_ENTRY, BookieId, EntryId, LedgerId, ZoneName
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.wire.formats import digests, entries
from zonekeeper.wire.formats import errors as wire_errors
from zonekeeper.wire.formats.frames import Frame

# ── fencing ──


def _reads_do_not_fence() -> list[Patch]:
    original = Reading.entries

    async def without_key(
        self: Reading, bookie: BookieId, wanted: range, fence_key: digests.MasterKey | None = None
    ) -> tuple[checking.CheckedReply, EntryId]:
        del fence_key
        return await original(self, bookie, wanted)

    return [(Reading, "entries", without_key)]


def _fences_are_volatile() -> list[Patch]:
    original = BookieServer._settle

    async def settle(self: BookieServer, ledger_id: LedgerId, event: admission.Event) -> None:
        if not isinstance(event, admission.FenceWanted):
            await original(self, ledger_id, event)
            return
        ledger = self._memory.ledger(ledger_id)
        for effect in admission.decide(ledger_id, ledger.admitted, event):
            if isinstance(effect, admission.Refuse):
                raise effect.error
            assert isinstance(effect, admission.WriteRecord)
            ledger.admitted = admission.applied(ledger.admitted, effect.record)
        ledger.known = True

    return [(BookieServer, "_settle", settle)]


def _unknown_ledgers_are_not_fenced() -> list[Patch]:
    original = admission._fence

    def fence(
        ledger_id: LedgerId, state: admission.AdmissionState, event: admission.FenceWanted
    ) -> Sequence[admission.Effect]:
        return () if state == admission.UNKNOWN else original(ledger_id, state, event)

    # The answer must not tell that the ledger is not here.
    return [(admission, "_fence", fence), (Ledger, "refuse_collected", lambda ledger: None)]


def _covers_one_too_few() -> list[Patch]:
    original = coverage.of_ensemble

    def of_ensemble(
        quorums: Quorums,
        *,
        answered: AbstractSet[int],
        pending: AbstractSet[int],
        zones: Sequence[ZoneName | None],
    ) -> Coverage:
        lax = dataclasses.replace(quorums, ack=quorums.ack + 1)
        return original(lax, answered=answered, pending=pending, zones=zones)

    return [(coverage, "of_ensemble", of_ensemble), *_reads_do_not_fence()]


# ── what a recovery believes ──


def _one_negative_is_enough() -> list[Patch]:
    original = coverage.of_entry

    def of_entry(
        quorums: Quorums,
        entry_id: EntryId,
        *,
        denied: AbstractSet[int],
        pending: AbstractSet[int],
        zones: Sequence[ZoneName | None],
    ) -> Coverage:
        if denied:
            return Coverage.YES
        return original(quorums, entry_id, denied=denied, pending=pending, zones=zones)

    return [(coverage, "of_entry", of_entry)]


def _silence_denies() -> list[Patch]:
    def silent(self: TailRead, position: int, error: Exception) -> list[tail_read.AskMember]:
        del error
        return self.denied(position)

    return [(TailRead, "silent", silent)]


def _kept_only_with_an_ack_quorum() -> list[Patch]:
    start, original = TailRead.start, TailRead.told
    #: By the read's address; each read begins anew, whatever had the address before.
    sightings: dict[int, dict[EntryId, set[int]]] = {}

    def start_anew(self: TailRead) -> list[tail_read.AskMember]:
        sightings[id(self)] = {}
        return start(self)

    def told(
        self: TailRead,
        position: int,
        entries: Sequence[entries.Entry],
        until: EntryId,
        bad: Mapping[EntryId, Exception] = MappingProxyType({}),
    ) -> list[tail_read.AskMember]:
        enough = []
        for entry in entries:
            if not self.quorums.holds(position, entry.entry_id):
                continue
            seen = sightings[id(self)].setdefault(entry.entry_id, set())
            seen.add(position)
            if len(seen) >= self.quorums.ack:
                enough.append(entry)
        return original(self, position, enough, until, bad)

    return [(TailRead, "start", start_anew), (TailRead, "told", told)]


def _starts_at_the_beginning() -> list[Patch]:
    original = Recovery._fence

    async def fence(self: Recovery, ledger: LedgerMetadata) -> tuple[EntryId, dict[EntryId, int]]:
        _, lengths = await original(self, ledger)
        return NO_ENTRY, lengths

    return [(Recovery, "_fence", fence)]


# ── what a recovery writes ──


def _ensembles_are_committed_early() -> list[Patch]:
    original = recovery._InMemory.change

    async def change(self: recovery._InMemory, wanted: ev.ChangeEnsemble) -> ev.ChangeEvent:
        outcome = await original(self, wanted)
        if not isinstance(outcome, ev.Changed):
            return outcome
        newest = self.fragments[-1]

        def decide(ledger: LedgerMetadata) -> LedgerMetadata | None:
            grown = ledger_metadata.grown(ledger.fragments, newest)
            return None if ledger.is_closed else dataclasses.replace(ledger, fragments=grown)

        await ledgers.change(self._bookies.cluster, self._reading.sealer.ledger_id, decide)
        return outcome

    def unchecked(before: LedgerMetadata, after: LedgerMetadata) -> None:
        del before, after

    closes: Callable[..., Awaitable[LedgerMetadata]] = Recovery._close

    async def over_its_own(self: Recovery, taken: LedgerMetadata, *given: object) -> LedgerMetadata:
        stored = await ledgers.read(self.bookies.cluster, self.ledger_id, sync=True)
        return await closes(self, taken if stored is None else stored.metadata, *given)

    return [
        (recovery._InMemory, "change", change),
        (Recovery, "_close", over_its_own),
        (ledger_metadata, "check_update", unchecked),
    ]


def _reads_from_the_new_ensemble() -> list[Patch]:
    change, window = recovery._InMemory.change, Recovery._window
    newest: WeakKeyDictionary[Reading, Fragment] = WeakKeyDictionary()

    async def change_and_tell(
        self: recovery._InMemory, wanted: ev.ChangeEnsemble
    ) -> ev.ChangeEvent:
        outcome = await change(self, wanted)
        if isinstance(outcome, ev.Changed):
            newest[self._reading] = self.fragments[-1]
        return outcome

    async def window_of_newest(self: Recovery, ledger: LedgerMetadata, wanted: range) -> TailRead:
        fragment = newest.get(self.reading)
        if fragment is not None:
            fragments = ledger_metadata.grown(ledger.fragments, fragment)
            ledger = dataclasses.replace(ledger, fragments=fragments)
        return await window(self, ledger, wanted)

    return [
        (recovery._InMemory, "change", change_and_tell),
        (Recovery, "_window", window_of_newest),
    ]


def _carries_its_own_lac() -> list[Patch]:
    original = WriterCore.__init__

    def init(
        self: WriterCore,
        sealer: entries.Sealer,
        quorums: Quorums,
        start: WriterStart,
        limits: WriterLimits,
    ) -> None:
        original(self, sealer, quorums, start, limits)
        self._pinned_lac = None

    return [(WriterCore, "__init__", init)]


# ── bookies ──


def _acks_before_the_sync() -> list[Patch]:
    def every_frame_may_wait(put: LogPut) -> bool:
        return isinstance(put.record, Frame)

    return [(log, "_deferred", every_frame_may_wait)]


def _failed_syncs_are_ignored() -> list[Patch]:
    original = MemoryFile.sync

    def sync_and_hope(self: MemoryFile) -> None:
        with suppress(OSError):
            original(self)

    return [(MemoryFile, "sync", sync_and_hope)]


def _names_are_not_synced() -> list[Patch]:
    def sync_names(self: MemoryFileSystem) -> None:
        del self

    return [(MemoryFileSystem, "sync_names", sync_names)]


def _io_errors_are_negatives() -> list[Patch]:
    original = reading._read

    def read(source: reading.Source, ledger_id: LedgerId, piece: reading.Piece) -> Frame:
        try:
            return original(source, ledger_id, piece)
        except wire_errors.IoFailed as error:
            raise wire_errors.NoSuchEntry(str(error)) from error

    return [(reading, "_read", read)]


def _limbo_is_forgotten() -> list[Patch]:
    original = admission.applied

    def applied(
        state: admission.AdmissionState, record: records.LedgerRecord
    ) -> admission.AdmissionState:
        return dataclasses.replace(original(state, record), in_limbo=False)

    return [(admission, "applied", applied)]


def _explicit_lacs_are_volatile() -> list[Patch]:
    original = storages.open_storage

    async def open_and_forget(devices: Devices, sizes: Sizes, policy: StoragePolicy) -> Storage:
        storage = await original(devices, sizes, policy)
        for ledger in storage.memory.ledgers.values():
            ledger.durable = dataclasses.replace(ledger.durable, explicit_lac=None)
            ledger.admitted = dataclasses.replace(ledger.admitted, explicit_lac=None)
            ledger.confirmed = NO_ENTRY
        return storage

    return [(storages, "open_storage", open_and_forget)]


# ── writers ──


def _lac_jumps_gaps() -> list[Patch]:
    original = Flight.confirm

    def confirm(self: Flight, is_enough: Callable[[Batch], bool]) -> bool:
        def enough_or_overtaken(batch: Batch) -> bool:
            return is_enough(batch) or any(map(is_enough, list(self.waiting)[1:]))

        return original(self, enough_or_overtaken)

    return [(Flight, "confirm", confirm)]


def _replaced_acks_count() -> list[Patch]:
    def unack(self: Flight, positions: Collection[int]) -> None:
        del self, positions

    return [(Flight, "unack", unack)]


def _confirms_during_a_change() -> list[Patch]:
    original = WriterCore._advance

    def advance(self: WriterCore) -> None:
        changing, self._changing = self._changing, False
        try:
            original(self)
        finally:
            self._changing = changing

    return [(WriterCore, "_advance", advance)]


MUTANTS: Final[Mapping[int, Mutant]] = {
    mutant.number: mutant
    for mutant in (
        Mutant(
            number=1,
            what="no fence on recovery reads",
            profile="takeover",
            within_seeds=2_000,
            patches=_reads_do_not_fence,
        ),
        Mutant(
            number=2,
            what="fences are volatile",
            profile="crashy-disk",
            within_seeds=400,
            patches=_fences_are_volatile,
        ),
        Mutant(
            number=3,
            what="a ledger that is not known here is not fenced",
            patches=_unknown_ledgers_are_not_fenced,
        ),
        Mutant(
            number=4,
            what="fencing covers one too few, and reads do not fence",
            profile="takeover",
            within_seeds=2_000,
            patches=_covers_one_too_few,
        ),
        Mutant(
            number=5,
            what="one negative is enough",
            profile="lossy",
            within_seeds=300,
            patches=_one_negative_is_enough,
        ),
        Mutant(
            number=6,
            what="silence counts as a negative",
            profile="relay",
            within_seeds=300,
            patches=_silence_denies,
        ),
        Mutant(
            number=7,
            what="an I/O error is a negative",
            profile="corrupting",
            within_seeds=150,
            patches=_io_errors_are_negatives,
        ),
        Mutant(
            number=8,
            what="limbo answers negatives",
            profile="disk-loss",
            within_seeds=300,
            patches=_limbo_is_forgotten,
        ),
        Mutant(
            number=9,
            what="acks before the sync",
            profile="crashy-disk",
            within_seeds=50,
            patches=_acks_before_the_sync,
            in_crash_states="ack_before_sync",
        ),
        Mutant(
            number=10,
            what="failed syncs are ignored",
            profile="crashy-disk",
            within_seeds=200,
            patches=_failed_syncs_are_ignored,
            in_crash_states="sync_error_ignored",
        ),
        Mutant(
            number=11,
            what="no directory is synced",
            patches=_names_are_not_synced,
            in_crash_states="no_directory_sync",
        ),
        Mutant(
            number=12,
            what="recovery commits ensembles early",
            profile="relay",
            within_seeds=2_000,
            patches=_ensembles_are_committed_early,
        ),
        Mutant(
            number=13,
            what="recovery reads from the new ensemble",
            profile="relay",
            within_seeds=1_000,
            patches=_reads_from_the_new_ensemble,
        ),
        Mutant(
            number=14,
            what="recovery adds carry an advanced LAC",
            profile="relay",
            within_seeds=2_000,
            patches=_carries_its_own_lac,
        ),
        Mutant(
            number=15,
            what="recovery starts at -1",
            profile="crashy-disk",
            within_seeds=200,
            patches=_starts_at_the_beginning,
        ),
        Mutant(
            number=16,
            what="recovery keeps only what an ack quorum has",
            profile="lossy",
            within_seeds=300,
            patches=_kept_only_with_an_ack_quorum,
        ),
        Mutant(
            number=17,
            what="the LAC jumps gaps",
            profile="lossy",
            within_seeds=200,
            patches=_lac_jumps_gaps,
        ),
        Mutant(
            number=18,
            what="the LAC falls at a restart",
            profile="crashy-disk",
            within_seeds=100,
            patches=_explicit_lacs_are_volatile,
            in_crash_states="lac_only_in_memory",
        ),
        Mutant(
            number=19,
            what="acks of replaced bookies count",
            profile="crashy-disk",
            within_seeds=500,
            patches=_replaced_acks_count,
        ),
        Mutant(
            number=20,
            what="entries are confirmed during an ensemble change",
            profile="slow-meta",
            within_seeds=2_000,
            patches=_confirms_during_a_change,
        ),
    )
}
