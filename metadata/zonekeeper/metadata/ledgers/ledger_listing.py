"""All ledgers in the order of their ids, without holding all of them in memory.

The tree is read node by node, and no node has more than 10,000 children. Only the children of the
nodes on one path from the top are in memory, even for a root with millions of ledgers. A listing
may cover any range of ids. So a listing that was interrupted can continue, and several processes
can share the work. A ledger that exists during the whole listing is listed. A ledger that is
created or deleted meanwhile may be listed or not.
"""

import re
from collections.abc import AsyncGenerator, Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats import ledger_paths
from zonekeeper.metadata.formats.ledger_paths import (
    LEDGER_ID_MAX,
    LONG_LEVELS,
    SHORT_ID_END,
    SHORT_LEVELS,
)
from zonekeeper.metadata.formats.malformed import UnreadableError
from zonekeeper.metadata.ledgers import ledgers
from zonekeeper.metadata.ledgers.ledgers import StoredLedger
from zonekeeper.metadata.store.background import together
from zonekeeper.placement.base.ids import LedgerId

READS_IN_FLIGHT_MAX: Final = 64

_FIRST: Final = LedgerId(0)
_LAST: Final = LedgerId(LEDGER_ID_MAX)
_TREES: Final = (
    (SHORT_LEVELS, _FIRST, LedgerId(SHORT_ID_END - 1)),
    (LONG_LEVELS, LedgerId(SHORT_ID_END), _LAST),
)


@dataclass(frozen=True, slots=True)
class UnreadableLedger:
    """A ledger that exists, but whose metadata cannot be read."""

    id: LedgerId
    error: UnreadableError


Listed: TypeAlias = StoredLedger | UnreadableLedger


async def ids(
    cluster: Cluster, *, first: LedgerId = _FIRST, last: LedgerId = _LAST
) -> AsyncGenerator[LedgerId, None]:
    """List the ids from ``first`` to ``last``, both included, in ascending order.

    The two trees are read one after the other: every long id is greater than every short id.
    """
    for levels, low, high in _TREES:
        if first > high or last < low:
            continue
        async for path in _walk(cluster, levels, max(first, low), min(last, high)):
            ledger_id = ledger_paths.parse(path)
            if ledger_id is not None and first <= ledger_id <= last:
                yield ledger_id


async def all_of(
    cluster: Cluster, *, first: LedgerId = _FIRST, last: LedgerId = _LAST
) -> AsyncGenerator[Listed, None]:
    """List the ledgers from ``first`` to ``last``, both included, in ascending order.

    The metadata of ``READS_IN_FLIGHT_MAX`` ledgers is read at a time.
    """
    batch: list[LedgerId] = []
    async for ledger_id in ids(cluster, first=first, last=last):
        batch.append(ledger_id)
        if len(batch) == READS_IN_FLIGHT_MAX:
            for listed in await _read(cluster, batch):
                yield listed
            batch.clear()
    for listed in await _read(cluster, batch):
        yield listed


async def _walk(
    cluster: Cluster, levels: tuple[int, ...], first: LedgerId, last: LedgerId
) -> AsyncGenerator[str, None]:
    """Walk through one tree, without the directories that have nothing of the range."""
    digits = sum(levels)
    low, high = f"{first:0{digits}d}", f"{last:0{digits}d}"
    todo = [("", "")]  # directories to read, the next one last: digits so far, path
    while todo:
        prefix, directory = todo.pop()
        depth = directory.count("/")
        mark = "L" if depth == len(levels) - 1 else ""
        names = await cluster.store.children(cluster.root.path + directory) or ()
        below = [
            (prefix + name.removeprefix(mark), f"{directory}/{name}")
            for name in names
            if re.fullmatch(rf"{mark}[0-9]{{{levels[depth]}}}", name)
        ]
        inside = [
            (so_far, path)
            for so_far, path in below
            if low[: len(so_far)] <= so_far <= high[: len(so_far)]
        ]
        if mark:
            for _, path in inside:
                yield path
        else:
            todo += reversed(inside)


async def _read(cluster: Cluster, batch: Iterable[LedgerId]) -> list[Listed]:
    async def read(ledger_id: LedgerId) -> Listed | None:
        try:
            return await ledgers.read(cluster, ledger_id)
        except UnreadableError as error:
            return UnreadableLedger(ledger_id, error)

    found = await together(read(ledger_id) for ledger_id in batch)
    return [listed for listed in found if listed is not None]
