"""A volume whose node is gone for long is lost: it is healed as the resource says, not before."""

import pytest

from tests.operator import resources
from tests.operator.resources import SPACE
from tests.operator.roll.rolling_world import cluster_of
from tests.operator.scaling import removing_world
from tests.operator.volumes import test_replacing
from tests.operator.volumes.absence_world import LOST, PENDING, AbsenceWorld, on_host
from tests.operator.volumes.test_growth import refusing
from tests.operator.volumes.test_lost_volumes import CookieWatch
from zonekeeper.operator.kubernetes.api import (
    BOOKIE_CLUSTERS,
    CLAIMS,
    NODES,
    PERSISTENT_VOLUMES,
    PODS,
    REFILLS_LABEL,
    Json,
    NotPermittedError,
    ObjectKind,
)
from zonekeeper.operator.sight import lost_nodes
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.placement.base.units import HOUR_MS, MINUTE_MS
from zonekeeper.placement.zones.bookie_orders import OrderKind

REFILL: Json = {"lostVolume": "Refill", "after": "10m"}
RECOVER: Json = {"lostVolume": "Recover", "after": "10m"}
OTHER = "log-a-1"
#: More minutes than ``after``, with those that find nothing to count.
LONG = 13


async def built(heal: Json, **spec: object) -> AbsenceWorld:
    world = AbsenceWorld(heal=heal, **spec)
    await world.settle()
    for names in (("log-a-0", LOST, "log-c-0"), (LOST, OTHER, "log-c-1")):
        await world.write_ledger(*names)
    return world


async def until_given_up(world: AbsenceWorld) -> None:
    """Let turns come until the claim has gone; no controller makes another one."""
    for _ in range(LONG):
        world.now_ms += MINUTE_MS
        await world.turn()
        if await world.claim_uid(LOST) is None:
            return
        await world.evaluate()
    raise AssertionError(await world.message("VolumesReady"))


async def is_well(world: AbsenceWorld) -> None:
    assert resources.statuses(await world.conditions()) == {"True"}
    assert await world.noted() == []
    assert await world.orders() == {}
    before = await world.picture()
    await world.turn()
    assert await world.picture() == before, "at rest no write"


@pytest.mark.parametrize("heal", [REFILL, RECOVER], ids=["refill", "recover"])
async def test_after_its_time_the_bookie_is_healed_on_another_volume(heal: Json) -> None:
    world = await built(heal)
    first, claim = await world.incarnation(LOST), await world.claim_uid(LOST)
    watch = CookieWatch(world)
    await world.lose_node(LOST)
    await world.pass_minutes(9)
    assert await world.claim_uid(LOST) == claim
    assert await world.orders() == {}
    assert (await world.conditions())["VolumesReady"][0] == "True"

    await world.pass_minutes(LONG - 9)
    await world.settle(after_turn=watch.look)

    assert await world.claim_uid(LOST) not in (None, claim)
    assert (await world.incarnation(LOST) == first) is (heal is REFILL)
    await is_well(world)


async def test_under_recover_the_claim_goes_only_once_the_bookie_is_forgotten() -> None:
    world = await built(RECOVER)
    claim = await world.claim_uid(LOST)
    world.held_by = "a test"
    await world.lose_node(LOST)
    await world.pass_minutes(LONG)
    assert (await world.orders())[LOST].kind is OrderKind.RECOVER
    assert await world.claim_uid(LOST) == claim
    told = await world.message("VolumesReady")
    assert f"{LOST}: its volume is on the node {world.host(LOST)}, which is gone" in told

    await world.come_back(LOST)
    world.held_by = ""
    await world.settle()
    assert await world.claim_uid(LOST) == claim, "nothing was lost"
    await is_well(world)


async def test_a_node_that_comes_back_in_time_changes_nothing_and_the_time_begins_anew() -> None:
    world = await built(REFILL)
    claim = await world.claim_uid(LOST)
    await world.lose_node(LOST)
    await world.pass_minutes(8)
    world.have_node(LOST)
    await world.pass_minutes(1)
    assert await world.noted() == []

    world.kubernetes.mark_deleted(NODES, "", f"node-of-{world.host(LOST)}")
    await world.pass_minutes(8)
    assert await world.claim_uid(LOST) == claim
    await world.come_back(LOST)
    await world.settle()
    assert await world.claim_uid(LOST) == claim
    await is_well(world)


