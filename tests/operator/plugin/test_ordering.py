"""An order is written once, followed to its answer, and left nowhere."""

import pytest

from tests.operator.people import ordered
from tests.operator.plugin import playing
from tests.operator.resources import NAME, SPACE
from tests.operator.worlds import World
from zonekeeper.operator.kubernetes.api import (
    BOOKIE_CLUSTERS,
    KubernetesError,
    NotPermittedError,
    ObjectKind,
)
from zonekeeper.operator.people.answers import AnswerPhase
from zonekeeper.operator.people.order_format import ORDER
from zonekeeper.operator.plugin import ordering, rolls
from zonekeeper.operator.plugin.ordering import NotAnsweredError, OrderStandsError
from zonekeeper.operator.plugin.orders_made import AskedByPerson, NothingHeldError
from zonekeeper.operator.plugin.person_place import NoSuchResourceError
from zonekeeper.operator.roots.resource_orders import AskedFor

HOLD_B = AskedByPerson(asked=AskedFor.HOLD, zone="b")
RELEASE_B = AskedByPerson(asked=AskedFor.RELEASE, zone="b", is_forced=True)


async def settled(**spec: object) -> World:
    world = World(None, **spec)
    await world.settle()
    return world


def annotation(world: World) -> object:
    return ordered.resource_of(world)["metadata"].get("annotations", {}).get(ORDER)


async def test_a_hold_is_followed_and_its_release_names_what_the_status_shows() -> None:
    world = await settled()
    at = playing.desk(world)

    held = await playing.give(at, HOLD_B)
    assert held.phase is AnswerPhase.DONE
    assert annotation(world) is None, "an answered order is taken off"
    released = await playing.give(at, RELEASE_B, token="second")

    assert (released.phase, released.token) == (AnswerPhase.DONE, "second")
    assert (await ordered.gate(world, "b")).permits


async def test_a_refusal_is_the_answer() -> None:
    world = await settled()
    strange = AskedByPerson(asked=AskedFor.HOLD, zone="x")

    answer = await playing.give(playing.desk(world), strange)

    assert answer.phase is AnswerPhase.REFUSED
    assert not ordering.is_done(answer)


async def test_what_the_status_does_not_show_as_held_is_not_released() -> None:
    world = await settled()
    with pytest.raises(NothingHeldError, match="zones/b is not held"):
        await playing.give(playing.desk(world), RELEASE_B)
    item = ordered.resource_of(world)
    del item["status"]["repair"]
    world.kubernetes.put(*ordered.whole(item))
    with pytest.raises(NothingHeldError, match="does not show"):
        await playing.give(playing.desk(world), RELEASE_B)


async def test_an_order_that_nobody_takes_up_is_taken_off_and_never_carried_out() -> None:
    world = await settled()

    with pytest.raises(NotAnsweredError, match="taken off again") as ended:
        await playing.give(playing.desk(world, operates=False), HOLD_B)

    assert (ended.value.maybe_applied, ended.value.retryable) == (False, True)
    assert annotation(world) is None
    await world.settle()
    assert (await ordered.gate(world, "b")).permits


async def test_an_order_that_was_accepted_by_an_operator_that_died_may_be_done() -> None:
    world = await settled()
    world.is_cut_off = True
    world.reconciler = world.new_operator()
    at = playing.desk(world, operates=False)
    turned: list[int] = []

    async def pause() -> None:
        if not turned:
            turned.append(1)
            await world.turn()
        world.now_ms += 10_000

    at = ordering.OrderDesk(api=at.api, namespace=SPACE, name=NAME, wall_ms=at.wall_ms, pause=pause)
    with pytest.raises(NotAnsweredError, match="it may have been done") as ended:
        await playing.give(at, HOLD_B)

    assert ended.value.maybe_applied


async def test_two_orders_at_once_are_two_and_not_half_of_each() -> None:
    world = await settled()
    first = await ordered.made(world, AskedFor.DISABLE, token="first")
    await ordered.write(world, first)

    with pytest.raises(OrderStandsError, match="disable: automatic replication, by anna"):
        await playing.give(playing.desk(world), HOLD_B)

    await world.settle()
    assert (await ordered.answer(world))["token"] == "first"
    assert (await playing.give(playing.desk(world), HOLD_B)).phase is AnswerPhase.DONE


@pytest.mark.parametrize("standing", ["no order at all", "late", "of another resource"])
async def test_an_annotation_that_waits_for_nothing_makes_way(standing: str) -> None:
    world = await settled()
    if standing == "no order at all":
        await ordered.annotate(world, standing)
    elif standing == "late":
        await ordered.write(world, await ordered.made(world, AskedFor.HOLD, until_ms=1))
    else:
        await ordered.write(world, await ordered.made(world, AskedFor.HOLD, uid="another"))

    assert (await playing.give(playing.desk(world), HOLD_B)).phase is AnswerPhase.DONE


async def test_an_edit_between_look_and_write_and_a_lost_answer_do_no_harm() -> None:
    world = await settled()
    calls: list[str] = []

    def disturb(verb: str, kind: ObjectKind) -> None:
        if verb != "edit":
            return
        calls.append(verb)
        if len(calls) == 1:
            world.edit(bookiesPerZone=3)  # its version is another one by now
        if len(calls) == 2:
            raise KubernetesError(0, "no answer", maybe_applied=True)

    world.fate = lambda verb, kind: None
    world.kubernetes.disturb = disturb
    at = playing.desk(world)

    answer = await playing.give(at, HOLD_B)

    assert answer.phase is AnswerPhase.DONE
    assert len(calls) >= 3


async def test_who_may_not_write_the_resource_orders_nothing() -> None:
    world = await settled()

    def disturb(verb: str, kind: ObjectKind) -> None:
        if verb == "edit":
            raise NotPermittedError(403, "bookieclusters is forbidden")

    world.kubernetes.disturb = disturb
    with pytest.raises(NotPermittedError):
        await playing.give(playing.desk(world), HOLD_B)


async def test_a_resource_that_is_not_there_is_named_beside_those_that_are() -> None:
    world = await settled()
    at = ordering.OrderDesk(
        api=world.kubernetes,
        namespace=SPACE,
        name="log2",
        wall_ms=lambda: 0,
        pause=world.turn,
    )
    with pytest.raises(NoSuchResourceError, match="there are log"):
        await playing.give(at, HOLD_B)


async def test_the_roll_is_paused_resumed_and_asked_for() -> None:
    world = await settled()

    async def change(paused: bool) -> bool:
        changes = {"spec": {"update": {"paused": paused}}}
        return await rolls.changed(world.kubernetes, SPACE, NAME, changes, pause=world.turn)

    assert await change(True)
    await world.change(image="zonekeeper:0.2.0")
    await world.settle()
    assert (await world.get())["status"]["roll"]["phase"] == "Paused"
    assert (await world.get())["spec"]["update"]["bake"] == "0s", "the other fields stay"
    assert await change(False)
    await world.settle()
    assert (await world.get())["status"]["roll"]["phase"] == "Settled"


async def test_an_operator_that_is_away_has_not_seen_a_change() -> None:
    world = await settled()

    async def nobody() -> None:
        world.now_ms += 1

    changes = {"spec": {"update": {"paused": True}}}
    assert not await rolls.changed(world.kubernetes, SPACE, NAME, changes, pause=nobody)
    found = await world.kubernetes.get(BOOKIE_CLUSTERS, SPACE, NAME)
    assert found is not None
    assert found["spec"]["update"]["paused"] is True
