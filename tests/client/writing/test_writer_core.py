"""The writer's rules, one transcript each. Numbers are those of docs/scenarios.md."""

from dataclasses import replace

import pytest

from tests.client.transcripts import LIMITS, SEALER, THREE, Transcript, bookies, started
from zonekeeper.client.base import errors as client_errors
from zonekeeper.client.writing import writer_events as ev
from zonekeeper.client.writing.writer_core import CHANGES_WITHOUT_PROGRESS_MAX, DEGRADED_RETRY_MS
from zonekeeper.client.writing.writer_start import WriterStart
from zonekeeper.placement.base.ids import EntryId, ZoneName
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.wire.formats import entries, errors, frames


def test_nothing_is_opened_before_the_first_entry() -> None:
    assert Transcript().effects == []


def test_a_batch_goes_to_all_members_in_one_frame() -> None:
    talk = started()
    assert talk.sent("A") == talk.sent("B") == talk.sent("C")
    assert list(talk.sent("A")[0].entry_ids) == [0]


def test_with_more_members_than_copies_each_gets_the_entries_that_it_holds() -> None:
    talk = Transcript("ABCDE", Quorums(ensemble=5, write=3, ack=2))
    talk.take(*(b"%d" % n for n in range(7)))
    talk.opened("ABCDE")
    held = {name: [list(frame.entry_ids) for frame in talk.sent(name)] for name in "ABCDE"}
    assert held == {
        "A": [[0, 3, 4, 5]],
        "B": [[0, 1, 4, 5, 6]],
        "C": [[0, 1, 2, 5, 6]],
        "D": [[1, 2, 3, 6]],
        "E": [[2, 3, 4]],
    }


def test_a_member_without_an_entry_of_the_batch_gets_nothing() -> None:
    talk = Transcript("ABCDE", Quorums(ensemble=5, write=3, ack=2))
    talk.take()
    talk.opened("ABCDE")
    assert [name for name in "ABCDE" if talk.sent(name)] == ["A", "B", "C"]


def test_an_ack_quorum_confirms() -> None:
    talk = started()
    talk.ack("A", 0)
    assert talk.confirmed == []
    talk.ack("C", 0)
    assert talk.confirmed == [0]


def test_the_same_bookie_twice_is_one_ack() -> None:
    talk = started()
    talk.ack("A", 0)
    talk.ack("A", 0)
    assert talk.confirmed == []


def test_s02_what_is_acked_out_of_order_is_confirmed_in_order() -> None:
    talk = started()
    talk.take(b"second")
    talk.ack("A", 1)
    talk.ack("B", 1)
    assert talk.confirmed == []
    talk.ack("A", 0)
    talk.ack("C", 0)
    assert talk.confirmed == [1]


def test_acks_have_to_stand_in_enough_zones() -> None:
    quorums = Quorums(ensemble=3, write=3, ack=2, ack_zones=2)
    start = WriterStart(
        fragment_first=EntryId(0),
        ensemble=bookies("ABC"),
        zones=(ZoneName("a"), ZoneName("a"), ZoneName("b")),
    )
    talk = Transcript("ABC", quorums, start=start)
    talk.take()
    talk.opened("ABC")
    talk.ack("A", 0)
    talk.ack("B", 0)
    assert talk.confirmed == [], "two bookies of one zone are lost together"
    talk.ack("C", 0)
    assert talk.confirmed == [0]


def test_a_zone_that_becomes_known_completes_an_ack_quorum() -> None:
    quorums = Quorums(ensemble=3, write=3, ack=2, ack_zones=2)
    zones = (ZoneName("a"), None, ZoneName("c"))
    start = WriterStart(fragment_first=EntryId(0), ensemble=bookies("ABC"), zones=zones)
    talk = Transcript("ABC", quorums, start=start)
    talk.take()
    talk.opened("ABC")
    talk.ack("A", 0)
    talk.ack("B", 0)
    assert talk.confirmed == [], "unknown is not another zone"
    talk.feed(ev.Located(zones={bookies("B")[0]: ZoneName("b")}))
    assert talk.confirmed == [0]


