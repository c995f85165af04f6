"""Storages with a bug planted: the crash lane must find each of them, and soon."""

import contextlib
import errno
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import pytest

from tests.bookie.segments import keeping
from tests.bookie.segments.keeping import Driver
from tests.crash import exploring
from tests.simulation.campaign import BUGS
from tests.simulation.planting import Mutant
from tests.support import virtual_time
from zonekeeper.bookie.disk.memory_files import MemoryFile, MemoryFileSystem, no_troubles
from zonekeeper.bookie.formats import arrival_scan, log_end
from zonekeeper.bookie.formats.arrival_scan import DamagedLogError, Read
from zonekeeper.bookie.formats.batch_format import BatchHeader, Placed, Position
from zonekeeper.bookie.formats.checkpoint_format import Checkpoint
from zonekeeper.bookie.formats.index import ExtentRow, Index, MemoryOrdered
from zonekeeper.bookie.formats.log_end import LogEnd
from zonekeeper.bookie.ledgers import records
from zonekeeper.bookie.segments import log, log_ends
from zonekeeper.bookie.segments.arrivals import Arrivals
from zonekeeper.bookie.segments.directories import Directories, name_of
from zonekeeper.bookie.segments.log import Log, LogPut
from zonekeeper.bookie.storage import reading, rewrite
from zonekeeper.bookie.storage.ledger_entries import LedgerEntries
from zonekeeper.bookie.storage.memory import Memory
from zonekeeper.bookie.storage.rewrite import Rewriter, RewriteStep
from zonekeeper.bookie.storage.storage import Storage
from zonekeeper.placement.base.ids import EntryId, LedgerId
from zonekeeper.wire.formats import errors

#: States of a draw within which a bug must show; rare ones need another draw.
BUDGET = 6_000
SHARDS = (500, 501, 502)

#: A promise is broken, a start refused, or what was acknowledged cannot be read.
FOUND = (AssertionError, OSError, DamagedLogError, errors.IoFailed, BaseExceptionGroup)

Patch = pytest.MonkeyPatch


def ack_before_sync(patch: Patch) -> None:
    patch.setattr(log, "_deferred", lambda put: True)


def sync_error_ignored(patch: Patch) -> None:
    sync = MemoryFile.sync

    def ignoring(file: MemoryFile) -> None:
        with contextlib.suppress(OSError):
            sync(file)

    patch.setattr(MemoryFile, "sync", ignoring)


def no_directory_sync(patch: Patch) -> None:
    patch.setattr(MemoryFileSystem, "sync_names", lambda files: None)


def fence_only_in_memory(patch: Patch) -> None:
    put = Log.put

    def forgetful(self: Log, wanted: LogPut) -> None:
        put(self, replace(wanted, record=None) if is_fence(wanted.record) else wanted)

    patch.setattr(Log, "put", forgetful)
    # What is only in memory is on no way to the disk.
    from_queue = Memory.place

    def place(self: Memory, placed: Sequence[Placed]) -> None:
        for ledger in self.ledgers.values():
            for waiting in [each for each in ledger.on_the_way if is_fence(each)]:
                ledger.on_the_way.remove(waiting)
        from_queue(self, placed)

    patch.setattr(Memory, "place", place)


def is_fence(record: object) -> bool:
    return isinstance(record, records.FenceRecord)


def lac_only_in_memory(patch: Patch) -> None:
    """An explicit LAC is acknowledged, and gone with the process."""
    _plant(patch, BUGS[18])


def _plant(patch: Patch, bug: Mutant) -> None:
    """Plant a bug of the simulator."""
    for owner, name, replacement in bug.patches():
        patch.setattr(owner, name, replacement)


def mark_as_maximum(patch: Patch) -> None:
    commit = Rewriter.commit

    async def newest(self: Rewriter, step: RewriteStep) -> None:
        sealed = [each.last for each in self._arrivals.sealed.values()]
        if step.mark is not None:
            step = replace(step, mark=max([step.mark, *sealed]))
        await commit(self, step)

    patch.setattr(rewrite, "ROUND_SEGMENTS_MAX", 1)
    patch.setattr(Rewriter, "commit", newest)


def mark_ignores_ledger_state(patch: Patch) -> None:
    _plant(patch, BUGS[30])


