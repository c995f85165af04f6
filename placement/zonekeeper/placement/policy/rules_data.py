"""The policy record from and to plain data: every field's name, kind and limits, in one table.

There are two forms. The *rules* are set by a person, in a file or in a custom resource; unknown
names are refused. The *record* is kept by the metadata store: the rules with format, version,
instance and owner. In a record, fields that this version does not know are kept, so that an older
writer does not drop the fields of a newer one. A record of a newer *format* is refused as such.

Reading finds all faults and reports them together. An absent field has its default. A present field
must be exactly of its kind (``fields``). Whether placement can keep what the rules promise is
another question: see ``legality``.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeVar

from zonekeeper.placement.base import fields, units
from zonekeeper.placement.base.digests import Digest
from zonekeeper.placement.base.fields import Plain
from zonekeeper.placement.base.troubles import Trouble
from zonekeeper.placement.policy.rules import (
    OnZoneLoss,
    PlacementRules,
    Policy,
    RepairScope,
    Resume,
)

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_D = TypeVar("_D", bound="DataclassInstance")

#: Increased when an older reader would misunderstand a record, but never for an added field.
FORMAT: Final = 1

ENSEMBLE_MAX: Final = 32
ZONES_MAX: Final = 16
UPGRADE_DOMAINS_MAX: Final = 100
_COUNT_MAX: Final = 1_000_000
_VERSION_MAX: Final = (1 << 53) - 1

#: Every field of the record by its full name, with its kind and limits.
KINDS: Final[Mapping[str, fields.Kind]] = {
    "version": fields.Whole(1, _VERSION_MAX),
    "instance": fields.Text(
        r"[-.0-9A-Za-z_]{0,128}", "an instance id: letters, digits and -._, at most 128", "a UUID"
    ),
    "owner": fields.Text(
        r"shell|operator/[a-z0-9][-a-z0-9]{0,62}/[a-z0-9][-a-z0-9.]{0,252}",
        "shell or operator/<namespace>/<name>",
        "shell",
    ),
    "quorums.ensemble": fields.Whole(1, ENSEMBLE_MAX),
    "quorums.write": fields.Whole(1, ENSEMBLE_MAX),
    "quorums.ack": fields.Whole(1, ENSEMBLE_MAX),
    "quorums.ackZones": fields.Whole(1, ZONES_MAX),
    "quorums.digest": fields.OneOf(Digest),
    "placement.zones": fields.Names(ZONES_MAX),
    "placement.minZones": fields.Whole(0, ZONES_MAX),
    "placement.desiredZones": fields.Whole(1, ZONES_MAX),
    "placement.strict": fields.Flag(),
    "placement.upgradeDomains": fields.Whole(1, UPGRADE_DOMAINS_MAX),
    "placement.weightCap": fields.Number(0, 1_000),
    "placement.quarantine": fields.Duration(0),
    "reads.pendingLimit": fields.Whole(0, _COUNT_MAX),
    "reads.failureMemory": fields.Duration(0),
    "reads.hedgeAfter": fields.Duration(),
    "reads.hedgeRemoteAt": fields.Whole(0, ENSEMBLE_MAX),
    "reads.demoteReadOnly": fields.Flag(),
    "zoneWatch.lowMark": fields.Number(0, 1, above=True),
    "zoneWatch.highMark": fields.Number(0, 1, above=True),
    "zoneWatch.minLost": fields.Whole(1, _COUNT_MAX),
    "zoneWatch.writtenOffAlert": fields.Number(0, 1, above=True),
    "zoneWatch.clusterMinAvailable": fields.Number(0, 1),
    "zoneWatch.sessionTimeout": fields.Duration(units.SECOND_MS),
    "zoneWatch.evaluateEvery": fields.Duration(units.SECOND_MS),
    "zoneWatch.startGrace": fields.Duration(0),
    "zoneWatch.suspectFor": fields.Duration(0),
    "zoneWatch.betweenMarksFor": fields.Duration(0),
    "zoneWatch.holdUp": fields.Duration(0),
    "zoneWatch.holdUpMax": fields.Duration(0),
    "zoneWatch.flapWindow": fields.Duration(0),
    "zoneWatch.standInAfter": fields.Duration(units.SECOND_MS),
    "zoneWatch.maintenanceMax": fields.Duration(units.MINUTE_MS),
    "repair.scope": fields.OneOf(RepairScope),
    "repair.resume": fields.OneOf(Resume),
    "repair.onZoneLoss": fields.OneOf(OnZoneLoss),
    "repair.after": fields.Duration(units.MINUTE_MS),
    "repair.remindEvery": fields.Duration(units.MINUTE_MS),
    "repair.bookieRecoveryDelay": fields.Duration(0),
    "repair.openLedgerGrace": fields.Duration(0),
    "repair.abandonedAfter": fields.Duration(0),
    "repair.bytesPerSecond": fields.Size(units.TIB),
    "repair.respread": fields.Flag(),
    "repair.respreadBytesPerSecond": fields.Size(units.TIB),
    "repair.checks.bookies": fields.Duration(units.MINUTE_MS),
    "repair.checks.placement": fields.Duration(units.MINUTE_MS),
    "repair.checks.replicas": fields.Duration(units.MINUTE_MS),
}
#: Fields that no person sets: the metadata store and the owner of the record set them.
_ENVELOPE: Final = ("format", "version", "instance", "owner")
_SECTIONS: Final = frozenset(
    name[: dot.start()] for name in KINDS for dot in re.finditer(r"\.", name)
)
_DEFAULTS: Final = Policy(placement=PlacementRules(zones=()))


class NewerFormatError(Trouble, ValueError):
    """The record is whole, but a newer version of zonekeeper wrote it: upgrade to read it."""

    def __init__(self, found: int) -> None:
        self.found = found
        super().__init__(
            f"the policy record has format {fields.shown(found)}, written by a newer version of "
            "zonekeeper; "
            f"this one reads format {FORMAT}: upgrade it (the record is not damaged)"
        )


def from_rules(data: object, path: str = "policy") -> Policy:
    """Read rules that a person wrote; ``path`` says in messages where they stand.

    Raises ``fields.InvalidFieldsError`` with all faults.
    """
    given = _Given(data, path)
    for name in _ENVELOPE:
        if name in given.values:
            value = given.values.pop(name)
            where = fields.below(path, name)
            fix = "remove it"
            problem = fields.Problem(where, fields.shown(value), "is set by zonekeeper", fix)
            given.problems.append(problem)
    given.problems += [given.unknown_problem(name) for name in given.unknown]
    return given.policy()


def rules(policy: Policy) -> dict[str, Plain]:
    """Give the part of a policy that a person sets: every field, including the defaults."""
    return _nested({name: _plain(policy, name) for name in KINDS if name not in _ENVELOPE})


def from_record(data: object) -> Policy:
    """Read the stored record.

    Raises ``NewerFormatError``, or ``fields.InvalidFieldsError`` with all faults.
    """
    given = _Given(data, "")
    found = given.values.pop("format", None)
    if type(found) is int and found > FORMAT:
        raise NewerFormatError(found)
    if type(found) is not int or found != FORMAT:
        rule = f"must be {FORMAT}"
        given.problems.append(
            fields.Problem("format", fields.shown(found), rule, "write the policy again")
        )
    kept: list[tuple[tuple[str, ...], str]] = []
    for steps in sorted(given.unknown):
        try:
            kept.append(
                (steps, fields.kept(fields.below("", ".".join(steps)), given.unknown[steps]))
            )
        except fields.InvalidFieldsError as refused:
            given.problems += refused.problems
    return replace(given.policy(), unknown=tuple(kept))


def record(policy: Policy) -> dict[str, Plain]:
    """Give the whole record, including the fields that this version does not know."""
    data = _nested({"format": FORMAT} | {name: _plain(policy, name) for name in KINDS})
    for path, text in policy.unknown:
        _put(data, path, json.loads(text))
    return data


class _Given:
    """The given data: known fields by their full name, unknown fields by their path."""

    def __init__(self, data: object, path: str) -> None:
        self.path = path
        self.problems: list[fields.Problem] = []
        self.values: dict[str, object] = {}
        self.unknown: dict[tuple[str, ...], object] = {}
        for steps, value in self._walk((), data):
            name = ".".join(steps)
            dotted = any("." in step for step in steps)
            if not dotted and (name in KINDS or name == "format"):
                self.values[name] = value
            else:
                self.unknown[steps] = value

    def _walk(
        self, steps: tuple[str, ...], data: object
    ) -> Iterator[tuple[tuple[str, ...], object]]:
        where = fields.below(self.path, ".".join(steps)) if steps else self.path
        try:
            items = fields.mapping(where, data)
        except fields.InvalidFieldsError as refused:
            self.problems += refused.problems
            return
        for name, value in items.items():
            inside = (*steps, name)
            if "." not in name and ".".join(inside) in _SECTIONS:
                yield from self._walk(inside, value)
            else:
                yield inside, value

    def unknown_problem(self, steps: tuple[str, ...]) -> fields.Problem:
        section, last = steps[:-1], steps[-1]
        prefix = "".join(f"{step}." for step in section)
        known = {
            name.removeprefix(prefix).partition(".")[0]
            for name in KINDS
            if name.startswith(prefix) and name not in _ENVELOPE
        }
        elsewhere = [name for name in KINDS if name.rpartition(".")[2] == last]
        where = fields.below(self.path, ".".join(steps))
        meant = fields.below(self.path, elsewhere[0]) if elsewhere else ""
        return fields.unknown(where, self.unknown[steps], known, meant)

    def policy(self) -> Policy:
        """Give the policy, or raise all problems together."""
        read: dict[str, object] = {}
        bad = set()
        for name, value in self.values.items():
            try:
                read[name] = KINDS[name].read(fields.below(self.path, name), value)
            except fields.InvalidFieldsError as refused:
                self.problems += refused.problems
                bad.add(name)
        if "placement.zones" not in self.values:
            where = fields.below(self.path, "placement.zones")
            fix = "name the cluster's zones, for example [a, b, c]"
            self.problems.append(fields.Problem(where, "missing", "is required", fix))
            bad.add("placement.zones")
        if read.get("repair.scope") is RepairScope.CLUSTER:
            read.setdefault("repair.resume", Resume.MANUAL)
        built = _built(read)
        for relation in _RELATIONS:
            if not bad & {relation.field, *relation.others} and not relation.holds(built):
                self.problems.append(self._broken(relation, built))
        if self.problems:
            raise fields.InvalidFieldsError(self.problems)
        return built

    def _broken(self, relation: "_Relation", policy: Policy) -> fields.Problem:
        others = " + ".join(
            f"{name} ({fields.shown(_plain(policy, name))}"
            f"{'' if name in self.values else ', the default'})"
            for name in relation.others
        )
        value = fields.shown(_plain(policy, relation.field))
        default = "" if relation.field in self.values else " (the default)"
        where = fields.below(self.path, relation.field)
        return fields.Problem(
            where, value + default, f"{relation.words} {others}", relation.fix(policy)
        )


@dataclass(frozen=True, slots=True)
class _Relation:
    """A relation that must hold between fields, each of which is valid by itself."""

    field: str
    others: tuple[str, ...]
    words: str
    holds: Callable[[Policy], bool]
    fix: Callable[[Policy], str]


def _reunion_ms(policy: Policy) -> int:
    """Give the time within which the process of a living writer surely has a session again."""
    watch = policy.zone_watch
    return 2 * watch.session_timeout_ms + watch.evaluate_every_ms


def _detection_ms(policy: Policy) -> int:
    """Give the longest time from the loss of a zone until its record says that it is suspect."""
    watch = policy.zone_watch
    return watch.session_timeout_ms + watch.evaluate_every_ms + watch.suspect_for_ms


_RELATIONS: Final = (
    _Relation(
        "quorums.write",
        ("quorums.ensemble",),
        "must not exceed",
        lambda policy: policy.quorums.write <= policy.quorums.ensemble,
        lambda policy: f"set quorums.ensemble to a multiple of {policy.quorums.write}",
    ),
    _Relation(
        "quorums.ack",
        ("quorums.write",),
        "must not exceed",
        lambda policy: policy.quorums.ack <= policy.quorums.write,
        lambda policy: f"set it to {policy.quorums.write} or less",
    ),
    _Relation(
        "quorums.ackZones",
        ("quorums.ack",),
        "must not exceed",
        lambda policy: policy.quorums.ack_zones <= policy.quorums.ack,
        lambda policy: f"set it to {policy.quorums.ack} or less",
    ),
    _Relation(
        "quorums.ackZones",
        ("placement.zones",),
        "must not exceed the number of",
        lambda policy: policy.quorums.ack_zones <= len(policy.placement.zones),
        lambda policy: f"set it to {len(policy.placement.zones)} or less",
    ),
    _Relation(
        "zoneWatch.lowMark",
        ("zoneWatch.highMark",),
        "must be below",
        lambda policy: policy.zone_watch.low_mark < policy.zone_watch.high_mark,
        lambda policy: "lower it or raise zoneWatch.highMark (at most 1)",
    ),
    _Relation(
        "zoneWatch.holdUp",
        ("zoneWatch.holdUpMax",),
        "must not exceed",
        lambda policy: policy.zone_watch.hold_up_ms <= policy.zone_watch.hold_up_max_ms,
        lambda policy: "lower it or raise zoneWatch.holdUpMax",
    ),
    _Relation(
        "repair.bookieRecoveryDelay",
        ("zoneWatch.sessionTimeout", "zoneWatch.evaluateEvery", "zoneWatch.suspectFor"),
        "must be at least",
        lambda policy: policy.repair.bookie_recovery_delay_ms >= _detection_ms(policy),
        lambda policy: (
            f"set it to {units.duration_text(_detection_ms(policy))} or more, so that a zone is "
            "held before its losses are repaired"
        ),
    ),
    _Relation(
        "repair.abandonedAfter",
        ("zoneWatch.sessionTimeout", "zoneWatch.sessionTimeout", "zoneWatch.evaluateEvery"),
        "must be 0s (off) or at least",
        lambda policy: (
            policy.repair.abandoned_after_ms == 0
            or policy.repair.abandoned_after_ms >= _reunion_ms(policy)
        ),
        lambda policy: (
            f"set it to {units.duration_text(_reunion_ms(policy))} or more, so that a writer whose "
            "session ends once is not fenced"
        ),
    ),
)


def _attributes(name: str) -> list[str]:
    """Give the path of a record's field in ``Policy``, for example ``reads``, ``pending_limit``."""
    if name == "quorums.digest":
        return ["digest"]
    snake = re.sub("[A-Z]", lambda capital: f"_{capital[0].lower()}", name + KINDS[name].suffix)
    return snake.split(".")


