"""A cluster that lost its metadata store: hints, a new root, recovery, and every entry again."""

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.client import lab as labs
from tests.client.lab import Lab
from tests.support.bookie_processes import BookieProcesses, make_cluster
from zonekeeper.bookie.commands import bookie as bookie_commands
from zonekeeper.bookie.disk.files import FileSystem
from zonekeeper.bookie.formats.index import Index, MemoryOrdered
from zonekeeper.bookie.segments import checkpoint as checkpoints
from zonekeeper.bookie.segments import log_ends
from zonekeeper.bookie.storage import storage
from zonekeeper.bookie.tools import contents, hints
from zonekeeper.client.api.client import Client, connect
from zonekeeper.client.api.writer import Writer
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.cluster import policy_store, restored
from zonekeeper.metadata.commands import saving
from zonekeeper.metadata.formats.cookies import Cookie
from zonekeeper.metadata.formats.ledger_metadata import LedgerMetadata
from zonekeeper.metadata.ledgers import ledgers
from zonekeeper.metadata.saving import rebuilding, rebuilding_writing
from zonekeeper.metadata.saving.rebuilding import RebuildVerdict, Rebuilt
from zonekeeper.metadata.saving.rebuilding_writing import HintsFile
from zonekeeper.metadata.stores.memory_server import MemoryServer
from zonekeeper.metadata.stores.opening import open_store
from zonekeeper.placement.base.ids import BookieId, LedgerId, ZoneName
from zonekeeper.placement.base.quorums import Quorums

PASSWORD = b"secret"
RULES = labs.policy(Quorums(ensemble=3, write=3, ack=2, ack_zones=2))


def payloads(number: int) -> list[bytes]:
    return [b"%d/%d" % (number, entry) for entry in range(60)]


async def write_all(writer: Writer, data: list[bytes]) -> None:
    for each in data:
        await writer.append(each)
    await writer.flush()


async def read_all(client: Client, ledger_id: LedgerId, password: bytes) -> list[bytes]:
    reader = await client.open(ledger_id, password=password, recover=True)
    return [bytes(entry.payload) async for entry in reader.read_entries()]


def hints_of(bookie: BookieId, files: FileSystem, instance: str) -> HintsFile:
    index = Index(MemoryOrdered())
    last = checkpoints.load(files)
    storage.settle(index, last, [files])
    cookie = Cookie(bookie=bookie, journal_dirs=("/d",), ledger_dirs=("/d",), instance=instance)
    lines = list(hints.lines(cookie, contents.load(last, log_ends.load(files, last), files, index)))
    return HintsFile(name=str(bookie), lines=lambda: lines)


async def rebuild(lab: Lab) -> dict[LedgerId, Rebuilt]:
    """Forget all metadata, make it again of what the bookies' disks say, and start them."""
    given = rebuilding_writing.check(
        [hints_of(each.id, each.files, labs.INSTANCE) for each in lab.machines.values()]
    )
    lab.server = MemoryServer()
    store = await lab.store()
    found = list(
        rebuilding_writing.rebuilt(given, known=(), passwords=rebuilding.keys_of([b"", PASSWORD]))
    )
    cluster = await rebuilding_writing.prepare(store, given, now_ms=1)
    async for written in rebuilding_writing.write(cluster, found):
        assert written.created
    assert await restored.read(cluster) is not None
    await policy_store.write(cluster, RULES, replaces=0)
    for machine in lab.machines.values():
        await machine.start()
    return {each.ledger_id: each for each in found}


@labs.played(rules=RULES)
async def test_every_entry_is_read_again_after_the_metadata_is_gone(lab: Lab) -> None:
    wanted: dict[LedgerId, tuple[bytes, list[bytes]]] = {}
    before: dict[LedgerId, LedgerMetadata] = {}
    async with lab.client() as client:
        for number, password in enumerate((b"", PASSWORD, PASSWORD)):
            writer = await client.create(password=password)
            data = payloads(number)
            await write_all(writer, data[:30])
            if number == 1:
                # Its place in the ensemble goes to another bookie, which alone is told of it.
                stored = await client.metadata(writer.ledger_id)
                await lab.machines[stored.last_fragment.ensemble[0]].crash()
            await write_all(writer, data[30:])
            if number == 2:
                await writer.close()
            wanted[writer.ledger_id] = password, data
            before[writer.ledger_id] = await client.metadata(writer.ledger_id)
    assert len(before[sorted(before)[1]].fragments) == 2
    for machine in lab.machines.values():
        if machine.door is not None:
            await machine.crash()

    found = await rebuild(lab)

    assert {each.verdict for each in found.values()} == {RebuildVerdict.SURE}
    for ledger_id, old in before.items():
        metadata = found[ledger_id].metadata
        assert metadata is not None
        assert metadata.fragments == old.fragments
        assert (metadata.password, metadata.digest) == (old.password, old.digest)
    async with lab.client("later") as client:
        for ledger_id, (password, data) in wanted.items():
            assert await read_all(client, ledger_id, password) == data
            assert (await client.metadata(ledger_id)).is_closed
        # New ledgers get ids that none of the lost ones can have had.
        writer = await client.create()
        assert writer.ledger_id >> 32 > 0


