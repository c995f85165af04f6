"""What a release would do to this cluster, now: ``preflight`` fed from the ledgers and the bookies.

Every ledger's metadata is read once, and every registered bookie is asked for its room. Nothing is
changed.
"""

from collections.abc import Callable
from contextlib import aclosing
from typing import Final

from zonekeeper.client.api.client import Client
from zonekeeper.metadata.cluster import elections
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.ledgers.ledgers import StoredLedger
from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.placement.base.topology import Topology
from zonekeeper.replication.decisions import preflight
from zonekeeper.replication.decisions.preflight import Preflight, Tally
from zonekeeper.replication.view import listing, usage
from zonekeeper.replication.view.view import View

_TELL_EVERY: Final = 1_000


def held_losses(view: View, zone: ZoneName | None) -> frozenset[BookieId]:
    """Give the lost bookies that a zone's gate is about, or (None) the cluster's.

    Losses in a unit under maintenance are left out: maintenance holds them, not a gate.
    """
    return frozenset(
        name
        for name, where in view.missing.items()
        if name not in view.written_off
        and where not in view.maintenance
        and (zone is None or (where is not None and where.zone == zone))
    )


async def measure(
    client: Client, view: View, lost: frozenset[BookieId], counted: Callable[[int], None]
) -> Preflight:
    """Count what would be copied again. ``counted`` is called with the ledgers read so far."""
    topology = view.topology
    tally, number = Tally(lost, topology), 0
    async with aclosing(listing.walk(client.cluster)) as ledgers:
        async for one in ledgers:
            number += 1
            if isinstance(one, StoredLedger):
                tally.add(one.metadata)
            else:
                tally.unreadable()
            if number % _TELL_EVERY == 0:
                counted(number)
    counted(number)
    there = Topology(bookie for bookie in topology if bookie.readable)
    infos = await usage.survey(client.bookies.pool, [bookie.id for bookie in there])
    return preflight.judge(
        tally.work,
        lost,
        usage.by_zone(there, infos, rules=view.policy.placement),
        processes=await _processes(client.cluster),
        process_bytes_per_second=view.policy.repair.bytes_per_second,
    )


async def _processes(cluster: Cluster) -> int:
    """Count the processes that repair: each of them is a candidate for the auditor."""
    votes = elections.auditor_votes(cluster)
    return len(elections.in_order(await cluster.store.children(votes, sync=True) or ()))
