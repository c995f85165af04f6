"""Which configurations are refused, which are only warned of, and what the finding says."""

import itertools

import pytest

from zonekeeper.placement.base.ids import ZoneName
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.placement.policy import legality
from zonekeeper.placement.policy.legality import Code
from zonekeeper.placement.policy.rules import PlacementRules, Policy

BROKEN_PROMISES = {
    Code.ENSEMBLE_NOT_MULTIPLE,
    Code.WRITE_NOT_ABOVE_MIN_ZONES,
    Code.MIN_ABOVE_DESIRED,
    Code.MIN_NOT_BELOW_ZONES,
    Code.ACK_ZONES_NOT_PROMISED,
    Code.TOO_FEW_UPGRADE_DOMAINS,
}


def zones(names: str = "abc") -> tuple[ZoneName, ...]:
    return tuple(ZoneName(name) for name in names)


def quorums(text: str, ack_zones: int = 2) -> Quorums:
    ensemble, write, ack = (int(part) for part in text.split("/"))
    return Quorums(ensemble=ensemble, write=write, ack=ack, ack_zones=ack_zones)


def codes(findings: tuple[legality.BrokenRule, ...]) -> set[Code]:
    return {finding.code for finding in findings}


def finding(verdict: legality.Legality, code: Code) -> legality.BrokenRule:
    (found,) = [each for each in verdict.refusals + verdict.warnings if each.code is code]
    return found


def test_the_defaults_are_legal_and_there_is_nothing_to_say_about_them() -> None:
    policy = Policy(placement=PlacementRules(zones=zones()))

    assert legality.judge(policy.quorums, policy.placement) == legality.Legality()


def test_a_verdict_is_not_tested_for_truth() -> None:
    with pytest.raises(TypeError, match="legal"):
        bool(legality.Legality())


@pytest.mark.parametrize(
    ("shape", "rules", "refused"),
    [
        ("5/3/2", PlacementRules(zones=zones()), {Code.ENSEMBLE_NOT_MULTIPLE}),
        ("6/2/2", PlacementRules(zones=zones()), {Code.WRITE_NOT_ABOVE_MIN_ZONES}),
        (
            "3/2/2",
            PlacementRules(zones=zones()),
            {Code.ENSEMBLE_NOT_MULTIPLE, Code.WRITE_NOT_ABOVE_MIN_ZONES},
        ),
        (
            "4/4/3",
            PlacementRules(zones=zones("abcd"), min_zones=3, desired_zones=2),
            {Code.MIN_ABOVE_DESIRED},
        ),
        ("4/4/3", PlacementRules(zones=zones(), min_zones=3), {Code.MIN_NOT_BELOW_ZONES}),
        ("3/3/2", PlacementRules(zones=zones(), upgrade_domains=1), {Code.TOO_FEW_UPGRADE_DOMAINS}),
        ("6/3/2", PlacementRules(zones=zones(), upgrade_domains=1), {Code.TOO_FEW_UPGRADE_DOMAINS}),
        ("6/3/2", PlacementRules(zones=zones(), upgrade_domains=2), {Code.TOO_FEW_UPGRADE_DOMAINS}),
    ],
)
def test_strict_placement_refuses_what_it_cannot_keep_and_otherwise_only_warns(
    shape: str, rules: PlacementRules, refused: set[Code]
) -> None:
    strict = legality.judge(quorums(shape), rules)
    loose = legality.judge(
        quorums(shape, ack_zones=1),
        PlacementRules(
            zones=rules.zones,
            min_zones=rules.min_zones,
            desired_zones=rules.desired_zones,
            upgrade_domains=rules.upgrade_domains,
            strict=False,
        ),
    )

    assert codes(strict.refusals) == refused
    assert not strict.legal
    assert loose.legal
    assert codes(loose.warnings) >= refused


