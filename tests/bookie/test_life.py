"""A bookie is registered on the side of its mode, however the mode changes meanwhile."""

import asyncio

import pytest

from tests.bookie.running import BOOKIE, running
from tests.support.stores import MemoryPlace
from zonekeeper.bookie.life import Conditions, Presence
from zonekeeper.bookie.memory_files import MemoryFileSystem
from zonekeeper.metadata import cluster as clusters
from zonekeeper.metadata import service_info
from zonekeeper.metadata.cluster import Cluster
from zonekeeper.metadata.registration import Registrar
from zonekeeper.metadata.stores.timeouts import Timeouts
from zonekeeper.placement.ids import UpgradeDomain, ZoneName
from zonekeeper.placement.locations import Location

INSTANCE = "d58c3de9-d9c6-429e-be20-474dcad4d089"
SESSION_MS = 10_000
WHERE = Location(ZoneName("a"), UpgradeDomain("ud-0"))
#: More than a registration takes.
TURNS_MAX = 40
IDLE_TURNS = 200


async def side(cluster: Cluster) -> str:
    found = [
        name
        for name, path in (
            ("writable", cluster.root.writable(BOOKIE)),
            ("read-only", cluster.root.read_only(BOOKIE)),
        )
        if await cluster.store.exists(path, sync=True)
    ]
    return ", ".join(found)


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.mark.parametrize("between", range(TURNS_MAX))
async def test_a_mode_that_changes_while_it_is_being_registered_is_registered(between: int) -> None:
    store = await MemoryPlace().open(Timeouts(session_ms=SESSION_MS))
    cluster = await clusters.initialise(store, INSTANCE)
    info = service_info.of_bookie("127.0.0.1", 3181, WHERE, tls=False)
    registrar = Registrar(cluster, BOOKIE, info, session_timeout_ms=SESSION_MS)
    async with running(MemoryFileSystem()) as bookie, asyncio.TaskGroup() as tasks:
        presence = Presence(registrar, bookie, store, Conditions())
        keeping = tasks.create_task(presence.keep())
        await presence.begun.wait()
        await turns(IDLE_TURNS)
        assert await side(cluster) == "writable"

        bookie.set_conditions(["the disk is full"])
        await turns(between)
        bookie.set_conditions([])
        await turns(IDLE_TURNS)

        assert await side(cluster) == "writable"
        bookie.set_conditions(["the disk is full"])
        await turns(IDLE_TURNS)
        assert await side(cluster) == "read-only"
        keeping.cancel()
    await store.close()
