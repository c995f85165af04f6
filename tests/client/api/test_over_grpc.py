"""The whole way for real: sockets, a metadata store in a file, and ``connect`` by its address."""

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.bookie import running
from tests.client.lab import SEGMENT_BYTES, policy
from tests.client.patience import PATIENT
from zonekeeper.bookie.disk.disks import InlineDisk
from zonekeeper.bookie.disk.memory_files import MemoryFileSystem
from zonekeeper.bookie.life import life
from zonekeeper.bookie.segments.arrivals import Sizes
from zonekeeper.bookie.serving.service import BookieServer
from zonekeeper.client.api import client as clients
from zonekeeper.client.base import errors
from zonekeeper.client.base.ways import BookieWay
from zonekeeper.metadata.bookies import cookie_store, registration
from zonekeeper.metadata.cluster import cluster, policy_store
from zonekeeper.metadata.formats import cookies, service_info
from zonekeeper.metadata.stores.opening import open_store
from zonekeeper.placement.base.ids import BookieId, LedgerId, UpgradeDomain, ZoneName
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.policy.rules import Policy
from zonekeeper.wire.formats import bookie_names
from zonekeeper.wire.formats.addresses import Address
from zonekeeper.wire.grpc.grpc_server import GrpcServer
from zonekeeper.wire.host.serving import Host
from zonekeeper.wire.running.bookie_config import KeyRule
from zonekeeper.wire.socket.socket_server import SocketServer

INSTANCE = "6f2ee3ee-52a8-4b5c-8f0e-4a3c8d5f0c11"


#: Gives the port to register in front of a bookie's own.
Front = Callable[[str, int], Awaitable[int]]


async def no_front(zone: str, port: int) -> int:
    del zone
    return port


async def serve(
    uri: str,
    zone: str,
    up: asyncio.Event,
    killed: asyncio.Event,
    front: Front = no_front,
    lane_front: Front | None = None,
) -> None:
    """Run a bookie until it is killed; perhaps one that serves the socket lane, too."""
    files = MemoryFileSystem()
    storage = await running.open_storage(
        files, InlineDisk(), InlineDisk(), sizes=Sizes(segment_bytes=SEGMENT_BYTES)
    )
    store = await open_store(uri, PATIENT.store)
    found = await cluster.open_cluster(store)
    bookie_id = BookieId(f"bk-{zone}-0")
    location = Location(ZoneName(zone), UpgradeDomain("ud-0"))
    async with asyncio.TaskGroup() as tasks:
        bookie = BookieServer(bookie_id, storage, boot_epoch=1, version="test", tasks=tasks)
        bookie.standing = life.standing_in(found)
        bookie.keys.rule = KeyRule.ON
        tasks.create_task(storage.run())
        name = bookie_names.name_of(bookie_id, found.instance)
        host = Host(bookie)
        server = GrpcServer(host, "127.0.0.1:0", name=name, credentials=None)
        await server.start()
        lane = SocketServer(host, Address("127.0.0.1", 0), name=name, tls=None)
        await lane.start()
        cookie = cookies.Cookie(
            bookie=bookie_id,
            journal_dirs=("/d",),
            ledger_dirs=("/d",),
            instance=found.instance,
            location=location,
        )
        await cookie_store.create(found, cookie)
        port = await front(zone, server.port)
        info = service_info.of_bookie("127.0.0.1", port, location, tls=False)
        if lane_front is not None:
            info = info.with_socket(await lane_front(zone, lane.port))
        registrar = registration.Registrar(found, bookie_id, info, session_timeout_ms=10_000)
        await registrar.register(registration.Mode.WRITABLE)
        up.set()
        try:
            await killed.wait()
        finally:
            await server.stop(0)
            await lane.stop(0)
            await store.close()
            bookie.drain()
            storage.log.close()


@asynccontextmanager
async def cluster_of(
    folder: Path,
    zones: str,
    front: Front = no_front,
    rules: Policy | None = None,
    lanes: str = "",
    lane_front: Front = no_front,
) -> AsyncIterator[tuple[str, dict[str, asyncio.Event]]]:
    """Give the cluster's address, and what kills the bookie of each zone.

    The bookies of the zones in ``lanes`` serve the socket lane, too.
    """
    uri = f"sqlite://{folder / 'meta.db'}"
    store = await open_store(uri, PATIENT.store)
    made = await cluster.initialise(store, INSTANCE)
    await policy_store.write(made, rules or policy(), replaces=0)
    kills = {zone: asyncio.Event() for zone in zones}
    async with asyncio.TaskGroup() as tasks:
        for zone, killed in kills.items():
            up = asyncio.Event()
            of_lane = lane_front if zone in lanes else None
            tasks.create_task(serve(uri, zone, up, killed, front, of_lane))
            await up.wait()
        try:
            yield uri, kills
        finally:
            for killed in kills.values():
                killed.set()
    await store.close()


@pytest.mark.parametrize(
    ("way", "lanes"),
    [
        (BookieWay.GRPC, "abc"),
        (BookieWay.OFFERED, "abc"),
        (BookieWay.OFFERED, "b"),
        (BookieWay.OFFERED, ""),
        (BookieWay.SOCKET, "abc"),
    ],
)
async def test_a_log_is_written_followed_and_recovered_over_sockets(
    tmp_path: Path, way: BookieWay, lanes: str
) -> None:
    config = dataclasses.replace(PATIENT, zone=ZoneName("a"), way=way)
    async with (
        cluster_of(tmp_path, "abc", lanes=lanes) as (uri, kills),
        clients.connect(uri, config) as first,
        clients.connect(uri, config) as second,
    ):
        writer = await first.create(custom={"made-by": b"a test"})
        reader = await second.open(writer.ledger_id, recover=False)
        seen: list[bytes] = []

        async def follow() -> None:
            seen.extend([entry.payload async for entry in reader.follow()])

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(follow())
            expected = [b"entry %d" % number for number in range(2_000)]
            await writer.append_many(expected[:1_000])
            await writer.flush()
            kills["c"].set()
            await writer.append_many(expected[1_000:])
            await writer.flush()
            recovered = await second.open(writer.ledger_id, recover=True)
            assert [entry.payload async for entry in recovered.read_entries()] == expected
        assert seen == expected
        with pytest.raises((errors.Fenced, errors.ClosedByOther)):
            await writer.append_and_wait(b"too late")
        assert recovered.metadata.custom_value("made-by") == b"a test"


async def test_errors_of_an_open_client_come_as_they_are(tmp_path: Path) -> None:
    async with cluster_of(tmp_path, "abc") as (uri, _):
        with pytest.raises(LookupError):
            async with clients.connect(uri, PATIENT):
                raise LookupError
        async with clients.connect(uri, PATIENT) as client:
            with pytest.raises(errors.NoSuchLedger):
                await client.open(LedgerId(1 << 20))


async def test_an_address_without_a_cluster_is_refused_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(errors.ClusterNotReady, match="cluster init"):
        async with clients.connect(f"sqlite://{tmp_path / 'meta.db'}"):
            pass
    with pytest.raises(errors.BadAddress, match="sqlite:///"):
        async with clients.connect("ftp://somewhere"):
            pass


async def test_a_cluster_without_a_policy_is_refused_when_a_ledger_is_created(
    tmp_path: Path,
) -> None:
    uri = f"sqlite://{tmp_path / 'meta.db'}"
    store = await open_store(uri, PATIENT.store)
    await cluster.initialise(store, INSTANCE)
    async with clients.connect(uri, PATIENT) as client:
        with pytest.raises(errors.ClusterNotReady, match="policy set"):
            await client.create()
    await store.close()
