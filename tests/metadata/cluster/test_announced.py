"""Announcements: one node a session, that goes with it, and says where a process's pages are."""

from tests.support import virtual_time
from zonekeeper.metadata.cluster import announced
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.cluster.announced import Announcement
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats import records
from zonekeeper.metadata.store.store import SessionId
from zonekeeper.metadata.stores.memory import MemoryStore
from zonekeeper.metadata.stores.memory_server import MemoryServer
from zonekeeper.metadata.stores.timeouts import Timeouts

ONE = Announcement(kind="autorecovery", name="auto-0", zone="a", http="h:8080")
TWO = Announcement(kind="autorecovery", name="auto-0", zone="", http="h:8081", http_tls=True)
INSTANCE = "6f2ee3ee-52a8-4b5c-8f0e-4a3c8d5f0c11"


async def joined(server: MemoryServer) -> Cluster:
    store = MemoryStore(server, timeouts=Timeouts(session_ms=4_000, request_ms=1_000))
    return await clusters.initialise(store, INSTANCE)


def session(cluster: Cluster) -> SessionId:
    found = cluster.store.session.id
    assert found is not None
    return found


@virtual_time.played
async def test_each_session_has_one_announcement_which_goes_with_it() -> None:
    server = MemoryServer()
    first, second, reader = [await joined(server) for _ in range(3)]
    assert await announced.read_all(reader) == ()
    for _ in range(2):  # an answer may be lost
        await announced.announce(first, ONE, session(first))
    await announced.announce(second, TWO, session(second))
    assert await announced.read_all(reader) == (ONE, TWO)
    await first.store.close()
    assert await announced.read_all(reader) == (TWO,)


@virtual_time.played
async def test_what_cannot_be_read_is_left_out() -> None:
    server = MemoryServer()
    cluster = await joined(server)
    await announced.announce(cluster, ONE, session(cluster))
    directory = cluster.root.beside("processes")
    newer = records.render(
        {"kind": "x", "name": "n", "zone": "", "http": "h:1", "more": [1]}, INSTANCE
    )
    for name, value in (("x", b"{"), ("y", records.render({}, INSTANCE)), ("z", newer)):
        await cluster.store.create(f"{directory}/{name}", value)
    foreign = records.render({"kind": "x", "name": "f", "zone": "", "http": "h:1"}, "other")
    await cluster.store.create(f"{directory}/f", foreign)
    found = await announced.read_all(cluster)
    assert found == (ONE, Announcement(kind="x", name="n", zone="", http="h:1"))
