"""The policy record: names and defaults, and every field checked."""

import json

import pytest

from tests.placement.default_policy import DEFAULT, DEFAULT_RECORD, LEAVES, RULE_LEAVES, with_value
from zonekeeper.placement.base import fields
from zonekeeper.placement.policy import rules_data
from zonekeeper.placement.policy.rules import Resume


def problems(data: object, path: str = "policy") -> list[str]:
    with pytest.raises(fields.InvalidFieldsError) as caught:
        rules_data.from_rules(data, path)
    assert str(caught.value) == "\n".join(map(str, caught.value.problems))
    return [str(problem) for problem in caught.value.problems]


def abc(**sections: object) -> dict[str, object]:
    placement = sections.pop("placement", {})
    assert isinstance(placement, dict)
    return {"placement": {"zones": ["a", "b", "c"], **placement}, **sections}


def test_names_and_defaults_are_those_of_the_design() -> None:
    assert rules_data.record(DEFAULT) == DEFAULT_RECORD


def test_only_the_zones_are_required() -> None:
    assert rules_data.from_rules({"placement": {"zones": ["a", "b", "c"]}}) == DEFAULT
    assert problems({}) == [
        "policy.placement.zones: missing: is required; "
        "name the cluster's zones, for example [a, b, c]"
    ]


def test_the_rules_are_the_record_without_what_the_store_adds() -> None:
    envelope = {"format", "version", "instance", "owner"}
    assert isinstance(DEFAULT_RECORD, dict)

    assert rules_data.rules(DEFAULT) == {
        name: value for name, value in DEFAULT_RECORD.items() if name not in envelope
    }
    assert rules_data.from_rules(rules_data.rules(DEFAULT)) == DEFAULT


@pytest.mark.parametrize("name", ["format", "version", "instance", "owner"])
def test_a_person_does_not_set_what_the_store_adds(name: str) -> None:
    (problem,) = problems(abc(**{name: 1}))

    assert problem == f"policy.{name}: 1: is set by zonekeeper; remove it"


def test_manual_resume_is_the_default_where_the_scope_is_the_cluster() -> None:
    implied = rules_data.from_rules(abc(repair={"scope": "cluster"}))
    said = rules_data.from_rules(abc(repair={"scope": "cluster", "resume": "automatic"}))

    assert implied.repair.resume is Resume.MANUAL
    assert said.repair.resume is Resume.AUTOMATIC


# ── what is wrong is named, all at once ──


@pytest.mark.parametrize(
    ("section", "field", "value", "message"),
    [
        (
            "repair",
            "after",
            90,
            "policy.repair.after: 90: must be a duration: a whole number and ms, s, m, h or d; "
            "write for example 90s",
        ),
        (
            "repair",
            "after",
            "1s",
            'policy.repair.after: "1s": must be from 1m to 3650d; write 1m',
        ),
        (
            "repair",
            "bytesPerSecond",
            "50MB",
            'policy.repair.bytesPerSecond: "50MB": must be a size: a whole number and KiB, MiB, '
            "GiB or TiB, or 0; write for example 10MiB",
        ),
        (
            "repair",
            "bytesPerSecond",
            "2TiB",
            'policy.repair.bytesPerSecond: "2TiB": must be at most 1TiB; write 1TiB',
        ),
        (
            "repair",
            "onZoneLoss",
            "repair",
            'policy.repair.onZoneLoss: "repair": must be one of hold, repairAfter; '
            "write for example repairAfter",
        ),
        (
            "reads",
            "demoteReadOnly",
            "yes",
            'policy.reads.demoteReadOnly: "yes": must be true or false; '
            "write true or false, unquoted",
        ),
        (
            "reads",
            "pendingLimit",
            True,
            "policy.reads.pendingLimit: true: must be a whole number from 0 to 1000000; "
            "write for example 0",
        ),
        (
            "zoneWatch",
            "highMark",
            1.5,
            "policy.zoneWatch.highMark: 1.5: must be a number, above 0 and at most 1; "
            "write for example 1",
        ),
        (
            "zoneWatch",
            "lowMark",
            0,
            "policy.zoneWatch.lowMark: 0: must be a number, above 0 and at most 1; "
            "write for example 1",
        ),
        (
            "zoneWatch",
            "minLost",
            2.0,
            "policy.zoneWatch.minLost: 2.0: must be a whole number from 1 to 1000000; "
            "write for example 1",
        ),
    ],
)
def test_a_wrong_value_is_named_with_path_value_rule_and_fix(
    section: str, field: str, value: object, message: str
) -> None:
    assert problems(abc(**{section: {field: value}})) == [message]