async def test_a_node_that_comes_back_after_the_claim_has_gone_does_not_bring_the_disk_back() -> (
    None
):
    world = await built(REFILL)
    first, claim = await world.incarnation(LOST), await world.claim_uid(LOST)
    await world.lose_node(LOST)
    await until_given_up(world)
    world.have_node(LOST)
    await world.settle()
    assert await world.claim_uid(LOST) not in (None, claim)
    assert await world.incarnation(LOST) == first
    assert LOST in await world.named(), "it got its copies back in limbo"
    await is_well(world)


@pytest.mark.parametrize(
    "affinity",
    [
        {
            "required": {
                "nodeSelectorTerms": [
                    {
                        "matchExpressions": [
                            {
                                "key": "topology.kubernetes.io/zone",
                                "operator": "In",
                                "values": ["b"],
                            }
                        ]
                    }
                ]
            }
        },
        {
            "required": {
                "nodeSelectorTerms": [
                    *on_host("gone")["required"]["nodeSelectorTerms"],
                    {"matchExpressions": [{"key": "rack", "operator": "Exists"}]},
                ]
            }
        },
        {"required": {}},
    ],
    ids=["a zone", "a host or another rule", "nothing"],
)
async def test_a_volume_that_is_not_bound_to_hosts_alone_is_never_lost(affinity: Json) -> None:
    world = await built(REFILL)
    claim = await world.claim_uid(LOST)
    await world.lose_node(LOST, affinity=affinity)
    await world.pass_minutes(LONG)
    assert await world.claim_uid(LOST) == claim
    assert await world.noted() == []


