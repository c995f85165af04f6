"""A writer without an ack quorum names the bookies, the zones or the metadata at fault.

Where the zones of its members can never make one, it says so at once.
"""

from tests.client.transcripts import LIMITS, Transcript, bookies, started
from zonekeeper.client.base import errors
from zonekeeper.client.writing import writer_events as ev
from zonekeeper.client.writing.writer_start import WriterStart
from zonekeeper.placement.base.ids import EntryId, ZoneName
from zonekeeper.placement.base.quorums import Quorums


def timed_out(talk: Transcript) -> str:
    """Let the time of the first entry pass, and give what is said of it."""
    talk.feed(ev.Ticked(now_ms=LIMITS.add_timeout_ms))
    assert talk.stop is not None
    assert isinstance(talk.stop.error, errors.AddTimedOut)
    return str(talk.stop.error).partition("; ")[2]


def test_a_timeout_names_members_of_the_write_set_alone() -> None:
    talk = started("ABCDE", Quorums(ensemble=5, write=3, ack=2))
    talk.ack("B", 0)
    assert timed_out(talk) == "no answer from A, C"


def test_a_timeout_with_deferred_sync_does_not_name_who_has_written() -> None:
    start = WriterStart(
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
        assert told == f"the metadata store does not confirm a replacement of C: {said}"


def test_a_timeout_with_enough_answers_names_the_zones_that_they_are_from() -> None:
    start = WriterStart(
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


TWO_ZONES = Quorums(ensemble=3, write=3, ack=2, ack_zones=2)


def in_zones(*zones: str | None) -> Transcript:
    """A writer to A, B and C in these zones."""
    named = tuple(None if zone is None else ZoneName(zone) for zone in zones)
    start = WriterStart(fragment_first=EntryId(0), ensemble=bookies("ABC"), zones=named)
    return Transcript("ABC", TWO_ZONES, start=start)


def given_up(talk: Transcript) -> str | None:
    """What a writer says that stopped for want of zones."""
    if talk.stop is None:
        return None
    assert isinstance(talk.stop.error, errors.LostQuorum)
    assert talk.stop.close
    return str(talk.stop.error)


def test_members_that_stand_in_too_few_zones_stop_the_writer_with_the_first_entry() -> None:
    talk = in_zones("a", "a", "a")
    assert given_up(talk) is None
    talk.take()
    told = given_up(talk) or ""
    assert "A (zone a), B (zone a), C (zone a), and an ack quorum needs 2 zones" in told
    assert "bookies, in 2 zones, and 3 are left, in 1 zone: A (zone a), B" in told
    assert "write to a new ledger" in told


def test_zones_that_are_not_known_are_waited_for() -> None:
    talk = in_zones("a", "a", None)
    talk.take()
    talk.opened("ABC")
    assert given_up(talk) is None
    talk.feed(ev.Located(zones={bookies("C")[0]: ZoneName("a")}))
    assert given_up(talk) is not None


def test_a_change_that_leaves_too_few_zones_stops_the_writer() -> None:
    talk = in_zones("a", "a", "b")
    talk.take()
    talk.opened("ABC")
    talk.fail("C", 0)
    zones = (ZoneName("a"),) * 3
    talk.feed(ev.Changed(ensemble=bookies("ABX"), zones=zones))
    assert given_up(talk) is not None


def test_a_member_that_is_to_be_replaced_may_make_room_for_another_zone() -> None:
    talk = in_zones("a", "a", "b")
    talk.take()
    talk.opened("ABC")
    talk.fail("C", 0)
    talk.fail("B", 0)
    zones = (ZoneName("a"),) * 3
    talk.feed(ev.Changed(ensemble=bookies("ABX"), zones=zones))
    assert given_up(talk) is None
    talk.feed(ev.Changed(ensemble=bookies("AYX"), zones=(*zones[:1], ZoneName("b"), *zones[:1])))
    talk.opened("XY")
    talk.ack("X", 0)
    assert talk.confirmed == []
    talk.ack("Y", 0)
    assert talk.confirmed == [0]


def test_what_is_left_of_an_ensemble_is_counted_without_the_failed_members() -> None:
    talk = started(quorums=Quorums(ensemble=3, write=3, ack=2))
    talk.take()
    talk.opened("ABC")
    for name in "AB":
        talk.fail(name, 0)
    talk.feed(ev.ChangeImpossible(error=LookupError("none are there")))
    told = given_up(talk) or ""
    assert "an ack needs 2 of an entry's 3 bookies, and 1 is left: C (zone " in told
    assert "no bookie can replace those that failed: none are there" in told
