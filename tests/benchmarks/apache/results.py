"""Laps and results of tests: what is not said is as in a lap that counts."""

from collections.abc import Sequence
from dataclasses import replace

from benchmarks.apache.laps import Lap
from benchmarks.apache.results import Results

OURS = "ours, lane"
TUNED = "Apache 4.18.0, tuned"

GOOD = Lap(
    case="append-1024",
    side=OURS,
    round=1,
    entries=100_000,
    wall_s=2.0,
    cpu_s=0.9,
    client_cpu_s=0.3,
    zookeeper_cpu_s=0.0,
    others_cpus=0.1,
    tail_cpu_s=0.1,
    tail_s=11.0,
    quiet=True,
    written=100_001,
    found=100_001,
)


def pair(number: int, our_cpu_s: float, apache_cpu_s: float) -> list[Lap]:
    """Give the laps of both sides of a round; with the tail, 0.1 s more."""
    ours = replace(GOOD, round=number, cpu_s=our_cpu_s - 0.1)
    return [ours, replace(GOOD, round=number, cpu_s=apache_cpu_s - 0.1, side=TUNED)]


def results(laps: Sequence[Lap]) -> Results:
    return Results(
        date="2026-01-02 03:04",
        ours=[OURS],
        laps=list(laps),
        conditions={"before": "2 CPUs, load 0.1"},
        options={"windows": "5 s"},
    )
