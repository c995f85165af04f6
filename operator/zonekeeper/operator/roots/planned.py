"""Planned work on a unit, as the operator reads and declares it in the metadata store.

The operator declares maintenance under the name by which it owns the policy, so an operator that
has just started finds what an earlier one declared. A declaration of another name is somebody
else's, and is never touched. A declaration that cannot be read is somebody else's, too.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from zonekeeper.metadata.bookies.bookie_records import BookieRecord
from zonekeeper.metadata.cluster import zone_store
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats.malformed import UnreadableError
from zonekeeper.metadata.formats.service_info import PublishedRoom
from zonekeeper.metadata.ledgers import underreplication
from zonekeeper.placement.base.chance import Chance
from zonekeeper.placement.base.ids import BookieId, LedgerId
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.policy.rules import Policy
from zonekeeper.placement.zones.gate import Person
from zonekeeper.placement.zones.maintenance import Maintenance
from zonekeeper.replication.gate import planned_work

#: So many marked ledgers are counted; more are "or more".
MARKED_MAX: Final = 1_000
#: Why the operator declares maintenance.
REASON: Final = "the roll makes the pods of this unit anew"


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """The declarations of maintenance that stand."""

    #: Those that can be read.
    standing: tuple[Maintenance, ...] = ()
    #: The names of those that cannot be read.
    unreadable: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkFacts:
    """What is asked before bookies are taken down; it is read only while there is planned work."""

    #: By bookie; None: the record cannot be read.
    records: Mapping[BookieId, BookieRecord | None]
    #: The number of ledgers that are marked for repair, up to ``MARKED_MAX``, and the first.
    marked: int
    first_marked: LedgerId | None
    #: The room that registered bookies publish; one that publishes none is left out.
    rooms: Mapping[BookieId, PublishedRoom] = field(default_factory=dict)


async def declared(cluster: Cluster) -> Declared:
    """Read every declaration."""
    standing, unreadable = [], []
    for name in await zone_store.maintenance_names(cluster):
        try:
            found = await zone_store.read_maintenance(cluster, name)
        except UnreadableError:
            unreadable.append(name)
            continue
        if found is not None:
            standing.append(found)
    return Declared(standing=tuple(standing), unreadable=tuple(unreadable))


def declaration(unit: Location, owner: str, policy: Policy, chance: Chance) -> Maintenance:
    """Make a declaration that lasts for as long as the policy allows."""
    person = Person(name=owner, reason=REASON)
    lasts_ms = policy.zone_watch.maintenance_max_ms
    (made,) = planned_work.planned((unit,), person, lasts_ms, policy, chance)
    return made


async def marked(cluster: Cluster) -> tuple[int, LedgerId | None]:
    """Count the ledgers that are marked for repair, and name the first."""
    count, first = 0, None
    async for ledger in underreplication.ids(cluster):
        first = ledger if first is None else first
        count += 1
        if count == MARKED_MAX:
            break
    return count, first
