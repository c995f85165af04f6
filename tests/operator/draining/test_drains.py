"""A zone is drained in parallel, and a second one is not; nobody else's budget is in the way."""

import pytest

from tests.operator.draining.draining_world import A_IS_OPEN, AT_REST, DrainingWorld, built
from tests.operator.resources import NAME, SPACE
from zonekeeper.operator.kubernetes.api import BUDGETS, NODES, PODS, STATEFUL_SETS, Json
from zonekeeper.operator.plan import preflight, preflight_text
from zonekeeper.operator.sight import node_sight


def budget_of_others(selector: Json | None, name: str = "theirs") -> Json:
    return {
        "metadata": {"name": name, "namespace": SPACE},
        "spec": {"maxUnavailable": 1, "selector": selector},
    }


async def drainable(world: DrainingWorld) -> tuple[str, str]:
    """Give status and reason of the condition ``Drainable``."""
    return (await world.conditions())["Drainable"]


async def test_at_rest_one_budget_lets_one_bookie_of_all_be_evicted() -> None:
    world = await built()
    assert world.budgets() == AT_REST
    assert await drainable(world) == ("True", "AtRest")
    assert world.writes == ["apply"], "one budget was made, and none written again"

    world.cordoned.add("a")
    assert await world.drain("a") == [True, False, False]
    assert await world.drain("b") == [False, False, False]


async def test_a_cordoned_zone_is_drained_in_parallel_and_a_second_is_refused() -> None:
    world = await built()
    world.cordon("a")
    await world.settle()
    assert world.budgets() == A_IS_OPEN
    assert await drainable(world) == ("True", "ZoneOpen")
    assert "all bookies of zone a may be evicted" in await world.message("Drainable")

    world.cordon("b")
    assert await world.drain("a") == [True, True, True]
    assert await world.drain("b") == [False, False, False]
    await world.settle()
    assert world.budgets() == A_IS_OPEN
    assert await drainable(world) == ("False", "DrainWaits")
    assert "zone b: zone a is open" in await world.message("Drainable")
    assert await world.drain("b") == [False, False, False]


async def test_the_zone_closes_once_nothing_is_missing_and_the_next_one_opens() -> None:
    world = await built()
    world.cordon("a")
    await world.settle()
    assert await world.drain("a") == [True, True, True]
    world.cordon("c")
    world.cordon("a", is_cordoned=False)
    await world.settle()
    assert world.budgets() == A_IS_OPEN, "its bookies are away still"

    await world.uncordon("a")
    await world.settle()
    assert world.budgets() == ["log-a-closed", "log-b-closed"], "zone c is open now"
    await world.uncordon("c")
    await world.settle()
    assert world.budgets() == AT_REST
    assert await drainable(world) == ("True", "AtRest")


async def test_a_zone_opens_also_when_its_first_bookie_was_evicted_before_the_operator_looked() -> (
    None
):
    """The drain goes on within seconds: where a bookie has gone, nodes are read anew."""
    world = await built()
    await world.turn()
    world.cordon("a")
    world.now_ms -= node_sight.FRESH_MS - node_sight.SOON_MS
    assert await world.drain("a") == [True, False, False]
    await world.settle()
    assert world.budgets() == A_IS_OPEN
    assert [await world.evict(f"log-a-{number}") for number in (1, 2)] == [True, True]


async def test_a_node_that_is_gone_is_not_cordoned() -> None:
    """Its pods are about to go by themselves, and nobody drains it."""
    world = await built()
    world.kubernetes.mark_deleted(NODES, "", "node-a")
    world.now_ms += node_sight.FRESH_MS
    await world.settle()
    assert world.budgets() == AT_REST
    assert (await drainable(world))[0] == "True"


async def test_a_bookie_that_is_missing_in_another_zone_keeps_every_zone_closed() -> None:
    world = await built()
    world.cordoned.add("c")
    world.kubernetes.mark_deleted(PODS, SPACE, "log-c-1")
    await world.controllers()
    world.cordon("a")
    await world.settle()

    assert world.budgets() == AT_REST
    assert await drainable(world) == ("False", "DrainWaits")
    assert "zone a: bookieMissing: log-c-1" in await world.message("Drainable")
    assert await world.drain("a") == [False, False, False]


