"""A cluster on a file, data folders of bookies beside it, and the commands that work on them."""

import asyncio
import json
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from click.testing import CliRunner, Result

from tests.bookie.segments.keeping import Driver, frame, let_work, opening
from tests.support import virtual_time
from zonekeeper.bookie.commands import bookie
from zonekeeper.bookie.disk.disks import InlineDisk
from zonekeeper.bookie.disk.files import RealFileSystem
from zonekeeper.bookie.formats.index import Index
from zonekeeper.bookie.ledgers import admission
from zonekeeper.bookie.life import process
from zonekeeper.bookie.segments.arrivals import Sizes
from zonekeeper.bookie.segments.devices import Devices
from zonekeeper.bookie.segments.rocks import RocksOrdered
from zonekeeper.bookie.storage import storage
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.stores.opening import open_store
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.wire.formats import digests

T = TypeVar("T")

BOOKIE = BookieId("bk-a-0")
KEY = digests.master_key(b"secret")
INSTANCE = str(uuid.UUID(int=7))

#: Small, so that a few frames fill some and are sorted.
SIZES = Sizes(segment_bytes=2048, segments_max=4)


class Place:
    """Where one bookie and its cluster are."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.metadata = f"sqlite://{folder}/meta.db"

    def initialise(self) -> None:
        """Make the cluster."""
        asyncio.run(self._initialise())

    def call(self, *words: str, input: str | None = None) -> Result:  # noqa: A002 click's name
        """Call a tool; the environment of the test counts for nothing."""
        runner = CliRunner(env={"ZONEKEEPER_DATA": None, "ZONEKEEPER_METADATA": None})
        return runner.invoke(bookie.bookie, words, input=input, catch_exceptions=False)

    def on_data(self, *words: str) -> Result:
        """Call a tool on the bookie's data."""
        return self.call(*words, "--data", str(self.data))

    def format(self) -> Result:
        return self.on_data(
            *("format", "--metadata", self.metadata, "--id", BOOKIE, "--zone", "a"),
            *("--upgrade-domains", "3", "--yes"),
        )

    def listed(self, *words: str) -> list[dict[str, object]]:
        """Call a tool that answers with one object a line."""
        answer = self.on_data(*words, "--output", "json")
        assert answer.exit_code == 0, answer.output
        return [json.loads(line) for line in answer.stdout.splitlines()]

    def in_cluster(self, work: Callable[[Cluster], Awaitable[T]]) -> T:
        async def run() -> T:
            store = await open_store(self.metadata)
            try:
                return await work(await clusters.open_cluster(store))
            finally:
                await store.close()

        return asyncio.run(run())

    def fill(self, *, ledgers: int = 3, frames: int = 30, then_fence: int | None = None) -> None:
        """Let a bookie keep entries 0, 1, ... of each ledger, in its segments and its index.

        In virtual time: what comes into which segment is the same on every machine.
        """
        virtual_time.run(self._fill(ledgers, frames, then_fence))

    def names(self, prefix: str) -> list[Path]:
        return sorted(self.data.glob(f"{prefix}-*"))

    async def _initialise(self) -> None:
        store = await open_store(self.metadata)
        await clusters.initialise(store, INSTANCE)
        await store.close()

    async def _fill(self, ledgers: int, frames: int, then_fence: int | None) -> None:
        files = RealFileSystem(self.data)
        devices = Devices(
            arrival_files=files,
            files=files,
            index=Index(RocksOrdered(self.data / process.INDEX_NAME)),
            writing=InlineDisk(),
            background=InlineDisk(),
            reads=InlineDisk(),
        )
        kept = await storage.open_storage(devices, SIZES)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(kept.run())
            driver = Driver(kept)
            for ledger_id in range(1, ledgers + 1):
                await driver.state(ledger_id, admission.OpenWanted(opening=opening(ledger_id)))
            for first in range(0, 2 * frames, 2):
                for ledger_id in range(1, ledgers + 1):
                    await driver.append(frame(ledger_id, [first, first + 1], lac=first - 1))
            await let_work(lambda: bool(self.names("sorted")) or frames == 0)
            if then_fence is not None:
                await driver.state(then_fence, admission.FenceWanted(master_key=KEY))
            kept.log.close()
        await kept.close()
        files.close()
