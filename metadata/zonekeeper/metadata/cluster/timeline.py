"""The timeline: the newest events of a cluster and their causes, for people to read.

    <root>.zonekeeper/timeline/e-<sequence>

``event bytes <= 4096``, and the newest 1,000 events are kept. A failed write of an event never
stops the work that it reports: the caller decides what the error means. If the answer to a write
was lost, the event is looked for by its token before it is written again.
"""

from collections.abc import Container, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats import records
from zonekeeper.metadata.formats.malformed import Flaw, MalformedError, UnreadableError
from zonekeeper.metadata.formats.records import ForeignRecordError
from zonekeeper.metadata.store.errors import NoNodeError, StoreError

EVENT_SIZE_BYTES_MAX: Final = 4 * 1024
EVENTS_MAX: Final = 1_000
_PREFIX: Final = "e-"
_ATTEMPTS_MAX: Final = 5
#: If the answer to a write was lost, the event is among this many newest ones, or was not written.
_LOOKED_AT_MAX: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event."""

    #: Wall time.
    at_ms: int
    #: The kind, in one word or two: ``held``, ``released``, ``rolled``.
    kind: str
    #: The thing that it happened to: ``zone a``, ``bookie c-a-0``.
    subject: str
    #: The person or process that caused it.
    by: str
    reason: str
    #: A random text by which the writer recognises its event.
    token: str
    details: Mapping[str, str] = field(default_factory=dict)


def render(event: Event, instance: str) -> bytes:
    """Give an event's bytes; a long reason must be cut before: see ``EVENT_SIZE_BYTES_MAX``."""
    raw = records.render(
        {
            "atMs": event.at_ms,
            "kind": event.kind,
            "subject": event.subject,
            "by": event.by,
            "reason": event.reason,
            "token": event.token,
            "details": dict(event.details),
        },
        instance,
    )
    if len(raw) > EVENT_SIZE_BYTES_MAX:
        raise ValueError(
            f"an event of {len(raw)} bytes; the timeline takes {EVENT_SIZE_BYTES_MAX}: say less"
        )
    return raw


def parse(raw: bytes, instance: str) -> Event:
    """Read an event."""
    data = records.parse(raw, instance)
    details = data.get("details")
    if not isinstance(details, dict):
        raise MalformedError(Flaw.WRONG_TYPE, "details must be an object")
    return Event(
        at_ms=records.number(data, "atMs"),
        kind=records.text(data, "kind"),
        subject=records.text(data, "subject"),
        by=records.text(data, "by"),
        reason=records.text(data, "reason"),
        token=records.text(data, "token"),
        details={name: records.text(details, name) for name in details},
    )


async def append(cluster: Cluster, event: Event) -> None:
    """Add an event, and remove the oldest; after an error the event may be missing."""
    await _write(cluster, render(event, cluster.instance), event.token)
    with suppress(StoreError):  # the event is written; the next one removes the oldest, too
        await _forget_oldest(cluster)


async def put_back(cluster: Cluster, raw: bytes, *, known: Container[str]) -> bool:
    """Add an event from an export; False if it is there already, or is not ours."""
    try:
        token = parse(raw, cluster.instance).token
    except (UnreadableError, ForeignRecordError):
        return False
    if token in known:
        return False
    await _write(cluster, raw, token)
    return True


async def newest(cluster: Cluster, *, limit: int = EVENTS_MAX) -> list[Event]:
    """Read the newest events, the newest first; unreadable events are left out."""
    events: list[Event] = []
    for name in reversed(await _names(cluster)):
        if len(events) == limit:
            break
        node = await cluster.store.get(f"{_directory(cluster)}/{name}")
        if node is None:
            continue
        try:
            events.append(parse(node.value, cluster.instance))
        except (UnreadableError, ForeignRecordError):
            continue
    return events


async def _write(cluster: Cluster, raw: bytes, token: str) -> None:
    for attempts_left in reversed(range(_ATTEMPTS_MAX)):
        try:
            await cluster.store.create(
                f"{_directory(cluster)}/{_PREFIX}", raw, sequential=True, make_parents=True
            )
        except StoreError as error:
            if not error.maybe_applied or attempts_left == 0:
                raise
            looked_at = await newest(cluster, limit=_LOOKED_AT_MAX)
            if any(known.token == token for known in looked_at):
                return
        else:
            return


async def _forget_oldest(cluster: Cluster) -> None:
    for name in (await _names(cluster))[:-EVENTS_MAX]:
        try:
            await cluster.store.delete(f"{_directory(cluster)}/{name}", version=None)
        except NoNodeError:
            continue


async def _names(cluster: Cluster) -> list[str]:
    """Give the names of all event nodes, in the order of writing."""
    names: dict[int, str] = {}
    for name in await cluster.store.children(_directory(cluster), sync=True) or ():
        number = name.removeprefix(_PREFIX)
        if name.startswith(_PREFIX) and number.lstrip("-").isdecimal():
            names[int(number)] = name
    return [name for _, name in sorted(names.items())]


def _directory(cluster: Cluster) -> str:
    return cluster.root.beside("timeline")
