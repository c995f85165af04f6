"""A zone that is lost on purpose: ledgers on real bookies, what is marked, and bytes at bookies."""

import asyncio
import re
import urllib.request
from collections.abc import Sequence
from typing import Final

from zonekeeper.client.api.client import Client
from zonekeeper.metadata.bookies import bookie_watch, registration
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.ledgers import ledgers
from zonekeeper.metadata.store.background import together
from zonekeeper.placement.base.ids import BookieId, LedgerId

AT_ONCE: Final = 32
_BYTES: Final = re.compile(
    r"^zonekeeper_bookie_(?:read|appended)_bytes_total(?:\{[^}]*\})? ([0-9.e+]+)$", re.MULTILINE
)


async def written(client: Client, count: int, entries: int, size: int) -> list[LedgerId]:
    """Write closed ledgers whose bookies all have all of them."""
    found: list[LedgerId] = []

    async def some(number: int) -> None:
        for _ in range(number):
            writer = await client.create()
            for entry in range(entries):
                await writer.append(b"%d of %d " % (entry, writer.ledger_id) + b"." * size)
            await writer.close()
            found.append(writer.ledger_id)

    await together(some((count + at) // AT_ONCE) for at in range(AT_ONCE))
    return sorted(found)


async def naming(
    cluster: Cluster, ids: Sequence[LedgerId], lost: str
) -> dict[LedgerId, tuple[int, list[BookieId]]]:
    """Give the ledgers with a member whose name begins so: their version, and these members."""
    found = {}

    async def look(ledger_id: LedgerId) -> None:
        stored = await ledgers.read(cluster, ledger_id, sync=True)
        assert stored is not None
        members = sorted(one for one in stored.metadata.bookies if one.startswith(lost))
        if members:
            found[ledger_id] = (stored.version, members)

    for start in range(0, len(ids), AT_ONCE):
        await together(look(one) for one in ids[start : start + AT_ONCE])
    return found


async def versions(cluster: Cluster, ids: Sequence[LedgerId]) -> list[int]:
    """Give the versions of the ledgers' metadata: each swap of an ensemble adds one."""
    found: list[int] = []
    for start in range(0, len(ids), AT_ONCE):
        portion = ids[start : start + AT_ONCE]
        stored = await together(ledgers.read(cluster, one, sync=True) for one in portion)
        found += [one.version for one in stored if one is not None]
    return found


async def bytes_at_bookies(cluster: Cluster) -> float:
    """Give the bytes of entries that all registered bookies have read and taken so far."""
    total = 0.0
    for name in sorted(await bookie_watch.registrations(cluster)):
        info = await registration.read_service_info(cluster, name)
        assert info is not None
        assert info.http is not None
        url = f"http://{info.http.host}:{info.http.port}/metrics"
        text = await asyncio.to_thread(_page, url)
        found = _BYTES.findall(text)
        assert found, f"no bytes on {url}"
        total += sum(map(float, found))
    return total


def _page(url: str) -> str:
    with urllib.request.urlopen(url) as answer:
        text: str = answer.read().decode()
    return text
