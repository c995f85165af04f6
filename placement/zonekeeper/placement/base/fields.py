"""The kinds of value that people and records give, and the error for a wrong value.

A kind turns plain data (the values of JSON or YAML) into a value, and back. A value that is not
exactly of the kind is refused. The error has the field's path, the value, the rule and what to do.
A boolean is not a number, and a number is not a name. Nothing is guessed or rounded.
"""

import difflib
import enum
import json
import math
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, TypeAlias

from zonekeeper.placement.base import units
from zonekeeper.placement.base.troubles import Refusal

#: The values of JSON, and of the plain part of YAML.
Plain: TypeAlias = "str | int | float | bool | list[Plain] | dict[str, Plain] | None"

#: A message lists at most this many problems, one a line; ``problems`` has all of them.
PROBLEMS_SHOWN_MAX: Final = 100

#: Marks a field of a stored value (as its ``metadata``) that stored values of an earlier version
#: lack. Where it is missing its default is read.
LATER: Final[Mapping[str, bool]] = MappingProxyType({"later": True})

_SHOWN_MAX: Final = 60
#: The longest path that a message shows.
_PATH_MAX: Final = 300
_DNS_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
DNS_LABEL_RULE: Final = "must be a DNS label: lower case letters, digits and -, at most 63"


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong: its path, its value, the rule that must hold, and what to do."""

    path: str
    value: str
    rule: str
    fix: str

    def __str__(self) -> str:
        # A path has names of maps, which a person may have chosen.
        path = self.path if self.path.isprintable() else json.dumps(self.path)[1:-1]
        return f"{_clipped(path, _PATH_MAX)}: {self.value}: {self.rule}; {self.fix}"


class InvalidFieldsError(Refusal, ValueError):
    """One or more values are not what they must be."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        lines = [str(problem) for problem in self.problems[:PROBLEMS_SHOWN_MAX]]
        if more := len(self.problems) - len(lines):
            lines.append(f"and {more} more problems: mend these first")
        super().__init__("\n".join(lines))


def shown(value: object) -> str:
    """Give a value as a message shows it: on one line, not too long, safe for a terminal."""
    try:
        text = json.dumps(value, ensure_ascii=False)
        text = text if text.isprintable() else json.dumps(value)
    except (TypeError, ValueError, RecursionError):
        text = f"a value of type {type(value).__name__}"
    return _clipped(text)


def _clipped(text: str, most: int = _SHOWN_MAX) -> str:
    return text if len(text) <= most else text[: most - 3] + "..."


def refuse(path: str, value: object, rule: str, fix: str) -> InvalidFieldsError:
    """Give the error for one wrong value."""
    return InvalidFieldsError([Problem(path, shown(value), rule, fix)])


