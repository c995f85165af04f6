"""Marked ledgers, one at a time: is repair permitted? Then claim, repair, and say what came of it.

Replicators, and orders that empty or recover a bookie, all go through ``Repairer.attempt``. A
ledger is worked on under its claim, so that no work is done twice. Correctness does not rest on the
claim: the compare-and-set decides (``ledger_repair``).

- Nothing is claimed while every copy that the mark names is held.
- A mark is finished only when nothing is left to do for any bookie that it names. Until then each
  attempt takes the bookies that are done off the mark.
- A ledger whose last fragment may still grow is left to its writer for ``openLedgerGrace``, counted
  from when this process first saw that very fragment in need. Then it is fenced and recovered.
- A bookie whose disk was lost is in limbo for its ledgers, until its copies are there again
  (``limbo``). A last fragment that names it is treated like one that has lost a member.
- A mark without bookies asks for the ledger to be spread again (``respreading``).
"""

import asyncio
import logging
from collections.abc import Collection, Iterable, Set
from dataclasses import dataclass

from zonekeeper.client.api.client import Client
from zonekeeper.metadata.bookies import bookie_records
from zonekeeper.metadata.formats.ledger_metadata import LedgerMetadata
from zonekeeper.metadata.formats.malformed import UnreadableError
from zonekeeper.metadata.formats.underreplication_format import Underreplicated
from zonekeeper.metadata.ledgers import ledgers, underreplication
from zonekeeper.metadata.ledgers.underreplication import Claim
from zonekeeper.metadata.store.errors import SessionLostError, StoreError
from zonekeeper.metadata.store.store import Check
from zonekeeper.placement.base.chance import Chance
from zonekeeper.placement.base.ids import BookieId, LedgerId
from zonekeeper.replication.decisions import copy_plan
from zonekeeper.replication.repair import limbo as limbos
from zonekeeper.replication.repair import respreading
from zonekeeper.replication.repair.copying import Copier
from zonekeeper.replication.repair.graces import Graces
from zonekeeper.replication.repair.ledger_repair import LedgerRepair, Obstacle
from zonekeeper.replication.repair.repair_lines import ObstacleLines
from zonekeeper.replication.repair.repair_metrics import (
    RepairMetrics,
    RepairStoppedError,
    RepairTrouble,
)
from zonekeeper.replication.view.pace import BytePace
from zonekeeper.replication.view.view import View
from zonekeeper.wire.formats import digests, errors

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """What came of one look at a marked ledger."""

    #: The obstacles of this attempt. Nothing is left to do if there are none, and neither ``again``
    #: nor ``spread``.
    obstacles: tuple[Obstacle, ...] = ()
    #: Another process has the claim, or the claim was lost with its session, or more was lost
    #: during the attempt.
    again: bool = False
    #: The mark asks only for a better spread, and the attempt did not try that.
    spread: bool = False

    @property
    def done(self) -> bool:
        """Is nothing left to do?"""
        return not (self.obstacles or self.again or self.spread)