def test_packets_carry_the_lac_that_was_known_when_they_were_sent() -> None:
    talk = started()
    talk.ack("A", 0)
    talk.ack("B", 0)
    talk.take(b"second")
    first, second = talk.sent("C")
    assert (first.last_add_confirmed, second.last_add_confirmed) == (-1, 0)
    assert frames.unseal(SEALER, second)[0].length == len(b"x" + b"second")


def test_only_so_many_batches_are_under_way() -> None:
    talk = started(limits=replace(LIMITS, in_flight_max=2, full_in_flight_max=3))
    talk.take()
    assert (talk.core.room, talk.core.room_for_full) == (False, True)
    talk.take()
    assert (talk.core.room, talk.core.room_for_full) == (False, False)
    talk.ack("A", 0)
    talk.ack("B", 0)
    assert (talk.core.room, talk.core.room_for_full) == (False, True)
    talk.ack("A", 1)
    talk.ack("B", 1)
    assert (talk.core.room, talk.core.room_for_full) == (True, True)


# ── failures and changes ──


def test_a_failure_before_the_ack_quorum_is_acted_upon_at_once() -> None:
    talk = started()
    talk.fail("B", 0)
    (bookie_b,) = bookies("B")
    assert talk.changes == [ev.ChangeEnsemble(first_entry=EntryId(0), failed=((1, bookie_b),))]


def test_a_failure_after_the_ack_quorum_waits_for_the_next_entry() -> None:
    talk = started()
    talk.ack("A", 0)
    talk.ack("C", 0)
    talk.fail("B", 0)
    assert talk.changes == []
    talk.take()
    assert [change.first_entry for change in talk.changes] == [1]


def test_several_bookies_are_replaced_in_one_change_or_the_next() -> None:
    talk = started("ABC")
    talk.fail("A", 0)
    talk.fail("B", 0)
    assert len(talk.changes) == 1, "one change at a time"
    talk.changed("XBC")
    assert [position for position, _ in talk.changes[1].failed] == [1]
    talk.changed("XYC")
    talk.opened("XY")
    assert talk.sent("X") == talk.sent("Y") == talk.sent("C")


def test_s05_a_late_ack_of_a_replaced_bookie_does_not_count() -> None:
    talk = started()
    old = talk.term("B")
    talk.fail("B", 0)
    talk.changed("AXC")
    talk.opened("X")
    talk.ack("B", 0, old)
    talk.ack("A", 0)
    assert talk.confirmed == []
    talk.ack("X", 0)
    assert talk.confirmed == [0]


def test_s06_acks_of_an_earlier_membership_do_not_count() -> None:
    talk = started()
    earlier = talk.term("B")
    talk.fail("B", 0)
    talk.changed("AXC")
    talk.opened("X")
    talk.fail("X", 0)
    talk.changed("ABC")
    talk.ack("A", 0)
    talk.ack("B", 0, earlier)
    assert talk.confirmed == []
    talk.opened("B")
    talk.ack("B", 0)
    assert talk.confirmed == [0]


def test_s27_nothing_is_confirmed_while_the_ensemble_changes() -> None:
    talk = Transcript("AB", Quorums(ensemble=2, write=2, ack=1))
    talk.take()
    talk.opened("AB")
    talk.fail("A", 0)
    talk.ack("B", 0)
    assert talk.confirmed == [], "metadata may show an ensemble without it by now"
    talk.changed("XB")
    assert talk.confirmed == [0]


def test_s27_an_ack_of_the_replaced_bookie_is_void_after_the_change() -> None:
    """Entry 1 had its ack quorum, and waited for entry 0 alone."""
    talk = Transcript("AB", Quorums(ensemble=2, write=2, ack=1))
    talk.take()
    talk.opened("AB")
    talk.take()
    talk.ack("A", 1)
    talk.fail("A", 0)
    talk.changed("XB")
    assert talk.confirmed == []
    talk.ack("B", 0)
    assert talk.confirmed == [0], "entry 1 is on no bookie that metadata shows"
    talk.ack("B", 1)
    assert talk.confirmed == [0, 1]


