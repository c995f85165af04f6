"""An order on the resource is carried out by the operator, and answered in the status."""

import dataclasses

import pytest

from tests.operator.people import ordered
from tests.operator.people.ordered import ANNA
from tests.operator.worlds import World
from zonekeeper.operator.roots.resource_orders import AskedFor
from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.placement.zones.bookie_orders import BookieOrder, OrderKind, OrderWord
from zonekeeper.placement.zones.gate import Person, Token

B = ZoneName("b")
BOOKIE = BookieId("log-b-1")


async def settled(**spec: object) -> World:
    world = World(None, **spec)
    await world.settle()
    return world


async def test_without_an_order_there_is_no_answer_and_nothing_is_held() -> None:
    world = await settled()

    status = (await world.get())["status"]

    assert "order" not in status
    assert status["repair"] == {"enabled": True}
    assert "bookieOrders" not in status


async def test_the_switch_is_thrown_once_and_back() -> None:
    world = await settled()

    off = await ordered.give(world, AskedFor.DISABLE)

    assert (off["phase"], off["token"]) == ("Done", "order-disable")
    assert not await ordered.is_enabled(world)
    assert (await world.get())["status"]["repair"]["enabled"] is False
    again = await ordered.give(world, AskedFor.DISABLE, token="another")
    assert again["message"] == "automatic replication was already off"
    on = await ordered.give(world, AskedFor.ENABLE)
    assert (on["phase"], await ordered.is_enabled(world)) == ("Done", True)


async def test_repair_is_not_switched_on_over_lost_bookies_without_force() -> None:
    world = await settled()
    await ordered.give(world, AskedFor.DISABLE)
    await world.end_sessions({"log-b-0"})

    refused = await ordered.give(world, AskedFor.ENABLE)

    assert refused["phase"] == "Refused"
    assert "log-b-0" in refused["message"]
    assert "--force" in refused["message"]
    assert not await ordered.is_enabled(world)
    forced = await ordered.give(world, AskedFor.ENABLE, token="forced", is_forced=True)
    assert forced["phase"] == "Done"


async def test_a_hold_is_set_shown_with_its_person_and_released_by_what_was_seen() -> None:
    world = await settled()

    answer = await ordered.give(world, AskedFor.HOLD, zone=B)

    assert (answer["phase"], answer["order"]) == ("Done", "hold: zone b")
    assert (await ordered.gate(world, "b")).held_by == ANNA
    shown = (await ordered.held(world))["zones/b"]
    assert shown["heldBy"] == str(ANNA)
    released = await ordered.give(
        world, AskedFor.RELEASE, zone=B, held_by=shown["heldBy"], is_forced=True
    )
    assert released["phase"] == "Done"
    assert (await ordered.gate(world, "b")).permits
    assert await ordered.held(world) == {}


async def test_the_gate_of_the_cluster_is_held_too() -> None:
    world = await settled()

    answer = await ordered.give(world, AskedFor.HOLD)

    assert answer["phase"] == "Done"
    assert set(await ordered.held(world)) == {"cluster"}


async def test_a_release_without_force_says_where_the_price_is() -> None:
    world = await settled()
    await ordered.give(world, AskedFor.HOLD, zone=B)

    refused = await ordered.give(world, AskedFor.RELEASE, zone=B, held_by=str(ANNA))

    assert refused["phase"] == "Refused"
    assert "--dry-run" in refused["message"]
    assert not (await ordered.gate(world, "b")).permits


@pytest.mark.parametrize(
    ("incident", "held_by"),
    [(Token("of yesterday"), str(ANNA)), (None, None), (None, "bert: another hold")],
)
async def test_only_what_the_person_saw_is_released(
    incident: Token | None, held_by: str | None
) -> None:
    world = await settled()
    await ordered.give(world, AskedFor.HOLD, zone=B)

    refused = await ordered.give(
        world, AskedFor.RELEASE, zone=B, incident=incident, held_by=held_by, is_forced=True
    )

    assert refused["phase"] == "Refused"
    assert "look at what is held now" in refused["message"]
    assert not (await ordered.gate(world, "b")).permits


async def test_nothing_is_released_where_nothing_is_held_or_no_such_zone_is() -> None:
    world = await settled()

    idle = await ordered.give(world, AskedFor.RELEASE, zone=B, is_forced=True)
    strange = await ordered.give(world, AskedFor.HOLD, zone=ZoneName("x"))

    assert (idle["phase"], strange["phase"]) == ("Refused", "Refused")
    assert "nothing of zone b is held" in idle["message"]
    assert "there is no zone x; there are a, b, c" in strange["message"]


async def test_what_is_not_evaluated_yet_cannot_be_held() -> None:
    world = World()
    world.is_watched = False
    await world.settle()

    refused = await ordered.give(world, AskedFor.HOLD, zone=B)

    assert refused["phase"] == "Refused"
    assert "no zone watch has evaluated it" in refused["message"]


