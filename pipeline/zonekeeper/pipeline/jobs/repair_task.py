"""One task of a repair on Spark: its marked ledgers, repaired under claims, then audited.

A few ledgers are worked on at a time, each by ``Repairer.attempt``, as replicators do it. So gates,
claims and the policy's rate are those of autorecovery, and both may work at the same time. What was
finished is audited by the code of the replica audit, at the same rate. A task that runs again has
the same ledgers. So it audits also those that its predecessor finished before it died.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from zonekeeper.metadata.formats.malformed import UnreadableError
from zonekeeper.metadata.ledgers import ledgers
from zonekeeper.pipeline.jobs.replica_audit import CopiesReading
from zonekeeper.pipeline.planning import repair_holds
from zonekeeper.pipeline.planning.job_source import ROWS_AT_ONCE, Plan, Row
from zonekeeper.pipeline.planning.repair_turns import MetNow, RepairTurns, TurnVerdict
from zonekeeper.pipeline.planning.worker_repairer import WorkerRepairer
from zonekeeper.pipeline.planning.worker_view import WatchedView
from zonekeeper.pipeline.reports import fault_rows, repair_rows
from zonekeeper.placement.base.ids import BookieId, LedgerId
from zonekeeper.replication.repair.ledger_repair import Obstacle
from zonekeeper.replication.repair.repair_metrics import RepairTrouble
from zonekeeper.replication.repair.repairing import Attempt
from zonekeeper.replication.view import listing

AT_ONCE: Final = 4
#: A claim that lasts so many sessions is one of a process that lives.
_SESSIONS: Final = 3
#: An open ledger is waited for so many graces, and a while.
_GRACES: Final = 3
_WHILE_S: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairPlan(Plan):
    """What the tasks of a repair go by. Each task gets its ledgers beside it."""

    #: The bookies that were held when the job was planned: the job does not wait for them.
    held: frozenset[BookieId]
    #: Was a bookie that has no cookie held then? Its zone is unknown, so any hold is its own.
    unresolved_held: bool
    #: The bookies whose holds are waited for.
    permitted: frozenset[BookieId]
    #: A task's share of the job's rate; 0: no limit but that of the policy.
    share_bytes_per_second: int

    def held_before(self, bookie: BookieId) -> bool:
        """Was this bookie held when the job was planned?"""
        if bookie in self.held:
            return True
        return self.unresolved_held and all(one.id != bookie for one in self.bookies)


class RepairTask:
    """The work of one task."""

    def __init__(
        self,
        mine: WorkerRepairer,
        watched: WatchedView,
        plan: RepairPlan,
        ids: Sequence[LedgerId],
    ) -> None:
        self._repairer = mine.repairer
        self._watched = watched
        self._plan = plan
        self._loop = asyncio.get_running_loop()
        client, policy = mine.repairer.client, watched.view.policy
        session_ms = max(policy.zone_watch.session_timeout_ms, plan.options.config.store.session_ms)
        grace_ms = policy.repair.open_ledger_grace_ms
        self._turns = RepairTurns(
            ids,
            claim_wait_s=_SESSIONS * session_ms / 1_000,
            open_wait_s=_GRACES * grace_ms / 1_000 + _WHILE_S,
        )
        self._reading = CopiesReading(client, watched.view, mine.pace, self._permitted)
        self._done: list[LedgerId] = []
        #: A hold that came while the task ran was met, and is to be waited for.
        self._is_held = False

    async def repaired(self) -> AsyncGenerator[list[Row], None]:
        """Repair the ledgers; give a row for each that is done, and for each that is left."""
        metrics = self._repairer.metrics
        ledgers_before, bytes_before = metrics.ledgers_repaired, metrics.all_bytes_moved
        await self._permitted()
        running: dict[asyncio.Task[Attempt], LedgerId] = {}
        try:
            while True:
                if self._is_held:
                    await self._permitted()
                    self._is_held = False
                self._begin(running)
                pause_s = self._turns.pause_s(self._loop.time())
                if not running and pause_s is None:
                    break
                if not running:
                    await asyncio.sleep(pause_s or 0)
                    continue
                full = len(running) == AT_ONCE
                ended, _ = await asyncio.wait(
                    running,
                    timeout=None if full else pause_s,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                self._watched.check()
                rows = [row for one in ended for row in self._came(running.pop(one), one.result())]
                if rows:
                    yield rows
        finally:
            for one in running:
                one.cancel()
            if running:
                await asyncio.wait(running)
        yield [
            repair_rows.of_copied(
                metrics.ledgers_repaired - ledgers_before, metrics.all_bytes_moved - bytes_before
            )
        ]

    async def audited(self) -> AsyncGenerator[list[Row], None]:
        """Read every copy of the ledgers that are done; give what is wrong, and what was read."""
        count = 0
        for ledger_id in self._done:
            try:
                stored = await listing.until_done(
                    partial(ledgers.read, self._repairer.cluster, ledger_id, sync=True),
                    f"reading ledger {ledger_id}",
                )
            except UnreadableError as error:
                yield [fault_rows.of_unreadable(ledger_id, error)]
                continue
            if stored is None:
                continue  # it was deleted: there is nothing to be audited
            count += 1
            found = await self._reading.found(stored)
            for start in range(0, len(found), ROWS_AT_ONCE):
                yield found[start : start + ROWS_AT_ONCE]
        yield [fault_rows.of_reading(count, *self._reading.so_far)]

    def _begin(self, running: dict[asyncio.Task[Attempt], LedgerId]) -> None:
        """Begin as many attempts as may run at once."""
        while len(running) < AT_ONCE:
            ledger_id = self._turns.take(self._loop.time())
            if ledger_id is None:
                return
            running[asyncio.ensure_future(self._attempt(ledger_id))] = ledger_id

    async def _attempt(self, ledger_id: LedgerId) -> Attempt:
        return await listing.until_done(
            lambda: self._repairer.attempt(ledger_id), f"the repair of ledger {ledger_id}"
        )

    def _came(self, ledger_id: LedgerId, attempt: Attempt) -> list[Row]:
        """Take in an attempt; give the rows of a ledger that has had its last turn."""
        if attempt.spread:
            return [repair_rows.of_spread(ledger_id)]
        held_since = any(
            not self._plan.held_before(bookie)
            for one in attempt.obstacles
            if one.trouble is RepairTrouble.HELD
            for bookie in one.bookies
        )
        met = MetNow(
            troubles={one.trouble for one in attempt.obstacles},
            again=attempt.again,
            held_before=not held_since,
        )
        match self._turns.came(ledger_id, met, self._loop.time()):
            case TurnVerdict.DONE:
                self._done.append(ledger_id)
                return [repair_rows.of_done(ledger_id)]
            case TurnVerdict.LATER:
                self._is_held = self._is_held or held_since
                return []
            case TurnVerdict.LEFT:
                if attempt.again:
                    return [repair_rows.of_claimed(ledger_id)]
                return [
                    repair_rows.of_obstacle(ledger_id, bookie, one.trouble.value, one.text)
                    for one in attempt.obstacles
                    for bookie in _named(one)
                ]

    async def _permitted(self) -> None:
        await repair_holds.until_permitted(self._watched, self._plan.permitted)


def _named(obstacle: Obstacle) -> list[BookieId | None]:
    """Give the bookies of an obstacle; None: it is in the way of the whole ledger."""
    found: list[BookieId | None] = [*sorted(obstacle.bookies)]
    return found or [None]
