"""The mark of a restored root: what is missing here may still be wanted.

An import of an export sets it before it writes anything else. Ledgers that were created after the
export are not in the root, though bookies hold them; while the mark stands bookies delete nothing,
and new ids come from a high part that no ledger has had. A person clears it once `metadata rebuild`
has found what the export did not know.
"""

from dataclasses import dataclass

from zonekeeper.metadata import records
from zonekeeper.metadata.cluster import Cluster
from zonekeeper.metadata.errors import NoNodeError, StoreError
from zonekeeper.metadata.records import ForeignRecordError


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """What an import left behind for those who come after."""

    at_ms: int
    #: The high part of the ids that are given out since.
    high: int
    #: The checksum of the export: the same import may be run again.
    export: str


def render(mark: Restored, instance: str) -> bytes:
    """Write the mark."""
    return records.render({"atMs": mark.at_ms, "export": mark.export, "high": mark.high}, instance)


def parse(raw: bytes, instance: str) -> Restored:
    """Read the mark."""
    data = records.parse(raw, instance)
    return Restored(
        at_ms=records.number(data, "atMs"),
        high=records.number(data, "high"),
        export=records.text(data, "export"),
    )


async def read(cluster: Cluster) -> Restored | None:
    """Read the mark; None: nothing was restored here.

    Raises ``UnreadableError`` if there is one that cannot be read: then it stands.
    """
    node = await cluster.store.get(cluster.root.beside("restored"), sync=True)
    if node is None:
        return None
    try:
        return parse(node.value, cluster.instance)
    except ForeignRecordError:
        return None  # of a cluster that was here before


async def clear(cluster: Cluster) -> None:
    """Remove the mark: a person says that everything has been found."""
    path = cluster.root.beside("restored")
    try:
        await cluster.store.delete(path, version=None)
    except NoNodeError:
        return
    except StoreError as error:
        if not error.maybe_applied or await cluster.store.exists(path, sync=True):
            raise