async def test_an_order_waits_for_no_stage_and_no_stage_for_it() -> None:
    world = await settled()
    world.missing.add("zonekeeper:0.2.0")
    await world.change(image="zonekeeper:0.2.0")
    await world.settle()

    answer = await ordered.give(world, AskedFor.HOLD, zone=B)

    assert answer["phase"] == "Done"


async def test_while_the_store_is_away_the_order_waits_and_says_so() -> None:
    world = await settled()
    world.is_cut_off = True
    world.reconciler = world.new_operator()  # its store is not open yet

    waits = await ordered.give(world, AskedFor.HOLD, zone=B)

    assert waits["phase"] == "Accepted"
    assert "nobody answers" in waits["message"]
    world.is_cut_off = False
    await world.turn()
    await world.turn()
    assert (await ordered.answer(world))["phase"] == "Done"


async def test_an_order_that_could_not_be_done_in_time_is_never_done() -> None:
    world = await settled()
    world.is_cut_off = True
    world.reconciler = world.new_operator()  # its store is not open yet
    await ordered.give(world, AskedFor.HOLD, zone=B)
    ordered.later(world, ordered.FOR_MS)
    await world.turn()

    failed = await ordered.answer(world)

    assert failed["phase"] == "Failed"
    assert "it may have been done" in failed["message"]
    world.is_cut_off = False
    await world.settle()
    assert (await ordered.gate(world, "b")).permits
    assert (await ordered.answer(world)) == failed


async def test_an_order_that_is_seen_too_late_or_much_too_early_is_refused() -> None:
    world = await settled()
    late = await ordered.made(world, AskedFor.HOLD, zone=B)
    ordered.later(world, ordered.FOR_MS)
    await ordered.write(world, late)
    await world.turn()

    refused = await ordered.answer(world)
    assert (refused["phase"], "deadline is over" in refused["message"]) == ("Refused", True)
    far = await ordered.give(
        world, AskedFor.HOLD, token="far", zone=B, until_ms=world.wall_ms + 3_700_000
    )
    assert (far["phase"], "no order waits for so long" in far["message"]) == ("Refused", True)
    assert (await ordered.gate(world, "b")).permits


async def test_an_order_that_a_backup_brings_to_another_resource_is_refused() -> None:
    world = await settled()

    refused = await ordered.give(world, AskedFor.HOLD, zone=B, uid="uid-of-earlier")

    assert refused["phase"] == "Refused"
    assert "take the annotation off" in refused["message"]
    assert (await ordered.gate(world, "b")).permits


async def test_an_operator_that_is_paused_or_a_resource_that_is_deleted_obeys_nobody() -> None:
    world = await settled(paused=True)
    refused = await ordered.give(world, AskedFor.HOLD, zone=B)
    assert (refused["phase"], "spec.paused" in refused["message"]) == ("Refused", True)

    world = await settled(onDelete="Delete")
    world.sessions_linger = True
    order = await ordered.made(world, AskedFor.DISABLE)
    world.delete()
    await ordered.write(world, order)
    await world.turn()
    assert (await ordered.answer(world))["phase"] == "Refused"
    assert await ordered.is_enabled(world)


async def test_before_a_cluster_is_built_nothing_is_ordered() -> None:
    world = World(policy={"quorums": {"ack": 9}})

    refused = await ordered.give(world, AskedFor.DISABLE)

    assert refused["phase"] == "Refused"
    assert "not built" in refused["message"]


async def test_a_final_answer_stays_also_when_the_order_is_taken_off() -> None:
    world = await settled()
    done = await ordered.give(world, AskedFor.HOLD, zone=B)
    await ordered.give(world, AskedFor.HOLD, zone=B)
    store_changes = world.server.last_change_id - world.evaluated
    await ordered.annotate(world, None)
    await world.settle()

    assert await ordered.answer(world) == done
    assert world.server.last_change_id - world.evaluated == store_changes


async def test_an_answered_order_is_not_done_again_when_another_person_undoes_it() -> None:
    world = await settled()
    await ordered.give(world, AskedFor.DISABLE)
    await ordered.give(world, AskedFor.ENABLE, person=Person(name="bert", reason="no"))
    await ordered.write(world, await ordered.made(world, AskedFor.ENABLE))
    world.reconciler = world.new_operator()
    await world.settle()

    assert await ordered.is_enabled(world)


async def test_an_operator_that_died_after_the_act_finds_it_done() -> None:
    world = await settled()
    await ordered.give(world, AskedFor.HOLD, zone=B)
    seen = await ordered.made(world, AskedFor.RELEASE, zone=B, held_by=str(ANNA), is_forced=True)
    await ordered.write(world, seen)
    await world.turn()  # accepted, and done
    assert (await ordered.answer(world))["phase"] == "Accepted"
    await world.hold("b")  # another incident by now, of another person

    world.reconciler = world.new_operator()
    await world.turn()

    assert (await ordered.answer(world))["phase"] == "Done"
    assert not (await ordered.gate(world, "b")).permits


