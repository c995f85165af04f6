"""What survives which loss: the known table, and everything small against brute force."""

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zonekeeper.placement.base.holds import Holds
from zonekeeper.placement.base.ids import UpgradeDomain, ZoneName
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.placement.policy.rules import PlacementRules
from zonekeeper.placement.promises import survivability
from zonekeeper.placement.promises.survivability import Answer, LossKind, LossRow, WriteSet

YES, PERHAPS, NO = Holds.YES, Holds.PERHAPS, Holds.NO


def at(zone: str, domain: int = 0) -> Location:
    return Location(ZoneName(zone), UpgradeDomain(f"ud-{domain}"))


def turns(size: int, zones: str = "abc") -> list[Location]:
    """An even ensemble: zones take turns, and so do the upgrade domains of each."""
    return [at(zones[i % len(zones)], i // len(zones)) for i in range(size)]


def quorums(write: int, ack: int, ack_zones: int = 1, ensemble: int = 0) -> Quorums:
    return Quorums(ensemble=ensemble or write, write=write, ack=ack, ack_zones=ack_zones)


def by_loss(rows: Iterable[LossRow]) -> dict[LossKind, LossRow]:
    return {row.loss: row for row in rows}


def answers(row: LossRow) -> tuple[Holds, Holds, Holds]:
    return (row.reads.holds, row.recovery.holds, row.acks.holds)


def margin(answer: Answer) -> tuple[Holds, int]:
    return (answer.holds, answer.left - answer.needed)


# ── the table: quorums over three zones in turn, acks that need no particular zones ──


@pytest.mark.parametrize(
    ("write", "ack", "zone", "zone_and_bookie"),
    [
        pytest.param(
            3, 2, (YES, YES, YES), (NO, NO, NO), id="3/2: a zone, but not one bookie more"
        ),
        pytest.param(3, 3, (YES, YES, NO), (YES, YES, NO), id="3/3: both, but writers must move"),
        pytest.param(4, 3, (YES, YES, NO), (NO, NO, NO), id="4/3: a zone, and writers must move"),
        pytest.param(
            5, 3, (YES, YES, YES), (NO, NO, NO), id="5/3: a zone, but not one bookie more"
        ),
        pytest.param(6, 4, (YES, YES, YES), (YES, YES, NO), id="6/4: both; writers move for both"),
        pytest.param(6, 5, (YES, YES, NO), (YES, YES, NO), id="6/5: both, but writers must move"),
    ],
)
def test_what_a_zone_and_one_bookie_more_cost(
    write: int, ack: int, zone: tuple[Holds, ...], zone_and_bookie: tuple[Holds, ...]
) -> None:
    rows = by_loss(survivability.of_ensemble(quorums(write, ack), turns(write)))

    assert answers(rows[LossKind.ZONE]) == zone
    assert answers(rows[LossKind.ZONE_AND_BOOKIE]) == zone_and_bookie


@pytest.mark.parametrize(
    ("write", "ack", "copies", "recovery", "acks"),
    [
        (3, 2, 1, (2, 2), (2, 2)),
        (3, 3, 2, (2, 1), (2, 3)),
        (4, 3, 1, (2, 2), (2, 3)),
        (5, 3, 1, (3, 3), (3, 3)),
        (6, 4, 2, (4, 3), (4, 4)),
        (6, 5, 3, (4, 2), (4, 5)),
    ],
)
def test_the_numbers_behind_the_loss_of_a_zone(
    write: int, ack: int, copies: int, recovery: tuple[int, int], acks: tuple[int, int]
) -> None:
    row = by_loss(survivability.of_ensemble(quorums(write, ack), turns(write)))[LossKind.ZONE]

    assert row.reads.left == copies
    assert (row.recovery.left, row.recovery.needed) == recovery
    assert (row.acks.left, row.acks.needed) == acks


def test_six_four_over_twelve_bookies_survives_a_zone_and_a_bookie_when_striped_too() -> None:
    ensemble = turns(12)

    rows = by_loss(survivability.of_ensemble(quorums(6, 4, ensemble=12), ensemble))

    assert answers(rows[LossKind.ZONE_AND_BOOKIE]) == (YES, YES, NO)
    assert rows[LossKind.ZONE_AND_BOOKIE].reads.left == 1
    assert rows[LossKind.ZONE_AND_BOOKIE].reads.why == (
        "with zone a and a bookie of zone b lost, each acknowledged entry keeps at least 1 copy"
    )
    assert rows[LossKind.ZONE_AND_BOOKIE].acks.why == (
        "with zone a and a bookie of zone b lost, 3 of 6 are left, 4 are needed"
    )


# ── ackZones changes the answers ──

SOFT = [at("a", 0), at("b", 0), at("a", 1)]


def test_two_acks_of_one_zone_are_lost_with_it() -> None:
    row = by_loss(survivability.of_ensemble(quorums(3, 2), SOFT))[LossKind.ZONE]

    assert answers(row) == (NO, NO, NO)
    assert row.reads.why == "zone a may hold every copy of an acknowledged entry"


def test_two_acks_of_two_zones_are_not() -> None:
    row = by_loss(survivability.of_ensemble(quorums(3, 2, 2), SOFT))[LossKind.ZONE]

    assert answers(row) == (YES, PERHAPS, NO)
    assert row.recovery.why.endswith("provable only where the writer kept to this ackZones")


def test_an_even_three_two_gains_nothing_from_two_ack_zones() -> None:
    one = survivability.of_ensemble(quorums(3, 2, 1), turns(3))
    two = survivability.of_ensemble(quorums(3, 2, 2), turns(3))

    assert [answers(row) for row in one] == [answers(row) for row in two]


def test_acks_that_need_three_zones_stop_with_a_zone() -> None:
    two = by_loss(survivability.of_ensemble(quorums(6, 4, 2), turns(6)))[LossKind.ZONE]
    three = by_loss(survivability.of_ensemble(quorums(6, 4, 3), turns(6)))[LossKind.ZONE]

    assert (two.acks.holds, three.acks.holds) == (YES, NO)
    assert three.acks.why == (
        "with zone a lost, 4 of 6 are left, 4 are needed, in 3 zones where they stand in 2"
    )


def test_two_copies_in_one_upgrade_domain_fall_with_it() -> None:
    shared = [at("a", 0), at("a", 0), at("b", 0), at("c", 0)]

    row = by_loss(survivability.of_ensemble(quorums(4, 3), shared))[LossKind.UPGRADE_DOMAIN]

    assert (row.reads.left, row.acks.holds) == (1, NO)


def test_upgrade_domains_of_one_name_in_two_zones_are_two() -> None:
    rows = by_loss(survivability.of_ensemble(quorums(3, 2), [at("a"), at("b"), at("c")]))

    assert answers(rows[LossKind.UPGRADE_DOMAIN]) == (YES, YES, YES)


def test_an_unresolved_member_is_lost_with_every_zone() -> None:
    row = by_loss(survivability.of_ensemble(quorums(3, 2), [at("a"), at("b"), None]))[LossKind.ZONE]

    assert row.reads.holds is NO


def test_a_single_copy_survives_nothing() -> None:
    for row in survivability.of_ensemble(quorums(1, 1), [at("a")]):
        assert answers(row) == (NO, NO, NO)


def test_an_answer_is_not_tested_for_truth() -> None:
    with pytest.raises(TypeError, match="three answers"):
        bool(YES)


# ── against brute force ──


def losses(loss: LossKind, members: WriteSet) -> Iterator[set[int]]:
    """Every set of members that a loss can take; all are located."""
    everyone = range(len(members))
    zones = {place.zone for place in members if place}
    in_zone = [{i for i in everyone if (m := members[i]) and m.zone == zone} for zone in zones]
    if loss is LossKind.BOOKIE:
        yield from ({i} for i in everyone)
    elif loss is LossKind.UPGRADE_DOMAIN:
        yield from ({i for i in everyone if members[i] == unit} for unit in set(members))
    elif loss is LossKind.ZONE:
        yield from in_zone
    else:
        yield from ((gone | {i}) for gone in in_zone for i in everyone)


def spread(members: WriteSet, places: Iterable[int]) -> int:
    return len({place.zone for i in places if (place := members[i])})


def brute_force(asked: Quorums, members: WriteSet, loss: LossKind) -> tuple[int, int, bool, bool]:
    """Fewest copies left of an entry, fewest answers, is fencing sure, do acks go on."""
    everyone = range(asked.write)
    subsets = [
        set(subset)
        for n in range(asked.write + 1)
        for subset in itertools.combinations(everyone, n)
    ]
    ack_sets = [s for s in subsets if len(s) >= asked.ack and spread(members, s) >= asked.ack_zones]
    gone = list(losses(loss, members))
    alive = [set(everyone) - lost for lost in gone]
    return (
        min((len(acked - lost) for acked in ack_sets for lost in gone), default=-1),
        min(len(left) for left in alive),
        all(len(lost) < asked.ack for lost in gone),
        all(left in ack_sets for left in alive),
    )


PLACES = [at("a", 0), at("a", 1), at("b", 0), at("b", 1), at("c", 0)]


@pytest.mark.parametrize("write", [1, 2, 3, 4, 5])
def test_every_small_write_set_agrees_with_brute_force(write: int) -> None:
    for members in itertools.combinations_with_replacement(PLACES, write):
        for ack in range(1, write + 1):
            for ack_zones in range(1, min(ack, spread(members, range(write))) + 1):
                asked = quorums(write, ack, ack_zones)
                for row in survivability.of_ensemble(asked, members):
                    copies, answering, sure, acks = brute_force(asked, members, row.loss)
                    assert (row.reads.holds is YES, row.reads.left) == (copies > 0, copies)
                    assert (row.recovery.holds is YES) == sure
                    assert (row.recovery.holds is NO) == (not sure and copies == 0)
                    assert (row.acks.holds is YES) == acks
                    assert row.recovery.left == row.acks.left == answering or not (
                        row.recovery.holds is row.acks.holds is YES
                    )


@settings(deadline=None)
@given(
    st.lists(st.sampled_from([*PLACES, None]), min_size=1, max_size=5),
    st.integers(1, 5),
    st.integers(1, 3),
)
def test_nothing_is_promised_that_a_place_of_an_unresolved_member_would_break(
    members: list[Location | None], ack: int, ack_zones: int
) -> None:
    asked = quorums(len(members), min(ack, len(members)), min(ack, ack_zones, len(members)))
    claimed = survivability.of_ensemble(asked, members)

    choices = [[place] if place else [*PLACES, at("d")] for place in members]
    for resolved in itertools.islice(itertools.product(*choices), 60):
        for claim, truth in zip(claimed, survivability.of_ensemble(asked, resolved), strict=True):
            for promised, real in zip(answers(claim), answers(truth), strict=True):
                assert promised is not YES or real is YES, (claim, truth)


def legal_write_sets(
    write: int, rules: PlacementRules, bookies: dict[Location, int]
) -> Iterator[WriteSet]:
    for members in itertools.combinations_with_replacement(sorted(bookies), write):
        zones = Counter(place.zone for place in members)
        units = Counter(members)
        if any(count > bookies[unit] for unit, count in units.items()):
            continue
        crowded = any(
            count > 1 and units[place] == count
            for zone, count in zones.items()
            for place in units
            if place.zone == zone
        )
        if not rules.strict or (len(zones) >= rules.min_zones and not crowded):
            yield members


WORLDS = [
    {at("a", 0): 2, at("a", 1): 2, at("b", 0): 2, at("b", 1): 2, at("c", 0): 2, at("c", 1): 2},
    {at("a", 0): 1, at("a", 1): 1, at("b", 0): 1, at("b", 1): 1, at("c", 0): 1, at("c", 1): 1},
    {at("a", 0): 4, at("b", 0): 4, at("c", 0): 4},
    {at("a", 0): 3, at("a", 1): 1, at("b", 0): 1, at("b", 1): 1, at("c", 0): 2},
    {at("a", 0): 3, at("a", 1): 2, at("a", 2): 1, at("b", 0): 1, at("c", 0): 1},
    {at("a", 0): 2, at("a", 1): 2, at("b", 0): 0, at("b", 1): 0},
    {at("a", 0): 5, at("b", 0): 1},
    {at("a", 0): 5, at("b", 0): 2, at("b", 1): 1, at("c", 0): 1, at("c", 1): 1},
]


@pytest.mark.parametrize("bookies", WORLDS, ids=range(len(WORLDS)))
@pytest.mark.parametrize(("strict", "min_zones"), [(True, 1), (True, 2), (True, 3), (False, 2)])
def test_no_legal_write_set_survives_less_than_the_least_spread_ones(
    bookies: dict[Location, int], strict: bool, min_zones: int
) -> None:
    zones = tuple(sorted({place.zone for place in bookies}))
    rules = PlacementRules(zones=zones, min_zones=min_zones, strict=strict)
    for write in range(1, 6):
        every = set(legal_write_sets(write, rules, bookies))
        for ack, ack_zones in itertools.product(range(1, write + 1), range(1, 4)):
            asked = quorums(write, ack, min(ack, ack_zones))
            least = survivability.least_spread(asked, rules, bookies)
            assert {tuple(sorted(place for place in m if place)) for m in least} <= every
            assert bool(least) == bool(every)
            if every:
                worst = survivability.of_write_sets(asked, every)
                claimed = survivability.of_write_sets(asked, least)
                for row, claim in zip(worst, claimed, strict=True):
                    assert margin(claim.reads) == margin(row.reads)
                    assert margin(claim.recovery) == margin(row.recovery)
                    assert claim.acks.holds is row.acks.holds
