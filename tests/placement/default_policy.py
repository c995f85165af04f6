"""The policy record with its defaults, written out in full, and ways to change it."""

import copy
from collections.abc import Iterator
from typing import cast

from zonekeeper.placement.base.fields import Plain
from zonekeeper.placement.base.ids import ZoneName
from zonekeeper.placement.policy.rules import PlacementRules, Policy

ABC = (ZoneName("a"), ZoneName("b"), ZoneName("c"))
DEFAULT = Policy(placement=PlacementRules(zones=ABC))
#: The record, every field with its default.
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
        "abandonedAfter": "0s",
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
