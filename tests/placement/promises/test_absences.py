"""What it costs a ledger when a unit, a zone and an upgrade domain in it, is away."""

import itertools
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zonekeeper.placement.base.holds import Holds
from zonekeeper.placement.base.ids import UpgradeDomain, ZoneName
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.placement.promises import absences
from zonekeeper.placement.promises.absences import Absence


def spot(text: str) -> Location | None:
    """Read ``a0`` as zone a, upgrade domain 0; ``?`` is unresolved."""
    if text == "?":
        return None
    return Location(ZoneName(text[0]), UpgradeDomain(f"ud-{text[1]}"))


def cost(
    shape: str,
    ensemble: str,
    *,
    ack_zones: int = 1,
    already: frozenset[int] = frozenset(),
) -> Absence:
    """Take /a/ud-0 away."""
    members = [spot(each) for each in ensemble.split()]
    unit = spot("a0")
    assert unit is not None
    _, write, ack = (int(part) for part in shape.split("/"))
    quorums = Quorums(ensemble=len(members), write=write, ack=ack, ack_zones=ack_zones)
    return absences.of_unit(quorums, members, unit, already=already)


@pytest.mark.parametrize(
    ("shape", "ensemble", "worst", "answers"),
    [
        ("3/3/2", "a0 b0 c0", 1, "yes yes yes no"),
        ("3/3/3", "a0 b0 c0", 1, "yes no yes yes"),
        ("3/3/2", "a0 a1 b0", 1, "yes yes yes no"),
        ("3/3/2", "a0 a0 b0", 2, "no no no no"),
        ("6/6/4", "a0 b0 c0 a1 b1 c1", 1, "yes yes yes yes"),
        ("6/6/4", "a0 b0 c0 a0 b1 c1", 2, "yes yes yes no"),
        ("6/3/2", "a0 b0 c0 a1 b1 c1", 1, "yes yes yes no"),
        ("6/3/2", "a0 b0 c0 a0 b0 c0", 1, "yes yes yes no"),
        ("3/3/2", "b0 c0 b1", 0, "yes yes yes no"),
    ],
)
def test_what_a_unit_costs(shape: str, ensemble: str, worst: int, answers: str) -> None:
    found = cost(shape, ensemble)

    assert found.worst == worst
    reads, acks, recovery, reads_if_zone_lost = (
        Holds[answer.upper()] for answer in answers.split()
    )
    assert (found.reads, found.acks, found.recovery) == (reads, acks, recovery)
    assert found.reads_if_zone_lost is reads_if_zone_lost


def test_acks_from_two_zones_keep_entries_readable_whatever_a_unit_takes() -> None:
    found = cost("3/3/2", "a0 a0 b0", ack_zones=2)

    assert found.reads is Holds.YES
    assert found.acks is Holds.NO
    # By number an ack quorum is away; that its zone rules it out is not for counting to say.
    assert found.recovery is Holds.NO
    assert not found.harmless


def test_acks_from_two_zones_need_two_zones_to_stay() -> None:
    assert cost("3/3/2", "a0 b0 b1").acks is Holds.YES
    assert cost("3/3/2", "a0 b0 b1", ack_zones=2).acks is Holds.NO


def test_what_is_away_already_is_counted_with_the_unit() -> None:
    alone = cost("3/3/2", "a0 b0 c0")
    together = cost("3/3/2", "a0 b0 c0", already=frozenset({1}))

    assert alone.harmless
    assert (together.reads, together.acks, together.recovery) == (Holds.NO,) * 3
    assert together.away == {0, 1}


def test_a_member_of_unknown_place_makes_the_answer_unknown_where_it_hangs_on_it() -> None:
    found = cost("3/3/2", "a0 ? c0")

    assert (found.reads, found.acks, found.recovery) == (Holds.PERHAPS,) * 3
    assert found.perhaps == {1}
    assert not found.harmless
    assert cost("6/6/4", "a0 ? c0 a1 b1 c1").harmless


