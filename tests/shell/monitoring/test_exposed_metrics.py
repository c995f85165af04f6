"""The table of metrics is what a real bookie and a real autorecovery process show, name by name."""

import asyncio
import random
import re
from pathlib import Path
from typing import Final

from tests.bookie.life.test_forgetting import INSTANCE, WHERE
from tests.bookie.running import BOOKIE
from tests.shell.live_world import LiveWorld
from tests.support.stores import MemoryPlace
from zonekeeper.bookie.disk.disks import InlineDisk
from zonekeeper.bookie.disk.memory_files import MemoryFileSystem
from zonekeeper.bookie.formats.index import MemoryOrdered
from zonekeeper.bookie.life import identity, life
from zonekeeper.bookie.life.life import BookieGround, Conditions
from zonekeeper.bookie.life.pages import PagesView
from zonekeeper.bookie.segments.arrivals import Sizes
from zonekeeper.bookie.serving.measuring import OK, Measures
from zonekeeper.bookie.serving.service import BookieServer
from zonekeeper.bookie.storage.storage import StoragePolicy
from zonekeeper.client.api import client as clients
from zonekeeper.client.base.config import ClientConfig
from zonekeeper.metadata.cluster import cluster as found_clusters
from zonekeeper.metadata.stores.opening import open_store
from zonekeeper.operator.kubernetes.api import Json
from zonekeeper.operator.plan.plans import TurnPlan
from zonekeeper.operator.plan.predicates import Predicate, Waiting
from zonekeeper.operator.run import operator_metrics, turn_figures
from zonekeeper.operator.run.turn_figures import TurnTally
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.placement.zones.bookie_orders import (
    BookieOrder,
    OrderKind,
    OrderPhase,
    OrderProgress,
    OrderWord,
)
from zonekeeper.replication.decisions.copy_plan import Cause
from zonekeeper.replication.repair.repair_metrics import RepairTrouble, Route
from zonekeeper.replication.run import pages
from zonekeeper.replication.run.autorecovery import Autorecovery, Worker
from zonekeeper.shell.monitoring import metrics
from zonekeeper.shell.monitoring.metrics import Metric

LIMIT_S: Final = 60
ORDER: Final = BookieOrder(
    kind=OrderKind.DRAIN,
    token="t",
    given=OrderWord(at_ms=0, by="anna", reason="a test"),
    incarnation=1,
    progress=OrderProgress(
        at_ms=1, worker="auto-1", since_ms=1, phase=OrderPhase.COPYING, moved_ms=1
    ),
)
#: Those that only the other kind of process shows.
OF_AUTORECOVERY: Final = tuple(
    one
    for one in metrics.METRICS
    if re.match(r"zonekeeper_(autorecovery|alert|zone|repair|auditor|log_keeper|order)", one.name)
)
OF_BOOKIE: Final = tuple(
    one for one in metrics.METRICS if "_bookie_" in one.name and one not in OF_AUTORECOVERY
)
OF_OPERATOR: Final = tuple(
    one for one in metrics.METRICS if one.name.startswith("zonekeeper_operator_")
)
OF_ALL: Final = tuple(one for one in metrics.METRICS if one.name.startswith("process_"))
OF_BOTH: Final = tuple(
    one for one in metrics.METRICS if one not in (*OF_AUTORECOVERY, *OF_BOOKIE, *OF_OPERATOR)
)


def shown(page: str) -> dict[str, set[tuple[str, ...]]]:
    """Give the labels of all samples of a page, by the name of the sample."""
    found: dict[str, set[tuple[str, ...]]] = {}
    for line in page.splitlines():
        if (sample := re.match(r"(\w+)(?:\{(.*)\})? \S+$", line)) is not None:
            labels = re.findall(r'(\w+)="(?:[^"\\]|\\.)*"', sample[2] or "")
            found.setdefault(sample[1], set()).add(tuple(sorted(labels)))
    return found


def assert_shows(page: str, table: tuple[Metric, ...]) -> None:
    found = shown(page)
    assert table
    for metric in table:
        assert found.get(metric.name) == {tuple(sorted(metric.labels))}, metric


