"""Headroom: can the zones that are left hold the data of a lost zone?

A repair makes the copies of the lost zone again in the other zones. So these need room for its
data, and each must keep a part of its capacity free. Placement decides how the copies are divided,
not this arithmetic. So there are two answers of yes: an even share fits into every zone
(``FITS``), or the data fits only if fuller zones take less than an even share (``TIGHT``). If a
zone on which the answer depends is unknown, the answer is unknown.
"""

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from zonekeeper.placement.base.ids import ZoneName


class Room(enum.Enum):
    """Is there room?"""

    FITS = "fits"
    #: There is room in all zones together, but an even share is too large for some zone.
    TIGHT = "tight"
    UNKNOWN = "unknown"
    NO = "no"

    def __bool__(self) -> bool:
        raise TypeError("four answers are not two: compare with `is Room.FITS`")


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The bytes that a zone's bookies can hold, and do hold; None if unknown."""

    capacity_bytes: int | None
    used_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Headroom:
    """The answer for the loss of one zone."""

    zone: ZoneName
    room: Room
    #: The bytes that the lost zone holds; None if unknown.
    needed_bytes: int | None
    #: By zone, the bytes it can take and still keep its reserve: ``0 <= free``. Only known zones.
    free_bytes: Mapping[ZoneName, int]
    why: str


def judge(
    zones: Mapping[ZoneName, Usage], *, min_free: Fraction = Fraction(1, 10)
) -> tuple[Headroom, ...]:
    """Judge the loss of each zone; ``min_free`` is the share of capacity that must stay free."""
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
