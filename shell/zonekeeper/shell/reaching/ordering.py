"""Orders about bookies, as commands give them, follow them and show them.

An order is a record. A command writes it, and follows what the process that works on it writes into
it. So a command that is interrupted ends nothing: the order stands, and can be followed again or
taken back. Where no autorecovery process is running, a command is refused that would only write an
order that nobody carries out; with ``--here`` the command carries it out itself, under the same
claim, so that never two processes work on one bookie.
"""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

import click

from zonekeeper.metadata.bookies import bookie_records, order_claims, order_records
from zonekeeper.metadata.cluster import elections
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.commands.exits import RefusedCommand
from zonekeeper.metadata.formats.malformed import UnreadableError
from zonekeeper.metadata.store.background import alongside
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.placement.zones.bookie_orders import (
    BookieOrder,
    OrderKind,
    OrderPhase,
    OrderProgress,
)
from zonekeeper.replication.orders.order_keeper import OrderKeeper
from zonekeeper.replication.repair.repairing import Repairer
from zonekeeper.shell.reaching import connecting, progressing, reaching
from zonekeeper.shell.reaching.progressing import Progress
from zonekeeper.shell.reaching.reaching import Place
from zonekeeper.wire.grpc.tls import TlsFiles

HERE = click.option(
    "--here",
    is_flag=True,
    help="Carry the order out in this command, if no autorecovery process does.",
)
NO_FOLLOW = click.option(
    "--no-follow", is_flag=True, help="Give the order, and do not wait until it is carried out."
)

#: How often a command looks whether a process works on the order.
_LOOK_EVERY_S: Final = 5.0
#: An order that no process has taken up for so long is told of.
_IDLE_TOLD_S: Final = 15.0


class OrderEndedError(click.ClickException):
    """The order that a command followed is over, or waits for a person; it is not done."""


async def refuse_unworked(cluster: Cluster, *, here: bool) -> None:
    """Refuse to give an order that no process would carry out."""
    if not here and not await is_worked(cluster):
        raise RefusedCommand(
            f"no autorecovery process is running in {cluster}, so the order would not be carried "
            "out: start one with `zonekeeper autorecovery run`, or repeat with --here, and this "
            "command carries it out; nothing was done"
        )


async def is_worked(cluster: Cluster) -> bool:
    """Is an autorecovery process running? Each of them is a candidate for the auditor."""
    votes = await cluster.store.children(elections.auditor_votes(cluster), sync=True)
    return bool(elections.in_order(votes or ()))


@asynccontextmanager
async def carrying(place: Place, tls: TlsFiles | None, bookie: BookieId) -> AsyncIterator[None]:
    """Carry out the order about a bookie beside the block, as an autorecovery process does."""
    chance = random.SystemRandom()
    name = BookieId(f"shell-{chance.randrange(1 << 32):08x}")
    async with (
        connecting.connected(place, tls, lasting=True) as client,
        reaching.seen(client.cluster) as view,
    ):
        repairer = Repairer(client, view, name=name, chance=chance)
        async with alongside(OrderKeeper(repairer, reaching.wall_ms, only=bookie).run()):
            yield


