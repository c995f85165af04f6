"""A bookie's process in a cluster on a file: started, refused, linked to."""

import asyncio
import random
import signal
import sys
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from tests.bookie.running import LEDGER, frame, opening
from tests.bookie.serving.test_links import Sink
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats.ledger_metadata import Fragment, LedgerMetadata
from zonekeeper.metadata.ledgers import ledgers
from zonekeeper.metadata.stores.opening import open_store
from zonekeeper.placement.base.digests import Digest
from zonekeeper.placement.base.ids import BookieId, EntryId
from zonekeeper.wire.contract.links import BookieLink
from zonekeeper.wire.formats import bookie_names
from zonekeeper.wire.grpc import grpc_link, tls

BOOKIE = BookieId("bk-a-4")
INSTANCE = str(uuid.UUID(int=7))
COMMAND = (
    sys.executable,
    "-c",
    "from zonekeeper.bookie.commands.bookie import bookie; bookie()",
    "run",
)
LIMIT_S = 60
#: The ledger of ``opening()``.
METADATA = LedgerMetadata(
    ensemble_size=3,
    write_quorum=3,
    ack_quorum=2,
    digest=Digest.CRC32C,
    password=b"secret",
    fragments=(Fragment(EntryId(0), opening().ensemble),),
    create_token=9,
)


class World:
    """A cluster on a file, and a folder for a bookie."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.metadata = f"sqlite://{folder}/meta.db"

    def arguments(self, **changed: str) -> list[str]:
        given = {
            "metadata": self.metadata,
            "id": BOOKIE,
            "zone": "a",
            "upgrade-domains": "3",
            "data": str(self.data),
            "listen": "127.0.0.1:0",
            "http": "127.0.0.1:0",
        }
        given.update({name.replace("_", "-"): text for name, text in changed.items()})
        return [f"--{name}={text}" for name, text in given.items()]

    @asynccontextmanager
    async def cluster(self) -> AsyncIterator[Cluster]:
        store = await open_store(self.metadata)
        try:
            yield await clusters.open_cluster(store)
        finally:
            await store.close()

    async def make(self) -> None:
        """Make the cluster, with the one ledger that tests write."""
        store = await open_store(self.metadata)
        cluster = await clusters.initialise(store, INSTANCE)
        await ledgers.create(cluster, METADATA, ledger_id=LEDGER)
        await store.close()


class Started:
    """A bookie's process that said it was ready."""

    def __init__(self, process: asyncio.subprocess.Process, line: str) -> None:
        self.process = process
        self.line = line
        words = line.replace(",", "").split()
        self.grpc = words[words.index("grpc") + 1]
        self.http_port = int(words[words.index("http") + 1].rpartition(":")[2])
        self.boot = int(words[words.index("boot") + 1])

    async def end(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        async with asyncio.timeout(LIMIT_S):
            return await self.process.wait()


async def launch(
    arguments: Sequence[str], inside: Sequence[str] = ()
) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *inside,
        *COMMAND,
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


@asynccontextmanager
async def started(
    world: World, inside: Sequence[str] = (), **changed: str
) -> AsyncIterator[Started]:
    process = await launch(world.arguments(**changed), inside)
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        async with asyncio.timeout(LIMIT_S):
            line = (await process.stdout.readline()).decode()
            assert line.startswith("ready: "), (await process.stderr.read()).decode()
        yield Started(process, line)
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def refused(arguments: Sequence[str]) -> tuple[int, str]:
    """Run a bookie that cannot start; give its exit code and its last line."""
    process = await launch(arguments)
    async with asyncio.timeout(LIMIT_S):
        _, said = await process.communicate()
    assert process.returncode is not None
    assert "Traceback" not in said.decode()
    return process.returncode, said.decode().splitlines()[-1]


@asynccontextmanager
async def linked(
    bookie: Started, credentials: tls.ClientCredentials | None = None
) -> AsyncIterator[BookieLink]:
    async with asyncio.TaskGroup() as tasks:
        link = grpc_link.connect(
            bookie_names.name_of(BOOKIE, INSTANCE),
            bookie.grpc,
            credentials=credentials,
            tasks=tasks,
            chance=random.Random(1),
        )
        yield link
        await link.close()


async def append_all(link: BookieLink, entry_ids: Sequence[int]) -> None:
    sink = Sink()
    lane = await link.open_fragment(opening(), sink)
    for entry_id in entry_ids:
        lane.append(frame(entry_id))
    for _ in entry_ids:
        assert (await sink.outcomes.get())[1] is None
