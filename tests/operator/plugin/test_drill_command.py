"""``kubectl zonekeeper drill``: an order, its phases, and the report; with the operator's world."""

import pytest

from tests.operator.drills.drill_world import FIGURES, FOR_MS, DrillWorld, settled
from tests.operator.plugin.playing import ANNA
from tests.operator.resources import NAME, SPACE
from zonekeeper.operator.kubernetes.api import BOOKIE_CLUSTERS
from zonekeeper.operator.people.answers import AnswerPhase
from zonekeeper.operator.plugin import drills, orders_made, status_text
from zonekeeper.operator.plugin.drills import DrillNotSeenError
from zonekeeper.operator.plugin.ordering import OrderDesk
from zonekeeper.operator.plugin.orders_made import AskedByPerson, NoDrillError
from zonekeeper.operator.roots.resource_orders import AskedFor

DRILL = AskedByPerson(asked=AskedFor.DRILL, zone="b", for_ms=FOR_MS)
END = AskedByPerson(asked=AskedFor.END_DRILL, zone="b")


def desk(world: DrillWorld, *, operates: bool = True) -> OrderDesk:
    async def pause() -> None:
        if not operates:
            world.now_ms += 600_000
            return
        await world.turn()
        await world.controllers()
        if (await world.drill()).get("phase") == "Away":
            world.now_ms += FOR_MS // 4

    return OrderDesk(
        api=world.kubernetes,
        namespace=SPACE,
        name=NAME,
        wall_ms=lambda: world.wall_ms,
        pause=pause,
    )


async def begun(world: DrillWorld, at: OrderDesk, asked: AskedByPerson = DRILL) -> str:
    until_ms = at.wall_ms() + 120_000
    answer = await at.give(
        lambda found: orders_made.made(found, asked, ANNA, token="t", until_ms=until_ms)
    )
    assert answer.phase is AnswerPhase.DONE, answer
    return answer.token


async def test_its_phases_are_told_and_its_report_has_all_figures() -> None:
    world = await settled()
    told: list[str] = []
    at = desk(world)

    record = await drills.followed(at, await begun(world, at), told.append)

    assert told == ["Probing", "Away", "Returning", "Ended"] or told[-1] == "Ended"
    assert drills.is_completed(record)
    text = "\n".join(drills.report(record))
    assert "drill of zone b, by anna: the site is moved: Completed" in text
    assert "of 1m" in text
    assert "acknowledged: 7 entries, 0 lost" in text
    plain = drills.plain(record)
    assert (plain["figures"], plain["probe"]) == (
        {"acknowledged": 7, "lost": 0, "failed": 0, "stall": 0, "before": 0},
        FIGURES,
    )
    resource = await world.get()
    assert any("Completed" in line for line in status_text.lines(resource, world.wall_ms))
    assert status_text.plain(resource)["drill"]["outcome"] == "Completed"


async def test_an_end_names_the_drill_that_stands_and_no_other() -> None:
    world = await settled()
    at = desk(world)
    with pytest.raises(NoDrillError, match="no drill of zone b: no zone is away"):
        orders_made.made(await world.get(), END, ANNA, token="e", until_ms=1)
    token = await begun(world, at)
    await world.until_phase("Away")

    order = orders_made.made(await world.get(), END, ANNA, token="e", until_ms=1)

    assert order.incident == token
    other = AskedByPerson(asked=AskedFor.END_DRILL, zone="a")
    with pytest.raises(NoDrillError, match="no drill of zone a: zone b is away"):
        orders_made.made(await world.get(), other, ANNA, token="e", until_ms=1)
    assert "zone b comes back now" in orders_made.question(await world.get(), END)
    assert "zone b are away for 1m" in orders_made.question(await world.get(), DRILL)


async def test_a_drill_whose_end_is_not_seen_is_told() -> None:
    world = await settled()
    token = await begun(world, desk(world))

    with pytest.raises(DrillNotSeenError, match="did not end in time") as raised:
        await drills.followed(desk(world, operates=False), token, lambda _: None)

    assert raised.value.maybe_applied


async def test_another_drill_in_the_status_ends_the_waiting() -> None:
    world = await settled()
    at = desk(world)
    token = await begun(world, at)

    def swap(_: str) -> None:
        item = world.kubernetes.peek(BOOKIE_CLUSTERS, SPACE, NAME)
        assert item is not None
        item["status"]["drill"] |= {"token": "another"}
        world.kubernetes.put(BOOKIE_CLUSTERS, item)

    with pytest.raises(DrillNotSeenError, match="another drill"):
        await drills.followed(at, token, swap)
