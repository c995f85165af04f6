"""Bookies whose volume is lost: an empty disk stands where the store knows a bookie. Pure.

A bookie whose volume is on a node that is gone for long has lost it, too (``plan.volumes``).

A bookie refuses an empty disk under its old cookie, and its last words say so. That is the case
after the claim of its volume was deleted, or after its volume was wiped. A disk that is not mounted
looks the same to the bookie, and may come back.

Where the root was read, it must know the bookie, and the bookie must not be registered.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from zonekeeper.operator.roots.roots import RootFound
from zonekeeper.operator.sight.observed import Observed, Pod
from zonekeeper.operator.sight.pod_trouble import TroubleKind
from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.wire.running import seam


@dataclass(frozen=True, slots=True, kw_only=True)
class LostDisk:
    """A bookie whose disk is empty, so that its process refuses it; or is gone with its node."""

    bookie: BookieId
    zone: ZoneName
    #: The uid of its pod.
    uid: str
    #: The uid of the claim whose volume is gone with its node; empty: the disk is empty.
    claim: str = ""
    #: That node.
    host: str = ""

    def __str__(self) -> str:
        if self.claim:
            return (
                f"{self.bookie}: its volume is on the node {self.host}, which is gone for longer "
                "than spec.heal.after: the volume counts as lost"
            )
        return (
            f"{self.bookie}: its disk is empty, and the metadata store knows it by its cookie: the "
            "volume is lost, or is not mounted"
        )


def found(observed: Observed) -> tuple[LostDisk, ...]:
    """Give the bookies whose volumes are lost, in order."""
    root = observed.root
    return tuple(
        one
        for one in refusing(observed.pods)
        if not isinstance(root, RootFound)
        or (one.bookie in root.locations and one.bookie not in root.registered)
    )


def refusing(pods: Iterable[Pod]) -> Iterator[LostDisk]:
    """Give the bookies that refuse an empty disk, by their own words."""
    for pod in sorted(pods, key=lambda one: one.name):
        if not pod.leaving and _refuses(pod):
            yield LostDisk(bookie=pod.name, zone=pod.zone, uid=pod.uid)


def _refuses(pod: Pod) -> bool:
    trouble = pod.trouble
    if trouble is None or trouble.kind is not TroubleKind.CRASH_LOOP:
        return False
    return trouble.last_words is not None and seam.LOST_DISK in trouble.last_words
