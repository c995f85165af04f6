"""Taking a bookie out of every ledger that names it: what draining and recovering have in common.

Each round reads all ledgers, marks those that name the bookie, and repairs each under its claim, as
a replicator does, beside any replicators that are running. The bookie is empty when a whole listing
names it nowhere. That listing begins ``sessionTimeout`` or more after the work began: by then every
client that can still create a ledger has seen that the bookie takes none. What happens beside it
(another repair, a ledger of a client that did not know yet) is found by the next round.

The gate is obeyed: while the bookie's copies are held, nothing is marked and nothing moves.
"""

import asyncio
from array import array
from collections import Counter
from collections.abc import Coroutine
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeAlias, TypeVar

from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats.malformed import UnreadableError
from zonekeeper.metadata.ledgers import underreplication
from zonekeeper.metadata.ledgers.ledger_listing import UnreadableLedger
from zonekeeper.metadata.store.background import together
from zonekeeper.metadata.store.errors import StoreError
from zonekeeper.placement.base.ids import BookieId, LedgerId
from zonekeeper.placement.base.troubles import Trouble
from zonekeeper.placement.zones.bookie_orders import OrderPhase
from zonekeeper.replication.decisions import copy_plan, order_steps
from zonekeeper.replication.decisions.copy_plan import Cause
from zonekeeper.replication.repair.ledger_repair import Obstacle
from zonekeeper.replication.repair.repair_metrics import RepairTrouble
from zonekeeper.replication.repair.repairing import Repairer
from zonekeeper.replication.view import listing

_AT_ONCE: Final = 4
_PAUSE_S: Final = 2.0
#: The pause after a round in which only a person could have helped.
STUCK_PAUSE_S: Final = 60.0
_NAMED_MAX: Final = 5
#: Troubles that a retry does not cure before a person has done something.
_FINAL: Final = frozenset(
    {RepairTrouble.NO_TARGET, RepairTrouble.ENTRY_LOST, RepairTrouble.COPIES_DIFFER}
)


class NotEmptiedError(Trouble):
    """Ledgers are left that only a person can help. What was done stays done."""

    retryable = True
    maybe_applied = True


@dataclass(frozen=True, slots=True)
class NamingLedgers:
    """The ledgers that name a bookie, in ascending order, with the bookie's share of each."""

    ids: "array[int]" = field(default_factory=lambda: array("q"))
    sizes: "array[int]" = field(default_factory=lambda: array("q"))

    def __len__(self) -> int:
        """Count them."""
        return len(self.ids)


async def naming(cluster: Cluster, bookie: BookieId) -> NamingLedgers:
    """List the ledgers that name a bookie.

    Raises ``NotEmptiedError`` if no ledger that can be read names it, and some cannot be read.
    """
    found, unreadable = NamingLedgers(), list[str]()
    async with aclosing(listing.walk(cluster)) as listed:
        async for one in listed:
            if isinstance(one, UnreadableLedger):
                if len(unreadable) <= _NAMED_MAX:
                    unreadable.append(f"{one.id} ({one.error})")
            elif bookie in one.metadata.bookies:
                found.ids.append(one.id)
                found.sizes.append(order_steps.held_bytes(one.metadata, bookie))
    if unreadable and not found:
        more = "" if len(unreadable) <= _NAMED_MAX else " and others"
        raise NotEmptiedError(
            f"ledgers cannot be read, and may name {bookie}: "
            f"{', '.join(unreadable[:_NAMED_MAX])}{more}; repair or delete them, then try again"
        )
    return found


@dataclass(slots=True)
class _Met:
    """The obstacles of a round. Most are only counted, as there may be one for each ledger."""

    troubles: Counter[RepairTrouble] = field(default_factory=Counter)
    #: ``len(texts) <= _NAMED_MAX``: the first obstacles with a trouble of ``_FINAL``.
    texts: list[str] = field(default_factory=list)

    def add(self, obstacle: Obstacle) -> None:
        self.troubles[obstacle.trouble] += 1
        if obstacle.trouble in _FINAL and len(self.texts) < _NAMED_MAX:
            self.texts.append(obstacle.text)

    def __str__(self) -> str:
        return "; ".join(f"{count} x {trouble}" for trouble, count in sorted(self.troubles.items()))


@dataclass(frozen=True, slots=True, kw_only=True)
class EmptyingNews:
    """How far the emptying of a bookie is."""

    phase: OrderPhase
    #: The ledgers that still name the bookie, and its share of them; None: not known now.
    ledgers_left: int | None = None
    bytes_left: int | None = None
    why: str = ""


_Stand: TypeAlias = tuple[Cause | None, bool]
Result = TypeVar("Result")


class EmptyingHost(Protocol):
    """The work that a bookie is emptied for."""

    async def tell(self, news: EmptyingNews) -> None:
        """Hear how far the emptying is."""

    async def meanwhile(self, work: Coroutine[None, None, Result]) -> Result:
        """Do what may be left at any moment. Raises if the work is to end."""

    def wall_ms(self) -> int:
        """Give the wall time."""


