"""The policy record: names and defaults, every field checked, and nothing lost on the way."""

import copy
import dataclasses
import json
from collections.abc import Iterator
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zonekeeper.placement import fields, policy_data
from zonekeeper.placement.digests import Digest
from zonekeeper.placement.fields import Plain
from zonekeeper.placement.ids import ZoneName
from zonekeeper.placement.policy import (
    CheckIntervals,
    OnZoneLoss,
    PlacementRules,
    Policy,
    ReadRules,
    RepairRules,
    RepairScope,
    Resume,
    ZoneWatchRules,
)
from zonekeeper.placement.quorums import Quorums

ABC = (ZoneName("a"), ZoneName("b"), ZoneName("c"))
DEFAULT = Policy(placement=PlacementRules(zones=ABC))
#: The record as the design spells it.
DEFAULT_RECORD: Plain = {
    "format": 1,
    "version": 1,
    "instance": "",
    "owner": "shell",
    "quorums": {"ensemble": 3, "write": 3, "ack": 2, "ackZones": 2, "digest": "CRC32C"},
    "placement": {
        "zones": ["a", "b", "c"],
        "minZones": 2,
        "desiredZones": 3,
        "strict": True,
        "upgradeDomains": 3,
        "weightCap": 3,
        "quarantine": "30m",
    },
    "reads": {
        "pendingLimit": 64,
        "failureMemory": "1m",
        "hedgeAfter": "2s",
        "hedgeRemoteAt": 2,
        "demoteReadOnly": False,
    },
    "zoneWatch": {
        "lowMark": 0.5,
        "highMark": 0.9,
        "minLost": 2,
        "writtenOffAlert": 0.25,
        "clusterMinAvailable": 0.5,
        "sessionTimeout": "10s",
        "evaluateEvery": "10s",
        "startGrace": "5m",
        "suspectFor": "1m",
        "betweenMarksFor": "30m",
        "holdUp": "5m",
        "holdUpMax": "1h",
        "flapWindow": "1h",
        "standInAfter": "1m",
        "maintenanceMax": "2h",
    },
    "repair": {
        "scope": "zone",
        "resume": "automatic",
        "onZoneLoss": "hold",
        "after": "6h",
        "remindEvery": "1h",
        "bookieRecoveryDelay": "5m",
        "openLedgerGrace": "30s",
        "bytesPerSecond": "50MiB",
        "respread": True,
        "respreadBytesPerSecond": "10MiB",
        "checks": {"bookies": "1d", "placement": "1d", "replicas": "7d"},
    },
}


def leaves(data: Plain, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    if isinstance(data, dict):
        for name, value in data.items():
            yield from leaves(value, (*path, name))
    else:
        yield path


LEAVES = sorted(leaves(DEFAULT_RECORD))
RULE_LEAVES = [path for path in LEAVES if len(path) > 1]


def with_value(data: Plain, path: tuple[str, ...], value: object) -> dict[str, object]:
    changed = copy.deepcopy(data)
    level = changed
    for step in path[:-1]:
        assert isinstance(level, dict)
        level = level[step]
    assert isinstance(level, dict)
    level[path[-1]] = cast("Plain", value)
    return cast("dict[str, object]", changed)


def problems(data: object, path: str = "policy") -> list[str]:
    with pytest.raises(fields.InvalidFieldsError) as caught:
        policy_data.from_rules(data, path)
    assert str(caught.value) == "\n".join(map(str, caught.value.problems))
    return [str(problem) for problem in caught.value.problems]


def abc(**sections: object) -> dict[str, object]:
    placement = sections.pop("placement", {})
    assert isinstance(placement, dict)
    return {"placement": {"zones": ["a", "b", "c"], **placement}, **sections}


def test_names_and_defaults_are_those_of_the_design() -> None:
    assert policy_data.record(DEFAULT) == DEFAULT_RECORD


def test_only_the_zones_are_required() -> None:
    assert policy_data.from_rules({"placement": {"zones": ["a", "b", "c"]}}) == DEFAULT
    assert problems({}) == [
        "policy.placement.zones: missing: is required; "
        "name the cluster's zones, for example [a, b, c]"
    ]


def test_the_rules_are_the_record_without_what_the_store_adds() -> None:
    envelope = {"format", "version", "instance", "owner"}
    assert isinstance(DEFAULT_RECORD, dict)

    assert policy_data.rules(DEFAULT) == {
        name: value for name, value in DEFAULT_RECORD.items() if name not in envelope
    }
    assert policy_data.from_rules(policy_data.rules(DEFAULT)) == DEFAULT


@pytest.mark.parametrize("name", ["format", "version", "instance", "owner"])
def test_a_person_does_not_set_what_the_store_adds(name: str) -> None:
    (problem,) = problems(abc(**{name: 1}))

    assert problem == f"policy.{name}: 1: is set by zonekeeper; remove it"


def test_the_stored_text_is_stable_and_sorted() -> None:
    text = policy_data.encode(DEFAULT)

    assert text == json.dumps(DEFAULT_RECORD, sort_keys=True)
    assert policy_data.decode(text) == DEFAULT


def test_manual_resume_is_the_default_where_the_scope_is_the_cluster() -> None:
    implied = policy_data.from_rules(abc(repair={"scope": "cluster"}))
    said = policy_data.from_rules(abc(repair={"scope": "cluster", "resume": "automatic"}))

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
    ],
)
def test_fields_must_agree_with_each_other(given_rules: object, message: str) -> None:
    assert problems(given_rules) == [message]


