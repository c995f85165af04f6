"""What is said to an order while there are drills: it begins one, ends one, or must wait. Pure."""

from zonekeeper.operator.people import answers, order_format
from zonekeeper.operator.people.answering import DrillWord
from zonekeeper.operator.people.order_format import ORDER, BadOrderError
from zonekeeper.operator.plan.drills import drill_record
from zonekeeper.operator.plan.drills.drill_gates import AskedDrill, DrillHindrances
from zonekeeper.operator.plan.drills.drill_record import DrillPhase, DrillRecord
from zonekeeper.operator.roots.resource_orders import AskedFor, ResourceOrder
from zonekeeper.operator.sight.observed import Observed

#: These change where copies are, so they wait until a drill is over.
_AFTERWARDS = frozenset({AskedFor.ENABLE, AskedFor.RELEASE, AskedFor.DRAIN})


def word(order: ResourceOrder, observed: Observed, found: DrillHindrances) -> DrillWord:
    """Say what a drill has to do with this order."""
    record = drill_record.read(observed.status)
    is_on = record is not None and record.is_on
    match order.asked:
        case AskedFor.DRILL:
            return _begins(order, record, found)
        case AskedFor.END_DRILL:
            return _ends(order, record)
        case _ if is_on and order.asked in _AFTERWARDS:
            assert record is not None, "it is on"
            return DrillWord(refused=f"a drill of zone {record.zone} is on: end it first")
        case _:
            return DrillWord()


def _begins(order: ResourceOrder, record: DrillRecord | None, found: DrillHindrances) -> DrillWord:
    if record is not None and record.token == order.token:
        return DrillWord(is_so=f"the drill of zone {order.zone} has begun: see status.drill")
    if record is not None and record.is_on:
        return DrillWord(refused=f"a drill of zone {record.zone} is on already")
    if found.refused:
        return DrillWord(refused="; ".join(found.refused))
    return DrillWord(waits="; ".join(found.passing))


def _ends(order: ResourceOrder, record: DrillRecord | None) -> DrillWord:
    if record is None or record.token != order.incident:
        return DrillWord(refused="that drill is not the one of status.drill")
    if record.phase in (DrillPhase.RETURNING, DrillPhase.ENDED):
        return DrillWord(is_so=f"the drill is {record.phase}: {record.why or record.outcome}")
    return DrillWord()


def about(observed: Observed) -> AskedDrill | None:
    """Give the drill that is asked for, or whose zone is not away yet."""
    record = drill_record.read(observed.status)
    if record is not None and record.is_on:
        if record.phase is not DrillPhase.PROBING:
            return None
        return AskedDrill(zone=record.zone, for_ms=record.for_ms, secret=record.secret)
    order = asked(observed)
    if order is None or order.zone is None or order.for_ms is None:
        return None
    return AskedDrill(zone=order.zone, for_ms=order.for_ms, secret=order.secret)


def asked(observed: Observed) -> ResourceOrder | None:
    """Give the order of a drill that has no final answer yet."""
    text = (observed.resource["metadata"].get("annotations") or {}).get(ORDER)
    if text is None:
        return None
    answer = answers.read(observed.status)
    try:
        order = order_format.parse(text)
    except BadOrderError:
        return None
    is_open = answer is None or answer.token != order.token or not answer.phase.is_final
    return order if order.asked is AskedFor.DRILL and is_open else None


def is_wanted(observed: Observed) -> bool:
    """Is there perhaps something to do? Then the look reads what planned work asks."""
    record = drill_record.read(observed.status)
    return (record is not None and record.is_on) or asked(observed) is not None
