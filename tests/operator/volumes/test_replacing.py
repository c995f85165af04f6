"""A bookie that a person names is emptied, and gets another volume; nothing else is touched."""

import pytest

from tests.operator import resources
from tests.operator.resources import NAME, SPACE
from tests.operator.roll import rolling_world
from tests.operator.scaling import removing_world
from tests.operator.volumes.losing_world import LosingWorld
from zonekeeper.operator.kubernetes.api import (
    BOOKIE_CLUSTERS,
    CLAIMS,
    INSTANCE_LABEL,
    PODS,
    REPLACE,
    Json,
)
from zonekeeper.operator.lead.leading import Unrivalled
from zonekeeper.operator.plan.plans import Action, ConfirmEmptied
from zonekeeper.operator.plan.volumes import replacing
from zonekeeper.operator.roots.roots import RootChangedError, Roots
from zonekeeper.operator.run.acting import Actor
from zonekeeper.operator.sight.holdings import ASKED_EVERY_MS
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.placement.zones.bookie_orders import OrderKind

ONE, OTHER = "log-b-1", "log-a-0"
#: It takes fewer turns.
TURNS_MAX = 60


async def built(world: LosingWorld | None = None) -> LosingWorld:
    found = LosingWorld() if world is None else world
    await found.settle()
    for names in (("log-a-0", ONE, "log-c-0"), (ONE, "log-a-1", "log-c-1")):
        await found.write_ledger(*names)
    return found


def name(world: LosingWorld, bookie: str | None) -> None:
    """Annotate the resource as a person does; None: take the annotation off."""
    found = world.kubernetes.peek(BOOKIE_CLUSTERS, SPACE, NAME)
    assert found is not None
    annotations = found["metadata"].setdefault("annotations", {})
    annotations.pop(REPLACE, None)
    if bookie is not None:
        annotations[REPLACE] = bookie
    world.kubernetes.put(BOOKIE_CLUSTERS, found)


class ReplaceWatch:
    """After each turn: which claims are others, and that no ledger named their bookies."""

    def __init__(self, world: LosingWorld) -> None:
        self._world = world
        self._cookies: dict[str, int | None] = {}
        self._claims: dict[str, str] = {}
        self.gone: list[str] = []

    async def look(self) -> None:
        world, named = self._world, await self._world.named()
        claims = {
            bookie: str(item["metadata"]["uid"]) for bookie, item in (await world.claims()).items()
        }
        for bookie, uid in self._claims.items():
            if claims.get(bookie) != uid:
                assert bookie not in named, f"the volume of {bookie} went too early"
                self.gone.append(bookie)
        for bookie in await world.cookies():
            now = await world.incarnation(bookie)
            assert self._cookies.setdefault(bookie, now) == now, f"{bookie} has another cookie"
        self._claims = claims
        orders = await world.orders()
        assert len(orders) <= 1
        assert {one.kind for one in orders.values()} <= {OrderKind.DRAIN}


async def is_well(world: LosingWorld) -> None:
    assert resources.statuses(await world.conditions()) == {"True"}
    assert await world.orders() == {}
    assert world.refusing == set()
    pods = [one["metadata"]["name"] for one in await world.kubernetes.list(PODS, SPACE)]
    assert not [pod for pod in pods if pod.endswith("-refill")]
    before = await world.picture()
    await world.turn()
    assert await world.picture() == before, "at rest no write"


async def noted(world: LosingWorld) -> Json:
    found: Json = (await world.get())["status"].get("replacing", {})
    return found


async def until_ordered(world: LosingWorld, watch: ReplaceWatch) -> None:
    for _ in range(TURNS_MAX):
        await world.turn()
        await watch.look()
        if await world.orders():
            return
        await world.controllers()
    raise AssertionError(await world.message("VolumesReady"))


async def test_the_bookie_is_emptied_and_serves_on_another_volume_under_its_cookie() -> None:
    world = await built()
    pods, claims = await rolling_world.uids(world), await world.claims()
    watch = ReplaceWatch(world)
    await watch.look()

    name(world, ONE)
    await world.settle(after_turn=watch.look)

    assert watch.gone == [ONE]
    assert await noted(world) | {"claim": "", "pod": ""} == {
        "bookie": ONE,
        "phase": "Done",
        "claim": "",
        "pod": "",
    }
    await is_well(world)
    now = await rolling_world.uids(world)
    assert {one for one in pods if pods[one] != now[one]} == {ONE}
    assert (await world.claims()).keys() == claims.keys()

    await world.settle(after_turn=watch.look)
    assert watch.gone == [ONE], "it is done once"
    name(world, None)
    await world.settle(after_turn=watch.look)
    assert await noted(world) == {}
    name(world, ONE)
    await world.settle(after_turn=watch.look)
    assert watch.gone == [ONE, ONE], "and once more when it is asked for once more"
    await is_well(world)


