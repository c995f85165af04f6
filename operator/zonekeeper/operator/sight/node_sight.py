"""What the operator has seen of the nodes that bookies stand on, from one turn to the next. Pure.

Labels of nodes change seldom, and a turn may come every two seconds for hundreds of bookies. So
what was read of a node serves for ``FRESH_MS``. Conditions and waits are decided from it, and of
acts only that the policy names a new zone.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

#: For so long what was read of a node is used again.
FRESH_MS: Final = 30_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenNode:
    """A node as it was read at one time."""

    #: None: there was no such node.
    labels: Mapping[str, str] | None
    read_ms: int


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


def unread(sight: NodeSight, names: Iterable[str], *, now_ms: int) -> list[str]:
    """Name the nodes that must be read now."""
    return sorted(
        name
        for name in names
        if name not in sight.seen or now_ms - sight.seen[name].read_ms >= FRESH_MS
    )


def joined(
    sight: NodeSight,
    names: Iterable[str],
    found: Mapping[str, Mapping[str, str] | None],
    *,
    now_ms: int,
) -> NodeSight:
    """Give what is known of these nodes, with what was read of some of them now."""
    fresh = {name: SeenNode(labels=labels, read_ms=now_ms) for name, labels in found.items()}
    known = {**sight.seen, **fresh}
    return NodeSight(seen={name: known[name] for name in sorted(names)})
