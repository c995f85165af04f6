"""What is promised of ledgers from before the store was set back: little, but not nothing."""

from tests.simulation import checker
from tests.simulation import history as seen
from tests.simulation.test_checker import (
    COLLECTED,
    LEDGER,
    START,
    A,
    acked,
    closed,
    denied,
    failed,
    got,
    kept,
    recorded,
    restart,
    set_back,
    told,
)


def test_of_ledgers_from_before_the_store_was_set_back_little_is_promised() -> None:
    before: list[seen.Event] = [*START, acked(0, 2), got(0), told(2)]
    lost: list[seen.Event] = [failed("NoSuchLedger"), denied(1), got(1, b"other")]
    in_backup: list[seen.Event] = [closed(1), recorded(None), acked(3, 3)]
    assert checker.check([*before, set_back(), *lost]) == []
    assert checker.check([*before, set_back(in_backup=True), *lost, *in_backup]) == []
    assert checker.check([*before, set_back(young=True), *lost, *in_backup, COLLECTED]) == []


def test_an_id_may_come_again_that_is_given_out_before_anybody_knows_of_a_set_back() -> None:
    drawn = seen.Redrawn(ledger=LEDGER)
    assert checker.check([*START, set_back(), drawn, recorded()]) == []


def test_what_is_behind_the_end_of_the_ledger_that_has_its_id_now_may_be_left_out() -> None:
    again: list[seen.Event] = [set_back(young=True), recorded(), closed(0)]
    assert checker.check([*START, *again, *restart(kept(0, 1), kept(0))]) == []
    lost = checker.check([*START, *again, *restart(kept(0, 1))])
    assert [one.rule for one in lost] == ["I14"]
    is_open = checker.check([*START, *again[:2], *restart(kept(0, 1), kept(0))])
    assert [one.rule for one in is_open] == ["I14"]


def test_what_a_bookie_has_collected_it_need_not_have_after_a_crash() -> None:
    had = restart(kept(0, 1), kept(0, 1))
    start = seen.Restarted(bookie=A, kept=())
    events = [*had, set_back(young=True), COLLECTED, seen.Crashed(kept=()), start]
    assert checker.check([*START, *events]) == []
