"""What a scale-down waits for before the next bookie gets its order. Pure.

The gates are those of the roll, asked for the bookie that is to go: all other bookies are there and
take writes, nothing is marked for repair, no zone is held or down, the zone watch has looked since
the last change, and no ledger would be at risk if the bookie died while it is emptied. Beside them
its zone must have room for what it holds. What is not known does not hold.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Final

from zonekeeper.metadata.formats.service_info import PublishedRoom
from zonekeeper.operator.cluster import owned_objects
from zonekeeper.operator.cluster.desired import Desired
from zonekeeper.operator.plan.scaling import leaving
from zonekeeper.operator.roll import gating, order
from zonekeeper.operator.roll.gates import RollGate
from zonekeeper.operator.roll.gating import RollGround
from zonekeeper.operator.roll.order import Step, ZoneSet
from zonekeeper.operator.roots.roots import RootFound
from zonekeeper.operator.shapes import quantities
from zonekeeper.operator.sight.observed import Observed
from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.placement.base.upgrade_domains import RoundRobin

#: This share of each volume that is left must stay free.
RESERVE: Final = Fraction(1, 10)
#: They are about the roll itself.
_OF_ROLL: Final = (RollGate.PAUSED, RollGate.BAKING)


def waits(
    desired: Desired, observed: Observed, sets: tuple[ZoneSet, ...], bookie: BookieId
) -> Iterator[str]:
    """Give everything that the next order waits for, in words; nothing: it may be given."""
    if desired.scale_down_paused:
        yield "spec.scaleDown.paused is true: no further bookie is emptied until it is false"
    zone = leaving.zone_of(desired, bookie)
    domains = RoundRobin(upgrade_domains=desired.policy.placement.upgrade_domains)
    unit = order.unit_of(bookie, zone, domains)
    ground = RollGround(desired=desired, observed=_without_records(desired, observed), sets=sets)
    for one in gating.waits(ground, Step(unit=unit, bookies=(bookie,))):
        if one.gate not in _OF_ROLL:
            yield f"{one.gate}: {one.what}; {one.runbook}"
    if zone in leaving.zones_going(desired, observed):
        yield from zone_room(desired, observed, zone)
    else:
        yield from _room(desired, observed, zone, bookie)


def zone_room(desired: Desired, observed: Observed, zone: ZoneName) -> Iterator[str]:
    """Ask the zones that stay for room: the copies of a zone that leaves come to them.

    The payload of closed ledgers counts, as in ``_room``. While the ledgers are not read, it is not
    known whether there is room.
    """
    sight, root = observed.ledgers, observed.root
    if sight is None or not isinstance(root, RootFound) or root.work is None:
        yield f"whether the others have room for what zone {zone} holds: the ledgers are being read"
        return
    held, reserve = sight.kinds.held_bytes, _reserve(desired)
    needed = sum(count for one, count in held.items() if leaving.zone_of(desired, one) == zone)
    takes, rooms = root.registered - root.read_only, root.work.rooms
    volume = _least(desired)
    free: dict[ZoneName, int] = {one.name: 0 for one in desired.zones}
    for one, at in root.locations.items():
        if at is None or at.zone not in free or one not in takes:
            continue
        own = _own(rooms[one], rooms.values()) if one in rooms else volume - held.get(one, 0)
        free[at.zone] += max(0, own - reserve)
    if needed > sum(free.values()):
        told = ", ".join(f"{name}: {count}" for name, count in free.items())
        yield (
            f"no room: zone {zone} holds {needed} bytes of closed ledgers, and the zones that stay "
            f"have {sum(free.values())} bytes free ({told}) if a tenth of a volume stays free on "
            f"each; name zone {zone} again, make volumes larger, or delete ledgers"
        )


def _without_records(desired: Desired, observed: Observed) -> Observed:
    """Leave out the records of bookies that are to go: a person may drain them already."""
    root = observed.root
    if not isinstance(root, RootFound) or root.work is None:
        return observed
    going = leaving.beyond(desired, observed, root)
    others = {name: one for name, one in root.work.records.items() if name not in going}
    return replace(observed, root=replace(root, work=replace(root.work, records=others)))


def _room(desired: Desired, observed: Observed, zone: ZoneName, bookie: BookieId) -> Iterator[str]:
    """Ask the zone for room: the copies of the bookie that is to go stay in it.

    The payload of closed ledgers counts; of open ones the length is not known yet. The others say
    their room in their registrations. Where one of them does not, their volumes are counted, and
    what they hold.
    """
    sight, root = observed.ledgers, observed.root
    if sight is None or not isinstance(root, RootFound) or root.work is None:
        return  # a gate waits for the same listing, and for the root
    held = sight.kinds.held_bytes
    takes = root.registered - root.read_only - {bookie}
    others = [one for one, at in root.locations.items() if at and at.zone == zone and one in takes]
    needed, reserve = held.get(bookie, 0), _reserve(desired)
    rooms = root.work.rooms
    if all(one in rooms for one in others):
        free = sum(max(0, _own(rooms[one], rooms.values()) - reserve) for one in others)
    else:
        volume = _least(desired)
        free = sum(max(0, volume - reserve - held.get(one, 0)) for one in others)
    if needed > free:
        yield (
            f"no room in zone {zone}: {bookie} holds {needed} bytes of closed ledgers, and the "
            f"{len(others)} other bookies of the zone have {free} bytes free if a tenth of a "
            "volume stays free on each; set spec.bookiesPerZone to what it was, or delete ledgers"
        )


def _least(desired: Desired) -> int:
    """Give what each bookie's volume has at least."""
    return int(quantities.value(owned_objects.volumes(desired)[owned_objects.VOLUME].size) or 0)


def _reserve(desired: Desired) -> int:
    return int((quantities.value(desired.volume.size) or 0) * RESERVE.numerator) // (
        RESERVE.denominator
    )


def _own(room: PublishedRoom, rooms: Iterable[PublishedRoom]) -> int:
    """Give a bookie's part of the free room of its disk, which others may share."""
    if room.disk is None:
        return room.free_bytes
    return room.free_bytes // sum(one.disk == room.disk for one in rooms)