class Following:
    """Follows one order until it is carried out; tells how far it is."""

    def __init__(
        self, cluster: Cluster, bookie: BookieId, order: BookieOrder, shown: Progress
    ) -> None:
        self._cluster = cluster
        self._bookie = bookie
        self._order = order
        self._shown = shown
        #: The newest state of the order, alone; empty: none was seen yet.
        self._seen: list[BookieOrder | UnreadableError | None] = []
        self._heard = asyncio.Event()
        self._phase: OrderPhase | None = None
        self._idle_s = 0.0

    async def until_done(self) -> None:
        """Return when the order is carried out; raises ``OrderEndedError`` if it will not be."""
        async with alongside(self._follow()):
            while not await self._is_done():
                with suppress(TimeoutError):
                    async with asyncio.timeout(_LOOK_EVERY_S):
                        await self._heard.wait()
                if not self._heard.is_set():
                    await self._tell_idle()
                self._heard.clear()

    async def until_gone(self) -> None:
        """Return when an order that was taken back is over."""
        async with alongside(self._follow()):
            while not self._seen or self._seen[-1] is not None:
                standing = self._seen[-1] if self._seen else None
                if isinstance(standing, BookieOrder) and standing.taken_back is None:
                    raise OrderEndedError(f"another order about {self._bookie} was given meanwhile")
                if isinstance(standing, BookieOrder) and standing.progress is not None:
                    self._tell(standing.progress)
                await self._heard.wait()
                self._heard.clear()

    async def _follow(self) -> None:
        async with order_records.watch(self._cluster, self._bookie) as states:
            async for state in states:
                self._seen = [state]
                self._heard.set()

    async def _is_done(self) -> bool:
        if not self._seen:
            return False
        standing, order = self._seen[-1], self._order
        if isinstance(standing, UnreadableError):
            raise standing
        if standing is None or standing.token != order.token:
            return await self._ended(standing)
        if standing.taken_back is not None:
            word = standing.taken_back
            raise OrderEndedError(
                f"the order about {self._bookie} was taken back by {word.by}: {word.reason}"
            )
        if standing.kind is OrderKind.DRAIN and standing.emptied_ms is not None:
            return True
        progress = standing.progress
        if progress is not None and progress.phase is OrderPhase.STUCK:
            raise OrderEndedError(
                f"{progress.why}. The order stands, and is tried again every minute; take it back "
                f"with `zonekeeper bookies take-back {self._bookie}`"
            )
        if progress is not None:
            self._tell(progress)
        return False

    async def _ended(self, standing: BookieOrder | None) -> bool:
        """The order is gone: say whether it was carried out."""
        cluster, bookie = self._cluster, self._bookie
        gone = await cluster.store.get(cluster.root.cookie(bookie), sync=True) is None
        if standing is not None:
            raise OrderEndedError(
                f"the order about {bookie} was replaced by one to {standing.kind} it"
            )
        if self._order.kind is OrderKind.REMOVE and gone:
            return True
        if self._order.kind is OrderKind.RECOVER:
            if gone or (await bookie_records.read(cluster, bookie)).written_off is not None:
                return True
            raise OrderEndedError(
                f"{bookie} is registered again, or the order was taken back: what was copied stays "
                "copied; see `zonekeeper timeline`"
            )
        raise OrderEndedError(f"the order about {bookie} was taken back; see `zonekeeper timeline`")

    def _tell(self, progress: OrderProgress) -> None:
        """Show how far an order is: a new phase and what holds at once, figures now and then."""
        text = figures(progress, self._shown.elapsed_s)
        if progress.phase in (OrderPhase.HELD, OrderPhase.STUCK):
            self._shown.tell_at_once(text)
        elif progress.phase is self._phase:
            self._shown.tell(text)
        else:
            self._phase = progress.phase
            self._shown.tell_at_once(text)

    async def _tell_idle(self) -> None:
        if await order_claims.holder(self._cluster, self._bookie) is not None:
            self._idle_s = 0.0
            return
        self._idle_s += _LOOK_EVERY_S
        if self._idle_s >= _IDLE_TOLD_S:
            self._shown.tell_at_once(
                "no process works on the order: is an autorecovery process of this release "
                "running? The order stands; --here carries it out in this command"
            )


def figures(progress: OrderProgress, elapsed_s: float = 0.0) -> str:
    """Say how far an order is: its phase, its ledgers and bytes, what holds it."""
    text = str(progress.phase)
    if progress.phase is OrderPhase.COPYING:
        text += ": " + progressing.work(
            "ledgers",
            progress.ledgers - progress.ledgers_left,
            elapsed_s,
            total=progress.ledgers,
            moved_bytes=progress.bytes - progress.bytes_left,
        )
    return f"{text}: {progress.why}" if progress.why else text


def said(order: BookieOrder | UnreadableError) -> str:
    """Say an order in one line: ``to be removed (by anna: its disk is old), copying: …``."""
    if isinstance(order, UnreadableError):
        return f"an order about it cannot be read: {order}"
    text = f"order to {order.kind} it (by {order.given.by}: {order.given.reason})"
    if order.taken_back is not None:
        text += f", taken back (by {order.taken_back.by}: {order.taken_back.reason})"
    if order.progress is None:
        return f"{text}, no process has begun with it"
    return f"{text}, {figures(order.progress)}"


def plain(order: BookieOrder | UnreadableError | None) -> dict[str, object] | None:
    """Give an order as plain data; None: there is none."""
    if order is None:
        return None
    if isinstance(order, UnreadableError):
        return {"unreadable": str(order)}
    one, back = order.progress, order.taken_back
    return {
        "kind": str(order.kind),
        "by": order.given.by,
        "reason": order.given.reason,
        "atMs": order.given.at_ms,
        "emptiedAtMs": order.emptied_ms,
        "takenBackBy": None if back is None else back.by,
        "progress": None
        if one is None
        else {
            "atMs": one.at_ms,
            "worker": one.worker,
            "sinceMs": one.since_ms,
            "phase": str(one.phase),
            "ledgers": one.ledgers,
            "ledgersLeft": one.ledgers_left,
            "bytes": one.bytes,
            "bytesLeft": one.bytes_left,
            "why": one.why,
        },
    }
