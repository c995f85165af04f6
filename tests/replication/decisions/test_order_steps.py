"""The state machine of an order about a bookie: every scene that there can be, to the end."""

import dataclasses
import itertools
from collections.abc import Iterator

import pytest

from tests.replication.decisions.test_preflight import ledger
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.placement.zones.bookie_orders import (
    BookieOrder,
    OrderKind,
    OrderPhase,
    OrderWord,
)
from zonekeeper.replication.decisions import order_steps
from zonekeeper.replication.decisions.order_steps import (
    AwaitChange,
    EmptyOnce,
    EndOrder,
    Forget,
    MakeReadOnly,
    MakeWritable,
    OrderScene,
    TakeOrderBack,
    WriteLostOff,
    next_step,
)

WORD = OrderWord(at_ms=1, by="anna", reason="its disk is old")
FLAGS = (False, True)


def scenes() -> Iterator[OrderScene]:
    """Every scene, with three bookies that may have the name: the one, none, another."""
    orders = [
        BookieOrder(
            kind=kind,
            token="t",
            given=WORD,
            incarnation=incarnation,
            read_only=read_only,
            emptied_ms=emptied,
            taken_back=back,
        )
        for kind, incarnation, read_only, emptied, back in itertools.product(
            OrderKind, (None, 7), (None, False, True), (None, 5), (None, WORD)
        )
    ]
    for order, incarnation, registered, refuses, draining, kept, restored in itertools.product(
        orders, (None, 7, 8), FLAGS, FLAGS, FLAGS, FLAGS, FLAGS
    ):
        yield OrderScene(
            order=order,
            incarnation=incarnation,
            registered=registered,
            refuses=refuses,
            draining=draining,
            kept_read_only=kept,
            restored=restored,
        )


ALL = list(scenes())


def test_a_bookie_is_forgotten_only_where_everything_says_so() -> None:
    found = [one for one in ALL if isinstance(next_step(one), Forget)]
    assert found
    for one in found:
        order = one.order
        assert order.kind is OrderKind.REMOVE
        assert order.emptied_ms is not None
        assert order.taken_back is None
        assert one.incarnation == order.incarnation
        assert one.draining
        assert not one.registered
        assert not one.restored


def test_an_order_that_is_taken_back_only_makes_writable_waits_for_that_and_ends() -> None:
    for one in (one for one in ALL if one.order.taken_back is not None):
        step = next_step(one)
        assert isinstance(step, MakeWritable | AwaitChange | EndOrder), one
        if isinstance(step, AwaitChange):
            assert step.phase is OrderPhase.RETURNING


def test_only_what_the_order_made_read_only_is_made_writable_and_a_persons_word_stays() -> None:
    for one in ALL:
        back = one.order.taken_back is not None and one.incarnation == one.order.incarnation
        wanted = back and one.order.read_only is True and not one.kept_read_only and one.registered
        assert isinstance(next_step(one), MakeWritable) is wanted, one


def test_an_order_that_is_taken_back_never_ends_while_what_it_made_read_only_is_so() -> None:
    for one in ALL:
        same = one.incarnation == one.order.incarnation
        if one.order.taken_back and one.order.read_only and same and not one.kept_read_only:
            assert not isinstance(next_step(one), EndOrder), one


def test_another_bookie_of_the_name_is_never_touched() -> None:
    for one in (one for one in ALL if one.incarnation != one.order.incarnation):
        assert isinstance(next_step(one), EndOrder | AwaitChange), one


def test_an_order_that_an_import_or_another_bookie_has_overtaken_waits_and_says_so() -> None:
    """Its bookie's mark is there still, so nobody has forgotten the bookie."""
    for one in ALL:
        overtaken = one.incarnation not in (None, one.order.incarnation) and one.draining
        if overtaken and one.order.taken_back is None:
            step = next_step(one)
            assert isinstance(step, AwaitChange), one
            assert step.phase is OrderPhase.ANOTHER


def of_one(kind: OrderKind) -> OrderScene:
    order = BookieOrder(kind=kind, token="t", given=WORD, incarnation=7)
    return OrderScene(
        order=order,
        incarnation=7,
        registered=kind is not OrderKind.RECOVER,
        refuses=False,
        draining=kind is not OrderKind.RECOVER,
        kept_read_only=False,
        restored=False,
    )


