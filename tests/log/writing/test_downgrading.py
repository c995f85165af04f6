"""When a log's next ledger may have less than its full quorums."""

from zonekeeper.log.writing.downgrading import DOWNGRADE_AFTER_MS, Downgrading
from zonekeeper.metadata.formats.log_record import LogRules
from zonekeeper.placement.base.quorums import Quorums

MINIMUM = Quorums(ensemble=2, write=2, ack=1)
RULES = LogRules(minimum=MINIMUM, downgrade_after_ms=1_000)


def test_without_a_minimum_it_is_never_less() -> None:
    state = Downgrading()
    assert not any(state.may_be_less(LogRules(), now_ms) for now_ms in (0, 10**9))


def test_it_is_less_once_full_quorums_were_missing_for_the_time() -> None:
    state = Downgrading()
    assert [state.may_be_less(RULES, 500 + at) for at in (0, 999, 1_000)] == [False, False, True]


def test_a_full_ledger_begins_the_time_anew() -> None:
    state = Downgrading()
    state.may_be_less(RULES, 0)
    state.full()
    assert not state.may_be_less(RULES, 5_000)
    assert not state.may_be_less(RULES, 5_999)
    assert state.may_be_less(RULES, 6_000)


def test_the_time_has_a_default_and_may_be_none_at_all() -> None:
    state = Downgrading()
    rules = LogRules(minimum=MINIMUM)
    assert not state.may_be_less(rules, 0)
    assert not state.may_be_less(rules, DOWNGRADE_AFTER_MS - 1)
    assert state.may_be_less(rules, DOWNGRADE_AFTER_MS)
    assert Downgrading().may_be_less(LogRules(minimum=MINIMUM, downgrade_after_ms=0), 7)
