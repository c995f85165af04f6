"""Metadata that is set back behind the bookies' back: nothing acknowledged is collected."""

import asyncio
import contextlib
import re
import sqlite3
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Final

import pytest

from tests.client.patience import PATIENT
from tests.support.bookie_processes import BookieProcesses, bookie_processes, make_cluster
from tests.support.http_port import ask, get
from tests.support.ready_processes import SHELL
from tests.support.zookeeper import Ensemble
from zonekeeper.client.api import client as clients
from zonekeeper.client.api.client import Client
from zonekeeper.metadata.cluster import cluster as found_clusters
from zonekeeper.metadata.saving import exporting
from zonekeeper.metadata.store import errors as store_errors
from zonekeeper.metadata.store.store import Create, Delete, Write
from zonekeeper.metadata.stores.opening import open_store
from zonekeeper.placement.base.ids import BookieId, EntryId, LedgerId, ZoneName
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.placement.policy.rules import PlacementRules, Policy
from zonekeeper.wire.contract.service import ListEntriesRequest
from zonekeeper.wire.formats import errors

pytestmark = pytest.mark.processes

ZONES: Final = {BookieId(f"bk-{zone}-0"): ZoneName(zone) for zone in "abc"}
ALL: Final = Quorums(ensemble=3, write=3, ack=3)
POLICY: Final = Policy(
    instance="", placement=PlacementRules(zones=tuple(ZONES.values())), quorums=ALL
)
INTERVAL_MS: Final = 300
#: More rounds than it takes to collect what is deleted.
ROUNDS: Final = 6
LIMIT_S: Final = 180

SetBack = Callable[[], Awaitable[None]]


async def test_s68_what_an_older_store_does_not_know_is_kept_until_a_person_gives_it_up(
    tmp_path: Path,
) -> None:
    file = tmp_path / "meta.db"
    address = f"sqlite://{file}"
    await make_cluster(address, POLICY)
    await story(address, tmp_path, lambda: copied_file(file, tmp_path / "older.db"))


async def test_s68_a_zookeeper_that_was_set_back_by_hand_loses_nothing(
    tmp_path: Path, zookeeper_server: Ensemble
) -> None:
    address = f"zk://{zookeeper_server.addresses}/{tmp_path.name}"
    await make_cluster(address, POLICY)
    await story(address, tmp_path, lambda: copied_nodes(address))


async def story(address: str, folder: Path, copied: Callable[[], Awaitable[SetBack]]) -> None:
    with bookie_processes(
        address, folder, ZONES, flags={"--gc-interval": f"{INTERVAL_MS}ms"}
    ) as bookies:
        await asyncio.to_thread(bookies.start)
        async with connected(address) as client:
            known = await written(client)
            set_back = await copied()
            younger = await written(client)
        await rounds(bookies)
        await set_back()
        await rounds(bookies)

        assert await forgotten(bookies) == 0
        async with connected(address) as client:
            for bookie in ZONES:
                assert await holds(client, bookie, younger), f"{bookie} has lost {younger}"
            shown = shell(address, "metadata", "restored")
            assert "marked as restored" in shown
            assert "bookies have evidence" in shown
            await client.delete(known)
            await rounds(bookies)
            assert await forgotten(bookies) == 0, "a deletion is no reason while the mark stands"
            new = await written(client)
            assert new >> 32 > 0, "an id that a lost ledger may have"

            shell(address, "metadata", "restored", "--clear", "given up", "--yes")
            await until(bookies, lambda forgot: forgot >= 2 * len(ZONES))
            assert shell(address, "metadata", "restored").startswith("not marked")
            for bookie in ZONES:
                assert not await holds(client, bookie, known)
                assert await holds(client, bookie, new)


# ── the store ──


async def copied_file(file: Path, older: Path) -> SetBack:
    """Copy a SQLite store; what is given sets the store back to the copy, while it is in use."""
    with contextlib.closing(sqlite3.connect(file)) as now:
        now.execute("VACUUM INTO ?", (str(older),))

    async def set_back() -> None:
        with contextlib.closing(sqlite3.connect(file, isolation_level=None, timeout=60)) as now:
            now.execute("ATTACH ? AS older", (str(older),))
            now.execute("BEGIN IMMEDIATE")
            for table in ("node", "session", "counter"):
                now.execute(f"DELETE FROM main.{table}")
                now.execute(f"INSERT INTO main.{table} SELECT * FROM older.{table}")
            now.execute("COMMIT")

    return set_back