def test_the_words_say_the_numbers() -> None:
    assert cost("3/3/2", "a0 ? c0").words() == (
        "at most 2 of the 3 copies of an entry are away",
        "unresolved, and counted as away: position 1",
        "acknowledged entries stay readable: perhaps",
        "2 can acknowledge without an ensemble change: perhaps",
        "a ledger whose writer dies can be recovered: perhaps",
        "entries stay readable if another zone is lost too: no",
    )


def test_three_answers_are_not_tested_for_truth() -> None:
    with pytest.raises(TypeError, match=r"is Holds\.YES"):
        bool(Holds.YES)


def test_an_ensemble_of_another_size_is_a_bug_of_the_caller() -> None:
    unit = spot("a0")
    assert unit is not None

    with pytest.raises(AssertionError, match="1 members of an ensemble of 3"):
        absences.of_unit(Quorums(ensemble=3, write=3, ack=2), [unit], unit)


def test_in_every_small_world_the_formulas_hold_where_acks_may_come_from_one_zone() -> None:
    for shape, members in small_worlds(("a0", "a1", "b0", "b1", "c0")):
        found = cost(shape, " ".join(members))
        _, write, ack = (int(part) for part in shape.split("/"))
        g = found.worst
        k = max(
            len([p for p in write_set if members[p][0] == zone])
            for zone in "bc"
            for write_set in windows(len(members), write)
        )

        assert found.reads is (Holds.YES if ack >= g + 1 else Holds.NO)
        assert found.acks is (Holds.YES if write - g >= ack else Holds.NO)
        assert found.recovery is (Holds.YES if g < ack else Holds.NO)
        if ack >= k + g + 1:
            assert found.reads_if_zone_lost is Holds.YES


def test_in_every_small_world_reads_and_acks_are_what_every_ack_set_says() -> None:
    for (shape, members), ack_zones in itertools.product(
        small_worlds(("a0", "a1", "b0", "c0")), (1, 2)
    ):
        found = cost(shape, " ".join(members), ack_zones=ack_zones)
        away = {p for p, each in enumerate(members) if each == "a0"}

        assert found.reads is (
            Holds.NO if any(acked <= away for acked in ack_sets(shape, members, ack_zones))
            else Holds.YES
        )  # fmt: skip
        for zone in "bc":
            lost = away | {p for p, each in enumerate(members) if each[0] == zone}
            if any(acked <= lost for acked in ack_sets(shape, members, ack_zones)):
                assert found.reads_if_zone_lost is Holds.NO


@settings(deadline=None)
@given(st.lists(st.sampled_from(["a0", "a1", "b0", "c0", "?"]), min_size=3, max_size=5), st.data())
def test_an_answer_holds_wherever_the_unresolved_turn_out_to_be(
    members: list[str], data: st.DataObject
) -> None:
    write = data.draw(st.integers(2, len(members)))
    shape = f"{len(members)}/{write}/{data.draw(st.integers(1, write))}"
    ack_zones = data.draw(st.integers(1, 2))
    found = cost(shape, " ".join(members), ack_zones=ack_zones)
    for resolved in itertools.product(
        *(["a0", "a1", "b0", "d0"] if m == "?" else [m] for m in members)
    ):
        real = cost(shape, " ".join(resolved), ack_zones=ack_zones)
        for said, true in (
            (found.reads, real.reads),
            (found.acks, real.acks),
            (found.recovery, real.recovery),
        ):
            assert said in (true, Holds.PERHAPS)


def small_worlds(places: Sequence[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    for size in range(1, 5):
        for members in itertools.product(places, repeat=size):
            for write in range(1, size + 1):
                for ack in range(1, write + 1):
                    yield f"{size}/{write}/{ack}", members


def windows(ensemble: int, write: int) -> Iterator[set[int]]:
    for start in range(ensemble):
        yield {(start + step) % ensemble for step in range(write)}


def ack_sets(shape: str, members: Sequence[str], ack_zones: int) -> Iterator[set[int]]:
    _, write, ack = (int(part) for part in shape.split("/"))
    for write_set in windows(len(members), write):
        for size in range(ack, write + 1):
            for acked in itertools.combinations(sorted(write_set), size):
                if len({members[p][0] for p in acked}) >= ack_zones:
                    yield set(acked)
