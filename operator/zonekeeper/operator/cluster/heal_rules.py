"""``spec.heal``: what the operator mends by itself, and what it must not do. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from zonekeeper.operator.cluster.choices import LostVolume
from zonekeeper.operator.shapes import quantities, volumes
from zonekeeper.placement.base import fields, units
from zonekeeper.placement.base.fields import Problem

HEALED_AT_ONCE_MAX: Final = 10
#: So many volumes grow by themselves at a time; the fullest come first.
GROWN_MAX: Final = 500

_AT: Final = "heal.grow.at"
_BY: Final = "heal.grow.by"
_MOST: Final = "heal.grow.max"
#: The words for a ``max`` that no volume could ever have.
MOST_RULE: Final = "must not be below storage.size"
MOST_FIX: Final = "raise it, or leave it out: no volume grows by itself then"

FIELDS: Final[Mapping[str, fields.Kind]] = {
    "heal.after": fields.Duration(units.MINUTE_MS, 7 * units.DAY_MS),
    "heal.atOnce": fields.Whole(1, HEALED_AT_ONCE_MAX),
    _AT: fields.Text(r"[1-9][0-9]?%", "a whole number of percent from 1% to 99%", "80%"),
    _BY: fields.Text(r"([1-9][0-9]?|100)%", "a whole number of percent from 1% to 100%", "20%"),
    _MOST: volumes.SIZE,
    "heal.lostVolume": fields.OneOf(LostVolume),
}
DEFAULTS: Final[Mapping[str, int | str]] = {
    "heal.after": "30m",
    "heal.atOnce": 1,
    _AT: "80%",
    _BY: "20%",
    "heal.lostVolume": LostVolume.TELL.value,
}
DESCRIPTIONS: Final[Mapping[str, str]] = {
    "heal": "What the operator mends by itself.",
    "heal.after": "A volume on a local disk counts as lost once its node is gone for this time.",
    "heal.atOnce": "At most so many bookies are healed at a time.",
    "heal.grow": "The volume of a bookie that fills grows by itself, once an hour at most.",
    _AT: "A volume that is used by more than this share grows.",
    _BY: "It grows by this share of its own size, rounded up to whole Mi.",
    _MOST: "No volume grows by itself beyond this size.",
    "heal.lostVolume": "Of a bookie whose volume is lost: Tell says so, with the ways out; Recover "
    "has its copies made elsewhere by autorecovery, and then starts a new bookie in its place; "
    "Refill gives it the empty disk, and it gets its copies back there.",
}
OTHERWISE: Final[Mapping[str, str]] = {_MOST: "none, and no volume grows by itself"}


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowRules:
    """When the volume of a bookie grows by itself, and how far."""

    #: ``1 <= at_percent <= 99``: it grows once more than this share is used.
    at_percent: int
    #: ``1 <= by_percent <= 100``.
    by_percent: int
    #: A size.
    most: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HealRules:
    """What the operator mends by itself."""

    lost_volume: LostVolume
    #: So many bookies at a time.
    at_once: int
    #: So long the node of a local volume is gone before the volume counts as lost.
    after_ms: int
    #: None: no volume grows by itself.
    grow: GrowRules | None = None


def read(values: Mapping[str, object]) -> HealRules:
    """Give the rules of fields that were all read."""
    at_once, after_ms = values["heal.atOnce"], values["heal.after"]
    assert isinstance(at_once, int), "every plain field was read"
    assert isinstance(after_ms, int), "every plain field was read"
    return HealRules(
        lost_volume=LostVolume(str(values["heal.lostVolume"])),
        at_once=at_once,
        after_ms=after_ms,
        grow=_grow(values),
    )


def _grow(values: Mapping[str, object]) -> GrowRules | None:
    most = values.get(_MOST)
    if most is None:
        return None
    at_percent, by_percent = (int(str(values[one]).removesuffix("%")) for one in (_AT, _BY))
    return GrowRules(at_percent=at_percent, by_percent=by_percent, most=str(most))


def problems(values: Mapping[str, object]) -> Iterator[Problem]:
    """Find a ``max`` that is below the size of every volume; what cannot be read is none."""
    most, size = values.get(_MOST), values.get("storage.size")
    if quantities.is_larger(size, most):
        rule = f"{MOST_RULE} ({size})"
        yield Problem(f"spec.{_MOST}", fields.shown(most), rule, MOST_FIX)
