"""A real bookie lives through outages of its store, and its log tells the story in order."""

import asyncio
import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.client.patience import PATIENT
from tests.support import zookeeper
from tests.support.bookie_processes import BookieProcesses, bookie_processes, make_cluster
from tests.support.zookeeper import Ensemble
from zonekeeper.client.api import client as clients
from zonekeeper.client.base import errors
from zonekeeper.metadata.cluster import cluster as found_clusters
from zonekeeper.metadata.stores.opening import open_store
from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.placement.policy.rules import PlacementRules, Policy, ZoneWatchRules
from zonekeeper.wire.formats import digests

pytestmark = pytest.mark.processes

BOOKIE: Final = BookieId("bk-a-0")
POLICY: Final = Policy(
    instance="",
    placement=PlacementRules(zones=(ZoneName("a"),), min_zones=0),
    quorums=Quorums(ensemble=1, write=1, ack=1),
    zone_watch=ZoneWatchRules(session_timeout_ms=2_000),
)
LIMIT_S: Final = 120
#: What a bookie may write through an outage of a minute: some lines, and not one a retry.
LINES_MAX: Final = 40
PASSWORD: Final = b"open-sesame-31415"
PAYLOAD: Final = b"the-secret-of-the-entry-27182"


def lines(bookies: BookieProcesses) -> list[dict[str, Any]]:
    """Give the log; each line must be one object."""
    whole, _, _ = bookies.words(BOOKIE).rpartition("\n")
    return [json.loads(line) for line in whole.splitlines()]


async def until(bookies: BookieProcesses, *starts: str) -> None:
    """Wait until the log has an event with each of these beginnings, in this order."""
    async with asyncio.timeout(LIMIT_S):
        while not in_order(lines(bookies), *starts):  # noqa: ASYNC110 a file has no event
            await asyncio.sleep(0.05)


def in_order(found: list[dict[str, Any]], *texts: str) -> bool:
    events = iter(str(line["event"]) for line in found)
    return all(any(text in event for event in events) for text in texts)


@pytest.fixture
def own_zookeeper() -> Iterator[Ensemble]:
    """A server that no other test uses, because this one kills it."""
    with zookeeper.single() as server:
        yield server


async def write_a_ledger(address: str) -> None:
    store = await open_store(address)
    cluster = await found_clusters.open_cluster(store)
    async with clients.over_wire(cluster, PATIENT) as client:
        with contextlib.suppress(errors.WriterStopped):  # the recovery fences it
            async with client.create(password=PASSWORD) as writer:
                await writer.append(PAYLOAD)
                await writer.flush()
                reader = await client.open(writer.ledger_id, password=PASSWORD, recover=True)
                assert reader.last_confirmed == 0
    await store.close()


async def test_s163_a_log_tells_an_outage_of_the_store_in_order(
    tmp_path: Path, own_zookeeper: Ensemble
) -> None:
    (server,) = own_zookeeper.servers
    address = f"zk://{own_zookeeper.addresses}/{tmp_path.name}"
    await make_cluster(address, POLICY)
    flags = {"--log-format": "json", "--log-level": "debug"}
    with bookie_processes(address, tmp_path, {BOOKIE: ZoneName("a")}, flags=flags) as bookies:
        bookies.start()
        await until(bookies, "started: ", "registered as writable", "ready: ")
        begun = len(lines(bookies))

        server.kill()
        await until(bookies, "connection is lost", "not ready: registered")
        server.start()
        own_zookeeper.wait_until_ready()
        await until(bookies, "connection is lost", "not ready", "ready again after")
        outage = lines(bookies)[begun:]

        bookies.stop(BOOKIE)
        told = lines(bookies)

    assert in_order(
        told,
        "started: bookie bk-a-0 at /a/",
        "registered as writable",
        "ready: serving clients at 127.0.0.1:",
        "the connection is lost; connecting again",
        "not ready: registered: ",
        "ready again after",
        "stopping: a signal asked for it",
        "stopped in order after",
    ), told
    shown = [line for line in outage if line["level"] != "debug"]
    assert len(shown) <= LINES_MAX, shown
    assert {line["bookie"] for line in told} == {BOOKIE}
    assert {line["process"] for line in told} == {"bookie"}
    (started,) = [line for line in told if line["event"].startswith("started: ")]
    assert (started["zone"], started["bootEpoch"]) == ("a", 1)
    assert started["data"] == str(bookies.data(BOOKIE))
    (back,) = [line for line in told if line["event"].startswith("ready again")]
    assert back["durationMs"] > 0


async def test_s164_no_password_key_or_entry_stands_in_any_line(
    tmp_path: Path, zookeeper_server: Ensemble
) -> None:
    address = f"zk://{zookeeper_server.addresses}/{tmp_path.name}"
    await make_cluster(address, POLICY)
    flags = {"--log-format": "json", "--log-level": "debug"}
    with bookie_processes(address, tmp_path, {BOOKIE: ZoneName("a")}, flags=flags) as bookies:
        bookies.start()
        await write_a_ledger(address)
        await until(bookies, "is fenced")
        bookies.stop(BOOKIE)
        said = bookies.words(BOOKIE)
    key = digests.master_key(PASSWORD)
    secrets: list[Callable[[], str]] = [PASSWORD.decode, PAYLOAD.decode, key.hex, key.__repr__]
    assert [secret() for secret in secrets if secret() in said] == []
