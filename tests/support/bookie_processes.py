"""Bookies as real processes on any store; all of them end with the block."""

import contextlib
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.support.ready_processes import SHELL, ReadyProcesses
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.cluster import policy_store
from zonekeeper.metadata.stores.opening import open_store
from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.placement.policy.rules import Policy

COMMAND: Final = (*SHELL, "bookie", "run")


async def make_cluster(address: str, policy: Policy) -> None:
    """Make a root with a policy at a store's address."""
    store = await open_store(address)
    try:
        cluster = await clusters.initialise(store, str(uuid.uuid4()))
        await policy_store.write(cluster, policy, replaces=0)
    finally:
        await store.close()


@dataclass(slots=True, kw_only=True)
class BookieProcesses(ReadyProcesses):
    """The bookies of one cluster, by their names."""

    address: str
    zones: Mapping[BookieId, ZoneName]
    upgrade_domains: int
    #: More flags for each, such as a session timeout.
    flags: Mapping[str, str] = field(default_factory=dict)

    @property
    def command(self) -> Sequence[str]:
        return COMMAND

    def names(self) -> Iterable[BookieId]:
        return self.zones

    def settings(self, name: BookieId) -> Mapping[str, str]:
        return {
            "--metadata": self.address,
            "--id": name,
            "--zone": self.zones[name],
            "--upgrade-domains": str(self.upgrade_domains),
            "--data": str(self.data(name)),
            "--listen": "127.0.0.1:0",
            "--advertise": "127.0.0.1",
            "--http": "127.0.0.1:0",
            **self.flags,
        }

    def data(self, name: BookieId) -> Path:
        """Say where a bookie's data is."""
        return self.folder / name / "data"


@contextlib.contextmanager
def bookie_processes(
    address: str,
    folder: Path,
    zones: Mapping[BookieId, ZoneName],
    *,
    upgrade_domains: int = 3,
    flags: Mapping[str, str] | None = None,
) -> Iterator[BookieProcesses]:
    """Give the bookies of a cluster that was made, none of them started yet."""
    bookies = BookieProcesses(
        folder=folder,
        address=address,
        zones=zones,
        upgrade_domains=upgrade_domains,
        flags=flags or {},
    )
    try:
        yield bookies
    finally:
        bookies.close()