@pytest.mark.parametrize("turns", range(1, 12))
async def test_taken_back_before_anything_is_deleted_it_serves_on_as_before(turns: int) -> None:
    world = await built()
    claims = {one: item["metadata"]["uid"] for one, item in (await world.claims()).items()}
    watch = ReplaceWatch(world)
    name(world, ONE)
    for _ in range(turns):
        await world.turn()
        await watch.look()
        await world.controllers()
    was_deleted = watch.gone != []
    name(world, None)
    await world.settle(after_turn=watch.look)

    assert watch.gone == ([ONE] if was_deleted else [])
    now = {one: item["metadata"]["uid"] for one, item in (await world.claims()).items()}
    assert {one for one in claims if claims[one] != now[one]} == ({ONE} if was_deleted else set())
    assert await noted(world) == {}
    await is_well(world)


async def test_another_bookie_that_is_named_meanwhile_waits_for_the_first_to_be_back() -> None:
    world = await built()
    watch = ReplaceWatch(world)
    name(world, ONE)
    await until_ordered(world, watch)
    name(world, OTHER)
    await world.settle(after_turn=watch.look)

    assert watch.gone == [OTHER]
    await is_well(world)


@pytest.mark.parametrize("asked", [f"{ONE} {OTHER}", f"{ONE},{OTHER}", "log-b-7", "cat-b-1", "x"])
async def test_what_is_not_one_bookie_of_the_cluster_is_refused_in_words(asked: str) -> None:
    world = await built()
    watch = ReplaceWatch(world)
    name(world, asked)
    await world.settle(after_turn=watch.look)

    assert (await world.conditions())["VolumesReady"] == ("False", "ReplaceWaits")
    assert "must name one bookie of this cluster" in await world.message("VolumesReady")
    assert watch.gone == []
    assert await world.orders() == {}


async def test_in_a_held_zone_and_while_anything_else_is_away_it_waits() -> None:
    world = await built()
    watch = ReplaceWatch(world)
    await world.hold("b")
    name(world, ONE)
    await world.settle(after_turn=watch.look)
    assert (await world.conditions())["VolumesReady"] == ("False", "ReplaceWaits")
    assert "zoneHeld" in await world.message("VolumesReady")
    assert await world.orders() == {}

    await world.release("b")
    await world.settle(after_turn=watch.look)
    assert watch.gone == [ONE]
    await is_well(world)


async def test_an_order_of_a_person_is_left_alone() -> None:
    world = await built()
    await removing_world.give(world, ONE, by="ann", kind=OrderKind.DRAIN)
    name(world, ONE)
    await world.settle()
    assert "an order about it stands already" in await world.message("VolumesReady")
    (order,) = (await world.orders()).values()
    assert order.given.by == "ann"


async def test_how_far_it_is_is_told() -> None:
    world = await built()
    world.held_by = "zone b is held"
    name(world, ONE)
    await world.settle()
    assert (await world.conditions())["VolumesReady"] == ("False", "Replacing")
    told = await world.message("VolumesReady")
    assert f"{ONE} gets another volume: it is emptied" in told
    assert "waiting for the gate" in told
    assert "zone b is held" in told


async def test_an_order_that_a_person_takes_back_at_the_last_moment_keeps_the_claim() -> None:
    """The operator has seen it emptied, and reads it once more before it deletes."""
    world = await built()
    watch = ReplaceWatch(world)
    name(world, ONE)
    await until_ordered(world, watch)
    acts: tuple[Action, ...] = ()
    for _ in range(TURNS_MAX):
        await world.controllers()
        if (acts := (await world.plan()).actions) and isinstance(acts[0], ConfirmEmptied):
            break
    assert [type(one).__name__ for one in acts] == ["ConfirmEmptied", *["RemoveObject"] * 2]
    claims, pods = await world.claims(), await rolling_world.uids(world)

    await removing_world.take_back(world, ONE, by="ann")
    roots = Roots(world.open_for_operator)
    actor = Actor(world.kubernetes, roots, Unrivalled())
    failures = await actor.perform(acts, await world.get(), await world.address())
    await roots.close()

    assert "its order is another one, or says otherwise now" in failures[0]
    assert await world.claims() == claims
    assert await rolling_world.uids(world) == pods
    await world.settle(after_turn=watch.look)
    assert watch.gone == [ONE], "as long as it is asked for, it is ordered again"


