"""A zone goes away on a person's order, comes back whatever happens, and nothing else is done."""

import pytest

from tests.operator.drills.drill_world import FIGURES, FOR_MS, B, DrillWorld, settled
from tests.operator.people import ordered
from tests.operator.resources import SPACE
from zonekeeper.operator.kubernetes.api import (
    BOOKIE_CLUSTERS,
    CLAIMS,
    PODS,
    STATEFUL_SETS,
)
from zonekeeper.operator.roots.resource_orders import AskedFor
from zonekeeper.placement.base.ids import BookieId, ZoneName


async def test_a_zone_is_away_for_its_time_and_the_report_stays() -> None:
    world = await settled()
    claims = await world.kubernetes.list(CLAIMS, SPACE)

    await world.order()
    begun = await world.until_phase("Probing")
    assert (await ordered.answer(world))["phase"] == "Accepted"
    away = await world.until_phase("Away")
    assert (await ordered.answer(world))["phase"] == "Done"
    await world.work(lambda _: "log-b-0" not in world.registered)
    assert await world.replicas() == {"a": 2, "b": 0, "c": 2}
    assert (await world.conditions())["Acting"] == ("False", "Drill")
    await world.work(lambda found: "heldMs" in found)
    assert await world.kubernetes.list(CLAIMS, SPACE) == claims, "volumes stay"
    world.now_ms += FOR_MS
    report = await world.ended()

    assert (report["outcome"], report.get("why")) == ("Completed", None)
    assert report["probe"] == FIGURES
    assert report["begunMs"] == begun["begunMs"] <= away["awayMs"] <= report["heldMs"]
    assert report["backMs"] - report["awayMs"] >= FOR_MS
    assert report["backMs"] <= report["endedMs"]
    assert (await world.conditions())["Acting"] == ("True", "Acting")
    assert await ordered.held(world) == {}


async def test_nothing_else_is_done_while_a_drill_is_on() -> None:
    world = await settled()
    await world.away()
    (found,) = [
        one
        for one in await world.kubernetes.list(STATEFUL_SETS, SPACE)
        if one["metadata"]["name"] == "log-a"
    ]
    await world.kubernetes.edit(STATEFUL_SETS, found, {"spec": {"serviceName": "another"}})

    for _ in range(4):
        await world.turn()
        await world.controllers()

    after = world.kubernetes.peek(STATEFUL_SETS, SPACE, "log-a")
    assert after is not None
    assert after["spec"]["serviceName"] == "another", "it is corrected when the drill is over"
    refused = await ordered.give(world, AskedFor.DRAIN, bookie=BookieId("log-a-0"))
    assert refused["phase"] == "Refused"
    assert "a drill of zone b is on" in refused["message"]
    held = await ordered.give(world, AskedFor.HOLD, zone=ZoneName("a"))
    assert held["phase"] == "Done", "to hold is always possible"


async def _paused(world: DrillWorld) -> None:
    item = await world.get()
    world.kubernetes.put(BOOKIE_CLUSTERS, item | {"spec": item["spec"] | {"paused": True}})


async def _edited(world: DrillWorld) -> None:
    item = await world.get()
    await world.kubernetes.edit(BOOKIE_CLUSTERS, item, {"spec": {"update": {"bake": "7m"}}})


async def _store_gone(world: DrillWorld) -> None:
    world.is_cut_off = True
    await world.reconciler.close()
    world.reconciler = world.new_operator()
    await world.turn()
    world.is_cut_off = False


async def _probe_lost_an_entry(world: DrillWorld) -> None:
    world.probe_says = "entry 7 of ledger 3 was acknowledged, and is gone"


async def _probe_deleted(world: DrillWorld) -> None:
    for pod in await world.probes():
        world.kubernetes.mark_deleted(PODS, SPACE, pod["metadata"]["name"])


async def _second_loss(world: DrillWorld) -> None:
    await world.end_sessions({"log-a-1"})


async def _second_pod(world: DrillWorld) -> None:
    pod = world.kubernetes.peek(PODS, SPACE, "log-a-1")
    assert pod is not None
    status = {"conditions": [{"type": "Ready", "status": "False"}]}
    world.kubernetes.put(PODS, pod | {"status": status})
    await world.turn()
    world.kubernetes.put(PODS, pod)


async def _clock_back(world: DrillWorld) -> None:
    world.now_ms -= 10_000
    await world.turn()
    world.now_ms += 10_000


async def _released(world: DrillWorld) -> None:
    await world.work(lambda found: "heldMs" in found)
    await world.release("b")


async def _person(world: DrillWorld) -> None:
    await world.end((await world.drill())["token"])


@pytest.mark.parametrize(
    ("happens", "why"),
    [
        (_paused, "spec.paused is true"),
        (_edited, "the spec was changed"),
        (_store_gone, "the metadata store is not read"),
        (_probe_lost_an_entry, "entry 7 of ledger 3"),
        (_probe_deleted, "the probe is gone"),
        (_second_loss, "a second loss: log-a-1"),
        (_second_pod, "a second loss: log-a-1"),
        (_clock_back, "the clock of the operator has gone back"),
        (_released, "the losses of zone b are released"),
        (_person, "ended by anna"),
    ],
)
async def test_it_ends_by_itself(happens: object, why: str) -> None:
    world = await settled()
    await world.away()

    assert callable(happens)
    await happens(world)
    report = await world.work(lambda found: found["phase"] in ("Returning", "Ended"))

    assert report["outcome"] == "Aborted"
    assert why in report["why"]
    await world.work(lambda _: "log-b-0" in world.registered)
    assert await world.replicas() == {"a": 2, "b": 2, "c": 2}
    if happens is _paused:
        item = await world.get()
        world.kubernetes.put(BOOKIE_CLUSTERS, item | {"spec": item["spec"] | {"paused": False}})
    report = await world.ended()
    assert report["outcome"] == "Aborted"
    assert why in report["why"]


