"""A bookie whose volume is lost is named, and recovered where the resource chooses that."""

import pytest

from tests.operator import resources
from tests.operator.resources import SPACE
from tests.operator.scaling import removing_world
from tests.operator.volumes.losing_world import LosingWorld
from zonekeeper.operator.kubernetes.api import CLAIMS, PODS, REFILLS_LABEL, Json
from zonekeeper.placement.zones.bookie_orders import OrderKind
from zonekeeper.wire.running import seam

RECOVER: Json = {"lostVolume": "Recover"}
LOST = "log-b-1"
#: Turns of an operator.
LIFE = 5


async def built(**spec: object) -> LosingWorld:
    world = LosingWorld(**spec)
    await world.settle()
    for names in (("log-a-0", LOST, "log-c-0"), (LOST, "log-a-1", "log-c-1")):
        await world.write_ledger(*names)
    return world


async def test_by_default_the_condition_names_the_bookie_and_the_ways_out() -> None:
    world = await built()
    incarnation = await world.incarnation(LOST)

    await world.lose(LOST)
    await world.settle()

    assert (await world.conditions())["VolumesReady"] == ("False", "VolumeLost")
    assert (await world.conditions())["Ready"] == ("False", "VolumeLost")
    told = await world.message("VolumesReady")
    assert told.startswith(f"{LOST}: its disk is empty, and the metadata store knows it")
    assert "spec.heal.lostVolume: Recover" in told
    assert "spec.heal.lostVolume: Refill" in told
    assert "zone b: 2 of 3" in await world.message("Ready")
    assert await world.orders() == {}
    assert await world.incarnation(LOST) == incarnation, "no cookie goes to make a bookie start"


class CookieWatch:
    """At every turn: a cookie that is gone, or is another, was of a bookie that no ledger names."""

    def __init__(self, world: LosingWorld) -> None:
        self._world = world
        self._before: dict[str, int | None] = {}
        self.kinds: list[OrderKind] = []

    async def look(self) -> None:
        world = self._world
        for name in sorted(await world.cookies() | self._before.keys()):
            now = await world.incarnation(name)
            if name in self._before and self._before[name] != now:
                assert name not in await world.named(), f"{name} lost its cookie too early"
            self._before[name] = now
        for order in (await world.orders()).values():
            if self.kinds[-1:] != [order.kind]:
                self.kinds.append(order.kind)


@pytest.mark.parametrize("is_mortal", [False, True])
async def test_a_lost_volume_is_recovered_and_a_new_bookie_takes_the_place(
    is_mortal: bool,
) -> None:
    """Also where an operator that knows nothing of the one before comes again and again.

    One that lives for less than this has not seen the zone watch at work, and does nothing.
    """
    world = await built(heal=RECOVER)
    first, claim = await world.incarnation(LOST), (await world.claims())[LOST]
    watch, turns = CookieWatch(world), 0

    async def look() -> None:
        nonlocal turns
        await watch.look()
        turns += 1
        if is_mortal and turns % LIFE == 0:
            world.reconciler = world.new_operator()

    await world.lose(LOST)
    await world.settle(after_turn=look)

    assert watch.kinds == [OrderKind.RECOVER, OrderKind.REMOVE]
    assert await world.incarnation(LOST) not in (None, first)
    assert LOST not in await world.named()
    assert resources.statuses(await world.conditions()) == {"True"}
    assert await world.orders() == {}
    assert (await world.claims())[LOST]["metadata"]["uid"] != claim["metadata"]["uid"]
    before = world.server.last_change_id - world.evaluated
    await world.turn()
    assert world.server.last_change_id - world.evaluated == before, "at rest no write"


async def test_what_the_order_does_is_told() -> None:
    world = await built(heal=RECOVER)
    world.held_by = "zone b is held"
    await world.lose(LOST)
    await world.settle()

    told = await world.message("VolumesReady")
    assert "the order to recover it stands: waiting for the gate" in told
    assert "zone b is held" in told

    world.held_by = ""
    await world.settle()
    assert (await world.conditions())["VolumesReady"][0] == "True"


async def test_only_so_many_bookies_are_healed_at_a_time() -> None:
    world = await built(heal=RECOVER)
    world.held_by = "a test"
    await world.lose("log-a-1")
    await world.lose(LOST)
    await world.settle()
    assert list(await world.orders()) == ["log-a-1"]

    await world.change(heal=RECOVER | {"atOnce": 2})
    await world.settle()
    assert sorted(await world.orders()) == ["log-a-1", LOST]

    world.held_by = ""
    await world.settle()
    assert resources.statuses(await world.conditions()) == {"True"}


async def test_nothing_is_ordered_in_a_zone_that_is_held() -> None:
    world = await built(heal=RECOVER)
    await world.hold("b")
    await world.lose(LOST)
    await world.settle()
    assert await world.orders() == {}
    assert "nothing is done about it now: zone b: " in await world.message("VolumesReady")

    await world.release("b")
    await world.settle()
    assert resources.statuses(await world.conditions()) == {"True"}


async def test_nothing_is_ordered_in_a_zone_that_is_down() -> None:
    """All its disks may be away with it."""
    world = await built(heal=RECOVER)
    for name in ("log-b-0", LOST, "log-b-2"):
        await world.lose(name)
    for _ in range(20):
        await world.turn()
        await world.evaluate()

    assert await world.orders() == {}


