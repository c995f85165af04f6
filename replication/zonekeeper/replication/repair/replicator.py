"""The replicator: walks the list of marked ledgers, for ever, and repairs what may be repaired.

Any number of processes walk the list, and meet only at the claims. Each process works on a few
ledgers at once, under one byte rate. A ledger that cannot be repaired now is left for a while,
longer after each failure. A ledger that waits for its writer is looked at again soon. A held ledger
is looked at less and less often, up to once a minute, and at once when a hold ends: a walk that
waits for its workers is left then, and begun again. While everything is held, marks are only
counted. A ledger that can never be repaired stays marked and is counted; it does not stop the
others.

Marks that only ask for a better spread come last: one at a time, while nothing else is under way.

Cancelling ``run`` stops work in flight before its next carrier, and gives back the claims.
"""

import asyncio
import logging
from collections import Counter
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Final

from zonekeeper.client.api.client import Client
from zonekeeper.metadata.ledgers import underreplication
from zonekeeper.metadata.store.errors import StoreError
from zonekeeper.placement.base.chance import Chance
from zonekeeper.placement.base.ids import BookieId, LedgerId, ZoneName
from zonekeeper.placement.base.locations import Location
from zonekeeper.replication.repair import respreading
from zonekeeper.replication.repair.repair_lines import RepairProgress
from zonekeeper.replication.repair.repair_metrics import RepairMetrics, RepairTrouble
from zonekeeper.replication.repair.repairing import Attempt, Repairer
from zonekeeper.replication.view.view import View

WORKERS: Final = 4
#: The rest between two walks is ``max(LOOK_EVERY_S, time spent looking)``.
LOOK_EVERY_S: Final = 2.0
#: The delay after a ledger's first failure. Each further failure doubles it, up to ``_WAIT_MAX_S``.
_WAIT_FIRST_S: Final = 1.0
_WAIT_MAX_S: Final = 300.0
#: The longest delay of a held ledger. The first is ``LOOK_EVERY_S``, and each further one is twice
#: as long. While everything is held, the rest ends this long after the walk began, if not before.
_HELD_MAX_S: Final = 60.0
#: More doublings than any pause needs to get to its limit; so the power stays a small number.
_DOUBLINGS_MAX: Final = 16
#: ``len(_waits) <= _WAITS_MAX``. A ledger that is not in it is tried again in every walk.
_WAITS_MAX: Final = 100_000
#: ``len(_spreads) <= _SPREADS_MAX``. A later walk meets the others again.
_SPREADS_MAX: Final = 1_000
#: Troubles that are waited for, and are no failures.
_NO_FAILURE: Final = frozenset({RepairTrouble.HELD, RepairTrouble.OPEN})

_logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Wait:
    """A ledger that is left for later."""

    due_s: float
    trouble: RepairTrouble | None
    failures: int
    #: The number of the last walk that met the ledger.
    walk: int
    #: How often the ledger was found held since a hold ended.
    holds: int = 0


