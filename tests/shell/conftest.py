"""What tests of commands on bookies share; a module with a cluster of its own says so itself."""

from collections.abc import Iterator

import pytest

from tests.shell.ledger_world import ledger_cluster
from tests.support.bookie_processes import BookieProcesses


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BookieProcesses]:
    """A cluster of three bookies."""
    with ledger_cluster(tmp_path_factory.mktemp("ledgers")) as bookies:
        yield bookies


@pytest.fixture
def address(cluster: BookieProcesses) -> str:
    return cluster.address