async def test_no_order_of_another_name_is_followed() -> None:
    world = await built()
    seen, _ = await world.look()
    assert replacing.giver(seen).endswith("/replace")
    await removing_world.give(world, OTHER, by=f"{replacing.giver(seen)}r", kind=OrderKind.DRAIN)
    await world.settle()
    assert list(await world.orders()) == [OTHER]


class ProtectingWorld(LosingWorld):
    """A claim that is deleted stays until no pod runs on it, as Kubernetes keeps it."""

    async def controllers(self) -> None:
        await super().controllers()
        for item in (await self.claims()).values():
            if not item["metadata"].get("finalizers"):
                item["metadata"]["finalizers"] = ["kubernetes.io/pvc-protection"]
                self.kubernetes.put(CLAIMS, item)

    async def turn(self) -> int | None:
        wait_ms = await super().turn()
        pods = await rolling_world.uids(self)
        for bookie, item in (await self.claims()).items():
            if bookie not in pods and item["metadata"].get("deletionTimestamp"):
                item["metadata"]["finalizers"] = []
                self.kubernetes.put(CLAIMS, item)
                self.kubernetes.mark_deleted(CLAIMS, SPACE, f"data-{bookie}")
        return wait_ms


async def delete_claim(world: LosingWorld) -> None:
    """Let an operator end just after it has deleted the claim."""
    acts: tuple[Action, ...] = ()
    for _ in range(TURNS_MAX):
        await world.controllers()
        if (acts := (await world.plan()).actions) and isinstance(acts[0], ConfirmEmptied):
            break
    roots = Roots(world.open_for_operator)
    actor = Actor(world.kubernetes, roots, Unrivalled())
    assert await actor.perform(acts[:2], await world.get(), await world.address()) == ()
    await roots.close()
    world.reconciler = world.new_operator()


async def test_a_pod_that_runs_without_its_claim_goes_after_all() -> None:
    world = await built()
    watch = ReplaceWatch(world)
    name(world, ONE)
    await until_ordered(world, watch)
    before = await rolling_world.uids(world)
    await delete_claim(world)
    await world.settle()
    await world.settle()
    now = await rolling_world.uids(world)
    assert {one for one in before if before[one] != now[one]} == {ONE}
    assert (await noted(world))["phase"] == "Done"
    await is_well(world)


async def test_a_ledger_that_names_the_bookie_after_all_keeps_its_volume() -> None:
    world = await built()
    watch = ReplaceWatch(world)
    name(world, ONE)
    await until_ordered(world, watch)
    for _ in range(TURNS_MAX):
        await world.controllers()
        if (await world.orders())[ONE].emptied_ms is not None:
            break
    ledger = await world.write_ledger(ONE, OTHER, "log-c-0")
    await world.settle(after_turn=watch.look)
    assert watch.gone == []
    assert "the ledgers are listed once more" in await world.message("VolumesReady")

    await world.delete_ledger(ledger)
    world.now_ms += ASKED_EVERY_MS
    await world.settle(after_turn=watch.look)
    assert watch.gone == [ONE]
    await is_well(world)


@pytest.mark.parametrize("is_remade", [False, True])
async def test_a_claim_that_kubernetes_keeps_for_its_pod_goes_with_the_pod(is_remade: bool) -> None:
    """Also where the operator ends between the two, and the pod was made anew before."""
    world = await built(ProtectingWorld())
    watch = ReplaceWatch(world)
    name(world, ONE)
    await until_ordered(world, watch)
    if is_remade:
        await delete_claim(world)
        pod = world.kubernetes.peek(PODS, SPACE, ONE)
        assert pod is not None
        world.kubernetes.mark_deleted(PODS, SPACE, ONE)
        meta = pod["metadata"] | {"uid": "another"}
        world.kubernetes.put(PODS, pod | {"metadata": meta})
        await world.settle(after_turn=watch.look)
    await world.settle(after_turn=watch.look)
    assert watch.gone == [ONE]
    assert (await noted(world))["phase"] == "Done"
    await is_well(world)


