"""The stored form of the zone watch's records: held still by golden texts, and never believed."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import pytest

from tests.placement.zone_world import ANNA, HOUR, MINUTE, A, members, policy, settled, where
from zonekeeper.placement.base.fields import InvalidFieldsError, Plain
from zonekeeper.placement.policy.rules import RepairRules, RepairScope, Resume
from zonekeeper.placement.zones import zone_record_data
from zonekeeper.placement.zones.gate import Token
from zonekeeper.placement.zones.maintenance import Maintenance
from zonekeeper.placement.zones.watch import Health
from zonekeeper.placement.zones.zone_records import ClusterRecord, ZoneRecord

GOLDEN_ZONE: Final = """
{"alerts": ["heldByPerson", "zoneDown"],
 "evaluation": 46,
 "evidence": {"available": 3, "draining": 0, "inMaintenance": 3, "total": 7, "writtenOff": 0},
 "gate": {"awaitsPerson": false, "heldBy": {"name": "anna", "reason": "the zone is gone for good"},
          "heldMs": 120000, "over": false, "permission": "held", "real": true,
          "reason": "held by anna: the zone is gone for good", "setBy": "anna",
          "sinceWallMs": 300000, "token": "a-32"},
 "observed": {"betweenMs": null, "byHighMark": false, "downAgesMs": [60000], "forMs": 60000,
              "holdUpMs": 0, "sinceWallMs": 360000, "state": "down",
              "reason": "3 of 7 bookies available (not counted: 3 in maintenance), down for 1m",
              "suspects": [{"ageMs": 120000, "forMs": 60000}]},
 "undeclared": null,
 "zone": "a"}
"""
GOLDEN_CLUSTER: Final = """
{"alerts": ["clusterFrozen", "switchedOff"],
 "covers": ["a-32"],
 "delaysEpoch": 0,
 "evaluation": 46,
 "evidence": {"available": 23, "draining": 0, "inMaintenance": 3, "total": 27, "writtenOff": 0},
 "gate": {"awaitsPerson": false, "heldBy": null, "heldMs": 60000, "over": false,
          "permission": "held", "real": true,
          "reason": "the cluster is frozen: zone a down, and repair.scope is cluster",
          "setBy": "zone watch", "sinceWallMs": 360000, "token": "cluster-38"},
 "maintenance": [{"ms": 0, "token": "m-1"}],
 "observed": {"forMs": 60000, "reason": "zone a down, and repair.scope is cluster",
              "sinceWallMs": 360000, "state": "frozen", "viewSuspect": false},
 "suspended": null,
 "switch": {"phase": "off", "token": "cluster-38"}}
"""
#: The same, as the version before wrote it.
ZONE_BEFORE: Final = """
{"alerts": ["heldByPerson", "zoneDown"],
 "evaluation": 46,
 "evidence": {"available": 3, "draining": 0, "inMaintenance": 3, "total": 7, "writtenOff": 0},
 "gate": {"awaitsPerson": false, "heldBy": {"name": "anna", "reason": "the zone is gone for good"},
          "heldMs": 120000, "over": false, "permission": "held", "real": true,
          "reason": "held by anna: the zone is gone for good", "setBy": "anna",
          "sinceWallMs": 300000, "token": "a-32"},
 "observed": {"betweenMs": null, "byHighMark": false, "downAgesMs": [60000], "forMs": 60000,
              "holdUpMs": 0, "reason": "4 of 10 bookies available, failing for 1m",
              "sinceWallMs": 360000, "state": "down"},
 "zone": "a"}
