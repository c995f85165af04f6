"""The endpoints of a cluster's processes, read from the store and noted in the user's cache.

A bookie's endpoints are in its registration, an autorecovery process's in its announcement. To note
them is a help for later: it has little time, and its failure never fails the command.
"""

import asyncio
import os
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from zonekeeper.metadata.bookies import bookie_watch, registration
from zonekeeper.metadata.cluster import announced
from zonekeeper.metadata.cluster.announced import Announcement
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats import cookies
from zonekeeper.metadata.formats.malformed import UnreadableError
from zonekeeper.metadata.formats.service_info import LOCATION_PROPERTY, Endpoint, ServiceInfo
from zonekeeper.metadata.store.background import together
from zonekeeper.metadata.store.errors import BadStoreUriError, StoreError
from zonekeeper.placement.base import locations
from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.shell.reaching import last_seen
from zonekeeper.shell.reaching.last_seen import KnownProcess, LastSeen, NothingSeen
from zonekeeper.wire.formats import addresses
from zonekeeper.wire.running.page_identity import ProcessKind

READS_IN_FLIGHT_MAX: Final = 64
#: A command spends at most this on noting endpoints.
NOTED_WITHIN_MS: Final = 500


async def read(cluster: Cluster, address: str, wall_ms: int) -> LastSeen:
    """Read the endpoints of all processes from the store at a metadata address."""
    names = sorted(await bookie_watch.registrations(cluster))
    bookies: list[KnownProcess] = []

    async def look(some: list[BookieId]) -> None:
        for name in some:
            if (one := await _bookie(cluster, name, wall_ms)) is not None:
                bookies.append(one)

    await together(look(names[at::READS_IN_FLIGHT_MAX]) for at in range(READS_IN_FLIGHT_MAX))
    others = _announced(await announced.read_all(cluster), wall_ms)
    found = {(one.kind, one.name): one for one in (*bookies, *others)}
    return LastSeen(
        store=last_seen.store_name(address),
        instance=cluster.instance,
        seen_ms=wall_ms,
        processes=tuple(found[key] for key in sorted(found)),
    )


async def note(cluster: Cluster, address: str, wall_ms: int) -> None:
    """Note the endpoints of a cluster in the user's cache, if that can be done quickly."""
    with suppress(TimeoutError, StoreError, UnreadableError, BadStoreUriError):
        async with asyncio.timeout(NOTED_WITHIN_MS / 1000):
            await read_and_note(cluster, address, wall_ms, NothingSeen("this command saw nothing"))


async def read_and_note(
    cluster: Cluster, address: str, wall_ms: int, old: LastSeen | NothingSeen
) -> LastSeen:
    """Read the endpoints, note them, and give them with what an old sight has besides.

    A cache that cannot be written is no error. Raises ``StoreError``.
    """
    seen = await read(cluster, address, wall_ms)
    cookies_there = await cluster.store.children(cluster.root.below("cookies")) or ()
    known = frozenset(map(BookieId, cookies_there))
    last_seen.remember(last_seen.cache_folder(os.environ), seen, known)
    return last_seen.merged(old, seen, known)


async def _bookie(cluster: Cluster, name: BookieId, wall_ms: int) -> KnownProcess | None:
    try:
        info = await registration.read_service_info(cluster, name)
    except UnreadableError:
        return None
    return None if info is None else of_bookie(name, info, wall_ms)


def of_bookie(name: BookieId, info: ServiceInfo, wall_ms: int) -> KnownProcess:
    """Give the endpoints of a bookie, by its registration."""
    where = locations.parse(info.properties.get(LOCATION_PROPERTY, ""))
    http = None if info.http is None else last_seen.endpoint(_joined(info.http))
    return KnownProcess(
        kind=ProcessKind.BOOKIE,
        name=name,
        zone=None if where is None else where.zone,
        upgrade_domain=None if where is None else where.upgrade_domain,
        http=http,
        http_tls=info.pages_by_certificate,
        address=None if info.bookie is None else _joined(info.bookie),
        seen_ms=wall_ms,
    )


def _joined(endpoint: Endpoint) -> str:
    return str(addresses.of(endpoint.host, endpoint.port))


def _announced(every: Iterable[Announcement], wall_ms: int) -> list[KnownProcess]:
    return [
        KnownProcess(
            kind=ProcessKind(one.kind),
            name=BookieId(one.name),
            zone=ZoneName(one.zone) if one.zone else None,
            upgrade_domain=None,
            http=last_seen.endpoint(one.http),
            http_tls=one.http_tls,
            address=None,
            seen_ms=wall_ms,
        )
        for one in every
        if one.kind in tuple(ProcessKind) and cookies.is_bookie_id(one.name)
    ]
