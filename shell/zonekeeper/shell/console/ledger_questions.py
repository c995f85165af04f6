"""What the page asks of the ledgers: the price of a release, what a loss would do, a list of them.

The price is that of ``autorecovery release --dry-run``, and what a loss would do is judged as by
``audit lose``.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import aclosing
from typing import Final

from zonekeeper.client.api.client import Client
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.ledgers import ledger_listing
from zonekeeper.metadata.ledgers.ledger_listing import UnreadableLedger
from zonekeeper.metadata.ledgers.ledgers import StoredLedger
from zonekeeper.placement.base.ids import BookieId, LedgerId, ZoneName
from zonekeeper.replication.decisions import what_if
from zonekeeper.replication.decisions.what_if import Harm
from zonekeeper.replication.gate import releasing
from zonekeeper.replication.view import listing
from zonekeeper.replication.view.view import View
from zonekeeper.shell.reports import preflight_text
from zonekeeper.shell.reports.preflight_text import PreflightSeen

#: At most this many ledgers of a kind are named.
NAMED_MAX: Final = 20
#: So many ledgers stand on a page of the list.
PAGE_LEDGERS: Final = 25
#: Of a ledger at most so many bookies are named.
_BOOKIES_MAX: Final = 12
_TELL_EVERY: Final = 1_000
UNWRITABLE: Final = "unwritable without another ensemble"


async def price(
    client: Client, view: View, zone: ZoneName | None, counted: Callable[[int], None]
) -> Mapping[str, object]:
    """Count what the release of a zone's losses (None: the cluster's) would do."""
    record = view.cluster_record if zone is None else view.zones.get(zone)
    lost = releasing.held_losses(view, zone)
    preflight = await releasing.measure(client, view, lost, counted)
    what = "releasing the cluster" if zone is None else f"releasing zone {zone}"
    gates = () if record is None or record.gate.permits else (record.gate,)
    seen = PreflightSeen(what=what, gates=gates, preflight=preflight)
    return preflight_text.plain(seen, done=False)


async def loss(
    cluster: Cluster,
    view: View,
    is_chosen: Callable[[BookieId], bool],
    counted: Callable[[int], None],
) -> Mapping[str, object]:
    """Say what would become of the ledgers if the chosen bookies were lost, beside today's."""
    counts = Counter({harm.word: 0 for harm in reversed(Harm)})
    counts[UNWRITABLE] = 0
    named: dict[str, list[str]] = {}
    unreadable: list[str] = []
    number = 0

    def zone_of(bookie: BookieId) -> ZoneName | None:
        where = view.topology.location(bookie)
        return None if where is None else where.zone

    def is_lost(bookie: BookieId) -> bool:
        known = view.topology.get(bookie)
        return known is None or not known.readable or is_chosen(bookie)

    async with aclosing(listing.walk(cluster)) as every:
        async for listed in every:
            number += 1
            if number % _TELL_EVERY == 0:
                counted(number)
            if isinstance(listed, UnreadableLedger):
                unreadable.append(str(listed.id))
                continue
            outcome = what_if.of_ledger(listed.metadata, zone_of, is_lost)
            kinds = [outcome.harm.word] + [UNWRITABLE] * outcome.unwritable
            for kind in kinds:
                counts[kind] += 1
                names = named.setdefault(kind, [])
                if kind != Harm.NONE.word and len(names) < NAMED_MAX:
                    names.append(str(listed.id))
    counted(number)
    return {
        "ledgers": number,
        "counts": dict(counts),
        "named": {kind: some for kind, some in named.items() if some},
        "unreadable": unreadable[:NAMED_MAX],
        "unreadableCount": len(unreadable),
    }


async def ledgers_from(cluster: Cluster, first: LedgerId) -> Mapping[str, object]:
    """List some ledgers in the order of their ids, from one on."""
    found: list[Mapping[str, object]] = []
    following: int | None = None
    async with aclosing(ledger_listing.all_of(cluster, first=first)) as every:
        async for listed in every:
            if len(found) == PAGE_LEDGERS:
                following = listed.id
                break
            found.append(_plain(listed))
    return {
        "first": str(first),
        "ledgers": found,
        "next": None if following is None else str(following),
    }


def _plain(listed: StoredLedger | UnreadableLedger) -> Mapping[str, object]:
    """Give a ledger as plain data; its id is a text, as a browser's numbers end at 2**53."""
    if isinstance(listed, UnreadableLedger):
        return {"id": str(listed.id), "trouble": str(listed.error)}
    ledger = listed.metadata
    bookies = sorted(ledger.bookies)
    return {
        "id": str(listed.id),
        "state": ledger.state.value,
        "entries": str(ledger.last_entry + 1) if ledger.is_closed else None,
        "bytes": ledger.length if ledger.is_closed else None,
        "quorums": f"{ledger.ensemble_size}/{ledger.write_quorum}/{ledger.ack_quorum}",
        "fragments": len(ledger.fragments),
        "createdMs": ledger.created_ms,
        "bookies": bookies[:_BOOKIES_MAX],
        "bookieCount": len(bookies),
    }