def test_s28_all_replaced_positions_are_voided_before_anything_is_confirmed() -> None:
    """E=6, Qw=2: entries 1 and 2 are complete on bookies that go, while entry 0 still pends."""
    talk = Transcript("ABCDEF", Quorums(ensemble=6, write=2, ack=2))
    for _ in range(3):
        talk.take()
    talk.opened("ABCDEF")
    for name, entry in (("B", 1), ("C", 1), ("C", 2), ("D", 2)):
        talk.ack(name, entry)
    talk.fail("D", 2)
    talk.fail("C", 2)
    talk.changed("ABCXEF")
    talk.ack("A", 0)
    talk.ack("B", 0)
    assert talk.confirmed == [], "a second change is under way: of C"
    talk.changed("ABYXEF")
    assert talk.confirmed == [0], "entries 1 and 2 are not on the bookies that metadata shows"
    talk.opened("XY")
    assert [list(frame.entry_ids) for frame in talk.sent("Y")] == [[1], [2]]
    assert [list(frame.entry_ids) for frame in talk.sent("X")] == [[2]]
    talk.ack("Y", 1)
    assert talk.confirmed == [0, 1]
    talk.ack("Y", 2)
    talk.ack("X", 2)
    assert talk.confirmed == [0, 1, 2]


def test_s29_a_change_of_unknown_outcome_is_asked_for_again_with_all_that_failed_since() -> None:
    talk = started()
    talk.fail("A", 0)
    talk.fail("B", 0)
    talk.feed(ev.ChangeUnknown(error=Exception("no answer")))
    assert [position for position, _ in talk.changes[1].failed] == [0, 1]
    talk.changed("XYC")
    talk.opened("XY")
    talk.ack("X", 0)
    talk.ack("C", 0)
    assert talk.confirmed == [0]


def test_a_bookie_that_was_replaced_in_vain_is_replaced_again_but_not_for_ever() -> None:
    talk = started(quorums=Quorums(ensemble=3, write=3, ack=3))
    talk.fail("B", 0)
    for number in range(CHANGES_WITHOUT_PROGRESS_MAX):
        name = "XY"[number % 2]
        talk.changed(f"A{name}C")
        talk.feed(ev.LaneRefused(term=talk.term(name), error=errors.NotConnected("nobody")))
    assert talk.stop is None
    talk.changed("AZC")
    assert talk.stop is not None
    assert talk.stop.close
    assert isinstance(talk.stop.error, client_errors.LostQuorum)
    assert "an ack needs 3 of an entry's 3 bookies, and 3 are left" in str(talk.stop.error)


# ── lanes ──


def test_s04_a_lost_connection_is_made_again_to_the_same_bookie() -> None:
    talk = started()
    talk.ack("B", 0)
    talk.take()
    talk.fail("B", 1, errors.ConnectionLost("reset"))
    assert talk.changes == []
    talk.opened("B")
    assert [list(frame.entry_ids) for frame in talk.sent("B")] == [[0], [1], [1]]
    talk.ack("A", 0)
    talk.ack("B", 1)
    talk.ack("C", 1)
    talk.ack("C", 0)
    assert talk.confirmed == [0, 1]


def test_a_bookie_that_acknowledges_nothing_between_two_lost_lanes_has_failed() -> None:
    talk = started()
    talk.fail("B", 0, errors.ConnectionLost("reset"))
    assert len(talk.changes) == 1


def test_acks_of_a_lane_that_was_lost_are_kept_for_the_same_membership() -> None:
    talk = started()
    talk.ack("B", 0)
    talk.take()
    talk.fail("B", 1, errors.ConnectionLost("reset"))
    talk.ack("A", 0)
    assert talk.confirmed == [0]


