"""Is a difference one that a running cluster makes while nothing happens in it? Pure.

A zone watch counts time and evaluations in its records, an auditor notes when it last checked, and
a bookie writes before it reads. A process that comes and goes leaves the empty directory of its
ephemeral nodes. Such a difference says nothing about ledgers, bookies or orders, so a comparison
leaves it out unless it is asked for all.

The parts of the zone watch's records that are left out are counted times, the evaluation's number,
and texts that repeat such numbers. State, permission, incident, evidence, alerts, a person's hold
and the wall time of each change are compared. So a change of a gate is always seen. A record that
cannot be read is compared byte for byte.
"""

import re
from collections.abc import Iterable
from typing import Final

from zonekeeper.metadata.formats import records
from zonekeeper.metadata.formats.malformed import UnreadableError
from zonekeeper.metadata.saving.export_diff import Difference
from zonekeeper.placement.base.fields import Plain

#: How the path of a node of our own begins in an export.
_OWN: Final = ".zonekeeper"
#: Directories of ephemeral nodes: empty in an export, whether they are there or not.
DIRECTORIES: Final = (
    "/available",
    "/available/readonly",
    "/underreplication/auditorelection",
    "/underreplication/locks",
    f"{_OWN}/log-keeper",
    f"{_OWN}/looks",
    f"{_OWN}/order-claims",
    f"{_OWN}/writers",
    f"{_OWN}/zone-watch",
)
#: The auditor's notes about its checks, and the nodes that bookies write before they read.
_NOTES: Final = re.compile(
    r"/underreplication/(replicascheck|placementpolicycheck|checkallledgers)ctime"
    rf"|{re.escape(_OWN)}/(check-[^/]+|checks(/[^/]+)?|looks/[^/]+)"
)
#: Folders of the candidates of logs: they come with the first one, and go with the last.
_CANDIDATES: Final = re.compile(rf"{re.escape(_OWN)}/standby(/.*)?")
_GATE: Final = ("gate.heldMs", "gate.reason")
#: What each evaluation of a zone watch changes in its records, as paths of fields.
ZONE_FIELDS: Final = (
    "evaluation",
    "observed.forMs",
    "observed.betweenMs",
    "observed.downAgesMs",
    "observed.suspects",
    "observed.reason",
    *_GATE,
)
CLUSTER_FIELDS: Final = (
    "evaluation",
    "observed.forMs",
    "observed.reason",
    "maintenance",
    "suspended.gate.heldMs",
    "suspended.gate.reason",
    *_GATE,
)
_ZONE: Final = re.compile(rf"{re.escape(_OWN)}/zones/[^/]+")
_CLUSTER: Final = f"{_OWN}/cluster"


def only_idle(difference: Difference) -> bool:
    """Does a running cluster make this difference while nothing happens in it?"""
    suffix, values = difference.suffix, (difference.first, difference.second)
    if _NOTES.fullmatch(suffix):
        return True
    if suffix in DIRECTORIES or _CANDIDATES.fullmatch(suffix):
        return not any(values)
    if suffix == _CLUSTER:
        return _same(values, CLUSTER_FIELDS)
    return _ZONE.fullmatch(suffix) is not None and _same(values, ZONE_FIELDS)


def _same(values: Iterable[bytes | None], names: Iterable[str]) -> bool:
    """Are both values records, and equal without the named fields?"""
    rest = list[dict[str, Plain]]()
    for value in values:
        if value is None:
            return False
        try:
            record = records.parse_object(value)
        except UnreadableError:
            return False
        for name in names:
            _drop(record, name.split("."))
        rest.append(record)
    first, second = rest
    return first == second


def _drop(data: Plain, path: list[str]) -> None:
    if isinstance(data, dict):
        if len(path) == 1:
            data.pop(path[0], None)
        else:
            _drop(data.get(path[0]), path[1:])
