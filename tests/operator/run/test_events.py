"""One cause is one event with a count: also after a restart, and also while it comes and goes."""

import datetime

from tests.operator.resources import SPACE
from tests.operator.worlds import World
from zonekeeper.operator.kubernetes.api import EVENTS, PODS, Json
from zonekeeper.operator.plan.conditions import Notice
from zonekeeper.operator.run import telling
from zonekeeper.operator.run.telling import EventTeller

MINUTES = 60


async def events(world: World, reason: str) -> list[Json]:
    return [one for one in await world.kubernetes.list(EVENTS, SPACE) if one["reason"] == reason]


async def trouble(world: World, *, message: str = "not found", begin: bool = True) -> None:
    """Let the image of a bookie not be pulled, or end that."""
    pod = await world.kubernetes.get(PODS, SPACE, "log-a-1")
    assert pod is not None
    waiting = {"reason": "ErrImagePull", "message": message}
    pod["status"] = {
        "conditions": [{"type": "Ready", "status": str(not begin)}],
        "containerStatuses": [{"name": "bookie", "state": {"waiting": waiting}}] if begin else [],
    }
    world.kubernetes.put(PODS, pod)
    await world.turn()


async def test_a_cause_that_comes_again_is_counted_also_by_the_next_operator() -> None:
    world = World()
    await world.settle()
    await trouble(world)
    (first,) = await events(world, "ImagePull")
    assert (first["count"], first["type"]) == (1, "Warning")
    assert first["message"].startswith("Ready: log-a-1: container bookie: ErrImagePull: not found")

    await trouble(world, begin=False)
    world.reconciler = world.new_operator()
    await trouble(world, message="forbidden")

    (again,) = await events(world, "ImagePull")
    assert again["count"] == 2
    assert "forbidden" in again["message"]
    assert again["metadata"]["name"] == first["metadata"]["name"]


async def test_the_first_time_stays_and_the_last_one_moves() -> None:
    world = World()
    moments = [datetime.datetime(2026, 1, 2, 3, minute, tzinfo=datetime.UTC) for minute in (1, 9)]
    await world.settle()
    item = await world.get()
    notice = Notice(warning=True, reason="Tried", message="x" * 9_999)
    teller = EventTeller(world.kubernetes, iter(moments).__next__)
    for _ in moments:
        await teller.tell(notice, item)

    (found,) = await events(world, "Tried")
    times = (found["firstTimestamp"], found["lastTimestamp"])
    assert times == ("2026-01-02T03:01:00Z", "2026-01-02T03:09:00Z")
    assert found["involvedObject"]["uid"] == item["metadata"]["uid"]
    assert len(found["message"]) == telling.MESSAGE_MAX


async def test_while_a_cause_stands_for_an_hour_it_is_told_once() -> None:
    world = World()
    await world.settle()
    before = len(await world.kubernetes.list(EVENTS, SPACE))
    for minute in range(MINUTES):
        # The kubelet waits longer each time, and says so.
        await trouble(world, message=f"back-off {minute}m")

    told = await world.kubernetes.list(EVENTS, SPACE)
    assert len(told) == before + 1
    assert [one["count"] for one in await events(world, "ImagePull")] == [1]


async def test_different_causes_and_another_resource_of_the_name_have_events_of_their_own() -> None:
    world = World()
    await world.settle()
    item = await world.get()
    other = {**item, "metadata": {**item["metadata"], "uid": "uid-other"}}
    teller = EventTeller(world.kubernetes, world.clocks.wall)
    notice = Notice(warning=True, reason="Tried", message="it was", about="Ready")
    for made in (
        notice,
        Notice(warning=True, reason="Tried", message="it was", about="Legal"),
        Notice(warning=True, reason="Left", message="it was", about="Ready"),
    ):
        await teller.tell(made, item)
    await teller.tell(notice, other)

    names = {one["metadata"]["name"] for one in await events(world, "Tried")}
    assert len(names) == 3
    assert all(one["count"] == 1 for one in await events(world, "Tried"))


async def test_what_another_condition_tells_is_not_told_by_ready_again() -> None:
    world = World()
    world.is_cut_off = True
    await world.turn()

    assert (await world.conditions())["Ready"][1] == "MetadataUnreachable"
    (event,) = await events(world, "MetadataUnreachable")
    assert event["message"].startswith("MetadataReady: ")
    assert event["count"] == 1
