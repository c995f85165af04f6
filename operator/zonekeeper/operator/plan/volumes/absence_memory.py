"""What is noted in ``status.lostNodes`` of bookies whose nodes are gone with their disks. Pure.

The status is written before a turn acts. So a bookie is noted as given up before its claim is
deleted, and counts as being healed until it serves again, also for the next operator. If the notes
are lost, or cannot be read, the time begins anew.
"""

from dataclasses import dataclass

from zonekeeper.operator.kubernetes.api import Json
from zonekeeper.placement.base.ids import BookieId


@dataclass(frozen=True, slots=True, kw_only=True)
class AwayBookie:
    """A bookie whose node is gone."""

    bookie: BookieId
    #: The uid of the claim whose volume is on that node.
    claim: str
    #: For so long its node was seen to be gone.
    away_ms: int
    #: Wall time up to which that was counted.
    at_ms: int
    #: Its claim is deleted, so that it gets another volume.
    is_given_up: bool = False


def read(status: Json) -> dict[BookieId, AwayBookie]:
    """Read the notes; what cannot be read is lost."""
    told = status.get("lostNodes")
    try:
        found = [_read(one) for one in told or ()]
    except (AttributeError, KeyError, TypeError, ValueError):
        return {}
    return {one.bookie: one for one in found}


def plain(notes: dict[BookieId, AwayBookie]) -> list[Json]:
    """Give the notes as the status has them."""
    return [
        {
            "bookie": one.bookie,
            "claim": one.claim,
            "awayMs": one.away_ms,
            "atMs": one.at_ms,
            **({"givenUp": True} if one.is_given_up else {}),
        }
        for _, one in sorted(notes.items())
    ]


def _read(one: Json) -> AwayBookie:
    return AwayBookie(
        bookie=BookieId(str(one["bookie"])),
        claim=str(one["claim"]),
        away_ms=int(one["awayMs"]),
        at_ms=int(one["atMs"]),
        is_given_up=one.get("givenUp") is True,
    )