class Replicator:
    """The replicator of one process."""

    def __init__(
        self,
        client: Client,
        view: View,
        *,
        name: BookieId,
        chance: Chance,
        workers: int = WORKERS,
    ) -> None:
        self._client = client
        self._view = view
        self._slots = asyncio.Semaphore(workers)
        self._loop = asyncio.get_running_loop()
        self._waits: dict[LedgerId, _Wait] = {}
        self._under_way: set[LedgerId] = set()
        #: Marks that ask for a better spread; a dict, because sets have no order.
        self._spreads: dict[LedgerId, None] = {}
        self._walk_number = 0
        #: How long this walk has waited for workers. That is no time spent looking.
        self._waited_s = 0.0
        #: At the last look: the zones whose losses nothing held.
        self._free = frozenset[ZoneName]()
        #: At the last look: the units in maintenance.
        self._in_maintenance = frozenset[Location]()
        #: At the last look: the missing bookies whose copies were held, perhaps by their own delay.
        self._held = frozenset[BookieId]()
        self.metrics: Final = RepairMetrics()
        self._progress = RepairProgress(self.metrics)
        #: Also for others of this process that repair: its byte rate covers them all.
        self.repairer: Final = Repairer(
            client, view, name=name, chance=chance, metrics=self.metrics
        )

    async def run(self) -> None:
        """Repair until cancelled."""
        await self._view.known()
        unread = False
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._spread())
            while True:
                began_s = self._loop.time()
                try:
                    await self._walk(tasks)
                except StoreError as error:
                    if not unread:
                        _logger.warning("the list of marked ledgers cannot be read: %s", error)
                    unread = True
                else:
                    unread = False
                self._progress.look(self._loop.time())
                looked_s = self._loop.time() - began_s - self._waited_s
                await asyncio.sleep(max(LOOK_EVERY_S, looked_s))
                await self._rest_while_held(began_s + _HELD_MAX_S)

    async def _rest_while_held(self, until_s: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout_at(until_s):
                while self._view.holds_everything:
                    await self._view.changed(self._view.looks)

    async def _walk(self, tasks: asyncio.TaskGroup) -> None:
        """Start work on each marked ledger that is due, as workers get free.

        If a hold ends while the walk waits for a worker, the rest is left to the next walk.
        """
        self._walk_number += 1
        self._waited_s = 0.0
        self._heed_gates()
        async with aclosing(underreplication.ids(self._client.cluster)) as marked:
            async for ledger_id in marked:
                if (wait := self._waits.get(ledger_id)) is not None:
                    wait.walk = self._walk_number
                    if self._loop.time() < wait.due_s:
                        continue
                if ledger_id in self._under_way:
                    continue
                if self._view.holds_everything:
                    self._leave(ledger_id, RepairTrouble.HELD)
                    continue
                began_s = self._loop.time()
                await self._slots.acquire()
                self._waited_s += self._loop.time() - began_s
                if self._heed_gates():
                    self._slots.release()
                    return
                self._under_way.add(ledger_id)
                tasks.create_task(self._work(ledger_id))
        self._waits = {
            ledger_id: wait
            for ledger_id, wait in self._waits.items()
            if wait.walk == self._walk_number
        }
        self.metrics.waiting_now = Counter(
            wait.trouble for wait in self._waits.values() if wait.trouble is not None
        )

    def _heed_gates(self) -> bool:
        """Say whether a hold ended since the last look; if so, every held ledger is due now."""
        view = self._view
        free = frozenset(zone for zone in view.zones if view.what_holds_zone(zone) is None)
        in_maintenance = frozenset(view.maintenance)
        held = frozenset(one for one in view.missing if view.what_holds_anew(one) is not None)
        freed = bool(
            free - self._free or self._in_maintenance - in_maintenance or self._held - held
        )
        self._free, self._in_maintenance, self._held = free, in_maintenance, held
        if freed:
            for wait in self._waits.values():
                if wait.trouble is RepairTrouble.HELD:
                    wait.due_s, wait.holds = self._loop.time(), 0
        return freed

    async def _work(self, ledger_id: LedgerId) -> None:
        try:
            await self._try(ledger_id, respread=False)
        finally:
            self._under_way.discard(ledger_id)
            self._slots.release()

    async def _spread(self) -> None:
        """Respread ledgers, one at a time, while no repair is under way."""
        while True:
            if self._spreads and not self._under_way and respreading.may(self._view):
                ledger_id = next(iter(self._spreads))
                del self._spreads[ledger_id]
                await self._try(ledger_id, respread=True)
            else:
                await asyncio.sleep(LOOK_EVERY_S)

    async def _try(self, ledger_id: LedgerId, *, respread: bool) -> None:
        """Try to repair a ledger, and note when to look at it again."""
        try:
            attempt = await self.repairer.attempt(ledger_id, respread=respread)
        except StoreError as error:
            _logger.warning("ledger %d is left for later: %s", ledger_id, error)
            self.metrics.failed[RepairTrouble.METADATA] += 1
            self._leave(ledger_id, RepairTrouble.METADATA)
            return
        if attempt.spread and len(self._spreads) < _SPREADS_MAX:
            self._spreads[ledger_id] = None
        if attempt.obstacles:
            self._leave(ledger_id, _worst(attempt))
        elif attempt.spread:
            self._leave(ledger_id, None)
        else:
            self._waits.pop(ledger_id, None)

    def _leave(self, ledger_id: LedgerId, trouble: RepairTrouble | None) -> None:
        """Leave a ledger for later: for a short time, or for longer after each hold or failure."""
        before = self._waits.get(ledger_id)
        failures, holds = (0, 0) if before is None else (before.failures, before.holds)
        delay_s = LOOK_EVERY_S
        if trouble is RepairTrouble.HELD:
            delay_s = _doubled(LOOK_EVERY_S, holds, _HELD_MAX_S)
            holds += 1
        elif trouble is not None and trouble not in _NO_FAILURE:
            delay_s = _doubled(_WAIT_FIRST_S, failures, _WAIT_MAX_S)
            failures += 1
        if before is not None or len(self._waits) < _WAITS_MAX:
            due_s = self._loop.time() + delay_s
            self._waits[ledger_id] = _Wait(due_s, trouble, failures, self._walk_number, holds)


def _doubled(first_s: float, times: int, most_s: float) -> float:
    """Give a pause that was doubled so many times, up to ``most_s``."""
    return min(most_s, first_s * 2.0 ** min(times, _DOUBLINGS_MAX))


def _worst(attempt: Attempt) -> RepairTrouble:
    """Give the first trouble that is a failure; if there is none, the first trouble."""
    troubles = [obstacle.trouble for obstacle in attempt.obstacles]
    return next((one for one in troubles if one not in _NO_FAILURE), troubles[0])