def kept(path: str, value: object) -> str:
    """Give the JSON of an unknown field, which is to be written back; or refuse its value."""
    try:
        return json.dumps(value, sort_keys=True, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        rule = "must be what JSON can say, and not nested too deep"
        raise refuse(path, value, rule, "write the record again") from None


def below(path: str, name: str) -> str:
    """Give the path of a field below ``path``, as a message shows it."""
    name = _clipped(name) if name.isprintable() else shown(name)
    return f"{path}.{name}" if path else name


def unknown(path: str, value: object, known: Collection[str], elsewhere: str = "") -> Problem:
    """Give the problem of an unknown field, with the name that was probably meant.

    ``elsewhere`` is the path at which a field of this name does exist, if there is one.
    """
    name = path.rpartition(".")[2]
    near = [elsewhere] if elsewhere else difflib.get_close_matches(name, known, 1, 0.6)
    fix = f"did you mean {near[0]}?" if near else f"known here: {', '.join(sorted(known))}"
    return Problem(path, shown(value), "unknown field", fix)


def mapping(path: str, value: object) -> dict[str, object]:
    """Read a mapping of fields; the fields themselves are not checked."""
    if not isinstance(value, dict):
        raise refuse(
            path or "the record", value, "must be a mapping of fields", "write name: value"
        )
    return {str(key): item for key, item in value.items()}


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number within limits."""

    least: int
    most: int
    suffix: str = ""

    def read(self, path: str, value: object) -> int:
        """Read it, or raise ``InvalidFieldsError``."""
        if type(value) is not int or not self.least <= value <= self.most:
            rule = f"must be a whole number from {self.least} to {self.most}"
            raise refuse(path, value, rule, f"write for example {self._nearest(value)}")
        return value

    def plain(self, value: object) -> Plain:
        """Give it as plain data."""
        assert type(value) is int
        return value

    def _nearest(self, value: object) -> int:
        number = value if type(value) is int else self.least
        return min(max(number, self.least), self.most)


@dataclass(frozen=True, slots=True)
class Number:
    """A number within limits; with ``above`` the lower limit itself is not allowed."""

    least: float
    most: float
    above: bool = False
    suffix: str = ""

    def read(self, path: str, value: object) -> float:
        """Read it, or raise ``InvalidFieldsError``."""
        if type(value) not in (int, float):
            number = math.nan
        else:
            assert isinstance(value, int | float)
            number = value
        inside = self.least < number if self.above else self.least <= number
        if not (inside and number <= self.most):
            low = f"above {self.least:g}" if self.above else f"at least {self.least:g}"
            rule = f"must be a number, {low} and at most {self.most:g}"
            raise refuse(path, value, rule, f"write for example {self.most:g}")
        return float(number)

    def plain(self, value: object) -> Plain:
        """Give it as plain data; a whole number has no decimal point."""
        assert isinstance(value, int | float)
        return int(value) if value == int(value) else value


@dataclass(frozen=True, slots=True)
class Duration:
    """A time span, in milliseconds."""

    least_ms: int = 1
    most_ms: int = 3_650 * units.DAY_MS
    suffix: str = "_ms"

    def read(self, path: str, value: object) -> int:
        """Read it, or raise ``InvalidFieldsError``."""
        found = units.duration_ms(value) if isinstance(value, str) else None
        if found is None:
            sane = type(value) is int and 0 < value <= self.most_ms // units.SECOND_MS
            rule = "must be a duration: a whole number and ms, s, m, h or d"
            raise refuse(path, value, rule, f"write for example {value if sane else 60}s")
        if not self.least_ms <= found <= self.most_ms:
            least, most = units.duration_text(self.least_ms), units.duration_text(self.most_ms)
            fix = f"write {least if found < self.least_ms else most}"
            raise refuse(path, value, f"must be from {least} to {most}", fix)
        return found

    def plain(self, value: object) -> Plain:
        """Give it as plain data."""
        assert type(value) is int
        return units.duration_text(value)


@dataclass(frozen=True, slots=True)
class Size:
    """A number of bytes, in whole KiB; zero has no unit."""

    most_bytes: int
    suffix: str = ""
    #: With a least size above zero, zero is refused, too.
    least_bytes: int = 0

    def read(self, path: str, value: object) -> int:
        """Read it, or raise ``InvalidFieldsError``."""
        zero = (type(value) is int and value == 0) or value == "0"
        found = 0 if zero else units.size_bytes(value) if isinstance(value, str) else None
        if found is None:
            rule = "must be a size: a whole number and KiB, MiB, GiB or TiB, or 0"
            raise refuse(path, value, rule, "write for example 10MiB")
        if found > self.most_bytes:
            most = units.size_text(self.most_bytes)
            raise refuse(path, value, f"must be at most {most}", f"write {most}")
        if found < self.least_bytes:
            least = units.size_text(self.least_bytes)
            raise refuse(path, value, f"must be at least {least}", f"write {least}")
        return found

    def plain(self, value: object) -> Plain:
        """Give it as plain data."""
        assert type(value) is int
        return units.size_text(value) if value else 0


@dataclass(frozen=True, slots=True)
class Flag:
    """Yes or no."""

    suffix: str = ""

    def read(self, path: str, value: object) -> bool:
        """Read it, or raise ``InvalidFieldsError``."""
        if type(value) is not bool:
            raise refuse(path, value, "must be true or false", "write true or false, unquoted")
        return value

    def plain(self, value: object) -> Plain:
        """Give it as plain data."""
        assert type(value) is bool
        return value


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of a few words."""

    words: type[enum.StrEnum]
    suffix: str = ""

    def read(self, path: str, value: object) -> enum.StrEnum:
        """Read it, or raise ``InvalidFieldsError``."""
        if not isinstance(value, str) or value not in list(self.words):
            allowed = [str(word) for word in self.words]
            near = difflib.get_close_matches(shown(value), allowed, 1) or allowed
            rule = f"must be one of {', '.join(allowed)}"
            raise refuse(path, value, rule, f"write for example {near[0]}")
        return self.words(value)

    def plain(self, value: object) -> Plain:
        """Give it as plain data."""
        assert isinstance(value, self.words)
        return str(value)


@dataclass(frozen=True, slots=True)
class Text:
    """A text of a given form; ``form`` and ``example`` describe the form in words."""

    pattern: str
    form: str
    example: str
    suffix: str = ""

    def read(self, path: str, value: object) -> str:
        """Read it, or raise ``InvalidFieldsError``."""
        if not isinstance(value, str):
            raise refuse(path, value, f"must be {self.form}", f'write a text: "{self.example}"')
        if not re.fullmatch(self.pattern, value):
            raise refuse(path, value, f"must be {self.form}", f"write for example {self.example}")
        return value

    def plain(self, value: object) -> Plain:
        """Give it as plain data."""
        assert isinstance(value, str)
        return value


@dataclass(frozen=True, slots=True)
class Names:
    """A list of distinct DNS labels: each is part of a pod's name and of a metadata path."""

    most: int
    suffix: str = ""

    def read(self, path: str, value: object) -> tuple[str, ...]:
        """Read them, or raise ``InvalidFieldsError``."""
        if not isinstance(value, list) or not 1 <= len(value) <= self.most:
            rule = f"must be a list of 1 to {self.most} names"
            raise refuse(path, value, rule, "write for example [a, b, c]")
        problems = [
            problem
            for index, item in enumerate(value)
            if (problem := self._problem(path, value, index, item))
        ]
        if problems:
            raise InvalidFieldsError(problems)
        return tuple(value)

    def plain(self, value: object) -> Plain:
        """Give them as plain data."""
        assert isinstance(value, tuple)
        return list(value)

    def _problem(self, path: str, names: list[object], index: int, name: object) -> Problem | None:
        where = f"{path}[{index}]"
        if not isinstance(name, str):
            rule = "must be a text (YAML reads no, on and 1 as something else)"
            return Problem(where, shown(name), rule, 'put it in quotes: "no"')
        if not is_dns_label(name):
            return Problem(where, shown(name), DNS_LABEL_RULE, "write for example eu-west-1a")
        if name in names[:index]:
            first = names.index(name)
            return Problem(where, shown(name), f"duplicates {path}[{first}]", "remove one of them")
        return None


Kind: TypeAlias = Whole | Number | Duration | Size | Flag | OneOf | Text | Names

#: A text that is of no kind.
_NOTHING: Final = "\0"


def rule_of(kind: Kind) -> str:
    """Give the rule of a kind in words and what to do, as a refusal of a wrong text says it."""
    try:
        kind.read("", _NOTHING)
    except InvalidFieldsError as refused:
        return "; ".join((refused.problems[0].rule, refused.problems[0].fix))
    raise AssertionError("no kind reads this text")


def is_dns_label(text: str) -> bool:
    """Can this be one of ``Names``?"""
    return _DNS_LABEL.fullmatch(text) is not None
