"""What the demonstration says of plain text: only what was tried, and an answer is never passed by.

The bookies serve both transports on real sockets, with the certificates of a local cluster or
without, and each of them holds callers to their roles.
"""

import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from rich.console import Console

from tests.client.lab import policy
from tests.wire.link.reference_bookie import Disk, ReferenceBookie
from zonekeeper.client.api.client import connect
from zonekeeper.client.base import beside_store
from zonekeeper.metadata.bookies import cookie_store, registration
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.cluster import policy_store
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats import cookies, service_info
from zonekeeper.metadata.stores.opening import open_store
from zonekeeper.placement.base.ids import BookieId, UpgradeDomain
from zonekeeper.placement.base.locations import Location
from zonekeeper.shell.demo import demo, demo_strangers
from zonekeeper.shell.demo.demo_screen import LineScreen
from zonekeeper.shell.demo.demo_story import DemoPace
from zonekeeper.shell.demo.demo_strangers import PlainTries
from zonekeeper.shell.local import local_certificates, local_looking, local_shape
from zonekeeper.shell.local.local_cluster import LocalCluster
from zonekeeper.shell.local.local_folder import Folder, LocalError
from zonekeeper.shell.local.local_shape import Shape
from zonekeeper.shell.reaching import reaching
from zonekeeper.wire.formats import bookie_names
from zonekeeper.wire.formats.addresses import Address
from zonekeeper.wire.grpc import tls
from zonekeeper.wire.grpc.grpc_server import GrpcServer
from zonekeeper.wire.grpc.tls import TlsFiles
from zonekeeper.wire.host.access import Access
from zonekeeper.wire.host.serving import Host
from zonekeeper.wire.identity.callers import Enforcement
from zonekeeper.wire.socket.socket_server import SocketServer
from zonekeeper.wire.socket.socket_tls import SocketTls

INSTANCE = "6f2ee3ee-52a8-4b5c-8f0e-4a3c8d5f0c11"
SHAPE = Shape(bookies_per_zone=1, autorecovery=0)
BOOKIES = tuple(local_shape.places(SHAPE))


@asynccontextmanager
async def served(
    cluster: Cluster, bookie: BookieId, ways: list[TlsFiles | None]
) -> AsyncIterator[None]:
    """Serve a bookie: over gRPC with the first of the files, over the lane with the second."""
    of_grpc, of_lane = ways
    access = Access(Enforcement.ON, instance=INSTANCE)
    host = Host(ReferenceBookie(bookie, Disk()), access=access)
    name = bookie_names.name_of(bookie, INSTANCE)
    credentials = None if of_grpc is None else tls.server_credentials(of_grpc)
    secrets = None if of_lane is None else SocketTls(of_lane, serving=True)
    server = GrpcServer(host, "127.0.0.1:0", name=name, credentials=credentials)
    lane = SocketServer(host, Address("127.0.0.1", 0), name=name, tls=secrets)
    await server.start()
    await lane.start()
    zone = local_shape.places(SHAPE)[bookie].zone
    location = Location(zone, UpgradeDomain("ud-0"))
    cookie = cookies.Cookie(
        bookie=bookie,
        journal_dirs=("/d",),
        ledger_dirs=("/d",),
        instance=INSTANCE,
        location=location,
    )
    await cookie_store.create(cluster, cookie)
    info = service_info.of_bookie("127.0.0.1", server.port, location, tls=of_grpc is not None)
    registrar = registration.Registrar(
        cluster, bookie, info.with_socket(lane.port), session_timeout_ms=10_000
    )
    await registrar.register(registration.Mode.WRITABLE)
    try:
        yield
    finally:
        await server.stop(0)
        await lane.stop(0)


