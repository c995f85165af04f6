"""The blocking client against real bookies over gRPC, and what a fork does to both clients."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import aclosing
from functools import partial
from multiprocessing import get_context

import pytest

from tests.client.forking import LIMIT_S, in_a_fork, writes_and_reads
from tests.client.patience import PATIENT
from tests.support.bookie_processes import bookie_processes, make_cluster
from zonekeeper.client.api import blocking
from zonekeeper.client.api import client as clients
from zonekeeper.client.base.errors import ForkedAfterUse
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


async def writes_one(address: str) -> int:
    async with clients.connect(address, PATIENT) as client, client.create() as writer:
        return await writer.append_and_wait(b"one")


def writes_one_here(address: str) -> int:
    return asyncio.run(writes_one(address))


def test_a_pool_of_forked_processes_is_told_that_the_asyncio_client_was_used(address: str) -> None:
    """gRPC aborts such a child; the pool then only says that it is broken."""
    assert asyncio.run(writes_one(address)) == 0
    with ProcessPoolExecutor(1, mp_context=get_context("fork")) as pool:
        for _ in range(2):
            with pytest.raises(ForkedAfterUse, match="'spawn' or 'forkserver'") as refused:
                pool.submit(writes_one_here, address).result(LIMIT_S)
            assert refused.value.maybe_applied is False
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        assert pool.submit(writes_one_here, address).result(LIMIT_S) == 0
    assert asyncio.run(writes_one(address)) == 0


async def drained(stream: AsyncGenerator[object, None]) -> None:
    async with aclosing(stream):
        async for _ in stream:
            pass


def test_what_an_asyncio_client_opened_is_refused_to_a_forked_child(address: str) -> None:
    async def run() -> None:
        async with clients.connect(address, PATIENT) as client:
            writer = await client.create()
            await writer.append_and_wait(b"one")
            reader = await client.open(writer.ledger_id, recover=False)
            tail = reader.follow()
            asks: dict[str, Callable[[], Coroutine[None, None, object]]] = {
                "connect": lambda: writes_one(address),
                "create": client.create,
                "open": lambda: client.open(writer.ledger_id, recover=False),
                "metadata": lambda: client.metadata(writer.ledger_id),
                "delete": lambda: client.delete(writer.ledger_id),
                "ledgers": lambda: drained(client.ledgers()),
                "append": lambda: writer.append(b"two"),
                "flush": writer.flush,
                "force": writer.force,
                "tell_confirmed": writer.tell_confirmed,
                "prepare": writer.prepare,
                "close": writer.close,
                "read": lambda: drained(reader.read()),
                "follow": lambda: reader.follow().next(timeout=LIMIT_S),
                "next": tail.next,
                "refresh": reader.refresh,
                "read_last_confirmed": reader.read_last_confirmed,
            }

            def child() -> bool:
                passed = [
                    name for name, ask in asks.items() if not is_refused(partial(in_a_loop, ask))
                ]
                passed += ["append_nowait"] * (not is_refused(lambda: writer.append_nowait(b"")))
                passed += ["halt"] * (not is_refused(writer.halt))
                sys.stderr.write(f"not refused: {passed}\n" if passed else "")
                return not passed

            assert await asyncio.to_thread(in_a_fork, child)
            assert await writer.append_and_wait(b"two") == 1
            await writer.close()
            assert (await client.metadata(writer.ledger_id)).last_entry == 1

    asyncio.run(run())


def in_a_loop(ask: Callable[[], Coroutine[None, None, object]]) -> object:
    return asyncio.run(ask())