@pytest.mark.parametrize(
    ("zones", "messages"),
    [
        ([], ["policy.placement.zones: []: must be a list of 1 to 16 names"]),
        ("abc", ['policy.placement.zones: "abc": must be a list of 1 to 16 names']),
        (
            ["a", False],
            ["policy.placement.zones[1]: false: must be a text (YAML reads no, on and 1 as"],
        ),
        (
            ["a", "b", "a"],
            ['policy.placement.zones[2]: "a": duplicates policy.placement.zones[0]; remove'],
        ),
        (
            ["../a", "A_B", "a" * 64, "ok-1", "-a", "a-", ""],
            [f"policy.placement.zones[{index}]: " for index in (0, 1, 2, 4, 5, 6)],
        ),
    ],
)
def test_zone_names_are_different_dns_labels(zones: object, messages: list[str]) -> None:
    found = problems({"placement": {"zones": zones}})

    assert len(found) == len(messages)
    assert all(line.startswith(start) for line, start in zip(found, messages, strict=True))


@pytest.mark.parametrize(
    ("given_rules", "message"),
    [
        (
            abc(quorums={"write": 4}),
            "policy.quorums.write: 4: must not exceed quorums.ensemble (3, the default); "
            "set quorums.ensemble to a multiple of 4",
        ),
        (
            abc(quorums={"ack": 4}),
            "policy.quorums.ack: 4: must not exceed quorums.write (3, the default); "
            "set it to 3 or less",
        ),
        (
            abc(quorums={"ack": 1}),
            "policy.quorums.ackZones: 2 (the default): must not exceed quorums.ack (1); "
            "set it to 1 or less",
        ),
        (
            {"placement": {"zones": ["a"]}},
            "policy.quorums.ackZones: 2 (the default): must not exceed the number of "
            'placement.zones (["a"]); set it to 1 or less',
        ),
        (
            abc(zoneWatch={"lowMark": 0.9}),
            "policy.zoneWatch.lowMark: 0.9: must be below zoneWatch.highMark (0.9, the default); "
            "lower it or raise zoneWatch.highMark (at most 1)",
        ),
        (
            abc(zoneWatch={"holdUp": "2h"}),
            'policy.zoneWatch.holdUp: "2h": must not exceed zoneWatch.holdUpMax ("1h", the '
            "default); lower it or raise zoneWatch.holdUpMax",
        ),
        (
            abc(repair={"bookieRecoveryDelay": "79999ms"}),
            'policy.repair.bookieRecoveryDelay: "79999ms": must be at least '
            'zoneWatch.sessionTimeout ("10s", the default) + zoneWatch.evaluateEvery ("10s", the '
            'default) + zoneWatch.suspectFor ("1m", the default); set it to 80s or more, so that a '
            "zone is held before its losses are repaired",
        ),
        (
            abc(repair={"abandonedAfter": "29s"}),
            'policy.repair.abandonedAfter: "29s": must be 0s (off) or at least '
            'zoneWatch.sessionTimeout ("10s", the default) + zoneWatch.sessionTimeout ("10s", the '
            'default) + zoneWatch.evaluateEvery ("10s", the default); set it to 30s or more, so '
            "that a writer whose session ends once is not fenced",
        ),
    ],
)
def test_fields_must_agree_with_each_other(given_rules: object, message: str) -> None:
    assert problems(given_rules) == [message]


@pytest.mark.parametrize(
    "given_rules",
    [
        abc(repair={"bookieRecoveryDelay": "80s"}),
        abc(repair={"abandonedAfter": "0s"}),
        abc(repair={"abandonedAfter": "30s"}),
        abc(zoneWatch={"lowMark": 0.8999, "highMark": 1}),
        abc(zoneWatch={"holdUp": "1h"}),
        abc(quorums={"ack": 3, "ackZones": 3}),
        abc(quorums={"ensemble": 32, "write": 32}),
    ],
)
def test_fields_may_stand_at_their_limits(given_rules: object) -> None:
    rules_data.from_rules(given_rules)


@pytest.mark.parametrize(
    ("given_rules", "message"),
    [
        (
            abc(reeds={}),
            "policy.reeds: {}: unknown field; did you mean reads?",
        ),
        (
            abc(repair={"resum": "manual"}),
            'policy.repair.resum: "manual": unknown field; did you mean resume?',
        ),
        (
            abc(repair={"suspectFor": "1m"}),
            'policy.repair.suspectFor: "1m": unknown field; did you mean '
            "policy.zoneWatch.suspectFor?",
        ),
        (
            abc(repair={"checks": {"xyzzy": 1}}),
            "policy.repair.checks.xyzzy: 1: unknown field; known here: bookies, placement, "
            "replicas",
        ),
        (
            abc(**{"reads.pendingLimit": 1}),
            "policy.reads.pendingLimit: 1: unknown field; known here: placement, quorums, reads, "
            "repair, zoneWatch",
        ),
    ],
)
def test_a_name_that_nobody_knows_is_refused_with_what_was_meant(
    given_rules: object, message: str
) -> None:
    assert problems(given_rules) == [message]


