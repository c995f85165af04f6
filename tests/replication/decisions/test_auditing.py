"""The auditor's decisions: what a look, a listing and the marks lead to."""

import dataclasses

from zonekeeper.placement.base.ids import BookieId
from zonekeeper.replication.decisions import auditing
from zonekeeper.replication.decisions.auditing import (
    Audit,
    BeginListing,
    Effect,
    Event,
    ListingAsked,
    ListingBegan,
    ListingEnded,
    Looked,
    MarksGone,
    Remembers,
    TakeBack,
    Unmark,
    WriteOff,
)

A, B, C = (BookieId(name) for name in "abc")


def looked(
    lost: str = "", publishable: str = "", written_off: str = "", known: str = "abc"
) -> Looked:
    def of(names: str) -> frozenset[BookieId]:
        return frozenset(BookieId(name) for name in names)

    return Looked(
        present=of(known) - of(lost),
        lost=of(lost),
        publishable=of(publishable),
        written_off=of(written_off),
    )


def after(*events: Event) -> tuple[Audit, tuple[Effect, ...]]:
    """Give the state after events, and what the last one led to."""
    audit, effects = Audit(), tuple[Effect, ...]()
    for event in events:
        audit, effects = auditing.handle(audit, event)
    return audit, effects


def test_what_is_held_is_neither_listed_nor_written_off() -> None:
    assert after(looked(lost="a")) == (Audit(looked=looked(lost="a")), ())


def test_a_loss_that_may_be_published_asks_for_one_listing() -> None:
    _, effects = after(looked(lost="a"), looked(lost="a", publishable="a"))
    assert effects == (BeginListing(),)
    _, effects = after(looked(lost="a", publishable="a"), looked(lost="ab", publishable="ab"))
    assert effects == (), "the one that is about to begin serves both"


def test_a_loss_during_a_listing_gets_another_one_behind_it() -> None:
    begun = (looked(lost="a", publishable="a"), ListingBegan())
    _, effects = after(*begun, looked(lost="ab", publishable="ab"))
    assert effects == ()
    _, effects = after(
        *begun, looked(lost="ab", publishable="ab"), ListingEnded(named={A: 3, B: 1})
    )
    assert effects == (BeginListing(),), "it did not see all of b's ledgers as lost"


def test_a_bookie_is_written_off_when_a_whole_listing_names_it_no_more() -> None:
    begun = (looked(lost="a", publishable="a"), ListingBegan())
    _, effects = after(*begun, ListingEnded(named={}))
    assert effects == (WriteOff(A),)


def test_a_ledger_that_cannot_be_read_may_name_anybody() -> None:
    begun = (looked(lost="a", publishable="a"), ListingBegan())
    audit, effects = after(*begun, ListingEnded(named={}, unreadable=True))
    assert effects == (), "neither written off, nor listed again at once"
    assert audit.covered == {A: 0}


def test_marks_are_waited_for_and_then_everything_is_looked_at_again() -> None:
    listed = (looked(lost="a", publishable="a"), ListingBegan(), ListingEnded(named={A: 2}))
    audit, effects = after(*listed)
    assert (audit.awaited, effects) == (frozenset({A}), ())
    audit, effects = after(*listed, MarksGone(A))
    assert (audit.awaited, effects) == (frozenset(), (BeginListing(),))


def test_who_is_held_again_during_a_listing_is_not_covered_by_it() -> None:
    flicker = (
        looked(lost="a", publishable="a"),
        ListingBegan(),
        looked(lost="a"),
        looked(lost="a", publishable="a"),
    )
    _, effects = after(*flicker, ListingEnded(named={}))
    assert effects == (BeginListing(),), "ledgers were passed over while it was held"


def test_who_was_passed_over_is_not_covered() -> None:
    begun = (looked(lost="a", publishable="a"), ListingBegan())
    _, effects = after(*begun, ListingEnded(named={}, passed_over=frozenset({A})))
    assert effects == (BeginListing(),)


