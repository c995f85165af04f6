"""The record of a bookie beside its cookie: ``<root>.zonekeeper/bookies/<bookie>``.

    bootEpoch     the bookie counts its starts, so that two processes with one name are told apart
    writtenOff    the auditor: the bookie is lost, and everything that it held has been repaired
    draining      a person or the operator: the bookie is to be emptied and removed
    readOnly      a person: they told the bookie to be read-only. The bookie's own disk keeps the
                  order; this says who gave it, when and why
    lostData      the bookie: at the start with this boot epoch it had lost data, and cannot answer
                  for it; the auditor removes this once all copies are there again
    formats       the bookie: the formats of the release that took up its disk last
                  (``release_formats``). A release that does not know the field leaves that of an
                  earlier start; formats that make no sense are unknown

Each writer changes its own field. It keeps the other fields, and fields that it does not know.
"""

import dataclasses
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Final

from zonekeeper.metadata.bookies import held_collections, looks
from zonekeeper.metadata.cluster import record_store
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.cluster.record_store import Checked, Codec
from zonekeeper.metadata.formats import records, release_formats
from zonekeeper.metadata.formats.malformed import Flaw, MalformedError, UnreadableError
from zonekeeper.metadata.formats.release_formats import ReleaseFormats
from zonekeeper.metadata.store import update
from zonekeeper.metadata.store.store import Check
from zonekeeper.placement.base.fields import Plain
from zonekeeper.placement.base.ids import BookieId

