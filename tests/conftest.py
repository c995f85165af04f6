"""What holds for every test of the house."""

import os
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from tests.support import zookeeper

# Deadlines, and the check that inputs come fast enough, are assertions on wall time: on a busy
# machine they fail for nothing. A failure prints what replays it.
hypothesis.settings.register_profile(
    "house",
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
    print_blob=True,
)
hypothesis.settings.load_profile("house")


@pytest.fixture(autouse=True, scope="session")
def _commands_of_tests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Commands note nothing in the user's cache, and wait for a store on a busy machine."""
    kept = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    with pytest.MonkeyPatch.context() as patch:
        # What tests have built or fetched stays where it is.
        patch.setenv("ZONEKEEPER_CACHE", os.environ.get("ZONEKEEPER_CACHE") or kept)
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("ZONEKEEPER_STORE_TIMEOUT", os.environ.get("ZONEKEEPER_STORE_TIMEOUT", "10"))
        yield


@pytest.fixture(scope="session")
def zookeeper_server() -> Iterator[zookeeper.Ensemble]:
    """A ZooKeeper server that is started for the first test that needs it."""
    with zookeeper.single() as server:
        yield server
