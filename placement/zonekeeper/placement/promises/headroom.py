"""Can the zones that are left hold the data of a lost one?

Repair makes the lost zone's copies again in the others, so they need room for what it holds, and
each must keep some of its capacity free. Placement, not this arithmetic, decides how the copies
are shared out; so there are two answers of yes: where an even share fits into every zone, and where
all of it fits only if a fuller zone takes less. Where a zone that matters is unknown, so is the
answer.
"""

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from zonekeeper.placement.base.ids import ZoneName


class Room(enum.Enum):
    """Is there room?"""

    FITS = "fits"
    #: In all there is, but an even share is too much for some zone.
    TIGHT = "tight"
    UNKNOWN = "unknown"
    NO = "no"

    def __bool__(self) -> bool:
        raise TypeError("four answers are not two: compare with `is Room.FITS`")


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Bytes that a zone's bookies can hold and do hold; None: unknown."""

    capacity_bytes: int | None
    used_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Headroom:
    """The answer for the loss of one zone."""

    zone: ZoneName
    room: Room
    #: What the lost zone holds; None: unknown.
    needed_bytes: int | None
    #: What the others can take and still keep their reserve, as far as is known; never below 0.
    free_bytes: Mapping[ZoneName, int]
    why: str


def judge(
    zones: Mapping[ZoneName, Usage], *, min_free: Fraction = Fraction(1, 10)
) -> tuple[Headroom, ...]:
    """Judge the loss of each zone; ``min_free`` is the share of capacity that stays free."""
    assert 0 <= min_free < 1
    return tuple(_judge(zone, zones, min_free) for zone in sorted(zones))


def _judge(zone: ZoneName, zones: Mapping[ZoneName, Usage], min_free: Fraction) -> Headroom:
    others = sorted(name for name in zones if name != zone)
    known = {
        name: free for name in others if (free := _free_bytes(zones[name], min_free)) is not None
    }
    needed = zones[zone].used_bytes
    room, why = _answer(zone, needed, others, known)
    return Headroom(zone=zone, room=room, needed_bytes=needed, free_bytes=known, why=why)


def _answer(
    zone: ZoneName, needed: int | None, others: Sequence[ZoneName], free: Mapping[ZoneName, int]
) -> tuple[Room, str]:
    if needed is None:
        return Room.UNKNOWN, f"what zone {zone} holds is unknown"
    if not others:
        return Room.NO, "there is no other zone"
    silent = [name for name in others if name not in free]
    if silent:
        return Room.UNKNOWN, f"the room in {_listed(silent)} is unknown"
    if sum(free.values()) < needed:
        return Room.NO, f"{_listed(others)} cannot take what it holds"
    share = -(-needed // len(others))
    full = [name for name in others if free[name] < share]
    if full:
        return Room.TIGHT, f"an even share is too much for {_listed(full)}"
    return Room.FITS, f"evenly into {_listed(others)}"


def _free_bytes(usage: Usage, min_free: Fraction) -> int | None:
    if usage.capacity_bytes is None or usage.used_bytes is None:
        return None
    usable = int(usage.capacity_bytes * (1 - min_free))
    return max(0, usable - usage.used_bytes)


def _listed(zones: Sequence[ZoneName]) -> str:
    return ("zone " if len(zones) == 1 else "zones ") + ", ".join(zones)