async def test_an_open_zone_closes_when_a_bookie_of_another_zone_fails() -> None:
    world = await built()
    world.cordon("a")
    await world.settle()
    assert await world.evict("log-a-0")
    world.cordoned.add("c")
    world.kubernetes.mark_deleted(PODS, SPACE, "log-c-1")
    await world.controllers()
    await world.settle()

    assert world.budgets() == AT_REST
    assert [await world.evict(f"log-a-{number}") for number in (1, 2)] == [False, False]
    assert "bookieMissing: log-c-1" in await world.message("Drainable")


async def test_an_open_zone_closes_while_the_metadata_store_is_away() -> None:
    world = await built()
    world.cordon("a")
    await world.settle()
    assert await world.evict("log-a-0")
    world.is_cut_off = True
    world.reconciler = world.new_operator()
    await world.turn()
    assert "zone a: the metadata store was not read" in await world.message("Drainable")
    await world.settle()
    assert world.budgets() == AT_REST
    assert await world.evict("log-a-1") is False
    assert "zone a: metadataUnreachable: " in await world.message("Drainable")


async def test_a_ledger_that_would_lose_its_last_copies_keeps_its_zone_closed() -> None:
    world = await built()
    await world.write_ledger("log-a-0", "log-a-1", "log-b-0")
    world.cordon("a")
    await world.settle()
    assert world.budgets() == AT_REST
    assert "zone a: ledgerAtRisk: 1 ledgers" in await world.message("Drainable")


@pytest.mark.parametrize("wrong", ["absent", "larger"])
async def test_a_closed_zone_whose_budget_is_lost_or_changed_is_safe_after_one_write(
    wrong: str,
) -> None:
    world = await built()
    world.cordon("a")
    await world.settle()
    if wrong == "absent":
        world.kubernetes.mark_deleted(BUDGETS, SPACE, "log-b-closed")
    else:
        found = world.kubernetes.peek(BUDGETS, SPACE, "log-b-closed")
        assert found is not None
        found["spec"]["maxUnavailable"] = 2
        world.kubernetes.put(BUDGETS, found)
    world.fate = lambda verb, kind: None
    await world.turn()
    assert "log-bookies" in world.budgets()
    world.check()
    await world.settle()
    assert world.budgets() == A_IS_OPEN
    world.check()


async def test_no_zone_is_opened_while_drains_are_paused_and_an_open_one_closes() -> None:
    world = await built()
    world.cordon("a")
    await world.settle()
    assert world.budgets() == A_IS_OPEN
    await world.change(drains={"paused": True})
    await world.settle()
    assert world.budgets() == AT_REST
    assert await drainable(world) == ("True", "OneByOne")
    assert "spec.drains.paused is true" in await world.message("Drainable")

    await world.change(drains={"paused": False})
    await world.settle()
    assert world.budgets() == A_IS_OPEN


async def test_a_paused_cluster_is_not_opened_and_its_plan_says_what_would_be_done() -> None:
    world = await built()
    await world.change(paused=True)
    world.cordon("a")
    await world.settle()
    assert world.budgets() == AT_REST

    seen, wanted = await world.look()
    found = preflight.of(wanted, seen, None)
    told = "\n".join(preflight_text.lines(found))
    assert "drains: nodes are cordoned in these zones: a; one after another" in told
    assert "spec.paused is true: nothing of it is done" in told
    assert preflight_text.plain(found)["drainedZones"] == ["a"]

    await world.change(paused=False)
    await world.settle()
    assert world.budgets() == A_IS_OPEN


