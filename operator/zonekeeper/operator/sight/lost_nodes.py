"""Bookies whose volumes are on a node that is no more. Pure.

A volume with a local disk is bound to its node: the PersistentVolume requires a host name. If no
node has that name any more, the pod of the bookie fits on no node. A volume that is bound to
anything else, such as a zone, is not lost with a node.

All of it must be seen at once: a pod that was never on a node, a claim of this very cluster with
that volume, and a list of nodes without that host. What is not known is no loss.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from zonekeeper.operator.cluster import owned_objects
from zonekeeper.operator.kubernetes.api import Json
from zonekeeper.operator.sight.observed import LostNode, Observed, Pod, VolumeClaim
from zonekeeper.operator.sight.pod_trouble import TroubleKind

#: The label of a node by which local volumes are bound to it.
HOST_LABEL: Final = "kubernetes.io/hostname"
#: The volumes of so many bookies are looked at in one turn.
LOOKED_AT_MAX: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class UnplacedBookie:
    """A bookie whose pod fits on no node, and that has a volume."""

    pod: Pod
    claim: VolumeClaim


def unplaced(observed: Observed) -> list[UnplacedBookie]:
    """Give the bookies whose volumes are to be looked at; none: nothing is read.

    A pod that leaves has no trouble. A claim that leaves already is given: where an operator ended
    between the deletions of a claim and its pod, the pod goes, too.
    """
    return list(_unplaced(observed))[:LOOKED_AT_MAX]


def _unplaced(observed: Observed) -> Iterator[UnplacedBookie]:
    for pod in sorted(observed.pods, key=lambda one: one.name):
        claim = observed.claims.get(owned_objects.claim_name(pod.name))
        if (
            pod.node is None
            and pod.trouble is not None
            and pod.trouble.kind is TroubleKind.UNSCHEDULABLE
            and claim is not None
            and claim.volume
            and claim.is_bound
            and claim.instance is not None
            and claim.instance == observed.instance
        ):
            yield UnplacedBookie(pod=pod, claim=claim)


def hosts(volume: Json | None) -> tuple[str, ...]:
    """Give the hosts on which a volume can be mounted; empty: it is not bound to hosts alone."""
    spec = {} if volume is None else volume.get("spec") or {}
    required = (spec.get("nodeAffinity") or {}).get("required") or {}
    found = set[str]()
    for term in required.get("nodeSelectorTerms") or ():
        named = [
            one.get("values") or ()
            for one in term.get("matchExpressions") or ()
            if one.get("key") == HOST_LABEL and one.get("operator") == "In"
        ]
        if not named:
            return ()
        found.update(map(str, named[0]))
    return tuple(sorted(found))


def lost(bookie: UnplacedBookie, on: tuple[str, ...]) -> LostNode:
    """Give the loss; the caller has seen that no node is one of these hosts."""
    return LostNode(
        bookie=bookie.pod.name,
        zone=bookie.pod.zone,
        pod=bookie.pod.uid,
        claim=bookie.claim.uid,
        host=", ".join(on),
    )
