"""What turns have found and how they ended, as numbers for people and probes.

The figures of a cluster are read from the status that a turn has decided, so a page and a resource
never say different things. The tally counts turns, and knows how long none has ended well: it
is what the liveness probe asks. A turn that only waits ended well. So did one whose act failed: it
has looked, decided and told, and a restart would not make the act succeed.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from zonekeeper.operator.kubernetes.api import Json
from zonekeeper.operator.plan.plans import TurnPlan

#: So long no turn may end well before the process is restarted.
WELL_MS_MAX: Final = 5 * 60_000


class ConditionFigure(NamedTuple):
    """A condition, without its words."""

    type: str
    status: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnFigures:
    """What one turn has found of its cluster."""

    #: The predicate that the cluster waits for; "": it is settled, or only acts.
    predicate: str
    conditions: tuple[ConditionFigure, ...]
    bookies_asked: int
    bookies_ready: int
    #: Pods of the cluster, and those of the newest template; None: no roll has counted them.
    pods_total: int | None
    pods_updated: int | None
    #: The gates that a roll waits for.
    gates: tuple[str, ...]


def of_plan(plan: TurnPlan) -> TurnFigures:
    """Read the figures from what a turn has decided."""
    status = plan.status
    roll: Json = status.get("roll") or {}
    return TurnFigures(
        predicate="" if plan.waits_for is None else str(plan.waits_for.predicate),
        conditions=tuple(
            ConditionFigure(item["type"], item["status"], item["reason"])
            for item in status.get("conditions") or ()
        ),
        bookies_asked=status.get("bookies", 0),
        bookies_ready=status.get("readyBookies", 0),
        pods_total=roll.get("total"),
        pods_updated=roll.get("updated"),
        gates=tuple(sorted({str(one["gate"]) for one in roll.get("waitingFor") or ()})),
    )


@dataclass(slots=True, kw_only=True)
class ClusterTally:
    """How the turns of one cluster ended."""

    #: When its last turn ended well, or when its first one was wanted.
    well_ms: int
    ended_well: int = 0
    failed: int = 0
    failed_acts: int = 0
    figures: TurnFigures | None = None


class TurnTally:
    """Counts the turns of all clusters that there are; ``elapsed_ms`` never goes back."""

    def __init__(self, elapsed_ms: Callable[[], int]) -> None:
        self._elapsed_ms = elapsed_ms
        self._clusters: dict[str, ClusterTally] = {}

    def begun(self, cluster: str) -> None:
        """There is a cluster, whose turns begin."""
        self._clusters[cluster] = ClusterTally(well_ms=self._elapsed_ms())

    def ended_well(self, cluster: str, figures: TurnFigures | None, failed_acts: int) -> None:
        """A turn has looked, decided and told."""
        one = self._clusters[cluster]
        one.ended_well += 1
        one.failed_acts += failed_acts
        one.well_ms, one.figures = self._elapsed_ms(), figures

    def failed(self, cluster: str) -> None:
        """A turn did not come to its end."""
        self._clusters[cluster].failed += 1

    def gone(self, cluster: str) -> None:
        """The cluster is gone."""
        self._clusters.pop(cluster, None)

    @property
    def clusters(self) -> Mapping[str, ClusterTally]:
        """The clusters that there are, by namespace and name."""
        return self._clusters

    def without_turn_ms(self, cluster: str) -> int:
        """Give the time since a turn of this cluster ended well."""
        return self._elapsed_ms() - self._clusters[cluster].well_ms

    def stalled(self) -> bool:
        """Has no turn of any cluster ended well for too long?"""
        times = [self.without_turn_ms(cluster) for cluster in self._clusters]
        return bool(times) and min(times) >= WELL_MS_MAX
