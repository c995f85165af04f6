"""New ledger ids: Apache BookKeeper's counters in the store.

    idgen/ID-<n>                      ids 0 to 2**31 - 2
    idgen-long/HOB-<high>/ID-<low>    id = high << 32 | low, as soon as ``idgen-long`` is there

The store numbers the children of a node. The number is the id; the child itself is ephemeral and is
removed again. An id is never given twice. An id is skipped if the answer with it was lost, or if
the long form or a higher part began meanwhile.

The long form begins when the short one is used up, or after a restore. The mark of a restored root
is then set together with a high part (``HOB``: high-order bits) that no ledger has. So new ledgers
do not overwrite ledgers that the root does not know and that bookies may still hold. ``HOB``
directories are never removed: there is one for each 2**31 ledgers.
"""

import contextlib
import re
from typing import Final

from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats.ledger_paths import SHORT_ID_END
from zonekeeper.metadata.store.errors import StoreError
from zonekeeper.metadata.store.store import name_of
from zonekeeper.placement.base.ids import LedgerId
from zonekeeper.placement.base.troubles import Trouble

HIGH_MAX: Final = (1 << 31) - 1
_FIRST_HIGH: Final = 1
_ATTEMPTS_MAX: Final = 5

#: A fresh high part is at least the seconds since 2020, so that two restores of one export do not
#: share one.
_EPOCH_MS: Final = 1_577_836_800_000

_HIGH_DIRECTORY: Final = re.compile(r"HOB-([0-9]{10})")
_NUMBERED: Final = re.compile(r"ID-(-?[0-9]{1,10})")


class IdsUsedUpError(Trouble):
    """Every ledger id has been given out."""


def high_directory(high: int) -> str:
    """Give the name of the directory that counts the low parts of a high part."""
    assert 0 < high <= HIGH_MAX, f"{high} is no high part of an id"
    return f"HOB-{high:010d}"


def parse_high_directory(name: str) -> int | None:
    """Give the high part of a directory; None if the name is not that of such a directory."""
    found = _HIGH_DIRECTORY.fullmatch(name)
    return int(found[1]) if found and 0 < int(found[1]) <= HIGH_MAX else None


def fresh_high(*, counted: int, used: int, now_ms: int) -> int:
    """Give a high part that was never counted, and that no id has.

    ``counted`` is the largest high part of the counters, ``used`` that of any known id; ``now_ms``
    is wall time. A client may have chosen ids itself, up to the last high parts. Then only high
    parts that were counted are avoided. An id that belongs to a ledger is skipped when it is drawn.
    """
    by_clock = (now_ms - _EPOCH_MS) // 1000
    fresh = max(counted + 1, used + 1, by_clock)
    if fresh > HIGH_MAX:
        fresh = max(counted + 1, by_clock)
    if fresh > HIGH_MAX:
        raise IdsUsedUpError("the counters have given out every ledger id")
    return fresh


async def counted_highs(cluster: Cluster) -> tuple[int, ...] | None:
    """Give the high parts that are counted, ascending; None: ids are short. It is a synced read."""
    names = await cluster.store.children(cluster.root.below("idgen-long"), sync=True)
    if names is None:
        return None
    return tuple(sorted(high for high in map(parse_high_directory, names) if high is not None))


async def given_out(cluster: Cluster) -> int:
    """Give a number that every id that was given out is below; it never falls. A synced read."""
    highs = await counted_highs(cluster)
    high = 0 if highs is None else max(highs, default=_FIRST_HIGH)
    node = await cluster.store.get(_directory(cluster, high), sync=True)
    return high << 32 | (0 if node is None else node.children_made)


async def allocate(cluster: Cluster) -> LedgerId:
    """Give an id that no ledger of this cluster ever had."""
    high = await _highest(cluster)
    while high <= HIGH_MAX:
        low = await _next(cluster, _directory(cluster, high))
        # The first read may have been from a follower of the store that is behind. A read after a
        # write of our own is no older than that write.
        now = await _highest(cluster)
        if now <= high and low is not None:
            return LedgerId(high << 32 | low)
        high = max(now, high + 1)
    raise IdsUsedUpError(f"{cluster} has given out every ledger id")


async def _highest(cluster: Cluster) -> int:
    """Give the present high part of ids; 0 while ids are short."""
    names = await cluster.store.children(cluster.root.below("idgen-long"))
    if names is None:
        return 0
    known = [high for high in map(parse_high_directory, names) if high is not None]
    return max(known, default=_FIRST_HIGH)


def _directory(cluster: Cluster, high: int) -> str:
    below = f"idgen-long/{high_directory(high)}" if high else "idgen"
    return cluster.root.below(below)


async def _next(cluster: Cluster, directory: str) -> int | None:
    """Take the next number of a directory; None if it has no more."""
    path = await _numbered(cluster, directory)
    found = _NUMBERED.fullmatch(name_of(path))
    assert found is not None, f"{path} is not what a sequential node is called"
    with contextlib.suppress(StoreError):  # it is ephemeral, and only its number matters
        await cluster.store.delete(path, version=None)
    number = int(found[1])
    return number if 0 <= number < SHORT_ID_END else None


async def _numbered(cluster: Cluster, directory: str) -> str:
    for attempts_left in reversed(range(_ATTEMPTS_MAX)):
        try:
            return await cluster.store.create(
                f"{directory}/ID-", ephemeral=True, sequential=True, make_parents=True
            )
        except StoreError as error:
            if not error.maybe_applied or attempts_left == 0:
                raise
    raise AssertionError("the last attempt returns or raises")
