"""Writing an export back into a store: if a store is lost, the cluster need not be.

The first transaction makes the new root, sets the ``restored`` mark, and makes a high part for new
ids that no ledger has had. Ledgers that are younger than the export exist on bookies only. They
must be neither collected nor overwritten. So at no moment there is a root that only looks whole.

An interrupted import is run again. It continues where it stopped, and does not touch data that has
changed since. It refuses a root that holds anything else. The file is read twice: once to its end
before anything is written, and then node by node.

The timeline gets new numbers, in its order, because the store itself counts its nodes. Records of
deletions get names that have no number of the store's.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.cluster import restored, timeline
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.cluster.restored import Restored
from zonekeeper.metadata.formats import ledger_paths
from zonekeeper.metadata.formats.malformed import Flaw, MalformedError, UnreadableError
from zonekeeper.metadata.ledgers import deletions, ledger_ids
from zonekeeper.metadata.saving import export_format
from zonekeeper.metadata.saving.export_format import ExportFooter, ExportHeader, ExportNode
from zonekeeper.metadata.store.errors import NodeExistsError, StoreError
from zonekeeper.metadata.store.layout import OWN_SUFFIX, Root
from zonekeeper.metadata.store.store import Create, MetadataStore, Put, Write
from zonekeeper.placement.base.troubles import Refusal

#: The most nodes, and the most bytes, that are written together.
BATCH_NODES_MAX: Final = 200
BATCH_BYTES_MAX: Final = 256 * 1024
_ATTEMPTS_MAX: Final = 5

_TIMELINE: Final = f"{OWN_SUFFIX}/timeline/"
_MARK: Final = f"{OWN_SUFFIX}/restored"
_DELETIONS: Final = f"{OWN_SUFFIX}/deletions/"


class UnusableFileError(Refusal):
    """A file that was given is damaged, or not what it should be; nothing was written."""


class RootInUseError(Refusal):
    """The root holds a cluster already, and not one that this import began."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """The result of the first reading of a file; the file is whole."""

    header: ExportHeader
    footer: ExportFooter
    #: The largest high part of any id in the export, and the largest of its counters.
    high: int
    counted_high: int

    def fresh_high(self, now_ms: int) -> int:
        """Give a high part for new ids: see ``ledger_ids.fresh_high``."""
        return ledger_ids.fresh_high(counted=self.counted_high, used=self.high, now_ms=now_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """The result of an import."""

    cluster: Cluster
    written: int
    #: Nodes that existed already, from an earlier run or from the new root itself, and records of
    #: events and deletions that cannot be read.
    kept: int
    high: int


@contextmanager
def refused_unless_whole() -> Iterator[None]:
    """Turn damage of the file into a refusal: the caller can give another file."""
    try:
        yield
    except UnreadableError as error:
        raise UnusableFileError(str(error)) from error


def check(lines: Iterable[str]) -> Export:
    """Read an export to its end; raises ``UnreadableError`` unless it is whole."""
    header: ExportHeader | None = None
    footer: ExportFooter | None = None
    high = counted_high = 0
    for part in export_format.read(lines):
        match part:
            case ExportHeader():
                header = part
            case ExportFooter():
                footer = part
            case ExportNode(suffix):
                counted_high = max(counted_high, _counted_high(suffix))
                high = max(high, counted_high, (ledger_paths.parse(suffix) or 0) >> 32)
    if header is None or footer is None:
        raise MalformedError(Flaw.TRUNCATED, "the export is empty")
    return Export(header=header, footer=footer, high=high, counted_high=counted_high)


async def run(store: MetadataStore, lines: Callable[[], Iterable[str]], *, now_ms: int) -> Imported:
    """Import an export into the store's root; ``lines`` opens it, ``now_ms`` is wall time."""
    with refused_unless_whole():
        export = check(lines())
    cluster, mark = await _begin(store, export, now_ms)
    events = {event.token for event in await timeline.newest(cluster)}
    work = _Import(cluster, events)
    for part in export_format.read(lines()):
        if isinstance(part, ExportNode):
            await work.add(part)
    await work.flush()
    return Imported(cluster=cluster, written=work.written, kept=work.kept, high=mark.high)


