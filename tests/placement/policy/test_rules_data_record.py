"""The stored policy record: nothing is lost on the way there and back."""

import dataclasses
import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.placement.default_policy import DEFAULT, DEFAULT_RECORD, LEAVES, with_value
from zonekeeper.placement.base import fields
from zonekeeper.placement.base.digests import Digest
from zonekeeper.placement.base.ids import ZoneName
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.placement.policy import rules_data
from zonekeeper.placement.policy.rules import (
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

# ── the stored record ──


def as_stored(data: object) -> object:
    """Give what comes back from a store, which keeps JSON."""
    return json.loads(json.dumps(data))


def test_what_a_newer_writer_added_survives_a_round_trip() -> None:
    stored = with_value(DEFAULT_RECORD, ("repair", "checks", "new"), {"deep": [1, 2.5, None]})
    stored["dotted.name"] = "x"
    stored["later"] = {"b": 1, "a": 2}

    policy = rules_data.from_record(stored)
    changed = dataclasses.replace(policy, version=2)

    assert rules_data.record(policy) == stored
    assert rules_data.record(changed) == {**stored, "version": 2}
    assert rules_data.from_record(as_stored(rules_data.record(changed))) == changed
    assert rules_data.rules(policy) == rules_data.rules(DEFAULT)


def test_a_newer_format_is_refused_as_such_and_not_as_damage() -> None:
    with pytest.raises(rules_data.NewerFormatError, match="written by a newer version") as caught:
        rules_data.from_record({"format": 2, "placement": "something else by then"})

    assert caught.value.found == 2


def test_a_format_of_any_size_is_a_newer_one() -> None:
    with pytest.raises(rules_data.NewerFormatError) as caught:
        rules_data.from_record({"format": 16**5_000})

    assert len(str(caught.value)) < 250


def nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value", [nested(100_000), {"a": float("nan")}, [{1, 2}]], ids=["deep", "NaN", "set"]
)
def test_what_nobody_knows_and_json_cannot_say_is_refused(value: object) -> None:
    stored = with_value(DEFAULT_RECORD, ("version",), 0)
    stored["later"] = {"inside": value}

    with pytest.raises(fields.InvalidFieldsError, match=r"(?m)^later: .*JSON") as caught:
        rules_data.from_record(stored)
    assert len(caught.value.problems) == 2


@pytest.mark.parametrize("value", [None, 0, "1", True, 1.0])
def test_any_other_format_is_wrong(value: object) -> None:
    with pytest.raises(fields.InvalidFieldsError, match=r"^format: .*: must be 1"):
        rules_data.from_record(with_value(DEFAULT_RECORD, ("format",), value))


@pytest.mark.parametrize("data", [None, "", 1, [], {}, {"format": 1, "x": math.inf}])
def test_what_is_no_record_is_refused(data: object) -> None:
    with pytest.raises(fields.InvalidFieldsError):
        rules_data.from_record(data)


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
        assert rules_data.from_record(stored).owner == owner
    else:
        with pytest.raises(fields.InvalidFieldsError, match="operator/<namespace>/<name>"):
            rules_data.from_record(stored)


# ── everything goes there and back ──

ms = st.integers(0, 1_000).flatmap(lambda n: st.sampled_from([n * 1_000, n * 60_000]))
minutes = st.integers(1, 10**4).map(lambda n: n * 60_000)
sizes = st.integers(0, 1 << 30).map(lambda kib: kib << 10)
marks = st.floats(0.001, 1)
flags = st.booleans()
label = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,8}[a-z0-9])?", fullmatch=True)


reads = st.builds(
    ReadRules,
    pending_limit=st.integers(0, 10**6),
    failure_memory_ms=ms,
    hedge_after_ms=minutes,
    hedge_remote_at=st.integers(0, 32),
    demote_read_only=flags,
)


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
        reads=draw(reads),
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
            abandoned_after_ms=draw(st.just(0) | ms.map(lambda more: 2 * timeout + every + more)),
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
    stored = as_stored(rules_data.record(policy))

    assert rules_data.from_record(stored) == policy
    assert rules_data.record(rules_data.from_record(stored)) == stored
    envelope = dataclasses.replace(DEFAULT, placement=policy.placement)
    rules_only = rules_data.from_rules(rules_data.rules(policy))
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
        policy = rules_data.from_record(stored)
    except fields.InvalidFieldsError as refused:
        named = [".".join(path) in str(problem) for problem in refused.problems]
        assert named
        assert all(named)
    except rules_data.NewerFormatError:
        assert path == ("format",)
    else:
        assert rules_data.from_record(rules_data.record(policy)) == policy
