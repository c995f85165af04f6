"""Which members of a ledger lag too far."""

from zonekeeper.log.writing import lagging
from zonekeeper.log.writing.lagging import Lagging
from zonekeeper.metadata.formats.log_record import LogRules
from zonekeeper.placement.base.ids import BookieId, EntryId

A, B, C = (BookieId(f"bk-{zone}-0") for zone in "abc")


def sent(members: Lagging, first: int, count: int, now_ms: int, size: int = 100) -> None:
    for entry in range(first, first + count):
        members.sent(EntryId(entry), size_bytes=size, now_ms=now_ms)


def test_a_member_lags_from_the_first_entry_on_that_it_has_not_answered_for() -> None:
    members = Lagging(LogRules(downgrade_lag_ms=1_000))
    sent(members, 1, 1, now_ms=0)
    sent(members, 2, 1, now_ms=500)
    behind = {A: EntryId(1), B: EntryId(2)}
    assert members.laggards(behind, now_ms=999) == []
    assert members.laggards(behind, now_ms=1_000) == [A]
    assert members.laggards(behind, now_ms=1_500) == [A, B]
    assert members.laggards({B: EntryId(2)}, now_ms=1_500) == [B]


def test_a_member_lags_by_the_bytes_that_it_has_not_answered_for() -> None:
    members = Lagging(LogRules(downgrade_lag_bytes=300))
    sent(members, 1, 3, now_ms=0)
    assert members.laggards({A: EntryId(1), B: EntryId(2)}, now_ms=0) == [A]
    assert members.laggards({A: EntryId(2)}, now_ms=10**9) == []
    sent(members, 4, 1, now_ms=0)
    assert members.laggards({A: EntryId(2), C: EntryId(3)}, now_ms=0) == [A]


def test_what_all_have_answered_for_is_forgotten() -> None:
    members = Lagging(LogRules(downgrade_lag_ms=1_000))
    assert not members.is_watched
    sent(members, 1, 100, now_ms=0)
    members.laggards({A: EntryId(100)}, now_ms=1)
    assert len(members._marks) == 1
    members.laggards({}, now_ms=2)
    assert not members.is_watched
    sent(members, 101, 1, now_ms=5_000)
    assert members.laggards({A: EntryId(101)}, now_ms=5_999) == [], "it was quiet before"
    assert members.laggards({A: EntryId(101)}, now_ms=6_000) == [A]


def test_a_newcomer_lags_since_it_came() -> None:
    members = Lagging(LogRules(downgrade_lag_ms=1_000))
    members.seated([A, B], now_ms=0)
    sent(members, 1, 1, now_ms=0)
    members.seated([A, B], now_ms=1_000)
    assert members.laggards({A: EntryId(1)}, now_ms=1_000) == [A]
    members.seated([C, B], now_ms=1_200)
    assert members.laggards({C: EntryId(1)}, now_ms=2_199) == []
    assert members.laggards({C: EntryId(1)}, now_ms=2_200) == [C]
    sent(members, 2, 1, now_ms=5_000)
    members.seated([A, B], now_ms=5_000)
    assert members.laggards({A: EntryId(1), B: EntryId(2)}, now_ms=5_999) == [], "it came again"
    assert members.laggards({A: EntryId(2), B: EntryId(2)}, now_ms=6_000) == [A, B]


def test_a_newcomer_lags_by_the_bytes_that_were_sent_since_it_came() -> None:
    members = Lagging(LogRules(downgrade_lag_bytes=300))
    members.seated([A, B], now_ms=0)
    sent(members, 1, 3, now_ms=0)
    assert members.laggards({A: EntryId(1)}, now_ms=0) == [A]
    members.seated([C, B], now_ms=0)
    sent(members, 4, 2, now_ms=0)
    assert members.laggards({C: EntryId(1)}, now_ms=10**9) == []
    sent(members, 6, 1, now_ms=0)
    assert members.laggards({C: EntryId(1)}, now_ms=10**9) == [C]


def test_without_a_rule_nothing_is_watched() -> None:
    members = Lagging(LogRules())
    sent(members, 1, 3, now_ms=0)
    assert not members.is_watched
    assert members.laggards({A: EntryId(1)}, now_ms=10**9) == []
    assert lagging.pause_ms(LogRules()) is None


def test_members_are_looked_at_often_enough_and_not_all_the_time() -> None:
    assert lagging.pause_ms(LogRules(downgrade_lag_ms=400)) == 100
    assert lagging.pause_ms(LogRules(downgrade_lag_ms=1)) == 10
    assert lagging.pause_ms(LogRules(downgrade_lag_ms=10**6)) == 1_000
    assert lagging.pause_ms(LogRules(downgrade_lag_bytes=1)) == 250
