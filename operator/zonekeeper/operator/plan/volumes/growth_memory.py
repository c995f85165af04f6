"""What is noted in ``status.growing`` of volumes that grew by themselves. Pure.

The status is written before a turn acts. So the time and the sizes are noted before the first claim
is told to grow. A size is noted as such, and not as a step: an operator that ends in between leaves
notes from which the next one tells the same claims the same sizes. No volume grows twice.

If the notes are lost, or cannot be read, the hour after a growth is forgotten: volumes that are
still too full may grow once more within it, and none beyond ``heal.grow.max``.
"""

from dataclasses import dataclass

from zonekeeper.operator.kubernetes.api import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class GrownClaim:
    """One claim, and the size that it was told to ask for."""

    name: str
    uid: str
    size: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowthNotes:
    """The last time that volumes grew by themselves."""

    #: Wall time.
    at_ms: int
    claims: tuple[GrownClaim, ...]


def read(status: Json) -> GrowthNotes | None:
    """Read the notes; what cannot be read is lost."""
    told = status.get("growing")
    if not isinstance(told, dict):
        return None
    try:
        claims = tuple(
            GrownClaim(name=str(one["name"]), uid=str(one["uid"]), size=str(one["size"]))
            for one in told.get("claims") or ()
        )
        return GrowthNotes(at_ms=int(told["atMs"]), claims=claims)
    except (KeyError, TypeError, ValueError):
        return None


def plain(notes: GrowthNotes) -> Json:
    """Give the notes as the status has them."""
    claims = [{"name": one.name, "uid": one.uid, "size": one.size} for one in notes.claims]
    return {"atMs": notes.at_ms, "claims": claims}
