"""The gate of a zone, or of the cluster: may losses be repaired? It is the second machine.

::

                  threat                         a person, or repairAfter
      open ─────────────────────────► held ─────────────────────────────► released
       ▲  ▲                            │                                      │
       │  └──── the threat is over ────┘                                      │
       │        (resume: manual, after a loss that was real: a person)        │
       └───────────────────────── the threat is over ────────────────────────┘

A *threat* is what the observation says to the gate. It has three values: none, doubt (perhaps no
loss) and loss (certainly a loss, "real"). An *incident* lasts from the first threat to the end of
the threat, and has a token. These rules hold:

- The gate is held from the first doubt on. It opens or is released again in these ways only: the
  threat ends and was never real; the threat ends (with ``resume: manual`` a person must release as
  well); a person releases; ``repairAfter`` releases, once ``held_ms >= after`` for this incident.
- A hold that a person set ends only by a person's release.
- A release, by a person or by the rule, belongs to one incident and ends with it. The next threat
  begins a new incident: it is held, and its held time begins at 0.
- During its start grace a watch permits nothing new: held stays held, released stays released. The
  watch does note that an incident has ended, so that a release cannot pass to the next incident.

A gate is a value in a record. Nothing waits inside it. The auditor and the replicators read it
(``losses``).
"""

import enum
from dataclasses import dataclass, replace
from typing import Final, NewType

from zonekeeper.placement.base.troubles import Refusal
from zonekeeper.placement.policy.rules import OnZoneLoss, RepairRules, Resume
from zonekeeper.placement.zones.counted_time import Moment, spelled

#: The name of one incident. A release names the incident that it is given for.
Token = NewType("Token", str)

#: The value of ``set_by`` where no person set the permission.
WATCH: Final = "zone watch"
RULE: Final = "repairAfter"

NAME_CHARS_MAX: Final = 128
REASON_CHARS_MAX: Final = 512


class Permission(enum.StrEnum):
    """The gate's answer. Open and released permit repair; held does not."""

    OPEN = "open"
    HELD = "held"
    #: Repair is permitted although the threat is there: by a person, or by the owner's rule.
    RELEASED = "released"


class Threat(enum.Enum):
    """The meaning of an observation for the gate."""

    NONE = enum.auto()
    DOUBT = enum.auto()
    LOSS = enum.auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The message of the observation to the gate."""

    threat: Threat
    #: The observation in words.
    why: str
    #: The name of the incident, if one begins here. No two judgements have the same token.
    token: Token


class RefusedError(Refusal, ValueError):
    """A person's hold or release is not possible. Nothing was changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """The person who holds or releases, and their reason; both are required."""

    name: str
    reason: str

    def fault(self) -> str | None:
        """Say what is wrong with the name or the reason."""
        for what, text, most in (
            ("name", self.name, NAME_CHARS_MAX),
            ("reason", self.reason, REASON_CHARS_MAX),
        ):
            if not text.strip() or not text.isprintable() or len(text) > most:
                return f"the {what} must be one line of 1 to {most} characters"
        return None

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """The state of the machine."""

    permission: Permission
    set_by: str
    #: Numbers of a zone in it are those of the last evaluation. What a person or ``repairAfter``
    #: did is told without such numbers, as it is told for as long as it stands.
    reason: str
    #: Wall time of the last change of permission or incident, for people.
    since_wall_ms: int
    #: The incident; None if there is none.
    token: Token | None = None
    #: The incident was more than a doubt: a loss was seen.
    real: bool = False
    #: The incident's threat has ended; only the start grace or a person keeps the gate from
    #: opening.
    over: bool = False
    #: Counted time that this incident has been held.
    held_ms: int = 0
    #: A zone that was really lost came back under ``resume: manual``.
    awaits_person: bool = False
    #: The person who set a hold, with their reason; None if no person did.
    held_by: Person | None = None

    @property
    def permits(self) -> bool:
        """Does this gate permit the repair of losses?"""
        return self.permission is not Permission.HELD

    @property
    def lasting(self) -> bool:
        """Is the hold more than a doubt: was a loss seen, or did a person set it?"""
        return self.real or self.awaits_person or self.held_by is not None

    def fault(self) -> str | None:
        """Say which rule of the machine this value breaks; a stored record may hold any value."""
        if self.token is None and (self.real or self.over or self.awaits_person):
            return "an incident needs a token"
        if (self.held_by or self.awaits_person) and self.permits:
            return "what waits for a person must be held"
        if self.permission is Permission.RELEASED and self.token is None:
            return "a release needs the token of its incident"
        if self.permission is Permission.OPEN and self.token is not None:
            return "an incident must be held or released"
        if self.permission is Permission.HELD and self.token is None and self.held_by is None:
            return "a hold needs an incident or a person"
        return None


