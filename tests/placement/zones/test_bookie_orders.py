"""An order about a bookie as a value: given over another one, taken back, standing still."""

import dataclasses

import pytest

from zonekeeper.placement.base.ids import BookieId
from zonekeeper.placement.zones import bookie_orders
from zonekeeper.placement.zones.bookie_orders import (
    AT_REST,
    BookieOrder,
    OrderKind,
    OrderPhase,
    OrderProgress,
    OrderWord,
)
from zonekeeper.placement.zones.gate import RefusedError

A = BookieId("bk-a-0")
ANNA = OrderWord(at_ms=1_000, by="anna", reason="its disk is old")
BOB = OrderWord(at_ms=5_000, by="bob", reason="it stays")


def order(kind: OrderKind, token: str = "first", *, incarnation: int | None = 7) -> BookieOrder:
    return BookieOrder(kind=kind, token=token, given=ANNA, incarnation=incarnation)


def progress(phase: OrderPhase, *, moved_ms: int) -> OrderProgress:
    return OrderProgress(
        at_ms=moved_ms + 1, worker="auto-0", since_ms=0, phase=phase, moved_ms=moved_ms
    )


@pytest.mark.parametrize("kind", OrderKind)
def test_an_order_that_is_given_twice_is_one_order(kind: OrderKind) -> None:
    first = order(kind)
    assert bookie_orders.given(A, first, order(kind, "second")) is first
    assert bookie_orders.given(A, None, first) is first


@pytest.mark.parametrize("weaker", [OrderKind.DRAIN, OrderKind.RECOVER])
def test_an_order_to_remove_takes_over_what_a_weaker_one_has_done(weaker: OrderKind) -> None:
    done = dataclasses.replace(order(weaker), read_only=True, emptied_ms=9)
    after = bookie_orders.given(A, done, order(OrderKind.REMOVE, "second"))
    assert (after.kind, after.token) == (OrderKind.REMOVE, "second")
    assert (after.read_only, after.emptied_ms) == (True, 9)


def test_a_drain_that_goes_on_as_a_recovery_keeps_what_it_made_read_only() -> None:
    done = dataclasses.replace(order(OrderKind.DRAIN), read_only=True, emptied_ms=9)
    after = bookie_orders.given(A, done, order(OrderKind.RECOVER, "second"))
    assert (after.kind, after.read_only) == (OrderKind.RECOVER, True)
    assert after.emptied_ms is None, "nothing is written off by a listing of another time"


def test_after_a_recovery_a_bookie_that_was_draining_drains_on() -> None:
    one = dataclasses.replace(order(OrderKind.RECOVER), read_only=True, emptied_ms=9)
    after = bookie_orders.after_recovery(one, BOB, "third")
    assert after == dataclasses.replace(
        order(OrderKind.DRAIN, "third"), given=BOB, read_only=True, emptied_ms=None
    )
    assert bookie_orders.after_recovery(one, None, "third") is None
    back = bookie_orders.taken_back(one, BOB)
    assert back is not None
    assert bookie_orders.after_recovery(back, BOB, "third") is None
    assert bookie_orders.after_recovery(order(OrderKind.REMOVE), BOB, "third") is None


def test_to_recover_a_bookie_that_is_to_be_removed_changes_nothing() -> None:
    standing = order(OrderKind.REMOVE)
    assert bookie_orders.given(A, standing, order(OrderKind.RECOVER, "second")) is standing


@pytest.mark.parametrize("stronger", [OrderKind.RECOVER, OrderKind.REMOVE])
def test_to_drain_instead_of_a_stronger_order_is_refused_until_that_is_taken_back(
    stronger: OrderKind,
) -> None:
    standing, drain = order(stronger), order(OrderKind.DRAIN, "second")
    with pytest.raises(RefusedError, match=f"{stronger} {A} stands .by anna.*take-back {A}"):
        bookie_orders.given(A, standing, drain)
    back = bookie_orders.taken_back(standing, BOB)
    assert bookie_orders.given(A, back, drain) == drain


