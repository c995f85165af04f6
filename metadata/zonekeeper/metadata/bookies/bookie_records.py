"""What others than its cookie say of a bookie: ``<root>.zonekeeper/bookies/<bookie>``.

    bootEpoch     the bookie counts its starts, so that two processes with one name are told apart
    writtenOff    the auditor: lost, and everything that it held has been repaired
    draining      a person or the operator: it is to be emptied and removed
    lostData      the bookie: at this start (its boot epoch) it had lost data, and does not answer
                  for it; the auditor takes it back once all copies are there again

Each writer changes its own part and leaves the others, and what it does not know, as they are.
"""

import dataclasses
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Final

from zonekeeper.metadata.cluster import record_store
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.cluster.record_store import Codec
from zonekeeper.metadata.formats import records
from zonekeeper.metadata.formats.malformed import Flaw, MalformedError, UnreadableError
from zonekeeper.placement.base.fields import Plain
from zonekeeper.placement.base.ids import BookieId

_KNOWN: Final = frozenset({"format", "instance", "bootEpoch", "writtenOff", "draining", "lostData"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Something that was said of a bookie: when (wall time), by whom, why."""

    at_ms: int
    by: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BookieRecord:
    """All that is said of one bookie."""

    boot_epoch: int = 0
    written_off: Mark | None = None
    draining: Mark | None = None
    #: The boot epoch in which the bookie said that it lost data; None: nothing is missing.
    lost_data: int | None = None
    #: Fields that this version does not know, as JSON; written back as they were.
    unknown: str = "{}"


def _render(record: BookieRecord) -> dict[str, Plain]:
    data: dict[str, Plain] = json.loads(record.unknown)
    if record.boot_epoch:
        data["bootEpoch"] = record.boot_epoch
    if record.lost_data is not None:
        data["lostData"] = record.lost_data
    for name, mark in (("writtenOff", record.written_off), ("draining", record.draining)):
        if mark is not None:
            data[name] = {"atMs": mark.at_ms, "by": mark.by, "reason": mark.reason}
    return data


def _parse(data: Mapping[str, Plain]) -> BookieRecord:
    rest = {name: value for name, value in data.items() if name not in _KNOWN}
    return BookieRecord(
        boot_epoch=records.number(data, "bootEpoch") if "bootEpoch" in data else 0,
        written_off=_mark(data, "writtenOff"),
        draining=_mark(data, "draining"),
        lost_data=records.number(data, "lostData") if "lostData" in data else None,
        unknown=json.dumps(rest, sort_keys=True),
    )


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
    """Read what is said of a bookie; nothing is an empty record."""
    return await record_store.read(cluster, _path(cluster, bookie), CODEC) or BookieRecord()


async def count_boot(cluster: Cluster, bookie: BookieId, number: int) -> bool:
    """Give a start of a bookie this number; False: that one, or a higher one, is given already.

    Perhaps to this start, if the answer to that was lost: then the number is left out. No higher
    number than this is ever written.
    """
    free = True

    def decide(old: BookieRecord) -> BookieRecord:
        nonlocal free
        free = old.boot_epoch < number
        return dataclasses.replace(old, boot_epoch=number) if free else old

    await _change(cluster, bookie, decide)
    return free


async def drain(cluster: Cluster, bookie: BookieId, mark: Mark | None) -> None:
    """Say that a bookie is to be emptied, or (None) that it is not; the first to say it stands."""
    await _change(
        cluster,
        bookie,
        lambda old: dataclasses.replace(old, draining=mark and (old.draining or mark)),
    )


async def write_off(cluster: Cluster, bookie: BookieId, mark: Mark | None) -> None:
    """Say that a lost bookie's data has been repaired, or (None) that the bookie counts again."""
    await _change(
        cluster,
        bookie,
        lambda old: dataclasses.replace(old, written_off=mark and (old.written_off or mark)),
    )


async def lost_data(cluster: Cluster, bookie: BookieId, boot_epoch: int) -> None:
    """Say that a bookie does not answer for all that it once held, as of this start of it."""
    await _change(cluster, bookie, lambda old: dataclasses.replace(old, lost_data=boot_epoch))


async def has_all_again(cluster: Cluster, bookie: BookieId, boot_epoch: int) -> None:
    """Take back what a bookie said at a start; what it said at another one stands."""
    await _change(
        cluster,
        bookie,
        lambda old: (
            dataclasses.replace(old, lost_data=None) if old.lost_data == boot_epoch else old
        ),
    )


async def forget(cluster: Cluster, bookie: BookieId) -> None:
    """Remove all that is said of a bookie that was removed itself."""
    await record_store.change(cluster, _path(cluster, bookie), CODEC, lambda _: None)


def watch_all(
    cluster: Cluster,
) -> AbstractAsyncContextManager[AsyncIterator[dict[str, BookieRecord | UnreadableError]]]:
    """Follow what is said of all bookies."""
    return record_store.watch_all(cluster, cluster.root.beside("bookies"), CODEC)


async def _change(
    cluster: Cluster, bookie: BookieId, decide: Callable[[BookieRecord], BookieRecord]
) -> BookieRecord:
    after = await record_store.change(
        cluster, _path(cluster, bookie), CODEC, lambda old: decide(old or BookieRecord())
    )
    return after or BookieRecord()


def _path(cluster: Cluster, bookie: BookieId) -> str:
    return cluster.root.beside(f"bookies/{bookie}")
