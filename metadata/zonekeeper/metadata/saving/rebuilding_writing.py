"""Rebuilding ledgers in a store: read the hints, make the root if there is none, write ledgers.

The files are read twice: once to their ends before anything is used, and then side by side, ledger
by ledger. A ledger that is in the root already is never touched.

Everything is written under the ``restored`` mark, as after an import. Data that no hint mentions
may still be wanted, so bookies collect nothing. New ids come from a high part that no ledger has
had. A new root is made together with the mark, in one transaction. An existing root gets the mark
before the first ledger.
"""

import hashlib
import heapq
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, TypeAlias

from zonekeeper.metadata.bookies import cookie_store
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.cluster import restored
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.cluster.restored import Restored
from zonekeeper.metadata.formats.malformed import UnreadableError
from zonekeeper.metadata.ledgers import ledger_ids, ledgers
from zonekeeper.metadata.saving import export_format, importing, rebuilding, rebuilding_format
from zonekeeper.metadata.saving.rebuilding import Rebuilt
from zonekeeper.metadata.saving.rebuilding_format import HintsFooter, HintsHeader, LedgerHints, Part
from zonekeeper.metadata.store.background import together
from zonekeeper.metadata.store.layout import Root
from zonekeeper.metadata.store.store import Create, MetadataStore, Put, Write
from zonekeeper.placement.base.ids import BookieId, LedgerId
from zonekeeper.placement.base.troubles import Refusal

WRITES_IN_FLIGHT_MAX: Final = 64

_Told: TypeAlias = tuple[LedgerId, BookieId, LedgerHints]


class HintsConflictError(Refusal):
    """The files do not belong together, or not to this root; nothing was written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HintsFile:
    """A file of hints, and the function that opens it."""

    name: str
    lines: Callable[[], Iterable[str]]

    def read(self) -> Iterator[Part]:
        """Read the file from its beginning; raises ``UnreadableError`` with the file's name."""
        try:
            yield from rebuilding_format.read(self.lines())
        except UnreadableError as error:
            error.where = f"{self.name}, {error.where}" if error.where else self.name
            raise


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """Files of hints that are whole, one a bookie."""

    instance: str
    files: Mapping[BookieId, HintsFile]
    ledgers: int
    #: Of all files; it does not depend on their order.
    checksum: str
    highest_ledger: LedgerId


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenLedger:
    """The outcome for a ledger that was to be written."""

    rebuilt: Rebuilt
    #: False if the root has a ledger with this id already, which is not changed.
    created: bool


def check(files: Sequence[HintsFile]) -> Given:
    """Read all files to their ends; raises ``UnreadableError`` or ``HintsConflictError``."""
    by_bookie: dict[BookieId, HintsFile] = {}
    instances: dict[str, BookieId] = {}
    sums, count, highest = [], 0, 0
    for file in files:
        for part in file.read():
            match part:
                case HintsHeader(bookie=bookie):
                    if bookie in by_bookie:
                        raise HintsConflictError(
                            f"{by_bookie[bookie].name} and {file.name} are both of {bookie}: give "
                            "the newer one, of the higher generation, alone"
                        )
                    by_bookie[bookie] = file
                    instances.setdefault(part.instance, bookie)
                case LedgerHints(ledger_id=ledger_id):
                    count, highest = count + 1, max(highest, ledger_id)
                case HintsFooter(checksum=checksum):
                    sums.append(checksum)
    if len(instances) != 1:
        named = ", ".join(f"{bookie} {instance!r}" for instance, bookie in instances.items())
        raise HintsConflictError(f"the hints are of different clusters: {named or 'no files'}")
    return Given(
        instance=next(iter(instances)),
        files=by_bookie,
        ledgers=count,
        checksum=hashlib.sha256("".join(sorted(sums)).encode()).hexdigest(),
        highest_ledger=LedgerId(highest),
    )


async def bookies_of(store: MetadataStore, given: Given) -> list[BookieId]:
    """Give the bookies that the root knows; none if there is no root yet."""
    cluster = await _find(store, given)
    return [] if cluster is None else await cookie_store.ids(cluster)


