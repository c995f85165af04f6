"""The cluster that a bookie's process is started in."""

from pathlib import Path

import pytest

from tests.bookie.life.process_world import INSTANCE, World
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.stores.opening import open_store


@pytest.fixture
async def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    store = await open_store(made.metadata)
    await clusters.initialise(store, INSTANCE)
    await store.close()
    return made