@pytest.mark.parametrize(
    ("upgrade_domains", "shape", "refused", "warned"),
    [
        (1, "3/3/2", True, False),
        (1, "6/3/2", True, False),
        (2, "3/3/2", False, True),
        (2, "6/6/4", False, True),
        (2, "6/3/2", True, False),
        (3, "3/3/2", False, False),
        (3, "9/3/2", False, False),
    ],
)
def test_upgrade_domains_two_for_one_write_set_three_for_striping_a_warning_below_three(
    upgrade_domains: int, shape: str, refused: bool, warned: bool
) -> None:
    rules = PlacementRules(zones=zones(), upgrade_domains=upgrade_domains)

    verdict = legality.judge(quorums(shape), rules)

    assert (Code.TOO_FEW_UPGRADE_DOMAINS in codes(verdict.refusals)) is refused
    assert (Code.FEW_UPGRADE_DOMAINS in codes(verdict.warnings)) is warned


def test_a_single_copy_shares_no_zone_and_needs_no_second_upgrade_domain() -> None:
    rules = PlacementRules(zones=zones("a"), min_zones=0, desired_zones=1, upgrade_domains=1)

    assert legality.judge(quorums("1/1/1", ack_zones=1), rules).legal


@pytest.mark.parametrize(
    ("shape", "ack_zones", "refused"),
    [
        ("0/0/0", 0, {Code.NOT_POSITIVE}),
        ("-3/-3/-3", 1, {Code.NOT_POSITIVE}),
        ("2/3/2", 1, {Code.WRITE_ABOVE_ENSEMBLE}),
        ("3/2/3", 1, {Code.ACK_ABOVE_WRITE}),
        ("3/3/2", 3, {Code.ACK_ZONES_ABOVE_ACK}),
        ("4/4/4", 4, {Code.ACK_ZONES_ABOVE_ZONES}),
        ("2/3/4", 5, {Code.WRITE_ABOVE_ENSEMBLE, Code.ACK_ABOVE_WRITE, Code.ACK_ZONES_ABOVE_ACK}
         | {Code.ACK_ZONES_ABOVE_ZONES}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("strict", [True, False])
def test_what_contradicts_itself_is_refused_strict_or_not(
    shape: str, ack_zones: int, refused: set[Code], strict: bool
) -> None:
    rules = PlacementRules(zones=zones(), strict=strict)

    assert codes(legality.judge(quorums(shape, ack_zones), rules).refusals) == refused


@pytest.mark.parametrize("strict", [True, False])
def test_numbers_of_the_placement_rules_that_cannot_be_are_all_named(strict: bool) -> None:
    rules = PlacementRules(
        zones=(), min_zones=-1, desired_zones=0, upgrade_domains=0, strict=strict
    )

    verdict = legality.judge(quorums("3/3/2"), rules)

    assert [each.reason for each in verdict.refusals] == [
        "placement.minZones: -1: must be at least 0",
        "placement.desiredZones: 0: must be at least 1",
        "placement.upgradeDomains: 0: must be at least 1",
        "placement.zones: []: must name at least one zone",
    ]


def test_acks_from_more_zones_than_placement_promises_would_stop_writing() -> None:
    verdict = legality.judge(quorums("3/3/3", ack_zones=3), PlacementRules(zones=zones()))

    assert codes(verdict.refusals) == {Code.ACK_ZONES_NOT_PROMISED}
    assert "a b a stand in 2 of the 3 zones" in verdict.refusals[0].example


def test_without_strict_no_second_zone_is_promised_so_two_ack_zones_are_a_risk() -> None:
    rules = PlacementRules(zones=zones(), strict=False)

    assert codes(legality.judge(quorums("3/3/2"), rules).warnings) == {Code.ACK_ZONES_NOT_PROMISED}


@pytest.mark.parametrize(
    ("shape", "min_zones", "zone_names", "may_share"),
    [
        ("3/3/2", 2, "abc", True),  # two copies share a zone once a zone is lost
        ("3/3/3", 2, "abc", False),
        ("4/4/3", 2, "abc", True),
        ("4/4/3", 3, "abcd", False),
        ("6/6/4", 2, "abc", True),  # five in one zone, one in another is legal, if not balanced
        ("6/6/6", 2, "abc", False),
    ],
)
def test_it_says_when_all_acknowledgements_may_come_from_one_zone(
    shape: str, min_zones: int, zone_names: str, may_share: bool
) -> None:
    rules = PlacementRules(zones=zones(zone_names), min_zones=min_zones)

    verdict = legality.judge(quorums(shape, ack_zones=1), rules)

    assert (Code.ACKS_IN_ONE_ZONE in codes(verdict.warnings)) is may_share
    assert Code.ACKS_IN_ONE_ZONE not in codes(legality.judge(quorums(shape), rules).warnings)


def test_it_says_when_a_minimum_lets_all_copies_stand_in_one_zone() -> None:
    rules = PlacementRules(zones=zones(), min_zones=1)

    verdict = legality.judge(quorums("3/3/2", ack_zones=1), rules)

    assert verdict.legal
    assert codes(verdict.warnings) == {Code.MIN_ZONES_BELOW_TWO, Code.ACKS_IN_ONE_ZONE}


def test_a_low_minimum_is_nothing_to_say_where_no_minimum_is_kept() -> None:
    rules = PlacementRules(zones=zones(), min_zones=1, strict=False)

    verdict = legality.judge(quorums("3/3/2", ack_zones=1), rules)

    assert codes(verdict.warnings) == {Code.ACKS_IN_ONE_ZONE}


@pytest.mark.parametrize(("shape", "consequence"), [("5/5/3", "SOFT"), ("3/3/2", "no use")])
def test_it_says_what_desiring_more_zones_than_there_are_means(
    shape: str, consequence: str
) -> None:
    rules = PlacementRules(zones=zones(), desired_zones=5)

    verdict = legality.judge(quorums(shape), rules)

    assert codes(verdict.warnings) == {Code.DESIRED_ABOVE_ZONES}
    assert consequence in verdict.warnings[0].reason


def test_a_reason_names_field_value_rule_loss_and_way_out() -> None:
    verdict = legality.judge(quorums("5/3/2", ack_zones=1), PlacementRules(zones=zones()))

    assert finding(verdict, Code.ENSEMBLE_NOT_MULTIPLE) == legality.BrokenRule(
        code=Code.ENSEMBLE_NOT_MULTIPLE,
        reason="quorums.ensemble: 5: must be a multiple of quorums.write (3), or write sets that "
        "wrap around its end lose the zone rotation, and one zone's loss takes more of their "
        "copies; use 3 or 6",
        example="in zones a b c a b the write set that starts at position 3 stands in a b a: "
        "losing zone a takes 2 of its 3 copies, which may be the 2 that acknowledged an entry",
    )


@pytest.mark.parametrize(
    ("shape", "rules", "code", "example"),
    [
        (
            "5/4/3",
            PlacementRules(zones=zones()),
            Code.ENSEMBLE_NOT_MULTIPLE,
            "in zones a b c a b the write set that starts at position 3 stands in a b a b: losing "
            "zone a takes 2 of its 4 copies",
        ),
        (
            "6/2/2",
            PlacementRules(zones=zones()),
            Code.WRITE_NOT_ABOVE_MIN_ZONES,
            "in zones a b c a b c with zone a lost, position 0 shares write sets with zone b "
            "(position 1), zone c (position 5), so a newcomer may stand nowhere",
        ),
        (
            "3/2/2",
            PlacementRules(zones=zones("abcd"), min_zones=3),
            Code.WRITE_NOT_ABOVE_MIN_ZONES,
            "2 copies cannot stand in 3 zones",
        ),
        (
            "2/2/2",  # roomy: the smallest known case stands in
            PlacementRules(zones=zones("abcd")),
            Code.WRITE_NOT_ABOVE_MIN_ZONES,
            "6/2 in zones a b c a b c with two zones required: with zone b lost, position 1 shares "
            "write sets with zone a (position 0) and zone c (position 2), so a newcomer may stand "
            "in neither",
        ),
        (
            "6/3/2",
            PlacementRules(zones=zones(), upgrade_domains=2),
            Code.TOO_FEW_UPGRADE_DOMAINS,
            "6/3 as /a/ud-0 /b/ud-0 /c/ud-0 /a/ud-1 /b/ud-1 /c/ud-1: with zone c lost, each "
            "upgrade domain that is left is its zone's only one in some write set of position 2, "
            "so a newcomer would share it",
        ),
        (
            "10/5/3",  # position 2 still finds a place, position 5 does not
            PlacementRules(zones=zones(), upgrade_domains=2),
            Code.TOO_FEW_UPGRADE_DOMAINS,
            "10/5 as /a/ud-0 /b/ud-0 /c/ud-0 /a/ud-1 /b/ud-1 /c/ud-1 /a/ud-0 /b/ud-0 /c/ud-0 "
            "/a/ud-1: with zone c lost, each upgrade domain that is left is its zone's only one in "
            "some write set of position 5, so a newcomer would share it",
        ),
        (
            "6/3/2",  # with twelve zones a replacement is found; the smallest known case stands in
            PlacementRules(zones=zones("abcdefghijkl"), upgrade_domains=2),
            Code.TOO_FEW_UPGRADE_DOMAINS,
            "6/3 as /a/ud-0 /b/ud-0 /c/ud-0 /a/ud-1 /b/ud-1 /c/ud-1: with zone c lost, the "
            "newcomer at position 2 shares write sets with ud-0 and ud-1 of both zones that are "
            "left",
        ),
        (
            "6/3/2",  # nothing is left of one zone; the smallest known case stands in
            PlacementRules(zones=zones("a"), min_zones=0, upgrade_domains=2),
            Code.TOO_FEW_UPGRADE_DOMAINS,
            "6/3 as /a/ud-0 /b/ud-0 /c/ud-0 /a/ud-1 /b/ud-1 /c/ud-1: with zone c lost, the "
            "newcomer at position 2 shares write sets with ud-0 and ud-1 of both zones that are "
            "left",
        ),
        (
            "3/3/2",
            PlacementRules(zones=zones(), upgrade_domains=1),
            Code.TOO_FEW_UPGRADE_DOMAINS,
            "with only zones a b left, 3 copies of an entry stand in 2, so two share a zone and "
            "its one upgrade domain, which is refused: writing stops",
        ),
        (
            "3/3/2",  # three zones remain after a loss, but the minimum promises that two will do
            PlacementRules(zones=zones("abcd"), upgrade_domains=1),
            Code.TOO_FEW_UPGRADE_DOMAINS,
            "with only zones a b left, 3 copies of an entry stand in 2, so two share a zone and "
            "its one upgrade domain, which is refused: writing stops",
        ),
        (
            "4/4/3",
            PlacementRules(zones=zones(), min_zones=3),
            Code.MIN_NOT_BELOW_ZONES,
            "with zone c lost, 2 can be reached and 3 are required: no ledger can be created, no "
            "bookie replaced",
        ),
    ],
)
def test_an_example_is_worked_out_from_the_configuration(
    shape: str, rules: PlacementRules, code: Code, example: str
) -> None:
    ack_zones = min(2, len(rules.zones))

    assert finding(legality.judge(quorums(shape, ack_zones), rules), code).example == example


def test_every_small_configuration_is_judged_by_its_rules_and_no_others() -> None:
    everything = itertools.product(range(1, 7), range(1, 7), range(1, 5), range(5), range(1, 5))
    for ensemble, write, zone_count, min_zones, desired in everything:
        if write > ensemble:
            continue
        for upgrade_domains, ack_zones in itertools.product((1, 2, 3), (1, 2)):
            if ack_zones > min(write, zone_count):
                continue
            given = Quorums(ensemble=ensemble, write=write, ack=write, ack_zones=ack_zones)
            rules = PlacementRules(
                zones=zones("abcd"[:zone_count]),
                min_zones=min_zones,
                desired_zones=desired,
                upgrade_domains=upgrade_domains,
            )
            expected = {
                Code.ENSEMBLE_NOT_MULTIPLE: ensemble % write != 0,
                Code.WRITE_NOT_ABOVE_MIN_ZONES: write <= min_zones,
                Code.MIN_ABOVE_DESIRED: min_zones > desired,
                Code.MIN_NOT_BELOW_ZONES: min_zones >= zone_count,
                Code.ACK_ZONES_NOT_PROMISED: ack_zones > max(min_zones, 1),
                Code.TOO_FEW_UPGRADE_DOMAINS: write > 1
                and upgrade_domains < (2 if ensemble == write else 3),
            }

            verdict = legality.judge(given, rules)

            assert codes(verdict.refusals) == {code for code, broken in expected.items() if broken}
            assert codes(verdict.warnings).isdisjoint(BROKEN_PROMISES)
            assert all(each.reason and each.example for each in verdict.refusals)
