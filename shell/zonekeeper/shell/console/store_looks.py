"""What the console reads from the store beside the view's records: the queue, alerts, timeline."""

from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Final

from zonekeeper.metadata.bookies.restrictions import Restriction
from zonekeeper.metadata.cluster import elections, timeline
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.ledgers import underreplication
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.replication.view.view import View
from zonekeeper.shell.console import queue_pace
from zonekeeper.shell.console.queue_pace import QueueLook
from zonekeeper.shell.console.snapshot import AlertPart, EventPart, QueuePart
from zonekeeper.shell.reaching import restricting
from zonekeeper.shell.reports import standing

#: Marked ledgers are counted up to this number.
MARKED_MAX: Final = 20_000
#: So many claims are named.
CLAIMS_MAX: Final = 50
#: So many events are read, the newest.
EVENTS_READ: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreLook:
    """What was read at one time."""

    restrictions: Mapping[BookieId, Sequence[Restriction]] = field(default_factory=dict)
    alerts: tuple[AlertPart, ...] = ()
    queue: QueuePart | None = None
    queue_looks: tuple[QueueLook, ...] = ()
    #: The newest first.
    events: tuple[EventPart, ...] = ()
    #: The token of the newest event; empty: there is none.
    newest: str = ""


async def look(cluster: Cluster, view: View, before: StoreLook, now_ms: int) -> StoreLook:
    """Read all; ``now_ms`` is of this process's clock. Raises ``StoreError``."""
    queue, looks = await _queue(cluster, view, before.queue_looks, now_ms)
    events, newest = await _events(cluster, before)
    return StoreLook(
        restrictions=await restricting.read(cluster, view.topology),
        alerts=tuple(
            AlertPart(
                about=one.about,
                alert=str(one.alert),
                severity=str(one.severity),
                text=" ".join(one.text.split()),
                runbook=one.runbook,
            )
            for one in await standing.read(cluster, view)
        ),
        queue=queue,
        queue_looks=looks,
        events=events,
        newest=newest,
    )


async def _queue(
    cluster: Cluster, view: View, looks: tuple[QueueLook, ...], now_ms: int
) -> tuple[QueuePart, tuple[QueueLook, ...]]:
    store, marked = cluster.store, 0
    async with aclosing(underreplication.ids(cluster)) as ids:
        async for _ in ids:
            marked += 1
            if marked == MARKED_MAX:
                break
    looks = queue_pace.kept(looks, QueueLook(now_ms, marked))
    pace = None if marked == MARKED_MAX else queue_pace.pace(looks)
    votes = await store.children(elections.auditor_votes(cluster), sync=True)
    processes = len(elections.in_order(votes or ()))
    claims = (await underreplication.held(cluster))[:CLAIMS_MAX]
    rate = view.policy.repair.bytes_per_second
    part = QueuePart(
        marked=marked,
        or_more=marked == MARKED_MAX,
        under_repair=tuple((str(one.ledger_id), str(one.holder or "?")) for one in claims),
        processes=processes,
        auditor=await elections.leader(store, elections.auditor_votes(cluster)),
        zone_watch=await elections.leader(store, elections.zone_watch_votes(cluster)),
        ledgers_per_second=None if pace is None else round(pace.ledgers_per_second, 2),
        eta_ms=None if pace is None else pace.eta_ms,
        bytes_per_second=None,
        bytes_per_second_max=rate * processes or None,
    )
    return part, looks


async def _events(cluster: Cluster, before: StoreLook) -> tuple[tuple[EventPart, ...], str]:
    """Read the timeline, if it has a newer event than before."""
    newest = await timeline.newest(cluster, limit=1)
    token = newest[0].token if newest else ""
    if token == before.newest:
        return before.events, token
    return tuple(
        EventPart(at_ms=one.at_ms, kind=one.kind, subject=one.subject, by=one.by, reason=one.reason)
        for one in await timeline.newest(cluster, limit=EVENTS_READ)
    ), token
