"""What there is when a zone transcript begins, and how it is written: ``bookies: 4 a zone``."""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, cast

from tests.zone_scenarios import clauses
from tests.zone_scenarios.clauses import UnknownError
from zonekeeper.placement.base import fields, units
from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.placement.policy import rules_data
from zonekeeper.placement.policy.rules import Policy

ZONES: Final = (ZoneName("a"), ZoneName("b"), ZoneName("c"))

_PER_ZONE: Final = 10
_PER_ZONE_MAX: Final = 30
_NAMES: Final = ("bookies", "policy", "repairs take", "begins")

#: A setting's value, and where it is written.
Given = tuple[str, str]


class TranscriptError(ValueError):
    """A transcript that cannot be played: where, and what is wrong."""

    def __init__(self, place: str, what: str) -> None:
        super().__init__(f"{place}: {what}")


@contextmanager
def standing_at(place: str) -> Iterator[None]:
    """Say where something stands that is not understood."""
    try:
        yield
    except (UnknownError, fields.InvalidFieldsError) as error:
        raise TranscriptError(place, str(error)) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The zones a, b and c, all of one size, and their rules."""

    per_zone: int
    policy: Policy
    #: How long after its publication a lost bookie is written off; None: never.
    repairs_take_ms: int | None
    #: No zone watch has run before: the first watch begins with the transcript.
    first_start: bool

    @property
    def bookies(self) -> tuple[BookieId, ...]:
        """All bookies of the beginning."""
        return tuple(BookieId(f"{zone}-{n}") for zone in ZONES for n in range(self.per_zone))


def read(given: Mapping[str, Given], place: str) -> Setting:
    """Read what is given, by its name; ``place`` is where the transcript begins."""
    for name, (_, where) in given.items():
        if name not in _NAMES:
            raise TranscriptError(where, f"no setting: {name!r} (like {', '.join(_NAMES)})")

    def value(name: str, usual: str) -> Given:
        return given.get(name, (usual, place))

    text, where = value("bookies", f"{_PER_ZONE} a zone")
    with standing_at(where):
        per_zone = _per_zone(text)
    text, where = value("policy", "")
    with standing_at(where):
        policy = rules_data.from_rules(_rules(text))
    text, where = value("repairs take", units.duration_text(units.MINUTE_MS))
    with standing_at(where):
        repairs_take_ms = None if text == "for ever" else clauses.duration_ms(text)
    text, where = value("begins", "settled")
    if text not in ("settled", "with the first start"):
        raise TranscriptError(where, f"how does it begin? {text!r} (like with the first start)")
    return Setting(
        per_zone=per_zone,
        policy=policy,
        repairs_take_ms=repairs_take_ms,
        first_start=text != "settled",
    )


def _per_zone(text: str) -> int:
    match = re.fullmatch(r"(\d+) a zone", text)
    if match is None or not 0 < int(match[1]) <= _PER_ZONE_MAX:
        raise UnknownError(f"how many? {text!r} (like 4 a zone, at most {_PER_ZONE_MAX})")
    return int(match[1])


def _rules(text: str) -> dict[str, object]:
    """Read ``repair.resume manual, repair.after 6h`` as a person's rules for the three zones."""
    rules: dict[str, dict[str, object]] = {"placement": {"zones": list(ZONES)}}
    for part in text.split(", ") if text else ():
        match = re.fullmatch(r"(\w+)\.(\w+) (\S+)", part)
        if match is None:
            raise UnknownError(f"no rule: {part!r} (like repair.resume manual)")
        section = rules.setdefault(match[1], {})
        if match[2] in section:
            raise UnknownError(f"{match[1]}.{match[2]} is given twice")
        section[match[2]] = _value(match[3])
    return dict(rules)


def _value(text: str) -> object:
    """Give a number or a flag as such, and any other word as a text."""
    try:
        return cast("object", json.loads(text))
    except ValueError:
        return text