def test_a_lane_that_opens_after_its_bookie_was_replaced_is_closed() -> None:
    talk = Transcript()
    talk.take()
    slow = talk.term("B")
    talk.feed(ev.LaneRefused(term=slow, error=errors.Timeout("too late")))
    talk.changed("AXC")
    assert talk.feed(ev.LaneOpened(term=slow)) == [ev.CloseLane(term=slow)]


def test_a_full_lane_gets_the_rest_when_it_has_room() -> None:
    talk = started()
    talk.take()
    full = errors.TooManyRequests("full")
    talk.feed(ev.Blocked(term=talk.term("C"), first=EntryId(1), error=full))
    before = len(talk.sent("C"))
    talk.take()
    assert len(talk.sent("C")) == before
    talk.feed(ev.RoomAgain(term=talk.term("C")))
    assert [list(frame.entry_ids) for frame in talk.sent("C")[before:]] == [[1], [2]]


def test_what_a_laggard_has_to_get_is_kept_within_the_budget_and_then_it_has_failed() -> None:
    talk = started(limits=replace(LIMITS, budget_bytes=1_000))
    full = errors.TooManyRequests("full")
    talk.feed(ev.Blocked(term=talk.term("C"), first=EntryId(0), error=full))
    released = 0
    for number in range(20):
        talk.ack("A", number)
        talk.ack("B", number)
        talk.take(b"x" * 36)
        if talk.changes:
            break
    released = sum(e.size_bytes for e in talk.effects if isinstance(e, ev.Released))
    assert [position for position, _ in talk.changes[0].failed] == [2]
    assert released > 500
    assert talk.confirmed[-1] == number


# ── ends ──


@pytest.mark.parametrize(
    ("error", "kind", "close"),
    [
        (errors.Fenced("recovered"), client_errors.Fenced, False),
        (errors.UnauthorizedAccess("no"), client_errors.KeyRefused, True),
        (errors.NotPermitted("no"), client_errors.RoleRefused, True),
        (errors.EntryMismatch("other bytes"), client_errors.Misfit, False),
    ],
    ids=str,
)
def test_some_answers_end_the_writer(
    error: errors.ProtocolError, kind: type[Exception], close: bool
) -> None:
    talk = started()
    talk.ack("A", 0)
    talk.fail("B", 0, error)
    assert talk.stop is not None
    assert isinstance(talk.stop.error, kind)
    assert talk.stop.close is close
    talk.ack("C", 0)
    assert talk.confirmed == [], "S09: nothing is acknowledged after that"