async def test_the_roll_does_not_touch_a_closed_zone() -> None:
    world = await built()
    world.cordon("b")
    await world.settle()
    assert world.budgets() == ["log-a-closed", "log-c-closed"]
    before = [one["metadata"]["uid"] for one in await world.kubernetes.list(PODS, SPACE)]

    await world.change(image="zonekeeper:0.2.0")
    await world.settle()
    pods = [one["metadata"]["uid"] for one in await world.kubernetes.list(PODS, SPACE)]
    assert [one for one in before if one not in pods] == []
    assert "zone a is closed while another one is open to a drain" in await world.message("Rolling")

    await world.uncordon("b")
    await world.settle()
    assert world.budgets() == AT_REST
    assert (await world.conditions())["UpToDate"] == ("True", "UpToDate")


async def test_no_zone_is_opened_in_the_midst_of_a_step_of_the_roll() -> None:
    world = await built()
    await world.change(image="zonekeeper:0.2.0")
    for _ in range(20):
        if (await world.get())["status"].get("roll", {}).get("step"):
            break
        await world.turn()
        await world.controllers()
    world.cordon("c")
    await world.turn()
    assert world.budgets() == AT_REST
    assert "zone c: a step of the roll is under way" in await world.message("Drainable")


@pytest.mark.parametrize(
    "selector",
    [
        {},
        {"matchLabels": {"zonekeeper.io/zone": "a"}},
        {"matchExpressions": [{"key": "zonekeeper.io/zone", "operator": "Exists"}]},
        {"matchExpressions": [{"key": "zonekeeper.io/zone", "operator": "In", "values": ["c"]}]},
        {"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]},
        {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["shop"]}]},
    ],
    ids=str,
)
async def test_a_budget_of_somebody_else_over_bookies_is_told(selector: Json) -> None:
    world = await built()
    world.kubernetes.put(BUDGETS, budget_of_others(selector))
    await world.settle()
    assert await drainable(world) == ("False", "ForeignBudget")
    assert "choose bookies: theirs; Kubernetes evicts no pod" in await world.message("Drainable")
    assert world.budgets() == ["log-bookies", "theirs"], "it is not ours to remove"

    world.kubernetes.mark_deleted(BUDGETS, SPACE, "theirs")
    await world.settle()
    assert await drainable(world) == ("True", "AtRest")


@pytest.mark.parametrize(
    "selector",
    [
        None,
        {"matchLabels": {"app": "shop"}},
        {"matchLabels": {"zonekeeper.io/repairs": NAME}},
        {"matchExpressions": [{"key": "zonekeeper.io/zone", "operator": "DoesNotExist"}]},
    ],
    ids=str,
)
async def test_a_budget_over_other_pods_is_no_trouble(selector: Json | None) -> None:
    world = await built()
    world.kubernetes.put(BUDGETS, budget_of_others(selector))
    await world.settle()
    assert await drainable(world) == ("True", "AtRest")


async def test_a_bookie_that_is_not_ready_may_be_evicted_at_rest_and_not_in_a_closed_zone() -> None:
    world = await built()
    found = world.kubernetes.peek(BUDGETS, SPACE, "log-bookies")
    assert found is not None
    assert found["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow"
    world.cordon("a")
    await world.settle()
    found = world.kubernetes.peek(BUDGETS, SPACE, "log-b-closed")
    assert found is not None
    assert found["spec"]["maxUnavailable"] == 0
    assert found["spec"]["unhealthyPodEvictionPolicy"] == "IfHealthyBudget"


async def test_budgets_go_with_a_deleted_resource_also_while_a_zone_is_open() -> None:
    world = await built(onDelete="Delete")
    world.cordon("a")
    await world.settle()
    world.cordoned.clear()
    world.delete()
    world.fate = lambda verb, kind: None
    await world.settle()
    assert world.budgets() == []
    assert await world.kubernetes.list(STATEFUL_SETS, SPACE) == []


async def test_a_cordoned_node_of_a_cluster_of_one_zone_opens_nothing() -> None:
    policy = {
        "quorums": {"ensemble": 3, "write": 3, "ack": 2, "ackZones": 1},
        "placement": {"minZones": 0, "desiredZones": 1},
    }
    world = await built(zones=[{"name": "a"}], policy=policy)
    world.cordon("a")
    await world.settle()
    assert world.budgets() == AT_REST
