"""Cursors in the store: nodes below the record of their log, ``cursor.<name>``.

A cursor is made only while its log's record stays as it was read, and only where the log is not
being deleted. So no cursor is made after the mark of a deletion, and the deletion finds all of
them. Later changes are compare-and-sets of the cursor's own node. They cost the log's record
nothing, and go on while a writer rotates.
"""

from collections.abc import Callable, Sequence

from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats import log_record_format
from zonekeeper.metadata.formats.log_record import LogDeleting, LogRecord, OtherIncarnation
from zonekeeper.metadata.formats.malformed import stored_at
from zonekeeper.metadata.logs import log_cursor, logs
from zonekeeper.metadata.logs.log_cursor import (
    CURSORS_MAX,
    CursorClaim,
    CursorMark,
    CursorPosition,
)
from zonekeeper.metadata.store import update
from zonekeeper.metadata.store.background import together
from zonekeeper.metadata.store.store import Check, Versioned
from zonekeeper.placement.base.troubles import Refusal, Trouble


class NoCursorError(Trouble):
    """There is no such cursor: it was deleted, or never opened."""


class TooManyCursorsError(Refusal):
    """The log has as many cursors as a log may have; delete one that no consumer needs."""


async def open_cursor(cluster: Cluster, name: str, cursor: str, wanted: CursorMark) -> CursorMark:
    """Give a cursor to a consumer, and make it if there is none; ``wanted.token`` is new.

    A consumer that had it hears so at its next change.
    """

    async def of_a_whole_log() -> Sequence[Check]:
        where = logs.path(cluster, name)
        node = await cluster.store.get(where, sync=True)
        if node is None:
            raise logs.no_log(cluster, name, "no cursor was made")
        record = _record(cluster, where, node)
        if record.id != wanted.log_id:
            raise OtherIncarnation(
                f"log {name} was deleted, and made anew; no cursor was made; open it again"
            )
        if record.deleting:
            raise LogDeleting(f"log {name} is being deleted; no cursor was made")
        known = await names(cluster, name)
        if cursor not in known and len(known) >= CURSORS_MAX:
            raise TooManyCursorsError(
                f"log {name} has {len(known)} cursors, and may have {CURSORS_MAX}; delete one that "
                "no consumer needs; no cursor was made"
            )
        return [Check(path=where, version=node.version)]

    def decide(before: CursorMark | None) -> CursorMark:
        return log_cursor.opened(before, wanted)

    return await _change(cluster, name, cursor, decide, alongside=of_a_whole_log)


async def move(
    cluster: Cluster, name: str, cursor: str, claim: CursorClaim, to: CursorPosition, now_ms: int
) -> CursorMark:
    """Move a cursor forward; raises ``CursorTaken`` or ``CursorGoesBack``."""

    def decide(before: CursorMark | None) -> CursorMark:
        return log_cursor.moved(_there(before, name, cursor), claim, to, now_ms)

    return await _change(cluster, name, cursor, decide)


async def seek(
    cluster: Cluster, name: str, cursor: str, claim: CursorClaim, to: CursorPosition, now_ms: int
) -> CursorMark:
    """Set a cursor anywhere; raises ``CursorTaken``."""

    def decide(before: CursorMark | None) -> CursorMark:
        return log_cursor.sought(_there(before, name, cursor), claim, to, now_ms)

    return await _change(cluster, name, cursor, decide)


async def find(cluster: Cluster, name: str, cursor: str) -> CursorMark:
    """Read a cursor; raises ``NoCursorError``."""
    where = logs.path(cluster, name) + log_cursor.node(cursor)
    return _there(_read(cluster, where, await cluster.store.get(where, sync=True)), name, cursor)


async def names(cluster: Cluster, name: str) -> list[str]:
    """Give the names of a log's cursors, in order."""
    children = await cluster.store.children(logs.path(cluster, name), sync=True)
    found = map(log_cursor.name_of, children or ())
    return sorted(one for one in found if one is not None)


async def every(cluster: Cluster, name: str, log_id: str) -> dict[str, CursorMark]:
    """Give the cursors of one incarnation of a log, by their names."""
    where, found = logs.path(cluster, name), await names(cluster, name)
    paths = [where + log_cursor.node(one) for one in found]
    nodes = await together(cluster.store.get(path) for path in paths)
    marks = [_read(cluster, path, node) for path, node in zip(paths, nodes, strict=True)]
    return {
        one: mark
        for one, mark in zip(found, marks, strict=True)
        if mark is not None and mark.log_id == log_id
    }


async def delete(cluster: Cluster, name: str, cursor: str) -> None:
    """Delete a cursor, also one that a consumer has open; raises ``NoCursorError``."""
    where = logs.path(cluster, name) + log_cursor.node(cursor)
    was_there = False

    def decide(node: Versioned | None) -> update.Decision:
        nonlocal was_there
        was_there = was_there or node is not None
        return update.Keep() if node is None else update.RemoveNode()

    await update.update(cluster.store, where, decide)
    if not was_there:
        raise _no_cursor(name, cursor)


async def delete_all(cluster: Cluster, name: str) -> None:
    """Delete the cursors of a log that is marked for deletion; those that are gone are no error."""
    where = logs.path(cluster, name)

    def decide(node: Versioned | None) -> update.Decision:
        return update.Keep() if node is None else update.RemoveNode()

    for one in await names(cluster, name):
        await update.update(cluster.store, where + log_cursor.node(one), decide)


async def _change(
    cluster: Cluster,
    name: str,
    cursor: str,
    decide: Callable[[CursorMark | None], CursorMark],
    *,
    alongside: update.Alongside = update.nothing,
) -> CursorMark:
    where = logs.path(cluster, name) + log_cursor.node(cursor)

    def decide_bytes(node: Versioned | None) -> update.Decision:
        before = _read(cluster, where, node)
        after = decide(before)
        if after == before:
            return update.Keep()
        return update.Store(log_cursor.render(after, cluster.instance))

    standing = await update.update(cluster.store, where, decide_bytes, alongside=alongside)
    assert standing is not None, "a cursor is never removed by a change"
    with stored_at(where, cluster.store.name):
        return log_cursor.parse(standing.value, cluster.instance)


def _read(cluster: Cluster, where: str, node: Versioned | None) -> CursorMark | None:
    if node is None:
        return None
    with stored_at(where, cluster.store.name):
        return log_cursor.parse(node.value, cluster.instance)


def _record(cluster: Cluster, where: str, node: Versioned) -> LogRecord:
    with stored_at(where, cluster.store.name):
        return log_record_format.parse(node.value, cluster.instance)


def _there(mark: CursorMark | None, name: str, cursor: str) -> CursorMark:
    if mark is None:
        raise _no_cursor(name, cursor)
    return mark


def _no_cursor(name: str, cursor: str) -> NoCursorError:
    return NoCursorError(
        f"log {name} has no cursor {cursor}: it was deleted, with the log or alone, or never opened"
    )