@pytest.mark.parametrize(
    "given_rules",
    [
        abc(repair={"bookieRecoveryDelay": "80s"}),
        abc(zoneWatch={"lowMark": 0.8999, "highMark": 1}),
        abc(zoneWatch={"holdUp": "1h"}),
        abc(quorums={"ack": 3, "ackZones": 3}),
        abc(quorums={"ensemble": 32, "write": 32}),
    ],
)
def test_fields_may_stand_at_their_limits(given_rules: object) -> None:
    policy_data.from_rules(given_rules)


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
    with pytest.raises((fields.InvalidFieldsError, policy_data.NewerFormatError)) as caught:
        policy_data.from_record(with_value(DEFAULT_RECORD, path, value))

    if isinstance(caught.value, fields.InvalidFieldsError):
        assert any(problem.path.startswith(".".join(path)) for problem in caught.value.problems)
        assert all(len(str(problem)) < 400 for problem in caught.value.problems)


@pytest.mark.parametrize("path", RULE_LEAVES, ids=".".join)
def test_a_misspelt_field_is_named(path: tuple[str, ...]) -> None:
    misspelt = (*path[:-1], path[-1] + "x")

    found = problems(with_value(policy_data.rules(DEFAULT), misspelt, 1))

    assert [line.partition(": ")[0] for line in found] == [f"policy.{'.'.join(misspelt)}"]
    assert f"did you mean {path[-1]}?" in found[0]


@pytest.mark.parametrize("name", ["minLost", "pendingLimit", "ensemble", "lowMark", "weightCap"])
@pytest.mark.parametrize("value", [True, False])
def test_a_boolean_is_not_a_number(name: str, value: bool) -> None:
    (path,) = (path for path in RULE_LEAVES if path[-1] == name)

    (problem,) = problems(with_value(policy_data.rules(DEFAULT), path, value))

    assert problem.startswith(f"policy.{'.'.join(path)}: {json.dumps(value)}: must be a ")


# ── the stored record ──


def test_what_a_newer_writer_added_survives_a_round_trip() -> None:
    stored = with_value(DEFAULT_RECORD, ("repair", "checks", "new"), {"deep": [1, 2.5, None]})
    stored["dotted.name"] = "x"
    stored["later"] = {"b": 1, "a": 2}

    policy = policy_data.from_record(stored)
    changed = dataclasses.replace(policy, version=2)

    assert policy_data.record(policy) == stored
    assert policy_data.record(changed) == {**stored, "version": 2}
    assert policy_data.decode(policy_data.encode(changed)) == changed
    assert policy_data.rules(policy) == policy_data.rules(DEFAULT)


def test_a_newer_format_is_refused_as_such_and_not_as_damage() -> None:
    with pytest.raises(policy_data.NewerFormatError, match="written by a newer version") as caught:
        policy_data.from_record({"format": 2, "placement": "something else by then"})

    assert caught.value.found == 2


@pytest.mark.parametrize("value", [None, 0, "1", True, 1.0])
def test_any_other_format_is_wrong(value: object) -> None:
    with pytest.raises(fields.InvalidFieldsError, match=r"^format: .*: must be 1"):
        policy_data.from_record(with_value(DEFAULT_RECORD, ("format",), value))


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "NaN", '{"format": 1, "x": Infinity}', "[" * 9_999]
)
def test_what_is_no_record_is_refused(text: str) -> None:
    with pytest.raises(fields.InvalidFieldsError):
        policy_data.decode(text)


@pytest.mark.parametrize(
    ("owner", "legal"),
    [
        ("shell", True),
        ("operator/ns/name", True),
        ("operator/ns", False),
        ("operator//name", False),
        ("someone", False),
    ],
)
def test_the_owner_is_the_shell_or_one_resource(owner: str, legal: bool) -> None:
    stored = with_value(DEFAULT_RECORD, ("owner",), owner)
    if legal:
        assert policy_data.from_record(stored).owner == owner
    else:
        with pytest.raises(fields.InvalidFieldsError, match="operator/<namespace>/<name>"):
            policy_data.from_record(stored)


