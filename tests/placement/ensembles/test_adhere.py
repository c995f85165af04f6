"""Repair to adhere plans the fewest moves that reach the best level, and none where none helps."""

import itertools
import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.placement import clusters, oracle
from tests.placement.clusters import ids
from zonekeeper.placement.base.ids import BookieId, UpgradeDomain, ZoneName
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.base.topology import Bookie, Registration, Topology
from zonekeeper.placement.ensembles import adhere, adherence, fewest, selector
from zonekeeper.placement.ensembles.adherence import Level
from zonekeeper.placement.ensembles.candidates import Avoid, EnsembleRequest

WIDE = clusters.even("abc", domains=3, each=2)


def plan(asked: EnsembleRequest, members: Sequence[BookieId], seed: int = 0) -> adhere.MovePlan:
    return adhere.plan(asked, members, random.Random(seed))


def test_a_ledger_written_during_an_outage_goes_back_to_three_zones_with_one_move() -> None:
    found = plan(clusters.request(WIDE, (3, 3)), ids("a-1-0", "b-1-0", "a-2-0"))

    assert found.judgement.level is Level.STRICT
    (move,) = found.replacements
    assert move.leaving in ("a-1-0", "a-2-0")
    assert clusters.zones_of(WIDE, [move.joining]) == ["c"]
    assert found.ensemble[move.position] == move.joining
    assert not found.cut


def test_striped_ledgers_go_back_with_as_many_moves_as_left_the_zone() -> None:
    lost = clusters.without_zone(WIDE, "c")
    for seed, shape in itertools.product(range(20), ((6, 3), (9, 3))):
        whole = clusters.even("abc", domains=3, each=4)
        lost = clusters.without_zone(whole, "c")
        chance = random.Random(seed)
        before = selector.choose(clusters.request(whole, shape), chance).ensemble
        gone = clusters.in_zone(whole, before, "c")
        soft = selector.replace(clusters.request(lost, shape), before, gone, chance).ensemble

        found = adhere.plan(clusters.request(whole, shape), soft, chance)

        assert found.judgement.level is Level.STRICT
        assert len(found.replacements) <= len(gone)


def test_an_ensemble_that_adheres_needs_nothing() -> None:
    members = ids("a-1-0", "b-1-0", "c-1-0")

    assert plan(clusters.request(WIDE, (3, 3)), members) == adhere.MovePlan(
        replacements=(),
        ensemble=members,
        judgement=adherence.Adherence(level=Level.STRICT),
        cut=False,
    )


@pytest.mark.parametrize("shape", [(3, 3), (6, 3), (6, 6), (12, 4)], ids=str)
def test_nothing_is_moved_while_the_zone_is_still_away(shape: tuple[int, int]) -> None:
    lost = clusters.without_zone(clusters.even("abc", domains=3, each=4), "c")
    asked = clusters.request(lost, shape)
    soft = selector.choose(asked, random.Random(0)).ensemble

    found = plan(asked, soft)

    assert (found.replacements, found.ensemble, found.cut) == ((), soft, False)
    assert found.judgement.level is Level.SOFT


def test_zones_and_bookies_that_are_avoided_get_no_moves() -> None:
    soft = ids("a-1-0", "b-1-0", "a-2-0")
    quarantined = frozenset(bookie.id for bookie in WIDE if bookie.id.startswith("c"))
    for avoid in (
        Avoid(zones=frozenset([ZoneName("c")])),
        Avoid(quarantined=quarantined),
        Avoid(bookies=quarantined),
    ):
        assert not plan(clusters.request(WIDE, (3, 3), avoid=avoid), soft).replacements


def test_a_failing_ensemble_becomes_soft_where_strict_is_out_of_reach() -> None:
    topology = clusters.even("ab", domains=3, each=2)

    found = plan(clusters.request(topology, (3, 3)), ids("a-1-0", "a-1-1", "b-1-0"))

    assert found.judgement.level is Level.SOFT
    assert len(found.replacements) == 1


def test_one_move_to_strict_is_preferred_to_one_move_to_soft() -> None:
    found = plan(clusters.request(WIDE, (3, 3)), ids("a-1-0", "a-1-1", "b-1-0"))

    assert found.judgement.level is Level.STRICT
    assert len(found.replacements) == 1


@pytest.mark.parametrize("stranger", ["lost", "nobody"])
def test_a_member_without_a_location_is_moved(stranger: str) -> None:
    topology = WIDE.updated(put=[Bookie(id=BookieId("lost"), location=None)])

    found = plan(clusters.request(topology, (3, 3)), ids("a-1-0", stranger, "b-1-0"))

    assert found.judgement.level is Level.STRICT
    assert [move.leaving for move in found.replacements] == [stranger]


