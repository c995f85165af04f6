"""One process carries one order out, under its claim.

``order_steps`` says what is to be done; this does it, and looks again. What was read is never older
than the last step. The order's node is followed meanwhile. If the order is taken back or replaced,
listings and waits are left at once, and copying after the ledgers that are under way; then work
goes on with what stands. Requests that write are never left in the middle.

Nothing that is removed comes back, so that is done last and under the most checks. Order, record
and cookie of a bookie go in one transaction. It passes only if the claim stands, the order means
what it meant, the bookie's cookie is the one that the order is about, and its record is as it was
read before the listing that proves that no ledger names the bookie. A bookie counts each start in
its record before it serves. So it cannot have run since that listing began.

How far the order is, is written into it: a new phase at once, figures every ``TOLD_EVERY_S``.
"""

import asyncio
import dataclasses
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Final, TypeVar, assert_never

from zonekeeper.metadata.bookies import (
    bookie_watch,
    held_collections,
    looks,
    order_claims,
    order_records,
)
from zonekeeper.metadata.bookies import registration as registrations
from zonekeeper.metadata.bookies.bookie_records import BookieRecord, Mark
from zonekeeper.metadata.bookies.order_claims import OrderClaim
from zonekeeper.metadata.bookies.order_records import OrderChange, OrderState
from zonekeeper.metadata.cluster import restored
from zonekeeper.metadata.formats.malformed import UnreadableError
from zonekeeper.metadata.store.background import alongside
from zonekeeper.placement.base.topology import Registration
from zonekeeper.placement.base.troubles import Trouble
from zonekeeper.placement.zones import bookie_orders
from zonekeeper.placement.zones.bookie_orders import (
    BookieOrder,
    OrderKind,
    OrderPhase,
    OrderProgress,
    OrderWord,
)
from zonekeeper.replication.decisions import copy_plan, order_steps
from zonekeeper.replication.decisions.order_steps import (
    AwaitChange,
    EmptyOnce,
    EndOrder,
    Forget,
    MakeReadOnly,
    MakeWritable,
    OrderScene,
    OrderStep,
    TakeOrderBack,
    WriteLostOff,
)
from zonekeeper.replication.orders import emptying
from zonekeeper.replication.orders.emptying import Emptying, EmptyingNews, NotEmptiedError
from zonekeeper.replication.repair.repairing import Repairer
from zonekeeper.replication.view import alerts
from zonekeeper.replication.view.alerts import Chronicle
from zonekeeper.wire.formats import errors

Result = TypeVar("Result")

#: Figures of a phase that lasts are written into the order so often.
TOLD_EVERY_S: Final = 5.0
#: A step that could not be done is tried again after this time.
RETRY_DELAY_S: Final = 5.0
#: The shortest time between two looks at an order that waits.
_LOOK_EVERY_S: Final = 2.0
#: The pause before an order is looked at that was changed.
_CHANGED_PAUSE_S: Final = 0.2
#: A change between these phases is no sign that anything moves.
_AT_WORK: Final = frozenset({OrderPhase.LISTING, OrderPhase.COPYING, OrderPhase.STUCK})

_logger = logging.getLogger(__name__)


class OrderChangedError(Trouble):
    """The order is not the one any more that the work was done for, or the bookie is not."""

    retryable = True


