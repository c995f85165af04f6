"""Legality: can this configuration keep its promises, whichever bookies are up?

``judge`` compares the quorums with the placement rules, that is with the zones and upgrade domains
that the policy record names. Which bookies are up plays no part. Otherwise a configuration could be
legal on Monday and illegal in an outage.

There are two kinds of rule. A configuration that contradicts itself (an ack quorum above the write
quorum) is always refused. A configuration that can be built but fails when a zone is lost is
refused under strict placement. Without strict placement the same finding is a warning, and its
reason says what is lost. Each finding names the field, its value, the rule and what to change, and
shows a case in which the configuration fails.

A rule may be stronger than it must be. ``write > minZones`` also refuses 2/2 over three zones,
where a replacement would find a zone. This is Apache BookKeeper's rule, and the placement checker
applies it to ensembles. One rule without exceptions is easier for people to remember.
"""

import enum
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.placement.policy import counterexamples
from zonekeeper.placement.policy.rules import PlacementRules

#: With fewer upgrade domains planned work takes down a large part of a zone, even if that is legal.
COMFORTABLE_UPGRADE_DOMAINS: Final = 3
#: With all copies in fewer zones than this, the loss of one zone loses all of them.
ZONES_TO_SURVIVE_ONE: Final = 2


class Code(enum.StrEnum):
    """The name of a rule, for programs; people read the reason."""

    NOT_POSITIVE = "not-positive"
    NO_ZONES = "no-zones"
    WRITE_ABOVE_ENSEMBLE = "write-above-ensemble"
    ACK_ABOVE_WRITE = "ack-above-write"
    ACK_ZONES_ABOVE_ACK = "ack-zones-above-ack"
    ACK_ZONES_ABOVE_ZONES = "ack-zones-above-zones"
    ENSEMBLE_NOT_MULTIPLE = "ensemble-not-multiple-of-write"
    WRITE_NOT_ABOVE_MIN_ZONES = "write-not-above-min-zones"
    MIN_ABOVE_DESIRED = "min-zones-above-desired"
    MIN_NOT_BELOW_ZONES = "min-zones-not-below-zones"
    ACK_ZONES_NOT_PROMISED = "ack-zones-not-promised"
    TOO_FEW_UPGRADE_DOMAINS = "too-few-upgrade-domains"
    FEW_UPGRADE_DOMAINS = "few-upgrade-domains"
    ACKS_IN_ONE_ZONE = "acks-in-one-zone"
    MIN_ZONES_BELOW_TWO = "min-zones-below-two"
    DESIRED_ABOVE_ZONES = "desired-above-zones"
    #: Found by ``gating``, which knows the sizes of zones.
    ZONE_NEVER_GATED = "zone-never-gated"
    ZONE_NOT_GATED_NOW = "zone-not-gated-now"
    FLAPPING_NOT_SEEN = "flapping-not-seen"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenRule:
    """One rule that does not hold."""

    code: Code
    #: The field, its value, the rule, what is lost, and what to change.
    reason: str
    #: A case in which the configuration fails.
    example: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Legality:
    """The findings about a configuration: ``refusals`` forbid it, ``warnings`` do not."""

    refusals: tuple[BrokenRule, ...] = ()
    warnings: tuple[BrokenRule, ...] = ()

    @property
    def legal(self) -> bool:
        """May the configuration be used?"""
        return not self.refusals

    def __bool__(self) -> bool:
        raise TypeError("a verdict has refusals and warnings: ask for `.legal`")


def judge(quorums: Quorums, rules: PlacementRules) -> Legality:
    """Judge quorums against placement rules, and give all findings together.

    If the numbers contradict each other, only that is reported: the other rules need sane numbers.
    """
    nonsense = tuple(_out_of_range(quorums, rules)) or tuple(_contradictions(quorums, rules))
    if nonsense:
        return Legality(refusals=nonsense)
    broken = tuple(_broken_promises(quorums, rules))
    risks = tuple(_risks(quorums, rules))
    if rules.strict:
        return Legality(refusals=broken, warnings=risks)
    return Legality(warnings=broken + risks)


def needed_upgrade_domains(quorums: Quorums) -> int:
    """Give the upgrade domains a zone needs so that a bookie can be replaced after a zone's loss.

    Two copies of an entry in one zone must stand in two upgrade domains. With E = Qw two domains
    are enough. With E > Qw a position is in several write sets. The members of these write sets in
    one zone may already use two domains, and then only a third is free for a newcomer. A single
    copy shares no zone.
    """
    if quorums.write == 1:
        return 1
    return 2 if quorums.ensemble == quorums.write else 3


