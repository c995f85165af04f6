"""What becomes of the order on a resource in this turn. Pure.

The operator answers an order in ``status.order`` and carries it out. Both are level-triggered: the
answer ``Accepted`` is written first, the act is done in the same turn, and a later turn says
``Done`` when the records say so. An operator that dies in between finds the order accepted, and
looks at the records before it acts again. Each act is safe to repeat.

An order is refused if it names another resource (a backup brought it back), if its deadline is over
or is too far away, if the root is not this resource's, if a person has stopped the operator's acts,
and if what it names is not what stands: the incident of a release must be the one that is held.

A release starts copying. The operator does not ask bookies for their room, so it asks for the
person's ``force``: ``zonekeeper autorecovery release --dry-run`` counts what is copied.

Not promised: if the operator dies right after it has thrown the switch or has held, and another
person undoes that before the next operator's first turn, the order is carried out once more.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from zonekeeper.operator.cluster import desired
from zonekeeper.operator.people import answers, order_format
from zonekeeper.operator.people.answers import AnswerPhase, OrderAnswer
from zonekeeper.operator.people.order_format import ORDER, BadOrderError
from zonekeeper.operator.roots import roots
from zonekeeper.operator.roots.resource_orders import AskedFor, ResourceOrder
from zonekeeper.operator.roots.roots import RootFound
from zonekeeper.operator.sight.observed import Observed
from zonekeeper.placement.base import misnamed, units
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.placement.zones.bookie_orders import BookieOrder, OrderKind
from zonekeeper.placement.zones.gate import Gate

#: No order is carried out later than so long after it was seen.
AHEAD_MS_MAX: Final = units.HOUR_MS

_UNREAD: Final = "the metadata store was not read yet"


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderTurn:
    """What one turn says and does about the order."""

    #: None: nobody has ordered anything.
    answer: OrderAnswer | None = None
    #: The order that is carried out now; None: none is.
    act: ResourceOrder | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillWord:
    """What a drill has to do with an order."""

    #: Why the order is refused; empty: it is not.
    refused: str = ""
    #: Why it is not carried out yet; empty: it may be.
    waits: str = ""
    #: It is so already, in words; empty: it is not.
    is_so: str = ""


#: Asks what is known of drills about an order.
AskDrills: TypeAlias = Callable[[ResourceOrder], DrillWord]


def _no_drills(order: ResourceOrder) -> DrillWord:
    why = "the resource is not built" if order.asked.is_of_drill else ""
    return DrillWord(refused=why)


@dataclass(frozen=True, slots=True)
class _No:
    """The order cannot be carried out: why, and what to do."""

    why: str


@dataclass(frozen=True, slots=True)
class _So:
    """It is so already, in words."""

    told: str


@dataclass(frozen=True, slots=True)
class _Go:
    """It is to be done; ``told``: why not yet, if it cannot be done in this turn."""

    told: str = ""


def decide(observed: Observed, ours: RootFound | None, drills: AskDrills = _no_drills) -> OrderTurn:
    """Answer the order, and give it if it is to be carried out; ``ours``: this resource's root."""
    before = answers.read(observed.status)
    text = (observed.resource["metadata"].get("annotations") or {}).get(ORDER)
    if text is None:
        return OrderTurn(answer=before)
    token = order_format.token_of(text)
    if before is not None and before.token == token and before.phase.is_final:
        return OrderTurn(answer=before)
    try:
        order = order_format.parse(text)
    except BadOrderError as error:
        why = f"the annotation {ORDER} is no order that can be carried out: {error}"
        return OrderTurn(answer=OrderAnswer(token=token, phase=AnswerPhase.REFUSED, message=why))
    was_accepted = before is not None and before.token == token
    return _judged(order, observed, ours, drills(order), was_accepted=was_accepted)