def first(moment: Moment) -> Gate:
    """Give the gate of a zone or cluster before its first evaluation."""
    return Gate(
        permission=Permission.OPEN,
        set_by=WATCH,
        reason="no threat",
        since_wall_ms=moment.wall_ms,
    )


def decide(before: Gate, judged: Judgement, moment: Moment, rules: RepairRules) -> Gate:
    """Give the gate after one evaluation."""
    gate = before
    if not gate.permits:
        gate = replace(gate, held_ms=gate.held_ms + moment.step_ms)
    if judged.threat is Threat.NONE:
        gate = _without_threat(gate, judged.why, moment, rules)
    else:
        gate = _under_threat(gate, judged, moment, rules)
    assert gate.fault() is None, gate.fault()
    return gate


def release(gate: Gate, *, token: Token | None, person: Person, wall_ms: int) -> Gate:
    """Give the gate after a person's release. ``token`` is that of the incident the person saw.

    While the threat lasts the gate is released, until the threat ends. Otherwise the gate opens.
    """
    _check(person)
    if gate.permits:
        raise RefusedError(f"nothing is held: {gate.permission} since {gate.set_by} set it")
    if token != gate.token:
        raise RefusedError(
            f"the hold is not of {token or 'no incident'} but of {gate.token or 'no incident'}: "
            "look at what is held now, and release that"
        )
    goes_on = gate.token is not None and not gate.over
    return Gate(
        permission=Permission.RELEASED if goes_on else Permission.OPEN,
        set_by=person.name,
        reason=f"released by {person}",
        since_wall_ms=wall_ms,
        token=gate.token if goes_on else None,
        real=gate.real and goes_on,
        held_ms=gate.held_ms if goes_on else 0,
    )


def hold(gate: Gate, *, person: Person, wall_ms: int) -> Gate:
    """Give the gate after a person's hold. Only ``release`` ends it."""
    _check(person)
    return replace(
        gate,
        permission=Permission.HELD,
        set_by=person.name,
        reason=f"held by {person}",
        since_wall_ms=wall_ms if gate.permits else gate.since_wall_ms,
        held_ms=0 if gate.permits else gate.held_ms,
        held_by=person,
    )


def _check(person: Person) -> None:
    if fault := person.fault():
        raise RefusedError(fault)


def _under_threat(gate: Gate, judged: Judgement, moment: Moment, rules: RepairRules) -> Gate:
    real = judged.threat is Threat.LOSS
    if gate.token is None or gate.over:
        gate = replace(
            gate,
            permission=Permission.HELD,
            since_wall_ms=moment.wall_ms,
            token=judged.token,
            real=real,
            over=False,
            held_ms=0,
        )
        return _held_because(gate, judged.why)
    gate = replace(gate, real=gate.real or real)
    if gate.permits:
        return gate
    if real and _rule_opens(gate, moment, rules):
        return replace(
            gate,
            permission=Permission.RELEASED,
            set_by=RULE,
            reason=f"held for {spelled(gate.held_ms)}, and repair.after is "
            f"{spelled(rules.after_ms)}",
            since_wall_ms=moment.wall_ms,
            awaits_person=False,
        )
    return _held_because(gate, judged.why)


def _rule_opens(gate: Gate, moment: Moment, rules: RepairRules) -> bool:
    return (
        rules.on_zone_loss is OnZoneLoss.REPAIR_AFTER
        and gate.held_ms >= rules.after_ms
        and gate.held_by is None
        and not moment.in_grace
    )


def _without_threat(gate: Gate, why: str, moment: Moment, rules: RepairRules) -> Gate:
    if gate.token is None:
        of_now = gate.permits and gate.set_by == WATCH
        return replace(gate, reason=why) if of_now else gate
    was_real = gate.real or gate.awaits_person
    awaits = not gate.permits and was_real and rules.resume is Resume.MANUAL
    gate = replace(gate, over=True, awaits_person=awaits)
    if awaits or gate.held_by is not None:
        return _held_because(gate, f"{why}; waits for a person (repair.resume: manual)")
    if moment.in_grace:
        return gate if gate.permits else _held_because(gate, f"{why}; opens after the start grace")
    return Gate(
        permission=Permission.OPEN,
        set_by=WATCH,
        reason=why if gate.permits else f"{why}; was held for {spelled(gate.held_ms)}",
        since_wall_ms=moment.wall_ms,
    )


def _held_because(gate: Gate, why: str) -> Gate:
    """Give the gate with its reason; a person's hold is named first: only a person ends it."""
    if gate.held_by is not None:
        return replace(gate, set_by=gate.held_by.name, reason=f"held by {gate.held_by}")
    return replace(gate, set_by=WATCH, reason=why)
