"""The blocking client against real bookies over gRPC, and what a fork does to it."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from tests.client.forking import LIMIT_S, in_a_fork, writes_and_reads
from tests.client.patience import PATIENT
from tests.support.bookie_processes import bookie_processes, make_cluster
from zonekeeper.client.api import blocking
from zonekeeper.client.api.loop_thread import ForkedAfterUse
from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.placement.policy.rules import PlacementRules, Policy

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A cluster of three bookie processes; gives the metadata's address."""
    folder = tmp_path_factory.mktemp("cluster")
    uri = f"sqlite://{folder / 'meta.db'}"
    zones = {BookieId(f"bk-{zone}-0"): ZoneName(zone) for zone in "abc"}
    rules = PlacementRules(zones=tuple(zones.values()))
    asyncio.run(make_cluster(uri, Policy(placement=rules)))
    with bookie_processes(uri, folder, zones) as bookies:
        bookies.start()
        yield uri


def is_refused(ask: Callable[[], object]) -> bool:
    try:
        ask()
    except ForkedAfterUse as refused:
        return "fork before connecting" in str(refused)
    return False


def test_what_was_written_through_processes_is_read_back(address: str) -> None:
    assert writes_and_reads(address)


def test_who_is_forked_inside_a_clients_block_is_refused_and_the_parent_is_unharmed(
    address: str,
) -> None:
    with blocking.connect(address, PATIENT) as client:
        writer = client.create()
        writer.append_and_wait(b"one")
        tail = client.open(writer.ledger_id, recover=False).follow()
        assert next(tail).entry_id == 0

        def child() -> bool:
            tail.close()
            return all(
                [
                    is_refused(lambda: writer.append(b"two")),
                    is_refused(client.create),
                    is_refused(lambda: writes_and_reads(address)),
                    in_a_fork(lambda: is_refused(lambda: writes_and_reads(address))),
                ]
            )

        assert in_a_fork(child)
        writer.append_and_wait(b"two")
        writer.close()
        assert client.metadata(writer.ledger_id).last_entry == 1


def test_who_is_forked_behind_a_clients_block_is_refused(address: str) -> None:
    assert writes_and_reads(address)
    assert in_a_fork(lambda: is_refused(lambda: writes_and_reads(address)))
    assert writes_and_reads(address)


def test_who_is_forked_before_a_client_is_connected_connects(address: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.client.forking", address], timeout=LIMIT_S, check=False
    )
    assert done.returncode == 0


def test_a_child_that_leaves_the_block_it_was_forked_in_does_not_hang(address: str) -> None:
    parent = os.getpid()
    with blocking.connect(address, PATIENT) as client:
        child = os.fork()
        if child == 0:
            signal.alarm(LIMIT_S)
        else:
            client.create().close()
    if os.getpid() != parent:
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
