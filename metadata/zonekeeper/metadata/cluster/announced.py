"""Processes that announce their pages: ``<root>.zonekeeper/processes/<session>``, ephemeral.

    kind      what the process is: ``autorecovery``
    name      its name in elections and claims
    zone      where it runs; "": it does not say
    http      HOST:PORT of its pages, as others reach them
    httpTls   true: the pages are by certificate, over TLS; not there: they are plain

A bookie announces its pages in its registration. An autorecovery process has none, so it has this
node. The node is named by the session that made it, so two processes of one name never meet, and
the node of a former start goes with its session. Nothing is decided by these nodes: they tell
people and commands where to look.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from zonekeeper.metadata.cluster import record_store
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.cluster.record_store import Codec
from zonekeeper.metadata.formats import records
from zonekeeper.metadata.formats.malformed import UnreadableError
from zonekeeper.metadata.store.background import together
from zonekeeper.metadata.store.errors import NodeExistsError
from zonekeeper.metadata.store.store import SessionId
from zonekeeper.placement.base.fields import Plain

READS_IN_FLIGHT_MAX: Final = 64
#: More announcements than this are not read.
ANNOUNCED_MAX: Final = 1_000

_DIRECTORY: Final = "processes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcement:
    """What a process says of itself, so that others find its pages."""

    kind: str
    name: str
    #: Empty: the process does not say.
    zone: str
    http: str
    #: The pages are by certificate.
    http_tls: bool = False


def _render(one: Announcement) -> dict[str, Plain]:
    tls: dict[str, Plain] = {"httpTls": True} if one.http_tls else {}
    return {"kind": one.kind, "name": one.name, "zone": one.zone, "http": one.http, **tls}


def _parse(data: Mapping[str, Plain]) -> Announcement:
    kind, name, zone, http = (records.text(data, key) for key in ("kind", "name", "zone", "http"))
    http_tls = data.get("httpTls") is True
    return Announcement(kind=kind, name=name, zone=zone, http=http, http_tls=http_tls)


CODEC: Final = Codec(render=_render, parse=_parse)


async def announce(cluster: Cluster, one: Announcement, session: SessionId) -> None:
    """Make the node of this session; may be called again. Raises ``StoreError``."""
    value = records.render(_render(one), cluster.instance)
    try:
        await cluster.store.create(
            f"{_directory(cluster)}/{session:x}",
            value,
            ephemeral=True,
            make_parents=True,
            session=session,
        )
    except NodeExistsError:
        return  # an answer was lost: only this session makes a node of this name


async def read_all(cluster: Cluster) -> tuple[Announcement, ...]:
    """Read all announcements, sorted; one that cannot be read is left out."""
    directory = _directory(cluster)
    names = sorted(await cluster.store.children(directory) or ())[:ANNOUNCED_MAX]
    found: list[Announcement] = []

    async def look(some: list[str]) -> None:
        for name in some:
            try:
                one = await record_store.read(cluster, f"{directory}/{name}", CODEC)
            except UnreadableError:
                continue
            if one is not None:
                found.append(one)

    await together(look(names[at::READS_IN_FLIGHT_MAX]) for at in range(READS_IN_FLIGHT_MAX))
    return tuple(sorted(found, key=lambda one: (one.kind, one.name, one.http)))


def _directory(cluster: Cluster) -> str:
    return cluster.root.beside(_DIRECTORY)