def _judged(
    order: ResourceOrder,
    observed: Observed,
    ours: RootFound | None,
    word: DrillWord,
    *,
    was_accepted: bool,
) -> OrderTurn:
    found: _No | _So | _Go
    why = _unfit(order, observed) or observed.refused_orders.get(order.token)
    if why is not None:
        found = _No(why)
    elif word.is_so:
        found = _So(word.is_so)
    elif word.refused and (order.asked.is_of_drill or not was_accepted):
        found = _No(word.refused)
    elif ours is None:
        found = _without_root(observed)
    else:
        found = _of_records(order, observed, ours, word.waits, was_accepted=was_accepted)
    if isinstance(found, _So):
        return OrderTurn(answer=_answer(order, AnswerPhase.DONE, found.told))
    is_late = observed.wall_ms >= order.until_ms
    # A drill that has begun stands in the status: without that nothing was done.
    was_accepted = was_accepted and not order.asked.is_of_drill
    if isinstance(found, _No):
        # An accepted order may have been done, unless its act itself was refused.
        is_open = was_accepted and order.token not in observed.refused_orders
        phase = AnswerPhase.FAILED if is_open else AnswerPhase.REFUSED
        return OrderTurn(answer=_answer(order, phase, found.why))
    if is_late and was_accepted:
        why = _last_words(observed) or found.told or "the records do not show it"
        told = f"not seen to be done before its deadline: {why}; it may have been done: look again"
        return OrderTurn(answer=_answer(order, AnswerPhase.FAILED, told))
    if is_late:
        waited = f" (it waited: {found.told})" if found.told else ""
        told = f"its deadline is over, and nothing was done: give it again{waited}"
        return OrderTurn(answer=_answer(order, AnswerPhase.REFUSED, told))
    told = _last_words(observed) or found.told or "it is being carried out"
    act = None if found.told else order
    return OrderTurn(answer=_answer(order, AnswerPhase.ACCEPTED, told), act=act)


def _answer(order: ResourceOrder, phase: AnswerPhase, message: str) -> OrderAnswer:
    return OrderAnswer(
        token=order.token,
        phase=phase,
        message=message,
        order=f"{order.asked}: {order.about}",
        by=str(order.person),
    )


def _last_words(observed: Observed) -> str:
    """Give the failure of the last turn's attempt; empty: there was none."""
    return next((text for text in observed.failures if text.startswith("Obey: ")), "")


def _unfit(order: ResourceOrder, observed: Observed) -> str | None:
    """Say why the order is not for this resource, whatever stands in the records."""
    if order.uid != observed.uid:
        return (
            f"the order is about the resource with uid {order.uid}, and this one is "
            f"{observed.uid}: a copy or a backup brought it; take the annotation off"
        )
    if observed.leaving:
        return "the resource is deleted"
    if desired.is_paused(observed.resource):
        return "spec.paused is true, so the operator does nothing: set it to false, and order again"
    if order.until_ms - observed.wall_ms > AHEAD_MS_MAX:
        most = units.duration_text(AHEAD_MS_MAX)
        return f"untilMs: is more than {most} away: no order waits for so long; give it again"
    return None


def _without_root(observed: Observed) -> _No | _Go:
    match observed.root:
        case roots.Unreachable(reason):
            return _Go(f"the metadata store does not answer: {reason}")
        case roots.NotAsked():
            return _Go(_UNREAD)
        case _:
            return _No("the cluster is not built, or its root is not this resource's: see Legal")


def _of_records(
    order: ResourceOrder, observed: Observed, ours: RootFound, waits: str, *, was_accepted: bool
) -> _No | _So | _Go:
    if observed.instance not in (None, ours.instance):
        return _No("the root belongs to another instance: see MetadataReady")
    if order.asked.is_of_drill:
        return _Go(waits)
    if order.asked.is_of_gate:
        return _of_gate(order, ours, was_accepted=was_accepted)
    if order.asked.is_of_bookie:
        return _of_bookie(order, ours, was_accepted=was_accepted)
    return _of_switch(order, ours, was_accepted=was_accepted)


def _of_switch(order: ResourceOrder, ours: RootFound, *, was_accepted: bool) -> _No | _So | _Go:
    enables = order.asked is AskedFor.ENABLE
    if ours.gates.replication_enabled is enables:
        was = "is" if was_accepted else "was already"
        return _So(f"automatic replication {was} {'on' if enables else 'off'}")
    away = sorted(ours.locations.keys() - ours.registered)
    if enables and away and not order.is_forced and not was_accepted:
        return _No(
            f"{len(away)} bookies with cookies are not registered, for example {away[0]}: what "
            f"they held would be copied, and {_NO_PRICE}"
        )
    return _Go()


