"""Turns of marked ledgers: which is tried next, and when one is left as it is."""

from itertools import pairwise

import pytest

from zonekeeper.pipeline.planning.repair_turns import (
    TRIES_MAX,
    MetNow,
    RepairTurns,
    TurnVerdict,
)
from zonekeeper.placement.base.ids import LedgerId
from zonekeeper.replication.repair.repair_metrics import RepairTrouble

SEVEN = LedgerId(7)
CLAIM_S, OPEN_S = 30.0, 60.0


def turns(*ids: int) -> RepairTurns:
    return RepairTurns(map(LedgerId, ids), claim_wait_s=CLAIM_S, open_wait_s=OPEN_S)


def until_left(met: MetNow, most: int = 1_000) -> list[float]:
    """Meet the same again and again; give the times of the tries until the ledger is left."""
    one, now_s, tried = turns(7), 0.0, list[float]()
    while (pause_s := one.pause_s(now_s)) is not None and len(tried) < most:
        now_s += pause_s
        assert one.take(now_s) == SEVEN
        tried.append(now_s)
        if one.came(SEVEN, met, now_s) is TurnVerdict.LEFT:
            assert one.pause_s(now_s) is None
            break
    return tried


def test_each_ledger_has_a_turn_in_order_and_what_is_done_has_no_other() -> None:
    one = turns(3, 5, 9)
    taken = []
    while one.pause_s(0.0) is not None:
        ledger_id = one.take(0.0)
        assert ledger_id is not None
        taken.append(ledger_id)
        assert one.came(ledger_id, MetNow(), 0.0) is TurnVerdict.DONE
    assert taken == [3, 5, 9]
    assert one.take(1e9) is None


def test_what_is_tried_again_waits_and_does_not_stop_the_others() -> None:
    one = turns(3, 5)
    assert one.take(0.0) == 3
    assert one.came(LedgerId(3), MetNow(again=True), 0.0) is TurnVerdict.LATER
    assert one.pause_s(0.0) == 0.0
    assert one.take(0.0) == 5
    assert one.came(LedgerId(5), MetNow(), 0.0) is TurnVerdict.DONE
    assert one.take(0.0) is None
    pause_s = one.pause_s(0.0)
    assert pause_s is not None
    assert pause_s > 0
    assert one.take(pause_s) == 3


def test_a_claim_of_another_process_is_waited_for_and_then_left_to_it() -> None:
    tried = until_left(MetNow(again=True))
    assert CLAIM_S <= tried[-1] <= CLAIM_S + 2
    assert len(tried) > 10


def test_a_writer_is_waited_for_beyond_its_grace() -> None:
    tried = until_left(MetNow(troubles={RepairTrouble.OPEN}))
    assert OPEN_S <= tried[-1] <= OPEN_S + 2


def test_a_hold_is_waited_for_less_and_less_often_and_without_end() -> None:
    tried = until_left(MetNow(troubles={RepairTrouble.HELD}), most=100)
    assert len(tried) == 100
    pauses = [after - before for before, after in pairwise(tried)]
    assert pauses == sorted(pauses)
    assert pauses[0] < 2
    assert pauses[-1] == 30


def test_what_was_held_before_is_left_at_once() -> None:
    assert until_left(MetNow(troubles={RepairTrouble.HELD}, held_before=True)) == [0.0]


@pytest.mark.parametrize(
    "trouble", [RepairTrouble.NO_TARGET, RepairTrouble.ENTRY_LOST, RepairTrouble.COPIES_DIFFER]
)
def test_what_no_retry_cures_is_left_at_once(trouble: RepairTrouble) -> None:
    assert until_left(MetNow(troubles={trouble})) == [0.0]
    others = {trouble, RepairTrouble.HELD, RepairTrouble.OPEN, RepairTrouble.NO_SOURCE}
    assert until_left(MetNow(troubles=others)) == [0.0]


@pytest.mark.parametrize(
    "trouble",
    [
        RepairTrouble.NO_SOURCE,
        RepairTrouble.TARGETS_FAILED,
        RepairTrouble.OVERTAKEN,
        RepairTrouble.RECOVERY_FAILED,
        RepairTrouble.METADATA,
    ],
)
def test_a_failure_is_tried_a_few_times(trouble: RepairTrouble) -> None:
    tried = until_left(MetNow(troubles={trouble, RepairTrouble.HELD}))
    assert len(tried) == TRIES_MAX
    assert tried[2] - tried[1] > tried[1] - tried[0] > 0


def test_a_grace_is_waited_for_before_a_hold_that_was_there_before_ends_the_ledger() -> None:
    met = MetNow(troubles={RepairTrouble.OPEN, RepairTrouble.HELD}, held_before=True)
    assert len(until_left(met)) > 1