def test_a_volume_of_several_hosts_is_on_all_of_them() -> None:
    terms = [
        *on_host("b")["required"]["nodeSelectorTerms"],
        *on_host("a")["required"]["nodeSelectorTerms"],
    ]
    volume = {"spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}}
    assert lost_nodes.hosts(volume) == ("a", "b")
    assert lost_nodes.hosts({"spec": {}}) == lost_nodes.hosts(None) == ()


async def test_by_default_nothing_is_done_and_the_ways_out_are_told() -> None:
    world = await built({"after": "10m"})
    claim = await world.claim_uid(LOST)
    await world.lose_node(LOST)
    await world.pass_minutes(LONG)
    assert await world.claim_uid(LOST) == claim
    assert (await world.conditions())["VolumesReady"] == ("False", "VolumeLost")
    assert "spec.heal.lostVolume: Recover" in await world.message("VolumesReady")


@pytest.mark.parametrize("heal", [REFILL, RECOVER], ids=["refill", "recover"])
async def test_nothing_is_done_in_a_zone_that_is_held(heal: Json) -> None:
    world = await built(heal)
    claim = await world.claim_uid(LOST)
    await world.hold("b")
    await world.lose_node(LOST)
    await world.pass_minutes(LONG)
    assert await world.claim_uid(LOST) == claim
    assert await world.orders() == {}
    assert "nothing is done about it now: zone b" in await world.message("VolumesReady")

    await world.release("b")
    await world.settle()
    assert await world.claim_uid(LOST) != claim
    await is_well(world)


async def test_nothing_is_done_in_a_zone_that_is_down() -> None:
    world = await built(REFILL)
    names = ("log-b-0", LOST, "log-b-2")
    claims = [await world.claim_uid(name) for name in names]
    for name in names:
        await world.lose_node(name)
    await world.pass_minutes(2 * LONG)
    assert [await world.claim_uid(name) for name in names] == claims
    assert await world.orders() == {}


async def test_only_so_many_bookies_are_healed_at_a_time_also_in_between() -> None:
    """From the deletion of its claim on a bookie counts, also before its pod says anything."""
    world = await built(REFILL)
    for name in (OTHER, LOST):
        await world.lose_node(name)
    claims = {name: await world.claim_uid(name) for name in (OTHER, LOST)}
    world.slow |= {OTHER, LOST}

    async def look() -> None:
        changed = [name for name in claims if await world.claim_uid(name) != claims[name]]
        assert len(changed) <= 1

    for _ in range(LONG):
        world.now_ms += MINUTE_MS
        for _ in range(2):  # no pod has come in between
            await world.turn()
            await look()
        await world.controllers()
    await world.settle(after_turn=look)
    assert [one["bookie"] for one in await world.noted() if one.get("givenUp")] == [OTHER]

    world.start(OTHER)
    world.slow.clear()
    await world.settle()
    await is_well(world)


async def test_a_way_that_is_changed_after_the_claim_has_gone_still_heals_the_bookie() -> None:
    world = await built(REFILL)
    await world.lose_node(LOST)
    await until_given_up(world)
    await world.change(heal=RECOVER)
    await world.settle()
    assert LOST not in await world.named()
    await is_well(world)


async def test_a_zone_that_is_held_after_the_claim_has_gone_waits_with_the_rest() -> None:
    world = await built(REFILL)
    await world.lose_node(LOST)
    await until_given_up(world)
    await world.hold("b")
    await world.settle()
    pods = await world.kubernetes.list(PODS, SPACE, labels=f"{REFILLS_LABEL}=log")
    assert pods == []
    assert "nothing is done about it now: zone b" in await world.message("VolumesReady")

    await world.release("b")
    await world.settle()
    await is_well(world)


async def test_a_bookie_without_a_cookie_waits_for_the_end_of_the_order_about_it() -> None:
    world = await built(RECOVER)
    claim = await world.claim_uid(LOST)
    world.is_repaired = False
    await removing_world.give(world, LOST, by="ann")
    await world.lose_node(LOST)
    await world.forget(LOST)
    await world.pass_minutes(LONG)
    assert await world.claim_uid(LOST) == claim


async def test_a_bookie_that_gets_another_volume_whose_node_goes_gets_one_more() -> None:
    world = await built({"after": "10m"})
    first = second = await world.claim_uid(LOST)
    test_replacing.name(world, LOST)
    for _ in range(60):
        await world.turn()
        await world.controllers()
        second = await world.claim_uid(LOST)
        if second not in (None, first):
            break
    assert second not in (None, first)
    await world.lose_node(LOST)
    await world.pass_minutes(LONG)
    await world.settle()
    assert await world.claim_uid(LOST) not in (None, first, second)
    assert (await test_replacing.noted(world))["phase"] == "Done"
    await is_well(world)


@pytest.mark.parametrize("jump_ms", [HOUR_MS, -HOUR_MS])
async def test_a_clock_that_jumps_makes_no_volume_lost(jump_ms: int) -> None:
    world = await built(REFILL)
    claim = await world.claim_uid(LOST)
    await world.lose_node(LOST)
    await world.pass_minutes(2)
    found = await world.get()
    found["status"]["lostNodes"][0]["atMs"] -= jump_ms
    world.kubernetes.put(BOOKIE_CLUSTERS, found)
    await world.pass_minutes(5)
    assert await world.claim_uid(LOST) == claim

    await world.pass_minutes(LONG)
    await world.settle()
    await is_well(world)


async def test_an_operator_that_comes_new_goes_on_counting_and_one_that_was_away_does_not() -> None:
    world = await built(REFILL)
    claim = await world.claim_uid(LOST)
    await world.lose_node(LOST)
    await world.pass_minutes(6)
    world.reconciler = world.new_operator()
    world.now_ms += HOUR_MS
    await world.pass_minutes(2)
    assert await world.claim_uid(LOST) == claim
    (noted,) = await world.noted()
    assert 6 * MINUTE_MS <= noted["awayMs"] <= 8 * MINUTE_MS


async def test_the_count_is_written_once_a_minute() -> None:
    world = await built(REFILL)
    await world.lose_node(LOST)
    await world.turn()
    await world.turn()
    before = await world.noted()
    for _ in range(20):
        await world.turn()
    assert await world.noted() == before


@pytest.mark.parametrize(("verb", "kind"), [("get", PERSISTENT_VOLUMES), ("list", NODES)])
async def test_without_the_rights_nothing_is_lost(verb: str, kind: ObjectKind) -> None:
    world = await built(REFILL)
    claim = await world.claim_uid(LOST)
    world.fate = refusing(verb, kind, NotPermittedError(403, "forbidden"))
    await world.lose_node(LOST)
    await world.pass_minutes(LONG)
    assert await world.claim_uid(LOST) == claim


async def test_at_rest_neither_volumes_nor_lists_of_nodes_are_read() -> None:
    world = await built(REFILL)

    def refuse(verb: str, kind: ObjectKind) -> None:
        assert kind is not PERSISTENT_VOLUMES
        assert (verb, kind) != ("list", NODES)

    world.fate = refuse
    await world.settle()
    await is_well(world)


async def test_a_bookie_that_is_registered_runs_somewhere_and_is_left_alone() -> None:
    world = await built(REFILL)
    world.sessions_linger = True
    claim = await world.claim_uid(LOST)
    await world.lose_node(LOST)
    await world.pass_minutes(LONG)
    assert await world.claim_uid(LOST) == claim
    assert await world.noted() == []


async def test_what_is_seen_at_the_last_moment_counts() -> None:
    """The count is full, and the hold ends: the bookie is registered, or has another claim."""
    for is_registered in (True, False):
        world = await built(REFILL)
        await world.hold("b")
        await world.lose_node(LOST)
        await world.pass_minutes(LONG)
        if is_registered:
            async with cluster_of(world) as cluster:
                await cluster.store.create(cluster.root.writable(BookieId(LOST)), b"")
        else:
            found = world.kubernetes.peek(CLAIMS, SPACE, f"data-{LOST}")
            assert found is not None
            found["metadata"]["uid"] = "another"
            world.kubernetes.put(CLAIMS, found)
        claim = await world.claim_uid(LOST)
        await world.release("b")
        await world.pass_minutes(5)
        assert await world.claim_uid(LOST) == claim


@pytest.mark.parametrize(
    "fields",
    [{"spec": {"nodeName": "x"}}, {"metadata": {"deletionTimestamp": resources.NOW}}],
    ids=["on a node", "leaving"],
)
async def test_a_pod_that_was_on_a_node_or_leaves_may_still_run(fields: Json) -> None:
    world = await built(REFILL)
    claim = await world.claim_uid(LOST)
    await world.lose_node(LOST)
    pod = world.kubernetes.peek(PODS, SPACE, LOST)
    assert pod is not None
    for name, values in fields.items():
        pod[name] |= values
    pod["metadata"]["finalizers"] = ["a/b"]
    world.kubernetes.put(PODS, pod | {"status": PENDING})
    await world.pass_minutes(LONG)
    assert await world.claim_uid(LOST) == claim


async def test_a_claim_of_another_cluster_is_not_touched() -> None:
    world = await built(REFILL)
    await world.lose_node(LOST)
    found = world.kubernetes.peek(CLAIMS, SPACE, f"data-{LOST}")
    assert found is not None
    found["metadata"]["labels"]["zonekeeper.io/instance"] = "another"
    world.kubernetes.put(CLAIMS, found)
    await world.pass_minutes(LONG)
    assert await world.claim_uid(LOST) == found["metadata"]["uid"]


@pytest.mark.parametrize("spec", [{"paused": True}, {}], ids=["paused", "cut off"])
async def test_nothing_is_done_while_the_operator_is_paused_or_cut_off(spec: Json) -> None:
    world = await built(REFILL)
    claim = await world.claim_uid(LOST)
    await world.lose_node(LOST)
    await world.pass_minutes(5)
    noted = await world.noted()
    await world.change(**spec)
    if not spec:
        world.is_cut_off = True
        world.reconciler = world.new_operator()
    await world.pass_minutes(LONG)
    assert await world.claim_uid(LOST) == claim
    assert await world.noted() == noted


async def test_a_bookie_with_a_journal_volume_is_only_told_of() -> None:
    world = await built(REFILL, storage={"size": "1Gi", "journal": {"size": "512Mi"}})
    claim = await world.claim_uid(LOST)
    await world.lose_node(LOST)
    await world.pass_minutes(LONG)
    assert await world.claim_uid(LOST) == claim
    assert "it has a journal volume, too" in await world.message("VolumesReady")


async def test_notes_that_cannot_be_read_let_the_time_begin_anew() -> None:
    world = await built(REFILL)
    claim = await world.claim_uid(LOST)
    await world.lose_node(LOST)
    await world.pass_minutes(9)
    found = await world.get()
    found["status"]["lostNodes"] = [{"bookie": LOST, "claim": claim, "awayMs": None, "atMs": 1}]
    world.kubernetes.put(BOOKIE_CLUSTERS, found)
    await world.pass_minutes(8)
    assert await world.claim_uid(LOST) == claim
