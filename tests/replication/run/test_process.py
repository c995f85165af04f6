"""An autorecovery process: what it shows, and how it goes down."""

import asyncio
import contextlib
import json
import logging
import os
import random
import re
import signal
import subprocess
import sys
import uuid
from collections.abc import Awaitable, Callable, Iterator
from http import HTTPStatus
from pathlib import Path

import pytest

from tests.shell.live_world import LiveWorld
from tests.support import zookeeper
from tests.support.exposed import unexplained
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.cluster import elections, policy_store
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.cluster.evidence import EvidenceKind, StoreEvidence
from zonekeeper.metadata.ledgers import set_back
from zonekeeper.metadata.stores.opening import open_store
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.placement.base.settings import BadSettingError
from zonekeeper.replication.run import process
from zonekeeper.replication.run.settings import AutorecoverySettings, parse
from zonekeeper.wire.running.running import RefusedStartError, StoppedError

TEXTS = {"metadata": "sqlite:///x", "name": "auto-1", "http": "127.0.0.1:0", "workers": "2"}


def parsed(**changed: str) -> AutorecoverySettings:
    return parse({**TEXTS, **{name.replace("_", "-"): text for name, text in changed.items()}}, {})


def settings(world: LiveWorld, **changed: str) -> AutorecoverySettings:
    return parsed(metadata=world.address, **changed)


async def ask(port: int, request: str) -> tuple[int, str]:
    """Send a request; give status and body."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request.encode())
    writer.write_eof()
    raw = (await reader.read()).decode()
    writer.close()
    head, _, body = raw.partition("\r\n\r\n")
    return int(head.split()[1]), body


async def get(port: int, path: str) -> tuple[int, str]:
    return await ask(port, f"GET {path} HTTP/1.1\r\n\r\n")


async def lived(world: LiveWorld, look: Callable[[int], Awaitable[None]], **changed: str) -> None:
    """Run a process until it was looked at, then send it SIGTERM."""
    port: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def announce(line: str) -> None:
        found = re.search(r"http 127\.0\.0\.1:(\d+)$", line)
        assert found is not None, line
        port.set_result(int(found[1]))

    async with asyncio.TaskGroup() as tasks:
        mine = settings(world, **changed)
        running = tasks.create_task(process.run(mine, random.Random(1), announce))
        await look(await port)
        os.kill(os.getpid(), signal.SIGTERM)
        await running


@pytest.fixture
def world(tmp_path: Path) -> LiveWorld:
    return LiveWorld(tmp_path)


def test_it_shows_its_numbers_and_state_and_gives_its_votes_back(world: LiveWorld) -> None:
    world.build(lost="a")

    async def look(port: int) -> None:
        assert await get(port, "/healthz") == (200, "alive\n")
        assert await get(port, "/readyz") == (200, "ready\n")
        code, text = await get(port, "/metrics")
        assert code == HTTPStatus.OK
        assert unexplained(text) == []
        assert re.search(r"^process_resident_memory_bytes \d{7}", text, re.M)
        assert "zonekeeper_autorecovery_ready 1" in text
        assert 'zonekeeper_zone_state{state="down",zone="a"} 1' in text
        assert 'zonekeeper_alert{alert="zoneDown",severity="page",zone="a"} 1' in text
        assert 'zonekeeper_zone_available_bookies{zone="b"} 2' in text
        assert 'zonekeeper_repair_held{by="zoneNotWatched",zone="b"} 1' in text
        assert "zonekeeper_repair_under_way 0" in text
        code, text = await get(port, "/state?pretty")
        state = json.loads(text)
        assert state["name"] == "auto-1"
        assert state["records"]["a"]["permission"] == "held"
        assert state["missing"] == {"bk-a-0": "/a/ud-0", "bk-a-1": "/a/ud-1"}

    asyncio.run(lived(world, look))

    async def voters(cluster: Cluster) -> list[BookieId | None]:
        paths = (elections.auditor_votes(cluster), elections.zone_watch_votes(cluster))
        return [await elections.leader(cluster.store, path) for path in paths]

    assert world.on(voters) == [None, None]


def test_it_alerts_of_metadata_that_was_set_back(world: LiveWorld) -> None:
    world.build()
    proofs = (StoreEvidence(bookie=BookieId("bk-a-0"), kind=EvidenceKind.IDS, known=50, found=9),)
    world.on(lambda cluster: set_back.mark(cluster, proofs, now_ms=1))
    alert = 'zonekeeper_alert{alert="restored",severity="page",zone=""} 1'

    async def look(port: int) -> None:
        text = ""
        async with asyncio.timeout(60):
            while alert not in text:
                _, text = await get(port, "/metrics")
        assert "collectionsWaiting" not in text
        state = json.loads((await get(port, "/state"))[1])
        assert "bk-a-0 knew of ledger ids below 50" in state["alerts"]["restored"]

    asyncio.run(lived(world, look))


def test_without_a_cluster_it_stops_and_says_so(world: LiveWorld) -> None:
    """Nothing is made where nothing was: a slip in an address leaves no empty file."""
    with pytest.raises(RefusedStartError, match="there is no such file"):
        asyncio.run(process.run(settings(world), random.Random(1), print))
    with pytest.raises(RefusedStartError, match="there is no cluster at /ledgers in memory"):
        asyncio.run(process.run(parsed(metadata="memory:"), random.Random(1), print))


@pytest.mark.contracts
def test_where_its_sessions_would_outlast_the_policys_it_stops_and_says_so() -> None:
    async def main(address: str) -> None:
        store = await open_store(address)
        await clusters.initialise(store, str(uuid.UUID(int=7)))
        await store.close()
        wanted = parsed(metadata=address)
        with pytest.raises(StoppedError, match="grants no session under 15s, and the policy's"):
            await process.run(wanted, random.Random(1), print)

    with zookeeper.single(session_min_ms=15_000) as server:
        asyncio.run(main(f"zk://{server.addresses}/ledgers"))


def test_until_there_is_a_policy_it_is_alive_and_not_ready(world: LiveWorld) -> None:
    world.build(watched=False)
    world.on(_without_policy)

    async def main() -> None:
        ready: list[str] = []
        with _waiting() as waiting:
            async with asyncio.TaskGroup() as tasks:
                running = tasks.create_task(
                    process.run(settings(world), random.Random(1), ready.append)
                )
                await waiting.wait()
                os.kill(os.getpid(), signal.SIGTERM)
                await running
        assert not ready

    asyncio.run(main())


@contextlib.contextmanager
def _waiting() -> Iterator[asyncio.Event]:
    """Give what is set once the view has said that it waits for a policy."""
    said = asyncio.Event()

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "no policy" in record.getMessage():
                said.set()

    logger, listener = logging.getLogger("zonekeeper.replication.view.view"), Listener()
    logger.addHandler(listener)
    try:
        yield said
    finally:
        logger.removeHandler(listener)


async def _without_policy(cluster: Cluster) -> None:
    assert await policy_store.read(cluster) is not None
    await cluster.store.delete(cluster.root.beside("policy"), version=None)
    assert (await clusters.open_cluster(cluster.store)).instance == cluster.instance


_STUCK = """
import asyncio, logging, random, sys
from zonekeeper.replication.run import process, settings
from zonekeeper.replication.run.autorecovery import Autorecovery

