"""A lap counts only if nothing that would make its figures lies was so."""

from dataclasses import replace
from typing import Any

import pytest

from benchmarks.apache import laps
from tests.benchmarks.apache.results import GOOD


def test_a_good_lap_counts() -> None:
    assert laps.faults(GOOD) == []


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"failure": "no answer"}, "no answer"),
        ({"entries": 0}, "no entry"),
        ({"wall_s": 0.49}, "shorter"),
        ({"others_cpus": 0.26}, "other work"),
        ({"quiet": False}, "not quiet"),
        ({"warm": False}, "not warm"),
        ({"found": 100_000}, "read back"),
        ({"found": 100_002}, "read back"),
        ({"found": None}, "read back"),
        ({"meant_s": 1.5}, "its rate takes"),
    ],
)
def test_a_lap_with_a_fault_does_not_count(change: dict[str, Any], word: str) -> None:
    (fault,) = laps.faults(replace(GOOD, **change))
    assert word in fault


def test_what_was_not_to_be_read_back_is_not_missed() -> None:
    assert laps.faults(replace(GOOD, written=None, found=None)) == []


def test_a_load_that_kept_its_rate_counts() -> None:
    assert laps.faults(replace(GOOD, meant_s=1.95)) == []


def test_the_work_left_behind_is_a_cost_of_the_entries() -> None:
    assert GOOD.cpu_us == pytest.approx(10.0)
    assert replace(GOOD, tail_cpu_s=1.1).cpu_us == pytest.approx(20.0)


def test_percentiles_are_those_of_the_ordered_latencies() -> None:
    found = laps.percentiles([*range(1_000, 0, -1)])
    assert found == {"p50_ms": 0.5, "p99_ms": 0.99, "p999_ms": 0.999, "most_ms": 1.0}
    assert laps.percentiles([]) == {}


def test_a_lap_is_read_back_from_its_json_and_knows_no_newer_field() -> None:
    written = laps.as_json(replace(GOOD, latencies_ms={"p50_ms": 1.5}))
    assert written["faults"] == []
    assert laps.of_json({**written, "of_tomorrow": 1}) == replace(
        GOOD, latencies_ms={"p50_ms": 1.5}
    )