# ── everything goes there and back ──

ms = st.integers(0, 1_000).flatmap(lambda n: st.sampled_from([n * 1_000, n * 60_000]))
minutes = st.integers(1, 10**4).map(lambda n: n * 60_000)
sizes = st.integers(0, 1 << 30).map(lambda kib: kib << 10)
marks = st.floats(0.001, 1)
flags = st.booleans()
label = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,8}[a-z0-9])?", fullmatch=True)


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    zones = draw(st.lists(label, min_size=1, max_size=16, unique=True))
    ensemble = draw(st.integers(1, 32))
    write = draw(st.integers(1, ensemble))
    ack = draw(st.integers(1, write))
    low, high = sorted(draw(st.lists(marks, min_size=2, max_size=2, unique=True)))
    hold_up, hold_up_max = sorted((draw(ms), draw(ms)))
    timeout, every, suspect = draw(minutes), draw(minutes), draw(ms)
    return Policy(
        version=draw(st.integers(1, (1 << 53) - 1)),
        instance=draw(st.from_regex(r"[-.0-9A-Za-z_]{0,40}", fullmatch=True)),
        owner=draw(st.sampled_from(["shell", "operator/ns/main"])),
        digest=draw(st.sampled_from(Digest)),
        quorums=Quorums(
            ensemble=ensemble,
            write=write,
            ack=ack,
            ack_zones=draw(st.integers(1, min(ack, len(zones)))),
        ),
        placement=PlacementRules(
            zones=tuple(map(ZoneName, zones)),
            min_zones=draw(st.integers(0, 16)),
            desired_zones=draw(st.integers(1, 16)),
            strict=draw(flags),
            upgrade_domains=draw(st.integers(1, 100)),
            weight_cap=draw(st.floats(0, 1_000)),
            quarantine_ms=draw(ms),
        ),
        reads=draw(
            st.builds(
                ReadRules,
                pending_limit=st.integers(0, 10**6),
                failure_memory_ms=ms,
                hedge_after_ms=minutes,
                hedge_remote_at=st.integers(0, 32),
                demote_read_only=flags,
            )
        ),
        zone_watch=ZoneWatchRules(
            low_mark=low,
            high_mark=high,
            min_lost=draw(st.integers(1, 10**6)),
            written_off_alert=draw(marks),
            cluster_min_available=draw(st.floats(0, 1)),
            session_timeout_ms=timeout,
            evaluate_every_ms=every,
            start_grace_ms=draw(ms),
            suspect_for_ms=suspect,
            between_marks_for_ms=draw(ms),
            hold_up_ms=hold_up,
            hold_up_max_ms=hold_up_max,
            flap_window_ms=draw(ms),
            stand_in_after_ms=draw(minutes),
            maintenance_max_ms=draw(minutes),
        ),
        repair=RepairRules(
            scope=draw(st.sampled_from(RepairScope)),
            resume=draw(st.sampled_from(Resume)),
            on_zone_loss=draw(st.sampled_from(OnZoneLoss)),
            after_ms=draw(minutes),
            remind_every_ms=draw(minutes),
            bookie_recovery_delay_ms=timeout + every + suspect + draw(ms),
            open_ledger_grace_ms=draw(ms),
            bytes_per_second=draw(sizes),
            respread=draw(flags),
            respread_bytes_per_second=draw(sizes),
            checks=draw(
                st.builds(
                    CheckIntervals, bookies_ms=minutes, placement_ms=minutes, replicas_ms=minutes
                )
            ),
        ),
    )


@settings(deadline=None)
@given(policies())
def test_every_policy_round_trips(policy: Policy) -> None:
    text = policy_data.encode(policy)

    assert policy_data.decode(text) == policy
    assert policy_data.encode(policy_data.decode(text)) == text
    envelope = dataclasses.replace(DEFAULT, placement=policy.placement)
    rules_only = policy_data.from_rules(policy_data.rules(policy))
    assert (
        dataclasses.replace(
            rules_only, version=policy.version, instance=policy.instance, owner=policy.owner
        )
        == policy
    )
    assert rules_only.owner == envelope.owner


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


@settings(deadline=None)
@given(st.sampled_from(LEAVES), junk)
def test_a_mutated_field_is_refused_by_name_or_read_as_it_stands(
    path: tuple[str, ...], value: object
) -> None:
    stored = with_value(DEFAULT_RECORD, path, value)
    try:
        policy = policy_data.from_record(stored)
    except fields.InvalidFieldsError as refused:
        named = [".".join(path) in str(problem) for problem in refused.problems]
        assert named
        assert all(named)
    except policy_data.NewerFormatError:
        assert path == ("format",)
    else:
        assert policy_data.from_record(policy_data.record(policy)) == policy
