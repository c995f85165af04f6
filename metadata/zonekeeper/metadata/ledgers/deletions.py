"""Records of deletions: which ledgers were deleted, by whom and when.

    <root>.zonekeeper/deletions/d-<sequence>          young records, which are folded together
    <root>.zonekeeper/deletions/f-<day>-<sequence>    folded records; nothing is added to them
    <root>.zonekeeper/deletions/f-<day>-i<sequence>   the same, from an export

Each deletion writes its record in the transaction that removes the ledger. So a ledger that is gone
and has no record was not deleted by a program of ours: the metadata may be damaged, or was changed
by another program. Bookies collect few such ledgers, and many only after a person's word.

A record holds ranges of ids, one kind of deleter, and the times of its first and last deletion.
Every ``FOLD_EVERY``-th deletion folds the young records of each deleter into one. A folded record
is closed when it is a day old or full. Closed records go after ``KEPT_DAYS``: by then each bookie
that was there has collected. At most ``FOLDED_MAX`` stay. A bookie that comes back later finds
ledgers without a record, and asks a person if they are many. A deleter whose clock is more than
``KEPT_DAYS`` ahead removes records too early, with the same outcome.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from typing import Final, TypeAlias

from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats import records
from zonekeeper.metadata.formats.malformed import (
    Flaw,
    MalformedError,
    UnreadableError,
    stored_at,
)
from zonekeeper.metadata.formats.records import ForeignRecordError
from zonekeeper.metadata.store.background import together
from zonekeeper.metadata.store.errors import StoreError
from zonekeeper.metadata.store.store import Create, Delete, Written, name_of
from zonekeeper.placement.base.fields import Plain
from zonekeeper.placement.base.ids import LedgerId

FOLD_EVERY: Final = 64
KEPT_DAYS: Final = 30
FOLDED_MAX: Final = 1_000
#: A record of so many ranges takes less than half of what a node may hold.
RANGES_MAX: Final = 10_000
BY_BYTES_MAX: Final = 200

_YOUNG: Final = "d-"
_FOLDED: Final = "f-"
#: Stands before the number of a record that was imported: the store did not count it.
_IMPORTED: Final = "i"
_DAY_MS: Final = 86_400_000
_READS_IN_FLIGHT_MAX: Final = 16
#: Records are listed at most so many times for one answer.
_LISTINGS_MAX: Final = 10
#: A transaction takes a limited number of writes; what is left is folded the next time.
_FOLDED_AT_ONCE_MAX: Final = 500

#: The first and the last id of a range.
IdRange: TypeAlias = tuple[LedgerId, LedgerId]


@dataclass(frozen=True, slots=True, kw_only=True)
class Deleter:
    """The kind of program that deletes (``client``, ``shell``, ``retention``), and wall time."""

    by: str
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletion:
    """A record: these ledgers were deleted. Its ranges are ascending and do not touch."""

    by: str
    first_ms: int
    last_ms: int
    ranges: tuple[IdRange, ...]


# ── deciding ──


def ranges_of(ids: Iterable[LedgerId]) -> tuple[IdRange, ...]:
    """Give the ranges of some ids, in any order."""
    return joined((one, one) for one in ids)


def joined(ranges: Iterable[IdRange]) -> tuple[IdRange, ...]:
    """Give ranges, ascending; those that touch or overlap are one."""
    found: list[IdRange] = []
    for first, last in sorted(ranges):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(last, found[-1][1]))
        else:
            found.append((first, last))
    return tuple(found)


def folded(young: Sequence[Deletion]) -> list[tuple[Deletion, list[int]]]:
    """Give one record for some of these records of one deleter each, and which they were.

    A record that alone has ``RANGES_MAX`` ranges, or that would make its fold longer, stays out.
    """
    found: list[tuple[Deletion, list[int]]] = []
    by_name = sorted(range(len(young)), key=lambda at: (young[at].by, at))
    for by, group in groupby(by_name, key=lambda at: young[at].by):
        ranges, taken = _fitting(young, list(group))
        if taken:
            whole = Deletion(
                by=by,
                first_ms=min(young[at].first_ms for at in taken),
                last_ms=max(young[at].last_ms for at in taken),
                ranges=ranges,
            )
            found.append((whole, taken))
    return found


def _fitting(
    young: Sequence[Deletion], members: list[int]
) -> tuple[tuple[IdRange, ...], list[int]]:
    """Give the ranges of those of some records that fit into one, and which they are."""
    # Nearly always all fit. To join them one by one would sort all ranges for each of them.
    ranges = joined(each for at in members for each in young[at].ranges)
    if len(ranges) <= RANGES_MAX:
        return ranges, members
    ranges, taken = (), []
    for at in members:
        more = joined((*ranges, *young[at].ranges))
        if len(more) <= RANGES_MAX:
            ranges = more
            taken.append(at)
    return ranges, taken


def render(deletion: Deletion, instance: str) -> bytes:
    """Write a record."""
    ranges: list[Plain] = [[int(first), int(last)] for first, last in deletion.ranges]
    plain: dict[str, Plain] = {
        "by": deletion.by,
        "firstMs": deletion.first_ms,
        "lastMs": deletion.last_ms,
        "ranges": ranges,
    }
    return records.render(plain, instance)


def parse(raw: bytes, instance: str) -> Deletion:
    """Read a record; raises ``UnreadableError`` or ``ForeignRecordError``."""
    data = records.parse(raw, instance)
    ranges = data.get("ranges")
    if not isinstance(ranges, list):
        raise MalformedError(Flaw.WRONG_TYPE, "ranges must be a list")
    found = tuple(map(_range, ranges))
    if found != joined(found):
        raise MalformedError(Flaw.OUT_OF_RANGE, "ranges must ascend, and must not touch")
    return Deletion(
        by=records.text(data, "by"),
        first_ms=records.number(data, "firstMs"),
        last_ms=records.number(data, "lastMs"),
        ranges=found,
    )


def _range(data: Plain) -> IdRange:
    if not isinstance(data, list):
        raise MalformedError(Flaw.WRONG_TYPE, "a range must be a list")
    numbers = [one for one in data if type(one) is int]
    if len(data) != len(numbers) or len(numbers) != 2 or not 0 <= numbers[0] <= numbers[1]:  # noqa: PLR2004 first and last
        raise MalformedError(Flaw.OUT_OF_RANGE, "a range is its first and its last id")
    return LedgerId(numbers[0]), LedgerId(numbers[1])


def imported_name(name: str, raw: bytes, instance: str) -> str | None:
    """Give the name under which an import puts a record back; None: nobody can read it.

    The store numbers the records of a root anew, from 0. If an imported record had the name of one
    that is numbered, a deletion that gets its number would be refused, and each later one as well.
    So an imported record is a folded one, and its number has a sign that the store never writes.
    """
    try:
        day = parse(raw, instance).last_ms // _DAY_MS
    except (UnreadableError, ForeignRecordError):
        return None
    return f"{_FOLDED}{day:08d}-{_IMPORTED}{name.rpartition('-')[2]}"


# ── doing ──


def directory(cluster: Cluster) -> str:
    """Give the path of the node above all records."""
    return cluster.root.beside("deletions")


def noted(cluster: Cluster, ids: Iterable[LedgerId], deleter: Deleter) -> Create:
    """Give the write of a record, for the transaction that deletes these ledgers."""
    ranges = ranges_of(ids)
    assert 0 < len(ranges) <= RANGES_MAX, f"{len(ranges)} ranges in one deletion"
    assert len(deleter.by.encode()) <= BY_BYTES_MAX, f"{deleter.by!r} is no kind of deleter"
    deletion = Deletion(by=deleter.by, first_ms=deleter.at_ms, last_ms=deleter.at_ms, ranges=ranges)
    value = render(deletion, cluster.instance)
    return Create(path=f"{directory(cluster)}/{_YOUNG}", value=value, sequential=True)


async def tidied(cluster: Cluster, written: Written, *, now_ms: int) -> None:
    """Fold and remove records if this record's number says so; an error is left to the next."""
    if int(name_of(written.path).removeprefix(_YOUNG)) % FOLD_EVERY == 0:
        with suppress(StoreError):
            await fold(cluster, now_ms=now_ms)


