"""Metrics in the text format of Prometheus, version 0.0.4. Pure.

::

    # HELP zonekeeper_auditor_ledgers Ledgers that were seen.
    # TYPE zonekeeper_auditor_ledgers gauge
    zonekeeper_auditor_ledgers 1000
    # HELP zonekeeper_zone_available_bookies Bookies of the zone that are available.
    # TYPE zonekeeper_zone_available_bookies gauge
    zonekeeper_zone_available_bookies{zone="a"} 4

A family is all samples of one name, each with its labels, and a help that says what it is. A family
whose name ends in ``_total`` only grows. Names come from the program. Label values may be any text,
and are escaped.

``counted`` makes families of the fields of a dataclass, so that a counter is named, and its help is
written, in one place only: the field (``number``, ``numbers_by``). ``x_total`` is a counter.
``x_now`` is a gauge. ``x`` is a gauge if the caller says that the dataclass mostly tells the
present state (``of_now``), and otherwise a counter. A mapping is labelled by its keys. An enum of
keys names its label itself (``LABEL``), so that a class can be renamed without renaming a label.
"""

import enum
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields
from typing import ClassVar, Final, Protocol, TypeAlias, TypeVar

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

#: Upper bounds in seconds: from one write to a fast device to the time after which callers give up.
BOUNDS_S: Final = (
    0.0005, 0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.125, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0
)  # fmt: skip

Key = TypeVar("Key")

Labels: TypeAlias = tuple[tuple[str, str], ...]

_HELP: Final = "help"
_TOTAL: Final = "_total"
_NOW: Final = "_now"
_BY: Final = "_by_"
#: The label of a mapping with plain keys, unless the field's name says it: ``ledgers_by_level``.
_ZONE: Final = "zone"


class Countable(Protocol):
    """A dataclass of numbers, and of mappings to numbers."""

    __dataclass_fields__: "ClassVar[dict[str, Field[object]]]"


def number(help_text: str) -> int:
    """Make a field of a dataclass: a number that begins at 0."""
    return field(default=0, metadata={_HELP: help_text})


def numbers_by(help_text: str) -> "Counter[Key]":
    """Make a field of a dataclass: numbers by a key."""
    return field(default_factory=Counter, metadata={_HELP: help_text})


class Histogram:
    """Counts how many of something took how long."""

    __slots__ = ("_counts", "_sum_s")

    def __init__(self) -> None:
        self._counts = [0] * (len(BOUNDS_S) + 1)
        self._sum_s = 0.0

    def observe(self, seconds: float) -> None:
        """Count one that took this many seconds."""
        self._counts[bisect_left(BOUNDS_S, seconds)] += 1
        self._sum_s += seconds

    def samples(self) -> tuple[Sequence[int], float]:
        """Give for each bound how many took at most that long, then all; and the sum of times."""
        total, cumulated = 0, []
        for count in self._counts:
            total += count
            cumulated.append(total)
        return cumulated, self._sum_s


@dataclass(frozen=True, slots=True)
class Family:
    """All samples of one name."""

    name: str
    samples: Mapping[Labels, float]
    help: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HistogramFamily:
    """Histograms of one name, by the value of one label."""

    name: str
    help: str
    label: str
    histograms: Mapping[str, Histogram]


def single(name: str, value: float, help_text: str) -> Family:
    """Make a family of one sample without labels."""
    return Family(name, {(): value}, help_text)


def labelled(name: str, label: str, values: Mapping[str, float], help_text: str) -> Family:
    """Make a family with one label."""
    return Family(name, {((label, key),): value for key, value in values.items()}, help_text)


def counted(prefix: str, counts: Countable, *, of_now: bool) -> list[Family]:
    """Make families of a dataclass; with ``of_now`` a field without a suffix is a gauge."""
    found = []
    for one in fields(counts):
        value, name = getattr(counts, one.name), f"{prefix}_{one.name.removesuffix(_NOW)}"
        if not (of_now or one.name.endswith((_NOW, _TOTAL))):
            name += _TOTAL
        help_text = one.metadata[_HELP]
        if isinstance(value, Mapping):
            plain = one.name.partition(_BY)[2] or _ZONE
            samples = {_labels(key, plain): n for key, n in value.items()}
            found.append(Family(name, samples, help_text))
        else:
            found.append(single(name, value, help_text))
    return found


def render(families: Iterable[Family | HistogramFamily]) -> str:
    """Write families, in their order."""
    lines: list[str] = []
    for one in families:
        lines.append(f"# HELP {one.name} {one.help}")
        if isinstance(one, Family):
            lines.append(f"# TYPE {one.name} {'counter' if one.name.endswith(_TOTAL) else 'gauge'}")
            lines += [_line(one.name, labels, n) for labels, n in sorted(one.samples.items())]
        else:
            lines.append(f"# TYPE {one.name} histogram")
            for value, histogram in sorted(one.histograms.items()):
                lines += _histogram(one.name, ((one.label, value),), histogram)
    return "\n".join(lines) + "\n"


def _histogram(name: str, labels: Labels, histogram: Histogram) -> list[str]:
    counts, sum_s = histogram.samples()
    bounds = [*map(_number, BOUNDS_S), "+Inf"]
    return [
        *(
            _line(f"{name}_bucket", (*labels, ("le", bound)), count)
            for bound, count in zip(bounds, counts, strict=True)
        ),
        _line(f"{name}_sum", labels, sum_s),
        _line(f"{name}_count", labels, counts[-1]),
    ]


def _line(name: str, labels: Labels, value: float) -> str:
    inside = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels)
    return f"{name}{{{inside}}} {_number(value)}" if inside else f"{name} {_number(value)}"


def _labels(key: object, plain: str) -> Labels:
    if isinstance(key, enum.Enum):
        label: str = type(key).LABEL  # type: ignore[attr-defined]  # each enum of keys has one
        return ((label, str(key.value)),)
    names: tuple[str, ...] | None = getattr(key, "_fields", None)
    if names is not None and isinstance(key, tuple):
        return tuple((name, str(part)) for name, part in zip(names, key, strict=True))
    return ((plain, str(key)),)


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