def _contradictions(quorums: Quorums, rules: PlacementRules) -> Iterator[BrokenRule]:
    zones = len(set(rules.zones))
    if quorums.write > quorums.ensemble:
        yield BrokenRule(
            code=Code.WRITE_ABOVE_ENSEMBLE,
            reason=f"quorums.write: {quorums.write}: must not exceed quorums.ensemble "
            f"({quorums.ensemble})",
            example=f"an entry of {quorums.write} copies has no place in an ensemble of "
            f"{quorums.ensemble}",
        )
    if quorums.ack > quorums.write:
        yield BrokenRule(
            code=Code.ACK_ABOVE_WRITE,
            reason=f"quorums.ack: {quorums.ack}: must not exceed quorums.write ({quorums.write})",
            example=f"{quorums.write} bookies get an entry, so {quorums.ack} never confirm it",
        )
    if quorums.ack_zones > quorums.ack:
        yield BrokenRule(
            code=Code.ACK_ZONES_ABOVE_ACK,
            reason=f"quorums.ackZones: {quorums.ack_zones}: must not exceed quorums.ack "
            f"({quorums.ack}); raise ack to {quorums.ack_zones} if that many zones must confirm",
            example=f"{quorums.ack} bookies stand in at most {quorums.ack} zones: every entry "
            f"would wait for {quorums.ack_zones} bookies while ack says {quorums.ack}",
        )
    if quorums.ack_zones > zones:
        yield BrokenRule(
            code=Code.ACK_ZONES_ABOVE_ZONES,
            reason=f"quorums.ackZones: {quorums.ack_zones}: must not exceed the number of "
            f"placement.zones ({zones})",
            example=f"{zones} zones confirm an entry at most, so none is ever acknowledged",
        )


def _out_of_range(quorums: Quorums, rules: PlacementRules) -> Iterator[BrokenRule]:
    # minZones 0 is allowed: it promises nothing, and a single zone can keep that.
    fields = (
        ("quorums.ensemble", quorums.ensemble, 1, "a ledger would stand on no bookie"),
        ("quorums.write", quorums.write, 1, "an entry would have no copy"),
        ("quorums.ack", quorums.ack, 1, "an entry would be confirmed before any bookie has it"),
        ("quorums.ackZones", quorums.ack_zones, 1, "an entry would be confirmed from nowhere"),
        ("placement.minZones", rules.min_zones, 0, "0 already promises nothing"),
        ("placement.desiredZones", rules.desired_zones, 1, "an entry would stand in no zone"),
        ("placement.upgradeDomains", rules.upgrade_domains, 1, "a bookie would be in no unit"),
    )
    for path, value, least, example in fields:
        if value < least:
            yield BrokenRule(
                code=Code.NOT_POSITIVE,
                reason=f"{path}: {value}: must be at least {least}",
                example=example,
            )
    if not rules.zones:
        yield BrokenRule(
            code=Code.NO_ZONES,
            reason="placement.zones: []: must name at least one zone",
            example="no bookie has a place, so no ledger can be created",
        )


def _broken_promises(quorums: Quorums, rules: PlacementRules) -> Iterator[BrokenRule]:
    """Give the promises of strict placement that fail once a zone is lost."""
    yield from _broken_shape(quorums, rules)
    yield from _broken_spread(quorums, rules)
    needed = needed_upgrade_domains(quorums)
    if rules.upgrade_domains < needed:
        striped = quorums.ensemble > quorums.write
        shape = "when striping" if striped else "where every bookie gets every entry"
        yield BrokenRule(
            code=Code.TOO_FEW_UPGRADE_DOMAINS,
            reason=f"placement.upgradeDomains: {rules.upgrade_domains}: must be at least {needed} "
            f"{shape} ({quorums.ensemble}/{quorums.write}), or a bookie of a lost zone may find no "
            "replacement, because copies that share a zone must differ in upgrade domain; use "
            f"{COMFORTABLE_UPGRADE_DOMAINS}",
            example=counterexamples.too_few_upgrade_domains(quorums, rules),
        )


def _broken_shape(quorums: Quorums, rules: PlacementRules) -> Iterator[BrokenRule]:
    ensemble, write = quorums.ensemble, quorums.write
    if ensemble % write:
        below = ensemble - ensemble % write
        yield BrokenRule(
            code=Code.ENSEMBLE_NOT_MULTIPLE,
            reason=f"quorums.ensemble: {ensemble}: must be a multiple of quorums.write ({write}), "
            "or write sets that wrap around its end lose the zone rotation, and one zone's loss "
            f"takes more of their copies; use {below} or {below + write}",
            example=counterexamples.broken_rotation(quorums, rules),
        )
    if write <= rules.min_zones:
        yield BrokenRule(
            code=Code.WRITE_NOT_ABOVE_MIN_ZONES,
            reason=f"quorums.write: {write}: must be above placement.minZones "
            f"({rules.min_zones}), or each copy needs a zone of its own and a replacement may "
            "find none that is free; raise write and ensemble, or lower minZones",
            example=counterexamples.no_zone_for_replacement(quorums, rules),
        )