async def test_a_zone_that_is_not_held_in_time_is_called_back() -> None:
    world = await settled()
    await world.order(for_ms=600_000)
    await world.until_phase("Probing")
    while (await world.drill())["phase"] == "Probing":
        await world.controllers()
        await world.turn()
    world.is_watched = False

    await world.work(lambda _: "log-b-0" not in world.registered)
    world.now_ms += 140_000
    await world.turn()
    assert (await world.drill())["phase"] == "Away"
    world.now_ms += 11_000
    report = await world.work(lambda found: found["phase"] == "Returning")

    assert "are not held after" in report["why"]


async def test_a_probe_that_lost_an_entry_at_the_very_end_is_no_success() -> None:
    world = await settled()
    await world.away()
    world.is_probe_endless = True
    world.now_ms += FOR_MS
    await world.until_phase("Returning")

    world.probe_says = "entry 9 of ledger 3 was acknowledged, and is gone"
    report = await world.ended()

    assert report["outcome"] == "Aborted"
    assert "entry 9 of ledger 3" in report["why"]
    assert report["probe"].startswith("entry 9")


async def test_a_zone_that_does_not_come_back_ends_the_drill_and_is_told() -> None:
    world = await settled()
    await world.away()
    world.broken.add("zonekeeper:0.1.0")
    world.now_ms += FOR_MS
    await world.until_phase("Returning")
    for _ in range(4):
        await world.turn()
        await world.controllers()
    assert (await world.drill())["phase"] == "Returning"

    world.now_ms += 11 * 60_000
    report = await world.until_phase("Ended")

    assert report["outcome"] == "Aborted"
    assert "does not come back: log-b-0" in report["why"]
    assert await world.replicas() == {"a": 2, "b": 2, "c": 2}


async def test_a_lost_record_is_no_drill_and_the_zone_comes_back() -> None:
    world = await settled()
    await world.away()
    item = await world.get()
    status = {name: value for name, value in item["status"].items() if name != "drill"}
    world.kubernetes.put(BOOKIE_CLUSTERS, item | {"status": status})

    await world.settle()

    assert await world.replicas() == {"a": 2, "b": 2, "c": 2}
    assert await world.budget() == 1
    assert (await world.conditions())["Ready"] == ("True", "AllReady")


async def test_a_deleted_resource_ends_with_its_drill() -> None:
    world = await settled(onDelete="Delete")
    await world.away()

    world.kubernetes.mark_deleted(BOOKIE_CLUSTERS, SPACE, "log")
    await world.settle()

    assert world.kubernetes.peek(BOOKIE_CLUSTERS, SPACE, "log") is None
    assert await world.kubernetes.list(STATEFUL_SETS, SPACE) == []


async def test_a_probe_that_cannot_write_begins_no_drill() -> None:
    world = await settled()
    world.probe_says = "no bookie takes its entries: not permitted"

    await world.order()
    report = await world.ended()

    assert report["outcome"] == "NotBegun"
    assert "not permitted" in report["why"]
    assert "awayMs" not in report


async def test_a_probe_that_is_never_ready_begins_no_drill() -> None:
    world = await settled()
    world.is_probe_ready = False
    await world.order()
    await world.until_phase("Probing")

    world.now_ms += 121_000
    report = await world.ended()

    assert report["outcome"] == "NotBegun"
    assert "the probe is not ready" in report["why"]


async def test_a_gate_that_closes_before_the_zone_is_away_begins_no_drill() -> None:
    world = await settled()
    world.is_probe_ready = False
    await world.order()
    await world.until_phase("Probing")

    await world.hold("a")
    report = await world.until_phase("Ended")

    assert report["outcome"] == "NotBegun"
    assert await world.replicas() == {"a": 2, "b": 2, "c": 2}


async def test_a_second_drill_replaces_the_report_of_the_first() -> None:
    world = await settled()
    await world.away()
    await world.end("order-drill")
    first = await world.ended()

    await world.order(token="another")
    await world.until_phase("Away")
    third = await ordered.give(world, AskedFor.DRILL, zone=B, for_ms=FOR_MS, token="third")

    assert (await world.drill())["token"] == "another" != first["token"]
    assert third["phase"] == "Refused"
    assert "is on already" in third["message"]
    await world.end("order-drill")
    for _ in range(3):
        await world.turn()
    assert (await world.drill())["phase"] == "Away", "that was the end of another drill"
    assert (await ordered.answer(world))["phase"] == "Refused"


async def test_what_passes_by_itself_keeps_the_zone_until_it_has_passed() -> None:
    """An operator that has just started has seen no evaluation: it takes no zone away."""
    world = await settled()
    world.is_probe_ready = False
    await world.order()
    await world.until_phase("Probing")
    world.is_probe_ready = True
    await world.controllers()
    world.is_watched = False
    await world.reconciler.close()
    world.reconciler = world.new_operator()

    for _ in range(5):
        await world.turn()
        await world.controllers()
    assert (await world.drill())["phase"] == "Probing"
    assert await world.replicas() == {"a": 2, "b": 2, "c": 2}

    world.is_watched = True
    await world.until_phase("Away")
