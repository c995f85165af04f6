"""Carries out the orders about bookies, in each autorecovery process.

The keeper follows all orders. It takes the claim of an order that needs work and that no process
works on, and works on it to its end (``order_work``). Of a process that dies, the claim ends with
its session, and another process goes on. While nothing is to be done, nothing is written.

A bookie that is draining without an order was left so by an older release, whose orders lived in
the shell. The keeper gives the order to drain it, in the name of the person who gave the first one.
To remove the bookie in the end a person has to say again.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

from zonekeeper.metadata.bookies import order_claims, order_records
from zonekeeper.metadata.bookies.order_claims import OrderClaim
from zonekeeper.metadata.bookies.order_records import OrderChange, OrderState
from zonekeeper.metadata.formats.malformed import UnreadableError
from zonekeeper.metadata.store.background import alongside
from zonekeeper.metadata.store.errors import StoreError
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.placement.base.troubles import Trouble
from zonekeeper.placement.zones import bookie_orders
from zonekeeper.placement.zones.bookie_orders import BookieOrder, OrderKind, OrderWord
from zonekeeper.replication.orders.order_work import RETRY_DELAY_S, OrderWork
from zonekeeper.replication.repair.repairing import Repairer
from zonekeeper.replication.view import alerts

#: A process works on so many orders at once. Those that wait for something do not count: they may
#: wait for a person, and an order that can go on would wait with them.
AT_ONCE: Final = 4
#: Orders that another process has claimed are looked at again after this time.
LOOK_EVERY_S: Final = 5.0

_logger = logging.getLogger(__name__)


class OrderKeeper:
    """Carries out orders, those of all bookies or of one."""

    def __init__(
        self, repairer: Repairer, wall_ms: Callable[[], int], *, only: BookieId | None = None
    ) -> None:
        """``only``: no other bookie's order is touched, and none is given."""
        self._repairer = repairer
        self._cluster = repairer.cluster
        self._wall_ms = wall_ms
        self._only = only
        self._token = alerts.drawn_token(repairer.chance)
        self._loop = asyncio.get_running_loop()
        self._heard = asyncio.Event()
        #: By bookie: when to try again after a failure.
        self._due_s: dict[BookieId, float] = {}
        #: By bookie: the last failure.
        self._failures: dict[BookieId, str] = {}
        self._under_way: set[BookieId] = set()
        #: The orders that stand, as they were seen last; None: not seen yet.
        self.orders: Mapping[BookieId, BookieOrder] | None = None
        #: The orders that cannot be read.
        self.unreadable: tuple[BookieId, ...] = ()

    def still_ms(self) -> dict[BookieId, int]:
        """Say of each order that stands for how long nothing moved (``bookie_orders.still_ms``)."""
        now_ms, orders = self._wall_ms(), self.orders or {}
        return {bookie: bookie_orders.still_ms(one, now_ms) for bookie, one in orders.items()}

    async def run(self) -> None:
        """Carry out orders until cancelled; then the claims are given back."""
        await self._repairer.view.known()
        async with alongside(self._follow()), asyncio.TaskGroup() as tasks:
            while True:
                await self._adopt()
                for bookie, order in (self.orders or {}).items():
                    if self._is_due(bookie, order) and self._at_work() < AT_ONCE:
                        self._under_way.add(bookie)
                        tasks.create_task(self._work(bookie, order))
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_EVERY_S):
                        await self._heard.wait()
                self._heard.clear()

    async def _follow(self) -> None:
        async with order_records.watch_all(self._cluster) as states:
            async for seen in states:
                self.orders = {
                    BookieId(name): one
                    for name, one in sorted(seen.items())
                    if isinstance(one, BookieOrder)
                }
                self._due_s = {
                    one: due_s for one, due_s in self._due_s.items() if one in self.orders
                }
                self.unreadable = tuple(
                    sorted(BookieId(name) for name in seen if name not in self.orders)
                )
                self._heard.set()

    def _is_due(self, bookie: BookieId, order: BookieOrder) -> bool:
        return (
            order.needs_work
            and bookie not in self._under_way
            and self._only in (None, bookie)
            and self._loop.time() >= self._due_s.get(bookie, 0.0)
        )

    def _at_work(self) -> int:
        """Count the orders that this process works on, and that can go on."""
        orders = self.orders or {}
        return sum(
            (one := orders.get(bookie)) is None or one.can_go_on for bookie in self._under_way
        )

    async def _work(self, bookie: BookieId, order: BookieOrder) -> None:
        try:
            await self._claimed(bookie, order)
        except Trouble as error:
            self._log(bookie, str(error))
        finally:
            self._due_s[bookie] = self._loop.time() + RETRY_DELAY_S
            self._under_way.discard(bookie)
            self._heard.set()

    def _log(self, bookie: BookieId, why: str) -> None:
        """Log a failure; one that comes again is no warning."""
        level = logging.DEBUG if self._failures.get(bookie) == why else logging.WARNING
        self._failures[bookie] = why
        _logger.log(level, "the order about %s is left for later: %s", bookie, why)

    async def _claimed(self, bookie: BookieId, order: BookieOrder) -> None:
        """Work on an order, if no other process does."""
        if await order_claims.holder(self._cluster, bookie) not in (None, self._repairer.name):
            return
        claim = await order_claims.take(self._cluster, bookie, self._repairer.name, self._token)
        if claim is None:
            return
        _logger.info("works on the order to %s %s", order.kind, bookie)
        try:
            await OrderWork(self._repairer, claim, order, self._wall_ms).run()
        finally:
            await self._give_back(claim)

    async def _give_back(self, claim: OrderClaim) -> None:
        """Give a claim back. If that fails, it is ours at the next look, or the session ends it."""
        try:
            await order_claims.release(self._cluster, claim)
        except StoreError as error:
            _logger.warning("the claim of %s is given back later: %s", claim.bookie, error)

    async def _adopt(self) -> None:
        """Give an order for each bookie that drains without one."""
        if self._only is not None or self.orders is None:
            return
        for bookie, record in self._repairer.view.bookie_records.items():
            if record.draining is None or bookie in self.orders or bookie in self.unreadable:
                continue
            try:
                await self._adopt_one(bookie)
            except (StoreError, UnreadableError) as error:
                _logger.warning("%s drains without an order: %s", bookie, error)

    async def _adopt_one(self, bookie: BookieId) -> None:
        """Give the order, if the bookie drains by what the store says now."""
        token = alerts.drawn_token(self._repairer.chance)

        def adopted(state: OrderState) -> OrderChange:
            order, record = state.order, state.record
            mark = None if record is None else record.draining
            if order is None and mark is not None and state.incarnation is not None:
                order = BookieOrder(
                    kind=OrderKind.DRAIN,
                    token=token,
                    given=OrderWord(at_ms=mark.at_ms, by=mark.by, reason=mark.reason),
                    incarnation=state.incarnation,
                )
            return OrderChange(order=order, record=record)

        await order_records.change(self._cluster, bookie, adopted)