def test_quorums_that_can_never_adhere_are_left_alone() -> None:
    members = ids("a-1-0", "b-1-0", "c-1-0", "a-2-0", "b-2-0")
    found = plan(clusters.request(WIDE, (5, 3), clusters.rules(strict=False)), members)

    assert not found.replacements
    assert found.judgement.level is Level.FAIL


def test_the_same_chance_gives_the_same_plan() -> None:
    asked = clusters.request(WIDE, (6, 3))
    members = ids("a-1-0", "b-1-0", "a-2-0", "b-2-0", "a-3-0", "b-3-0")

    assert plan(asked, members, 5) == plan(asked, members, 5)


@pytest.mark.parametrize("shape", [(18, 3), (24, 4), (30, 3)], ids=str)
def test_a_wide_ensemble_goes_back_with_no_more_moves_than_left_the_zone(
    shape: tuple[int, int],
) -> None:
    whole = clusters.even("abc", domains=3, each=shape[0] // 5)
    lost = clusters.without_zone(whole, "c")
    for seed in range(5):
        chance = random.Random(seed)
        before = selector.choose(clusters.request(whole, shape), chance).ensemble
        gone = clusters.in_zone(whole, before, "c")
        soft = selector.replace(clusters.request(lost, shape), before, gone, chance).ensemble

        found = adhere.plan(clusters.request(whole, shape), soft, chance)

        assert not found.cut, "it is known that fewer will not do"
        assert found.judgement.level is Level.STRICT
        assert len(found.replacements) <= len(gone)


def test_a_wide_ensemble_that_two_zones_shared_from_the_start_is_chosen_anew() -> None:
    whole = clusters.even("abc", domains=3, each=8)
    members = ids(*(f"{'ab'[at % 2]}-{at // 2 % 3 + 1}-{at // 6}" for at in range(24)))

    found = plan(clusters.request(whole, (24, 3)), members)

    assert found.cut
    assert found.judgement.level is Level.STRICT


def test_a_plan_that_was_cut_short_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fewest, "FIRST_STEPS_MAX", 0)
    monkeypatch.setattr(fewest, "CHANGE_STEPS_MAX", 0)
    members = ids("a-1-0", "b-1-0", "a-2-0", "b-2-0", "a-3-0", "b-3-0")

    found = plan(clusters.request(WIDE, (6, 3)), members)

    assert found.cut
    assert found.judgement.level is Level.STRICT, "it is chosen anew as a whole"
    monkeypatch.setattr(adhere, "ANEW_STEPS_MAX", 0)
    found = plan(clusters.request(WIDE, (6, 3)), members)
    assert found.cut
    assert not found.replacements
    few = clusters.even("ab", domains=3, each=1)
    assert not plan(clusters.request(few, (6, 3)), members).cut, "there is no third zone to go to"


# ── members that change places ──

RING = clusters.even("abc", domains=2, each=1)


def test_s133_a_full_ring_becomes_strict_by_members_that_change_places() -> None:
    # c was away for a while: its bookies came back to places of others.
    members = ids("a-1-0", "b-1-0", "a-2-0", "c-1-0", "b-2-0", "c-2-0")

    found = plan(clusters.request(RING, (6, 3)), members)

    assert found.judgement.level is Level.STRICT
    assert sorted(found.ensemble) == sorted(members)
    one, other = found.replacements
    assert (one.leaving, one.joining) == (other.joining, other.leaving)


def test_s133_each_order_of_a_full_ring_becomes_strict_with_the_fewest_moves() -> None:
    asked = clusters.request(RING, (6, 3))
    orders = list(itertools.permutations(bookie.id for bookie in RING))
    strict = [
        order
        for order in orders
        if adherence.judge(order, asked.quorums, asked.rules, RING).level is Level.STRICT
    ]
    assert strict
    for members in orders[:120]:  # each order, but for a turn of the ring
        found = plan(asked, members)
        assert found.judgement.level is Level.STRICT
        assert len(found.replacements) == min(
            sum(new != old for new, old in zip(order, members, strict=True)) for order in strict
        )


def test_s133_a_full_ring_that_no_order_makes_strict_is_left_alone() -> None:
    # Three bookies of zone a, of six: with two zones besides, some write set has two of a.
    topology = clusters.cluster({"a": {"1": 2, "2": 1}, "b": {"1": 1}, "c": {"1": 1, "2": 1}})
    asked = clusters.request(topology, (6, 3))
    members = ids("a-1-0", "b-1-0", "c-1-0", "a-1-1", "c-2-0", "a-2-0")

    found = plan(asked, members)

    assert (found.judgement.level, found.replacements, found.cut) == (Level.SOFT, (), False)


