"""What tests of commands on bookies share; a module with a cluster of its own says so itself."""

import logging
from collections.abc import Iterator

import pytest

from tests.shell.ledger_world import ledger_cluster
from tests.support.bookie_processes import BookieProcesses


@pytest.fixture(autouse=True)
def _logging_is_as_before() -> Iterator[None]:
    """Undo what a command sets for its own process: tests behind it read the log."""
    ours = logging.getLogger("zonekeeper")
    before = ours.level
    yield
    ours.setLevel(before)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BookieProcesses]:
    """A cluster of three bookies."""
    with ledger_cluster(tmp_path_factory.mktemp("ledgers")) as bookies:
        yield bookies


@pytest.fixture
def address(cluster: BookieProcesses) -> str:
    return cluster.address