def after(
    scene: OrderScene, *, read_only: bool | None = None, emptied_ms: int | None = None
) -> OrderScene:
    """The scene after steps of the order."""
    made = scene.order.read_only if read_only is None else read_only
    changed = dataclasses.replace(scene.order, read_only=made, emptied_ms=emptied_ms)
    return dataclasses.replace(scene, order=changed)


def test_a_removal_goes_through_its_states_in_order() -> None:
    scene = of_one(OrderKind.REMOVE)
    assert next_step(scene) == MakeReadOnly()
    scene = after(scene, read_only=True)
    assert next_step(scene) == MakeReadOnly(), "a worker died before it told the bookie"
    scene = dataclasses.replace(scene, refuses=True)
    assert next_step(scene) == EmptyOnce()
    scene = after(scene, emptied_ms=3)
    assert next_step(scene) == AwaitChange(phase=OrderPhase.STOPPING)
    scene = dataclasses.replace(scene, registered=False)
    assert next_step(scene) == Forget()
    step = next_step(dataclasses.replace(scene, restored=True))
    assert isinstance(step, AwaitChange)
    assert step.phase is OrderPhase.RESTORED


@pytest.mark.parametrize("kind", [OrderKind.DRAIN, OrderKind.REMOVE])
def test_a_bookie_that_dies_while_it_is_emptied_is_emptied_on(kind: OrderKind) -> None:
    scene = dataclasses.replace(of_one(kind), registered=False)
    assert next_step(scene) == EmptyOnce(), "nobody is there to be made read-only"
    assert next_step(dataclasses.replace(scene, registered=True)) == MakeReadOnly()


def test_a_bookie_that_a_person_made_read_only_is_not_told_again() -> None:
    scene = after(of_one(OrderKind.DRAIN), read_only=False)
    for refuses in FLAGS:
        assert next_step(dataclasses.replace(scene, refuses=refuses)) == EmptyOnce()


def test_a_drained_bookie_stays_as_it_is() -> None:
    told = dataclasses.replace(of_one(OrderKind.DRAIN), refuses=True)
    scene = after(told, read_only=True, emptied_ms=3)
    for one in (scene, dataclasses.replace(scene, registered=False)):
        assert next_step(one) == AwaitChange(phase=OrderPhase.EMPTIED)


def test_a_recovery_empties_writes_off_and_ends_when_the_bookie_is_back() -> None:
    scene = of_one(OrderKind.RECOVER)
    assert next_step(scene) == EmptyOnce()
    assert next_step(after(scene, emptied_ms=3)) == WriteLostOff()
    for emptied in (None, 3):
        back = dataclasses.replace(after(scene, emptied_ms=emptied), registered=True)
        step = next_step(back)
        assert isinstance(step, EndOrder)
        assert "registered again" in step.why


def test_a_mark_that_another_program_removed_takes_the_order_back() -> None:
    for kind in (OrderKind.DRAIN, OrderKind.REMOVE):
        assert next_step(dataclasses.replace(of_one(kind), draining=False)) == TakeOrderBack()
    assert next_step(of_one(OrderKind.RECOVER)) == EmptyOnce(), "it has no mark"


def test_a_bookie_that_was_forgotten_in_another_way_ends_the_order() -> None:
    for kind in OrderKind:
        gone = dataclasses.replace(of_one(kind), incarnation=None, registered=False)
        assert isinstance(next_step(gone), EndOrder)


def test_a_bookie_that_never_had_a_cookie_is_recovered_all_the_same() -> None:
    scene = of_one(OrderKind.RECOVER)
    order = dataclasses.replace(scene.order, incarnation=None)
    assert next_step(dataclasses.replace(scene, order=order, incarnation=None)) == EmptyOnce()


@pytest.mark.parametrize(
    ("fragments", "entries", "held"),
    [
        ([(0, "a b c")], 100, 1_000),
        ([(0, "a b c"), (40, "d b c")], 100, 400),
        ([(0, "d b c"), (40, "a b c"), (90, "d b c")], 100, 500),
        ([(0, "d b c")], 100, 0),
        ([(0, "a b c")], None, 0),
    ],
)
def test_the_share_of_a_bookie_is_its_part_of_the_entries_of_a_closed_ledger(
    fragments: list[tuple[int, str]], entries: int | None, held: int
) -> None:
    one = ledger(*fragments, entries=entries)
    assert order_steps.held_bytes(one, BookieId("a")) == held
