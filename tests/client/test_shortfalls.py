"""What a writer says when an ack quorum is not to be had: who, which zones, or the metadata."""

from tests.client.transcripts import Transcript, bookies, started
from zonekeeper.client import errors
from zonekeeper.client import writer_events as ev
from zonekeeper.client.writer_core import Limits, Start
from zonekeeper.placement.ids import EntryId, ZoneName
from zonekeeper.placement.quorums import Quorums


def timed_out(talk: Transcript) -> str:
    """Let the time of the first entry pass, and give what is said of it."""
    talk.feed(ev.Ticked(now_ms=Limits().add_timeout_ms))
    assert talk.stop is not None
    assert isinstance(talk.stop.error, errors.AddTimedOut)
    return str(talk.stop.error).partition("; ")[2]


def test_a_timeout_names_members_of_the_write_set_alone() -> None:
    talk = started("ABCDE", Quorums(ensemble=5, write=3, ack=2))
    talk.ack("B", 0)
    assert timed_out(talk) == "no answer from A, C"


def test_a_timeout_with_deferred_sync_does_not_name_who_has_written() -> None:
    start = Start(
        fragment_first=EntryId(0), ensemble=bookies("ABC"), zones=(None,) * 3, deferred=True
    )
    talk = Transcript("ABC", start=start)
    talk.take()
    talk.opened("ABC")
    talk.ack("B", 0)
    assert timed_out(talk) == "no answer from A, C"


def test_a_timeout_while_the_ensemble_changes_names_the_metadata_store() -> None:
    for unknown, said in ((None, "no answer"), (Exception("no ZooKeeper"), "no ZooKeeper")):
        talk = started()
        talk.fail("C", 0)
        talk.ack("A", 0)
        talk.ack("B", 0)
        if unknown is not None:
            talk.feed(ev.ChangeUnknown(error=unknown))
        told = timed_out(talk)
        assert told == f"the metadata store does not say whether others stand for C: {said}"


def test_a_timeout_with_enough_answers_names_the_zones_that_they_are_from() -> None:
    start = Start(
        fragment_first=EntryId(0), ensemble=bookies("ABC"), zones=(ZoneName("a"), None, None)
    )
    talk = Transcript("ABC", Quorums(ensemble=3, write=3, ack=2, ack_zones=2), start=start)
    talk.take()
    talk.opened("ABC")
    talk.ack("A", 0)
    talk.ack("B", 0)
    assert timed_out(talk) == (
        "no answer from C; answers from A (zone a), B (in an unknown zone), "
        "and an ack quorum needs 2 zones"
    )
