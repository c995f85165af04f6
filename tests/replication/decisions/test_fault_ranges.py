"""Faults as ranges: each fault is in exactly one, and what follows on is one range."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from zonekeeper.placement.base.ids import BookieId, EntryId
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.replication.audit import replica_reading
from zonekeeper.replication.decisions.copies import CopyFault, FaultKind
from zonekeeper.replication.decisions.fault_ranges import FaultRange, FaultRanges

A, B = BookieId("a"), BookieId("b")
PLAIN = Quorums(ensemble=3, write=3, ack=2)
STRIPED = Quorums(ensemble=6, write=3, ack=2)

Faulty = dict[tuple[int, BookieId], FaultKind]


def put_together(quorums: Quorums, wanted: range, faulty: Faulty) -> list[FaultRange]:
    ranges, found = FaultRanges(), list[FaultRange]()
    for window in replica_reading.windows(quorums, wanted):
        faults = [
            CopyFault(EntryId(entry), bookie, faulty[entry, bookie])
            for entry in window
            for bookie in (A, B)
            if (entry, bookie) in faulty
        ]
        found += ranges.add(window, faults)
    return [*found, *ranges.end()]


def test_a_bookie_that_lacks_all_of_a_long_fragment_is_one_range_a_stripe() -> None:
    wanted = range(7, 5_000)
    faulty: Faulty = {(entry, A): FaultKind.MISSING for entry in wanted}
    (found,) = put_together(PLAIN, wanted, faulty)
    assert found == FaultRange(bookie=A, fault=FaultKind.MISSING, same=None, entries=wanted)
    striped = put_together(STRIPED, wanted, faulty)
    assert [one.entries for one in striped] == [range(at, 5_000, 6) for at in range(7, 13)]


def test_another_fault_another_bookie_and_a_gap_each_begin_a_range() -> None:
    faulty = {
        **{(entry, A): FaultKind.MISSING for entry in (1, 2, 5)},
        (3, A): FaultKind.BAD,
        **{(entry, B): FaultKind.MISSING for entry in (1, 2)},
    }
    found = {(one.bookie, one.fault, one.entries) for one in put_together(PLAIN, range(9), faulty)}
    assert found == {
        (A, FaultKind.MISSING, range(1, 3)),
        (A, FaultKind.MISSING, range(5, 6)),
        (A, FaultKind.BAD, range(3, 4)),
        (B, FaultKind.MISSING, range(1, 3)),
    }


def test_copies_that_differ_in_another_way_are_another_range() -> None:
    ranges, window = FaultRanges(), range(2)
    faults = [CopyFault(EntryId(at), A, FaultKind.DIFFERING, at + 1) for at in window]
    found = [*ranges.add(window, faults), *ranges.end()]
    assert [(one.same, one.entries) for one in found] == [(1, range(1)), (2, range(1, 2))]


@given(
    st.sampled_from([PLAIN, STRIPED]),
    st.integers(0, 9),
    st.dictionaries(
        st.tuples(st.integers(0, 60), st.sampled_from([A, B])),
        st.sampled_from(FaultKind),
        max_size=60,
    ),
)
def test_each_fault_is_in_exactly_one_range(quorums: Quorums, first: int, drawn: Faulty) -> None:
    wanted = range(first, 61)
    faulty = {key: fault for key, fault in drawn.items() if key[0] in wanted}
    found = put_together(quorums, wanted, faulty)
    seen = Counter((entry, one.bookie, one.fault) for one in found for entry in one.entries)
    assert seen == Counter((entry, bookie, fault) for (entry, bookie), fault in faulty.items())
