"""The checkpoint in pieces: in memory there is one, and until the last the old file counts."""

import errno
import os
import random
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.bookie.segments import keeping
from tests.bookie.segments.keeping import Driver, check, fresh, running
from tests.support import virtual_time
from zonekeeper.bookie.disk import whole_files
from zonekeeper.bookie.disk.files import RealFileSystem
from zonekeeper.bookie.disk.memory_files import MemoryFileSystem, no_troubles
from zonekeeper.bookie.formats import checkpoint_format
from zonekeeper.bookie.formats.arrival_scan import DamagedLogError
from zonekeeper.bookie.formats.checkpoint_format import Checkpoint, Kept, LedgersAt
from zonekeeper.bookie.formats.index import MemoryOrdered
from zonekeeper.bookie.ledgers import admission, hints, records
from zonekeeper.bookie.ledgers.admission import AdmissionState
from zonekeeper.bookie.ledgers.records import FragmentRecord
from zonekeeper.bookie.segments import checkpoint
from zonekeeper.bookie.segments.log import LogPut
from zonekeeper.bookie.storage.storage import Storage
from zonekeeper.placement.base.ids import BookieId, EntryId, LedgerId
from zonekeeper.wire.formats.errors import FormatError

NEW = whole_files.new_name(checkpoint.NAME)
LEDGERS = 10


def state_of(ledger_id: int, fragments: int = 1) -> AdmissionState:
    state = admission.UNKNOWN
    for first in range(fragments):
        record = FragmentRecord.of(replace(keeping.opening(ledger_id, first), create_token=9))
        state = admission.applied(state, record)
    packet = keeping.sealer(ledger_id).seal_lac(EntryId(4))
    return admission.applied(state, records.LacRecord(ledger_id=LedgerId(ledger_id), packet=packet))


def of(ledgers: int, fragments: int = 1) -> Checkpoint:
    """A checkpoint of so many ledgers."""
    kept = {
        LedgerId(each): Kept(state=state_of(each, fragments), confirmed=EntryId(4))
        for each in range(ledgers)
    }
    return Checkpoint(log_id=7, ledgers=kept)


def in_memory(last: Checkpoint) -> Checkpoint:
    return replace(last, ledgers=dict(last.ledgers.items()))


# ── the format ──


@given(
    st.integers(0, 5), st.integers(0, 4), st.integers(1, 700), st.sampled_from((None, "forgotten"))
)
def test_however_it_is_cut_a_checkpoint_has_the_same_bytes_and_is_read_the_same(
    ledgers: int, fragments: int, piece_bytes: int, forgotten: str | None
) -> None:
    swept = tuple(map(LedgerId, range(9))) if forgotten else ()
    wanted = replace(of(ledgers, fragments), forgotten=swept)
    whole = checkpoint_format.render(wanted)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoint_format, "PIECE_BYTES", piece_bytes)
        files = MemoryFileSystem()
        checkpoint.save(files, wanted)
        written = files.open(checkpoint.NAME)

        assert written.read(0, written.size()) == whole
        assert in_memory(checkpoint.load(files)) == in_memory(checkpoint.secured(files)) == wanted


def test_no_more_than_a_piece_is_asked_for_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint_format, "PIECE_BYTES", 500)
    data = checkpoint_format.render(of(40))
    asked: list[int] = []

    def read(offset: int, size: int) -> bytes:
        asked.append(size)
        return data[offset : offset + size]

    head, place = checkpoint_format.parse_head(read, len(data))
    assert len(list(checkpoint_format.ledgers_in(read, place))) == 40
    assert not len(head.ledgers)
    assert max(asked) == 500
    assert sum(asked) < 1.1 * len(data), "each byte is read once"


def test_a_count_of_ledgers_that_is_not_true_is_found() -> None:
    data = checkpoint_format.render(of(3))

    def read(offset: int, size: int) -> bytes:
        return data[offset : offset + size]

    _, place = checkpoint_format.parse_head(read, len(data))
    for wrong in (2, 4):
        with pytest.raises(FormatError):
            list(checkpoint_format.ledgers_in(read, LedgersAt(place.start, place.end, wrong)))


def test_a_record_of_another_ledger_is_damage() -> None:
    wrong = {LedgerId(5): Kept(state=state_of(6), confirmed=EntryId(4))}
    with pytest.raises(FormatError, match="another ledger than 5"):
        checkpoint_format.parse(checkpoint_format.render(Checkpoint(log_id=7, ledgers=wrong)))


@given(st.integers(0, 12), st.integers(0, 3))
def test_no_checkpoint_is_larger_than_the_room_that_is_kept_for_it(
    ledgers: int, fragments: int
) -> None:
    wanted, fence = of(ledgers, fragments), records.FenceRecord
    fenced = {
        each: replace(
            kept,
            state=admission.applied(
                kept.state, fence(ledger_id=each, master_key=keeping.KEY, create_token=9)
            ),
        )
        for each, kept in wanted.ledgers.items()
    }
    for some in (wanted, replace(wanted, ledgers=fenced)):
        told = sum(kept.state.hint_bytes for _, kept in some.ledgers.items())
        most = checkpoint_format.bytes_max(ledgers=ledgers, hint_bytes=told, tombstones=0)
        assert len(checkpoint_format.render(some)) <= most


# ── the file ──


def peak_of(work: Iterator[object]) -> int:
    """Give the memory that work takes beside what was there before, at most."""
    tracemalloc.start()
    for _ in work:
        pass
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