@pytest.mark.parametrize("made", [True, False, None])
def test_after_an_order_is_taken_back_a_new_one_knows_what_that_made_read_only(
    made: bool | None,
) -> None:
    standing = dataclasses.replace(order(OrderKind.DRAIN), read_only=made, emptied_ms=4)
    back = bookie_orders.taken_back(standing, BOB)
    assert back is not None
    assert (back.taken_back, back.emptied_ms) == (BOB, None)
    after = bookie_orders.given(A, back, order(OrderKind.REMOVE, "second"))
    assert after.read_only is (True if made else None), "what was not made by it is looked at anew"
    assert (after.taken_back, after.emptied_ms) == (None, None)


def test_an_order_about_another_incarnation_makes_way_with_all_that_it_did() -> None:
    bygone = dataclasses.replace(order(OrderKind.REMOVE, incarnation=3), read_only=True)
    wanted = order(OrderKind.DRAIN, "second")
    assert bookie_orders.given(A, bygone, wanted) == wanted


def test_the_first_word_that_takes_an_order_back_is_kept() -> None:
    back = bookie_orders.taken_back(order(OrderKind.DRAIN), BOB)
    assert bookie_orders.taken_back(back, ANNA) is back
    assert bookie_orders.taken_back(None, ANNA) is None


def test_what_a_worker_goes_by_changes_with_token_kind_and_taking_back_and_not_with_progress() -> (
    None
):
    one = order(OrderKind.DRAIN)
    told = progress(OrderPhase.COPYING, moved_ms=1)
    assert dataclasses.replace(one, progress=told, read_only=True).meaning == one.meaning
    others = [
        order(OrderKind.REMOVE),
        order(OrderKind.DRAIN, "second"),
        bookie_orders.taken_back(one, BOB),
    ]
    assert all(other is not None and other.meaning != one.meaning for other in others)


def test_only_a_drained_bookie_needs_no_work_and_needs_it_again_when_it_is_taken_back() -> None:
    for kind in OrderKind:
        one = order(kind)
        emptied = dataclasses.replace(one, emptied_ms=3)
        assert one.needs_work
        assert emptied.needs_work is (kind is not OrderKind.DRAIN)
        back = bookie_orders.taken_back(emptied, BOB)
        assert back is not None
        assert back.needs_work


def test_an_order_that_nobody_has_taken_up_stands_still_since_it_was_given_or_taken_back() -> None:
    one = order(OrderKind.DRAIN)
    assert bookie_orders.still_ms(one, 9_000) == 8_000
    back = bookie_orders.taken_back(one, BOB)
    assert back is not None
    assert bookie_orders.still_ms(back, 9_000) == 4_000
    assert bookie_orders.still_ms(one, 0) == 0, "a clock that was set back"


@pytest.mark.parametrize("phase", OrderPhase)
def test_an_order_stands_still_since_something_moved_unless_it_waits_for_what_is_told_elsewhere(
    phase: OrderPhase,
) -> None:
    one = dataclasses.replace(order(OrderKind.REMOVE), progress=progress(phase, moved_ms=2_000))
    assert bookie_orders.still_ms(one, 9_000) == (0 if phase in AT_REST else 7_000)
    back = bookie_orders.taken_back(one, BOB)
    assert back is not None
    assert bookie_orders.still_ms(back, 9_000) == 7_000, "nothing holds what is taken back"


def test_a_drained_bookie_never_stands_still() -> None:
    done = dataclasses.replace(
        order(OrderKind.DRAIN), emptied_ms=1, progress=progress(OrderPhase.COPYING, moved_ms=0)
    )
    assert bookie_orders.still_ms(done, 1 << 40) == 0


@pytest.mark.parametrize("phase", OrderPhase)
def test_only_an_order_that_is_listed_or_copied_for_can_go_on(phase: OrderPhase) -> None:
    one = order(OrderKind.REMOVE)
    assert one.can_go_on, "no process has said anything"
    one = dataclasses.replace(one, progress=progress(phase, moved_ms=1))
    assert one.can_go_on is (phase in (OrderPhase.LISTING, OrderPhase.COPYING))
