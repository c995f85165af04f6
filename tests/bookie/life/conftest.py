"""The cluster that a bookie's process is started in: its metadata has the one ledger."""

from pathlib import Path

import pytest

from tests.bookie.life.process_world import INSTANCE, World
from tests.bookie.running import LEDGER
from tests.bookie.serving.collecting_world import NEW
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.ledgers import ledgers
from zonekeeper.metadata.stores.opening import open_store


@pytest.fixture
async def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    store = await open_store(made.metadata)
    cluster = await clusters.initialise(store, INSTANCE)
    # No peer's word makes a ledger: the bookie reads that there is one, and its key.
    await ledgers.create(cluster, NEW, ledger_id=LEDGER)
    await store.close()
    return made
