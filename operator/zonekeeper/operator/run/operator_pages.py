"""What the operator's process shows of itself: is it alive, is it ready, and its numbers.

A process that stands by is alive and ready. If it were not, a new version of the operator would
never come to run beside the old one. The page says what it stands by for.
"""

from collections.abc import Mapping
from http import HTTPStatus

from zonekeeper.operator.lead import leading
from zonekeeper.operator.lead.leading import ActingRight
from zonekeeper.operator.run import operator_metrics
from zonekeeper.operator.run.turn_figures import WELL_MS_MAX, TurnTally
from zonekeeper.wire.running import looking, seam
from zonekeeper.wire.running.looking import Page, Pages


class OperatorPages:
    """The pages; ``right`` is set once the process stands for the Lease."""

    def __init__(self, tally: TurnTally) -> None:
        self._tally = tally
        self.right: ActingRight | None = None

    def table(self) -> Pages:
        """Give the pages by path."""
        return {
            seam.ALIVE_PATH: self.alive,
            seam.READY_PATH: self.ready,
            seam.METRICS_PATH: lambda: operator_metrics.page(self._tally, self.right),
        }

    def alive(self) -> Page:
        """Give ``/healthz``, which fails when a restart may help."""
        if not self._tally.stalled():
            return Page("alive\n")
        clusters = ", ".join(sorted(self._tally.clusters))
        return Page(
            f"no turn ended well for {WELL_MS_MAX // 60_000} minutes: {clusters}\n",
            HTTPStatus.SERVICE_UNAVAILABLE,
        )

    def ready(self) -> Page:
        """Give ``/readyz``."""
        if self.right is None:
            return looking.readiness({"kubernetes": "not reached yet"})
        return looking.readiness({}, self._remarks(self.right))

    def _remarks(self, right: ActingRight) -> Mapping[str, str]:
        if right.left_ms():
            return {"acts": f"this process holds {right.words()}"}
        if right.waits_for is None:
            return {"stands by": "no holder of the Lease is known yet"}
        place, holder = right.waits_for
        return {"stands by": standing_by(place, holder, right.me)}


def standing_by(place: object, holder: str, me: str) -> str:
    """Say for whom a process stands by, and what to do if that is not wanted."""
    if not leading.is_of_another(holder, me):
        return f"the Lease {place} is held by {holder}"
    return (
        f"the Lease {place} is held by {holder}, of another installation, which serves the same "
        "namespaces: remove one of the two"
    )
