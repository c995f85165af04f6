"""A bookie says that it does not know the ledger any more: metadata decides what that means."""

from tests.client.transcripts import Transcript, started
from zonekeeper.client.base import errors as client_errors
from zonekeeper.client.writing import writer_events as ev
from zonekeeper.client.writing.doubts import LOOK_AGAIN_MS
from zonekeeper.wire.formats import errors

DELETED = errors.LedgerDeleted("not known here")
LOST = errors.ConnectionLost("broken")
IN_DOUBT = ev.LedgerUnknown(
    error=client_errors.MetadataFailed("no answer", retryable=True, maybe_applied=False)
)
GONE = ev.LedgerGone(error=client_errors.ClosedByOther("it was deleted"))


def disown(talk: Transcript, names: str) -> None:
    """The lanes of these bookies are lost after an ack, and the bookies refuse new ones."""
    for name in names:
        talk.ack(name, 0)
    talk.take()
    for name in names:
        talk.fail(name, 1, LOST)
        talk.feed(ev.LaneRefused(term=talk.term(name), error=DELETED))


def looks(talk: Transcript) -> int:
    return sum(isinstance(effect, ev.LookUpLedger) for effect in talk.effects)


def openings(talk: Transcript, name: str) -> list[bool]:
    """Give what each opening on a bookie said of earlier ones."""
    return [
        effect.was_open
        for effect in talk.effects
        if isinstance(effect, ev.OpenLane) and effect.bookie == name
    ]


def test_an_opening_says_whether_this_member_had_the_ledger_open() -> None:
    talk = started()
    disown(talk, "A")
    assert openings(talk, "A") == [False, True]
    talk.feed(ev.LedgerStands())
    talk.changed("XBC")
    assert openings(talk, "X") == [False]


def test_an_opening_that_failed_was_not_open() -> None:
    talk = Transcript()
    talk.take()
    talk.feed(ev.LaneRefused(term=talk.term("A"), error=errors.NotConnected("nobody")))
    talk.feed(ev.ChangeImpossible(error=client_errors.NotEnoughBookies("none left")))
    for now_ms in (0, 1_000):
        talk.feed(ev.Ticked(now_ms=now_ms))
    assert openings(talk, "A") == [False, False]


def test_metadata_is_looked_at_once_and_first() -> None:
    talk = started()
    disown(talk, "ABC")
    assert looks(talk) == 1
    assert (talk.changes, talk.stop) == ([], None)


def test_a_ledger_that_is_gone_ends_the_writer_and_is_not_closed() -> None:
    talk = started()
    disown(talk, "A")
    talk.feed(GONE)
    assert talk.stop == ev.Stop(error=GONE.error, close=False)
    assert talk.ack("B", 1) == []


def test_where_the_ledger_stands_all_doubted_bookies_have_failed() -> None:
    talk = started()
    disown(talk, "AB")
    talk.feed(ev.LedgerStands())
    (change,) = talk.changes
    assert {who for _, who in change.failed} <= {"A", "B"}
    talk.changed("XYC")
    assert talk.stop is None
    talk.opened("XY")
    for name in "XY":
        talk.ack(name, 1)
    assert talk.confirmed[-1] == 1


def test_in_doubt_the_seat_waits_and_the_others_go_on() -> None:
    talk = started()
    disown(talk, "A")
    talk.feed(IN_DOUBT)
    for name in "BC":
        talk.ack(name, 0)
        talk.ack(name, 1)
    assert talk.confirmed[-1] == 1
    assert (talk.changes, talk.stop, looks(talk)) == ([], None, 1)
    assert talk.core.waits
    for now_ms in (0, LOOK_AGAIN_MS - 1):
        talk.feed(ev.Ticked(now_ms=now_ms))
    assert looks(talk) == 1
    talk.feed(ev.Ticked(now_ms=LOOK_AGAIN_MS))
    assert looks(talk) == 2


def test_what_a_doubted_bookie_says_late_counts_for_nothing() -> None:
    talk = started()
    talk.ack("A", 0)
    talk.take()
    talk.fail("A", 1, LOST)
    term = talk.term("A")
    talk.feed(ev.LaneRefused(term=term, error=DELETED))
    assert talk.ack("A", 1, term) == []
    assert talk.feed(ev.LaneOpened(term=term)) == [ev.CloseLane(term=term)]
    talk.ack("B", 0)
    talk.ack("B", 1)
    assert talk.confirmed == [0], "of entry 1 only B has said that it has it"


def test_in_doubt_to_the_end_the_writer_says_what_it_waited_for() -> None:
    talk = started()
    disown(talk, "ABC")
    talk.feed(IN_DOUBT)
    talk.feed(ev.Ticked(now_ms=60_000))
    assert talk.stop is not None
    text = str(talk.stop.error)
    assert "A, B, C no longer have the ledger" in text
    assert "whether it was deleted: no answer" in text


def test_a_lac_that_is_wanted_in_doubt_is_given_up() -> None:
    talk = started()
    for name in "ABC":
        talk.ack(name, 0)
    for name in "AB":
        talk.feed(ev.LacWanted())
        talk.feed(ev.LacFailed(term=talk.term(name), lac=talk.core.confirmed, error=LOST))
        talk.feed(ev.LaneRefused(term=talk.term(name), error=DELETED))
    assert not any(isinstance(effect, ev.LacUntold) for effect in talk.effects)
    talk.feed(IN_DOUBT)
    assert isinstance(talk.effects[-1], ev.LacUntold)
