"""What a scale-down waits for before the next bookie gets its order. Pure.

The gates are those of the roll, asked for the bookie that is to go: all other bookies are there and
take writes, nothing is marked for repair, no zone is held or down, the zone watch has looked since
the last change, and no ledger would be at risk if the bookie died while it is emptied. Beside them
each zone must have room for what its bookies hold. What is not known does not hold.
"""

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Final

from zonekeeper.operator.cluster import quantities
from zonekeeper.operator.cluster.desired import Desired
from zonekeeper.operator.plan.scaling import leaving
from zonekeeper.operator.roll import gating, order
from zonekeeper.operator.roll.gates import RollGate
from zonekeeper.operator.roll.gating import RollGround
from zonekeeper.operator.roll.order import Step, ZoneSet
from zonekeeper.operator.roots.roots import RootFound
from zonekeeper.operator.sight.observed import Observed
from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.placement.base.upgrade_domains import RoundRobin

#: This share of the volumes that are left must stay free.
RESERVE: Final = Fraction(1, 10)
#: They are about the roll itself.
_OF_ROLL: Final = (RollGate.PAUSED, RollGate.BAKING)


def waits(
    desired: Desired, observed: Observed, sets: tuple[ZoneSet, ...], bookie: BookieId
) -> Iterator[str]:
    """Give everything that the next order waits for, in words; nothing: it may be given."""
    if desired.scale_down_paused:
        yield "spec.scaleDown.paused is true: no further bookie is emptied until it is false"
    zone = next(one for one in sets if one.made["metadata"]["name"] == leaving.set_of(bookie))
    domains = RoundRobin(upgrade_domains=desired.policy.placement.upgrade_domains)
    unit = order.unit_of(bookie, zone.zone, domains)
    ground = RollGround(desired=desired, observed=_without_record(observed, bookie), sets=sets)
    for one in gating.waits(ground, Step(unit=unit, bookies=(bookie,))):
        if one.gate not in _OF_ROLL:
            yield f"{one.gate}: {one.what}; {one.runbook}"
    yield from _room(desired, observed, zone.zone, bookie)


def _without_record(observed: Observed, bookie: BookieId) -> Observed:
    """Leave out the record of the bookie that is to go: a person may drain it already."""
    root = observed.root
    if not isinstance(root, RootFound) or root.work is None:
        return observed
    others = {name: one for name, one in root.work.records.items() if name != bookie}
    return replace(observed, root=replace(root, work=replace(root.work, records=others)))


def _room(desired: Desired, observed: Observed, zone: ZoneName, bookie: BookieId) -> Iterator[str]:
    """Ask each zone for room: what its bookies hold stays in it, on one volume less.

    The payload of closed ledgers counts; of open ones the length is not known yet.
    """
    sight, root = observed.ledgers, observed.root
    if sight is None or not isinstance(root, RootFound):
        return  # the gate of ledgers at risk waits for the same listing
    size = int(quantities.value(desired.storage_size) or 0)
    for one in desired.policy.placement.zones:
        here = [name for name, at in root.locations.items() if at is not None and at.zone == one]
        held = sum(sight.kinds.held_bytes.get(name, 0) for name in here)
        left = len({*here} & root.registered) - (one == zone and bookie in root.registered)
        room = int(left * size * (1 - RESERVE))
        if held > room:
            yield (
                f"no room in zone {one}: its bookies hold {held} bytes of closed ledgers, and "
                f"{left} volumes of {desired.storage_size} take {room} bytes if a tenth stays "
                "free; set spec.bookiesPerZone to what it was, or delete ledgers"
            )