class Repairer:
    """Repairs ledgers for one process. Its byte rates cover all attempts of the process."""

    def __init__(
        self,
        client: Client,
        view: View,
        *,
        name: BookieId,
        chance: Chance,
        metrics: RepairMetrics | None = None,
        further_pace: BytePace | None = None,
    ) -> None:
        """``further_pace`` is kept besides the policy's rates."""
        self.client = client
        self.view = view
        self.cluster = client.cluster
        self.name = name
        self.metrics = metrics or RepairMetrics()
        self.chance = chance
        self._pace = BytePace(lambda: view.policy.repair.bytes_per_second)
        self._further = () if further_pace is None else (further_pace,)
        self._respread_pace = BytePace(lambda: view.policy.repair.respread_bytes_per_second)
        self._graces = Graces()
        self._lines = ObstacleLines()
        #: Claims that may still stand, because the store did not say that they were made or given
        #: back.
        self._left_behind: dict[LedgerId, Claim] = {}
        self._loop = asyncio.get_running_loop()

    async def attempt(self, ledger_id: LedgerId, *, respread: bool = False) -> Attempt:
        """Do what can be done now for a marked ledger; raises only ``StoreError``.

        A mark that only asks for a better spread is left alone unless ``respread``.
        """
        attempt = await self._attempt(ledger_id, respread=respread)
        if attempt.done:
            self._lines.met(ledger_id, ())
        return attempt

    async def _attempt(self, ledger_id: LedgerId, *, respread: bool) -> Attempt:
        try:
            mark = await underreplication.read(self.cluster, ledger_id)
            if mark is None:
                return Attempt()
            held = self._held(ledger_id, mark.replicas)
            if mark.replicas and len(held) == len(mark.replicas):
                return self._told(ledger_id, tuple(held.values()))
            if not mark.replicas and not (respread and respreading.may(self.view)):
                return Attempt(spread=True)
            claim = await self._claim(ledger_id, mark)
        except UnreadableError as error:
            return self._told(ledger_id, (_unreadable(error, frozenset()),))
        if claim is None:
            return Attempt(again=True)
        self.metrics.under_way_now += 1
        try:
            return await self._claimed(claim, respread=respread)
        finally:
            self.metrics.under_way_now -= 1

    async def _claim(self, ledger_id: LedgerId, mark: Underreplicated) -> Claim | None:
        """Claim a ledger, and before that give back what an outage left of an earlier claim."""
        if (left := self._left_behind.pop(ledger_id, None)) is not None:
            await self._give_back(left)
        session = self.cluster.store.session.id
        try:
            return await underreplication.claim(self.cluster, ledger_id, self.name)
        except StoreError:
            if session is not None:
                doubted = Claim(ledger_id=ledger_id, mark=mark, version=0, session=session)
                self._left_behind[ledger_id] = doubted
            raise

    async def _give_back(self, claim: Claim) -> None:
        """Give a claim back. If the store fails, that is done before the ledger's next claim.

        Otherwise no process could claim the ledger as long as the session lives.
        """
        try:
            await underreplication.release(self.cluster, claim)
        except StoreError as error:
            _logger.warning(
                "the claim of ledger %d is given back later: %s", claim.ledger_id, error
            )
            kept = self._left_behind.values()
            self._left_behind = {one.ledger_id: one for one in kept if one.session == claim.session}
            self._left_behind[claim.ledger_id] = claim

    async def _claimed(self, claim: Claim, *, respread: bool) -> Attempt:
        """Repair or respread a claimed ledger, and end the claim in every case."""
        ended, obstacles = False, tuple[Obstacle, ...]()
        starts: dict[BookieId, Check] = {}
        try:
            if claim.mark.replicas:
                obstacles = await self._repair(claim, starts)
            elif respread:
                obstacles = await self._respread(claim)
            else:
                return Attempt(spread=True)
            if not obstacles:
                finished = await underreplication.finish(self.cluster, claim, starts.values())
                ended = True
                return Attempt(again=not finished)
        except SessionLostError:
            return Attempt(again=True)  # the claim ended with it; other processes see the mark
        except UnreadableError as error:
            obstacles = (_unreadable(error, frozenset(claim.mark.replicas)),)
        finally:
            if not ended:
                await self._give_back(claim)
        left = frozenset(bookie for one in obstacles for bookie in one.bookies)
        if done := set(claim.mark.replicas) - left:
            checks = [starts[bookie] for bookie in sorted(done & starts.keys())]
            await underreplication.unmark(self.cluster, claim.ledger_id, done, checks)
        return self._told(claim.ledger_id, obstacles)

    async def _repair(self, claim: Claim, starts: dict[BookieId, Check]) -> tuple[Obstacle, ...]:
        """Do what can be done now, and give the obstacles.

        Each bookie that is looked at gets a check into ``starts`` before the first look. The check
        holds while the bookie is in that start, and no bookie is taken off the mark without it.
        """
        ledger_id, named = claim.ledger_id, frozenset(claim.mark.replicas)
        stored = await ledgers.read(self.cluster, ledger_id, sync=True)
        if stored is None:
            self._graces.forget(ledger_id)
            self.metrics.marks_stale += 1
            return ()
        ledger = stored.metadata
        concerned = named & ledger.bookies
        held = self._held(ledger_id, concerned)
        may_be_mended = concerned - held.keys()
        there = self._there(may_be_mended)
        for bookie in there:
            if (check := await bookie_records.check(self.cluster, bookie)) is not None:
                starts[bookie] = check
        key = digests.master_key(ledger.password)
        limbo = await limbos.find(self.client.bookies.pool, ledger_id, key, there)
        permitted = may_be_mended - limbo.silent.keys()
        work = self._work(ledger_id, ledger, (self._pace,))
        obstacles = await work.finished_parts(copy_plan.finished(ledger), permitted)
        if not ledger.is_closed:
            obstacles += await self._last(ledger_id, ledger, work, permitted, limbo.boots.keys())
        obstacles += await self._answer_again(claim, limbo, obstacles)
        told = {bookie for one in obstacles for bookie in one.bookies}
        obstacles += self._moved_since(ledger_id, may_be_mended - told, set(there) - told)
        obstacles += held.values()
        if not obstacles:
            self.metrics.ledgers_repaired += work.changed
            self.metrics.marks_stale += not work.changed
        return tuple(obstacles)

    async def _last(
        self,
        ledger_id: LedgerId,
        ledger: LedgerMetadata,
        work: LedgerRepair,
        named: Collection[BookieId],
        in_limbo: Set[BookieId],
    ) -> list[Obstacle]:
        """Leave the last fragment to its writer for a grace, then recover and repair the ledger."""
        last = ledger.last_fragment
        causes = copy_plan.causes(last.ensemble, named, self.view.topology)
        gone = frozenset(
            last.ensemble[at]
            for at, cause in causes.items()
            if cause is not None or last.ensemble[at] in in_limbo
        )
        if not gone:
            self._graces.forget(ledger_id)
            return []
        grace_ms = self.view.policy.repair.open_ledger_grace_ms
        if not self._graces.over(ledger_id, last, grace_ms=grace_ms, now_s=self._loop.time()):
            text = f"ledger {ledger_id}: its writer has {grace_ms} ms to replace a lost bookie"
            return [Obstacle(trouble=RepairTrouble.OPEN, text=text, bookies=gone)]
        # Copying finished fragments takes long; the writer may have done its part meanwhile.
        stored = await ledgers.read(self.cluster, ledger_id, sync=True)
        if stored is None or stored.metadata.last_fragment != last:
            text = f"ledger {ledger_id}: its writer went on elsewhere while it was repaired"
            return [Obstacle(trouble=RepairTrouble.OVERTAKEN, text=text, bookies=gone)]
        try:
            closed = await work.recover(ledger, gone)
        except RepairStoppedError as error:
            return [Obstacle(trouble=error.trouble, text=str(error), bookies=gone)]
        self._graces.forget(ledger_id)
        work = self._work(ledger_id, closed, (self._pace,))
        parts = [
            part
            for part in copy_plan.finished(closed)
            if part.fragment.first_entry >= last.first_entry
        ]
        return await work.finished_parts(parts, named)

    async def _answer_again(
        self, claim: Claim, limbo: limbos.LimboFound, obstacles: Collection[Obstacle]
    ) -> list[Obstacle]:
        """End the limbo of the bookies that have all entries again.

        Give an obstacle for each bookie that did not answer, or refused.
        """
        ledger_id, pool = claim.ledger_id, self.client.bookies.pool
        found = [
            _silent(ledger_id, bookie, error) for bookie, error in sorted(limbo.silent.items())
        ]
        left = {bookie for one in obstacles for bookie in one.bookies}
        for bookie, boot_epoch in sorted(limbo.boots.items()):
            if bookie in left:
                continue
            try:
                await limbos.end(self.cluster, pool, claim, bookie, boot_epoch)
            except errors.ProtocolError as error:
                found.append(_silent(ledger_id, bookie, error))
            else:
                self.metrics.limbos_ended += 1
        return found

    async def _respread(self, claim: Claim) -> tuple[Obstacle, ...]:
        ledger_id = claim.ledger_id
        stored = await ledgers.read(self.cluster, ledger_id, sync=True)
        if stored is None:
            return ()
        work = self._work(ledger_id, stored.metadata, (self._respread_pace, self._pace))
        obstacles = await respreading.spread(
            self.view, stored.metadata, ledger_id, work, self.chance
        )
        if not obstacles:
            self.metrics.ledgers_respread += work.changed
            self.metrics.marks_stale += not work.changed
        return tuple(obstacles)

    def _work(
        self, ledger_id: LedgerId, ledger: LedgerMetadata, paces: tuple[BytePace, ...]
    ) -> LedgerRepair:
        client = self.client
        copier = Copier(
            ledger=ledger,
            reading=client.reading(ledger_id, ledger),
            bookies=client.bookies,
            paces=paces + self._further,
            metrics=self.metrics,
        )
        return LedgerRepair(ledger_id, client, self.view, copier, self.chance, self.metrics)

    def _held(self, ledger_id: LedgerId, bookies: Collection[BookieId]) -> dict[BookieId, Obstacle]:
        """Give an obstacle for each bookie whose copies may not be made again now."""
        found = {}
        for bookie in sorted(bookies):
            if (held := self.view.what_holds_anew(bookie)) is not None:
                text = f"ledger {ledger_id}: {bookie}: {held.by}: {held.text}"
                found[bookie] = Obstacle(
                    trouble=RepairTrouble.HELD, text=text, bookies=frozenset({bookie})
                )
        return found

    def _there(self, bookies: Iterable[BookieId]) -> list[BookieId]:
        """Give those of the bookies that are registered and not draining, sorted."""
        return sorted(b for b in bookies if copy_plan.cause_of(b, self.view.topology) is None)

    def _moved_since(
        self, ledger_id: LedgerId, bookies: Set[BookieId], there: Set[BookieId]
    ) -> list[Obstacle]:
        """Give an obstacle for each bookie that went away, or came back, since ``there`` was found.

        A bookie that came back was not asked whether it is in limbo.
        """
        found = []
        for bookie in sorted(there ^ set(self._there(bookies))):
            cause = copy_plan.cause_of(bookie, self.view.topology)
            was, is_now = ("there", cause) if cause is not None else ("not there", "there")
            text = f"ledger {ledger_id}: {bookie} was {was} when it was looked at, and is {is_now}"
            found.append(
                Obstacle(trouble=RepairTrouble.OVERTAKEN, text=text, bookies=frozenset({bookie}))
            )
        return found

    def _told(self, ledger_id: LedgerId, obstacles: tuple[Obstacle, ...]) -> Attempt:
        """Count and log the obstacles, except holds and graces, which are no failures."""
        failures = [
            one for one in obstacles if one.trouble not in (RepairTrouble.HELD, RepairTrouble.OPEN)
        ]
        self.metrics.failed.update(one.trouble for one in failures)
        self._lines.met(ledger_id, [(one.trouble, one.text) for one in failures])
        return Attempt(obstacles=obstacles)


def _unreadable(error: UnreadableError, bookies: frozenset[BookieId]) -> Obstacle:
    return Obstacle(trouble=RepairTrouble.METADATA, text=str(error), bookies=bookies)


def _silent(ledger_id: LedgerId, bookie: BookieId, error: Exception) -> Obstacle:
    text = f"ledger {ledger_id}: {bookie}: {type(error).__name__}: {error}"
    return Obstacle(trouble=RepairTrouble.NO_SOURCE, text=text, bookies=frozenset({bookie}))
