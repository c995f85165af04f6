"""The command line, the cases, and the order of the laps."""

import random
import re
from pathlib import Path

import pytest

from benchmarks.apache import __main__ as race
from benchmarks.apache import bench, racing, report, results
from benchmarks.apache.cases import EVERY, OTHERS, USUAL, Cost, cost_of
from benchmarks.apache.java_processes import DRIVER
from benchmarks.support import accounting
from tests.benchmarks.apache.results import GOOD, pair
from tests.benchmarks.apache.results import results as some


def test_case_names_are_words_and_unique() -> None:
    assert len(EVERY) == len(USUAL) + len(OTHERS)
    assert all(re.fullmatch(r"[a-z0-9-]+", name) for name in EVERY)


def test_every_cost_of_every_case_is_a_figure_of_a_lap() -> None:
    assert cost_of(GOOD, Cost.CPU) == pytest.approx(10.0)
    assert cost_of(GOOD, Cost.WALL) == pytest.approx(20.0)
    assert all(case.costs for case in EVERY.values())
    for cost in set(Cost) - {Cost.CPU, Cost.WALL}:
        assert cost_of(GOOD, cost) is None


def test_usual_cases_run_without_a_choice() -> None:
    given = race.parser().parse_args([])
    assert race.chosen(given) == list(USUAL)
    assert given.rounds == 5
    assert given.settings == ["default", "tuned", "latency"]


def test_what_cannot_be_run_is_refused() -> None:
    for words, said in (
        (["--cases", "append-1024-e5"], "--bookies 5"),
        (["--rounds", "0"], "--rounds"),
        (["--versions", "--ways"], "--versions or --ways"),
    ):
        with pytest.raises(ValueError, match=said):
            race.chosen(race.parser().parse_args(words))
    five = ["--cases", "append-1024-e5", "--bookies", "5"]
    assert len(race.chosen(race.parser().parse_args(five))) == 1


def test_results_are_reported_again_into_a_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written, page = tmp_path / "results.json", tmp_path / "page.txt"
    written.write_text(results.text(some(pair(1, 1.0, 2.0))))
    page.write_text(f"{report.BEGIN}\n{report.END}\n")
    words = ["--from", written, "--to", tmp_path / "out", "--table", page]
    assert race.main([str(word) for word in words]) == 0
    assert "| 2.00 | 1 of 1 |" in page.read_text()
    assert (tmp_path / "out" / "race.html").exists()
    assert report.BEGIN in capsys.readouterr().out


def test_a_wrong_file_is_an_error_with_a_word(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "wrong").write_text("{}")
    assert race.main(["--from", str(tmp_path / "wrong"), "--to", str(tmp_path)]) == 2
    assert "no file of a race" in capsys.readouterr().err


def test_a_round_has_every_lap_once_and_the_sides_of_a_case_together() -> None:
    cases, sides = list(USUAL)[:4], ["a", "b", "c"]
    orders = [
        racing.order(cases, sides, random.Random(seed))  # type: ignore[arg-type]  # names do
        for seed in range(4)
    ]
    for laps in orders:
        assert len(set(laps)) == len(cases) * len(sides)
        for at in range(0, len(laps), len(sides)):
            assert len({case for case, _ in laps[at : at + len(sides)]}) == 1
    assert len({tuple(case for case, _ in laps) for laps in orders}) > 1
    assert len({tuple(side for _, side in laps[:3]) for laps in orders}) > 1


def test_a_side_is_warm_when_three_windows_cost_the_same() -> None:
    assert not bench.agree([])
    assert not bench.agree([38.0, 38.0])
    assert not bench.agree([155.0, 69.0, 48.0, 52.0])
    assert not bench.agree([38.0, 38.0, 38.0, 50.0])
    assert bench.agree([155.0, 69.0, 48.0, 52.0, 38.0, 39.0, 40.0])


def test_a_lap_is_spelled_with_its_faults() -> None:
    assert "10.0 CPU-us" in racing.spelled(GOOD)
    (_, apache) = pair(1, 1.0, 2.0)
    assert "does not count" not in racing.spelled(apache)


def test_both_drivers_obey_the_same_verbs() -> None:
    ours = (DRIVER.parent / "our_driver.py").read_text()
    verbs = set(re.findall(r'^            "(\w+)": self\.', ours, re.M))
    theirs = set(re.findall(r'case "(\w+)":', DRIVER.read_text()))
    assert verbs == theirs
    asked = (DRIVER.parent / "cases.py").read_text() + (DRIVER.parent / "bench.py").read_text()
    assert set(re.findall(r'(?:ask|tell)\(\s*"(\w+)"', asked)) == verbs


def test_busy_time_has_what_the_host_took_and_no_idling_or_waiting() -> None:
    assert accounting.busy_ticks("cpu  1 2 4 800 1600 8 16 32 64 128\ncpu0 1\n") == 63


def test_memory_and_the_machine_are_looked_at() -> None:
    assert accounting.machine_cpu_seconds() > 0
