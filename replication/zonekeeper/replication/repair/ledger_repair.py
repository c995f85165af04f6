"""Repairing one claimed ledger; a hold stops it before each copy, and before the swap.

Every finished fragment comes first, then the one that may grow.

The present state decides, not the mark. A member that is lost or draining is replaced. Every other
member that the mark names is looked at entry by entry. A bookie that the ledger does not name any
more is done. The order of steps in a fragment never changes: choose bookies for all positions to
replace at once; copy; swap by compare-and-set. The swap comes only when every newcomer has all
entries of its position on its disk, and only if the fragment is still the one that the choice was
made for. So a repair may end anywhere, or be overtaken: metadata stays true, and copies are the
only cost.

A newcomer counts only as long as it is in the start in which it took its copy. The repair asks for
that before the swap and after it. A bookie that gets an empty disk after the swap is in limbo for
the ledger, because the ledger names it. A newcomer that was started again, or does not answer, when
it is asked after the swap may have got an empty disk just before the swap, and may deny entries
that it took. The repair marks it, so that it is looked at entry by entry. The newcomers are asked
again even when the outcome of the swap is unknown, and the ledger is not done before. Not promised:
if the repairing process dies between the swap and the mark, such a bookie is not noticed.

Whether the work may go on is asked before each carrier, and last inside the compare-and-set. The
answer covers the gates of all members that leave. It also covers that a member that leaves because
it is lost is still lost, and that one that leaves because it is draining is still draining.

The last fragment of a ledger that is not closed belongs to its writer, which replaces a lost bookie
itself. After a grace, which the caller waits for, the ledger is fenced and recovered. Its last
fragment is then repaired like the others.
"""

import asyncio
import logging
from collections.abc import Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from zonekeeper.client.api.client import Client
from zonekeeper.client.base import errors as client_errors
from zonekeeper.metadata.formats.ledger_metadata import IllegalChangeError, LedgerMetadata
from zonekeeper.metadata.formats.malformed import UnreadableError
from zonekeeper.metadata.ledgers import ledgers, underreplication
from zonekeeper.metadata.ledgers.ledgers import NoLedgerError
from zonekeeper.metadata.store.errors import StoreError
from zonekeeper.metadata.store.store import Check
from zonekeeper.placement.base.chance import Chance
from zonekeeper.placement.base.ids import BookieId, LedgerId
from zonekeeper.placement.ensembles.candidates import Avoid, EnsembleRequest
from zonekeeper.placement.ensembles.failures import PlacementError
from zonekeeper.placement.zones.observation import Observation
from zonekeeper.replication.decisions import copy_plan
from zonekeeper.replication.decisions.copy_plan import (
    Cause,
    Finished,
    LowersPlacementError,
    OvertakenError,
)
from zonekeeper.replication.repair.copying import BadCopyError, Copier, GoOn
from zonekeeper.replication.repair.delivery import Delivery, TargetFailedError
from zonekeeper.replication.repair.repair_metrics import (
    RepairMetrics,
    RepairStoppedError,
    RepairTrouble,
)
from zonekeeper.replication.view.rereading import Reread
from zonekeeper.replication.view.view import View
from zonekeeper.wire.formats import errors

#: At most so many ensembles are tried for one fragment before it is left for later.
TARGETS_TRIED_MAX: Final = 3
#: The period in which it is asked whether a running recovery may go on.
_ASK_EVERY_S: Final = 0.25
#: The pause before the mark of a newcomer is tried again, if the store did not answer.
_MARK_AGAIN_S: Final = 1.0
#: The time of a newcomer's mark. ``marked_ms < published_ms`` for every loss, so the auditor never
#: takes such a mark off: only a replicator does, after a look at the copy.
_UNTIMED_MS: Final = 0
_DOWN: Final = frozenset({Observation.SUSPECT, Observation.DOWN})

