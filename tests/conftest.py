"""What holds for every test of the house."""

from collections.abc import Iterator

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


@pytest.fixture(scope="session")
def zookeeper_server() -> Iterator[zookeeper.Ensemble]:
    """A ZooKeeper server that is started for the first test that needs it."""
    with zookeeper.single() as server:
        yield server