def _broken_spread(quorums: Quorums, rules: PlacementRules) -> Iterator[BrokenRule]:
    least, zones = rules.min_zones, len(set(rules.zones))
    if least > rules.desired_zones:
        yield BrokenRule(
            code=Code.MIN_ABOVE_DESIRED,
            reason=f"placement.minZones: {least}: must not exceed placement.desiredZones "
            f"({rules.desired_zones}), or the best that is asked for is less than what is "
            "required; raise desiredZones",
            example=f"an entry in {rules.desired_zones} zones has all that is desired and is "
            f"refused for want of {least}",
        )
    if least >= zones:
        yield BrokenRule(
            code=Code.MIN_NOT_BELOW_ZONES,
            reason=f"placement.minZones: {least}: must be below the number of placement.zones "
            f"({zones}), or the loss of one zone stops every new ensemble; "
            f"use {zones - 1} or add a zone",
            example=f"with zone {rules.zones[-1]} lost, {zones - 1} can be reached and "
            f"{least} are required: no ledger can be created, no bookie replaced",
        )
    promised = max(least, 1) if rules.strict else 1
    if quorums.ack_zones > promised:
        yield BrokenRule(
            code=Code.ACK_ZONES_NOT_PROMISED,
            reason=f"quorums.ackZones: {quorums.ack_zones}: must not exceed the zones that "
            f"placement promises an entry ({_promise(rules)}), or entries placed in fewer can "
            f"never be acknowledged; {_way_out(quorums, rules)}",
            example=counterexamples.never_acknowledged(quorums, rules),
        )


def _promise(rules: PlacementRules) -> str:
    return f"placement.minZones: {rules.min_zones}" if rules.strict else "1 without strict"


def _way_out(quorums: Quorums, rules: PlacementRules) -> str:
    if rules.strict:
        return f"raise minZones to {quorums.ack_zones} or lower ackZones"
    return "use strict placement, or set ackZones to 1"


def _risks(quorums: Quorums, rules: PlacementRules) -> Iterator[BrokenRule]:
    """Give the findings that break no promise, and that the owner should know."""
    zones = len(set(rules.zones))
    if needed_upgrade_domains(quorums) <= rules.upgrade_domains < COMFORTABLE_UPGRADE_DOMAINS:
        part = "all" if rules.upgrade_domains == 1 else "half"
        yield BrokenRule(
            code=Code.FEW_UPGRADE_DOMAINS,
            reason=f"placement.upgradeDomains: {rules.upgrade_domains}: fewer than "
            f"{COMFORTABLE_UPGRADE_DOMAINS} leave little room when planned work meets the loss of "
            f"a zone; use {COMFORTABLE_UPGRADE_DOMAINS}",
            example=f"an upgrade of one unit takes {part} of a zone's bookies away at a time",
        )
    share = _worst_share(quorums, rules)
    if quorums.ack_zones == 1 and share >= quorums.ack:
        fix = "; set ackZones to 2" if zones > 1 and quorums.ack > 1 else ""
        yield BrokenRule(
            code=Code.ACKS_IN_ONE_ZONE,
            reason=f"quorums.ackZones: 1: all acknowledgements of an entry (ack {quorums.ack}) may "
            f"come from one zone, because up to {share} of its {quorums.write} copies may stand "
            f"there{fix}",
            example=f"zone {rules.zones[0]} alone confirms an entry and is lost before another "
            "zone has a copy: the acknowledged entry is lost with it",
        )
    if rules.strict and quorums.write > 1 and rules.min_zones < ZONES_TO_SURVIVE_ONE:
        fix = f"; use {ZONES_TO_SURVIVE_ONE}" if zones > ZONES_TO_SURVIVE_ONE else ""
        yield BrokenRule(
            code=Code.MIN_ZONES_BELOW_TWO,
            reason=f"placement.minZones: {rules.min_zones}: all copies of an entry may stand in "
            f"one zone{fix}",
            example=f"an ensemble may end up in zone {rules.zones[0]} alone while the others are "
            "full or away, and its entries cannot be read while that zone is lost",
        )
    if rules.desired_zones > zones:
        best = "no ensemble is ever better than SOFT" if quorums.write > zones else "it has no use"
        yield BrokenRule(
            code=Code.DESIRED_ABOVE_ZONES,
            reason=f"placement.desiredZones: {rules.desired_zones}: above the number of "
            f"placement.zones ({zones}): {best}; use {zones}",
            example=f"the copies of an entry (write {quorums.write}) reach "
            f"{min(zones, quorums.write)} of {rules.desired_zones} zones at most",
        )


def _worst_share(quorums: Quorums, rules: PlacementRules) -> int:
    """Give the largest number of copies of an entry that placement may put in one zone."""
    if not rules.strict:
        return quorums.write
    return quorums.write - max(rules.min_zones, 1) + 1