async def _begin(store: MetadataStore, export: Export, now_ms: int) -> tuple[Cluster, Restored]:
    """Make the root with its mark, or find it as an earlier run of this import left it."""
    root, instance = Root(store.root), export.header.instance
    high = export.fresh_high(now_ms)
    mark = Restored(at_ms=now_ms, high=high, export=export.footer.checksum)
    directory = root.below("idgen-long")
    path, value = root.beside("restored"), restored.render(mark, instance)
    left = await store.get(path, sync=True)  # by an earlier cluster at this root
    beginning: list[Write] = [
        Create(path=path, value=value)
        if left is None
        else Put(path=path, value=value, version=left.version),
        Create(path=directory),
        Create(path=f"{directory}/{ledger_ids.high_directory(high)}"),
    ]
    try:
        cluster = await clusters.initialise(store, instance, also=beginning)
        standing = await restored.read(cluster)
    except clusters.ForeignRootError as error:
        raise RootInUseError(f"nothing was imported: {error}") from error
    if (
        standing is None
        or standing.export != export.footer.checksum
        or cluster.instance != instance
    ):
        raise RootInUseError(
            f"{root.path} in {store.name} holds a cluster already (instance {cluster.instance}), "
            "which this import did not begin; nothing was imported: choose an empty root"
        )
    return cluster, standing


class _Import:
    """Writes nodes in batches, parents first; a node that exists stays as it is."""

    def __init__(self, cluster: Cluster, events: set[str]) -> None:
        self._cluster = cluster
        self._events = events
        self._batch: list[Create] = []
        self._bytes = 0
        self.written = 0
        self.kept = 0

    async def add(self, node: ExportNode) -> None:
        if node.suffix in (OWN_SUFFIX, _MARK):
            return  # written with the root: our mark replaces the mark of an earlier restore
        if node.suffix.startswith(_TIMELINE):
            await self.flush()
            if await timeline.put_back(self._cluster, node.value, known=self._events):
                self.written += 1
            else:
                self.kept += 1
            return
        suffix = self._suffix(node)
        if suffix is None:
            self.kept += 1
            return
        if (
            len(self._batch) >= BATCH_NODES_MAX
            or self._bytes + len(node.value) > BATCH_BYTES_MAX  # a larger value goes alone
        ):
            await self.flush()
        self._batch.append(Create(path=self._cluster.root.path + suffix, value=node.value))
        self._bytes += len(node.value)

    def _suffix(self, node: ExportNode) -> str | None:
        """Give the path of a node below the root; None: it is left out."""
        if not node.suffix.startswith(_DELETIONS):
            return node.suffix
        name = node.suffix.removeprefix(_DELETIONS)
        known_as = deletions.imported_name(name, node.value, self._cluster.instance)
        return None if known_as is None else _DELETIONS + known_as

    async def flush(self) -> None:
        """Write the batch: all together, or one by one if a node exists already."""
        batch, self._batch, self._bytes = self._batch, [], 0
        if not batch:
            return
        try:
            await self._cluster.store.commit(batch)
        except NodeExistsError:
            await self._write_each(batch)
        except StoreError as error:
            if not error.maybe_applied:
                raise
            await self._write_each(batch)
        else:
            self.written += len(batch)

    async def _write_each(self, batch: list[Create]) -> None:
        for write in batch:
            for attempts_left in reversed(range(_ATTEMPTS_MAX)):
                try:
                    await self._cluster.store.commit([write])
                except NodeExistsError:
                    self.kept += 1
                    break
                except StoreError as error:
                    if not error.maybe_applied or attempts_left == 0:
                        raise
                else:
                    self.written += 1
                    break


def _counted_high(suffix: str) -> int:
    """Give the high part whose counter has this path; 0 if the path is not a counter's."""
    directory = suffix.removeprefix("/idgen-long/")
    return (ledger_ids.parse_high_directory(directory) or 0) if directory != suffix else 0
