"""Orders about bookies by command: written, followed, shown and taken back."""

import asyncio
import dataclasses
import io
from functools import partial
from pathlib import Path

import pytest

from tests.shell.live_world import LiveWorld
from zonekeeper.metadata.bookies import bookie_records, cookie_store, order_records
from zonekeeper.metadata.bookies.order_records import OrderChange, OrderState
from zonekeeper.metadata.cluster import elections
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.placement.zones.bookie_orders import (
    BookieOrder,
    OrderKind,
    OrderPhase,
    OrderProgress,
    OrderWord,
)
from zonekeeper.shell.commands.autorecovery import autorecovery
from zonekeeper.shell.commands.bookies import bookies
from zonekeeper.shell.reaching import ordering
from zonekeeper.shell.reaching.ordering import Following, OrderEndedError
from zonekeeper.shell.reaching.progressing import Progress

WHO = ("--by", "anna", "--reason", "its disk is old")
B = BookieId("bk-b-0")
WORD = OrderWord(at_ms=1, by="anna", reason="its disk is old")
COPYING = OrderProgress(
    at_ms=9,
    worker="auto-0",
    since_ms=2,
    phase=OrderPhase.COPYING,
    moved_ms=8,
    ledgers=10,
    ledgers_left=7,
    bytes=5 << 20,
    bytes_left=3 << 20,
)


@pytest.fixture
def world(tmp_path: Path) -> LiveWorld:
    made = LiveWorld(tmp_path)
    made.build()
    return made


async def a_process_votes(cluster: Cluster) -> None:
    path = f"{elections.auditor_votes(cluster)}/V_0000000001"
    await cluster.store.create(path, make_parents=True)


def written(world: LiveWorld, order: BookieOrder) -> None:
    async def write(cluster: Cluster) -> OrderState:
        return await order_records.change(
            cluster,
            B,
            lambda state: OrderChange(
                order=dataclasses.replace(order, incarnation=state.incarnation),
                record=order_records.draining(state.record, order),
            ),
        )

    world.on(write)


def of(kind: OrderKind = OrderKind.REMOVE, progress: OrderProgress | None = None) -> BookieOrder:
    return BookieOrder(kind=kind, token="t0", given=WORD, incarnation=None, progress=progress)


def test_an_order_is_written_with_the_mark_of_its_bookie_and_told(world: LiveWorld) -> None:
    world.on(a_process_votes)
    result = world.call(bookies, "decommission", B, "--yes", "--no-follow", *WHO)
    assert result.exit_code == 0, result.output
    assert result.stdout == f"the order about {B} is given: it will be emptied and forgotten\n"
    order = world.on(lambda cluster: order_records.read(cluster, B))
    assert order is not None
    assert (order.kind, order.given.by, order.given.reason) == (
        OrderKind.REMOVE,
        "anna",
        "its disk is old",
    )
    record = world.on(lambda cluster: bookie_records.read(cluster, B))
    assert record.draining is not None
    assert record.draining.by == "anna"
    again = world.call(bookies, "decommission", B, "--yes", "--no-follow", *WHO)
    assert again.exit_code == 0
    assert world.on(lambda cluster: order_records.read(cluster, B)) == order


def test_a_dry_run_writes_no_order(world: LiveWorld) -> None:
    result = world.call(bookies, "drain", B, "--dry-run")
    assert (result.exit_code, result.stdout) == (
        0,
        f"0 ledgers name {B}; it would be emptied\n",
    )
    assert world.on(order_records.read_all) == {}


def test_an_order_is_shown_with_how_far_it_is(world: LiveWorld) -> None:
    written(world, of(progress=COPYING))
    said = "order to remove it (by anna: its disk is old), copying: 3 of 10 ledgers done, 2.0 MiB"
    for words in (["list"], ["show", B]):
        assert said in world.call(bookies, *words).stdout
    assert f"{B}: {said}" in world.call(autorecovery, "status").stdout
    shown = world.data(bookies, "show", B)["order"]
    assert isinstance(shown, dict)
    assert (shown["kind"], shown["by"]) == ("remove", "anna")
    assert (shown["progress"]["ledgersLeft"], shown["progress"]["worker"]) == (7, "auto-0")
    assert world.data(bookies, "show", "bk-a-0")["order"] is None


def test_an_order_that_nobody_has_begun_with_and_one_that_cannot_be_read_are_shown(
    world: LiveWorld,
) -> None:
    written(world, of())
    assert "no process has begun with it" in world.call(bookies, "show", B).stdout

    async def damage(cluster: Cluster) -> None:
        await cluster.store.put(order_records.path(cluster, B), b"{", version=0)

    world.on(damage)
    assert "an order about it cannot be read" in world.call(bookies, "list").stdout
    assert "cannot be read" in world.call(autorecovery, "status").stdout


