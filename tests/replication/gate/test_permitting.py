"""A person's release and hold, over a store that loses answers."""

import pytest

from tests.replication.gate_world import ANNA, MINUTE, SECOND, A, B, GateWorld, members, played
from zonekeeper.metadata.stores.memory import ExchangeLoss, MemoryStore, Passage, RequestKind
from zonekeeper.placement.base.ids import ZoneName
from zonekeeper.placement.zones.gate import Permission, Person, RefusedError, Token
from zonekeeper.replication.gate import permitting, releasing
from zonekeeper.replication.gate.permitting import GateRequest


def lose_first(world: GateWorld, loss: ExchangeLoss) -> None:
    """Lose something of the next write."""
    store = world.cluster.store
    assert isinstance(store, MemoryStore)
    left = [loss]

    def weather(kind: RequestKind) -> Passage:
        return Passage(loss=left.pop()) if kind is RequestKind.WRITE and left else Passage()

    store.weather = weather


@pytest.mark.parametrize("loss", [ExchangeLoss.ANSWER, ExchangeLoss.REQUEST])
@pytest.mark.parametrize("zone", [A, None])
@played()
async def test_an_answer_that_is_lost_is_no_second_release(
    world: GateWorld, loss: ExchangeLoss, zone: ZoneName | None
) -> None:
    await world.hold(zone)
    lose_first(world, loss)
    await world.release(zone)
    record = await (world.zone(zone) if zone else world.cluster_record())
    assert record.gate.permission is Permission.OPEN
    texts = [text for text in await world.told_of("changed") if "held → open" in text]
    assert len([text for text in texts if "released by anna" in text]) == 1


@played()
async def test_a_release_of_another_incident_than_the_one_seen_is_refused(world: GateWorld) -> None:
    await world.lose(members(A))
    seen = (await world.zone(A)).gate.token
    await world.come(members(A))
    await world.wait(SECOND)
    await world.lose(members(A))
    request = GateRequest(zone=A, person=ANNA, wall_ms=1)
    with pytest.raises(RefusedError, match="the hold is not of"):
        await permitting.release(world.cluster, request, seen, world.observer.policy, world.told)
    assert (await world.zone(A)).gate.permission is Permission.HELD


@played()
async def test_what_is_not_held_and_what_nobody_watched_is_refused(world: GateWorld) -> None:
    rules = world.observer.policy
    with pytest.raises(RefusedError, match="nothing is held"):
        await world.release(B)
    request = GateRequest(zone=ZoneName("z"), person=ANNA, wall_ms=1)
    with pytest.raises(RefusedError, match="there is no record of zone z"):
        await permitting.release(world.cluster, request, Token("t"), rules, world.told)
    with pytest.raises(RefusedError, match="there is no record of zone z"):
        await permitting.hold(world.cluster, request, rules, world.told)


@played()
async def test_a_hold_needs_a_name_and_a_reason(world: GateWorld) -> None:
    with pytest.raises(RefusedError, match="the reason must be one line"):
        await world.hold(A, Person(name="anna", reason=" "))
    with pytest.raises(RefusedError, match="the name must be one line"):
        await permitting.switch(
            world.cluster, Person(name="", reason="x"), world.told, enabled=False
        )


@played()
async def test_the_release_of_the_cluster_restarts_the_delays(world: GateWorld) -> None:
    await world.lose(members(B, 0))
    await world.wait(6 * MINUTE)
    assert world.publishable() == members(B, 0)
    await world.hold(None)
    await world.wait(SECOND)
    assert world.publishable() == []
    await world.release(None)
    await world.wait(4 * MINUTE)
    assert world.publishable() == []
    await world.wait(2 * MINUTE)
    assert world.publishable() == members(B, 0)


@played()
async def test_an_evaluation_behind_a_lost_answer_does_not_hide_the_release(
    world: GateWorld,
) -> None:
    await world.hold(A)
    store = world.cluster.store
    assert isinstance(store, MemoryStore)
    lost = [Passage(loss=ExchangeLoss.ANSWER)]
    slow = Passage(there_ms=3 * SECOND)

    def weather(kind: RequestKind) -> Passage:
        if kind is RequestKind.WRITE:
            return lost.pop() if lost else Passage()
        return Passage() if lost else slow

    store.weather = weather
    releasing = world.tasks.create_task(world.release(A))
    await world.wait(SECOND)  # it is written, and the answer is lost; now a zone watch evaluates
    await world.observer_store.delete(world.cluster.root.writable(members(B, 0)[0]), version=None)
    await releasing
    assert (await world.zone(A)).gate.permission is Permission.OPEN


@played()
async def test_a_release_is_not_about_who_is_in_maintenance(world: GateWorld) -> None:
    await world.declare("a", "ud-0", lasts_ms=60 * MINUTE)
    await world.lose(members(A))
    await world.lose(members(B, 1))
    assert releasing.held_losses(world.observer, A) == {*members(A, 1, 3)}
    assert releasing.held_losses(world.observer, None) == {*members(A, 1, 3), *members(B, 1)}