#: Why a release asks for force, and where the price is.
_NO_PRICE: Final = (
    "the operator does not know whether there is room for it: `zonekeeper autorecovery release "
    "--dry-run` counts it; or repeat with --force"
)


def _of_gate(order: ResourceOrder, ours: RootFound, *, was_accepted: bool) -> _No | _So | _Go:
    zones = () if ours.policy is None else ours.policy.placement.zones
    if order.zone is not None and order.zone not in zones:
        return _No(misnamed.there_is_no("zone", order.zone, zones))
    record = ours.gates.cluster if order.zone is None else ours.gates.zones.get(order.zone)
    if record is None:
        return _No(
            f"there is no readable record of {order.about}: no zone watch has evaluated it, so "
            "everything there is held; wait for an autorecovery process"
        )
    gate = record.gate
    if order.asked is AskedFor.HOLD:
        is_ours = gate.held_by == order.person
        return _So(f"{order.about} is held: {gate.reason}") if is_ours else _Go()
    return _released(order, gate, was_accepted=was_accepted)


def _released(order: ResourceOrder, gate: Gate, *, was_accepted: bool) -> _No | _So | _Go:
    is_same = gate.token == order.incident and _held_by(gate) == order.held_by
    if was_accepted and (gate.permits or not is_same):
        return _So(f"{order.about}: {gate.permission}, {gate.reason}")
    if gate.permits:
        return _No(f"nothing of {order.about} is held: {gate.permission}, {gate.reason}")
    if not is_same:
        return _No(
            f"{order.about} is held by {gate.token or 'no incident'} ({gate.reason}), and not by "
            f"{order.incident or 'no incident'}: look at what is held now, and release that"
        )
    if not order.is_forced:
        return _No(f"a release lets the losses of {order.about} be copied, and {_NO_PRICE}")
    return _Go()


def _held_by(gate: Gate) -> str | None:
    return None if gate.held_by is None else str(gate.held_by)


def _of_bookie(order: ResourceOrder, ours: RootFound, *, was_accepted: bool) -> _No | _So | _Go:
    assert order.bookie is not None, "the format was checked"
    bookie, standing = order.bookie, ours.orders.get(order.bookie)
    if bookie not in ours.locations:
        return _No(misnamed.there_is_no("bookie", bookie, ours.locations))
    if isinstance(standing, str):
        return _No(f"an order about {bookie} stands that cannot be read: {standing}")
    if order.asked is AskedFor.TAKE_BACK:
        return _taken_back(bookie, standing, was_accepted=was_accepted)
    return _drained(order, bookie, standing, ours)


def _drained(
    order: ResourceOrder, bookie: BookieId, standing: BookieOrder | None, ours: RootFound
) -> _No | _So | _Go:
    if standing is not None and standing.token == order.token and standing.taken_back is not None:
        return _So(f"the order was given, and is taken back by {standing.taken_back.by}")
    if standing is None or standing.taken_back is not None:
        if bookie not in ours.registered:
            return _No(
                f"{bookie} is not registered, so it cannot be emptied: start it; or, if it is "
                f"lost for good, run `zonekeeper bookies recover {bookie}`"
            )
        return _Go()
    if standing.kind is OrderKind.DRAIN:
        return _So(f"{bookie} is being emptied, or is empty: see status.bookieOrders")
    return _No(f"an order to {standing.kind} {bookie} stands, by {standing.given.by}")


def _taken_back(
    bookie: str, standing: BookieOrder | None, *, was_accepted: bool
) -> _No | _So | _Go:
    if standing is None or standing.taken_back is not None:
        if was_accepted or standing is not None:
            return _So(f"the order about {bookie} is taken back")
        return _No(f"there is no order about {bookie}")
    if standing.kind is not OrderKind.DRAIN:
        return _No(
            f"the order about {bookie} is to {standing.kind} it, by {standing.given.by}, and is "
            f"taken back where it was given, or with `zonekeeper bookies take-back {bookie}`"
        )
    return _Go()