@asynccontextmanager
async def serving(
    folder: Path, spoilt: Mapping[BookieId, tuple[bool, bool]], gone: BookieId | None = None
) -> AsyncIterator[Cluster]:
    """Serve three bookies; a spoilt one has TLS on gRPC, on its lane, or on neither."""
    files = folder / beside_store.FOLDER
    names = local_certificates.wanted(SHAPE, INSTANCE)
    local_certificates.provide(files, names, wall_ms=reaching.wall_ms())
    store = await open_store(f"sqlite://{folder}/meta.db")
    try:
        cluster = await clusters.initialise(store, INSTANCE)
        await policy_store.write(cluster, policy(), replaces=0)
        async with AsyncExitStack() as stack:
            for bookie in BOOKIES:
                own = beside_store.files_in(files / bookie)
                ways = [own if has_tls else None for has_tls in spoilt.get(bookie, (True, True))]
                opened = await stack.enter_async_context(AsyncExitStack())
                await opened.enter_async_context(served(cluster, bookie, ways))
                if bookie == gone:
                    await opened.aclose()
            yield cluster
    finally:
        await store.close()


async def tried(
    folder: Path, spoilt: Mapping[BookieId, tuple[bool, bool]], gone: BookieId | None = None
) -> PlainTries:
    """Try plain text at these bookies."""
    async with serving(folder, spoilt, gone) as cluster:
        mine = beside_store.files_in(folder / beside_store.FOLDER / beside_store.CLIENT)
        return await demo_strangers.tries(cluster, BOOKIES, mine)


async def test_each_bookie_is_tried_both_ways_and_none_takes_plain_text(tmp_path: Path) -> None:
    assert await tried(tmp_path, {}) == PlainTries(ways=6, tried=6, accepted=0)


async def test_a_bookie_that_is_gone_counts_as_no_refusal(tmp_path: Path) -> None:
    found = await tried(tmp_path, {}, gone=BookieId("bk-b-0"))
    assert found == PlainTries(ways=6, tried=4, accepted=0)


@pytest.mark.parametrize(
    ("spoilt", "accepted"),
    [
        ({BookieId("bk-a-0"): (False, True)}, 1),
        ({BookieId("bk-a-0"): (True, False)}, 1),
        ({BookieId("bk-a-0"): (False, False), BookieId("bk-c-0"): (True, False)}, 3),
    ],
    ids=["grpc", "lane", "several"],
)
async def test_an_answer_in_plain_text_is_an_accepted_connection_even_if_it_is_a_refusal(
    tmp_path: Path, spoilt: Mapping[BookieId, tuple[bool, bool]], accepted: int
) -> None:
    """A caller without a role is refused everything, over a connection that was accepted."""
    assert await tried(tmp_path, spoilt) == PlainTries(ways=6, tried=6, accepted=accepted)


@pytest.mark.parametrize("spoilt", BOOKIES)
async def test_the_demonstration_tries_all_of_its_bookies_and_says_so(
    tmp_path: Path, spoilt: BookieId, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Folder(tmp_path)
    state = folder.make(SHAPE, None)
    screen = LineScreen(Console(soft_wrap=True), lambda: 0.0)
    async with (
        serving(tmp_path, {spoilt: (True, False)}),
        connect(folder.address(state)) as client,
    ):
        status = await local_looking.look(folder, state)
        play = demo._Play(LocalCluster(tmp_path), screen, DemoPace(), tls=True)
        assert await play._tried(client, status) == PlainTries(ways=6, tried=6, accepted=1)
    said = "6 of 6 ways to 3 bookies were tried in plain text, and 1 accepted"
    assert said in capsys.readouterr().out


async def test_without_certificates_the_demonstration_ends(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    state = folder.make(SHAPE, None)
    screen = LineScreen(Console(), lambda: 0.0)
    async with serving(tmp_path, {}), connect(folder.address(state)) as client:
        status = await local_looking.look(folder, state)
        shutil.rmtree(folder.certificates)
        play = demo._Play(LocalCluster(tmp_path), screen, DemoPace(), tls=True)
        with pytest.raises(LocalError, match=r"certificates .* are gone"):
            await play._tried(client, status)
