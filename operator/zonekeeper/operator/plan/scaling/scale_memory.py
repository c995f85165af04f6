"""What a scale-down notes in ``status.scaling``: what was accepted, and claims. Pure.

The status is written before a turn acts. So a smaller number, or a zone that leaves, is noted
before the first bookie gets its order, and the claims of a bookie are noted by uid while its order
stands. Only claims that are noted are ever deleted or labelled.

If the notes are lost, nothing is deleted because of it: the claims stay, and an edit that was not
finished is judged anew. Notes that cannot be read count as lost.
"""

from dataclasses import dataclass

from zonekeeper.operator.kubernetes.api import Json
from zonekeeper.placement.base.ids import BookieId, ZoneName


@dataclass(frozen=True, slots=True, kw_only=True)
class NotedClaim:
    """One claim of a bookie that goes."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LeavingBookie:
    """A bookie that goes, and its volumes."""

    bookie: BookieId
    claims: tuple[NotedClaim, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleMemory:
    """The notes as a whole."""

    #: The number of bookies in each zone that was accepted; None: no scale-down is under way.
    target: int | None = None
    #: The zones that leave, until nothing of them is left.
    zones: tuple[ZoneName, ...] = ()
    #: The bookies whose orders were seen, by name, until their volumes are settled.
    leaving: tuple[LeavingBookie, ...] = ()


def read(status: Json) -> ScaleMemory:
    """Read the notes; what cannot be read is lost."""
    told = status.get("scaling")
    if not isinstance(told, dict):
        return ScaleMemory()
    try:
        return _read(told)
    except (KeyError, TypeError, ValueError):
        return ScaleMemory()


def plain(memory: ScaleMemory) -> Json:
    """Give the notes as the status has them."""
    told: Json = {}
    if memory.target is not None:
        told["target"] = memory.target
    if memory.zones:
        told["zones"] = list(memory.zones)
    if memory.leaving:
        told["leaving"] = [
            {
                "bookie": one.bookie,
                "claims": [{"name": claim.name, "uid": claim.uid} for claim in one.claims],
            }
            for one in memory.leaving
        ]
    return told


def _read(told: Json) -> ScaleMemory:
    target = told.get("target")
    return ScaleMemory(
        target=None if target is None else int(target),
        zones=tuple(ZoneName(str(one)) for one in told.get("zones") or ()),
        leaving=tuple(
            LeavingBookie(
                bookie=BookieId(str(one["bookie"])),
                claims=tuple(
                    NotedClaim(name=str(claim["name"]), uid=str(claim["uid"]))
                    for claim in one["claims"]
                ),
            )
            for one in told.get("leaving") or ()
        ),
    )
