"""The mark of a restored root: data that the root does not know may still be wanted.

An import sets the mark before it writes anything else. Ledgers that were created after the export
are not in the root, but bookies hold them. While the mark stands, bookies delete nothing, and new
ids come from a high part that no ledger has had. A person clears the mark once `metadata rebuild`
has found the ledgers that the export did not have.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from zonekeeper.metadata.cluster import record_store
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.cluster.record_store import Codec
from zonekeeper.metadata.formats import records
from zonekeeper.metadata.formats.malformed import stored_at
from zonekeeper.metadata.formats.records import ForeignRecordError
from zonekeeper.placement.base.fields import Plain
from zonekeeper.placement.base.troubles import Refusal


class RestoredAgainError(Refusal):
    """The mark is not the one that was decided on: the root was restored once more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """The mark, with what later imports, writers and people need to know."""

    at_ms: int
    #: The high part of the ids that are given out since the import.
    high: int
    #: The checksum of the export, by which the same import is recognised when it is run again.
    export: str


def _plain(mark: Restored) -> dict[str, Plain]:
    return {"atMs": mark.at_ms, "export": mark.export, "high": mark.high}


def _mark(data: Mapping[str, Plain]) -> Restored:
    return Restored(
        at_ms=records.number(data, "atMs"),
        high=records.number(data, "high"),
        export=records.text(data, "export"),
    )


CODEC: Final = Codec(render=_plain, parse=_mark)


def render(mark: Restored, instance: str) -> bytes:
    """Write the mark."""
    return records.render(_plain(mark), instance)


def parse(raw: bytes, instance: str) -> Restored:
    """Read the mark."""
    return _mark(records.parse(raw, instance))


async def read(cluster: Cluster) -> Restored | None:
    """Read the mark; None if nothing was restored here.

    Raises ``UnreadableError`` if the mark exists and cannot be read: then it stands.
    """
    path = _path(cluster)
    node = await cluster.store.get(path, sync=True)
    if node is None:
        return None
    with stored_at(path, cluster.store.name):
        try:
            return parse(node.value, cluster.instance)
        except ForeignRecordError:
            return None  # it is of an earlier cluster at this root


async def clear(cluster: Cluster, mark: Restored) -> None:
    """Remove the mark that a person decided on; it counts as done if the mark is gone already."""

    def decide(standing: Restored | None) -> None:
        if standing not in (None, mark):
            raise RestoredAgainError(
                f"{_path(cluster)} in {cluster.store.name} is of another import than the one that "
                "was looked at: look again, and decide again"
            )

    await record_store.change(cluster, _path(cluster), CODEC, decide)


def _path(cluster: Cluster) -> str:
    return cluster.root.beside("restored")
