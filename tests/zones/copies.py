"""Where copies are: by the ledgers' metadata, and by the word of the bookies themselves."""

from collections.abc import Iterator, Set
from typing import Final, NamedTuple

from zonekeeper.client.api.client import Client
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats.ledger_metadata import LedgerMetadata
from zonekeeper.metadata.ledgers import ledger_listing
from zonekeeper.metadata.ledgers.ledgers import StoredLedger
from zonekeeper.placement.base.ids import BookieId, EntryId, LedgerId
from zonekeeper.wire.contract.service import ListEntriesRequest

RANGES_MAX: Final = 10_000


class Copy(NamedTuple):
    """What one position of one finished fragment holds."""

    ledger_id: LedgerId
    first_entry: EntryId
    end: EntryId
    bookie: BookieId

    @property
    def zone(self) -> str:
        """The zone that the bookie's name says."""
        return zone_of(self.bookie)


def zone_of(bookie: BookieId) -> str:
    """Give the zone of ``bk-<zone>-<ordinal>``."""
    return bookie.split("-")[1]


async def closed(cluster: Cluster) -> dict[LedgerId, LedgerMetadata]:
    """Read all ledgers that are closed."""
    return {
        one.id: one.metadata
        async for one in ledger_listing.all_of(cluster)
        if isinstance(one, StoredLedger) and one.metadata.is_closed
    }


async def every(cluster: Cluster) -> set[Copy]:
    """Name all copies of the closed ledgers."""
    found = await closed(cluster)
    return {copy for ledger_id, ledger in found.items() for copy in _copies(ledger_id, ledger)}


async def newcomers(cluster: Cluster, before: Set[Copy]) -> set[Copy]:
    """Name what ledgers that were closed before have now, and had not: what was repaired.

    That must be whole. A copy of the writer's need not be: the writer waits for an ack quorum, and
    for the others no longer than a moment.
    """
    ledgers = {copy.ledger_id for copy in before}
    return {copy for copy in await every(cluster) if copy.ledger_id in ledgers} - before


async def named(cluster: Cluster) -> set[BookieId]:
    """Name all bookies that some ledger names, open ones included."""
    return {
        bookie
        async for one in ledger_listing.all_of(cluster)
        if isinstance(one, StoredLedger)
        for bookie in one.metadata.bookies
    }


async def check_there(client: Client, copies: Set[Copy]) -> int:
    """Ask each bookie for what it is said to hold; give how many entries that were."""
    entries = 0
    for copy in sorted(copies):
        request = ListEntriesRequest(
            ledger_id=copy.ledger_id, first_entry_id=copy.first_entry, ranges_max=RANGES_MAX
        )
        link = await client.bookies.pool.link(copy.bookie)
        page = await link.list_entries(request)
        missing = set(range(copy.first_entry, copy.end))
        for first, last in page.ranges:
            missing.difference_update(range(first, last + 1))
        assert not missing, f"{copy} lacks {sorted(missing)[:5]}"
        entries += copy.end - copy.first_entry
    return entries


def zones_of(ledger: LedgerMetadata) -> list[set[str]]:
    """Give the zones of each fragment."""
    return [{zone_of(bookie) for bookie in one.ensemble} for one in ledger.fragments]


def _copies(ledger_id: LedgerId, ledger: LedgerMetadata) -> Iterator[Copy]:
    assert ledger.ensemble_size == ledger.write_quorum, "every position holds every entry"
    ends = [fragment.first_entry for fragment in ledger.fragments[1:]]
    ends.append(EntryId(ledger.last_entry + 1))
    for fragment, end in zip(ledger.fragments, ends, strict=True):
        for bookie in fragment.ensemble:
            if end > fragment.first_entry:
                yield Copy(ledger_id, fragment.first_entry, end, bookie)
