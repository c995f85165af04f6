"""Taking a bookie out of every ledger that names it: what draining and recovering have in common.

Each round reads all ledgers, marks those that name the bookie, and repairs each under its claim, as
a replicator does, beside any replicators that are running. The order ends with a whole listing in
which no ledger names the bookie. That listing begins ``sessionTimeout`` or more after the order: by
then every client that can still create a ledger has seen that the bookie takes none. An order that
was cut short is given again. What happens beside it (another repair, a ledger of a client that did
not know yet) is found by the next round.

The gate is obeyed: while the bookie's copies are held, nothing is marked and nothing moves.
"""

import asyncio
from array import array
from collections import Counter
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Final

from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats.malformed import UnreadableError
from zonekeeper.metadata.ledgers import underreplication
from zonekeeper.metadata.ledgers.ledger_listing import UnreadableLedger
from zonekeeper.metadata.store.background import together
from zonekeeper.metadata.store.errors import StoreError
from zonekeeper.placement.base import misnamed
from zonekeeper.placement.base.ids import BookieId, LedgerId
from zonekeeper.placement.zones.gate import RefusedError
from zonekeeper.replication.orders.orders import NotEmptiedError, Order, OrderProgress, Phase
from zonekeeper.replication.repair.ledger_repair import Obstacle
from zonekeeper.replication.repair.repair_metrics import RepairTrouble
from zonekeeper.replication.repair.repairing import Repairer
from zonekeeper.replication.view import listing

_AT_ONCE: Final = 4
_PAUSE_S: Final = 2.0
_NAMED_MAX: Final = 5
#: Troubles that a retry does not cure before a person has done something.
_FINAL: Final = frozenset(
    {RepairTrouble.NO_TARGET, RepairTrouble.ENTRY_LOST, RepairTrouble.COPIES_DIFFER}
)


def unknown(repairer: Repairer, bookie: BookieId) -> RefusedError:
    """Refuse an order about a bookie that there is not; suggest those that may be meant."""
    meant = misnamed.question(bookie, [one.id for one in repairer.view.topology])
    return RefusedError(f"there is no bookie {bookie} in {repairer.cluster}{meant}")


async def naming(cluster: Cluster, bookie: BookieId) -> "array[int]":
    """List the ledgers that name a bookie.

    Raises ``NotEmptiedError`` if no ledger that can be read names it, and some cannot be read.
    """
    found, unreadable = array("q"), list[str]()
    async with aclosing(listing.walk(cluster)) as listed:
        async for one in listed:
            if isinstance(one, UnreadableLedger):
                unreadable.append(f"{one.id} ({one.error})")
            elif bookie in one.metadata.bookies:
                found.append(one.id)
    if unreadable and not found:
        raise NotEmptiedError(
            f"{len(unreadable)} ledgers cannot be read, and may name {bookie}: "
            f"{', '.join(unreadable[:_NAMED_MAX])}; repair or delete them, then try again"
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


class Emptying:
    """Empties the bookie of one order."""

    def __init__(
        self,
        repairer: Repairer,
        order: Order,
        still: Callable[[], None],
    ) -> None:
        """``still`` raises when the order makes no sense any more."""
        self._repairer = repairer
        self._order = order
        self._bookie = order.bookie
        self._still = still
        self._done = 0
        self._bytes_before = repairer.metrics.all_bytes_moved

    async def run(self) -> None:
        """Repair until no ledger names the bookie."""
        loop = asyncio.get_running_loop()
        known_s = loop.time() + self._repairer.view.policy.zone_watch.session_timeout_ms / 1_000
        while True:
            self._tell(Phase.LISTING)
            began_s = loop.time()
            left = await naming(self._repairer.cluster, self._bookie)
            if not left and began_s >= known_s:
                return
            if not left:
                await asyncio.sleep(known_s - began_s)
                continue
            met = await self._round(left)
            final = sum(met.troubles[one] for one in sorted(_FINAL))
            if final and final == met.troubles.total():
                raise NotEmptiedError(
                    f"{final} ledgers keep {self._bookie}: {'; '.join(met.texts)}"
                )
            if met.troubles:
                await asyncio.sleep(_PAUSE_S)

    async def _round(self, left: "array[int]") -> _Met:
        """Work once on each ledger; give the obstacles."""
        met = _Met()
        for at in range(0, len(left), _AT_ONCE):
            await self._permitted()
            some = left[at : at + _AT_ONCE]
            for found in await together(self._ledger(LedgerId(one)) for one in some):
                self._done += found is None
                if found is not None:
                    met.add(found)
            troubles = met.troubles.copy()
            self._tell(Phase.COPYING, left=len(left) - at - len(some), troubles=troubles)
        return met

    async def _permitted(self) -> None:
        """Wait while the bookie's copies are held."""
        view = self._repairer.view
        while True:
            self._still()
            looks = view.looks
            held = view.what_holds_anew(self._bookie)
            if held is None:
                return
            self._order.report(OrderProgress(phase=Phase.HELD, done=self._done, held=held))
            await view.changed(looks)

    async def _ledger(self, ledger_id: LedgerId) -> Obstacle | None:
        """Mark a ledger for the bookie and work on it; give an obstacle that is left, if any."""
        cluster, at_ms = self._repairer.cluster, self._order.wall_ms()
        try:
            await underreplication.mark(cluster, ledger_id, [self._bookie], at_ms=at_ms)
            attempt = await self._repairer.attempt(ledger_id)
        except (StoreError, UnreadableError) as error:
            return Obstacle(trouble=RepairTrouble.METADATA, text=str(error), bookies=frozenset())
        if attempt.again:
            text = f"ledger {ledger_id}: a replicator works on it"
            return Obstacle(trouble=RepairTrouble.OVERTAKEN, text=text, bookies=frozenset())
        mine = (one for one in attempt.obstacles if self._bookie in one.bookies or not one.bookies)
        return next(mine, None)

    def _tell(
        self, phase: Phase, *, left: int = 0, troubles: Counter[RepairTrouble] | None = None
    ) -> None:
        moved = self._repairer.metrics.all_bytes_moved - self._bytes_before
        self._order.report(
            OrderProgress(
                phase=phase,
                done=self._done,
                left=left,
                bytes_moved=moved,
                troubles=troubles or Counter(),
            )
        )
