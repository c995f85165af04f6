"""What the operator has seen of the nodes that bookies stand on, from one turn to the next. Pure.

Labels of nodes change seldom, and a turn may come every two seconds for hundreds of bookies. So
what was read of a node serves for ``FRESH_MS``. Where a bookie has just gone, a drain may be under
way, and what was read serves for ``SOON_MS``. Conditions and waits are decided from it, and of acts
only two: that the policy names a new zone, and which zone may be drained. Nothing is deleted, moved
or started because of it. What is old there only makes a drain wait, or leaves a zone open for a
little longer.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from zonekeeper.operator.kubernetes.api import Json

#: For so long what was read of a node is used again.
FRESH_MS: Final = 30_000
#: For so long where a bookie of the node's zone has just gone.
SOON_MS: Final = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenNode:
    """A node as it was read at one time."""

    #: None: there was no such node.
    labels: Mapping[str, str] | None
    read_ms: int
    #: No further pod is placed on it: as a rule its pods are about to be evicted.
    cordoned: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSight:
    """The nodes that were read, by name."""

    seen: Mapping[str, SeenNode] = field(default_factory=dict)
    #: May the operator read nodes?
    permitted: bool = True

    @property
    def labels(self) -> Mapping[str, Mapping[str, str]] | None:
        """The labels of each node that there is; None: the operator may not read nodes."""
        if not self.permitted:
            return None
        return {name: one.labels for name, one in self.seen.items() if one.labels is not None}

    def is_cordoned(self, name: str | None) -> bool:
        """Is this node known to be cordoned?"""
        return name is not None and name in self.seen and self.seen[name].cordoned


def unread(
    sight: NodeSight, names: Iterable[str], *, now_ms: int, soon: Collection[str] = ()
) -> list[str]:
    """Name the nodes that must be read now; ``soon``: those in whose zone a bookie has gone."""
    return sorted(
        name
        for name in names
        if name not in sight.seen
        or now_ms - sight.seen[name].read_ms >= (SOON_MS if name in soon else FRESH_MS)
    )


def joined(
    sight: NodeSight,
    names: Iterable[str],
    found: Mapping[str, Json | None],
    *,
    now_ms: int,
) -> NodeSight:
    """Give what is known of these nodes, with what was read of some of them now."""
    fresh = {name: _seen(item, now_ms) for name, item in found.items()}
    known = {**sight.seen, **fresh}
    return NodeSight(seen={name: known[name] for name in sorted(names)})


def _seen(item: Json | None, now_ms: int) -> SeenNode:
    if item is None:
        return SeenNode(labels=None, read_ms=now_ms)
    return SeenNode(
        labels=item["metadata"].get("labels", {}),
        read_ms=now_ms,
        cordoned=item.get("spec", {}).get("unschedulable") is True,
    )
