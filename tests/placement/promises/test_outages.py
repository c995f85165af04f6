"""What can still be built during an outage, asked of the real selector."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from zonekeeper.placement.base.holds import Holds
from zonekeeper.placement.base.ids import BookieId, UpgradeDomain, ZoneName
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.placement.base.topology import Bookie, Registration, Topology
from zonekeeper.placement.ensembles import failures, selector
from zonekeeper.placement.ensembles.adherence import Level
from zonekeeper.placement.ensembles.candidates import EnsembleRequest
from zonekeeper.placement.policy.rules import PlacementRules
from zonekeeper.placement.promises import outages, survivability
from zonekeeper.placement.promises.outages import Rebuilding
from zonekeeper.placement.promises.survivability import LossKind

SIX_FOUR = Quorums(ensemble=6, write=6, ack=4, ack_zones=2)
THREE_TWO = Quorums(ensemble=3, write=3, ack=2, ack_zones=2)


def bookie(zone: str, ordinal: int, domains: int) -> Bookie:
    domain = UpgradeDomain(f"ud-{ordinal % domains}")
    return Bookie(id=BookieId(f"{zone}-{ordinal}"), location=Location(ZoneName(zone), domain))


def request(
    quorums: Quorums, each: int, *, domains: int = 3, strict: bool = True
) -> EnsembleRequest:
    zones = (ZoneName("a"), ZoneName("b"), ZoneName("c"))
    return EnsembleRequest(
        topology=Topology(bookie(zone, i, domains) for zone in zones for i in range(each)),
        quorums=quorums,
        rules=PlacementRules(zones=zones, upgrade_domains=domains, strict=strict),
    )


def rebuilt(asked: EnsembleRequest) -> dict[LossKind, Rebuilding]:
    chance = random.Random(7)
    ensemble = selector.choose(asked, chance).ensemble
    return {found.loss: found for found in judged(asked, ensemble)}


def judged(asked: EnsembleRequest, ensemble: Sequence[BookieId]) -> tuple[Rebuilding, ...]:
    chance = random.Random(11)
    return outages.of_ensemble(asked.quorums, asked.rules, asked.topology, ensemble, chance)


def levels(asked: EnsembleRequest) -> dict[LossKind, tuple[Level | None, Level | None]]:
    return {loss: (one.changed.level, one.new.level) for loss, one in rebuilt(asked).items()}


def test_twelve_bookies_carry_six_four_through_a_zone_and_a_bookie() -> None:
    assert levels(request(SIX_FOUR, 4)) == {
        LossKind.BOOKIE: (Level.STRICT, Level.STRICT),
        LossKind.UPGRADE_DOMAIN: (Level.STRICT, Level.STRICT),
        LossKind.ZONE: (Level.SOFT, Level.SOFT),
        LossKind.ZONE_AND_BOOKIE: (Level.SOFT, Level.SOFT),
    }


def test_every_six_four_ensemble_over_twelve_bookies_keeps_a_copy_of_all_it_acknowledged() -> None:
    asked = request(SIX_FOUR, 4)
    for seed in range(100):
        chosen = selector.choose(asked, random.Random(seed)).ensemble
        places = [asked.topology.location(member) for member in chosen]
        *_, last = survivability.of_ensemble(SIX_FOUR, places)
        assert last.loss is LossKind.ZONE_AND_BOOKIE
        assert (last.reads.holds, last.recovery.holds) == (Holds.YES, Holds.YES)


def test_six_bookies_are_too_few_for_six_four_once_one_is_lost() -> None:
    found = rebuilt(request(SIX_FOUR, 2))[LossKind.BOOKIE]

    assert (found.changed.holds, found.new.holds) == (Holds.NO, Holds.NO)
    assert "there are too few bookies" in found.changed.why


def test_a_bookie_a_zone_leaves_nobody_to_take_over() -> None:
    assert levels(request(THREE_TWO, 1, domains=2)) == dict.fromkeys(LossKind, (None, None))


def test_two_bookies_a_zone_take_over_for_a_zone_but_not_for_a_bookie_more() -> None:
    found = levels(request(THREE_TWO, 2, domains=2))

    assert found[LossKind.ZONE] == (Level.SOFT, Level.SOFT)
    assert found[LossKind.ZONE_AND_BOOKIE] == (Level.SOFT, Level.SOFT)


def test_without_strict_placement_anything_is_built_that_bookies_suffice_for() -> None:
    asked = request(Quorums(ensemble=3, write=3, ack=2, ack_zones=1), 2, domains=1, strict=False)

    assert levels(asked)[LossKind.ZONE] == (Level.FAIL, Level.FAIL)


def test_what_is_illegal_is_refused_as_by_the_selector() -> None:
    asked = request(Quorums(ensemble=5, write=3, ack=2, ack_zones=2), 4)

    with pytest.raises(failures.IllegalPlacement):
        judged(asked, [bookie.id for bookie in asked.topology][:5])


# ── losses that are alike are tried once: against trying them all ──


def every_loss(topology: Topology, loss: LossKind) -> Iterator[set[BookieId]]:
    everyone = list(topology)
    places = [bookie.location for bookie in everyone if bookie.location]
    nowhere = {bookie.id for bookie in everyone if bookie.location is None}
    zones = [
        nowhere | {b.id for b in everyone if b.location and b.location.zone == zone}
        for zone in topology.zones
    ]
    if loss is LossKind.BOOKIE:
        yield from ({bookie.id} for bookie in everyone)
    elif loss is LossKind.UPGRADE_DOMAIN:
        for unit in places:
            yield nowhere | {bookie.id for bookie in everyone if bookie.location == unit}
    elif loss is LossKind.ZONE:
        yield from zones
    else:
        yield from ({*zone, bookie.id} for zone in zones for bookie in everyone)


def level_after(
    asked: EnsembleRequest, ensemble: Sequence[BookieId], lost: set[BookieId]
) -> Level | None:
    """Replace the lost members (or, without an ensemble, build anew) on what is left."""
    gone = [replace(b, registration=Registration.ABSENT) for b in asked.topology if b.id in lost]
    after = replace(asked, topology=asked.topology.updated(put=gone))
    positions = [place for place, member in enumerate(ensemble) if member in lost]
    try:
        if positions:
            choice = selector.replace(after, ensemble, positions, random.Random(3))
        else:
            choice = selector.choose(after, random.Random(3))
    except failures.NotEnoughBookies:
        return None
    return choice.judgement.level


def uneven(quorums: Quorums, sizes: str) -> EnsembleRequest:
    """Zones of these units: ``21 3 111`` is a zone of two units, one of one, one of three."""
    bookies = [
        Bookie(
            id=BookieId(f"{zone}-{unit}-{number}"),
            location=Location(ZoneName(zone), UpgradeDomain(f"ud-{unit}")),
            draining=number == 3,
        )
        for zone, units in zip("abcd", sizes.split(), strict=False)
        for unit, size in enumerate(units)
        for number in range(int(size))
    ]
    zones = tuple(ZoneName(zone) for zone in "abcd"[: len(sizes.split())])
    rules = PlacementRules(zones=zones, min_zones=2)
    return EnsembleRequest(topology=Topology(bookies), quorums=quorums, rules=rules)


@pytest.mark.parametrize("sizes", ["222 222 222", "11 11 11", "31 22 4", "211 41 11 1", "4 4 4 4"])
@pytest.mark.parametrize("quorums", [THREE_TWO, Quorums(ensemble=6, write=3, ack=2)], ids=str)
def test_the_worst_of_the_losses_tried_is_the_worst_of_all(quorums: Quorums, sizes: str) -> None:
    asked = uneven(quorums, sizes)
    ensemble = selector.choose(asked, random.Random(5)).ensemble
    for found in judged(asked, ensemble):
        losses = list(every_loss(asked.topology, found.loss))
        hitting = [lost for lost in losses if lost & set(ensemble)]
        new = {level_after(asked, [], lost) for lost in losses}
        changed = {level_after(asked, ensemble, lost) for lost in hitting}
        assert found.new.level == min(new, key=lambda level: level or 0)
        assert found.changed.level == min(changed, key=lambda level: level or 0)


def test_of_the_bookies_in_a_place_one_that_could_join_is_lost() -> None:
    asked = request(THREE_TWO, 2)
    topology = asked.topology.updated(remove=[BookieId("c-1")])
    draining = Bookie(
        id=BookieId("c-9"), location=topology.location(BookieId("c-0")), draining=True
    )
    asked = replace(asked, topology=topology.updated(put=[draining]))

    found = {one.loss: one for one in judged(asked, list(map(BookieId, ("a-0", "b-0", "a-1"))))}

    assert found[LossKind.BOOKIE].new.level is Level.SOFT


def test_an_unresolved_bookie_is_lost_with_every_zone() -> None:
    asked = request(THREE_TWO, 1, domains=2, strict=False)
    drifter = Bookie(id=BookieId("drifter"), location=None)
    asked = replace(asked, topology=asked.topology.updated(put=[drifter]))

    found = {one.loss: one for one in judged(asked, [BookieId(f"{zone}-0") for zone in "abc"])}

    assert found[LossKind.BOOKIE].changed.level is Level.FAIL
    assert found[LossKind.ZONE].changed.level is None
