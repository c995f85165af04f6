"""Presences: whether the process that writes a ledger is there, as far as the store can tell.

    <root>.zonekeeper/writers/<name>    ephemeral; of one process that creates ledgers
    zonekeeper.writer                   in a ledger's custom metadata: the name of that node

A process draws its name once. It makes the node before it creates its first ledger, and makes it
again in each new session. So while a writer is there its presence is missing for a moment at most,
unless the process is cut off from the store. A writer that is cut off still writes, because it
needs bookies alone. So a missing presence proves nothing by itself: who acts on it waits first, and
looks whether the ledger still grows.

A ledger that another program created, or an older version, names no presence. Nothing is known of
its writer.
"""

import re
from collections.abc import Iterable
from typing import Final

from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats.ledger_metadata import LedgerMetadata
from zonekeeper.metadata.store.background import together
from zonekeeper.metadata.store.errors import (
    NodeExistsError,
    NoNodeError,
    StoreError,
    VersionConflictError,
)
from zonekeeper.metadata.store.store import Create, Delete, SessionId
from zonekeeper.placement.base.chance import Chance

KEY: Final = "zonekeeper.writer"
READS_IN_FLIGHT_MAX: Final = 64

_ATTEMPTS_MAX: Final = 5
_DIRECTORY: Final = "writers"
_NAME: Final = re.compile(rb"[0-9a-f]{16}")


def draw(chance: Chance) -> str:
    """Draw the name of a process's presence."""
    high, low = (int(chance.random() * (1 << 32)) for _ in range(2))
    return f"{high:08x}{low:08x}"


def name_in(ledger: LedgerMetadata) -> str | None:
    """Give the name of the presence of a ledger's writer; None: the ledger names none."""
    raw = dict(ledger.custom).get(KEY, b"")
    return raw.decode() if _NAME.fullmatch(raw) else None


def path(cluster: Cluster, name: str) -> str:
    """Give the path of a presence."""
    return cluster.root.beside(f"{_DIRECTORY}/{name}")


async def show(cluster: Cluster, name: str, session: SessionId) -> None:
    """Make the presence of this process in its present session; may be called again.

    Nobody else has this name, so a node of another session is of an earlier session of this
    process, and is replaced.
    """
    at = path(cluster, name)
    for attempts_left in reversed(range(_ATTEMPTS_MAX)):
        node = await cluster.store.get(at, sync=True)
        if node is not None and node.owner == session:
            return
        create = Create(path=at, ephemeral=True)
        try:
            if node is None:
                await cluster.store.create(at, ephemeral=True, make_parents=True, session=session)
            else:
                former = Delete(path=at, version=node.version)
                await cluster.store.commit([former, create], session=session)
        except StoreError as error:
            # The former one comes and goes, or the answer was lost: read again.
            look_again = error.maybe_applied or isinstance(
                error, NodeExistsError | NoNodeError | VersionConflictError
            )
            if not look_again or attempts_left == 0:
                raise
        else:
            return


async def missing(cluster: Cluster, names: Iterable[str]) -> frozenset[str]:
    """Give those of the presences that are not there, as the store has it now."""
    await cluster.store.exists(cluster.root.path, sync=True)  # later reads are no older than this
    gone: set[str] = set()

    async def look(some: list[str]) -> None:
        for name in some:
            if not await cluster.store.exists(path(cluster, name)):
                gone.add(name)

    every = sorted(names)
    await together(look(every[at::READS_IN_FLIGHT_MAX]) for at in range(READS_IN_FLIGHT_MAX))
    return frozenset(gone)
