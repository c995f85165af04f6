"""The tally of the lanes that use real time."""

import dataclasses
from typing import Final

import pytest

from tests.flaky import tally
from tests.flaky.tally import Tally

ZONES: Final = "tests/zones/test_stops.py"
PASSED: Final = f'<testcase file="{ZONES}" name="test_a" time="1.0"/>'
SKIPPED: Final = f'<testcase file="{ZONES}" name="test_b"><skipped message="no Java"/></testcase>'
GROUP: Final = """
  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "x.py", line 1, in x
    |     value: int = one(two)
    | grpc.Error: <because>
    |
    | The above exception was the direct cause of the following exception:
    |
    | wire.errors.ConnectionLost: refused
    +------------------------------------
"""


def failure(message: str, text: str = "", *, test: str = "test_a", kind: str = "failure") -> str:
    shown = message.replace("\n", "&#10;")
    inside = text.replace("<", "&lt;")
    return (
        f'<testcase file="{ZONES}" name="{test}"><{kind} message="{shown}">{inside}</{kind}>'
        "</testcase>"
    )


def report(*cases: str) -> str:
    return f"<testsuites><testsuite>{''.join(cases)}</testsuite></testsuites>"


def new() -> Tally:
    return Tally(tree="0123", load=2)


def test_a_turn_says_what_each_test_failed_with() -> None:
    cases = (PASSED, SKIPPED, failure("assert 0 &gt; 0\n + where", test="test_c[1/2]"))
    assert tally.turn("zones", 1, report(*cases)) == {
        f"{ZONES}::test_a": None,
        f"{ZONES}::test_c[1/2]": "assert 0 > 0",
    }


@pytest.mark.parametrize(
    "cases",
    [(PASSED, failure("left over", kind="error")), (failure("left over", kind="error"), PASSED)],
    ids=["after", "before"],
)
def test_a_test_whose_teardown_failed_has_failed(cases: tuple[str, str]) -> None:
    assert tally.turn("zones", 1, report(*cases)) == {f"{ZONES}::test_a": "left over"}


@pytest.mark.parametrize(
    ("text", "line"), [(GROUP, "wire.errors.ConnectionLost: refused"), ("", "ExceptionGroup: one")]
)
def test_of_a_group_the_exception_in_it_is_told(text: str, line: str) -> None:
    one = report(failure("ExceptionGroup: one", text))
    assert tally.turn("zones", 1, one) == {f"{ZONES}::test_a": line}


@pytest.mark.parametrize(
    ("code", "text", "why"),
    [
        (0, report(SKIPPED), "no test ran"),
        (3, report(PASSED), "pytest ended with 3"),
        (-9, "", "pytest ended with -9"),
        (1, "", "pytest ended with 1"),
    ],
)
def test_a_turn_that_shows_nothing_is_a_failure(code: int, text: str, why: str) -> None:
    assert tally.turn("zones", code, text) == {"(zones)": why}


def test_runs_and_failures_are_counted_and_those_that_fail_most_come_first() -> None:
    counted = new()
    counted.take("zones", {"a": None, "b": "first"})
    counted.take("zones", {"a": None, "b": "second"})
    counted.take("zones", {"a": None, "c": None})
    assert list(counted.lines(["zones", "cluster"])) == [
        "zones: 3 rounds, 2 failures",
        "    runs  failures  test",
        "       2         2  b",
        "                    second",
        "       3         0  a",
        "       1         0  c",
        "cluster: 0 rounds, 0 failures",
        "    runs  failures  test",
    ]


def test_the_lane_that_is_furthest_behind_is_next_until_all_rounds_are_done() -> None:
    counted, order = new(), []
    while lane := counted.next_lane(["zones", "cluster"], 2):
        order.append(lane)
        counted.take(lane, {})
    assert order == ["zones", "cluster"] * 2
    assert counted.next_lane(["zones"], 3) == "zones"


def test_clean_is_all_rounds_of_the_lanes_that_are_asked_for_and_no_failure() -> None:
    counted = new()
    counted.take("zones", {"a": None})
    counted.take("cluster", {"b": "why"})
    assert counted.is_clean(["zones"], 1)
    assert not counted.is_clean(["zones"], 2)
    assert not counted.is_clean(["zones", "cluster"], 1)


def test_a_tally_is_read_as_it_was_written_and_another_format_is_refused() -> None:
    counted = new()
    counted.take("zones", {"a": None, "b": "why \N{LATIN SMALL LETTER A WITH DIAERESIS}"})
    text = tally.dump(counted)
    assert tally.load(text) == counted
    assert dataclasses.asdict(tally.load(text)) == dataclasses.asdict(counted)
    with pytest.raises(ValueError, match="another format"):
        tally.load(text.replace('"format": 1', '"format": 2'))