"""
CLUSTER_BEFORE: Final = """
{"alerts": ["clusterFrozen", "switchedOff"],
 "covers": ["a-32"],
 "delaysEpoch": 1,
 "evaluation": 46,
 "evidence": {"available": 23, "draining": 0, "inMaintenance": 3, "total": 27, "writtenOff": 0},
 "gate": {"awaitsPerson": false, "heldBy": null, "heldMs": 60000, "over": false,
          "permission": "held", "real": true,
          "reason": "the cluster is frozen: zone a down, and repair.scope is cluster",
          "setBy": "zone watch", "sinceWallMs": 360000, "token": "cluster-38"},
 "maintenance": [{"ms": 0, "token": "m-1"}],
 "observed": {"forMs": 60000, "reason": "zone a down, and repair.scope is cluster",
              "sinceWallMs": 360000, "state": "frozen", "viewSuspect": false},
 "switch": {"phase": "off", "token": "cluster-38"}}
"""
GOLDEN_MAINTENANCE: Final = """
{"declaredBy": {"name": "anna", "reason": "the zone is gone for good"}, "lastsMs": 3600000,
 "token": "m-1", "unit": {"upgradeDomain": "ud-1", "zone": "a"}}
"""


def loaded(text: str) -> dict[str, Plain]:
    data = json.loads(text)
    assert isinstance(data, dict)
    return data


def records() -> tuple[ZoneRecord, ClusterRecord]:
    """The records in the middle of an outage."""
    by_the_switch = RepairRules(scope=RepairScope.CLUSTER, resume=Resume.MANUAL)
    world = settled(policy(repair=by_the_switch))
    world.lose(members(A, *range(6)))
    world.wait(2 * MINUTE)
    world.hold(A)
    world.declare(A, 1, HOUR)
    return world.zone(A), world.cluster


def test_the_stored_form_does_not_change() -> None:
    zone, cluster = records()
    declared = Maintenance(
        unit=where(members(A, 1)[0]), token=Token("m-1"), declared_by=ANNA, lasts_ms=HOUR
    )

    assert zone_record_data.plain(zone) == loaded(GOLDEN_ZONE)
    assert zone_record_data.plain(cluster) == loaded(GOLDEN_CLUSTER)
    assert zone_record_data.plain(declared) == loaded(GOLDEN_MAINTENANCE)
    assert zone_record_data.zone_record(loaded(GOLDEN_ZONE)) == zone
    assert zone_record_data.cluster_record(loaded(GOLDEN_CLUSTER)) == cluster
    assert zone_record_data.maintenance(loaded(GOLDEN_MAINTENANCE)) == declared


def test_records_of_the_version_before_are_read_and_evaluated() -> None:
    zone = zone_record_data.zone_record(loaded(ZONE_BEFORE))
    cluster = zone_record_data.cluster_record(loaded(CLUSTER_BEFORE))
    assert zone.observed.suspects == ()
    assert cluster.suspended is None
    world = settled()
    world.health = Health(zones={**world.health.zones, A: zone}, cluster=cluster)

    world.look()

    assert world.zone(A).evaluation == zone.evaluation + 1


def test_a_version_before_keeps_what_it_does_not_know() -> None:
    zone = loaded(GOLDEN_ZONE)
    known = loaded(ZONE_BEFORE)
    assert isinstance(zone["observed"], dict)
    assert isinstance(known["observed"], dict)

    assert zone["observed"].keys() - known["observed"].keys() == {"suspects"}
    assert zone.keys() - known.keys() == {"undeclared"}
    assert loaded(GOLDEN_CLUSTER).keys() - loaded(CLUSTER_BEFORE).keys() == {"suspended"}


def test_fields_of_a_newer_version_are_kept_at_any_depth() -> None:
    newer = loaded(GOLDEN_ZONE)
    newer["instance"] = "7f"
    gate = newer["gate"]
    assert isinstance(gate, dict)
    gate["colour"] = {"name": "red"}
    record = zone_record_data.zone_record(newer)

    assert zone_record_data.plain(record) == newer
    moved = zone_record_data.plain(replace(record, evaluation=99))
    assert moved == {**newer, "evaluation": 99}


def test_what_stood_in_a_part_that_is_gone_does_not_come_back() -> None:
    newer = loaded(GOLDEN_ZONE)
    gate = newer["gate"]
    assert isinstance(gate, dict)
    assert isinstance(gate["heldBy"], dict)
    gate["heldBy"]["team"] = "storage"
    record = zone_record_data.zone_record(newer)
    assert zone_record_data.plain(record) == newer

    released = replace(record, gate=replace(record.gate, held_by=None))
    assert zone_record_data.plain(released)["gate"] == {**gate, "heldBy": None}


BAD: Final[list[tuple[str, Plain, str]]] = [
    ("evaluation", None, "evaluation: null: must be a whole number"),
    ("evaluation", -1, "must be a whole number from 0"),
    ("evaluation", True, "must be a whole number"),
    ("evaluation", 1 << 60, "must be a whole number"),
    ("evaluation", 1.0, "must be a whole number"),
    ("zone", 7, "zone: 7: must be a text"),
    ("alerts", "zoneDown", "alerts: .*: must be a list"),
    ("alerts", ["zoneGone"], r"alerts\[0\]: .*must be one of"),
    ("evidence", [], "evidence: .*: must be a mapping"),
    ("evidence.available", 8, "more are available than counted"),
    ("gate.permission", "ajar", "gate.permission: .*must be one of open, held, released"),
    ("gate.permission", "open", "gate: .*what waits for a person must be held"),
    ("gate.token", None, "gate: .*an incident needs a token"),
    ("gate.real", 1, "gate.real: 1: must be true or false"),
    ("gate.heldBy", {"name": "", "reason": "x"}, "gate.heldBy: .*the name must be one line"),
    ("gate.heldBy", {"name": "x"}, "gate.heldBy.reason: missing: is required"),
    ("observed.downAgesMs", [0, "1"], r"observed.downAgesMs\[1\]: .*must be a whole number"),
    ("observed.downAgesMs", [0] * 10_001, "must be a list of at most 10000"),
    ("observed.suspects", [{"ageMs": 5, "forMs": 6}], r"suspects\[0\]: .*as it is ago"),
    ("observed.suspects", None, "observed.suspects: null: must be a list"),
    ("observed.reason", "x" * 4097, "must be a text of at most 4096 characters"),
]


@pytest.mark.parametrize(("path", "value", "message"), BAD)
def test_a_record_that_is_not_one_is_refused_with_the_place(
    path: str, value: Plain, message: str
) -> None:
    data = loaded(GOLDEN_ZONE)
    inside: dict[str, Plain] = data
    *steps, last = path.split(".")
    for step in steps:
        deeper = inside[step]
        assert isinstance(deeper, dict)
        inside = deeper
    inside[last] = value

    with pytest.raises(InvalidFieldsError, match=message):
        zone_record_data.zone_record(data)


def paths(data: Mapping[str, Plain], above: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found = []
    for name, value in data.items():
        found.append((*above, name))
        if isinstance(value, dict):
            found += paths(value, (*above, name))
    return found


#: The fields that the version before did not have.
LATER: Final = {("observed", "suspects"), ("undeclared",)}


@pytest.mark.parametrize(
    "path", [path for path in paths(loaded(GOLDEN_ZONE)) if path not in LATER], ids=".".join
)
def test_every_field_is_required(path: tuple[str, ...]) -> None:
    data = loaded(GOLDEN_ZONE)
    inside: dict[str, Plain] = data
    for step in path[:-1]:
        deeper = inside[step]
        assert isinstance(deeper, dict)
        inside = deeper
    del inside[path[-1]]

    with pytest.raises(InvalidFieldsError, match="missing: is required"):
        zone_record_data.zone_record(data)


def test_a_field_of_a_newer_version_that_json_cannot_say_is_refused() -> None:
    with pytest.raises(InvalidFieldsError, match="must be what JSON can say"):
        zone_record_data.zone_record({**loaded(GOLDEN_ZONE), "later": float("nan")})


def test_a_switch_that_was_used_names_its_incident() -> None:
    data = loaded(GOLDEN_CLUSTER)
    data["switch"] = {"phase": "asked", "token": None}

    with pytest.raises(InvalidFieldsError, match=r"switch: .*needs the token of the incident"):
        zone_record_data.cluster_record(data)
