"""A real local cluster for the commands on it: processes of bookies and of autorecovery.

Timers are scaled down, so a zone that was lost is judged in seconds. What is waited for is waited
for in the records, never by time.
"""

import asyncio
import contextlib
import json
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import click
from click.testing import CliRunner, Result

from tests.shell.local_world import LocalWorld
from tests.support.ready_processes import SHELL
from zonekeeper.metadata.bookies import bookie_records, cookie_store
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.cluster import policy_store, repair_controls, timeline
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.stores.opening import open_store
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.placement.zones.observation import Observation
from zonekeeper.replication.view.view import View
from zonekeeper.shell.reaching import reaching

T = TypeVar("T")

WHO = ("--by", "anna", "--reason", "a test")
#: Longer than anything here takes, the loss of a zone included.
PATIENCE_S = 60


class LiveCluster:
    """A cluster that runs, and the commands on it."""

    def __init__(self, local: LocalWorld) -> None:
        self.local = local
        self.address = str(local.data("status")["metadata"])

    def call(
        self,
        command: click.Command,
        *words: str,
        given: bytes = b"",
        columns: str | None = None,
    ) -> Result:
        """Call; ``columns`` is the terminal's width, None: the answer goes into a pipe."""
        return CliRunner(env={"COLUMNS": columns}).invoke(
            command, [*words, "--metadata", self.address], input=given, catch_exceptions=False
        )

    def text(self, command: click.Command, *words: str, given: bytes = b"") -> str:
        """Call; it must succeed."""
        result = self.call(command, *words, given=given)
        assert result.exit_code == 0, result.output
        return result.stdout

    def data(self, command: click.Command, *words: str, given: bytes = b"") -> dict[str, object]:
        """Call for data; it must succeed."""
        found: dict[str, object] = json.loads(
            self.text(command, *words, "--output", "json", given=given)
        )
        return found

    def process(self, *words: str) -> "subprocess.Popen[str]":
        """Start a command as a process of its own."""
        return subprocess.Popen(
            [*SHELL, *words, "--metadata", self.address],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def until(self, seen: Callable[[View], T | None]) -> T:
        """Look at the records until something is seen in them."""

        async def work() -> T:
            async with (
                asyncio.timeout(PATIENCE_S),
                opened(self.address) as cluster,
                reaching.seen(cluster) as view,
            ):
                looks = view.looks
                while not (found := seen(view)):
                    looks = await view.changed(looks)
                return found

        return asyncio.run(work())

    def standing(self) -> Mapping[str, object]:
        """Give all that a person's command could have changed."""

        async def work() -> Mapping[str, object]:
            async with opened(self.address) as cluster:
                return {
                    "policy": await policy_store.read(cluster),
                    "enabled": await repair_controls.is_enabled(cluster),
                    "told": [one for one in await timeline.newest(cluster) if one.by == "anna"],
                    **await _records(cluster),
                }

        return asyncio.run(work())


async def _records(cluster: Cluster) -> Mapping[str, object]:
    async with reaching.seen(cluster) as view:
        names = [one.id for one in view.topology]
        return {
            "registered": [(one.id, one.registration) for one in view.topology],
            "cookies": [await cookie_store.read(cluster, name) for name in names],
            "records": [await bookie_records.read(cluster, name) for name in names],
            "maintenance": dict(view.maintenance),
            "gates": {zone: one.gate.permission for zone, one in view.zones.items()},
        }


@asynccontextmanager
async def opened(address: str) -> AsyncIterator[Cluster]:
    store = await open_store(address)
    try:
        yield await clusters.open_cluster(store)
    finally:
        await store.close()


@contextlib.contextmanager
def live_cluster(folder: Path, *up: str) -> Iterator[LiveCluster]:
    """Give a cluster that is up and calm; all of it ends with the block."""
    local = LocalWorld(folder)
    try:
        local.data("up", *up)
        cluster = LiveCluster(local)
        cluster.until(is_calm)
        yield cluster
    finally:
        local.call("down", "--purge")


def is_calm(view: View) -> bool:
    """Is every zone seen to be up, and nothing held?"""
    zones = view.policy.placement.zones
    return (
        set(view.zones) >= set(zones)
        and all(one.observed.state is Observation.UP for one in view.zones.values())
        and all(one.gate.permits for one in view.zones.values())
        and view.cluster_record is not None
        and view.cluster_record.gate.permits
    )


def registration(name: str, state: object) -> Callable[[View], bool]:
    """Say whether a bookie is registered so."""

    def seen(view: View) -> bool:
        known = view.topology.get(BookieId(name))
        return known is not None and known.registration is state

    return seen
