"""What ``status`` and ``plan`` show of a resource: a map, what is held, why, and since when."""

from tests.operator.people import ordered
from tests.operator.worlds import World
from zonekeeper.operator.kubernetes.api import Json
from zonekeeper.operator.plugin import status_text
from zonekeeper.operator.roots.resource_orders import AskedFor
from zonekeeper.placement.base.ids import BookieId, ZoneName


def shown(world: World) -> str:
    return "\n".join(status_text.lines(ordered.resource_of(world), world.wall_ms))


async def test_zones_by_domains_conditions_and_what_is_held() -> None:
    world = World()
    await world.settle()
    await ordered.candidate(world)
    await ordered.give(world, AskedFor.HOLD, zone=ZoneName("b"))
    await ordered.give(world, AskedFor.DRAIN, bookie=BookieId("log-c-1"))

    text = shown(world)

    assert text.startswith("logs/log: ready; instance ")
    assert "zone  ud-0  ud-1\na     1/1   1/1\nb     1/1   1/1\nc     1/1   1/1" in text
    assert "RepairReady=False Held, for " in text
    assert "held: zone b, for " in text
    assert "held by anna: the site is moved (incident none)" in text
    assert "order: drain log-c-1, by anna" in text
    assert "last order: drain: bookie log-c-1: Done:" in text


async def test_a_resource_that_no_operator_has_seen_says_so() -> None:
    world = World()

    text = shown(world)

    assert "the operator has not looked at the newest spec yet" in text
    assert "repair: not known" in text
    assert status_text.plain(ordered.resource_of(world))["ready"] is False


async def test_a_roll_that_waits_is_in_the_plan_with_its_gates_and_steps() -> None:
    world = World()
    await world.settle()
    await world.change(image="zonekeeper:0.2.0", update={"paused": True, "bake": "0s"})
    await world.settle()
    item = ordered.resource_of(world)

    text = "\n".join(status_text.plan_lines(item))

    assert "roll: Paused, 0 of 6 bookies up to date" in text
    assert "  waits for paused: spec.update.paused is true (zonekeeper runbook paused)" in text
    assert "  1. " in text
    assert "(1 old)" in shown(world)
    assert status_text.plan(item)["rollPaused"] is True


async def test_nothing_to_roll_is_said() -> None:
    world = World()
    await world.settle()

    text = "\n".join(status_text.plan_lines(ordered.resource_of(world)))

    assert text == "roll: Settled, 6 of 6 bookies up to date\n  nothing is to be rolled"


def test_a_time_that_cannot_be_read_is_an_unknown_age() -> None:
    condition: Json = {
        "type": "Ready",
        "status": "True",
        "reason": "Ready",
        "message": "",
        "lastTransitionTime": "yesterday",
    }
    item: Json = {
        "metadata": {"name": "log", "namespace": "logs", "generation": 1},
        "status": {"conditions": [condition], "observedGeneration": 1},
    }

    assert "Ready=True Ready, for an unknown time" in "\n".join(status_text.lines(item, 7))
