"""What is told of a local cluster: how its bookies serve, and addresses that can be used."""

import asyncio
from pathlib import Path

import pytest

from tests.shell.local_world import LocalWorld
from tests.wire.running.test_listening import needs_ipv6
from zonekeeper.metadata.bookies import cookie_store, registration
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.formats import cookies, service_info
from zonekeeper.metadata.stores.opening import open_store
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.placement.base.locations import Location
from zonekeeper.shell.demo import demo_watch
from zonekeeper.shell.local import local_looking, local_shape
from zonekeeper.shell.local.local_folder import Folder
from zonekeeper.shell.local.local_shape import Shape
from zonekeeper.wire.formats.addresses import Address
from zonekeeper.wire.running import looking
from zonekeeper.wire.running.looking import Page

BOOKIE = BookieId("bk-a-0")
OVER_TLS = (
    "bookies serve over TLS only; programs and commands find their certificates by themselves"
)
NAMED = "bookies serve over TLS only; programs name the files in the folder's tls/client"
PLAIN = "bookies serve plain text: every user of this machine may do everything"


@pytest.mark.parametrize(
    ("tls", "zookeeper", "said"),
    [(True, False, OVER_TLS), (True, True, NAMED), (False, False, PLAIN), (False, True, PLAIN)],
)
def test_the_status_says_how_bookies_serve(
    tmp_path: Path, *, tls: bool, zookeeper: bool, said: str
) -> None:
    """Nothing runs, so all else is unknown."""
    shape = Shape(bookies_per_zone=1, autorecovery=0, tls=tls, zookeeper=zookeeper)
    Folder(tmp_path).make(shape, 1 if zookeeper else None)
    world = LocalWorld(tmp_path)
    shown = world.call("status").stdout
    assert [one for one in (OVER_TLS, NAMED, PLAIN) if one in shown] == [said]
    assert world.data("status")["tls"] is tls


@pytest.mark.parametrize("host", ["::1", "[::1]"])
async def test_an_address_of_ipv6_has_its_brackets(tmp_path: Path, host: str) -> None:
    folder = Folder(tmp_path)
    state = folder.make(Shape(bookies_per_zone=1, autorecovery=0), None)
    place: Location = local_shape.places(state.shape)[BOOKIE]
    store = await open_store(folder.address(state))
    try:
        cluster = await clusters.initialise(store, "6f2ee3ee-52a8-4b5c-8f0e-4a3c8d5f0c11")
        cookie = cookies.Cookie(
            bookie=BOOKIE,
            journal_dirs=("/d",),
            ledger_dirs=("/d",),
            instance=cluster.instance,
            location=place,
        )
        await cookie_store.create(cluster, cookie)
        info = service_info.of_bookie(host, 3181, place, tls=True)
        registrar = registration.Registrar(cluster, BOOKIE, info, session_timeout_ms=10_000)
        await registrar.register(registration.Mode.WRITABLE)
        found = (await local_looking.look(folder, state)).bookies
    finally:
        await store.close()
    assert {one.name: one.address for one in found}[BOOKIE] == "[::1]:3181"


@needs_ipv6
async def test_figures_are_read_at_an_address_of_ipv6() -> None:
    async with looking.served({"/metrics": lambda: Page("figures")}, Address("[::1]", 0)) as port:
        assert await asyncio.to_thread(demo_watch._metrics, f"[::1]:{port}") == "figures"
