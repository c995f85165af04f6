"""A lap: one run of one case on one side, with what it cost; and when it counts. Pure.

A lap counts only if nothing that would make its figures lies was so: see ``faults``. What does not
count stays in the results, with its faults, so that a reader can judge the judge.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Final

#: So many CPUs of other work, on the average of the window, are too many.
OTHERS_CPUS_MAX: Final = 0.25
#: CPU time is counted in hundredths of a second: a shorter window says too little.
WINDOW_S_MIN: Final = 0.5
#: A load at a rate that took longer than this was not at that rate.
RATE_SLACK: Final = 1.1
RATE_SLACK_S: Final = 0.3

PERCENTILES: Final = {"p50_ms": 0.5, "p99_ms": 0.99, "p999_ms": 0.999, "most_ms": 1.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Lap:
    """What one run of one case on one side gave."""

    case: str
    side: str
    round: int
    entries: int
    wall_s: float
    #: In the window: of client and bookies; the client's part of it; ZooKeeper's beside.
    cpu_s: float
    client_cpu_s: float
    zookeeper_cpu_s: float
    #: What other processes took on the average of the window.
    others_cpus: float
    #: Of client and bookies from the window's end until they were quiet, less what idling costs.
    tail_cpu_s: float
    tail_s: float
    quiet: bool
    warm: bool = True
    #: By the names of ``PERCENTILES``; empty: the case has no latencies.
    latencies_ms: Mapping[str, float] = field(default_factory=dict)
    #: What was written, and what was read back; None: nothing was to be read back.
    written: int | None = None
    found: int | None = None
    #: How long a load at a rate should have taken; None: it had no rate.
    meant_s: float | None = None
    #: Other figures of the case, by their names.
    more: Mapping[str, float] = field(default_factory=dict)
    #: Why the lap failed; empty: it did not.
    failure: str = ""

    @property
    def cpu_us(self) -> float:
        """The CPU time of an entry in microseconds, with what the lap left behind."""
        return 1e6 * (self.cpu_s + self.tail_cpu_s) / self.entries

    @property
    def wall_us(self) -> float:
        """The time of the clock for an entry in microseconds."""
        return 1e6 * self.wall_s / self.entries


def failed(case: str, side: str, number: int, why: str) -> Lap:
    """Give the lap that did not come to its end."""
    return Lap(
        case=case,
        side=side,
        round=number,
        entries=0,
        wall_s=0.0,
        cpu_s=0.0,
        client_cpu_s=0.0,
        zookeeper_cpu_s=0.0,
        others_cpus=0.0,
        tail_cpu_s=0.0,
        tail_s=0.0,
        quiet=False,
        failure=why,
    )


def faults(lap: Lap, *, others_cpus_max: float = OTHERS_CPUS_MAX) -> list[str]:
    """Say why a lap does not count; nothing: it counts."""
    if lap.failure:
        return [f"it failed: {lap.failure}"]
    found = []
    if lap.entries <= 0:
        found.append("it has no entry")
    if lap.wall_s < WINDOW_S_MIN:
        found.append(f"its window of {lap.wall_s:.2f} s is shorter than {WINDOW_S_MIN} s")
    if lap.others_cpus > others_cpus_max:
        found.append(f"other work took {lap.others_cpus:.2f} CPUs")
    if not lap.quiet:
        found.append(f"its side was not quiet {lap.tail_s:.0f} s behind it")
    if not lap.warm:
        found.append("its side was not warm")
    if lap.written is not None and lap.found != lap.written:
        found.append(f"{lap.found} of {lap.written} entries were read back")
    if lap.meant_s is not None and lap.wall_s > lap.meant_s * RATE_SLACK + RATE_SLACK_S:
        found.append(f"it took {lap.wall_s:.1f} s where its rate takes {lap.meant_s:.1f} s")
    return found


def percentiles(latencies_us: Sequence[int]) -> Mapping[str, float]:
    """Give the percentiles of latencies; nothing for nothing."""
    if not latencies_us:
        return {}
    ordered = sorted(latencies_us)
    return {
        name: ordered[int(part * (len(ordered) - 1))] / 1e3 for name, part in PERCENTILES.items()
    }


def as_json(lap: Lap) -> dict[str, object]:
    """Give a lap as an object of JSON, with its faults."""
    return {**asdict(lap), "faults": faults(lap)}


def of_json(found: Mapping[str, object]) -> Lap:
    """Read a lap; fields that this version does not know are left out."""
    known = {name: found[name] for name in Lap.__dataclass_fields__ if name in found}
    return Lap(**known)  # type: ignore[arg-type]  # a file of this benchmark's own
