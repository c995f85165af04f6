"""Cases in which an illegal configuration fails, in words, with its own zones and numbers.

A case is computed: an ensemble is laid out by rotation over the zones, a zone is taken away, and
the rule is applied to the members that are left. Where the configuration is so roomy that the
rotation does not show the fault, the text is the smallest known case, with that case's own numbers.
"""

from collections.abc import Sequence

from zonekeeper.placement.base.ids import EntryId, ZoneName
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.placement.policy.rules import PlacementRules

_NO_ZONE_LEFT = (
    "6/2 in zones a b c a b c with two zones required: with zone b lost, position 1 shares write "
    "sets with zone a (position 0) and zone c (position 2), so a newcomer may stand in neither"
)
_NO_DOMAIN_LEFT = (
    "6/3 as /a/ud-0 /b/ud-0 /c/ud-0 /a/ud-1 /b/ud-1 /c/ud-1: with zone c lost, the newcomer at "
    "position 2 shares write sets with ud-0 and ud-1 of both zones that are left"
)

#: A slot of an ensemble: its zone and the number of its upgrade domain.
_Slot = tuple[ZoneName, int]


def broken_rotation(quorums: Quorums, rules: PlacementRules) -> str:
    """Show a write set that wraps around and stands too often in one zone."""
    names = _distinct(rules)[: quorums.write]
    zones = _rotation(names, quorums.ensemble)
    sets = [_in_write_set(quorums, zones, start) for start in range(quorums.ensemble)]
    narrow = min(range(quorums.ensemble), key=lambda start: len(set(sets[start])))
    members = sets[narrow]
    zone = max(names, key=members.count)
    share = members.count(zone)
    text = (
        f"in zones {_join(zones)} the write set that starts at position {narrow} stands in "
        f"{_join(members)}: losing zone {zone} takes {share} of its {quorums.write} copies"
    )
    if share >= quorums.ack and quorums.ack_zones == 1:
        text += f", which may be the {quorums.ack} that acknowledged an entry"
    return text


def no_zone_for_replacement(quorums: Quorums, rules: PlacementRules) -> str:
    """Show a position for which no zone is left once its own zone is lost."""
    if quorums.write < rules.min_zones:
        return f"{quorums.write} copies cannot stand in {rules.min_zones} zones"
    names = _distinct(rules)
    zones = _rotation(names, quorums.ensemble)
    for position, lost in enumerate(zones):
        taken: dict[ZoneName, int] = {}
        for other in _neighbours(quorums, position):
            taken.setdefault(zones[other], other)
        left = [zone for zone in names if zone != lost]
        if left and all(zone in taken for zone in left):
            where = ", ".join(f"zone {zone} (position {taken[zone]})" for zone in left)
            return (
                f"in zones {_join(zones)} with zone {lost} lost, position {position} shares write "
                f"sets with {where}, so a newcomer may stand nowhere"
            )
    return _NO_ZONE_LEFT


def never_acknowledged(quorums: Quorums, rules: PlacementRules) -> str:
    """Show an ensemble that placement may give, and whose entries are never acknowledged."""
    width = max(rules.min_zones, 1) if rules.strict else 1
    zones = _rotation(_distinct(rules)[:width], quorums.write)
    return (
        f"the {quorums.write} copies of an entry in {_join(zones)} stand in {width} of the "
        f"{quorums.ack_zones} zones that must confirm: the writer stops until the ensemble changes"
    )


def too_few_upgrade_domains(quorums: Quorums, rules: PlacementRules) -> str:
    """Show copies that must share a zone and find no upgrade domain of their own."""
    if rules.upgrade_domains == 1:
        return _shared_domain(quorums, rules)
    names = _distinct(rules)
    slots = [
        (names[position % len(names)], position // len(names) % rules.upgrade_domains)
        for position in range(quorums.ensemble)
    ]
    *left, lost = names
    for position, (zone, _) in enumerate(slots):
        if left and zone == lost and not _newcomers(quorums, rules, slots, position):
            return (
                f"{quorums.ensemble}/{quorums.write} as {_join(_locations(slots))}: with zone "
                f"{lost} lost, each upgrade domain that is left is its zone's only one in some "
                f"write set of position {position}, so a newcomer would share it"
            )
    return _NO_DOMAIN_LEFT


def _shared_domain(quorums: Quorums, rules: PlacementRules) -> str:
    names = _distinct(rules)
    left = names[:-1]
    if not left or quorums.write <= len(left):
        # The zones are roomy: more must be lost before copies share one, down to the minimum.
        left = names[: max(rules.min_zones, 1)]
    return (
        f"with only zones {_join(left)} left, {quorums.write} copies of an entry stand in "
        f"{len(left)}, so two share a zone and its one upgrade domain, which is refused: "
        "writing stops"
    )


def _newcomers(
    quorums: Quorums, rules: PlacementRules, slots: Sequence[_Slot], position: int
) -> list[_Slot]:
    """Give the slots outside the lost zone that the rules allow at a position.

    The other positions of the lost zone are empty, as when a whole zone is replaced.
    """
    lost = slots[position][0]
    return [
        (zone, domain)
        for zone in _distinct(rules)
        if zone != lost
        for domain in range(rules.upgrade_domains)
        if all(
            (others := _others(quorums, slots, start, position)) is None
            or _fits(zone, domain, others)
            for start in range(quorums.ensemble)
        )
    ]


def _others(
    quorums: Quorums, slots: Sequence[_Slot], start: int, position: int
) -> list[_Slot] | None:
    """Give the living members of a write set beside a position; None if it is not in the set."""
    members = quorums.write_set(EntryId(start))
    if position not in members:
        return None
    return [slots[member] for member in members if slots[member][0] != slots[position][0]]


def _fits(zone: ZoneName, domain: int, others: Sequence[_Slot]) -> bool:
    there = {other_domain for other_zone, other_domain in others if other_zone == zone}
    return there != {domain}


def _distinct(rules: PlacementRules) -> tuple[ZoneName, ...]:
    return tuple(dict.fromkeys(rules.zones))


def _rotation(names: Sequence[ZoneName], length: int) -> tuple[ZoneName, ...]:
    return tuple(names[position % len(names)] for position in range(length))


def _in_write_set(quorums: Quorums, zones: Sequence[ZoneName], start: int) -> tuple[ZoneName, ...]:
    return tuple(zones[position] for position in quorums.write_set(EntryId(start)))


def _neighbours(quorums: Quorums, position: int) -> list[int]:
    sets = (quorums.write_set(EntryId(start)) for start in range(quorums.ensemble))
    shared = {member for members in sets if position in members for member in members}
    return sorted(shared - {position})


def _locations(slots: Sequence[_Slot]) -> list[str]:
    return [f"/{zone}/ud-{domain}" for zone, domain in slots]


def _join(names: Sequence[str]) -> str:
    return " ".join(names)