def recycled_before_the_checkpoint(patch: Patch) -> None:
    gather = Rewriter._gather

    async def early(self: Rewriter, through: int) -> list[ExtentRow]:
        rows = await gather(self, through)
        for generation, sealed in self._arrivals.sealed.items():
            if generation <= through:
                self._arrivals._free.append(sealed.file)
        self._arrivals._tell()
        return rows

    def forget(self: Arrivals, through: int) -> None:
        for generation in [each for each in self.sealed if each <= through]:
            del self.sealed[generation]

    patch.setattr(Rewriter, "_gather", early)
    patch.setattr(Arrivals, "recycle", forget)


def stale_generation_accepted(patch: Patch) -> None:
    read_batch = arrival_scan._read_batch
    before: dict[str, BatchHeader] = {}

    def trusting(read: Read, log_id: int, offset: int) -> tuple[BatchHeader, list[Placed]]:
        header, placed = read_batch(read, log_id, offset)
        if offset:
            last = before["last"]
            position = Position(last.position.generation, last.position.sequence + 1)
            header = header._replace(position=position, before=last.before)
        before["last"] = header
        return header, placed

    patch.setattr(arrival_scan, "_read_batch", trusting)


def overlap_overwrites(patch: Patch) -> None:
    fill = LedgerEntries._fill

    def overwriting(self: LedgerEntries, first: int, last: int, offset: int, size: int) -> None:
        at = self._from(first)
        if at < len(self._firsts) and self._firsts[at] == first:
            self._lasts[at], self._offsets[at], self._sizes[at] = last, offset, size
        else:
            fill(self, first, last, offset, size)

    patch.setattr(LedgerEntries, "_fill", overwriting)


def let_go_before_the_index_has_it(patch: Patch) -> None:
    commit = Rewriter.commit

    async def early(self: Rewriter, step: RewriteStep) -> None:
        if step.mark is not None:
            for entries in self._memory.touched_through(step.mark.generation):
                last = self._index.last(entries.ledger_id)
                entries.sorted_through(step.mark.generation, last)
        await commit(self, step)

    patch.setattr(Rewriter, "commit", early)


def forgotten_only_in_memory(patch: Patch) -> None:
    """What is forgotten is gone at once, and there again after a restart, or a part of it."""
    put = Log.put

    def forgetful(self: Log, wanted: LogPut) -> None:
        put(self, replace(wanted, record=None) if is_forget(wanted.record) else wanted)

    patch.setattr(Log, "put", forgetful)


def is_forget(record: object) -> bool:
    return isinstance(record, records.ForgetRecord)


def forgotten_come_back_with_the_index(patch: Patch) -> None:
    patch.setattr(Checkpoint, "counting", lambda self: lambda ledger_id, number: True)


def compacted_before_the_checkpoint(patch: Patch) -> None:
    """The old segments go while the checkpoint still names them."""
    save = Rewriter._save

    async def late(self: Rewriter, last: Checkpoint) -> None:
        gone = {each.number for each in self._last.segments} - set(last.sorted_numbers)
        for number in gone:
            self._on.directories._files[0].remove(name_of(number))
        self._on.directories._files[0].sync_names()
        await save(self, last)

    patch.setattr(Rewriter, "_save", late)
    patch.setattr(Directories, "remove", lambda self, number: self._where.pop(number))


def unsynced_tail_is_shown(patch: Patch) -> None:
    scan = arrival_scan.scan

    def trusting(*arguments: object) -> arrival_scan.End:
        end = scan(*arguments)  # type: ignore[arg-type]  # passed on as they came
        return replace(end, unsynced_at=end.offset)

    patch.setattr(arrival_scan, "scan", trusting)


def open_ledgers_are_cut(patch: Patch) -> None:
    """What is past the LAC of a ledger is dropped, closed or not."""

    def guessed(self: Memory, ledger_id: LedgerId) -> EntryId | None:
        ledger = self.ledgers.get(ledger_id)
        return None if ledger is None or ledger.confirmed < 0 else ledger.confirmed

    patch.setattr(Memory, "end_of", guessed)


def cut_entries_stay_the_last(patch: Patch) -> None:
    """What compaction drops is still taken for a ledger's last entry."""

    async def nothing(self: Rewriter, ends: Mapping[LedgerId, EntryId]) -> None:
        del self, ends

    patch.setattr(Rewriter, "_cut", nothing)


