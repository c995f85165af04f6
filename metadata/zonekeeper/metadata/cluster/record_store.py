"""One kind of record in the store: read, changed by compare-and-set, watched.

A record of another cluster counts as absent, and is reported. An unreadable record is a third case,
neither present nor absent. To read or change it raises. A watcher gets the error in place of the
record, so that it can take the safe side of its own question.
"""

import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats import records
from zonekeeper.metadata.formats.malformed import UnreadableError, stored_at
from zonekeeper.metadata.formats.records import ForeignRecordError
from zonekeeper.metadata.store import update
from zonekeeper.metadata.store.following import Meanings, follow_children
from zonekeeper.metadata.store.store import Check, Versioned
from zonekeeper.placement.base.fields import Plain

Value = TypeVar("Value")
_Seen: TypeAlias = Value | UnreadableError | None

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Codec(Generic[Value]):
    """A kind of record as plain data; ``parse`` raises ``UnreadableError``."""

    render: Callable[[Value], Mapping[str, Plain]]
    parse: Callable[[dict[str, Plain]], Value]


async def read(cluster: Cluster, path: str, codec: Codec[Value]) -> Value | None:
    """Read a record; None if this cluster has none."""
    return _value(cluster, path, codec, await cluster.store.get(path, sync=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked(Generic[Value]):
    """A record, and what lets a transaction pass only while the record stays as it was read."""

    value: Value
    check: Check


async def read_checked(cluster: Cluster, path: str, codec: Codec[Value]) -> Checked[Value] | None:
    """Read a record behind all writes, with a check of its version; None: there is none."""
    node = await cluster.store.get(path, sync=True)
    value = _value(cluster, path, codec, node)
    if node is None or value is None:
        return None
    return Checked(value=value, check=Check(path=path, version=node.version))


async def change(
    cluster: Cluster,
    path: str,
    codec: Codec[Value],
    decide: Callable[[Value | None], Value | None],
    *,
    alongside: update.Alongside = update.nothing,
) -> Value | None:
    """Change a record as ``decide`` wants (None: absent); give the record afterwards.

    ``decide`` is called again if another client was faster or an answer was lost. It must look at
    the given record, and give it back if nothing is left to do. ``alongside`` gives checks that the
    change hangs on.
    """

    def decide_bytes(node: Versioned | None) -> update.Decision:
        before = _value(cluster, path, codec, node)
        after = decide(before)
        if after is None:
            return update.Keep() if before is None else update.RemoveNode()
        if after == before:
            return update.Keep()
        return update.Store(records.render(codec.render(after), cluster.instance))

    standing = await update.update(cluster.store, path, decide_bytes, alongside=alongside)
    return None if standing is None else _read(cluster, path, codec, standing.value)


@asynccontextmanager
async def watch(
    cluster: Cluster, path: str, codec: Codec[Value]
) -> AsyncIterator[AsyncIterator[Value | UnreadableError | None]]:
    """Follow one record."""

    async def states(nodes: AsyncIterator[Versioned | None]) -> AsyncIterator[_Seen[Value]]:
        async for node in nodes:
            seen = _seen(cluster, path, codec, node)
            yield seen

    async with cluster.store.watch(path) as nodes:
        yield states(nodes)


@asynccontextmanager
async def watch_all(
    cluster: Cluster, directory: str, codec: Codec[Value]
) -> AsyncIterator[AsyncIterator[dict[str, Value | UnreadableError]]]:
    """Follow all records of a directory, by the names of their nodes."""

    def read_one(name: str, node: Versioned) -> _Seen[Value]:
        return _seen(cluster, f"{directory}/{name}", codec, node)

    meanings = Meanings(read_one)

    async def states(
        every: AsyncIterator[Mapping[str, Versioned]],
    ) -> AsyncIterator[dict[str, Value | UnreadableError]]:
        async for nodes in every:
            seen = meanings.of(nodes)
            yield {name: value for name, value in seen.items() if value is not None}

    async with follow_children(cluster.store, directory) as every:
        yield states(every)


def _seen(cluster: Cluster, path: str, codec: Codec[Value], node: Versioned | None) -> _Seen[Value]:
    try:
        return _value(cluster, path, codec, node)
    except UnreadableError as error:
        _logger.warning("%s", error)
        return error


def _value(
    cluster: Cluster, path: str, codec: Codec[Value], node: Versioned | None
) -> Value | None:
    return None if node is None else _read(cluster, path, codec, node.value)


def _read(cluster: Cluster, path: str, codec: Codec[Value], raw: bytes) -> Value | None:
    with stored_at(path, cluster.store.name):
        try:
            return codec.parse(records.parse(raw, cluster.instance))
        except ForeignRecordError as error:
            _logger.warning("%s in %s is ignored: %s", path, cluster.store.name, error)
            return None