def test_reading_and_writing_take_the_memory_of_some_pieces_and_not_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    piece = 16 << 10
    monkeypatch.setattr(checkpoint_format, "PIECE_BYTES", piece)
    files, wanted = RealFileSystem(tmp_path), of(5_000)

    def saved() -> Iterator[object]:
        checkpoint.save(files, wanted)
        yield None

    def secured() -> Iterator[object]:
        yield checkpoint.secured(files)

    assert peak_of(saved()) < 6 * piece
    assert (tmp_path / checkpoint.NAME).stat().st_size > 30 * piece
    assert peak_of(secured()) < 6 * piece
    ledgers = checkpoint.load(files).ledgers
    assert peak_of(iter(ledgers.items())) < 6 * piece
    files.close()


def test_one_ledger_with_more_hints_than_there_is_memory_is_read(tmp_path: Path) -> None:
    """An earlier version took hints of 64 KiB each, and thousands of them."""
    names, count = tuple(BookieId(f"{number:05x}") for number in range(9_000)), 60
    large = [
        FragmentRecord.of(replace(keeping.opening(1, first), ensemble=names, quorums=quorums))
        for quorums in [replace(keeping.opening(1).quorums, ensemble=len(names))]
        for first in range(count)
    ]
    state = admission.UNKNOWN
    for record in large:
        state = admission.applied(state, record)
    assert state.hint_bytes > 3 * hints.LEDGER_BYTES_MAX
    files = RealFileSystem(tmp_path)
    kept = {LedgerId(1): Kept(state=state, confirmed=EntryId(-1))}
    checkpoint.save(files, Checkpoint(log_id=7, ledgers=kept))
    ledgers = checkpoint.load(files).ledgers

    peak = peak_of(iter(ledgers.items()))

    assert peak < state.hint_bytes + 4 * checkpoint_format.PIECE_BYTES
    assert dict(ledgers.items()) == kept
    files.close()


def test_damage_of_any_piece_is_found_before_anything_is_believed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(checkpoint_format, "PIECE_BYTES", 200)
    size = len(checkpoint_format.render(of(9)))
    for at in range(0, size, 97):
        files = MemoryFileSystem()
        checkpoint.save(files, of(9))
        file = files.open(checkpoint.NAME)
        (was,) = file.read(at, 1)
        file.write(at, [bytes([was ^ 1])])
        for read in (checkpoint.load, checkpoint.secured):
            with pytest.raises(DamagedLogError):
                read(files)


# ── while a bookie runs ──


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint_format, "PIECE_BYTES", 100)


async def fill(kept: Storage) -> Driver:
    driver = Driver(kept)
    for ledger_id in range(LEDGERS):
        await driver.state(ledger_id, admission.OpenWanted(opening=keeping.opening(ledger_id)))
        await driver.append(keeping.frame(ledger_id, [0, 1]))
    return driver


async def commit(kept: Storage) -> None:
    """Let a checkpoint be written: that of a sweep, if there is nothing else."""
    await kept.forget([LedgerId(99)])
    await kept.reclaim()


@pytest.mark.usefixtures("small_pieces")
@virtual_time.played
async def test_between_two_pieces_the_disk_does_the_work_of_others_and_the_loop_goes_on() -> None:
    files = fresh()
    async with running(files, MemoryOrdered()) as kept:
        await fill(kept)
        done: list[str] = []

        def note(kind: str, name: str) -> None:
            if (kind, name) in (("write", NEW), ("rename", NEW)):
                done.append(kind)
                kept.log.put(
                    LogPut(record=None, written=lambda: done.append("acked"), failed=print)
                )

        files.troubles = note
        await commit(kept)
        files.troubles = no_troubles
        assert done.count("write") > 5
        assert done.count("acked") > 3
        assert done.index("acked") < done.index("rename")


@pytest.mark.usefixtures("small_pieces")
@virtual_time.played
async def test_a_power_loss_between_any_two_pieces_leaves_the_old_checkpoint() -> None:
    files, left = fresh(), list[MemoryFileSystem]()
    async with running(files, MemoryOrdered(), crash=True) as kept:
        driver = await fill(kept)
        before = checkpoint_format.render(in_memory(checkpoint.load(files)))

        def lost(kind: str, name: str) -> None:
            if name == NEW and kind in ("write", "sync", "rename"):
                left.append(files.crashed(random.Random(len(left))))

        files.troubles = lost
        await commit(kept)
        files.troubles = no_troubles
        promised = driver.snapshot()
    assert len(left) > 10
    for each in left:
        assert checkpoint_format.render(in_memory(checkpoint.load(each))) == before
        async with running(each, MemoryOrdered()) as kept:
            await check(kept, promised)
        assert NEW not in each.names()


@pytest.mark.usefixtures("small_pieces")
@virtual_time.played
async def test_without_room_for_the_third_piece_the_first_two_are_given_back() -> None:
    files = fresh()
    async with running(files, MemoryOrdered()) as kept:
        driver = await fill(kept)
        writes, waits = list[str](), list[bool]()

        def full(kind: str, name: str) -> None:
            if (kind, name) == ("write", NEW):
                writes.append(name)
                if len(writes) == 3:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), name)
            if kind == "remove" and name == NEW:
                waits.append(kept.backlog.stands_still is None)

        files.troubles = full
        await commit(kept)
        files.troubles = no_troubles
        assert waits == [True], "it is removed at once, before room is waited for"
        assert kept.counters.waits_for_room == 1
        assert NEW not in files.names()
        await check(kept, driver.promised)