def test_an_order_is_taken_back_where_no_process_runs_and_the_answer_says_what_is_left(
    world: LiveWorld,
) -> None:
    written(world, of())
    result = world.call(bookies, "take-back", B, *WHO)
    assert result.exit_code == 0, result.output
    assert "once an autorecovery process runs, or with --here" in result.stdout
    order = world.on(lambda cluster: order_records.read(cluster, B))
    assert order is not None
    assert order.taken_back is not None
    assert world.on(lambda cluster: bookie_records.read(cluster, B)).draining is None
    assert "taken back (by anna" in world.call(bookies, "show", B).stdout


def test_with_here_the_command_itself_ends_what_was_taken_back(world: LiveWorld) -> None:
    written(world, of())
    result = world.call(bookies, "take-back", B, "--here", *WHO)
    assert result.exit_code == 0, result.output
    assert result.stdout == f"the order about {B} is taken back\n"
    assert world.on(order_records.read_all) == {}


# ── following ──


def followed(world: LiveWorld, order: BookieOrder, *then: BookieOrder | None) -> str:
    """Follow an order while it changes; give the error, or nothing if it is carried out."""

    async def work(cluster: Cluster) -> str:
        state = await order_records.change(
            cluster,
            B,
            lambda state: OrderChange(
                order=dataclasses.replace(order, incarnation=state.incarnation),
                record=state.record,
            ),
        )
        assert state.order is not None
        following = Following(cluster, B, state.order, Progress(None, lambda: 0.0))
        task = asyncio.get_running_loop().create_task(following.until_done())
        for one in then:
            await asyncio.sleep(0)
            await order_records.change(cluster, B, partial(_replaced, one))
        try:
            async with asyncio.timeout(30):
                await task
        except OrderEndedError as error:
            return error.message
        return ""

    return world.on(work)


def _replaced(order: BookieOrder | None, state: OrderState) -> OrderChange:
    return OrderChange(order=order, record=state.record)


def test_a_drain_is_done_when_the_bookie_is_empty(world: LiveWorld) -> None:
    one = of(OrderKind.DRAIN)
    assert followed(world, one, dataclasses.replace(one, emptied_ms=4)) == ""


@pytest.mark.parametrize(
    ("kind", "then", "said"),
    [
        (OrderKind.REMOVE, None, "was taken back"),
        (OrderKind.RECOVER, None, "is registered again, or the order was taken back"),
        (
            OrderKind.DRAIN,
            dataclasses.replace(of(OrderKind.REMOVE), token="t1"),
            "was replaced by one to remove it",
        ),
        (
            OrderKind.DRAIN,
            dataclasses.replace(of(OrderKind.DRAIN), taken_back=WORD),
            "was taken back by anna: its disk is old",
        ),
        (
            OrderKind.DRAIN,
            of(
                OrderKind.DRAIN,
                dataclasses.replace(COPYING, phase=OrderPhase.STUCK, why="3 ledgers keep it"),
            ),
            "3 ledgers keep it. The order stands",
        ),
    ],
)
def test_an_order_that_is_not_carried_out_ends_the_following_with_the_reason(
    world: LiveWorld, kind: OrderKind, then: BookieOrder | None, said: str
) -> None:
    assert said in followed(world, of(kind), then)


class _Heard(io.StringIO):
    """What a command tells; ``heard`` is set by the first words."""

    def __init__(self) -> None:
        super().__init__()
        self.heard = asyncio.Event()

    def write(self, text: str) -> int:
        self.heard.set()
        return super().write(text)


def test_an_order_that_ledgers_kept_is_waited_for_after_it_is_taken_back(world: LiveWorld) -> None:
    """What kept it stands in the order until a process ends it: that is no reason to give up."""
    stuck = dataclasses.replace(COPYING, phase=OrderPhase.STUCK, why="3 ledgers keep it")
    back = dataclasses.replace(of(progress=stuck), taken_back=WORD)
    written(world, back)

    async def work(cluster: Cluster) -> None:
        told = _Heard()
        following = Following(cluster, B, back, Progress(told, lambda: 0.0))
        loop = asyncio.get_running_loop()
        gone = loop.create_task(following.until_gone())
        heard = loop.create_task(told.heard.wait())
        async with asyncio.timeout(30):
            await asyncio.wait({gone, heard}, return_when=asyncio.FIRST_COMPLETED)
            heard.cancel()
            await order_records.change(cluster, B, partial(_replaced, None))
            await gone
        assert told.getvalue() == "ledgers keep the bookie: 3 ledgers keep it\n"

    world.on(work)


def test_a_removal_is_done_when_the_cookie_is_gone_with_the_order(world: LiveWorld) -> None:
    async def forget(cluster: Cluster) -> None:
        stored = await cookie_store.read(cluster, B)
        assert stored is not None
        await cookie_store.delete(cluster, B, version=stored.version)

    world.on(forget)
    assert followed(world, of(), None) == ""


def test_figures_say_what_is_done_and_what_keeps_it() -> None:
    held = dataclasses.replace(COPYING, phase=OrderPhase.HELD, why="zoneHeld: zone b is held")
    assert ordering.figures(held) == "waiting for the gate: zoneHeld: zone b is held"
    assert ordering.figures(COPYING) == "copying: 3 of 10 ledgers done, 2.0 MiB"
