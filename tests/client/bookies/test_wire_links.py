"""Over what a client reaches a bookie: what the bookie registers, and what the client is set to."""

import asyncio
import logging
import random
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import pytest

from zonekeeper.client.base.config import WAY_VARIABLE, ClientConfig, own_way
from zonekeeper.client.base.counters import ClientCounters
from zonekeeper.client.base.ways import BookieWay
from zonekeeper.client.bookies import wire_links
from zonekeeper.client.bookies.wire_links import WireLinks
from zonekeeper.metadata.bookies import registration
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats import service_info
from zonekeeper.metadata.formats.service_info import ServiceInfo
from zonekeeper.metadata.stores.opening import open_store
from zonekeeper.placement.base.ids import BookieId, UpgradeDomain, ZoneName
from zonekeeper.placement.base.locations import Location
from zonekeeper.wire.contract.links import LinkSettings

BOOKIE: Final = BookieId("bk-a-0")
WHERE: Final = Location(ZoneName("a"), UpgradeDomain("ud-0"))
PLAIN: Final = service_info.of_bookie("10.0.0.7", 3181, WHERE, tls=False, http_port=8080)
WITH_LANE: Final = PLAIN.with_socket(3182)
V6: Final = service_info.of_bookie("fd00::7", 3181, WHERE, tls=False).with_socket(3182)


@asynccontextmanager
async def registered(info: ServiceInfo) -> AsyncIterator[Cluster]:
    store = await open_store("memory:")
    try:
        cluster = await clusters.initialise(store, str(uuid.UUID(int=1)))
        registrar = registration.Registrar(cluster, BOOKIE, info, session_timeout_ms=1_000)
        await registrar.register(registration.Mode.WRITABLE)
        yield cluster
    finally:
        await store.close()


@asynccontextmanager
async def links_over(cluster: Cluster, way: BookieWay) -> AsyncIterator[WireLinks]:
    async with asyncio.TaskGroup() as tasks:
        yield WireLinks(
            cluster,
            way=way,
            encryption=wire_links.secrets(None),
            settings=LinkSettings(),
            counters=ClientCounters(),
            tasks=tasks,
            chance=random.Random(1),
        )


@pytest.mark.parametrize(
    ("info", "way", "address"),
    [
        (PLAIN, BookieWay.GRPC, "10.0.0.7:3181"),
        (PLAIN, BookieWay.OFFERED, "offered 10.0.0.7:3181"),
        (PLAIN, BookieWay.SOCKET, None),
        (WITH_LANE, BookieWay.GRPC, "10.0.0.7:3181"),
        (WITH_LANE, BookieWay.OFFERED, "offered 10.0.0.7:3181"),
        (WITH_LANE, BookieWay.SOCKET, "socket 10.0.0.7:3182"),
        (V6, BookieWay.GRPC, "[fd00::7]:3181"),
        (V6, BookieWay.SOCKET, "socket [fd00::7]:3182"),
    ],
)
async def test_the_setting_and_the_registration_say_where_a_bookie_is_reached(
    info: ServiceInfo, way: BookieWay, address: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    async with registered(info) as cluster, links_over(cluster, way) as links:
        with caplog.at_level(logging.WARNING):
            assert await links.find(BOOKIE) == address
        assert (address is None) == ("--listen-socket" in caplog.text)
        if address is not None:
            link = links.make(BOOKIE, address)
            assert link.bookie_id == BOOKIE
            await link.close()


def test_an_older_client_reads_the_registration_of_a_bookie_with_a_lane() -> None:
    """All that it looks at is the endpoint ``bookie``, the pages and the properties."""
    read = service_info.parse(service_info.render(WITH_LANE))
    assert read.bookie == PLAIN.bookie
    assert read.http == PLAIN.http
    assert read.properties == PLAIN.properties
    assert read.endpoints[:2] == PLAIN.endpoints


def test_a_lane_has_the_encryption_of_the_bookies_endpoint() -> None:
    secured = service_info.of_bookie("h", 1, WHERE, tls=True).with_socket(2)
    assert secured.socket is not None
    assert secured.socket.extensions == (service_info.TLS,)


@pytest.mark.parametrize(
    ("set_to", "variable", "way"),
    [
        (None, None, BookieWay.OFFERED),
        (None, "", BookieWay.OFFERED),
        (None, "grpc", BookieWay.GRPC),
        (None, "offered", BookieWay.OFFERED),
        (None, "socket", BookieWay.SOCKET),
        (BookieWay.GRPC, "socket", BookieWay.GRPC),
        (BookieWay.SOCKET, None, BookieWay.SOCKET),
    ],
)
def test_the_way_is_the_setting_else_the_variable_else_what_is_offered(
    monkeypatch: pytest.MonkeyPatch, set_to: BookieWay | None, variable: str | None, way: BookieWay
) -> None:
    monkeypatch.delenv(WAY_VARIABLE, raising=False)
    if variable is not None:
        monkeypatch.setenv(WAY_VARIABLE, variable)
    assert own_way(ClientConfig(way=set_to)) is way


def test_a_variable_that_names_no_way_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(WAY_VARIABLE, "pigeon")
    with pytest.raises(ValueError, match="ZONEKEEPER_WAY='pigeon': must be one of grpc, socket"):
        own_way(ClientConfig())