async def stuck(self):
    while True:
        try:
            await self.view.follow()
        except asyncio.CancelledError:
            logging.warning("not now")

Autorecovery.run = stuck
process.STOP_LIMIT_S = 3.0
logging.basicConfig()
checked = settings.parse(dict(
    metadata=sys.argv[1], name="auto-1", http="127.0.0.1:0", workers="1"), {})
asyncio.run(process.run(checked, random.Random(1), lambda line: print(line, flush=True)))
"""


def test_what_does_not_stop_in_order_is_ended_at_the_limit(world: LiveWorld) -> None:
    world.build()
    with subprocess.Popen(
        [sys.executable, "-c", _STUCK, world.address],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline().startswith("ready: ")
        child.terminate()
        _, words = child.communicate(timeout=60)
    assert child.returncode == 1
    assert "not now" in words
    assert "not stopped in order within 3 s" in words


# ── settings ──


def test_settings_become_values() -> None:
    found = parsed(zone="a", http="[::1]:8080")
    assert (found.zone, found.http.bare_host, found.http.port) == ("a", "::1", 8080)
    assert found.tls is None
    tls = parsed(tls_authority="ca", tls_certificate="c", tls_key="k").tls
    assert tls is not None
    assert tls.authority == Path("ca")


@pytest.mark.parametrize("http", ["8080", ":8080", "::1:8080", "h:x", "h:65536"])
def test_an_address_that_is_none_is_refused(http: str) -> None:
    with pytest.raises(BadSettingError, match="--http: "):
        parsed(http=http)
