"""What keeps a cluster from being settled: how each trouble begins in a world, and how it ends."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from tests.operator.people import ordered
from tests.operator.resources import NAME, SPACE, URI
from tests.operator.said_states import (
    be_ready,
    be_unready,
    choose_bookies,
    cordoning,
    have_room,
    in_trouble,
    refuse_an_empty_disk,
)
from tests.operator.worlds import World
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.cluster import policy_store
from zonekeeper.metadata.formats import service_info
from zonekeeper.metadata.formats.service_info import PublishedRoom, ServiceInfo
from zonekeeper.metadata.store.layout import Root
from zonekeeper.operator.cluster import desired
from zonekeeper.operator.cluster.desired import Desired
from zonekeeper.operator.kubernetes.api import (
    BUDGETS,
    CLAIMS,
    DEPLOYMENTS,
    NODES,
    PODS,
    SERVICES,
    STATEFUL_SETS,
    Json,
    NotPermittedError,
    ObjectKind,
)
from zonekeeper.operator.plan import causes
from zonekeeper.operator.plan.predicates import Predicate
from zonekeeper.operator.roots.resource_orders import AskedFor
from zonekeeper.operator.sight import node_sight
from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.placement.base.units import HOUR_MS
from zonekeeper.placement.zones.gate import Token

#: How a trouble begins, or ends.
Step = Callable[[World], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldTrouble:
    """What keeps a cluster from being settled, by which name, and what ends it."""

    predicate: Predicate
    begin: Step
    end: Step
    #: The resource is deleted once the trouble has begun.
    leaving: bool = False


def editing(**spec: object) -> Step:
    async def edit(world: World) -> None:
        await world.change(**spec)

    return edit


def changing(kind: ObjectKind, name: str, change: Callable[[Json], object]) -> Step:
    """Change an object as another manager does, if it is there."""

    async def step(world: World) -> None:
        found = world.kubernetes.peek(kind, SPACE, name)
        if found is not None:
            change(found)
            world.kubernetes.put(kind, found)

    return step


def keeping(kind: ObjectKind, name: str) -> Step:
    """Put a finalizer of another manager on an object."""
    return changing(kind, name, lambda item: item["metadata"].update(finalizers=["a/b"]))


def letting_go(kind: ObjectKind, name: str) -> Step:
    """Take that finalizer off; what was deleted goes."""

    async def step(world: World) -> None:
        await changing(kind, name, lambda item: item["metadata"].update(finalizers=[]))(world)
        world.kubernetes.mark_deleted(kind, SPACE, name)

    return step


def refusing(verb: str, kind: ObjectKind) -> Step:
    """Refuse the operator one of its calls."""

    async def step(world: World) -> None:
        before = world.fate

        def refuse(called: str, on: ObjectKind) -> None:
            before(called, on)
            if (called, on) == (verb, kind):
                raise NotPermittedError(403, f"{kind.plural} is forbidden")

        world.fate = refuse

    return step


def both(*steps: Step) -> Step:
    async def step(world: World) -> None:
        for one in steps:
            await one(world)

    return step


async def label_the_node(world: World) -> None:
    """Let the node of zone d be there; it is read once more after a while."""
    labels = {"topology.kubernetes.io/zone": "d"}
    world.kubernetes.put(NODES, {"metadata": {"name": "node-d", "labels": labels}})
    world.now_ms += node_sight.FRESH_MS


async def break_the_next_image(world: World) -> None:
    world.broken.add("zonekeeper:2")


async def permit(world: World) -> None:
    world.fate = lambda verb, kind: None


async def cut_off(world: World) -> None:
    world.is_cut_off = True
    world.reconciler = world.new_operator()


async def connect(world: World) -> None:
    world.is_cut_off = False


async def unmark(world: World) -> None:
    await world.unmark_claims()


async def lose_budget(world: World) -> None:
    if world.kubernetes.peek(BUDGETS, SPACE, "log-bookies") is not None:
        world.kubernetes.mark_deleted(BUDGETS, SPACE, "log-bookies")


async def replace_service(world: World) -> None:
    await changing(
        SERVICES, "log-bookies", lambda item: item["metadata"].update(ownerReferences=[])
    )(world)


async def remove_service(world: World) -> None:
    world.kubernetes.mark_deleted(SERVICES, SPACE, "log-bookies")


async def damage_the_policy(world: World) -> None:
    store = await world.open(URI)
    path = Root(store.root).beside("policy")
    if (found := await store.get(path, sync=True)) is not None:
        await store.put(path, found.value[:-9], version=found.version)
    await store.close()


async def restore_the_policy(world: World) -> None:
    """Put a whole record of ours in the place of the damaged one."""
    store = await world.open(URI)
    path = Root(store.root).beside("policy")
    await store.delete(path, version=None)
    wanted = desired.read(await world.get())
    assert isinstance(wanted, Desired)
    await policy_store.write(await clusters.open_cluster(store), wanted.policy, replaces=0)
    await store.close()


async def wipe(world: World) -> None:
    store = await world.open(URI)
    for path in reversed(await world.nodes_in_store()):
        await store.delete(path, version=None)
    await store.close()


async def make_another_root(world: World) -> None:
    await wipe(world)
    store = await world.open(URI)
    await clusters.initialise(store, "0d6e3a1e-0000-4000-8000-000000000002")
    await store.close()


def owned_by(owner: str) -> Step:
    """Let the policy in the root be of another owner."""

    async def step(world: World) -> None:
        store = await world.open(URI)
        if await world.nodes_in_store():
            cluster = await clusters.open_cluster(store)
            if (standing := await policy_store.read(cluster)) is not None:
                theirs = replace(standing, owner=owner)
                await policy_store.write(cluster, theirs, replaces=standing.version)
        await store.close()

    return step


async def write_a_ledger(world: World) -> None:
    """Let every bookie hold something."""
    await world.write_ledger()


async def forget_a_cookie(world: World) -> None:
    if f"{World.root_of(URI)}/cookies/log-c-1" in await world.nodes_in_store():
        await world.forget("log-c-1")


async def write_the_cookie(world: World) -> None:
    await world.write_cookie("log-c-1", "c")


async def make_again_while_sessions_linger(world: World) -> None:
    world.sessions_linger = True
    world.delete()
    await world.controllers()
    await world.make_again()


async def linger(world: World) -> None:
    world.sessions_linger = True


async def end_sessions(world: World) -> None:
    world.sessions_linger = False
    await world.controllers()


async def begin_anew(world: World) -> None:
    """Give up the data, as the message says: the resource goes with its volumes and its root."""
    world.delete()
    await world.controllers()
    for claim in await world.kubernetes.list(CLAIMS, SPACE):
        world.kubernetes.mark_deleted(CLAIMS, SPACE, claim["metadata"]["name"])
    await wipe(world)
    await world.make_again()


def node_of(name: str) -> Callable[[Json], None]:
    def move(item: Json) -> None:
        item["spec"] = item["spec"] | {"nodeName": name}

    return move


async def refuse_nodes(world: World) -> None:
    """Refuse the operator nodes when what it remembers of them is too old."""
    await refusing("get", NODES)(world)
    world.now_ms += node_sight.FRESH_MS


async def stop_watching(world: World) -> None:
    world.is_watched = False
    await world.turn()  # it sees the last evaluation
    world.now_ms += HOUR_MS


async def watch_again(world: World) -> None:
    world.is_watched = True


async def hold_a_zone(world: World) -> None:
    await world.hold("b")


async def release_the_zone(world: World) -> None:
    await world.release("b")


async def fill_a_volume(world: World) -> None:
    """Let a bookie say that its volume is full, where volumes may not grow beyond what it has."""
    await world.change(heal={"grow": {"max": "1Gi"}})
    store = await world.open(URI)
    path = Root(store.root).writable(BookieId("log-a-1"))
    if (found := await store.get(path, sync=True)) is not None:
        room = PublishedRoom(free_bytes=1, total_bytes=1 << 30)
        info = service_info.render(ServiceInfo(endpoints=()).with_room(room))
        await store.put(path, info, version=found.version)
    await store.close()


async def let_volumes_fill(world: World) -> None:
    await world.change(heal={})


P = Predicate
OF_B = ("log-b-0", "log-b-1")


async def drill(world: World) -> None:
    """Let a person order a drill; no probe is ready here."""
    about = ordered.OrderParts(zone=ZoneName("b"), for_ms=60_000)
    await ordered.write(world, await ordered.made(world, AskedFor.DRILL, **about))


async def end_drill(world: World) -> None:
    """Let that person end it."""
    about = ordered.OrderParts(zone=ZoneName("b"), incident=Token("order-drill"))
    await ordered.write(world, await ordered.made(world, AskedFor.END_DRILL, **about))


#: The pod of an autorecovery process.
REPAIRER = "log-c-autorecovery-5d8f-0"
KEEPING = (
    WorldTrouble(predicate=P.ACTS_PAUSED, begin=editing(paused=True), end=editing(paused=False)),
    WorldTrouble(predicate=P.DRILL, begin=drill, end=end_drill),
    WorldTrouble(
        predicate=P.REFUSED,
        begin=editing(policy={"quorums": {"ack": 4}}),
        end=editing(policy={}),
    ),
    WorldTrouble(
        predicate=P.BLOCKED,
        begin=both(write_a_ledger, editing(bookiesPerZone=1)),
        end=editing(bookiesPerZone=2),
    ),
    WorldTrouble(predicate=P.BLOCKED, begin=replace_service, end=remove_service),
    WorldTrouble(predicate=P.UNREACHABLE, begin=cut_off, end=connect),
    WorldTrouble(predicate=P.ROOT_LOST, begin=wipe, end=begin_anew),
    WorldTrouble(predicate=P.OTHER_INSTANCE, begin=make_another_root, end=begin_anew),
    # One that changes the policy comes before one after which it cannot be read.
    WorldTrouble(
        predicate=P.OWNED_BY_ANOTHER,
        begin=owned_by("shell"),
        end=owned_by(f"operator/{SPACE}/{NAME}"),
    ),
    WorldTrouble(predicate=P.UNUSABLE, begin=damage_the_policy, end=restore_the_policy),
    WorldTrouble(predicate=P.IN_USE, begin=make_again_while_sessions_linger, end=end_sessions),
    WorldTrouble(
        predicate=P.FAILED, begin=both(lose_budget, refusing("apply", BUDGETS)), end=permit
    ),
    WorldTrouble(
        predicate=P.BOOKIES_NOT_READY,
        begin=changing(PODS, "log-a-1", be_unready),
        end=changing(PODS, "log-a-1", be_ready),
    ),
    WorldTrouble(
        predicate=P.VOLUMES_GROWING,
        begin=changing(CLAIMS, "data-log-a-1", have_room("512Mi")),
        end=changing(CLAIMS, "data-log-a-1", have_room("1Gi")),
    ),
    WorldTrouble(
        predicate=P.GROWTH_WAITS,
        begin=both(changing(CLAIMS, "data-log-a-1", have_room("1Gi")), fill_a_volume),
        end=let_volumes_fill,
    ),
    WorldTrouble(
        predicate=P.HALTED,
        begin=both(break_the_next_image, editing(image="zonekeeper:2")),
        end=editing(image="zonekeeper:0.1.0"),
    ),
    WorldTrouble(
        predicate=P.ZONE_NOT_NAMED,
        begin=editing(zones=[{"name": zone} for zone in "abcd"]),
        end=label_the_node,
    ),
    WorldTrouble(
        predicate=P.MISPLACED,
        begin=changing(PODS, "log-b-1", node_of("node-a")),
        end=changing(PODS, "log-b-1", node_of("node-b")),
    ),
    WorldTrouble(predicate=P.NO_COOKIE, begin=forget_a_cookie, end=write_the_cookie),
    WorldTrouble(predicate=P.NODES_NOT_PERMITTED, begin=refuse_nodes, end=permit),
    WorldTrouble(predicate=P.NOT_WATCHED, begin=stop_watching, end=watch_again),
    WorldTrouble(predicate=P.HELD, begin=hold_a_zone, end=release_the_zone),
    WorldTrouble(
        predicate=P.AUTORECOVERY_NOT_READY,
        begin=changing(PODS, REPAIRER, be_unready),
        end=changing(PODS, REPAIRER, be_ready),
    ),
    WorldTrouble(
        predicate=P.DRAIN_WAITS,
        begin=cordoning(is_cordoned=True),
        end=cordoning(is_cordoned=False),
    ),
    WorldTrouble(
        predicate=P.FOREIGN_BUDGET, begin=choose_bookies, end=letting_go(BUDGETS, "theirs")
    ),
)
#: Beside other troubles they do what bookies do that are not ready for no reason that is known.
OF_PODS = (
    WorldTrouble(
        predicate=P.VOLUME_LOST,
        begin=changing(PODS, "log-a-1", refuse_an_empty_disk),
        end=changing(PODS, "log-a-1", be_ready),
    ),
    *(
        WorldTrouble(
            predicate=cause,
            begin=changing(PODS, "log-a-1", in_trouble(kind)),
            end=changing(PODS, "log-a-1", be_ready),
        )
        for kind, cause in causes.OF_TROUBLE.items()
    ),
    WorldTrouble(
        predicate=P.ZONE_DOWN,
        begin=both(*(changing(PODS, name, be_unready) for name in OF_B)),
        end=both(*(changing(PODS, name, be_ready) for name in OF_B)),
    ),
)
REMOVING = (
    WorldTrouble(
        predicate=P.VOLUMES_UNMARKED,
        begin=both(unmark, refusing("apply", CLAIMS)),
        end=permit,
        leaving=True,
    ),
    WorldTrouble(
        predicate=P.DEPLOYMENTS_LEFT,
        begin=keeping(DEPLOYMENTS, "log-b-autorecovery"),
        end=letting_go(DEPLOYMENTS, "log-b-autorecovery"),
        leaving=True,
    ),
    WorldTrouble(
        predicate=P.STATEFUL_SETS_LEFT,
        begin=keeping(STATEFUL_SETS, "log-a"),
        end=letting_go(STATEFUL_SETS, "log-a"),
        leaving=True,
    ),
    WorldTrouble(
        predicate=P.PODS_LEFT,
        begin=keeping(PODS, "log-c-0"),
        end=letting_go(PODS, "log-c-0"),
        leaving=True,
    ),
    WorldTrouble(
        predicate=P.VOLUMES_LEFT,
        begin=keeping(CLAIMS, "data-log-b-0"),
        end=letting_go(CLAIMS, "data-log-b-0"),
        leaving=True,
    ),
    WorldTrouble(predicate=P.STILL_REGISTERED, begin=linger, end=end_sessions, leaving=True),
    WorldTrouble(
        predicate=P.ACTS_PAUSED,
        begin=editing(paused=True),
        end=editing(paused=False),
        leaving=True,
    ),
    WorldTrouble(predicate=P.UNREACHABLE, begin=cut_off, end=connect, leaving=True),
)
