"""The rows of ``zonekeeper top``: one for each bookie and zone, with remarks on slow ones. Pure.

A bookie is slow if the median of its appends, or of its reads, is at least three times what is
usual among the other bookies, and long enough to matter (``_SLOW_MS``). A bookie is slow at times
if its 99th percentile is, and long enough for that (``_SLOW_AT_TIMES_MS``). The second rule finds a
bookie that stands still again and again. Such a bookie measures long times only for the few
requests that it had taken by then: the others wait in its socket, and look quick. A bookie whose
metrics cannot be read has a row that says so, because users look for it most.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Final

from zonekeeper.placement.base.fields import Plain
from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.shell.reports.top_metrics import BookieWork

APPEND: Final = "append"
READ: Final = "read"
MEDIAN: Final = 0.5
NEARLY_ALL: Final = 0.99

_SLOW_TIMES: Final = 3
_SLOW_MS: Final = 10
#: A disk may take some tens of milliseconds now and then.
_SLOW_AT_TIMES_MS: Final = 100
#: Fewer slow operations are a hiccup, however few operations there are in all.
_SLOW_COUNT_MIN: Final = 3
#: Among fewer bookies no time counts as usual.
_COMPARED_MIN: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledBookie:
    """A bookie, as its metrics were read."""

    bookie: BookieId
    zone: ZoneName | None
    #: The work of the bookie, or the reason why it is not known.
    work: BookieWork | str
    waiting_bytes: int = 0
    #: As its metrics say it, without a name and a time; empty if the store says it.
    read_only_because: tuple[str, ...] = ()
    #: What keeps it from new data, as the store says it: as texts, and as plain data.
    restricted: tuple[str, ...] = ()
    restrictions: tuple[Mapping[str, Plain], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TopRow:
    """A row of the table."""

    zone: ZoneName | None
    #: None: the row is that of the whole zone.
    bookie: BookieId | None
    work: BookieWork | None
    waiting_bytes: int
    remarks: tuple[str, ...] = ()
    restrictions: tuple[Mapping[str, Plain], ...] = ()


def rows(seen: Sequence[SampledBookie]) -> list[TopRow]:
    """Give a row for each zone, and after it the rows of its bookies."""
    slow = _slow(seen)
    zones = sorted({each.zone for each in seen}, key=lambda zone: (zone is None, zone or ""))
    found = []
    for zone in zones:
        there = sorted((e for e in seen if e.zone == zone), key=lambda each: each.bookie)
        works = [each.work for each in there if isinstance(each.work, BookieWork)]
        away = len(there) - len(works)
        found.append(
            TopRow(
                zone=zone,
                bookie=None,
                work=reduce(add, works) if works else None,
                waiting_bytes=sum(each.waiting_bytes for each in there),
                remarks=(f"{away} of {len(there)} not seen",) if away else (),
            )
        )
        found += [_row(each, slow) for each in there]
    return found


def _row(each: SampledBookie, slow: Mapping[BookieId, tuple[str, ...]]) -> TopRow:
    work = each.work if isinstance(each.work, BookieWork) else None
    unseen = (each.work,) if isinstance(each.work, str) else ()
    read_only = (f"read-only: {', '.join(each.read_only_because)}",)
    return TopRow(
        zone=each.zone,
        bookie=each.bookie,
        work=work,
        waiting_bytes=each.waiting_bytes,
        remarks=(
            *unseen,
            *each.restricted,
            *(read_only if each.read_only_because else ()),
            *slow.get(each.bookie, ()),
        ),
        restrictions=each.restrictions,
    )


def _slow(seen: Sequence[SampledBookie]) -> dict[BookieId, tuple[str, ...]]:
    """Give the remarks on slow bookies: which operations are slow."""
    works = {each.bookie: each.work for each in seen if isinstance(each.work, BookieWork)}
    found: dict[BookieId, tuple[str, ...]] = {}
    for operation in (APPEND, READ):
        always = _outliers(works, operation, MEDIAN, _SLOW_MS)
        at_times = _outliers(works, operation, NEARLY_ALL, _SLOW_AT_TIMES_MS)
        for bookie in sorted(always | at_times):
            remark = f"slow {operation}s" + ("" if bookie in always else " at times")
            found[bookie] = (*found.get(bookie, ()), remark)
    return found


def _outliers(
    works: Mapping[BookieId, BookieWork], operation: str, share: float, least_ms: float
) -> set[BookieId]:
    """Name the bookies whose time is at least ``least_ms``, and far above that of the others."""
    times = {
        bookie: ms
        for bookie, work in works.items()
        if (ms := work.quantile_ms(operation, share)) is not None
    }
    found: set[BookieId] = set()
    if len(times) < _COMPARED_MIN:
        return found
    for bookie, ms in times.items():
        usual_ms = statistics.median_low([other for who, other in times.items() if who != bookie])
        limit_ms = max(least_ms, _SLOW_TIMES * usual_ms)
        if ms >= limit_ms and works[bookie].count(operation, limit_ms) >= _SLOW_COUNT_MIN:
            found.add(bookie)
    return found


def plain(row: TopRow) -> dict[str, object]:
    """Give a row as plain data."""
    work = row.work
    found: dict[str, object] = {
        "zone": row.zone,
        "bookie": row.bookie,
        "seen": work is not None,
        "waitingBytes": row.waiting_bytes,
        "remarks": list(row.remarks),
        "restrictions": [dict(one) for one in row.restrictions],
    }
    if work is not None:
        for operation in (APPEND, READ):
            found[operation] = {
                "perSecond": round(work.per_second(operation), 1),
                "medianMs": _finite(work.quantile_ms(operation, MEDIAN)),
                "p99Ms": _finite(work.quantile_ms(operation, NEARLY_ALL)),
            }
        found["errors"] = dict(sorted(work.errors.items()))
    return found


def _finite(ms: float | None) -> float | str | None:
    """Give a number as it is, and infinity (beyond the last bucket) as text: JSON has none."""
    return "over" if ms is not None and math.isinf(ms) else ms