def rebuilt(
    given: Given, *, known: Sequence[BookieId], passwords: Mapping[bytes, bytes]
) -> Iterator[Rebuilt]:
    """Rebuild all ledgers, in the order of their ids."""

    def told(bookie: BookieId, file: HintsFile) -> Iterator[_Told]:
        for part in file.read():
            if isinstance(part, LedgerHints):
                yield part.ledger_id, bookie, part

    sources = (told(bookie, file) for bookie, file in given.files.items())
    merged = heapq.merge(*sources, key=lambda one: one[:2])
    for ledger_id, group in groupby(merged, key=lambda one: one[0]):
        yield rebuilding.rebuild(
            ledger_id,
            {bookie: hints for _, bookie, hints in group},
            reporters=given.files.keys(),
            known=known,
            passwords=passwords,
        )


async def prepare(store: MetadataStore, given: Given, *, now_ms: int) -> Cluster:
    """Make the root, or find it, and mark it as restored if it is not."""
    cluster = await _find(store, given)
    if cluster is None:
        marking = await _marking(store, given, now_ms)
        cluster = await clusters.initialise(store, given.instance, also=marking)
        await _refuse_other(cluster, given)
    if await restored.read(cluster) is None:
        await store.commit(await _marking(store, given, now_ms))
    return cluster


async def write(cluster: Cluster, wanted: Iterable[Rebuilt]) -> AsyncGenerator[WrittenLedger, None]:
    """Write ledgers that are not in the root; all of them must have metadata."""
    batch: list[Rebuilt] = []
    for each in wanted:
        batch.append(each)
        if len(batch) == WRITES_IN_FLIGHT_MAX:
            for written in await together(_create(cluster, one) for one in batch):
                yield written
            batch.clear()
    for written in await together(_create(cluster, one) for one in batch):
        yield written


async def _create(cluster: Cluster, one: Rebuilt) -> WrittenLedger:
    assert one.metadata is not None, "a blocked ledger is not written"
    try:
        await ledgers.create(cluster, one.metadata, ledger_id=one.ledger_id, rebuilt=True)
    except ledgers.LedgerExistsError:
        return WrittenLedger(rebuilt=one, created=False)
    return WrittenLedger(rebuilt=one, created=True)


async def _find(store: MetadataStore, given: Given) -> Cluster | None:
    try:
        cluster = await clusters.open_cluster(store)
    except clusters.NotAClusterError:
        return None
    await _refuse_other(cluster, given)
    return cluster


async def _refuse_other(cluster: Cluster, given: Given) -> None:
    if cluster.instance != given.instance:
        raise HintsConflictError(
            f"{cluster} is another cluster than that of the hints (instance {given.instance}); "
            "its bookies would not start there: choose an empty root"
        )


async def _marking(store: MetadataStore, given: Given, now_ms: int) -> list[Write]:
    """Give the writes that mark a root, and that give new ids a high part of their own."""
    root = Root(store.root)
    directory = root.below("idgen-long")
    names = await store.children(directory, sync=True)
    counted = max(map(_high, names or ()), default=0)
    fresh = importing.Export(
        header=export_format.ExportHeader(given.instance, root.path),
        footer=export_format.ExportFooter(given.ledgers, given.checksum),
        high=max(counted, given.highest_ledger >> 32),
        counted_high=counted,
    ).fresh_high(now_ms)
    mark = Restored(at_ms=now_ms, high=fresh, export=given.checksum)
    path, value = root.beside("restored"), restored.render(mark, given.instance)
    left = await store.get(path, sync=True)  # by an earlier cluster at this root
    return [
        Create(path=path, value=value)
        if left is None
        else Put(path=path, value=value, version=left.version),
        *([] if names is not None else [Create(path=directory)]),
        Create(path=f"{directory}/{ledger_ids.high_directory(fresh)}"),
    ]


def _high(name: str) -> int:
    return ledger_ids.parse_high_directory(name) or 0