@pytest.mark.parametrize("spec", [{"paused": True}, {}], ids=["paused", "cut off"])
async def test_nothing_is_ordered_while_the_operator_is_paused_or_cut_off(spec: Json) -> None:
    world = await built(heal=RECOVER)
    await world.change(heal=RECOVER, **spec)
    if not spec:
        world.is_cut_off = True
        world.reconciler = world.new_operator()

    await world.lose(LOST)
    await world.settle()

    assert await world.orders() == {}
    assert LOST in await world.message("VolumesReady")


async def test_a_disk_that_comes_back_before_its_bookie_is_forgotten_is_kept() -> None:
    world = await built(heal=RECOVER)
    first = await world.incarnation(LOST)
    await world.lose(LOST)
    for _ in range(100):
        await world.turn()
        orders = await world.orders()
        if LOST in orders and orders[LOST].kind is OrderKind.REMOVE:
            break
        await world.controllers()
    assert (await world.orders())[LOST].kind is OrderKind.REMOVE
    world.is_repaired = False  # nobody works on it for a moment
    await world.mount_again(LOST)
    await world.turn()
    assert (await world.orders())[LOST].taken_back is not None

    world.is_repaired = True
    await world.settle()

    assert await world.incarnation(LOST) == first
    assert await world.orders() == {}


async def test_an_order_of_a_person_is_left_alone() -> None:
    world = await built(heal=RECOVER)
    world.is_repaired = False
    await removing_world.give(world, LOST, by="ann")
    await world.lose(LOST)
    await world.settle()
    (order,) = (await world.orders()).values()
    assert order.given.by == "ann"


async def test_a_bookie_with_a_journal_volume_is_only_told_of() -> None:
    storage = {"size": "1Gi", "journal": {"size": "512Mi"}}
    world = await built(heal=RECOVER, storage=storage)
    await world.lose(LOST)
    await world.settle()

    assert await world.orders() == {}
    assert "it has a journal volume, too" in await world.message("VolumesReady")


async def test_a_process_that_ends_for_another_reason_has_not_lost_its_volume() -> None:
    world = await built(heal=RECOVER)
    pod = world.kubernetes.peek(PODS, SPACE, LOST)
    assert pod is not None
    ready = {"type": "Ready", "status": "False"}
    world.kubernetes.put(PODS, pod | {"status": {"conditions": [ready], **resources.CRASHED}})
    await world.settle()

    assert (await world.conditions())["Ready"] == ("False", "CrashLoop")
    assert (await world.conditions())["VolumesReady"][0] == "True"
    assert await world.orders() == {}


async def test_claims_of_others_are_never_touched() -> None:
    world = await built(heal=RECOVER)
    others = {
        one["metadata"]["name"]: one["metadata"]["uid"]
        for one in await world.kubernetes.list(CLAIMS, SPACE)
        if LOST not in one["metadata"]["name"]
    }
    await world.lose(LOST)
    await world.settle()

    now = {
        one["metadata"]["name"]: one["metadata"]["uid"]
        for one in await world.kubernetes.list(CLAIMS, SPACE)
    }
    assert others.items() <= now.items()


async def refills(world: LosingWorld) -> list[str]:
    found = await world.kubernetes.list(PODS, SPACE, labels=f"{REFILLS_LABEL}=log")
    return [one["metadata"]["name"] for one in found]


async def test_a_lost_volume_is_refilled_under_the_same_cookie() -> None:
    world = await built(heal={"lostVolume": "Refill"})
    first = await world.incarnation(LOST)
    await world.lose(LOST)
    for _ in range(20):
        await world.turn()
        if await refills(world):
            break
    (pod,) = await world.kubernetes.list(PODS, SPACE, labels=f"{REFILLS_LABEL}=log")
    spec = pod["spec"]
    (container,) = spec["containers"]
    assert container["command"] == [*seam.REFILL_COMMAND, LOST]
    assert container["volumeMounts"] == [{"name": "data", "mountPath": "/data"}]
    assert {"name": "ZONEKEEPER_DATA", "value": "/data"} in container["env"]
    assert spec["volumes"] == [
        {"name": "data", "persistentVolumeClaim": {"claimName": f"data-{LOST}"}}
    ]
    assert "ports" not in container
    assert "readinessProbe" not in container
    assert (
        f"pod {LOST}-refill gives it an empty disk"
        in (await world.plan()).status["conditions"][
            [one["type"] for one in (await world.plan()).status["conditions"]].index("VolumesReady")
        ]["message"]
    )

    await world.settle()

    assert await world.incarnation(LOST) == first
    assert LOST in await world.named()
    assert await world.orders() == {}
    assert await refills(world) == []
    assert resources.statuses(await world.conditions()) == {"True"}


async def test_a_disk_that_is_not_empty_after_all_is_told_in_the_words_of_the_command() -> None:
    world = await built(heal={"lostVolume": "Refill"})
    world.stained.add(LOST)
    await world.lose(LOST)
    await world.settle()
    assert "the folder is not empty" in await world.message("VolumesReady")
    assert await refills(world) == [f"{LOST}-refill"]

    await world.change(heal={})
    await world.settle()
    assert await refills(world) == []


async def test_only_so_many_bookies_are_refilled_at_a_time_and_none_in_a_held_zone() -> None:
    world = await built(heal={"lostVolume": "Refill"})
    world.stained |= {"log-a-1", LOST, "log-c-1"}
    await world.hold("a")
    for name in sorted(world.stained):
        await world.lose(name)
    await world.settle()

    assert await refills(world) == [f"{LOST}-refill"]