# ── with real processes, through the commands ──


def call_bookie(*words: str) -> Result:
    return CliRunner().invoke(bookie_commands.bookie, words, catch_exceptions=False)


@pytest.mark.processes
async def test_real_bookies_get_a_lost_store_back_by_the_commands(tmp_path: Path) -> None:
    address = f"sqlite://{tmp_path}/meta.db"
    names = [BookieId(f"bk-{zone}-0") for zone in "abc"] + [BookieId("bk-a-1")]
    zones = {name: ZoneName(name[3]) for name in names}
    await make_cluster(address, RULES)
    processes = BookieProcesses(folder=tmp_path, address=address, zones=zones, upgrade_domains=1)
    wanted: dict[LedgerId, list[bytes]] = {}
    try:
        await asyncio.to_thread(processes.start)
        async with connect(address) as client:
            for number in range(3):
                writer = await client.create(password=PASSWORD)
                wanted[writer.ledger_id] = payloads(number)
                await write_all(writer, payloads(number))
                writer.halt()
        running = await asyncio.to_thread(call_bookie, "scrub", "--data", f"{tmp_path}/bk-a-0/data")
        assert (running.exit_code, "in use by another process" in running.stderr) == (2, True)
        for name in names:
            await asyncio.to_thread(processes.kill, name)
        files = await asyncio.to_thread(export_all, tmp_path, names)
        await asyncio.to_thread(rebuild_by_commands, address, tmp_path, names, files)
        await set_policy(address)
        await asyncio.to_thread(processes.start)

        async with connect(address) as client:
            for ledger_id, data in wanted.items():
                assert await read_all(client, ledger_id, PASSWORD) == data
    finally:
        await asyncio.to_thread(processes.close)


def export_all(folder: Path, names: list[BookieId]) -> list[str]:
    """Look at each disk with each tool, and export its hints."""
    files = []
    for name in names:
        data = ("--data", f"{folder}/{name}/data")
        for words in (("scrub",), ("state",), ("list-ledgers",), ("rebuild-index",)):
            done = call_bookie(*words, *data)
            assert done.exit_code == 0, done.output
        files.append(f"{folder}/{name}.hints")
        done = call_bookie("export-hints", *data, files[-1])
        assert done.exit_code == 0, done.output
        assert Path(files[-1]).stat().st_mode & 0o777 == 0o600
    return files


def rebuild_by_commands(
    address: str, folder: Path, names: list[BookieId], files: list[str]
) -> None:
    for path in folder.glob("meta.db*"):
        path.unlink()
    (folder / "passwords").write_bytes(PASSWORD + b"\n")
    rebuild = ("rebuild", *files, "--metadata", address, "--passwords", f"{folder}/passwords")
    runner = CliRunner()
    done = runner.invoke(
        saving.metadata, (*rebuild, "--write", "--yes", "-o", "json"), catch_exceptions=False
    )
    assert done.exit_code == 0, done.output
    verdicts = {json.loads(line)["verdict"] for line in done.stdout.splitlines()}
    assert verdicts == {"sure"}
    for name in names:
        words = ("cookie", "create", "--data", f"{folder}/{name}/data", "--metadata", address)
        done = call_bookie(*words, "--yes")
        assert done.exit_code == 0, done.output


async def set_policy(address: str) -> None:
    store = await open_store(address)
    try:
        cluster = await clusters.open_cluster(store)
        assert await ledgers.read(cluster, LedgerId(0)) is not None
        await policy_store.write(cluster, RULES, replaces=0)
    finally:
        await store.close()