async def fold(cluster: Cluster, *, now_ms: int) -> None:
    """Fold young records together, close old or full folds, and remove what is too old."""
    names = await cluster.store.children(directory(cluster), sync=True) or ()
    today = now_ms // _DAY_MS
    begun = [name for name in names if name.startswith(_YOUNG)]
    young = await _read(cluster, begun[:_FOLDED_AT_ONCE_MAX])
    paths = list(young)
    for deletion, taken in folded(list(young.values())):
        closed = deletion.first_ms // _DAY_MS < today or len(deletion.ranges) == RANGES_MAX
        if len(taken) == 1 and not closed:
            continue
        prefix = f"{_FOLDED}{deletion.last_ms // _DAY_MS:08d}-" if closed else _YOUNG
        value = render(deletion, cluster.instance)
        await cluster.store.commit(
            [
                Create(path=f"{directory(cluster)}/{prefix}", value=value, sequential=True),
                *(Delete(path=paths[at], version=0) for at in taken),
            ]
        )
    await _remove_oldest(cluster, sorted(n for n in names if n.startswith(_FOLDED)), today)


async def recorded(cluster: Cluster, ids: Iterable[LedgerId]) -> set[LedgerId]:
    """Give those of these ids whose deletion has a record. A record that is damaged names none.

    Another program may fold records meanwhile. Then a record that was listed is gone, and its
    ranges are in one that was not: the records that are new are read as well.
    """
    wanted = sorted(set(ids))
    found, looked_at = set[LedgerId](), set[str]()
    for _ in range(_LISTINGS_MAX):
        names = await cluster.store.children(directory(cluster), sync=True) or ()
        fresh = [name for name in names if name not in looked_at]
        for at in range(0, len(fresh), _READS_IN_FLIGHT_MAX):
            for one in (await _read(cluster, fresh[at : at + _READS_IN_FLIGHT_MAX])).values():
                found |= _named(wanted, one.ranges)
        if not fresh:
            break
        looked_at.update(fresh)
    return found