class OrderWork:
    """The work of one process on one order."""

    def __init__(
        self, repairer: Repairer, claim: OrderClaim, order: BookieOrder, wall_ms: Callable[[], int]
    ) -> None:
        self._repairer = repairer
        self._cluster = repairer.cluster
        self._claim = claim
        self._bookie = claim.bookie
        self._order = order
        self.wall_ms = wall_ms
        self._since_ms = wall_ms()
        self._loop = asyncio.get_running_loop()
        self._told_s = self._loop.time() - TOLD_EVERY_S
        self._emptying: Emptying | None = None
        #: Did this work try to make the bookie read-only?
        self._told_read_only = False
        #: The start of the bookie before the listing by which this work found it empty.
        self._emptied_of: int | None = None
        #: Set when the order's node says something else than ``_order`` means.
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Work until the order is over or needs no work; raises ``StoreError`` and ``Trouble``."""
        async with self._followed():
            while True:
                self._changed.clear()
                scene = await self._look()
                if scene is None or not scene.order.needs_work:
                    return
                if scene.order.meaning != self._order.meaning:
                    self._emptying, self._told_read_only = None, False
                self._order = scene.order
                step = order_steps.next_step(scene)
                try:
                    if await self._do(step):
                        return
                except OrderChangedError:
                    await asyncio.sleep(_CHANGED_PAUSE_S)

    # ── looking ──

    async def _look(self) -> OrderScene | None:
        """Read what the next step depends on; None: there is no order any more.

        Raises ``SessionLostError`` if the claim is over.
        """
        await order_claims.check(self._cluster, self._claim)
        found = (await bookie_watch.registrations(self._cluster)).get(self._bookie)
        state = await order_records.read_state(self._cluster, self._bookie)
        if state.order is None:
            return None
        return OrderScene(
            order=state.order,
            incarnation=state.incarnation,
            registered=found is not None,
            draining=state.draining,
            refuses=found is Registration.READ_ONLY or self._told_read_only,
            kept_read_only=state.record is not None and state.record.read_only is not None,
            restored=await self._restored(),
        )

    async def _restored(self) -> bool:
        try:
            return await restored.read(self._cluster) is not None
        except UnreadableError:
            return True  # a mark that cannot be read stands

    @asynccontextmanager
    async def _followed(self) -> AsyncIterator[None]:
        async def follow() -> None:
            async with order_records.watch(self._cluster, self._bookie) as states:
                async for state in states:
                    if not isinstance(state, BookieOrder) or state.meaning != self._order.meaning:
                        self._changed.set()

        async with alongside(follow()):
            yield

    async def meanwhile(self, work: Coroutine[None, None, Result]) -> Result:
        """Do what may be left at any moment; ``OrderChangedError`` if the order changes."""
        doing = self._loop.create_task(work)
        change = self._loop.create_task(self._changed.wait())
        try:
            await asyncio.wait({doing, change}, return_when=asyncio.FIRST_COMPLETED)
            if self._changed.is_set():
                raise OrderChangedError(f"the order about {self._bookie} was changed")
            return doing.result()
        finally:
            change.cancel()
            doing.cancel()
            await asyncio.wait({doing, change})
            if not doing.cancelled():
                doing.exception()  # one that came with the change; the next look sees its cause

    # ── doing ──

    async def _do(self, step: OrderStep) -> bool:
        """Do a step; True: the work on the order is over."""
        match step:
            case MakeReadOnly():
                await self._make_read_only()
            case EmptyOnce():
                await self._empty()
            case Forget():
                return await self._forget()
            case WriteLostOff():
                return await self._write_off()
            case MakeWritable():
                await self._make_writable()
            case TakeOrderBack():
                word = OrderWord(
                    at_ms=self.wall_ms(),
                    by=self._repairer.name,
                    reason="another program removed the bookie's mark",
                )
                await self._change(
                    lambda state, order: _with_order(state, bookie_orders.taken_back(order, word))
                )
            case EndOrder():
                await self._end(step)
                return True
            case AwaitChange():
                await self._await(step)
            case _:
                assert_never(step)
        return False

    async def _make_read_only(self) -> None:
        """Have the bookie refuse new data. If it does not answer, only its mark works.

        The order says that it made the bookie read-only before it does so: whatever happens then,
        the order can be taken back. If it was read-only by a person's order, that order stays.
        """
        info = await registrations.read_service_info(self._cluster, self._bookie)
        told = info is not None and any(one.by_person for one in info.read_only)

        def noted(made: bool) -> Callable[[OrderState, BookieOrder], OrderChange]:
            return lambda state, order: _with_order(
                state, dataclasses.replace(order, read_only=made)
            )

        def decided(state: OrderState, order: BookieOrder) -> OrderChange:
            kept = state.record is not None and state.record.read_only is not None
            made = order.read_only or not (kept or told)
            return noted(made)(state, order)

        self._told_read_only = True
        after = await self._change(decided)
        if after.order is None or not after.order.read_only:
            return
        try:
            link = await self._repairer.client.bookies.pool.link(self._bookie)
            await link.set_read_only(read_only=True)
        except errors.ProtocolError as error:
            kind = type(error).__name__
            _logger.warning("%s was not made read-only: %s: %s", self._bookie, kind, error)
            if not error.maybe_applied:
                await self._change(noted(False))

    async def _make_writable(self) -> None:
        try:
            link = await self._repairer.client.bookies.pool.link(self._bookie)
            await link.set_read_only(read_only=False)
        except errors.ProtocolError as error:
            await self.tell(
                EmptyingNews(phase=OrderPhase.RETURNING, why=f"{self._bookie}: {error}")
            )
            await asyncio.sleep(RETRY_DELAY_S)
            return
        await self._change(
            lambda state, order: _with_order(state, dataclasses.replace(order, read_only=False))
        )

    async def _empty(self) -> None:
        """Do one round of emptying; note it if the bookie is empty."""
        view = self._repairer.view
        if copy_plan.cause_of(self._bookie, view.topology) is None:
            await self.meanwhile(
                view.changed(view.looks)
            )  # the mark is not seen here yet, or not any more
            return
        if self._emptying is None:
            self._emptying = Emptying(self._repairer, self._bookie, self)
        state = await order_records.read_state(self._cluster, self._bookie)
        if not await self._emptying.once():
            return
        self._emptied_of = _starts(state)
        now_ms = self.wall_ms()
        await self.tell(EmptyingNews(phase=OrderPhase.EMPTIED, ledgers_left=0, bytes_left=0))
        await self._change(
            lambda state, order: _with_order(state, dataclasses.replace(order, emptied_ms=now_ms))
        )
        if self._order.kind is not OrderKind.RECOVER:
            await self._note("drained", self._order.given.reason)

    async def _forget(self) -> bool:
        """Remove the bookie; False: it runs again, or a ledger names it."""
        before = await order_records.read_state(self._cluster, self._bookie)
        if not self._is_meant(before) or not before.draining or await self._is_registered():
            return False
        await self.tell(EmptyingNews(phase=OrderPhase.LISTING))
        try:
            left = await self.meanwhile(emptying.naming(self._cluster, self._bookie))
        except NotEmptiedError as error:
            await self.tell(EmptyingNews(phase=OrderPhase.STUCK, why=str(error)))
            await self.meanwhile(asyncio.sleep(emptying.STUCK_PAUSE_S))
            return False
        if left:
            await self._change(
                lambda state, order: _with_order(state, dataclasses.replace(order, emptied_ms=None))
            )
            return False

        async def still_gone() -> None:
            if await self._is_registered() or await self._restored():
                raise OrderChangedError(f"{self._bookie} was started, or the root was restored")

        await still_gone()
        await looks.forget(self._cluster, self._bookie)
        await held_collections.done(self._cluster, self._bookie)

        def gone(state: OrderState, _: BookieOrder) -> OrderChange:
            if state.record != before.record:
                raise OrderChangedError(f"{self._bookie} was started meanwhile")
            return OrderChange(order=None, record=None, without_cookie=True)

        await self._change(gone, first=still_gone)
        await self._note("removed", self._order.given.reason)
        return True

    async def _write_off(self) -> bool:
        """Write the bookie off; False: it may have got ledgers since they were read.

        It may have come and gone where no process worked on the order, or where another one did.
        """
        now_ms, given = self.wall_ms(), self._order.given
        mark = Mark(at_ms=now_ms, by=given.by, reason=given.reason)
        token, proven = alerts.drawn_token(self._repairer.chance), False

        async def still_lost() -> None:
            if await self._is_registered():
                raise OrderChangedError(f"{self._bookie} is registered again")

        def written_off(state: OrderState, order: BookieOrder) -> OrderChange:
            nonlocal proven
            proven = self._emptied_of == _starts(state)
            if not proven:
                return _with_order(state, dataclasses.replace(order, emptied_ms=None))
            record = state.record
            if state.incarnation is not None:
                record = record or BookieRecord()
                record = dataclasses.replace(record, written_off=record.written_off or mark)
            return OrderChange(order=_after_recovery(state, order, token), record=record)

        await self._change(written_off, first=still_lost)
        if proven:
            await self._note("recovered", given.reason)
        return proven

    async def _end(self, step: EndOrder) -> None:
        token = alerts.drawn_token(self._repairer.chance)

        def ended(state: OrderState, order: BookieOrder) -> OrderChange:
            if order.read_only != self._order.read_only:
                raise OrderChangedError(f"the order about {self._bookie} was changed")
            return _with_order(state, _after_recovery(state, order, token))

        await self._change(ended)
        await self._note(step.kind, step.why)

    async def _await(self, step: AwaitChange) -> None:
        await self.tell(EmptyingNews(phase=step.phase, why=step.why))
        began_s, view = self._loop.time(), self._repairer.view
        await self.meanwhile(view.changed(view.looks))
        rest_s = began_s + _LOOK_EVERY_S - self._loop.time()
        await self.meanwhile(asyncio.sleep(max(0.0, rest_s)))

    # ── parts of steps ──

    async def _change(
        self,
        decide: Callable[[OrderState, BookieOrder], OrderChange],
        *,
        first: Callable[[], Coroutine[None, None, None]] | None = None,
    ) -> OrderState:
        """Change the order that is worked on; raises ``OrderChangedError`` if it is another one."""

        ending = False

        def decided(state: OrderState) -> OrderChange:
            nonlocal ending
            if state.order is None and ending:
                return OrderChange(order=None, record=state.record)  # its answer was lost
            if state.order is None or not self._is_meant(state):
                raise OrderChangedError(f"the order about {self._bookie} was changed")
            after = decide(state, state.order)
            ending = after.order is None
            return after

        return await order_records.change(
            self._cluster, self._bookie, decided, claim=self._claim, first=first
        )

    def _is_meant(self, state: OrderState) -> bool:
        """Is the order the one that is worked on, about the bookie that has the name now?"""
        return (
            state.order is not None
            and state.order.meaning == self._order.meaning
            and state.order.incarnation == self._order.incarnation
        )

    async def _is_registered(self) -> bool:
        return self._bookie in await bookie_watch.registrations(self._cluster)

    async def tell(self, news: EmptyingNews) -> None:
        """Write how far the order is into it, unless that was written just now."""
        if self._cluster.store.session.id != self._claim.session:
            await order_claims.check(self._cluster, self._claim)  # it is over, and raises
        now_ms, before = self.wall_ms(), self._order.progress
        told = _progress(before, news, now_ms)
        told = dataclasses.replace(told, worker=self._repairer.name, since_ms=self._since_ms)
        if before is not None and not _is_stale(before, told):
            is_due = self._loop.time() >= self._told_s + TOLD_EVERY_S
            if not (is_due and _is_news(before, told)):
                return
        after = await self._change(
            lambda state, order: _with_order(state, dataclasses.replace(order, progress=told))
        )
        self._told_s = self._loop.time()
        assert after.order is not None, "it was changed and not ended"
        self._order = after.order

    async def _note(self, kind: str, reason: str) -> None:
        chronicle = Chronicle(
            self._cluster,
            by=self._order.given.by,
            chance=self._repairer.chance,
            wall_ms=self.wall_ms,
        )
        await chronicle.write(kind, f"bookie {self._bookie}", reason)


def _with_order(state: OrderState, order: BookieOrder | None) -> OrderChange:
    return OrderChange(order=order, record=state.record)


def _after_recovery(state: OrderState, order: BookieOrder, token: str) -> BookieOrder | None:
    mark = None if state.record is None else state.record.draining
    if mark is None or state.incarnation is None or state.incarnation != order.incarnation:
        return None
    word = OrderWord(at_ms=mark.at_ms, by=mark.by, reason=mark.reason)
    return bookie_orders.after_recovery(order, word, token)


def _starts(state: OrderState) -> int:
    """Say how many starts of the bookie were counted."""
    return 0 if state.record is None else state.record.boot_epoch


def _is_stale(before: OrderProgress, now: OrderProgress) -> bool:
    """Is there news that cannot wait: another phase, or another worker?"""
    return (before.phase, before.worker, before.since_ms) != (now.phase, now.worker, now.since_ms)


def _is_news(before: OrderProgress, now: OrderProgress) -> bool:
    """Is there any news? What holds an order is told in words that have a time in them."""
    if now.phase is OrderPhase.HELD:
        now = dataclasses.replace(now, why=before.why)
    return before != dataclasses.replace(now, at_ms=before.at_ms)


def _progress(before: OrderProgress | None, news: EmptyingNews, now_ms: int) -> OrderProgress:
    """Give the progress after news. Figures that the news lack are as before."""
    if before is None:
        before = OrderProgress(
            at_ms=now_ms, worker="", since_ms=now_ms, phase=news.phase, moved_ms=now_ms
        )
    ledgers_left = before.ledgers_left if news.ledgers_left is None else news.ledgers_left
    bytes_left = before.bytes_left if news.bytes_left is None else news.bytes_left
    went_on = news.phase is not before.phase and not {news.phase, before.phase} <= _AT_WORK
    return dataclasses.replace(
        before,
        at_ms=now_ms,
        phase=news.phase,
        moved_ms=now_ms if went_on or ledgers_left < before.ledgers_left else before.moved_ms,
        ledgers=max(before.ledgers, ledgers_left),
        ledgers_left=ledgers_left,
        bytes=max(before.bytes, bytes_left),
        bytes_left=bytes_left,
        why=news.why[: bookie_orders.WHY_CHARS_MAX],
    )
