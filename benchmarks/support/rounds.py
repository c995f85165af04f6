"""Interleaved rounds: every round runs every case once, in a new order; medians are printed.

A figure is never compared with one of another invocation. Where two cases are compared, it is by
the median of the rounds' own ratios: what slowed a round slowed both.
"""

import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Final

#: Printed as parts of a second.
_MS: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What one run of one case gave."""

    entries: int
    size_bytes: int
    wall_s: float
    cpu_s: float
    #: Seconds from the intended sending of an entry to its acknowledgement.
    latencies_s: list[float] = field(default_factory=list)

    @property
    def per_cpu_second(self) -> float:
        """Entries for each second of CPU, of all processes together."""
        return self.entries / self.cpu_s

    @property
    def per_second(self) -> float:
        """Entries for each second of the clock."""
        return self.entries / self.wall_s

    @property
    def cpus(self) -> float:
        """How many CPUs it got: a small number means that others had them."""
        return self.cpu_s / self.wall_s

    def percentile_ms(self, part: float) -> float:
        """Give a percentile of the latencies."""
        return sorted(self.latencies_s)[int(part * (len(self.latencies_s) - 1))] * _MS


Case = Callable[[], Awaitable[Sample]]


async def run(
    cases: Mapping[str, Case], rounds: int, chance: random.Random
) -> dict[str, list[Sample]]:
    """Run all cases so often, and give their samples in the order of the rounds."""
    found: dict[str, list[Sample]] = {name: [] for name in cases}
    for _ in range(rounds):
        names = list(cases)
        chance.shuffle(names)
        for name in names:
            found[name].append(await cases[name]())
    return found


def spread(values: list[float], digits: int = 1) -> str:
    """Spell a median, with the least and the most."""
    return f"{median(values):.{digits}f} ({min(values):.{digits}f}-{max(values):.{digits}f})"


def ratio(ones: list[Sample], others: list[Sample]) -> list[float]:
    """Give the ratio of entries per CPU-second, round by round."""
    return [a.per_cpu_second / b.per_cpu_second for a, b in zip(ones, others, strict=True)]
