"""The history checker finds what it is there to find."""

import pytest

from tests.support.histories import Append, Outcome, Read, violations


def _append(token: str, began: int, ended: int, outcome: Outcome = Outcome.YES) -> Append:
    return Append(token=token, began=began, ended=ended, outcome=outcome)


def _read(seen: str, began: int, ended: int) -> Read:
    return Read(seen=tuple(seen), began=began, ended=ended)


def test_a_history_that_could_be_has_no_violations() -> None:
    appends = [
        _append("a", 0, 2),
        _append("b", 1, 4),
        _append("c", 3, 5, Outcome.UNKNOWN),
        _append("d", 3, 5, Outcome.UNKNOWN),
        _append("e", 3, 5, Outcome.NO),
    ]
    reads = [_read("", 0, 1), _read("b", 1, 3), _read("ba", 3, 4), _read("bac", 6, 7)]
    assert violations(appends, reads, ("b", "a", "c")) == []


def test_operations_at_the_same_time_may_take_effect_in_any_order() -> None:
    appends = [_append("a", 0, 10), _append("b", 0, 10)]
    assert violations(appends, [_read("b", 0, 10), _read("", 0, 10)], ("b", "a")) == []
    assert violations(appends, [_read("a", 0, 10), _read("", 0, 10)], ("a", "b")) == []


@pytest.mark.parametrize(
    ("appends", "reads", "last", "complaint"),
    [
        ([_append("a", 0, 1)], [], "", "acknowledged and lost"),
        ([_append("a", 0, 1)], [], "aa", "applied 2 times"),
        ([_append("a", 0, 1, Outcome.UNKNOWN)], [], "aa", "applied 2 times"),
        ([_append("a", 0, 1, Outcome.NO)], [], "a", "there, though it was refused"),
        ([], [], "x", "nobody wrote it"),
        ([_append("a", 0, 1), _append("b", 2, 3)], [], "ba", "took effect before it"),
        ([_append("a", 0, 1)], [_read("", 2, 3)], "a", "took effect before it"),
        ([_append("a", 5, 6)], [_read("a", 0, 1)], "a", "took effect before it"),
        ([_append("a", 0, 9)], [_read("a", 1, 2), _read("", 3, 4)], "a", "took effect before it"),
        ([_append("a", 0, 1), _append("b", 0, 1)], [_read("b", 2, 3)], "ab", "never was"),
        ([_append("a", 0, 1)], [_read("ax", 2, 3)], "a", "never was"),
    ],
)
def test_each_kind_of_impossible_history_is_found(
    appends: list[Append], reads: list[Read], last: str, complaint: str
) -> None:
    found = violations(appends, reads, tuple(last))
    assert any(complaint in violation for violation in found), found
