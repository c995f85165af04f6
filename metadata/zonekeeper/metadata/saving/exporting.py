"""Reading a whole root, for an export in the form of ``export_format``.

The tree is read depth first. So only the names of one node's children on each level are in memory.
If a root is written to meanwhile, the export is not of a single moment; but each node is as it was
at some moment.

The identities of processes are left out: they are the store's, and the root may be put into another
one. `metadata secure` gives a root its identities again.
"""

from collections.abc import AsyncGenerator
from typing import Final

from zonekeeper.metadata.access import identities
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats import ledger_paths
from zonekeeper.metadata.saving.export_format import ExportHeader, ExportNode, ExportWriter
from zonekeeper.metadata.store.background import together
from zonekeeper.metadata.store.store import Versioned

READS_IN_FLIGHT_MAX: Final = 64


def header(cluster: Cluster) -> ExportHeader:
    """Give the header of a cluster's export."""
    return ExportHeader(cluster.instance, cluster.root.path)


async def nodes(cluster: Cluster) -> AsyncGenerator[ExportNode, None]:
    """Give every node of a root that is not ephemeral, in the order of an export."""
    for top in (cluster.root.path, cluster.root.own):
        todo = [top]  # the next one is the last
        while todo:
            batch = _leaves(cluster, todo)
            if batch:
                async for node in _read(cluster, batch):
                    yield node
                continue
            path = todo.pop()
            if path == cluster.root.beside(identities.NAME):
                continue
            value = await cluster.store.get(path, sync=True)
            names = await cluster.store.children(path, sync=True)
            if value is None or value.owner is not None:
                continue
            yield _node(cluster, path, value)
            todo += [f"{path}/{name}" for name in reversed(names or ())]


async def lines(cluster: Cluster) -> AsyncGenerator[str, None]:
    """Give the lines of an export."""
    writer = ExportWriter()
    yield writer.header(header(cluster))
    async for node in nodes(cluster):
        yield writer.node(node)
    yield writer.footer()


def _leaves(cluster: Cluster, todo: list[str]) -> list[str]:
    """Take the next ledgers off the list; they have no children, so several are read together."""
    batch: list[str] = []
    top = len(cluster.root.path)
    while todo and len(batch) < READS_IN_FLIGHT_MAX:
        if ledger_paths.parse(todo[-1][top:]) is None:
            break
        batch.append(todo.pop())
    return batch


async def _read(cluster: Cluster, batch: list[str]) -> AsyncGenerator[ExportNode, None]:
    values = await together(cluster.store.get(path, sync=True) for path in batch)
    for path, value in zip(batch, values, strict=True):
        if value is not None and value.owner is None:
            yield _node(cluster, path, value)


def _node(cluster: Cluster, path: str, value: Versioned) -> ExportNode:
    return ExportNode(path.removeprefix(cluster.root.path), value.value)