def _named(wanted: Sequence[LedgerId], ranges: Iterable[IdRange]) -> set[LedgerId]:
    """Give those of some ids, which ascend, that lie in ranges."""
    found = set[LedgerId]()
    for first, last in ranges:
        found.update(wanted[bisect_left(wanted, first) : bisect_right(wanted, last)])
    return found


async def _read(cluster: Cluster, names: Sequence[str]) -> Mapping[str, Deletion]:
    """Read records, by their paths in the order of the names."""
    found: dict[str, Deletion] = {}
    for at in range(0, len(names), _READS_IN_FLIGHT_MAX):
        paths = [f"{directory(cluster)}/{name}" for name in names[at : at + _READS_IN_FLIGHT_MAX]]
        for path, one in zip(
            paths, await together(_read_one(cluster, path) for path in paths), strict=True
        ):
            if one is not None:
                found[path] = one
    return found


async def _read_one(cluster: Cluster, path: str) -> Deletion | None:
    node = await cluster.store.get(path)
    if node is None:
        return None
    try:
        with stored_at(path, cluster.store.name):
            return parse(node.value, cluster.instance)
    except (UnreadableError, ForeignRecordError):
        return None


async def _remove_oldest(cluster: Cluster, names: Sequence[str], today: int) -> None:
    for at, name in enumerate(names):
        day = name.removeprefix(_FOLDED).partition("-")[0]
        is_old = day.isdecimal() and int(day) + KEPT_DAYS < today
        if is_old or len(names) - at > FOLDED_MAX:
            await cluster.store.delete(f"{directory(cluster)}/{name}", version=None)