_KNOWN: Final = frozenset(
    {"bootEpoch", "writtenOff", "draining", "readOnly", "lostData", "formats"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A fact about a bookie: when it was noted (wall time), by whom, and why."""

    at_ms: int
    by: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BookieRecord:
    """All facts about one bookie."""

    boot_epoch: int = 0
    written_off: Mark | None = None
    draining: Mark | None = None
    #: The person who made the bookie read-only. None: nobody did, or the order has no name because
    #: an older program gave it.
    read_only: Mark | None = None
    #: The boot epoch at which the bookie reported lost data; None if nothing is missing.
    lost_data: int | None = None
    #: The formats of the release that took up the disk last; None: they are unknown.
    formats: ReleaseFormats | None = None
    #: The fields that this version does not know, as JSON; they are written back unchanged.
    unknown: str = "{}"


def _render(record: BookieRecord) -> dict[str, Plain]:
    data: dict[str, Plain] = json.loads(record.unknown)
    if record.boot_epoch:
        data["bootEpoch"] = record.boot_epoch
    if record.lost_data is not None:
        data["lostData"] = record.lost_data
    if record.formats is not None:
        data["formats"] = record.formats.plain()
    for name, mark in (
        ("writtenOff", record.written_off),
        ("draining", record.draining),
        ("readOnly", record.read_only),
    ):
        if mark is not None:
            data[name] = {"atMs": mark.at_ms, "by": mark.by, "reason": mark.reason}
    return data


def _parse(data: Mapping[str, Plain]) -> BookieRecord:
    return BookieRecord(
        boot_epoch=records.number(data, "bootEpoch") if "bootEpoch" in data else 0,
        written_off=_mark(data, "writtenOff"),
        draining=_mark(data, "draining"),
        read_only=_mark(data, "readOnly"),
        lost_data=records.number(data, "lostData") if "lostData" in data else None,
        formats=_formats(data.get("formats")),
        unknown=records.unknown(data, _KNOWN),
    )


def _formats(data: Plain) -> ReleaseFormats | None:
    try:
        return release_formats.of_plain(data)
    except MalformedError:
        return None


def _mark(data: Mapping[str, Plain], name: str) -> Mark | None:
    if name not in data:
        return None
    mark = data[name]
    if not isinstance(mark, dict):
        raise MalformedError(Flaw.WRONG_TYPE, f"{name} must be an object")
    return Mark(
        at_ms=records.number(mark, "atMs"),
        by=records.text(mark, "by"),
        reason=records.text(mark, "reason"),
    )


CODEC: Final = Codec(render=_render, parse=_parse)


def parse(raw: bytes, instance: str) -> BookieRecord:
    """Read a record; raises ``UnreadableError`` or ``ForeignRecordError``."""
    return _parse(records.parse(raw, instance))


async def read(cluster: Cluster, bookie: BookieId) -> BookieRecord:
    """Read a bookie's record; a missing record is an empty one."""
    return await record_store.read(cluster, path(cluster, bookie), CODEC) or BookieRecord()


async def check(cluster: Cluster, bookie: BookieId) -> Check | None:
    """Give what lets a transaction pass only while the bookie is in its present start.

    Each start is counted in the record before the bookie serves. None: there is no record.
    """
    where = path(cluster, bookie)
    node = await cluster.store.get(where, sync=True)
    return None if node is None else Check(path=where, version=node.version)


async def read_checked(cluster: Cluster, bookie: BookieId) -> Checked[BookieRecord] | None:
    """Read a bookie's record with its ``check``; None: there is no record."""
    return await record_store.read_checked(cluster, path(cluster, bookie), CODEC)


async def count_boot(
    cluster: Cluster,
    bookie: BookieId,
    number: int,
    *,
    alongside: update.Alongside = update.nothing,
) -> bool:
    """Give a start of a bookie this number; False if this or a higher number was given already.

    If an answer was lost, it may have been given to this very start; the number is then not used.
    No number higher than this is ever written.
    """
    free = True

    def decide(old: BookieRecord) -> BookieRecord:
        nonlocal free
        free = old.boot_epoch < number
        return dataclasses.replace(old, boot_epoch=number) if free else old

    await _change(cluster, bookie, decide, alongside=alongside)
    return free


async def tell_formats(cluster: Cluster, bookie: BookieId, formats: ReleaseFormats) -> None:
    """Note the formats of the release that has taken up the bookie's disk; writes only a change."""
    await _change(cluster, bookie, lambda old: dataclasses.replace(old, formats=formats))


async def drain(cluster: Cluster, bookie: BookieId, mark: Mark | None) -> None:
    """Note that a bookie is to be emptied, or (None) that it is not; the first note is kept."""
    await _change(
        cluster,
        bookie,
        lambda old: dataclasses.replace(old, draining=mark and (old.draining or mark)),
    )


async def order_read_only(
    cluster: Cluster, bookie: BookieId, mark: Mark | None, *, keep: bool = False
) -> Mark | None:
    """Note who told a bookie to be read-only, or (None) that nobody does; give the note before.

    ``keep``: an order that is noted already stands.
    """
    before: Mark | None = None

    def decide(old: BookieRecord) -> BookieRecord:
        nonlocal before
        before = old.read_only
        stands = before if keep and mark is not None else None
        return dataclasses.replace(old, read_only=stands or mark)

    await _change(cluster, bookie, decide)
    return before


async def write_off(cluster: Cluster, bookie: BookieId, mark: Mark | None) -> None:
    """Note that a lost bookie's data was repaired, or (None) that the bookie counts again."""
    await _change(
        cluster,
        bookie,
        lambda old: dataclasses.replace(old, written_off=mark and (old.written_off or mark)),
    )


async def lost_data(cluster: Cluster, bookie: BookieId, boot_epoch: int) -> None:
    """Note that since this start the bookie does not answer for everything that it once held."""
    await _change(cluster, bookie, lambda old: dataclasses.replace(old, lost_data=boot_epoch))


async def has_all_again(cluster: Cluster, bookie: BookieId, boot_epoch: int) -> None:
    """Remove the note of lost data of one start; a note of another start is kept."""
    await _change(
        cluster,
        bookie,
        lambda old: (
            dataclasses.replace(old, lost_data=None) if old.lost_data == boot_epoch else old
        ),
    )


async def forget(cluster: Cluster, bookie: BookieId) -> None:
    """Remove the record of a bookie that was removed itself, and what else the bookie left."""
    await looks.forget(cluster, bookie)
    await held_collections.done(cluster, bookie)
    await record_store.change(cluster, path(cluster, bookie), CODEC, lambda _: None)


def watch(
    cluster: Cluster, bookie: BookieId
) -> AbstractAsyncContextManager[AsyncIterator[BookieRecord | UnreadableError | None]]:
    """Follow the record of one bookie."""
    return record_store.watch(cluster, path(cluster, bookie), CODEC)


def watch_all(
    cluster: Cluster,
) -> AbstractAsyncContextManager[AsyncIterator[dict[str, BookieRecord | UnreadableError]]]:
    """Follow the records of all bookies."""
    return record_store.watch_all(cluster, cluster.root.beside("bookies"), CODEC)


async def _change(
    cluster: Cluster,
    bookie: BookieId,
    decide: Callable[[BookieRecord], BookieRecord],
    *,
    alongside: update.Alongside = update.nothing,
) -> BookieRecord:
    after = await record_store.change(
        cluster,
        path(cluster, bookie),
        CODEC,
        lambda old: decide(old or BookieRecord()),
        alongside=alongside,
    )
    return after or BookieRecord()


def path(cluster: Cluster, bookie: BookieId) -> str:
    """Give the path of a bookie's record."""
    return cluster.root.beside(f"bookies/{bookie}")