def test_members_that_new_ensembles_may_not_name_change_no_places() -> None:
    members = ids("a-1-0", "b-1-0", "a-2-0", "c-1-0", "b-2-0", "c-2-0")
    everybody = frozenset(members)
    draining = RING.updated(put=[replace(bookie, draining=True) for bookie in RING])
    full = RING.updated(
        put=[replace(bookie, registration=Registration.READ_ONLY) for bookie in RING]
    )
    for asked in (
        clusters.request(draining, (6, 3)),
        clusters.request(full, (6, 3)),
        clusters.request(RING, (6, 3), avoid=Avoid(bookies=everybody)),
        clusters.request(RING, (6, 3), avoid=Avoid(quarantined=everybody)),
        clusters.request(RING, (6, 3), avoid=Avoid(zones=frozenset([ZoneName("a")]))),
    ):
        found = plan(asked, members)
        assert not {move.joining for move in found.replacements}.intersection(
            asked.avoid.bookies, asked.avoid.quarantined
        )
        zones = clusters.zones_of(RING, [move.joining for move in found.replacements])
        assert not asked.avoid.zones.intersection(zones)
        if not asked.avoid.zones:
            assert (found.replacements, found.cut) == ((), False)
    assert plan(clusters.request(RING, (6, 3)), members).replacements


def test_a_bookie_that_is_no_member_is_preferred_to_a_change_of_places() -> None:
    members = ids("a-1-0", "b-1-0", "a-2-0", "b-2-0", "c-1-0", "c-2-0")
    whole = clusters.even("abc", domains=2, each=2)
    for seed in range(20):
        found = plan(clusters.request(whole, (6, 3)), members, seed)
        assert found.judgement.level is Level.STRICT
        assert not {move.joining for move in found.replacements}.intersection(members)


def test_where_all_members_hold_all_entries_no_member_changes_places() -> None:
    whole = clusters.even("abcd", domains=2, each=2)
    everybody = [bookie.id for bookie in whole]
    for seed in range(60):
        chance = random.Random(seed)
        members = tuple(chance.sample(everybody, 6))
        found = plan(clusters.request(whole, (6, 6), clusters.rules(3, 4)), members, seed)
        assert found.judgement.level is Level.STRICT
        assert not {move.joining for move in found.replacements}.intersection(members)


# ── against brute force ──


def fewest_moves(
    pattern: oracle.Pattern, free: Sequence[Sequence[int]], write: int, zones: int
) -> int | None:
    """Give the fewest positions that can be filled anew so that a spread is reached."""
    for size in range(len(pattern) + 1):
        for opened in itertools.combinations(range(len(pattern)), size):
            kept = [None if at in opened else unit for at, unit in enumerate(pattern)]
            spare = [list(zone) for zone in free]
            for zone, domain in (pattern[at] for at in opened):
                spare[zone][domain] += 1  # who leaves a position may take another one
            if any(spread >= zones for spread in oracle.completions(spare, kept, write)):
                return size
    return None


@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (4, 4), (6, 3)], ids=str)
def test_plans_are_as_short_as_brute_force_finds_them(shape: tuple[int, int]) -> None:
    size, write = shape
    minimum, desired = min(2, write - 1), min(3, write)
    chance = random.Random(write)
    sizes = ((2, 1), (1, 1), (2,), (1,), ())
    for world in oracle.worlds(3, sizes):
        units = [
            (z, d) for z, zone in enumerate(world) for d, n in enumerate(zone) for _ in range(n)
        ]
        if len(units) < size:
            continue
        for _ in range(4):
            members = tuple(chance.sample(units, size))
            topology, ensemble, free = laid_out(world, members)
            asked = clusters.request(topology, shape, clusters.rules(minimum))
            found = plan(asked, ensemble)

            moves = fewest_moves(members, free, write, desired)
            expected = Level.STRICT
            if moves is None:
                moves, expected = fewest_moves(members, free, write, minimum), Level.SOFT
            if moves is None:
                moves, expected = 0, Level.FAIL
            assert (len(found.replacements), found.judgement.level) == (moves, expected), members


def laid_out(
    world: oracle.World, members: oracle.Pattern
) -> tuple[Topology, tuple[BookieId, ...], list[list[int]]]:
    """Build a world, with bookies that are members, and count those that are not."""
    free = [list(zone) for zone in world]
    bookies, ensemble = [], []
    for at, (zone, domain) in enumerate(members):
        free[zone][domain] -= 1
        ensemble.append(BookieId(f"member-{at}"))
        bookies.append(Bookie(id=ensemble[-1], location=place(zone, domain)))
    bookies += [
        Bookie(id=BookieId(f"spare-{zone}-{domain}-{number}"), location=place(zone, domain))
        for zone, domains in enumerate(free)
        for domain, count in enumerate(domains)
        for number in range(count)
    ]
    return Topology(bookies), tuple(ensemble), free


def place(zone: int, domain: int) -> Location:
    return Location(clusters.ZONES[zone], UpgradeDomain(f"ud-{domain}"))
