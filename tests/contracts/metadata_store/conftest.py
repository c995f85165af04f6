"""One suite, run against every store: the memory model, SQLite, and a real ZooKeeper."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.stores import Place, asked_for
from zonekeeper.metadata.store.store import MetadataStore


@pytest.fixture(params=["memory", "sqlite", pytest.param("zookeeper", marks=pytest.mark.contracts)])
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    async with asked_for(request, tmp_path) as opened:
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