Result = TypeVar("Result")

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    """Why the copies of some bookies are not repaired yet."""

    trouble: RepairTrouble
    text: str
    #: Empty: the obstacle is in the way of the whole ledger.
    bookies: frozenset[BookieId]


class LedgerRepair:
    """The work on one ledger."""

    def __init__(
        self,
        ledger_id: LedgerId,
        client: Client,
        view: View,
        copier: Copier,
        chance: Chance,
        metrics: RepairMetrics,
    ) -> None:
        self._id = ledger_id
        self._client = client
        self._view = view
        self._copier = copier
        self._chance = chance
        self._metrics = metrics
        #: The fragments' ensembles by first entry, with the swaps of this repair.
        self._ensembles = {one.first_entry: one.ensemble for one in copier.ledger.fragments}
        #: Newcomers that may deny entries that they took. They stay marked even when all other
        #: bookies are done.
        self._doubted = set[BookieId]()
        #: Was anything copied, put in or swapped?
        self.changed = False

    async def finished_parts(
        self, parts: Collection[Finished], named: Collection[BookieId]
    ) -> list[Obstacle]:
        """Repair the copies of the bookies ``named`` in these fragments; give the obstacles."""
        obstacles = []
        for part in parts:
            concerned = frozenset(named).intersection(part.fragment.ensemble)
            if not concerned:
                continue
            try:
                await self._part(part, concerned)
            except NoLedgerError:
                return []  # the ledger was deleted meanwhile: there is nothing to repair any more
            except RepairStoppedError as error:
                obstacles.append(self._obstacle(error.trouble, error, concerned))
            except (StoreError, UnreadableError, IllegalChangeError) as error:
                obstacles.append(self._obstacle(RepairTrouble.METADATA, error, concerned))
        return obstacles + self._doubts()

    def _doubts(self) -> list[Obstacle]:
        """Give an obstacle for the newcomers to look at again, so that their mark stays."""
        if not self._doubted:
            return []
        text = (
            f"ledger {self._id}: started again since they took their copies: "
            f"{', '.join(sorted(self._doubted))}"
        )
        bookies = frozenset(self._doubted)
        return [Obstacle(trouble=RepairTrouble.OVERTAKEN, text=text, bookies=bookies)]

    async def replace(self, part: Finished, leaving: Mapping[int, Cause], go_on: GoOn) -> None:
        """Replace members of a fragment. If a newcomer fails, choose again without it."""
        tried: list[TargetFailedError] = []
        while len(tried) < TARGETS_TRIED_MAX:
            avoided = frozenset(error.bookie for error in tried)
            after = self._choose(part, leaving, avoided)
            try:
                await self.move(part, leaving, after, go_on)
            except TargetFailedError as error:
                tried.append(error)
            else:
                return
        raise RepairStoppedError(RepairTrouble.TARGETS_FAILED, "; ".join(map(str, tried)))

    async def move(
        self,
        part: Finished,
        leaving: Mapping[int, Cause],
        after: tuple[BookieId, ...],
        go_on: GoOn,
    ) -> None:
        """Copy to the newcomers of ``after`` what their positions hold, then swap ``after`` in.

        The swap is committed only while the gates stand as they were read just before: a request
        may wait for a connection, and the zone may be held by then.
        """
        newcomers = await self._copier.copy(part, after, leaving, go_on)
        for newcomer in newcomers:
            await newcomer.check_start()
        named = swapped = False

        def decide(ledger: LedgerMetadata) -> LedgerMetadata | None:
            nonlocal named, swapped
            changed = copy_plan.swapped(ledger, part.fragment, after)
            if changed is None:  # done, perhaps by a write whose answer was lost
                named = True
                return None
            go_on()
            for position in leaving:
                target = self._view.topology.get(after[position])
                if target is None or not target.readable:
                    text = f"{after[position]} went away after it was copied to"
                    raise RepairStoppedError(RepairTrouble.OVERTAKEN, text)
            named = swapped = True
            return changed

        # Respreading is held by any zone; a repair by those of the copies that leave.
        spreads = Cause.RESPREAD in leaving.values()
        asked = [] if spreads else [part.fragment.ensemble[at] for at in leaving]

        async def alongside() -> Sequence[Check]:
            anew = await self._view.reread(asked)
            go_on(anew)
            return anew.checks

        try:
            await ledgers.change(self._client.cluster, self._id, decide, alongside=alongside)
        except OvertakenError as error:
            raise RepairStoppedError(RepairTrouble.OVERTAKEN, str(error)) from error
        else:
            self.changed = True
            self._metrics.fragments_swapped += swapped
            self._ensembles[part.fragment.first_entry] = after
        finally:
            # After an error, too: a write that was tried may have been applied.
            for newcomer in newcomers if named else ():
                await self._look_again(newcomer)

    async def _look_again(self, newcomer: Delivery) -> None:
        """Mark a newcomer that was started again, or does not answer: its copy is looked at."""
        try:
            await newcomer.check_start()
        except TargetFailedError as error:
            _logger.warning("ledger %d: a copy is to be looked at again: %s", self._id, error)
            self._doubted.add(newcomer.bookie)
            await self._mark(newcomer.bookie)

    async def _mark(self, doubted: BookieId) -> None:
        """Mark a newcomer, however long the store is out of reach: only the mark remembers it."""
        while True:
            try:
                # A mark that the ledger has already keeps its own time.
                await underreplication.mark(
                    self._client.cluster, self._id, [doubted], at_ms=_UNTIMED_MS
                )
            except StoreError as error:
                if not error.retryable:
                    raise
                _logger.warning("ledger %d: %s is marked later: %s", self._id, doubted, error)
                await asyncio.sleep(_MARK_AGAIN_S)
            else:
                return

    async def recover(self, ledger: LedgerMetadata, named: Collection[BookieId]) -> LedgerMetadata:
        """Fence an open ledger and close it, as long as the gates of the lost copies permit."""
        members = ledger.last_fragment.ensemble
        causes = copy_plan.causes(members, named, self._view.topology)
        # A registered member that makes a recovery necessary is in limbo: it may have holes.
        leaving = {at: cause or Cause.HOLES for at, cause in causes.items()}
        opening = self._client.open(self._id, password=ledger.password, recover=True)
        try:
            reader = await _while_permitted(opening, self._go_on(members, leaving))
        except client_errors.ClientError as error:
            raise RepairStoppedError(RepairTrouble.RECOVERY_FAILED, str(error)) from error
        self._metrics.ledgers_recovered += 1
        return reader.metadata

    async def _part(self, part: Finished, named: frozenset[BookieId]) -> None:
        """Repair one fragment's copies on the members ``named``.

        If one copy cannot be looked at now, the others are replaced all the same.
        """
        ensemble = part.fragment.ensemble
        leaving: dict[int, Cause] = {}
        unmended: RepairStoppedError | None = None
        for position, cause in copy_plan.causes(ensemble, named, self._view.topology).items():
            if cause is not None:
                leaving[position] = cause
                continue
            try:
                if await self._mend(part, position):
                    leaving[position] = Cause.BAD
            except RepairStoppedError as error:
                unmended = error
        if leaving:
            await self._replace(part, leaving)
        if unmended is not None:
            raise unmended

    async def _replace(self, part: Finished, leaving: Mapping[int, Cause]) -> None:
        ensemble = part.fragment.ensemble
        try:
            await self.replace(part, leaving, self._go_on(ensemble, leaving))
        except PlacementError as error:
            # Good copies may have to stay where they are. Lost and bad ones are replaced anyway.
            lost = {at: c for at, c in leaving.items() if c in (Cause.LOST, Cause.BAD)}
            if not isinstance(error, LowersPlacementError) or lost in ({}, leaving):
                raise RepairStoppedError(RepairTrouble.NO_TARGET, str(error)) from error
            await self._replace_lost(part, lost, error)

    async def _replace_lost(
        self, part: Finished, lost: Mapping[int, Cause], others: LowersPlacementError
    ) -> None:
        try:
            await self.replace(part, lost, self._go_on(part.fragment.ensemble, lost))
        except PlacementError as error:
            raise RepairStoppedError(RepairTrouble.NO_TARGET, str(error)) from error
        raise RepairStoppedError(RepairTrouble.NO_TARGET, str(others)) from others

    async def _mend(self, part: Finished, position: int) -> bool:
        """Complete the copy of a registered member; True: the copy has to be replaced."""
        bookie = part.fragment.ensemble[position]
        go_on = self._go_on(part.fragment.ensemble, {position: Cause.HOLES})
        try:
            put_in = await self._copier.mend(part, position, go_on)
        except BadCopyError as error:
            _logger.warning("ledger %d: a copy is replaced: %s", self._id, error)
            return True
        except TargetFailedError as error:
            if error.error.retryable or isinstance(error.error, errors.StartedAgain):
                raise RepairStoppedError(RepairTrouble.NO_SOURCE, str(error)) from error
            _logger.warning("%s keeps its holes, and is replaced: %s", bookie, error)
            return True
        self.changed = self.changed or put_in > 0
        return False

    def _choose(
        self, part: Finished, leaving: Mapping[int, Cause], avoided: frozenset[BookieId]
    ) -> tuple[BookieId, ...]:
        firsts = list(self._ensembles)
        at = firsts.index(part.fragment.first_entry)
        beside = (self._ensembles[first] for first in firsts[max(0, at - 1) : at + 2])
        preferred = dict.fromkeys(
            bookie
            for ensemble in beside
            for bookie in ensemble
            if bookie not in part.fragment.ensemble
        )
        return copy_plan.replacement(
            self.request(avoided), part.fragment.ensemble, leaving, tuple(preferred), self._chance
        )

    def request(self, avoided: frozenset[BookieId] = frozenset()) -> EnsembleRequest:
        """Give what newcomers are chosen by: the present rules and the present bookies."""
        view = self._view
        down = frozenset(
            zone for zone, record in view.zones.items() if record.observed.state in _DOWN
        )
        return EnsembleRequest(
            topology=view.topology,
            quorums=self._copier.reading.quorums,
            rules=view.policy.placement,
            avoid=Avoid(bookies=avoided, quarantined=self._client.bookies.suspects, zones=down),
        )

    def _go_on(self, ensemble: tuple[BookieId, ...], leaving: Mapping[int, Cause]) -> GoOn:
        view = self._view

        def go_on(anew: Reread | None = None) -> None:
            for position, cause in leaving.items():
                bookie = ensemble[position]
                if (held := view.what_holds_anew(bookie, anew)) is not None:
                    raise RepairStoppedError(
                        RepairTrouble.HELD, f"{bookie}: {held.by}: {held.text}"
                    )
                now = copy_plan.cause_of(bookie, view.topology)
                if cause in (Cause.LOST, Cause.DRAINING) and now is not cause:
                    text = f"{bookie} was {cause} and is {now or 'there'} now"
                    raise RepairStoppedError(RepairTrouble.OVERTAKEN, text)

        return go_on

    def _obstacle(
        self, trouble: RepairTrouble, error: Exception, bookies: frozenset[BookieId]
    ) -> Obstacle:
        text = f"ledger {self._id}: {error}"
        return Obstacle(trouble=trouble, text=text, bookies=bookies)


async def _while_permitted(work: Coroutine[None, None, Result], go_on: GoOn) -> Result:
    """Run work until it ends, or until ``go_on`` raises; the work may be cancelled anywhere."""
    task = asyncio.ensure_future(work)
    try:
        while True:
            go_on()
            done, _ = await asyncio.wait([task], timeout=_ASK_EVERY_S)
            if done:
                return task.result()
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait([task])
