"""When recovery may go on: no ack quorum is possible without a bookie that answered."""

import itertools
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zonekeeper.placement.base import coverage
from zonekeeper.placement.base.coverage import Coverage
from zonekeeper.placement.base.ids import EntryId, ZoneName
from zonekeeper.placement.base.quorums import Quorums

A, B, C = ZoneName("a"), ZoneName("b"), ZoneName("c")


def covered(
    quorums: Quorums,
    answered: set[int],
    pending: set[int] | None = None,
    zones: Sequence[ZoneName | None] | None = None,
) -> Coverage:
    return coverage.of_ensemble(
        quorums,
        answered=answered,
        pending=pending or set(),
        zones=zones or [None] * quorums.ensemble,
    )


def answers_needed(quorums: Quorums) -> int:
    """Count answers, one more each time, until any choice of that many covers the ensemble."""
    everyone = range(quorums.ensemble)
    return next(
        count
        for count in range(quorums.ensemble + 1)
        if all(
            covered(quorums, set(answered)) is Coverage.YES
            for answered in itertools.combinations(everyone, count)
        )
    )


def test_write_quorum_5_ack_quorum_3_needs_3_answers() -> None:
    assert answers_needed(Quorums(ensemble=5, write=5, ack=3)) == 3


def test_write_quorum_3_ack_quorum_2_needs_2_answers() -> None:
    assert answers_needed(Quorums(ensemble=3, write=3, ack=2)) == 2


def test_write_quorum_3_ack_quorum_3_needs_1_answer() -> None:
    assert answers_needed(Quorums(ensemble=3, write=3, ack=3)) == 1


def test_answers_are_counted_in_each_write_set_and_not_over_the_ensemble() -> None:
    striped = Quorums(ensemble=5, write=3, ack=2)

    # Three of five are not enough where the silent share a write set: 3 and 4, 2 and 4.
    assert covered(striped, {0, 1, 2}) is Coverage.NO
    assert covered(striped, {0, 1, 3}) is Coverage.NO
    assert covered(striped, {0, 1, 3, 4}) is Coverage.YES
    assert covered(Quorums(ensemble=6, write=3, ack=2), {0, 1, 3, 4}) is Coverage.YES
    assert covered(Quorums(ensemble=6, write=3, ack=2), {0, 1, 2, 3}) is Coverage.NO


def test_answers_still_to_come_are_waited_for() -> None:
    quorums = Quorums(ensemble=3, write=3, ack=2)

    assert covered(quorums, set(), {0, 1, 2}) is Coverage.NOT_YET
    assert covered(quorums, {0}, {1}) is Coverage.NOT_YET
    assert covered(quorums, {0}) is Coverage.NO
    assert covered(quorums, {0, 1}, {2}) is Coverage.YES


def test_silent_bookies_of_one_zone_make_no_ack_quorum_of_two_but_that_is_no_yes() -> None:
    quorums = Quorums(ensemble=3, write=3, ack=2, ack_zones=2)

    assert covered(quorums, {2}, zones=[A, A, B]) is Coverage.BY_ZONES
    assert covered(quorums, {1}, zones=[A, A, B]) is Coverage.NO
    assert covered(quorums, {2}, zones=[A, None, B]) is Coverage.NO
    assert covered(quorums, set(), {2}, zones=[A, A, B]) is Coverage.NOT_YET


def test_one_denial_does_not_show_that_an_entry_was_never_acknowledged() -> None:
    quorums = Quorums(ensemble=3, write=3, ack=2)

    def judge(denied: set[int], pending: set[int]) -> Coverage:
        return coverage.of_entry(
            quorums, EntryId(7), denied=denied, pending=pending, zones=[A, B, C]
        )

    assert judge({0}, {1, 2}) is Coverage.NOT_YET
    assert judge({0}, set()) is Coverage.NO  # the others timed out: that is no denial
    assert judge({0, 2}, {1}) is Coverage.YES


def test_denials_count_in_the_write_set_of_the_entry_alone() -> None:
    striped = Quorums(ensemble=4, write=2, ack=2)

    def judge(entry: int) -> Coverage:
        return coverage.of_entry(
            striped, EntryId(entry), denied={0}, pending=set(), zones=[A, B, A, B]
        )

    assert [judge(entry) for entry in range(4)] == [
        Coverage.YES,
        Coverage.NO,
        Coverage.NO,
        Coverage.YES,
    ]


def test_four_answers_are_not_tested_for_truth() -> None:
    with pytest.raises(TypeError, match=r"is Coverage\.YES"):
        bool(Coverage.NO)


