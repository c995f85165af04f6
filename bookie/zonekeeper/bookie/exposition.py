"""Numbers as Prometheus reads them: the text format 0.0.4, and a histogram that feeds it. Pure."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

#: Upper bounds in seconds: from a write into a fast device to what somebody gives up on.
BOUNDS_S: Final = (
    0.0005, 0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.125, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0
)  # fmt: skip

Labels = Mapping[str, str]
_NO_LABELS: Final[Labels] = {}


class Histogram:
    """How many of something took how long."""

    __slots__ = ("_counts", "_sum_s")

    def __init__(self) -> None:
        self._counts = [0] * (len(BOUNDS_S) + 1)
        self._sum_s = 0.0

    def observe(self, seconds: float) -> None:
        """Count one."""
        self._counts[bisect_left(BOUNDS_S, seconds)] += 1
        self._sum_s += seconds

    def samples(self) -> tuple[Sequence[int], float]:
        """Give how many took at most each bound, and longer; and the time of all."""
        total, cumulated = 0, []
        for count in self._counts:
            total += count
            cumulated.append(total)
        return cumulated, self._sum_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One number."""

    value: float
    labels: Labels = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Numbers of one name."""

    name: str
    help: str
    #: ``counter`` or ``gauge``.
    kind: str
    samples: Sequence[Sample]


@dataclass(frozen=True, slots=True, kw_only=True)
class HistogramFamily:
    """Histograms of one name, by the value of one label."""

    name: str
    help: str
    label: str
    histograms: Mapping[str, Histogram]


def gauge(name: str, help_text: str, value: float, labels: Labels = _NO_LABELS) -> Family:
    """Give a single number that goes up and down."""
    samples = (Sample(value=value, labels=labels),)
    return Family(name=name, help=help_text, kind="gauge", samples=samples)


def counter(name: str, help_text: str, value: float) -> Family:
    """Give a single number that only grows; its name ends in ``_total``."""
    return Family(name=name, help=help_text, kind="counter", samples=(Sample(value=value),))


def render(families: Sequence[Family | HistogramFamily]) -> str:
    """Write the text of all."""
    lines: list[str] = []
    for family in families:
        kind = family.kind if isinstance(family, Family) else "histogram"
        lines += [f"# HELP {family.name} {family.help}", f"# TYPE {family.name} {kind}"]
        if isinstance(family, Family):
            lines += [_line(family.name, each.labels, each.value) for each in family.samples]
        else:
            for value, histogram in sorted(family.histograms.items()):
                lines += _histogram(family.name, {family.label: value}, histogram)
    return "".join(f"{line}\n" for line in lines)


def _histogram(name: str, labels: Labels, histogram: Histogram) -> list[str]:
    counts, sum_s = histogram.samples()
    bounds = [*map(_number, BOUNDS_S), "+Inf"]
    return [
        *(
            _line(f"{name}_bucket", {**labels, "le": bound}, count)
            for bound, count in zip(bounds, counts, strict=True)
        ),
        _line(f"{name}_sum", labels, sum_s),
        _line(f"{name}_count", labels, counts[-1]),
    ]


def _line(name: str, labels: Labels, value: float) -> str:
    inside = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
    return f"{name}{{{inside}}} {_number(value)}" if inside else f"{name} {_number(value)}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)