async def bookie_page() -> str:
    """Give the page of a bookie on memory that has done a request of each kind."""
    store = await MemoryPlace().open()
    cluster = await found_clusters.initialise(store, INSTANCE)
    files, disk, index = MemoryFileSystem(), InlineDisk(), MemoryOrdered()
    ground = BookieGround(
        folders={None: files},
        journal=files,
        ledgers=[files],
        writing=disk,
        background=disk,
        reads=disk,
        tails=disk,
        open_index=lambda: index,
        sizes=lambda _: Sizes(segment_bytes=1 << 16),
        wall_ms=lambda: 1,
    )
    mine = identity.of_bookie(BOOKIE, cluster, Path("/data"))
    begun = await life.begin(
        cluster, mine, WHERE, ground, policy=StoragePolicy(), chance=random.Random(1)
    )
    measures = Measures()
    for operation in ("append", "read"):
        measures.done(operation, OK, 0.001)
    async with asyncio.TaskGroup() as tasks:
        bookie = BookieServer(BOOKIE, begun.storage, boot_epoch=1, version="1", tasks=tasks)
        bookie.set_conditions(["the device is full: 95.0% used"])
        view = PagesView(BOOKIE, "1", Conditions(), measures, begun=begun, bookie=bookie)
        view.store = store
        page = view.metrics().text
    await begun.storage.close()
    await store.close()
    return page


async def autorecovery_page(world: LiveWorld) -> str:
    """Give the page of a process that sees a zone that is down, and has repaired something."""
    store = await open_store(world.address)
    cluster = await found_clusters.open_cluster(store)
    try:
        async with clients.over_wire(cluster, ClientConfig()) as client:
            worker = Worker(name=BookieId("auto-1"), chance=random.Random(1), wall_ms=lambda: 1)
            process = Autorecovery(client, worker)
            async with asyncio.timeout(LIMIT_S), asyncio.TaskGroup() as tasks:
                following = tasks.create_task(process.view.follow())
                await process.view.known()
                repaired = process.replicator.metrics
                repaired.bytes_moved[Route("a", "b", Cause.LOST)] += 1
                repaired.failed[RepairTrouble.NO_SOURCE] += 1
                repaired.waiting_now[RepairTrouble.HELD] += 1
                process.order_keeper.orders = {BookieId("bk-a-0"): ORDER}
                page = pages.metrics(process).text
                following.cancel()
            return page
    finally:
        await store.close()


async def test_s166_a_bookie_shows_what_dashboard_and_rules_ask_for() -> None:
    page = await bookie_page()
    assert_shows(page, OF_BOOKIE)
    assert_shows(page, OF_BOTH)
    assert f'bookie="{BOOKIE}",version="1",zone="a"' in page


def test_s166_autorecovery_shows_what_dashboard_and_rules_ask_for(tmp_path: Path) -> None:
    world = LiveWorld(tmp_path)
    world.build(lost="a")
    page = asyncio.run(autorecovery_page(world))
    assert_shows(page, OF_AUTORECOVERY)
    assert_shows(page, OF_BOTH)


def operator_page() -> str:
    """Give the page of an operator that holds the Lease, whose cluster waits in a roll."""
    status: Json = {
        "conditions": [{"type": "Rolling", "status": "False", "reason": "Halted"}],
        "bookies": 9,
        "readyBookies": 8,
        "roll": {"total": 9, "updated": 2, "waitingFor": [{"gate": "ledgerAtRisk"}]},
    }
    waiting = Waiting(Predicate.BOOKIES_NOT_READY, "zone a: 2 of 3")
    plan = TurnPlan(actions=(), waits_for=waiting, status=status, notices=(), recheck_ms=1)
    tally = TurnTally(lambda: 0)
    tally.begun("logs/log")
    tally.ended_well("logs/log", turn_figures.of_plan(plan), 1)
    return operator_metrics.page(tally, None).text


def test_s166_the_operator_shows_what_dashboard_and_rules_ask_for() -> None:
    page = operator_page()
    assert_shows(page, OF_OPERATOR)
    assert_shows(page, OF_ALL)
    assert 'zonekeeper_operator_gate_waits{resource="logs/log",gate="ledgerAtRisk"} 1' in page