async def test_the_roll_goes_first_and_then_the_bookie_is_replaced() -> None:
    world = await built()
    watch, said = ReplaceWatch(world), set[str]()

    async def look() -> None:
        await watch.look()
        if await world.orders():
            assert set((await rolling_world.images(world)).values()) == {rolling_world.NEW}
        said.add(await world.message("VolumesReady"))

    await world.change(image=rolling_world.NEW)
    name(world, ONE)
    await world.settle(after_turn=look)
    assert watch.gone == [ONE]
    assert any("the roll goes first" in one for one in said)


async def test_bookies_that_are_removed_go_first() -> None:
    world = await built()
    await world.write_ledger("log-a-2", "log-b-2", "log-c-2")
    world.is_repaired = False
    await world.change(bookiesPerZone=2)
    await world.settle()
    assert [one.kind for one in (await world.orders()).values()] == [OrderKind.REMOVE]
    name(world, ONE)
    await world.settle()
    assert "bookies are being removed" in await world.message("VolumesReady")
    assert len(await world.orders()) == 1


async def test_a_claim_that_is_not_known_as_this_clusters_is_not_touched() -> None:
    world = await built()
    claim = (await world.claims())[ONE]
    claim["metadata"]["labels"][INSTANCE_LABEL] = "another"
    world.kubernetes.put(CLAIMS, claim)
    name(world, ONE)
    await world.settle()
    assert "the claim is not of this cluster" in await world.message("VolumesReady")
    assert await world.orders() == {}


async def test_the_order_is_confirmed_by_its_token() -> None:
    world = await built()
    await removing_world.give(world, ONE, by="ann", kind=OrderKind.DRAIN)
    await world.settle()
    (order,) = (await world.orders()).values()
    assert order.emptied_ms is not None
    roots, instance = Roots(world.open_for_operator), (await world.get())["status"]["instance"]
    address = await world.address()
    await roots.confirm_emptied(address, BookieId(ONE), order.token, instance=instance)
    with pytest.raises(RootChangedError):
        await roots.confirm_emptied(address, BookieId(ONE), "other", instance=instance)
    with pytest.raises(RootChangedError):
        await roots.confirm_emptied(address, BookieId(OTHER), order.token, instance=instance)
    await roots.close()


async def test_no_pod_goes_before_its_bookie_is_emptied_whoever_deletes_its_claim() -> None:
    world = await built(ProtectingWorld())
    world.held_by = "a test"
    name(world, ONE)
    await world.settle()
    pods = await rolling_world.uids(world)
    world.kubernetes.mark_deleted(CLAIMS, SPACE, f"data-{ONE}")
    await world.settle()
    assert await rolling_world.uids(world) == pods
    assert "by somebody else" in await world.message("VolumesReady")

    world.held_by = ""
    await world.settle()
    assert (await noted(world))["phase"] == "Done"
    await is_well(world)


async def test_a_bookie_that_the_resource_gives_up_meanwhile_is_removed_instead() -> None:
    world = await built()
    await world.write_ledger("log-a-2", "log-b-2", "log-c-2")
    world.held_by = "a test"
    name(world, "log-b-2")
    await world.settle()
    assert {one.kind for one in (await world.orders()).values()} == {OrderKind.DRAIN}
    await world.change(bookiesPerZone=2)
    await world.settle()
    world.held_by = ""
    await world.settle()
    assert await world.orders() == {}
    assert "log-b-2" not in await world.cookies()
    assert (await world.replicas())["b"] == 2


async def test_a_new_disk_that_is_not_empty_is_told_and_nothing_is_done_again_and_again() -> None:
    world = await built()
    world.stained.add(ONE)
    name(world, ONE)
    await world.settle()
    pod = world.kubernetes.peek(PODS, SPACE, f"{ONE}-refill")
    assert pod is not None
    assert f"{ONE} gets another volume: it starts" in await world.message("VolumesReady")
    assert (await world.plan()).actions == ()
    await world.turn()
    again = world.kubernetes.peek(PODS, SPACE, f"{ONE}-refill")
    assert again is not None
    assert again["metadata"]["uid"] == pod["metadata"]["uid"]
