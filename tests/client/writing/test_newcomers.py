"""Newcomers that fail as soon as they are chosen, while the others are enough."""

from tests.client.transcripts import Transcript, started
from zonekeeper.client.writing import writer_events as ev
from zonekeeper.client.writing.writer_core import CHANGES_IN_A_ROW_MAX, DEGRADED_RETRY_MS
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.wire.formats import errors


def replaced_in_vain(talk: Transcript) -> None:
    """B fails, and so does each newcomer for it, at once."""
    talk.fail("B", 0)
    for number in range(CHANGES_IN_A_ROW_MAX):
        name = "XY"[number % 2]
        talk.changed(f"A{name}C")
        talk.feed(ev.LaneRefused(term=talk.term(name), error=errors.NotConnected("nobody")))


def test_the_others_are_let_acknowledge_before_more_newcomers_are_tried() -> None:
    talk = started()
    replaced_in_vain(talk)
    assert len(talk.changes) == CHANGES_IN_A_ROW_MAX
    talk.ack("A", 0)
    talk.ack("C", 0)
    assert talk.confirmed == [0]
    assert talk.stop is None


def test_newcomers_are_tried_again_after_a_while() -> None:
    talk = started()
    replaced_in_vain(talk)
    lanes = len(talk.terms)
    for now_ms in (0, DEGRADED_RETRY_MS):
        talk.feed(ev.Ticked(now_ms=now_ms))
    assert len(talk.terms) == lanes + 1, "whoever failed last is asked first"
    talk.ack("A", 0)
    talk.ack("C", 0)
    last = talk.core.ensemble[1]
    talk.feed(ev.LaneRefused(term=talk.term(last), error=errors.NotConnected("nobody")))
    talk.take()
    assert len(talk.changes) == CHANGES_IN_A_ROW_MAX + 1


def test_where_the_others_are_not_enough_newcomers_are_tried_on() -> None:
    talk = started(quorums=Quorums(ensemble=3, write=3, ack=3))
    replaced_in_vain(talk)
    assert len(talk.changes) == CHANGES_IN_A_ROW_MAX + 1


def test_a_bookie_that_is_tried_again_is_sent_all_that_is_not_confirmed_once_more() -> None:
    talk = started()
    talk.ack("A", 0)
    talk.fail("B", 0)
    talk.feed(ev.ChangeImpossible(error=Exception("nobody left")))
    for now_ms in (0, DEGRADED_RETRY_MS):
        talk.feed(ev.Ticked(now_ms=now_ms))
    talk.opened("B")
    assert [list(frame.entry_ids) for frame in talk.sent("B")] == [[0], [0]]
