"""An order as the text of the annotation ``zonekeeper.io/order``, and back. Pure.

    token     drawn by the command that wrote it; names the order in its answer
    do        enable, disable, hold, release, drain, takeBack, drill or endDrill
    uid       the uid of the resource that the person saw
    by        the person
    reason    why
    untilMs   wall time after which nothing is begun
    zone      of hold and release: the zone; without it the gate of the cluster is meant. Of a
              drill: the zone that goes away
    incident  of release: the incident that the person saw. Of endDrill: the token of the drill
    heldBy    of release: the person's hold that was seen, as the status shows it
    bookie    of drain and takeBack
    forMs     of drill: for so long the zone is away
    secret    of drill: the Secret that its probe shows in place of that of the client drill
    force     true: also if it is not known whether there is room for the copies

An annotation and not a field of the spec, for three reasons. The spec is what is wished for at all
times, and an order is carried out once. A tool that applies the same manifest again would undo a
field, or order once more. And the spec that is kept and rolled by must not change with an order.

A field that this version does not know may change what the order means, so the order is refused.
"""

import json
from typing import Final

from zonekeeper.operator.kubernetes.api import GROUP
from zonekeeper.operator.roots.resource_orders import AskedFor, ResourceOrder
from zonekeeper.placement.base import units
from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.placement.base.troubles import Refusal
from zonekeeper.placement.zones.gate import Person, Token

#: On a resource: the order of a person.
ORDER: Final = f"{GROUP}/order"
#: A text that is longer is no order.
TEXT_MAX: Final = 4_096
TOKEN_MAX: Final = 64

_TEXTS: Final = frozenset({"token", "do", "uid", "by", "reason"})
_OPTIONAL: Final = frozenset({"zone", "incident", "heldBy", "bookie", "secret"})
_KNOWN: Final = _TEXTS | _OPTIONAL | {"untilMs", "force", "forMs"}
#: A zone is not away for longer, and not for less.
FOR_MS_MAX: Final = units.HOUR_MS
FOR_MS_MIN: Final = 5 * units.SECOND_MS


class BadOrderError(Refusal, ValueError):
    """The annotation is no order; the message says what is wrong with it."""


def render(order: ResourceOrder) -> str:
    """Give the text of an order."""
    plain: dict[str, object] = {
        "token": order.token,
        "do": str(order.asked),
        "uid": order.uid,
        "by": order.person.name,
        "reason": order.person.reason,
        "untilMs": order.until_ms,
    }
    for name, value in (
        ("zone", order.zone),
        ("incident", order.incident),
        ("heldBy", order.held_by),
        ("bookie", order.bookie),
        ("secret", order.secret),
        ("forMs", order.for_ms),
    ):
        if value is not None:
            plain[name] = value
    if order.is_forced:
        plain["force"] = True
    return json.dumps(plain, sort_keys=True)


def parse(text: str) -> ResourceOrder:
    """Read an order; raises ``BadOrderError``."""
    data = _object(text)
    if strange := sorted(data.keys() - _KNOWN):
        raise BadOrderError(
            f"{strange[0][:40]}: this operator does not know the field: use the plugin of its "
            "version"
        )
    said: dict[str, str | None] = {}
    for name in sorted(_TEXTS | _OPTIONAL):
        value = data.get(name)
        if value is None and name in _OPTIONAL:
            said[name] = None
        elif isinstance(value, str) and value.strip():
            said[name] = value
        else:
            raise BadOrderError(f"{name}: must be a text that is not empty")
    until_ms, force = _number(data, "untilMs"), data.get("force", False)
    for_ms = None if data.get("forMs") is None else _number(data, "forMs")
    if not isinstance(force, bool):
        raise BadOrderError("force: must be true or false")
    order = ResourceOrder(
        token=str(said["token"]),
        asked=_asked(str(said["do"])),
        uid=str(said["uid"]),
        person=Person(name=str(said["by"]), reason=str(said["reason"])),
        until_ms=until_ms,
        zone=None if said["zone"] is None else ZoneName(said["zone"]),
        incident=None if said["incident"] is None else Token(said["incident"]),
        held_by=said["heldBy"],
        bookie=None if said["bookie"] is None else BookieId(said["bookie"]),
        is_forced=force,
        for_ms=for_ms,
        secret=said["secret"],
    )
    if fault := _fault(order):
        raise BadOrderError(fault)
    return order


def token_of(text: str) -> str:
    """Give the token of a text that may be no order; empty: it names none."""
    try:
        token = _object(text).get("token")
    except BadOrderError:
        return ""
    return token[:TOKEN_MAX] if isinstance(token, str) else ""


def _object(text: str) -> dict[str, object]:
    if len(text) > TEXT_MAX:
        raise BadOrderError(f"it has {len(text)} characters, and an order has at most {TEXT_MAX}")
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        raise BadOrderError("it is no JSON: write orders with `kubectl zonekeeper`") from None
    if not isinstance(data, dict):
        raise BadOrderError("it is no JSON object: write orders with `kubectl zonekeeper`")
    return data


def _number(data: dict[str, object], name: str) -> int:
    value = data.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise BadOrderError(f"{name}: must be a number of milliseconds")
    return value


def _asked(text: str) -> AskedFor:
    if text not in list(AskedFor):
        raise BadOrderError(f"do: {text[:40]}: must be one of {', '.join(AskedFor)}")
    return AskedFor(text)


def _fault(order: ResourceOrder) -> str | None:
    if len(order.token) > TOKEN_MAX:
        return f"token: must have at most {TOKEN_MAX} characters"
    if fault := order.person.fault():
        return fault
    if order.asked.is_of_bookie is not (order.bookie is not None):
        return f"bookie: {order.asked} {'needs one' if order.bookie is None else 'takes none'}"
    if order.zone is not None and not (order.asked.is_of_gate or order.asked.is_of_drill):
        return f"zone: {order.asked} takes none"
    return _fault_of_drill(order)


def _fault_of_drill(order: ResourceOrder) -> str | None:
    is_release = order.asked is AskedFor.RELEASE
    if not is_release and (order.held_by or (order.incident and not order.asked.is_of_drill)):
        return f"incident, heldBy: {order.asked} takes none"
    if order.asked.is_of_drill and order.zone is None:
        return f"zone: {order.asked} needs one"
    if order.asked.is_of_drill and (order.asked is AskedFor.DRILL) is (order.incident is not None):
        return "incident: endDrill needs the token of the drill, and drill takes none"
    if order.asked is not AskedFor.DRILL:
        given = order.for_ms is not None or order.secret is not None
        return f"forMs, secret: {order.asked} takes none" if given else None
    if order.for_ms is None or not FOR_MS_MIN <= order.for_ms <= FOR_MS_MAX:
        least, most = map(units.duration_text, (FOR_MS_MIN, FOR_MS_MAX))
        return f"forMs: a zone is away for {least} to {most}"
    return None