def test_a_key_that_is_no_text_is_an_unknown_field() -> None:
    (problem,) = problems(abc(reads={True: 1}))

    assert problem.startswith("policy.reads.True: 1: unknown field")


def test_a_message_is_short_and_harmless_to_a_terminal() -> None:
    found = problems(abc(**{"\x1b[2J": "\x9b\u202e", "x" * 500: "y" * 500}))

    assert len(found) == 2
    assert all(line.isprintable() and len(line) < 250 for line in found)
    assert found[0].startswith('policy."\\u001b[2J": "\\u009b\\u202e": unknown field')


@pytest.mark.parametrize("section", ["quorums", "reads", "repair"])
@pytest.mark.parametrize("value", [None, [], 3, "x"])
def test_a_section_is_a_mapping(section: str, value: object) -> None:
    (problem,) = problems(abc(**{section: value}))

    assert problem.startswith(f"policy.{section}: {json.dumps(value)}: must be a mapping of fields")


@pytest.mark.parametrize("value", [None, [], 3, "x"])
def test_the_whole_is_a_mapping(value: object) -> None:
    assert problems(value)[0].startswith(f"policy: {json.dumps(value)}: must be a mapping")


def test_everything_that_is_wrong_is_said_at_once() -> None:
    found = problems(
        {
            "placement": {"strict": "no", "minZones": -1},
            "quorums": {"ensemble": 3, "write": 4},
            "zonewatch": {},
            "version": 3,
        },
        "spec.policy",
    )

    assert sorted(line.split(": ")[0] for line in found) == [
        "spec.policy.placement.minZones",
        "spec.policy.placement.strict",
        "spec.policy.placement.zones",
        "spec.policy.quorums.write",
        "spec.policy.version",
        "spec.policy.zonewatch",
    ]


@pytest.mark.parametrize("path", LEAVES, ids=".".join)
@pytest.mark.parametrize(
    "value",
    [None, [], {}, -1, 1 << 70, float("nan"), float("inf"), "\x00", "${x}", b"x", [[]], "9" * 500],
    ids=repr,
)
def test_every_field_refuses_what_is_not_its_kind(path: tuple[str, ...], value: object) -> None:
    with pytest.raises((fields.InvalidFieldsError, rules_data.NewerFormatError)) as caught:
        rules_data.from_record(with_value(DEFAULT_RECORD, path, value))

    if isinstance(caught.value, fields.InvalidFieldsError):
        assert any(problem.path.startswith(".".join(path)) for problem in caught.value.problems)
        assert all(len(str(problem)) < 400 for problem in caught.value.problems)


@pytest.mark.parametrize("path", RULE_LEAVES, ids=".".join)
def test_a_misspelt_field_is_named(path: tuple[str, ...]) -> None:
    misspelt = (*path[:-1], path[-1] + "x")

    found = problems(with_value(rules_data.rules(DEFAULT), misspelt, 1))

    assert [line.partition(": ")[0] for line in found] == [f"policy.{'.'.join(misspelt)}"]
    assert f"did you mean {path[-1]}?" in found[0]


@pytest.mark.parametrize("name", ["minLost", "pendingLimit", "ensemble", "lowMark", "weightCap"])
@pytest.mark.parametrize("value", [True, False])
def test_a_boolean_is_not_a_number(name: str, value: bool) -> None:
    (path,) = (path for path in RULE_LEAVES if path[-1] == name)

    (problem,) = problems(with_value(rules_data.rules(DEFAULT), path, value))

    assert problem.startswith(f"policy.{'.'.join(path)}: {json.dumps(value)}: must be a ")


@pytest.mark.parametrize("path", RULE_LEAVES, ids=".".join)
@pytest.mark.parametrize("number", [16**5_000, -(16**5_000), 10**400], ids=["+", "-", "printable"])
def test_a_number_of_any_size_gets_a_short_answer(path: tuple[str, ...], number: int) -> None:
    (problem,) = problems(with_value(rules_data.rules(DEFAULT), path, number))

    assert problem.startswith(f"policy.{'.'.join(path)}: ")
    assert len(problem) < 250


def test_a_flood_of_problems_is_cut_short_for_people() -> None:
    flood = {f"field{number}": number for number in range(500)}
    with pytest.raises(fields.InvalidFieldsError) as caught:
        rules_data.from_rules(abc(**flood))

    assert len(caught.value.problems) == 500
    assert str(caught.value).count("\n") == fields.PROBLEMS_SHOWN_MAX
    assert str(caught.value).endswith("and 400 more problems: mend these first")
