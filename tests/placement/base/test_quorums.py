"""Which bookies an entry goes to, and when the acknowledgements are enough."""

import itertools
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonekeeper.placement.base.ids import EntryId, ZoneName
from zonekeeper.placement.base.quorums import Enough, Quorums

A, B, C = ZoneName("a"), ZoneName("b"), ZoneName("c")
SOMEWHERE = (A, B, None)


def test_an_entry_goes_to_consecutive_positions_that_wrap_around() -> None:
    striped = Quorums(ensemble=5, write=3, ack=2)

    assert [striped.write_set(EntryId(entry)) for entry in range(6)] == [
        (0, 1, 2),
        (1, 2, 3),
        (2, 3, 4),
        (3, 4, 0),
        (4, 0, 1),
        (0, 1, 2),
    ]


@given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 2**63 - 1))
def test_a_position_holds_an_entry_if_it_is_in_its_write_set(
    ensemble: int, write: int, entry: int
) -> None:
    quorums = Quorums(ensemble=max(ensemble, write), write=write, ack=1)
    entry_id = EntryId(entry)

    held = [p for p in range(quorums.ensemble) if quorums.holds(p, entry_id)]

    assert held == sorted(quorums.write_set(entry_id))


def test_four_answers_are_not_tested_for_truth() -> None:
    with pytest.raises(TypeError, match=r"is Enough\.YES"):
        bool(Enough.YES)


@pytest.mark.parametrize(
    ("zones", "enough"),
    [
        ((A,), Enough.NO),
        ((A, A), Enough.NO),
        ((A, A, A), Enough.NO),
        ((A, B), Enough.YES),
        ((A, A, B), Enough.YES),
        ((A, None), Enough.UNKNOWN),
        ((None, None), Enough.UNKNOWN),
        ((A, B, None), Enough.YES),
        ((None,), Enough.NO),
    ],
)
def test_two_bookies_in_two_zones_are_enough_where_their_zones_are_known(
    zones: tuple[ZoneName | None, ...], enough: Enough
) -> None:
    assert Quorums(ensemble=3, write=3, ack=2, ack_zones=2).suffice(zones) is enough


def test_an_unresolved_bookie_stands_in_one_zone_whichever_it_is() -> None:
    assert Quorums(ensemble=3, write=3, ack=1).suffice([None]) is Enough.YES


def test_the_first_two_acks_from_one_zone_wait_for_the_third() -> None:
    quorums = Quorums(ensemble=3, write=3, ack=2, ack_zones=2)

    def judge(acked: tuple[int, ...], pending: tuple[int, ...]) -> Enough:
        return quorums.acknowledged(EntryId(0), acked=acked, pending=pending, zones=(A, A, B))

    assert judge((0,), (1, 2)) is Enough.NOT_YET
    assert judge((0, 1), (2,)) is Enough.NOT_YET
    assert judge((0, 1, 2), ()) is Enough.YES
    assert judge((0, 2), (1,)) is Enough.YES
    assert judge((0, 1), ()) is Enough.NO  # the third has failed: the ensemble must change


def test_waiting_does_not_help_where_all_hangs_on_an_unresolved_zone() -> None:
    quorums = Quorums(ensemble=3, write=3, ack=2, ack_zones=2)

    judged = quorums.acknowledged(EntryId(0), acked=(0,), pending=(2,), zones=(A, A, None))

    assert judged is Enough.UNKNOWN


def test_acks_from_outside_the_write_set_are_a_bug_of_the_caller() -> None:
    striped = Quorums(ensemble=4, write=2, ack=1)

    with pytest.raises(AssertionError, match=r"outside the write set \(1, 2\) of entry 1"):
        striped.acknowledged(EntryId(1), acked={3}, pending=(), zones=[A, B, A, B])


def test_enough_is_what_holds_for_every_zone_that_an_unresolved_bookie_may_be_in() -> None:
    for count in range(1, 6):
        for zones in itertools.product(SOMEWHERE, repeat=count):
            for ack, ack_zones in itertools.product(range(1, 6), range(1, 5)):
                quorums = Quorums(ensemble=5, write=5, ack=ack, ack_zones=ack_zones)
                outcomes = {
                    count >= ack and len(set(resolved)) >= ack_zones
                    for resolved in resolutions(zones)
                }
                expected = {
                    frozenset({True}): Enough.YES,
                    frozenset({False}): Enough.NO,
                    frozenset({True, False}): Enough.UNKNOWN,
                }[frozenset(outcomes)]

                assert quorums.suffice(zones) is expected


def test_acknowledged_is_what_some_future_brings_in_every_small_world() -> None:
    for write in range(1, 5):
        states = list(itertools.product("apf", repeat=write))
        for zones in itertools.product(SOMEWHERE, repeat=write):
            for ack, ack_zones in itertools.product(range(1, write + 1), (1, 2)):
                quorums = Quorums(ensemble=write, write=write, ack=ack, ack_zones=ack_zones)
                for state in states:
                    acked = {p for p in range(write) if state[p] == "a"}
                    pending = {p for p in range(write) if state[p] == "p"}

                    judged = quorums.acknowledged(
                        EntryId(0), acked=acked, pending=pending, zones=zones
                    )

                    assert judged is brute(quorums, acked, pending, zones)


def brute(
    quorums: Quorums, acked: set[int], pending: set[int], zones: Sequence[ZoneName | None]
) -> Enough:
    """Judge by trying every future, and every place of the unresolved."""

    def outcomes(positions: set[int]) -> set[bool]:
        there = [zones[p] for p in sorted(positions)]
        return {
            len(positions) >= quorums.ack and len(set(each)) >= quorums.ack_zones
            for each in resolutions(there)
        }

    futures = [
        acked | set(more)
        for size in range(len(pending) + 1)
        for more in itertools.combinations(sorted(pending), size)
    ]
    if outcomes(acked) == {True}:
        return Enough.YES
    if any(outcomes(future) == {True} for future in futures):
        return Enough.NOT_YET
    if any(True in outcomes(future) for future in futures):
        return Enough.UNKNOWN
    return Enough.NO


def resolutions(zones: Sequence[ZoneName | None]) -> Iterator[tuple[ZoneName, ...]]:
    """Put every unresolved bookie into each zone there is, and into one of its own."""
    choices = [
        (zone,) if zone is not None else (A, B, ZoneName(f"own-{index}"))
        for index, zone in enumerate(zones)
    ]
    return itertools.product(*choices)