def test_a_hold_takes_the_cover_away() -> None:
    listed = (looked(lost="a", publishable="a"), ListingBegan(), ListingEnded(named={A: 2}))
    audit, _ = after(*listed, looked(lost="a"))
    assert audit.covered == {}
    _, effects = after(*listed, looked(lost="a"), looked(lost="a", publishable="a"))
    assert effects == (BeginListing(),)


def test_who_is_back_is_taken_back_and_its_marks_are_looked_at_once() -> None:
    audit, effects = after(
        looked(lost="a", publishable="a"), ListingBegan(), looked(written_off="a")
    )
    assert effects == (TakeBack(A), Unmark(frozenset({A})))
    assert audit.covering == frozenset()
    _, effects = auditing.handle(audit, looked())
    assert effects == ()


def test_who_comes_back_before_anything_was_published_has_no_marks_to_look_at() -> None:
    assert after(looked(lost="a"), looked())[1] == ()


def test_marks_of_an_auditor_before_are_left_to_the_replicators() -> None:
    assert after(looked())[1] == ()


def test_who_is_lost_and_written_off_is_not_written_off_again() -> None:
    begun = (looked(lost="a", publishable="a", written_off="a"), ListingBegan())
    assert after(*begun, ListingEnded(named={}))[1] == ()


def test_whoever_asks_gets_a_listing_that_begins_after() -> None:
    assert after(looked(), ListingAsked())[1] == (BeginListing(),)
    during = (looked(), ListingAsked(), ListingBegan(), ListingAsked())
    assert after(*during)[1] == ()
    assert after(*during, ListingEnded(named={}))[1] == (BeginListing(),)
    assert after(ListingAsked())[1] == (), "not before the first look"


# ── bookies that are there and lost data ──


def forgot(boot_epoch: int = 2, publishable: str = "a") -> Looked:
    return dataclasses.replace(looked(publishable=publishable), forgetful={A: boot_epoch})


def test_a_bookie_that_lost_data_is_published_and_never_written_off() -> None:
    _, effects = after(forgot())
    assert effects == (BeginListing(),)
    _, effects = after(forgot(), ListingBegan(), ListingEnded(named={}))
    assert effects == (Remembers(A, 2),), "no ledger names it: nothing is missing"


def test_a_bookie_that_lost_data_has_it_again_when_its_marks_are_gone() -> None:
    listed = (forgot(), ListingBegan(), ListingEnded(named={A: 3}))
    audit, effects = after(*listed)
    assert (audit.awaited, effects) == (frozenset({A}), ())
    audit, effects = after(*listed, MarksGone(A))
    assert effects == (Remembers(A, 2),), "and its ledgers, which go on to name it, are not listed"
    assert audit.awaited == frozenset()


def test_what_could_not_be_read_leaves_a_bookie_forgetful() -> None:
    listed = (forgot(), ListingBegan(), ListingEnded(named={A: 3}, unreadable=True))
    _, effects = after(*listed, MarksGone(A))
    assert effects == ()
    again = (ListingAsked(), ListingBegan(), ListingEnded(named={A: 3}), MarksGone(A))
    _, effects = after(*listed, MarksGone(A), *again)
    assert effects == (Remembers(A, 2),)


def test_a_bookie_that_lost_data_again_begins_anew() -> None:
    listed = (forgot(), ListingBegan(), ListingEnded(named={A: 3}))
    audit, effects = after(*listed, forgot(boot_epoch=3))
    assert (audit.awaited, effects) == (frozenset(), (BeginListing(),))
    _, effects = after(forgot(), ListingBegan(), forgot(boot_epoch=3), ListingEnded(named={A: 0}))
    assert effects == (BeginListing(),), "the listing began before the second loss"


def test_a_bookie_that_is_lost_with_its_data_is_like_any_lost_one() -> None:
    listed = (forgot(), ListingBegan(), ListingEnded(named={A: 3}))
    _, effects = after(*listed, looked(lost="a", publishable="a"))
    assert effects == (BeginListing(),)


def test_a_held_bookie_that_lost_data_waits() -> None:
    audit, effects = after(forgot(publishable=""))
    assert effects == ()
    assert audit.looked is not None
    assert audit.looked.lacking == {A}
