"""Which bookies a reader asks, and what it makes of the answers."""

import pytest

from zonekeeper.client.reading.share_read import (
    AskReplica,
    CallSlow,
    Denied,
    Event,
    Got,
    HedgeDue,
    ReadStanding,
    ShareRead,
    Unknown,
    WakeLater,
)
from zonekeeper.placement.base.ids import EntryId, LedgerId
from zonekeeper.wire.formats.entries import Entry


def entry(number: int) -> Entry:
    return Entry(LedgerId(7), EntryId(number), EntryId(-1), number + 1, b"x")


def started(wanted: range = range(5, 9)) -> ShareRead:
    read = ShareRead(wanted=wanted, order=(2, 0, 1), hedge_after_ms=100)
    assert read.start() == [AskReplica(position=2, hedging=False), WakeLater(delay_ms=100)]
    return read


def test_the_first_answer_ends_it() -> None:
    read = started()
    assert read.handle(Got(position=2, entries=[entry(5), entry(6)])) == []
    assert (read.outcome, [e.entry_id for e in read.entries]) == (ReadStanding.GOT, [5, 6])
    assert read.handle(Denied(position=0)) == []
    assert read.outcome is ReadStanding.GOT


def test_what_follows_a_gap_is_left_for_another_read() -> None:
    read = started()
    read.handle(Got(position=2, entries=[entry(5), entry(7)]))
    assert [e.entry_id for e in read.entries] == [5]


def test_a_stripe_goes_in_steps() -> None:
    read = started(range(5, 30, 6))
    read.handle(Got(position=2, entries=[entry(5), entry(11), entry(17)]))
    assert [e.entry_id for e in read.entries] == [5, 11, 17]


@pytest.mark.parametrize(
    "event", [Denied(position=2), Unknown(position=2, error=OSError())], ids=["denied", "failed"]
)
def test_the_next_is_asked_at_once_when_the_first_cannot_help(event: Event) -> None:
    assert started().handle(event) == [AskReplica(position=0, hedging=False)]


def test_a_slow_replica_is_hedged_and_each_further_hedge_waits_twice_as_long() -> None:
    read = started()
    assert read.handle(HedgeDue()) == [
        CallSlow(position=2),
        AskReplica(position=0, hedging=True),
        WakeLater(delay_ms=200),
    ]
    assert read.handle(HedgeDue()) == [
        CallSlow(position=2),
        CallSlow(position=0),
        AskReplica(position=1, hedging=True),
        WakeLater(delay_ms=400),
    ]
    assert read.handle(HedgeDue()) == []
    read.handle(Got(position=2, entries=[entry(5)]))
    assert read.outcome is ReadStanding.GOT


def test_while_another_is_still_asked_nobody_else_is() -> None:
    read = started()
    read.handle(HedgeDue())
    assert read.handle(Denied(position=2)) == []
    assert read.handle(Denied(position=0)) == [AskReplica(position=1, hedging=False)]


def test_missing_only_if_all_deny_it() -> None:
    read = started()
    for position in (2, 0, 1):
        assert read.outcome is ReadStanding.GOING_ON
        read.handle(Denied(position=position))
    assert read.outcome is ReadStanding.MISSING


def test_one_failure_among_denials_makes_it_unknown() -> None:
    read = started()
    read.handle(Denied(position=2))
    read.handle(Unknown(position=0, error=OSError()))
    read.handle(Denied(position=1))
    assert read.outcome is ReadStanding.UNKNOWN
    assert list(read.errors) == [0]
