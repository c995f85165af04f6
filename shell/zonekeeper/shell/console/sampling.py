"""Reading the pages of a cluster's processes over HTTP, round by round.

A round asks some processes at a time, and keeps of their pages only the numbers: the pages of a
thousand bookies are larger than what should stay in memory.
"""

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from zonekeeper.placement.base.fields import Plain
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.shell.console import figures
from zonekeeper.shell.console.figures import ClusterFigures, MetricsLook
from zonekeeper.shell.reaching import over_http
from zonekeeper.shell.reaching.last_seen import KnownProcess
from zonekeeper.shell.reaching.over_http import HttpLimits
from zonekeeper.shell.reaching.sights import Answering, ClusterSight, HttpSight
from zonekeeper.shell.reports import top_metrics
from zonekeeper.shell.reports.top_metrics import Look, NotMetricsError
from zonekeeper.wire.running.page_asking import PageFiles
from zonekeeper.wire.running.page_identity import ProcessKind

#: So many processes are asked at the same time.
_AT_ONCE: Final = 32
_LIMITS: Final = HttpLimits(page_ms=1_500, whole_ms=4_000, connections=_AT_ONCE)
_MOVED: Final = re.compile(r"^zonekeeper_repair_bytes_moved_total\S* (\d{1,18})$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledRound:
    """What a round gave."""

    figures: ClusterFigures = field(default_factory=ClusterFigures)
    #: By bookie: its ``/state``; None: it gave none.
    states: Mapping[BookieId, Mapping[str, Plain] | None] = field(default_factory=dict)
    #: What the autorecovery process that knows most shows; None: none answers.
    watching: Answering | None = None
    #: The bytes that repairs copied in a second, over all processes; None: not known.
    bytes_per_second: float | None = None


class Sampler:
    """Asks processes, and compares each round with the one before."""

    def __init__(self, files: PageFiles | None = None) -> None:
        """``files``: the certificate to show to processes whose pages are by certificate."""
        self._files = files
        self._looks: Mapping[BookieId, MetricsLook] = {}
        self._moved: Mapping[BookieId, tuple[float, int]] = {}

    async def sample(self, processes: Sequence[KnownProcess], instance: str | None) -> SampledRound:
        """Read the pages of all processes once."""
        looks: dict[BookieId, MetricsLook] = {}
        states: dict[BookieId, Mapping[str, Plain] | None] = {}
        moved: dict[BookieId, tuple[float, int]] = {}
        others: list[HttpSight] = []
        for begin in range(0, len(processes), _AT_ONCE):
            some = processes[begin : begin + _AT_ONCE]
            seen = await over_http.ask(
                some, instance=instance, metrics=True, limits=_LIMITS, files=self._files
            )
            at_s = asyncio.get_running_loop().time()
            for one in seen.sights:
                name = one.process.name
                if one.process.kind is ProcessKind.BOOKIE:
                    unit = (one.process.zone, one.process.upgrade_domain)
                    look = await asyncio.to_thread(_parsed, one)
                    looks[name] = MetricsLook(at_s=at_s, unit=unit, look=look)
                    states[name] = one.state if isinstance(one, Answering) else None
                else:
                    others.append(one)
                    if isinstance(one, Answering) and (found := _MOVED.findall(one.metrics or "")):
                        moved[name] = (at_s, sum(map(int, found)))
        found_round = SampledRound(
            figures=figures.of_round(self._looks, looks),
            states=states,
            watching=ClusterSight(sights=tuple(others)).watching,
            bytes_per_second=_rate(self._moved, moved),
        )
        self._looks, self._moved = looks, moved
        return found_round


def _parsed(sight: HttpSight) -> Look | str:
    if not isinstance(sight, Answering):
        return sight.why
    if sight.metrics is None:
        return "it gave no /metrics page"
    try:
        return top_metrics.parse(sight.metrics)
    except NotMetricsError as error:
        return str(error)


def _rate(
    before: Mapping[BookieId, tuple[float, int]], after: Mapping[BookieId, tuple[float, int]]
) -> float | None:
    """Give the bytes a second of all processes that answered twice and were not started anew."""
    rates = [
        (count - before[name][1]) / (at_s - before[name][0])
        for name, (at_s, count) in after.items()
        if name in before and at_s > before[name][0] and count >= before[name][1]
    ]
    return sum(rates) if rates else None
