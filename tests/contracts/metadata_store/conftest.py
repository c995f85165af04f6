"""One suite, run against every store: the memory model, SQLite, and a real ZooKeeper."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.support import zookeeper
from tests.support.stores import MemoryPlace, Place, SqlitePlace, ZooKeeperPlace
from zonekeeper.metadata.store import MetadataStore


@pytest.fixture(scope="session")
def zookeeper_server() -> Iterator[zookeeper.Ensemble]:
    with zookeeper.single() as server:
        yield server


@pytest.fixture(params=["memory", "sqlite", pytest.param("zookeeper", marks=pytest.mark.contracts)])
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    opened: Place
    match request.param:
        case "memory":
            opened = MemoryPlace()
        case "sqlite":
            opened = SqlitePlace(tmp_path)
        case _:
            opened = ZooKeeperPlace(request.getfixturevalue("zookeeper_server").addresses)
    yield opened
    await opened.close()


@pytest.fixture
async def store(place: Place) -> MetadataStore:
    return await place.open()


@pytest.fixture
async def other(place: Place) -> MetadataStore:
    """Another client, with a session of its own."""
    return await place.open()


@pytest.fixture
def root(place: Place) -> str:
    return place.root