def _plain(policy: Policy, name: str) -> Plain:
    value: object = policy
    for attribute in _attributes(name):
        value = getattr(value, attribute)
    return KINDS[name].plain(value)


def _built(values: Mapping[str, object]) -> Policy:
    changes: dict[str, object] = {}
    for name, value in values.items():
        *sections, last = _attributes(name)
        level = changes
        for section in sections:
            inner = level.setdefault(section, {})
            assert isinstance(inner, dict)
            level = inner
        level[last] = value
    return _changed(_DEFAULTS, changes)


def _changed(base: _D, changes: Mapping[str, object]) -> _D:
    """Give a dataclass with some fields changed, or some fields of its fields."""
    whole = {
        name: _changed(getattr(base, name), change) if isinstance(change, dict) else change
        for name, change in changes.items()
    }
    return replace(base, **whole)


def _nested(flat: Mapping[str, Plain]) -> dict[str, Plain]:
    data: dict[str, Plain] = {}
    for name, value in flat.items():
        _put(data, name.split("."), value)
    return data


def _put(data: dict[str, Plain], steps: "list[str] | tuple[str, ...]", value: Plain) -> None:
    for step in steps[:-1]:
        inner = data.setdefault(step, {})
        assert isinstance(inner, dict)
        data = inner
    data[steps[-1]] = value
