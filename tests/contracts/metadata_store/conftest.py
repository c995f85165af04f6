"""One suite, run against every store: the memory model, SQLite, and a real ZooKeeper."""

from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.support import zookeeper
from tests.support.stores import Place, place_of
from zonekeeper.metadata.store.store import MetadataStore


@pytest.fixture(scope="session")
def zookeeper_server() -> Iterator[zookeeper.Ensemble]:
    with zookeeper.single() as server:
        yield server


@pytest.fixture(params=["memory", "sqlite", pytest.param("zookeeper", marks=pytest.mark.contracts)])
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    server = partial(request.getfixturevalue, "zookeeper_server")
    async with place_of(request.param, tmp_path, server) as opened:
        yield opened


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
