"""Numbers as Prometheus reads them: its text format, version 0.0.4.

::

    # TYPE zonekeeper_auditor_ledgers gauge
    zonekeeper_auditor_ledgers 1000
    # TYPE zonekeeper_zone_available_bookies gauge
    zonekeeper_zone_available_bookies{zone="a"} 4

A family is all samples of one name, by their labels. What ends in ``_total`` only grows. Names are
the program's own; label values may hold anything and are escaped.

``counted`` makes families of a dataclass of numbers, so that what a role counts is exposed without
being written down twice: ``x_total`` is a counter, ``x_now`` and, where the class says that it
mostly tells how it is now, ``x`` are gauges; a mapping is labelled by what its keys are.
"""

import enum
from collections.abc import Iterable, Mapping
from dataclasses import Field, dataclass, fields
from typing import ClassVar, Final, Protocol, TypeAlias

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

Labels: TypeAlias = tuple[tuple[str, str], ...]

_TOTAL: Final = "_total"
_NOW: Final = "_now"
_BY: Final = "_by_"
#: What a mapping of plain names is labelled by, unless its own name says so: ``ledgers_by_level``.
_ZONE: Final = "zone"


class Counts(Protocol):
    """A dataclass of numbers, and of mappings to numbers."""

    __dataclass_fields__: "ClassVar[dict[str, Field[object]]]"


@dataclass(frozen=True, slots=True)
class Family:
    """All samples of one name."""

    name: str
    samples: Mapping[Labels, float]


def single(name: str, value: float) -> Family:
    """Make a family of one sample without labels."""
    return Family(name, {(): value})


def labelled(name: str, label: str, values: Mapping[str, float]) -> Family:
    """Make a family with one label."""
    return Family(name, {((label, key),): value for key, value in values.items()})


def counted(prefix: str, counts: Counts, *, of_now: bool) -> list[Family]:
    """Make families of a dataclass; ``of_now``: what has no ending is how it is now."""
    found = []
    for field in fields(counts):
        value, name = getattr(counts, field.name), f"{prefix}_{field.name.removesuffix(_NOW)}"
        if not (of_now or field.name.endswith((_NOW, _TOTAL))):
            name += _TOTAL
        if isinstance(value, Mapping):
            plain = field.name.partition(_BY)[2] or _ZONE
            found.append(Family(name, {_labels(key, plain): n for key, n in value.items()}))
        else:
            found.append(single(name, value))
    return found


def render(families: Iterable[Family]) -> str:
    """Write families, in their order."""
    lines = []
    for one in families:
        lines.append(f"# TYPE {one.name} {'counter' if one.name.endswith(_TOTAL) else 'gauge'}")
        for labels, value in sorted(one.samples.items()):
            inside = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels)
            lines.append(f"{one.name}{f'{{{inside}}}' if inside else ''} {_number(value)}")
    return "\n".join(lines) + "\n"


def _labels(key: object, plain: str) -> Labels:
    if isinstance(key, enum.Enum):
        return ((type(key).__name__.lower(), str(key.value)),)
    names: tuple[str, ...] | None = getattr(key, "_fields", None)
    if names is not None and isinstance(key, tuple):
        return tuple((name, str(part)) for name, part in zip(names, key, strict=True))
    return ((plain, str(key)),)


def _number(value: float) -> str:
    return str(int(value)) if isinstance(value, int) else repr(value)


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
