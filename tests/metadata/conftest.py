"""What the tests of the metadata share: golden bytes, places for stores, a fresh cluster."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from tests.support.stores import MemoryPlace, Place, asked_for
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.store.store import MetadataStore

HERE = Path(__file__).parent
INSTANCE = "d58c3de9-d9c6-429e-be20-474dcad4d089"


def read_hex(path: Path) -> bytes:
    """Read a file of hexadecimal text; lines that start with # are comments."""
    lines = path.read_text().splitlines()
    return bytes.fromhex("".join(line for line in lines if not line.startswith("#")))


@pytest.fixture
def golden() -> Callable[[str], bytes]:
    """Bytes that Apache BookKeeper wrote, by name."""
    return lambda name: read_hex(HERE / "golden" / f"{name}.hex")


@pytest.fixture(
    params=[
        "memory",
        pytest.param("sqlite", marks=pytest.mark.contracts),
        pytest.param("zookeeper", marks=pytest.mark.contracts),
    ]
)
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    async with asked_for(request, tmp_path) as opened:
        yield opened


@pytest.fixture
async def store(place: Place) -> MetadataStore:
    return await place.open()


@pytest.fixture
async def cluster(store: MetadataStore) -> Cluster:
    """A cluster that was just made."""
    return await clusters.initialise(store, INSTANCE)


@pytest.fixture
async def other(cluster: Cluster, place: Place) -> Cluster:
    """The same cluster, seen by another process with a session of its own."""
    return await clusters.open_cluster(await place.open())


@pytest.fixture
async def memory() -> AsyncIterator[MemoryPlace]:
    """A place in memory, for what only the model can do to order."""
    opened = MemoryPlace()
    yield opened
    await opened.close()