def indexed_without_a_word_before(patch: Patch) -> None:
    """Of a segment that was compacted since, the index may have rows that nothing names."""
    patch.setattr(Index, "begun", lambda self: frozenset())


def end_is_noted_before_it_is_synced(patch: Patch) -> None:
    """What a power loss takes is called damage: the end names a batch that was only written."""
    end = property(
        lambda self: LogEnd(
            log_id=self._log_id,
            position=Position(self._segment.generation, self._sequence),
            arrival_number=1,
        )
    )
    patch.setattr(Log, "end", end)


def end_is_noted_in_place(patch: Patch) -> None:
    """A crash in the middle leaves an end that cannot be read."""

    def in_place(files: MemoryFileSystem, end: LogEnd) -> None:
        if log_end.NAME not in files.names():
            files.create(log_end.NAME)
            files.sync_names()
        file = files.open(log_end.NAME)
        file.write(0, [log_end.render(end)])
        file.sync()

    patch.setattr(log_ends, "save", in_place)


MUTANTS: Mapping[str, Callable[[Patch], None]] = {
    plant.__name__: plant
    for plant in (
        ack_before_sync,
        sync_error_ignored,
        no_directory_sync,
        fence_only_in_memory,
        lac_only_in_memory,
        mark_as_maximum,
        mark_ignores_ledger_state,
        recycled_before_the_checkpoint,
        stale_generation_accepted,
        overlap_overwrites,
        let_go_before_the_index_has_it,
        forgotten_only_in_memory,
        forgotten_come_back_with_the_index,
        compacted_before_the_checkpoint,
        unsynced_tail_is_shown,
        open_ledgers_are_cut,
        cut_entries_stay_the_last,
        indexed_without_a_word_before,
        end_is_noted_before_it_is_synced,
        end_is_noted_in_place,
    )
}


def explore_draws() -> None:
    for shard in SHARDS:
        virtual_time.run(exploring.explore(shard, BUDGET))


@pytest.mark.crash
@pytest.mark.parametrize("name", MUTANTS)
def test_a_planted_bug_is_found(name: str, monkeypatch: Patch) -> None:
    MUTANTS[name](monkeypatch)
    with pytest.raises(FOUND):
        explore_draws()


def io_error_is_no_such_entry(patch: Patch) -> None:
    carry_out = reading.carry_out

    def denying(
        source: reading.Source, made: reading.ReadPlan, bytes_max: int
    ) -> reading.EntriesFound:
        try:
            return carry_out(source, made, bytes_max)
        except errors.IoFailed:
            return reading.EntriesFound(frames=(), next_entry_id=made.next_entry_id)

    patch.setattr(reading, "carry_out", denying)


async def read_from_a_bad_disk() -> None:
    """Each entry that was acknowledged is read, or it is unknown; before and after the rewrite."""
    files, store = keeping.fresh(), MemoryOrdered()
    async with keeping.running(files, store) as kept:
        driver = Driver(kept)
        for entry_id in range(120):
            await driver.append(keeping.frame(1, [entry_id]))
        for prefix in ("sorted-", "arrival-"):
            files.troubles = partial(fail_to_read, prefix)
            await one_by_one(kept)
        files.troubles = no_troubles


def fail_to_read(prefix: str, kind: str, name: str) -> None:
    if kind == "read" and name.startswith(prefix):
        raise OSError(errno.EIO, "input/output error", name)


async def one_by_one(kept: Storage) -> None:
    ledger, unknown = kept.memory.ledger(LedgerId(1)), 0
    for entry_id in range(120):
        try:
            found = await kept.read(ledger, range(entry_id, entry_id + 1), 1)
        except errors.IoFailed:
            unknown += 1
        else:
            assert found.frames, "an entry that was acknowledged is denied"
    assert 0 < unknown < 120


@pytest.mark.crash
async def test_what_a_bad_disk_does_not_give_is_unknown() -> None:
    await read_from_a_bad_disk()


@pytest.mark.crash
async def test_an_io_error_reported_as_no_such_entry_is_found(monkeypatch: Patch) -> None:
    io_error_is_no_such_entry(monkeypatch)
    with pytest.raises(BaseExceptionGroup) as caught:
        await read_from_a_bad_disk()
    assert caught.group_contains(AssertionError, match="is denied")
