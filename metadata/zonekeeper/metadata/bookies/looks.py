"""A write of a bookie's own, so that what it reads next is no older.

    <root>.zonekeeper/looks/<bookie>      an empty node, whose version counts

A read shows a state no older than the last write of its own session. So a bookie that wrote here,
and reads in the same session, cannot be told an older state by a server that is behind, or that
was deposed and does not know it. Nobody watches these nodes.
"""

from contextlib import suppress

from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.store.errors import NodeExistsError, NoNodeError
from zonekeeper.metadata.store.store import Create, Put, SessionId
from zonekeeper.placement.base.ids import BookieId


async def write(cluster: Cluster, bookie: BookieId, session: SessionId) -> None:
    """Write once, in this session. Raises ``StoreError`` unless the write was applied for sure."""
    path = _path(cluster, bookie)
    node = await cluster.store.get(path, sync=True)
    if node is not None:
        put = Put(path=path, value=b"", version=node.version)
        await cluster.store.commit([put], session=session)
        return
    if not await cluster.store.exists(_directory(cluster), sync=True):
        with suppress(NodeExistsError):  # another bookie was faster
            await cluster.store.create(_directory(cluster))
    await cluster.store.commit([Create(path=path)], session=session)


async def forget(cluster: Cluster, bookie: BookieId) -> None:
    """Remove the node of a bookie that was removed itself."""
    with suppress(NoNodeError):
        await cluster.store.delete(_path(cluster, bookie), version=None)


def _directory(cluster: Cluster) -> str:
    return cluster.root.beside("looks")


def _path(cluster: Cluster, bookie: BookieId) -> str:
    return f"{_directory(cluster)}/{bookie}"
