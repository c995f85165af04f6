"""One suite for both stores of the index: RocksDB and its twin."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from zonekeeper.bookie.formats.index import ExtentRow, Index, MemoryOrdered, Ordered
from zonekeeper.bookie.ledgers.extents import Extent
from zonekeeper.bookie.segments.rocks import RocksOrdered
from zonekeeper.placement.base.ids import EntryId, LedgerId
from zonekeeper.wire.formats import errors


@pytest.fixture(params=["rocks", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ordered]:
    made: Ordered = (
        RocksOrdered(tmp_path / "index") if request.param == "rocks" else MemoryOrdered()
    )
    yield made
    made.close()


def row(ledger_id: int, first: int, last: int) -> ExtentRow:
    return ExtentRow(
        LedgerId(ledger_id),
        Extent(EntryId(first), EntryId(last), 1 << 40 | first, last - first + 1),
    )


def pairs(found: Iterator[Extent]) -> list[tuple[int, int]]:
    return [(extent.first, extent.last) for extent in found]


def test_extents_are_found_by_what_they_hold(store: Ordered) -> None:
    index = Index(store)
    index.prepare(7)
    index.add(1, [row(1, 0, 4), row(1, 8, 9), row(3, 5, 5)])

    assert pairs(index.between(LedgerId(1), 0, 100)) == [(0, 4), (8, 9)]
    assert pairs(index.between(LedgerId(1), 3, 8)) == [(3, 4), (8, 8)]
    assert pairs(index.between(LedgerId(1), 5, 7)) == []
    assert pairs(index.between(LedgerId(0), 0, 100)) == []
    assert pairs(index.between(LedgerId(2), 0, 100)) == []
    assert pairs(index.between(LedgerId(3), 0, 100)) == [(5, 5)]
    assert pairs(index.between(LedgerId(4), 0, 100)) == []
    assert [index.last(LedgerId(each)) for each in range(5)] == [None, 9, None, 5, None]
    assert index.segments() == {1}


def test_adding_a_segment_again_changes_nothing(store: Ordered) -> None:
    index = Index(store)
    index.prepare(7)
    for _ in range(2):
        index.add(1, [row(1, 0, 4)])
        index.add(2, [row(1, 5, 6)])
    assert list(index.rows()) == [row(1, 0, 4), row(1, 5, 6)]
    assert index.segments() == {1, 2}


def test_the_index_of_another_log_is_not_used(store: Ordered) -> None:
    index = Index(store)
    index.prepare(7)
    index.add(1, [row(1, 0, 4)])
    index.prepare(7)
    assert index.segments() == {1}
    index.prepare(8)
    assert index.segments() == frozenset()
    assert list(index.rows()) == []


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.dictionaries(st.tuples(st.integers(0, 3), st.integers(0, 9)), st.integers(0, 2)),
    st.integers(0, 3),
    st.integers(0, 32),
    st.integers(0, 32),
)
def test_both_stores_say_what_a_list_says(
    store: Ordered, starts: dict[tuple[int, int], int], ledger_id: int, one: int, other: int
) -> None:
    first, last = sorted((one, other))
    rows = sorted(row(ledger, 3 * at, 3 * at + more) for (ledger, at), more in starts.items())
    index = Index(store)
    index.begin_anew(1)
    index.add(1, rows)
    expected = [
        (max(first, each.extent.first), min(last, each.extent.last))
        for each in rows
        if each.ledger_id == ledger_id and each.extent.first <= last and each.extent.last >= first
    ]
    assert pairs(index.between(LedgerId(ledger_id), first, last)) == expected
    assert list(index.rows()) == rows
    ids = [LedgerId(each) for each in (ledger_id, 3, 0, 9, 1, ledger_id)]
    assert index.lasts(ids) == [index.last(each) for each in ids]


def test_an_empty_store_has_no_floor(store: Ordered) -> None:
    assert list(store.floors([b"", b"x"])) == [None, None]
    assert Index(store).lasts([LedgerId(1)]) == [None]


def test_rocksdb_keeps_what_was_added_over_a_restart(tmp_path: Path) -> None:
    for _ in range(2):
        store = RocksOrdered(tmp_path / "index")
        index = Index(store)
        index.prepare(7)
        index.add(1, [row(1, 0, 4)])
        index.close()
    index = Index(RocksOrdered(tmp_path / "index"))
    index.prepare(7)
    assert list(index.rows()) == [row(1, 0, 4)]
    index.close()


def test_a_folder_that_cannot_be_an_index_is_an_error_of_the_disk(tmp_path: Path) -> None:
    (tmp_path / "index").write_text("a file")
    with pytest.raises(OSError, match="index"):
        RocksOrdered(tmp_path / "index")


@pytest.mark.parametrize("kept", range(4))
def test_the_twin_loses_its_newest_writes(kept: int) -> None:
    store = MemoryOrdered()
    index = Index(store)
    index.prepare(7)
    index.add(1, [row(1, 0, 4)])
    after = Index(store.crashed(kept))
    assert len(list(after.rows())) == (kept >= 2)
    assert after.segments() == (frozenset({1}) if kept == 3 else frozenset())


def test_a_damaged_index_is_refused_with_the_way_out(tmp_path: Path) -> None:
    RocksOrdered(tmp_path / "index").close()
    (tmp_path / "index" / "CURRENT").write_bytes(b"nothing of the kind")
    with pytest.raises(OSError, match=r"cannot be opened.*bookie rebuild-index"):
        RocksOrdered(tmp_path / "index")


def test_an_index_of_which_a_part_cannot_be_read_names_the_way_out(tmp_path: Path) -> None:
    rows = [(b"x%08d" % number, bytes(20)) for number in range(1_000)]
    for wanted in (rows, []):  # what was in its own log is in a table after the second start
        store = RocksOrdered(tmp_path / "index")
        store.write(wanted, sync=True)
        store.close()
    (table,) = (tmp_path / "index").glob("*.sst")
    data = bytearray(table.read_bytes())
    data[100] ^= 1
    table.write_bytes(data)
    store = RocksOrdered(tmp_path / "index")

    with pytest.raises(errors.IoFailed, match="build it again with `zonekeeper bookie rebuild-in"):
        list(store.from_floor(b"x"))
    with pytest.raises(errors.IoFailed, match="build it again with `zonekeeper bookie rebuild-in"):
        list(store.floors([b"x"]))
    with pytest.raises(errors.IoFailed, match="build it again with `zonekeeper bookie rebuild-in"):
        list(store.floors([b"x00000001"]))

    store.close()
