"""Notes of deleted logs: which incarnations were deleted on purpose, and when.

    <root>.zonekeeper/deleted-logs/<hh>/<id>     {"atMs":…,"name":"orders/eu-1"}

A note is written in the transaction that removes the log's record. So a log without a record and
without a note was lost, and not deleted. Ledgers that a writer left behind are collected by the
note, and go with nothing but it. The note itself goes after ``KEPT_MS``. By then no writer of the
log can be left that makes another ledger, and orphans were looked for many times.
"""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Final

from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats import records
from zonekeeper.metadata.formats.malformed import stored_at
from zonekeeper.metadata.store import update
from zonekeeper.metadata.store.store import Create, Versioned
from zonekeeper.placement.base.fields import Plain

KEPT_MS: Final = 7 * 86_400_000

_DIGITS: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedLog:
    """The note of a deletion."""

    log_id: str
    name: str
    at_ms: int


def top(cluster: Cluster) -> str:
    """Give the path of the node of all notes."""
    return cluster.root.beside("deleted-logs")


def path(cluster: Cluster, log_id: str) -> str:
    """Give the path of a note."""
    return f"{top(cluster)}/{log_id[:_DIGITS]}/{log_id}"


def render(note: DeletedLog, instance: str) -> bytes:
    """Write a note."""
    plain: dict[str, Plain] = {"atMs": note.at_ms, "name": note.name}
    return records.render(plain, instance)


def parse(raw: bytes, log_id: str, instance: str) -> DeletedLog:
    """Read a note; raises ``UnreadableError`` or ``ForeignRecordError``."""
    data = records.parse(raw, instance)
    return DeletedLog(
        log_id=log_id, name=records.text(data, "name"), at_ms=records.number(data, "atMs")
    )


def noted(cluster: Cluster, note: DeletedLog) -> Create:
    """Give the write of a note, for the transaction that removes the record."""
    value = render(note, cluster.instance)
    return Create(path=path(cluster, note.log_id), value=value)


async def find(cluster: Cluster, log_id: str) -> DeletedLog | None:
    """Read the note of an incarnation; None: there is none, so it was not deleted on purpose."""
    where = path(cluster, log_id)
    node = await cluster.store.get(where, sync=True)
    if node is None:
        return None
    with stored_at(where, cluster.store.name):
        return parse(node.value, log_id, cluster.instance)


async def ids(cluster: Cluster) -> AsyncGenerator[str, None]:
    """Give the ids of all incarnations that have a note."""
    for digits in await cluster.store.children(top(cluster)) or ():
        for log_id in await cluster.store.children(f"{top(cluster)}/{digits}") or ():
            yield log_id


async def forget(cluster: Cluster, log_id: str) -> None:
    """Remove a note."""

    def decide(node: Versioned | None) -> update.Decision:
        return update.Keep() if node is None else update.RemoveNode()

    await update.update(cluster.store, path(cluster, log_id), decide)
