"""Bookies come up where others were: an entry is acknowledged by those that its ensemble names.

Real services on real ports. Each is registered with a port that leads to it, until that leads to
another one: as an address does that a bookie has left and another one was given.
"""

import dataclasses
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.client.api.test_over_grpc import cluster_of
from tests.client.lab import policy
from tests.client.patience import PATIENT
from tests.support.fronts import Fronts, fronts
from zonekeeper.client.api import client as clients
from zonekeeper.client.api.client import Client
from zonekeeper.client.base import errors
from zonekeeper.client.bookies import link_pool
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.formats import service_info
from zonekeeper.metadata.stores.opening import open_store
from zonekeeper.placement.base.ids import BookieId, EntryId, LedgerId, UpgradeDomain, ZoneName
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.wire.contract import service
from zonekeeper.wire.formats import errors as wire_errors

LINKS = dataclasses.replace(PATIENT.links, back_off_first_ms=1, back_off_max_ms=10)
CONFIG = dataclasses.replace(PATIENT, links=LINKS)
BOOKIES = {BookieId(f"bk-{zone}-0") for zone in "abc"}


@asynccontextmanager
async def cluster(folder: Path) -> AsyncIterator[tuple[str, Fronts]]:
    """Three bookies, entries on two of them, and an acknowledgement from both."""
    rules = policy(Quorums(ensemble=2, write=2, ack=2), strict=False, min_zones=1)
    async with fronts() as ways:

        async def front(zone: str, port: int) -> int:
            return await ways.add(f"bk-{zone}-0", port)

        async with cluster_of(folder, "abc", front, rules) as (uri, _):
            yield uri, ways


def swap(ways: Fronts, gone: BookieId, *, comes: BookieId) -> None:
    """Let a bookie be gone, and another one come up where it was."""
    ways.lead(gone, to=comes)
    ways[gone].cut()


async def register(uri: str, bookie_id: BookieId, port: int) -> None:
    """Let a bookie be registered at a port, whether it was at another one or not at all."""
    store = await open_store(uri, PATIENT.store)
    try:
        made = await clusters.open_cluster(store)
        path = made.root.writable(bookie_id)
        location = Location(ZoneName(bookie_id[3]), UpgradeDomain("ud-0"))
        info = service_info.render(service_info.of_bookie("127.0.0.1", port, location, tls=False))
        if (node := await store.get(path)) is None:
            await store.create(path, info)
        else:
            await store.put(path, info, version=node.version)
    finally:
        await store.close()


async def held(client: Client, bookie_id: BookieId, ledger_id: LedgerId) -> list[tuple[int, int]]:
    """Say which entries of a ledger a bookie has."""
    link = await client.bookies.pool.link(bookie_id)
    request = service.ListEntriesRequest(
        ledger_id=ledger_id, first_entry_id=EntryId(0), ranges_max=9
    )
    return list((await link.list_entries(request)).ranges)


async def test_who_answers_for_another_bookie_does_not_acknowledge_for_it(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (uri, ways), clients.connect(uri, CONFIG) as client:
        writer = await client.create()
        await writer.append_and_wait(b"zero")
        gone, stays = writer.ensemble
        (spare,) = BOOKIES.difference(writer.ensemble)
        swap(ways, gone, comes=stays)
        await writer.append_and_wait(b"one")
        assert writer.ensemble == (spare, stays)
        assert await held(client, spare, writer.ledger_id) == [(1, 1)]
        assert await held(client, stays, writer.ledger_id) == [(0, 1)]


async def test_with_nobody_else_nothing_is_acknowledged_and_nothing_is_lost(
    tmp_path: Path,
) -> None:
    async with cluster(tmp_path) as (uri, ways):
        async with clients.connect(uri, CONFIG) as client:
            writer = await client.create()
            await writer.append_and_wait(b"zero")
            gone, stays = writer.ensemble
            for bookie_id in BOOKIES - {stays}:
                swap(ways, bookie_id, comes=stays)
            with pytest.raises(errors.LostQuorum):
                await writer.append_and_wait(b"one")
        for bookie_id in BOOKIES - {stays}:
            swap(ways, bookie_id, comes=bookie_id)
        async with clients.connect(uri, CONFIG) as client:
            assert await held(client, gone, writer.ledger_id) == [(0, 0)]
            reader = await client.open(writer.ledger_id, recover=True)
            kept = [bytes(entry.payload) async for entry in reader.read_entries()]
            assert kept in ([b"zero"], [b"zero", b"one"])
            for entry_id in map(EntryId, range(len(kept))):
                for bookie_id in reader.metadata.fragment_of(entry_id).ensemble:
                    ranges = await held(client, bookie_id, writer.ledger_id)
                    assert any(first <= entry_id <= last for first, last in ranges)


async def test_a_bookie_whose_place_was_taken_is_found_where_it_is_registered_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link_pool, "LOOK_UP_EVERY_MS", 0)
    async with cluster(tmp_path) as (uri, ways), clients.connect(uri, CONFIG) as client:
        writer = await client.create()
        await writer.append_and_wait(b"zero")
        moved, stays = ensemble = writer.ensemble
        await register(uri, moved, ways.home(moved))
        swap(ways, moved, comes=stays)
        await writer.append_and_wait(b"one")
        assert writer.ensemble == ensemble
        assert client.counters.links_moved == 1
        for bookie_id in ensemble:
            assert await held(client, bookie_id, writer.ledger_id) == [(0, 1)]


async def test_a_name_that_no_bookie_can_have_is_not_reached_though_it_is_registered(
    tmp_path: Path,
) -> None:
    name = BookieId("bk-a-\N{LATIN SMALL LETTER A WITH DIAERESIS}")
    async with cluster(tmp_path) as (uri, _), clients.connect(uri, CONFIG) as client:
        await register(uri, name, 1)
        with pytest.raises(wire_errors.NotConnected):
            await (await client.bookies.pool.link(name)).info()