@pytest.mark.parametrize(
    "error",
    [
        errors.ReadOnly("full"),
        errors.IoFailed("disk"),
        errors.InsufficientSpace("full"),
        errors.LimboLedger("lost data"),
        errors.ShuttingDown("bye"),
        errors.BadRequest("what?"),
        errors.UnknownError(99, "of the future"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_all_other_answers_replace_the_bookie(error: errors.ProtocolError) -> None:
    talk = started()
    talk.fail("B", 0, error)
    assert talk.stop is None
    assert len(talk.changes) == 1


def test_s32_a_ledger_that_metadata_shows_as_taken_ends_the_writer() -> None:
    talk = started()
    talk.fail("B", 0)
    talk.ack("A", 0)
    talk.ack("C", 0)
    talk.feed(ev.Dispossessed(error=client_errors.Fenced("taken")))
    assert talk.confirmed == []
    assert talk.stop is not None
    assert not talk.stop.close


def test_s30_without_newcomers_and_without_a_quorum_the_writer_stops() -> None:
    talk = started()
    talk.fail("A", 0)
    talk.fail("B", 0)
    talk.feed(ev.ChangeImpossible(error=Exception("nobody left")))
    assert talk.stop is not None
    assert talk.stop.close
    assert "nobody left" in str(talk.stop.error)
    assert talk.confirmed == []


def test_without_newcomers_but_with_a_quorum_the_writer_goes_on_and_tries_again() -> None:
    talk = started()
    talk.ack("A", 0)
    talk.fail("B", 0)
    talk.feed(ev.ChangeImpossible(error=Exception("nobody left")))
    talk.ack("C", 0)
    assert talk.confirmed == [0]
    talk.take()
    assert len(talk.changes) == 1, "it does not ask again with every entry"
    before = talk.term("B")
    talk.feed(ev.Ticked(now_ms=0))
    talk.feed(ev.Ticked(now_ms=DEGRADED_RETRY_MS))
    assert talk.term("B") != before
    talk.opened("B")
    assert list(talk.sent("B")[-1].entry_ids) == [1]


def test_a_second_failure_while_there_are_no_newcomers_is_not_overlooked() -> None:
    talk = started()
    talk.fail("B", 0)
    talk.feed(ev.ChangeImpossible(error=Exception("nobody left")))
    talk.fail("C", 0)
    assert len(talk.changes) == 2
    talk.feed(ev.ChangeImpossible(error=Exception("nobody left")))
    assert talk.stop is not None


def test_s12_an_entry_without_an_ack_quorum_in_time_stops_the_writer() -> None:
    talk = started(limits=replace(LIMITS, add_timeout_ms=1_000))
    talk.ack("A", 0)
    talk.feed(ev.Ticked(now_ms=999))
    assert talk.stop is None
    talk.feed(ev.Ticked(now_ms=1_000))
    assert talk.stop is not None
    assert talk.stop.close
    assert isinstance(talk.stop.error, client_errors.AddTimedOut)
    assert "B, C" in str(talk.stop.error)


def test_a_stop_during_a_change_leaves_no_doubt_when_the_change_is_over() -> None:
    talk = started(limits=replace(LIMITS, add_timeout_ms=1_000))
    talk.fail("B", 0)
    talk.feed(ev.Ticked(now_ms=1_000))
    assert talk.core.changing
    assert talk.changed("AXC") == []
    assert not talk.core.changing


def test_a_quiet_writer_tells_its_lac_once() -> None:
    talk = started()
    talk.feed(ev.FellQuiet())
    talk.ack("A", 0)
    talk.ack("B", 0)
    told = talk.feed(ev.FellQuiet())
    assert [effect.confirmed for effect in told if isinstance(effect, ev.SendLac)] == [0, 0, 0]
    assert talk.feed(ev.FellQuiet()) == []


def test_a_lane_that_opens_after_the_writer_fell_quiet_is_told_the_lac_then() -> None:
    talk = Transcript("ABC", THREE)
    talk.take()
    talk.opened("AB")
    talk.ack("A", 0)
    talk.ack("B", 0)
    talk.feed(ev.FellQuiet())
    late = talk.feed(ev.LaneOpened(term=talk.term("C")))
    sent = [type(effect) for effect in late if isinstance(effect, ev.Send | ev.SendLac)]
    assert sent == [ev.Send, ev.SendLac]
    assert talk.feed(ev.FellQuiet()) == []


def test_s24_a_recovery_writes_with_the_lac_that_it_started_from() -> None:
    start = WriterStart(
        fragment_first=EntryId(0),
        ensemble=bookies("ABC"),
        zones=(None, None, None),
        confirmed=EntryId(4),
        length=50,
        recovery=True,
    )
    talk = Transcript("ABC", start=start)
    for _ in range(2):
        talk.take()
        talk.opened("ABC")
        first = talk.sent("A")[-1].first
        talk.ack("A", first)
        talk.ack("B", first)
    assert talk.confirmed == [5, 6]
    headers = [entries.header(packet) for frame in talk.sent("C") for _, packet in frame]
    assert [(header.entry_id, header.last_add_confirmed) for header in headers] == [(5, 4), (6, 4)]
    assert all(frame.flags is frames.Flags.RECOVERY for frame in talk.sent("C"))