async def copied_nodes(address: str) -> SetBack:
    """Copy the nodes of a ZooKeeper root; what is given puts them in the place of the present.

    The sessions live on, and so do their registrations and the nodes above them.
    """
    store = await open_store(address)
    cluster = await found_clusters.open_cluster(store)
    older = [node async for node in exporting.nodes(cluster)]
    await store.close()

    async def set_back() -> None:
        store = await open_store(address)

        stays = set[str]()

        async def removals(path: str) -> list[Write]:
            """Give the deletions of a node and all below it; what sessions hold stays."""
            below = await store.children(path, sync=True) or ()
            found = [one for name in below for one in await removals(f"{path}/{name}")]
            node = await store.get(path, sync=True)
            held = node is not None and node.owner is not None
            if held or any(f"{path}/{name}" in stays for name in below):
                stays.add(path)
                return found
            return [*found, Delete(path=path, version=None)]

        while True:
            stays.clear()
            tops = (cluster.root.path, cluster.root.own)
            gone = [one for top in tops for one in await removals(top)]
            again = (cluster.root.path + node.suffix for node in older)
            back = [
                Create(path=path, value=node.value)
                for path, node in zip(again, older, strict=True)
                if path not in stays
            ]
            try:
                await store.commit([*gone, *back])  # at one moment, as by a server's old disk
            except store_errors.StoreError as error:
                if error.maybe_applied:
                    raise
            else:
                break
        await store.close()

    return set_back


# ── the cluster ──


@contextlib.asynccontextmanager
async def connected(address: str) -> AsyncIterator[Client]:
    async with asyncio.timeout(LIMIT_S), clients.connect(address, PATIENT) as client:
        yield client


async def written(client: Client) -> LedgerId:
    """Write a ledger that is acknowledged by all bookies, and close it."""
    writer = await client.create(quorums=ALL)
    await writer.append_and_wait(b"acknowledged")
    await writer.close()
    return writer.ledger_id


async def holds(client: Client, bookie: BookieId, ledger_id: LedgerId) -> bool:
    link = await client.bookies.pool.link(bookie)
    request = ListEntriesRequest(ledger_id=ledger_id, first_entry_id=EntryId(0), ranges_max=10)
    try:
        return (await link.list_entries(request)).ranges == ((0, 0),)
    except errors.NoSuchLedger:
        return False


def shell(address: str, *words: str) -> str:
    command = [*SHELL, *words, "--metadata", address]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


async def number(bookies: BookieProcesses, bookie: BookieId, name: str) -> int:
    port = re.search(r"http 127\.0\.0\.1:(\d+)", bookies.said(bookie))
    assert port is not None
    _, page = await ask(int(port[1]), get("/metrics"))
    found = re.search(rf"^{name} (\d+)$", page, re.MULTILINE)
    assert found is not None, page
    return int(found[1])


async def forgotten(bookies: BookieProcesses) -> int:
    name = "zonekeeper_bookie_gc_forgotten_total"
    return sum([await number(bookies, bookie, name) for bookie in ZONES])


async def rounds(bookies: BookieProcesses) -> None:
    """Wait until each bookie has looked for garbage often enough to collect what it wants to."""
    name = "zonekeeper_bookie_gc_rounds_total"
    begun = {bookie: await number(bookies, bookie, name) for bookie in ZONES}
    async with asyncio.timeout(LIMIT_S):
        for bookie in ZONES:
            seen = 0
            while seen < begun[bookie] + ROUNDS:
                seen = await number(bookies, bookie, name)


async def until(bookies: BookieProcesses, enough: Callable[[int], bool]) -> None:
    async with asyncio.timeout(LIMIT_S):
        seen = 0
        while not enough(seen):
            seen = await forgotten(bookies)
