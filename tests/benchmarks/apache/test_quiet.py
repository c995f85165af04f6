"""What a lap leaves behind is waited for, and counted without what idling takes."""

import pytest

from benchmarks.apache import quiet
from benchmarks.apache.quiet import Look


def looks(*cpu_s: float) -> list[Look]:
    """One look a second."""
    return [Look(float(at), cpu) for at, cpu in enumerate(cpu_s)]


def over(found: list[Look]) -> bool:
    return quiet.is_over(found, settle_s=4.0, most_s=8.0)


def test_a_side_gets_its_time_though_it_does_nothing_at_first() -> None:
    assert not over(looks(0, 0, 0, 0))
    assert over(looks(0, 0, 0, 0, 0))


def test_a_side_that_works_is_waited_for_until_a_whole_stretch_is_quiet() -> None:
    assert not over(looks(0, 0, 0, 0, 1))
    assert not over(looks(0, 0, 0, 0, 1, 1))
    assert over(looks(0, 0, 0, 0, 1, 1, 1))


def test_a_side_that_never_rests_is_given_up_and_is_not_quiet() -> None:
    found = looks(*range(9))
    assert over(found)
    assert not over(found[:-1])
    assert quiet.left_behind(found) == (8.0, 8.0, False)


def test_idling_is_taken_off() -> None:
    left = quiet.left_behind(looks(0.0, 1.0, 1.02, 1.04, 1.06))
    assert left.quiet
    assert left.cpu_s == pytest.approx(0.98)
    assert left.seconds == pytest.approx(4.0)


def test_no_work_is_less_than_none() -> None:
    assert quiet.left_behind(looks(0.0, 0.0, 0.0, 0.02, 0.04)).cpu_s == 0.0


def test_a_short_wait_says_nothing_of_idling() -> None:
    assert quiet.left_behind(looks(0.0, 0.5)) == (0.5, 1.0, False)


def test_slow_work_is_no_idling() -> None:
    slow = looks(*(0.06 * second for second in range(9)))
    assert not over(slow[:-1])
    assert not quiet.left_behind(slow).quiet