# ── a bookie ──


async def test_a_bookie_is_drained_and_released_again() -> None:
    world = await settled()
    await ordered.candidate(world)

    drained = await ordered.give(world, AskedFor.DRAIN, bookie=BOOKIE)

    assert drained["phase"] == "Done"
    order = await ordered.bookie_order(world, BOOKIE)
    assert order is not None
    assert (order.kind, order.given.by, order.token) == (OrderKind.DRAIN, "anna", "order-drain")
    (shown,) = (await world.get())["status"]["bookieOrders"]
    assert (shown["bookie"], shown["kind"], shown["by"]) == (BOOKIE, "drain", "anna")
    again = await ordered.give(world, AskedFor.DRAIN, bookie=BOOKIE, token="again")
    assert again["phase"] == "Done"
    assert await ordered.bookie_order(world, BOOKIE) == order, "one order, by one word"
    released = await ordered.give(world, AskedFor.TAKE_BACK, bookie=BOOKIE)
    assert released["phase"] == "Done"
    order = await ordered.bookie_order(world, BOOKIE)
    assert order is not None
    assert order.taken_back is not None


async def test_a_drain_that_nobody_would_carry_out_is_refused() -> None:
    world = await settled()

    refused = await ordered.give(world, AskedFor.DRAIN, bookie=BOOKIE)

    assert refused["phase"] == "Refused"
    assert "no autorecovery process is running" in refused["message"]
    assert await ordered.bookie_order(world, BOOKIE) is None
    applied = (await world.conditions())["Applied"]
    assert applied[0] == "True", "an order that is refused is no act that failed"


async def test_a_bookie_that_is_needed_lost_or_unknown_is_not_drained() -> None:
    world = await settled(bookiesPerZone=1)
    await ordered.candidate(world)

    needed = await ordered.give(world, AskedFor.DRAIN, bookie=BookieId("log-b-0"))
    unknown = await ordered.give(world, AskedFor.DRAIN, bookie=BookieId("log-b-7"), token="7")
    await world.end_sessions({"log-b-0"})
    lost = await ordered.give(world, AskedFor.DRAIN, bookie=BookieId("log-b-0"), token="lost")

    assert {one["phase"] for one in (needed, unknown, lost)} == {"Refused"}
    assert "no new ensemble could be built" in needed["message"]
    assert "there is no bookie log-b-7" in unknown["message"]
    assert "zonekeeper bookies recover log-b-0" in lost["message"]


async def test_an_order_of_another_kind_is_neither_replaced_nor_taken_back() -> None:
    world = await settled()
    await ordered.candidate(world)
    word = OrderWord(at_ms=1, by="operator/logs/other", reason="fewer bookies")
    removal = BookieOrder(kind=OrderKind.REMOVE, token="t", given=word, incarnation=None)
    await ordered.change_order(world, BOOKIE, removal)

    drained = await ordered.give(world, AskedFor.DRAIN, bookie=BOOKIE)
    released = await ordered.give(world, AskedFor.TAKE_BACK, bookie=BOOKIE)

    assert (drained["phase"], released["phase"]) == ("Refused", "Refused")
    assert "operator/logs/other" in drained["message"]
    assert await ordered.bookie_order(world, BOOKIE) == removal


async def test_nothing_is_taken_back_where_no_order_stands() -> None:
    world = await settled()

    refused = await ordered.give(world, AskedFor.TAKE_BACK, bookie=BOOKIE)

    assert refused["phase"] == "Refused"
    assert "no order about log-b-1" in refused["message"]


async def test_a_drain_that_is_taken_back_before_it_is_answered_is_not_given_again() -> None:
    world = await settled()
    await ordered.candidate(world)
    await ordered.write(world, await ordered.made(world, AskedFor.DRAIN, bookie=BOOKIE))
    await world.turn()
    order = await ordered.bookie_order(world, BOOKIE)
    assert order is not None
    word = OrderWord(at_ms=2, by="bert", reason="it stays")
    back = dataclasses.replace(order, taken_back=word)
    await ordered.change_order(world, BOOKIE, back)

    await world.turn()
    await world.turn()

    assert (await ordered.answer(world))["phase"] == "Done"
    assert await ordered.bookie_order(world, BOOKIE) == back


async def test_what_is_not_held_any_more_leaves_no_trace_and_no_write_at_rest() -> None:
    """The API server drops a list that an apply empties: an empty one would never stand."""
    world = await settled()
    await ordered.give(world, AskedFor.HOLD, zone=B)
    shown = (await ordered.held(world))["zones/b"]["heldBy"]
    await ordered.give(world, AskedFor.RELEASE, zone=B, held_by=shown, is_forced=True)
    await world.settle()

    calls: list[str] = []
    world.fate = lambda verb, kind: calls.append(verb)
    await world.turn()

    assert (await world.get())["status"]["repair"] == {"enabled": True}
    assert calls
    assert set(calls) <= {"get", "list"}
