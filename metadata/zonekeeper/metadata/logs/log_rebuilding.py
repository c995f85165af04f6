"""Put the record of a log that was lost, with its pages, in place of what is there.

A record with pages takes more than one transaction. Meanwhile a *placeholder* stands in its place:

    {"before":"<the record that was there>","rebuilding":"<32 digits>"}      no "before": none was

No program reads it as a record, so nobody reads or writes the log, and nobody deletes anything of
it. A rebuild that dies is begun again: it finds the placeholder, and what the record said before.
"""

from dataclasses import dataclass
from typing import Final

from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats import log_names, log_record_format, records
from zonekeeper.metadata.formats.log_record import LogPage, LogRecord, LogTaken
from zonekeeper.metadata.formats.malformed import stored_at
from zonekeeper.metadata.logs import log_cursor, logs
from zonekeeper.metadata.store import update
from zonekeeper.metadata.store.store import Create, Delete, Versioned, Write, parent_of
from zonekeeper.placement.base.fields import Plain

#: A transaction has at most so many pages.
_PAGES_AT_ONCE: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordPlace:
    """What stands where a log's record belongs."""

    #: None: there is no record, nor was there one when a rebuild began.
    record: LogRecord | None
    #: None: there is no node.
    raw: bytes | None
    #: A rebuild was begun, and not done to the end.
    is_placeholder: bool = False


async def look(cluster: Cluster, name: str) -> RecordPlace:
    """Read what stands there; raises ``UnreadableError`` for damage."""
    where = logs.path(cluster, name)
    node = await cluster.store.get(where, sync=True)
    if node is None:
        return RecordPlace(record=None, raw=None)
    with stored_at(where, cluster.store.name):
        raw: bytes | None = node.value
        data = records.parse(node.value, cluster.instance)
        begun = log_record_format.REBUILDING in data
        if begun:
            raw = records.text(data, "before").encode() if "before" in data else None
        record = None if raw is None else log_record_format.parse(raw, cluster.instance)
    return RecordPlace(record=record, raw=node.value, is_placeholder=begun)


async def put(
    cluster: Cluster, name: str, seen: RecordPlace, record: LogRecord, pages: list[LogPage]
) -> None:
    """Put a record and its pages; raises ``LogTaken`` if another program has changed the log.

    ``seen`` is what stood there when the rebuild began to look at the log's ledgers.
    """
    where = logs.path(cluster, name)
    await logs.make_folder(cluster, parent_of(where))
    plain: dict[str, Plain] = {log_record_format.REBUILDING: record.id}
    if seen.record is not None:
        plain["before"] = log_record_format.render(seen.record, cluster.instance).decode()
    placeholder = records.render(plain, cluster.instance)
    await _replace(cluster, name, seen.raw, placeholder)
    await _remove_pages(cluster, where)
    for at in range(0, len(pages), _PAGES_AT_ONCE):
        writes: list[Write] = []
        for page in pages[at : at + _PAGES_AT_ONCE]:
            folder = where + log_names.page_folder(page.number)
            if log_names.begins_folder(page.number):
                writes.append(Create(path=folder))
            value = log_record_format.render_page(page, cluster.instance)
            writes.append(Create(path=where + log_names.page_path(page.number), value=value))
        await cluster.store.commit(writes)
    final = log_record_format.render(record, cluster.instance)
    await _replace(cluster, name, placeholder, final)


async def _replace(cluster: Cluster, name: str, before: bytes | None, after: bytes) -> None:
    def decide(node: Versioned | None) -> update.Decision:
        standing = None if node is None else node.value
        if standing == after:
            return update.Keep()
        if standing != before:
            raise LogTaken(
                f"log {name} was changed by another program while it was rebuilt: look at it, and "
                "rebuild it again if it lacks ledgers"
            )
        return update.Store(after)

    await update.update(cluster.store, logs.path(cluster, name), decide)


async def _remove_pages(cluster: Cluster, where: str) -> None:
    """Remove all pages below a placeholder; cursors stay."""
    for child in await cluster.store.children(where, sync=True) or ():
        if log_cursor.name_of(child) is not None:
            continue
        folder = f"{where}/{child}"
        names = await cluster.store.children(folder, sync=True) or ()
        writes: list[Write] = [Delete(path=f"{folder}/{one}", version=None) for one in names]
        await cluster.store.commit([*writes, Delete(path=folder, version=None)])
