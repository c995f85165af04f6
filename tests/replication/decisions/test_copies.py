"""The judgement of copies, and whether a bookie has its share."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonekeeper.placement.base.ids import BookieId, EntryId
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.replication.decisions import copies
from zonekeeper.replication.decisions.copies import Copy, CopyFault, FaultKind, Fingerprint, Lack

THREE = Quorums(ensemble=3, write=3, ack=2)
A, B, C = ENSEMBLE = tuple(BookieId(name) for name in "abc")
E0 = EntryId(0)
GOOD, OTHER = Fingerprint(3, b"x"), Fingerprint(3, b"y")


def judged(a: Copy | None, b: Copy | None, c: Copy | None) -> copies.CopiesVerdict:
    said = zip(ENSEMBLE, (a, b, c), strict=True)
    found = {bookie: {} if copy is None else {E0: copy} for bookie, copy in said}
    return copies.judge(THREE, ENSEMBLE, [E0], found)


@pytest.mark.parametrize("lack", Lack)
def test_who_lacks_what_another_has_is_doubted(lack: Lack) -> None:
    verdict = judged(GOOD, lack, GOOD)
    assert verdict.doubted == {B: (E0, lack)}
    assert (verdict.lost, verdict.conflicts, verdict.unknown) == ((), (), 0)


def test_one_good_copy_is_enough_to_doubt_all_others() -> None:
    assert judged(Lack.BAD, GOOD, Lack.ABSENT).doubted.keys() == {A, C}


def test_nothing_is_wrong_where_all_are_the_same() -> None:
    verdict = judged(GOOD, GOOD, GOOD)
    assert (verdict.doubted, verdict.lost, verdict.conflicts, verdict.unknown) == ({}, (), (), 0)


def test_silence_is_unknown_and_accuses_nobody() -> None:
    verdict = judged(GOOD, None, GOOD)
    assert (verdict.doubted, verdict.unknown) == ({}, 1)
    assert judged(Lack.ABSENT, None, Lack.BAD).lost == ()


def test_an_entry_is_lost_only_when_everybody_has_spoken() -> None:
    verdict = judged(Lack.ABSENT, Lack.BAD, Lack.UNREADABLE)
    assert (verdict.doubted, verdict.lost) == ({}, (E0,))


def test_good_copies_that_differ_are_for_people_even_where_most_agree() -> None:
    verdict = judged(GOOD, OTHER, GOOD)
    assert (verdict.doubted, verdict.conflicts) == ({}, (E0,))
    assert judged(GOOD, OTHER, Lack.ABSENT).doubted == {}, "it could be made from the wrong one"


def test_every_copy_that_is_not_known_to_be_good_is_a_fault() -> None:
    assert judged(GOOD, GOOD, GOOD).faults == ()
    assert judged(Lack.ABSENT, GOOD, Lack.BAD).faults == (
        CopyFault(E0, A, FaultKind.MISSING),
        CopyFault(E0, C, FaultKind.BAD),
    )
    assert judged(Lack.UNREADABLE, GOOD, None).faults == (
        CopyFault(E0, A, FaultKind.UNREADABLE),
        CopyFault(E0, C, FaultKind.UNKNOWN),
    )


def test_copies_that_differ_say_how_many_are_like_them() -> None:
    assert judged(GOOD, OTHER, GOOD).faults == (
        CopyFault(E0, A, FaultKind.DIFFERING, 2),
        CopyFault(E0, B, FaultKind.DIFFERING, 1),
        CopyFault(E0, C, FaultKind.DIFFERING, 2),
    )
    assert judged(GOOD, OTHER, Lack.ABSENT).faults[2] == CopyFault(E0, C, FaultKind.MISSING)


def test_an_entry_is_lost_beside_the_faults_of_its_copies_and_only_if_all_have_answered() -> None:
    gone = judged(Lack.ABSENT, Lack.BAD, Lack.ABSENT).faults
    assert [one.fault for one in gone] == [
        FaultKind.MISSING,
        FaultKind.BAD,
        FaultKind.MISSING,
        FaultKind.LOST,
    ]
    assert gone[-1] == CopyFault(E0, None, FaultKind.LOST)
    silent = judged(Lack.ABSENT, None, Lack.ABSENT).faults
    assert [one.fault for one in silent] == [
        FaultKind.MISSING,
        FaultKind.UNKNOWN,
        FaultKind.MISSING,
    ]


@given(
    st.sampled_from([(3, 3), (4, 3), (5, 2), (3, 1), (6, 3)]),
    st.integers(0, 20),
    st.integers(0, 20),
    st.sets(st.integers(0, 40)),
)
def test_a_share_is_there_when_every_entry_of_it_is(
    shape: tuple[int, int], first: int, count: int, there: set[int]
) -> None:
    quorums = Quorums(ensemble=shape[0], write=shape[1], ack=1)
    runs = [
        (EntryId(group[0]), EntryId(group[-1]))
        for _, each in itertools.groupby(enumerate(sorted(there)), lambda pair: pair[1] - pair[0])
        if (group := [entry for _, entry in each])
    ]
    wanted = range(first, first + count)
    for position in range(shape[0]):
        share = [entry for entry in wanted if quorums.holds(position, EntryId(entry))]
        expected = there.issuperset(share)
        assert copies.has_share(quorums, position, wanted, runs) is expected