@pytest.mark.parametrize("ensemble", range(1, 7))
def test_covered_is_when_no_ack_quorum_can_do_without_an_answer(ensemble: int) -> None:
    positions = range(ensemble)
    for write, ack in shapes(ensemble):
        quorums = Quorums(ensemble=ensemble, write=write, ack=ack)
        for state in itertools.product("aps", repeat=ensemble):
            answered = {p for p in positions if state[p] == "a"}
            pending = {p for p in positions if state[p] == "p"}
            now = not escapes(quorums, answered, [None] * ensemble)
            at_last = not escapes(quorums, answered | pending, [None] * ensemble)
            expected = Coverage.YES if now else Coverage.NOT_YET if at_last else Coverage.NO

            assert covered(quorums, answered, pending) is expected


def test_by_zones_is_when_only_the_zones_of_the_silent_stand_against_an_ack_quorum() -> None:
    for ensemble in range(1, 5):
        for (write, ack), ack_zones in itertools.product(shapes(ensemble), (2, 3)):
            quorums = Quorums(ensemble=ensemble, write=write, ack=ack, ack_zones=ack_zones)
            for zones in itertools.product((A, B, C, None), repeat=ensemble):
                for answered in subsets(ensemble):
                    assert covered(quorums, answered, zones=zones) is brute(
                        quorums, answered, zones
                    )


def drawn(
    data: st.DataObject, *, ensemble_min: int, write_min: int
) -> tuple[Quorums, list[ZoneName | None]]:
    """Draw quorums, and the zone of each member of an ensemble."""
    ensemble = data.draw(st.integers(ensemble_min, 9))
    write = data.draw(st.integers(write_min, ensemble))
    quorums = Quorums(
        ensemble=ensemble,
        write=write,
        ack=data.draw(st.integers(1, write)),
        ack_zones=data.draw(st.integers(1, 3)),
    )
    zones = data.draw(
        st.lists(st.sampled_from([A, B, C, None]), min_size=ensemble, max_size=ensemble)
    )
    return quorums, zones


@settings(deadline=None)
@given(st.data())
def test_larger_ensembles_are_covered_by_the_same_rule(data: st.DataObject) -> None:
    quorums, zones = drawn(data, ensemble_min=5, write_min=2)
    answered = data.draw(st.sets(st.integers(0, quorums.ensemble - 1)))

    assert covered(quorums, answered, zones=zones) is brute(quorums, answered, zones)


@given(st.data())
def test_another_answer_never_takes_coverage_away(data: st.DataObject) -> None:
    quorums, zones = drawn(data, ensemble_min=1, write_min=1)
    positions = st.sets(st.integers(0, quorums.ensemble - 1))
    fewer = data.draw(positions)
    more = fewer | data.draw(positions)
    worst_first = [Coverage.NO, Coverage.BY_ZONES, Coverage.YES]

    before, after = (covered(quorums, each, zones=zones) for each in (fewer, more))

    assert worst_first.index(after) >= worst_first.index(before)


def shapes(ensemble: int) -> Iterator[tuple[int, int]]:
    for write in range(1, ensemble + 1):
        for ack in range(1, write + 1):
            yield write, ack


def subsets(ensemble: int) -> Iterator[set[int]]:
    for size in range(ensemble + 1):
        for chosen in itertools.combinations(range(ensemble), size):
            yield set(chosen)


def brute(quorums: Quorums, answered: set[int], zones: Sequence[ZoneName | None]) -> Coverage:
    """Judge answers with nothing more to come."""
    by_number = Quorums(ensemble=quorums.ensemble, write=quorums.write, ack=quorums.ack)
    if not escapes(by_number, answered, zones):
        return Coverage.YES
    return Coverage.NO if escapes(quorums, answered, zones) else Coverage.BY_ZONES


def escapes(quorums: Quorums, answered: set[int], zones: Sequence[ZoneName | None]) -> bool:
    """Try every set of bookies that may acknowledge an entry; is there one without an answer?

    Bookies of unresolved zones may be each in a zone of its own.
    """
    for start in range(quorums.ensemble):
        members = [(start + step) % quorums.ensemble for step in range(quorums.write)]
        for size in range(quorums.ack, quorums.write + 1):
            for acked in itertools.combinations(members, size):
                span = {zones[p] if zones[p] is not None else p for p in acked}
                if len(span) >= quorums.ack_zones and answered.isdisjoint(acked):
                    return True
    return False