class Emptying:
    """Empties one bookie, round by round.

    If the work is to end, it ends between two batches of ledgers, and never within one: a claim
    whose request is cancelled may stand as long as the session.
    """

    def __init__(self, repairer: Repairer, bookie: BookieId, host: EmptyingHost) -> None:
        self._repairer = repairer
        self._bookie = bookie
        self._host = host
        self._tell = host.tell
        loop = asyncio.get_running_loop()
        session_timeout_ms = repairer.view.policy.zone_watch.session_timeout_ms
        self._known_s = loop.time() + session_timeout_ms / 1_000

    async def once(self) -> bool:
        """Do one round, and pause if it has left something; True: no ledger names the bookie."""
        loop = asyncio.get_running_loop()
        await self._tell(EmptyingNews(phase=OrderPhase.LISTING))
        began_s = loop.time()
        try:
            listing_all = naming(self._repairer.cluster, self._bookie)
            left = await self._host.meanwhile(listing_all)
        except NotEmptiedError as error:
            await self._stuck(str(error))
            return False
        if not left:
            if began_s >= self._known_s:
                return True
            await self._host.meanwhile(asyncio.sleep(self._known_s - began_s))
            return False
        met = await self._round(left)
        final = sum(met.troubles[one] for one in sorted(_FINAL))
        if final and final == met.troubles.total():
            await self._stuck(f"{final} ledgers keep {self._bookie}: {'; '.join(met.texts)}")
        elif met.troubles:
            await self._host.meanwhile(asyncio.sleep(_PAUSE_S))
        return False

    async def _stuck(self, why: str) -> None:
        await self._tell(EmptyingNews(phase=OrderPhase.STUCK, why=why))
        await self._host.meanwhile(asyncio.sleep(STUCK_PAUSE_S))

    async def _round(self, left: NamingLedgers) -> _Met:
        """Work once on each ledger; give the obstacles."""
        met = _Met()
        ledgers_left, bytes_left = len(left), sum(left.sizes)
        stand = self._stand()
        for at in range(0, len(left), _AT_ONCE):
            if not await self._permitted(ledgers_left, bytes_left, stand):
                return met
            await self._copying(ledgers_left, bytes_left, met)
            some = left.ids[at : at + _AT_ONCE]
            came = await together(self._ledger(LedgerId(one)) for one in some)
            for size, found in zip(left.sizes[at : at + _AT_ONCE], came, strict=True):
                if found is None:
                    ledgers_left -= 1
                    bytes_left -= size
                else:
                    met.add(found)
        await self._copying(ledgers_left, bytes_left, met)
        return met

    async def _copying(self, ledgers_left: int, bytes_left: int, met: _Met) -> None:
        await self._tell(
            EmptyingNews(
                phase=OrderPhase.COPYING,
                ledgers_left=ledgers_left,
                bytes_left=bytes_left,
                why=str(met),
            )
        )

    def _stand(self) -> _Stand:
        """Say why the bookie's copies leave it, and whether it is known at all."""
        topology = self._repairer.view.topology
        return copy_plan.cause_of(self._bookie, topology), self._bookie in topology

    async def _permitted(self, ledgers_left: int, bytes_left: int, stand: _Stand) -> bool:
        """Wait while the bookie's copies are held.

        False: the bookie came, went, drains no more or was forgotten, so the round is over.
        """
        view = self._repairer.view
        while True:
            looks = view.looks
            await self._host.meanwhile(asyncio.sleep(0))
            if self._stand() != stand:
                return False
            held = view.what_holds_anew(self._bookie)
            if held is None:
                return True
            await self._tell(
                EmptyingNews(
                    phase=OrderPhase.HELD,
                    ledgers_left=ledgers_left,
                    bytes_left=bytes_left,
                    why=f"{held.by}: {held.text}",
                )
            )
            await self._host.meanwhile(view.changed(looks))

    async def _ledger(self, ledger_id: LedgerId) -> Obstacle | None:
        """Mark a ledger for the bookie and work on it; give an obstacle that is left, if any."""
        cluster = self._repairer.cluster
        try:
            await underreplication.mark(
                cluster, ledger_id, [self._bookie], at_ms=self._host.wall_ms()
            )
            attempt = await self._repairer.attempt(ledger_id)
        except (StoreError, UnreadableError) as error:
            return Obstacle(trouble=RepairTrouble.METADATA, text=str(error), bookies=frozenset())
        if attempt.again:
            text = f"ledger {ledger_id}: a replicator works on it"
            return Obstacle(trouble=RepairTrouble.OVERTAKEN, text=text, bookies=frozenset())
        mine = (one for one in attempt.obstacles if self._bookie in one.bookies or not one.bookies)
        return next(mine, None)
