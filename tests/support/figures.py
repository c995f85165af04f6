"""Figures that tests have measured, printed at the end of the session.

A test hands its figures to ``record``; those of one lane are summed up over all tests and over all
processes of pytest-xdist, and printed behind the results. As a plugin it must be known from the
beginning: ``-p tests.support.figures``.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import pytest

_PROPERTY: Final = "figures"


def record(
    record_property: Callable[[str, object], None],
    lane: str,
    counts: Mapping[str, int],
    cpu_s: float,
) -> None:
    """Note what a test has counted in its lane; the first count is told by the second, too."""
    record_property(_PROPERTY, json.dumps([lane, dict(counts), cpu_s]))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the sums of each lane."""
    counts: dict[str, Counter[str]] = {}
    cpu_s: dict[str, float] = {}
    for lane, counted, spent_s in _recorded(terminalreporter):
        counts.setdefault(lane, Counter()).update(counted)
        cpu_s[lane] = cpu_s.get(lane, 0.0) + spent_s
    for lane, counted in sorted(counts.items()):
        what, number = next(iter(counted.items()))
        told = ", ".join(f"{each:,} {name}" for name, each in counted.items())
        rate = number / max(cpu_s[lane], 0.001)
        terminalreporter.write_line(f"{lane}: {told}; {rate:.1f} {what} a CPU-second")


def _recorded(
    terminalreporter: pytest.TerminalReporter,
) -> Iterator[tuple[str, dict[str, int], float]]:
    for reports in terminalreporter.stats.values():
        for report in reports:
            for name, value in getattr(report, "user_properties", ()):
                if name == _PROPERTY and getattr(report, "when", "") == "call":
                    lane, counts, cpu_s = json.loads(str(value))
                    yield lane, counts, cpu_s
