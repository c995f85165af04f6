"""Lanes that are opened before there is anything to send."""

from tests.client.transcripts import Transcript, started
from zonekeeper.client.writing import writer_events as ev
from zonekeeper.placement.base.ids import EntryId
from zonekeeper.wire.formats import errors

NOBODY = errors.NotConnected("nobody there")


def opened_by(talk: Transcript) -> list[str]:
    """Say that lanes are wanted, and give the bookies to which one is then opened."""
    effects = talk.feed(ev.LanesWanted())
    assert all(isinstance(effect, ev.OpenLane) for effect in effects)
    return [effect.bookie for effect in effects if isinstance(effect, ev.OpenLane)]


def test_each_seat_gets_a_lane_once() -> None:
    talk = Transcript()
    assert opened_by(talk) == ["A", "B", "C"]
    assert opened_by(talk) == []
    talk.opened("A")
    assert talk.core.seating.opening
    talk.opened("BC")
    assert not talk.core.seating.opening
    assert opened_by(talk) == []
    assert [talk.sent(name) for name in "ABC"] == [[], [], []]
    assert not talk.core.waits


def test_the_first_batch_goes_out_at_once_over_the_lanes_that_are_open() -> None:
    talk = Transcript()
    opened_by(talk)
    talk.opened("AB")
    talk.take()
    assert [len(talk.sent(name)) for name in "ABC"] == [1, 1, 0]
    talk.opened("C")
    assert len(talk.sent("C")) == 1
    talk.ack("A", 0)
    talk.ack("C", 0)
    assert talk.confirmed == [0]


def test_a_bookie_that_fails_is_replaced_with_the_first_batch_and_not_before() -> None:
    talk = Transcript()
    opened_by(talk)
    talk.opened("AB")
    talk.feed(ev.LaneRefused(term=talk.term("C"), error=NOBODY))
    assert not talk.core.seating.opening
    assert talk.changes == []
    assert opened_by(talk) == [], "it is to be replaced"
    talk.take()
    (change,) = talk.changes
    assert (change.first_entry, change.failed) == (0, ((2, "C"),))
    talk.changed("ABX")
    talk.opened("X")
    talk.ack("A", 0)
    talk.ack("X", 0)
    assert talk.confirmed == [0]


def test_a_bookie_that_does_not_know_the_ledger_is_not_asked_again() -> None:
    talk = Transcript()
    opened_by(talk)
    talk.feed(ev.LaneRefused(term=talk.term("A"), error=errors.LedgerDeleted("not known")))
    assert opened_by(talk) == []


def test_a_fence_that_an_opening_meets_ends_the_writer() -> None:
    talk = Transcript()
    opened_by(talk)
    talk.feed(ev.LaneRefused(term=talk.term("A"), error=errors.Fenced("by another")))
    assert talk.stop is not None
    assert opened_by(talk) == []


def test_open_lanes_stay_as_they_are() -> None:
    assert opened_by(started()) == []


def test_a_lane_that_was_lost_before_it_was_used_is_opened_again_once() -> None:
    """A bookie may start again between the opening and the first batch."""
    talk = Transcript()
    opened_by(talk)
    talk.opened("ABC")
    talk.take()
    lost = errors.NotOpened("the connection has ended")
    for name in "ABC":
        talk.feed(ev.Blocked(term=talk.term(name), first=EntryId(0), error=lost))
    assert talk.changes == []
    talk.opened("AB")
    talk.ack("A", 0)
    talk.ack("B", 0)
    assert talk.confirmed == [0]
    talk.take()
    talk.opened("C")
    talk.feed(ev.Blocked(term=talk.term("C"), first=EntryId(0), error=lost))
    (change,) = talk.changes
    assert change.failed == ((2, "C"),), "this lane was opened for something to send"


def test_a_bookie_that_refuses_to_open_a_lane_ahead_is_to_be_replaced() -> None:
    talk = Transcript()
    opened_by(talk)
    talk.feed(ev.LaneRefused(term=talk.term("A"), error=NOBODY))
    assert opened_by(talk) == []
    talk.take()
    (change,) = talk.changes
    assert change.failed == ((0, "A"),)
