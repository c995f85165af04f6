"""The work of bookies between two rounds of reading their metrics: by bookie, unit, zone. Pure.

The latency of several bookies is that of all their requests together, not an average of theirs. A
bookie is called slow by the rule of ``zonekeeper top``.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.shell.console.snapshot import BookieFigures
from zonekeeper.shell.reports import top_metrics, top_rows
from zonekeeper.shell.reports.top_metrics import BookieWork, Look
from zonekeeper.shell.reports.top_rows import APPEND, NEARLY_ALL, READ, SampledBookie

#: A zone and an upgrade domain; None: not known.
Unit = tuple[str | None, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsLook:
    """A bookie's metrics at a time of this process's clock, or the reason why there are none."""

    at_s: float
    unit: Unit
    look: Look | str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFigures:
    """The figures of one round."""

    bookies: Mapping[BookieId, BookieFigures] = field(default_factory=dict)
    units: Mapping[Unit, BookieFigures] = field(default_factory=dict)
    zones: Mapping[str | None, BookieFigures] = field(default_factory=dict)
    whole: BookieFigures = field(default_factory=BookieFigures)
    #: By bookie: did its page answer?
    answers: Mapping[BookieId, bool | None] = field(default_factory=dict)
    #: By bookie: what is to be said of its speed, or why its page did not answer.
    remarks: Mapping[BookieId, tuple[str, ...]] = field(default_factory=dict)


def of_round(
    before: Mapping[BookieId, MetricsLook], after: Mapping[BookieId, MetricsLook]
) -> ClusterFigures:
    """Compare two rounds."""
    sampled = [_sampled(bookie, before.get(bookie), now) for bookie, now in sorted(after.items())]
    works = {one.bookie: one.work for one in sampled if isinstance(one.work, BookieWork)}
    units: dict[Unit, list[BookieWork]] = {}
    zones: dict[str | None, list[BookieWork]] = {}
    for bookie, work in works.items():
        unit = after[bookie].unit
        units.setdefault(unit, []).append(work)
        zones.setdefault(unit[0], []).append(work)
    return ClusterFigures(
        bookies={bookie: _figures([work]) for bookie, work in works.items()},
        units={unit: _figures(some) for unit, some in units.items()},
        zones={zone: _figures(some) for zone, some in zones.items()},
        whole=_figures(list(works.values())),
        answers={bookie: isinstance(one.look, Look) for bookie, one in after.items()},
        remarks=_remarks(sampled, after),
    )


def _sampled(bookie: BookieId, before: MetricsLook | None, after: MetricsLook) -> SampledBookie:
    zone = after.unit[0]
    work: BookieWork | str = "seen for the first time"
    if isinstance(after.look, str):
        work = after.look
    elif before is not None and isinstance(before.look, Look) and after.at_s > before.at_s:
        work = top_metrics.between(before.look, after.look, after.at_s - before.at_s)
    return SampledBookie(bookie=bookie, zone=None if zone is None else ZoneName(zone), work=work)


def _remarks(
    sampled: Sequence[SampledBookie], after: Mapping[BookieId, MetricsLook]
) -> dict[BookieId, tuple[str, ...]]:
    found = {
        row.bookie: row.remarks
        for row in top_rows.rows(sampled)
        if row.bookie is not None and row.work is not None and row.remarks
    }
    silent = {
        bookie: (f"its page does not answer: {one.look}",)
        for bookie, one in after.items()
        if isinstance(one.look, str)
    }
    return {**found, **silent}


def _figures(works: Sequence[BookieWork]) -> BookieFigures:
    if not works:
        return BookieFigures()
    took = {name: sum((one.took.get(name, _NONE) for one in works), _NONE) for name in _NAMES}
    whole = BookieWork(seconds=works[0].seconds, took=took)
    return BookieFigures(
        appends_per_second=round(sum(one.per_second(APPEND) for one in works), 1),
        append_p99_ms=whole.quantile_ms(APPEND, NEARLY_ALL),
        reads_per_second=round(sum(one.per_second(READ) for one in works), 1),
        read_p99_ms=whole.quantile_ms(READ, NEARLY_ALL),
    )


_NAMES: Final = (APPEND, READ)
_NONE: Final[Counter[float]] = Counter()
