"""A bookie's ``/metrics`` page, and the work between two readings of it. Pure.

The names of the metrics are those of ``docs/bookie.md``. A bookie that was started between the
readings has counted from 0 again. Then its counts since that start are its work.
"""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from zonekeeper.placement.base.troubles import Trouble

_SECONDS: Final = "zonekeeper_bookie_operation_seconds_bucket"
_OUTCOMES: Final = "zonekeeper_bookie_operations_total"
_WAITING: Final = "zonekeeper_bookie_waiting_bytes"
_BOOT: Final = "zonekeeper_bookie_boot_epoch"
_READ_ONLY: Final = "zonekeeper_bookie_read_only"
_OK: Final = "ok"

_LINE: Final = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)(?: -?\d+)?")
_LABEL: Final = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)",?')
_ESCAPES: Final = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}


class NotMetricsError(Trouble):
    """The page is not a bookie's ``/metrics`` page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One reading of a bookie's metrics."""

    boot_epoch: int
    #: By operation and upper bound in seconds: the number that took at most this long.
    within: Mapping[str, Mapping[float, float]]
    #: The number by operation and outcome.
    outcomes: Mapping[tuple[str, str], float]
    waiting_bytes: int = 0
    read_only_because: tuple[str, ...] = ()


def parse(page: str) -> Look:
    """Read a page; raises ``NotMetricsError``."""
    within: dict[str, dict[float, float]] = {}
    outcomes: dict[tuple[str, str], float] = {}
    single: dict[str, float] = {}
    because = []
    for line in page.splitlines():
        if not line or line.startswith("#"):
            continue
        name, labels, value = _sample(line)
        if name == _SECONDS and {"operation", "le"} <= labels.keys():
            within.setdefault(labels["operation"], {})[_number(labels["le"])] = value
        elif name == _OUTCOMES and {"operation", "outcome"} <= labels.keys():
            outcomes[labels["operation"], labels["outcome"]] = value
        elif name == _READ_ONLY and value:
            because.append(labels.get("reason", "?"))
        elif not labels:
            single[name] = value
    if _BOOT not in single:
        raise NotMetricsError("it says nothing of a bookie that serves")
    return Look(
        boot_epoch=int(single[_BOOT]),
        within=within,
        outcomes=outcomes,
        waiting_bytes=int(single.get(_WAITING, 0)),
        read_only_because=tuple(because),
    )


def _sample(line: str) -> tuple[str, dict[str, str], float]:
    found = _LINE.fullmatch(line)
    if found is None:
        raise NotMetricsError(f"not a sample: {line[:80]!r}")
    labels = {
        label: re.sub(r'\\[\\"n]', lambda escape: _ESCAPES[escape[0]], text)
        for label, text in _LABEL.findall(found[2] or "")
    }
    return found[1], labels, _number(found[3])


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise NotMetricsError(f"not a number: {text[:80]!r}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class BookieWork:
    """The work of a bookie between two readings."""

    seconds: float
    #: By operation and upper bound: the number that took at most this long, and longer than the
    #: next lower bound.
    took: Mapping[str, Counter[float]] = field(default_factory=dict)
    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)

    def per_second(self, operation: str) -> float:
        """Give how often an operation ended in a second, with any outcome."""
        total = sum(count for (name, _), count in self.outcomes.items() if name == operation)
        return total / self.seconds

    @property
    def errors(self) -> Counter[str]:
        """Count the bad outcomes."""
        found: Counter[str] = Counter()
        for (_, outcome), count in self.outcomes.items():
            if outcome != _OK and count:
                found[outcome] += count
        return found

    def quantile_ms(self, operation: str, share: float) -> float | None:
        """Give a bucket's bound that this share did not exceed; None: nothing was done."""
        counts = self.took.get(operation, Counter())
        total = counts.total()
        if not total:
            return None
        seen = 0.0
        for bound in sorted(counts):
            seen += counts[bound]
            if seen >= share * total:
                return bound * 1_000
        raise AssertionError("a match of the whole pattern has all groups")

    def count(self, operation: str, least_ms: float) -> float:
        """Count operations of at least this time; each counts as its bucket's upper bound."""
        counts = self.took.get(operation, Counter())
        return sum(n for bound, n in counts.items() if bound * 1_000 >= least_ms)

    def __add__(self, other: "BookieWork") -> "BookieWork":
        """Give the work of two bookies in the same time."""
        took = {
            name: self.took.get(name, Counter()) + other.took.get(name, Counter())
            for name in {**self.took, **other.took}
        }
        seconds = max(self.seconds, other.seconds)
        return BookieWork(seconds=seconds, took=took, outcomes=self.outcomes + other.outcomes)


def between(before: Look, after: Look, seconds: float) -> BookieWork:
    """Give the work between two readings."""
    assert seconds > 0
    same_start = before.boot_epoch == after.boot_epoch
    took = {}
    for name, cumulated in after.within.items():
        known = before.within.get(name, {}) if same_start else {}
        took[name] = _apart({bound: n - known.get(bound, 0) for bound, n in cumulated.items()})
    known_outcomes = before.outcomes if same_start else {}
    outcomes = Counter[tuple[str, str]]()
    for key, count in after.outcomes.items():
        outcomes[key] = round(count - known_outcomes.get(key, 0))
    return BookieWork(seconds=seconds, took=took, outcomes=outcomes)


def _apart(cumulated: Mapping[float, float]) -> Counter[float]:
    """Give the count of each bucket without those below it."""
    found, below = Counter[float](), 0.0
    for bound in sorted(cumulated):
        found[bound] = round(cumulated[bound] - below)
        below = cumulated[bound]
    return found
