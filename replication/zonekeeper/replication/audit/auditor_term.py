"""One term of an auditor: jobs side by side, so that no job waits for another, or for a gate.

- *looking*, at every look of the view: which bookies are lost or have lost data, which of them may
  be published, which are back;
- *listing*, when a job asks for it: first what the index knows, then all ledgers (``publishing``);
- *errands*: written-off marks are made and taken back; marks of returned bookies are looked at;
- *marks awaited*: all ledgers are listed again when no ledger of a lost bookie is marked any more.
  A bookie that is registered and had lost data has it again then;
- *checks*: listings check bookies and placement; the check of replicas reads every entry;
- *the delay*: the policy's delay is mirrored into Apache's node. A write there asks for a listing,
  as it does in Apache BookKeeper. Our own mirroring does so, too: a listing too many does no harm;
- *risk*: an alert for all fragments that are at their last copy or out of reach, again whenever
  there are others (``risk``); *room*: headroom.

A bookie that ledgers name, and that has no cookie, is lost like any other. Its zone is unknown. So
it is published only after it has been unknown for the recovery delay, and while nothing is held.
"""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Final, TypeAlias, assert_never

from zonekeeper.client.api.client import Surroundings
from zonekeeper.client.bookies.link_pool import LinkPool
from zonekeeper.metadata.bookies import bookie_records
from zonekeeper.metadata.bookies.bookie_records import Mark
from zonekeeper.metadata.cluster import repair_controls
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.cluster.repair_controls import PeriodicCheck
from zonekeeper.metadata.formats.malformed import UnreadableError
from zonekeeper.metadata.ledgers import underreplication
from zonekeeper.metadata.ledgers.ledgers import StoredLedger
from zonekeeper.metadata.store.background import together
from zonekeeper.metadata.store.errors import StoreError
from zonekeeper.placement.base.ids import BookieId, LedgerId
from zonekeeper.placement.base.units import MINUTE_MS, SECOND_MS
from zonekeeper.replication.audit.auditor_metrics import AuditorMetrics
from zonekeeper.replication.audit.check_progress import CheckProgress
from zonekeeper.replication.audit.check_times import CheckTimes, Interval
from zonekeeper.replication.audit.checks_replicas import ReplicasCheck
from zonekeeper.replication.audit.marking import Marker
from zonekeeper.replication.audit.publishing import PassFound, Permissions, Publisher
from zonekeeper.replication.audit.replica_reading import ReplicaReader
from zonekeeper.replication.audit.returning import Returning
from zonekeeper.replication.audit.room import RoomWatch
from zonekeeper.replication.decisions import auditing
from zonekeeper.replication.decisions.auditing import Audit, Looked
from zonekeeper.replication.decisions.checks_placement import PlacementCheck
from zonekeeper.replication.decisions.ledger_index import LedgerIndex
from zonekeeper.replication.decisions.risk import Risk
from zonekeeper.replication.view import listing
from zonekeeper.replication.view.alerts import Chronicle
from zonekeeper.replication.view.pace import BytePace
from zonekeeper.replication.view.view import View

_ROOM_EVERY_MS: Final = 10 * MINUTE_MS
#: At most this long after one search for ledgers that the index lacks, there is another.
_NEW_LEDGERS_EVERY_MS: Final = MINUTE_MS
#: So many fragments are counted before other tasks of the event loop get their turn.
_SLICE: Final = 5_000

_Errand: TypeAlias = auditing.WriteOff | auditing.TakeBack | auditing.Unmark | auditing.Remembers

#: The checks that a listing makes.
_BY_LISTING: Final[Mapping[PeriodicCheck, Interval]] = {
    PeriodicCheck.ALL_LEDGERS: lambda checks: checks.bookies_ms,
    PeriodicCheck.PLACEMENT: lambda checks: checks.placement_ms,
}

_logger = logging.getLogger(__name__)


class Term:
    """What one auditor knows and does while it leads."""

    def __init__(
        self,
        cluster: Cluster,
        view: View,
        pool: LinkPool,
        metrics: AuditorMetrics,
        chronicle: Chronicle,
        surroundings: Surroundings,
    ) -> None:
        self._cluster = cluster
        self._view = view
        self._metrics = metrics
        self._chronicle = chronicle
        self._chance = surroundings.chance
        self._wall_ms = surroundings.wall_ms
        self._loop = asyncio.get_running_loop()
        self._audit = Audit()
        self._index: LedgerIndex | None = None
        marker = Marker(cluster, metrics, surroundings.wall_ms)
        permissions = Permissions(
            lacking=lambda: self._look.lacking,
            may_publish=lambda bookie: (
                bookie in self._look.publishable and self._may_publish(bookie)
            ),
            may_respread=lambda: view.policy.repair.respread and view.what_holds(None) is None,
        )
        pace = BytePace(lambda: view.policy.repair.respread_bytes_per_second)
        self._publisher = Publisher(cluster, marker, permissions)
        self._returning = Returning(cluster, pool, marker)
        self._replicas = ReplicasCheck(
            cluster, view, ReplicaReader(view, pool, metrics, pace), marker, metrics
        )
        self._room = RoomWatch(view, pool, metrics)
        self._times = CheckTimes(cluster, view, surroundings.wall_ms)
        #: The bookies that ledgers name and that have no cookie. For each of them: the first look,
        #: in the loop's time, since which it has been so in every look.
        self._unknown: dict[BookieId, int] = {}
        #: For a lost bookie: the wall time of the first look in which it could be published. It is
        #: kept until the bookie is back and its marks were looked at.
        self._published_ms: dict[BookieId, int] = {}
        self._placement_due = False
        self._listing_wanted = asyncio.Event()
        self._risk_moved = asyncio.Event()
        #: For each check: cleared from when a check is asked for until its time is written.
        self._noted = {check: asyncio.Event() for check in PeriodicCheck}
        for noted in self._noted.values():
            noted.set()
        self._errands = asyncio.Queue[_Errand]()
        self._queued: set[_Errand] = set()

    async def run(self) -> None:
        """Run all jobs, until cancelled."""
        self._handle(self._looked())
        for check, interval_ms in _BY_LISTING.items():
            if await self._times.due_in_ms(check, interval_ms) == 0:
                self._ask(check)
        self._handle(auditing.ListingAsked())
        await together(
            [
                self._keep_looking(),
                self._list_when_wanted(),
                self._run_errands(),
                self._await_marks(),
                *(self._ask_for_listings(*check) for check in _BY_LISTING.items()),
                self._check_replicas(),
                self._mirror_delay(),
                self._heed_delay(),
                self._watch_risk(),
                self._watch_room(),
            ]
        )

    # ── deciding ──

    @property
    def _look(self) -> Looked:
        assert self._audit.looked is not None, "the first look comes before everything"
        return self._audit.looked

    def _handle(self, event: auditing.Event) -> None:
        self._audit, effects = auditing.handle(self._audit, event)
        for effect in effects:
            if isinstance(effect, auditing.BeginListing):
                self._listing_wanted.set()
            elif effect not in self._queued:
                self._queued.add(effect)
                self._errands.put_nowait(effect)

    async def _keep_looking(self) -> None:
        seen = 0
        while True:
            seen = await self._view.changed(seen)
            self._handle(self._looked())

    def _looked(self) -> Looked:
        """Say which bookies are registered, lost and forgetful, and which may be published."""
        view, now_ms = self._view, self._now_ms()
        named = self._index.bookies if self._index is not None else frozenset[BookieId]()
        unknown = sorted(one for one in named if one not in view.topology)
        self._unknown = {one: self._unknown.get(one, now_ms) for one in unknown}
        missing = view.missing
        lost = frozenset({*missing, *unknown})
        forgetful = view.forgetful
        publishable = frozenset(
            one for one in sorted(lost | forgetful.keys()) if self._may_publish(one)
        )
        wall_ms = self._wall_ms()
        self._published_ms = {
            one: self._published_ms.get(one, wall_ms)
            for one in sorted(publishable & lost | self._published_ms.keys())
        }
        look = Looked(
            present=frozenset(one.id for one in view.topology if one.readable),
            lost=lost,
            publishable=publishable,
            written_off=view.written_off,
            forgetful=forgetful,
        )
        self._count(look)
        return look

    def _may_publish(self, bookie: BookieId) -> bool:
        """May the ledgers of a lost or forgetful bookie be published at this moment?"""
        view = self._view
        if bookie in view.forgetful:
            return view.what_holds(view.topology.location(bookie)) is None
        if bookie in view.missing:
            return view.what_holds_publishing(bookie) is None
        since_ms = self._unknown.get(bookie)
        if since_ms is None or bookie in view.topology:
            return False
        waited = self._now_ms() - since_ms >= view.policy.repair.bookie_recovery_delay_ms
        return waited and view.what_holds(None) is None

    def _count(self, look: Looked) -> None:
        metrics, before = self._metrics, self._audit.looked
        held = look.lost - look.publishable
        metrics.lost_bookies, metrics.held_bookies = len(look.lost), len(held)
        metrics.unknown_bookies = len(self._unknown)
        metrics.forgetful_bookies = len(look.forgetful)
        index = self._index
        metrics.held_copies = 0 if index is None else sum(index.count_of(one) for one in held)
        if before is None or before.lacking != look.lacking:
            self._risk_moved.set()

    # ── listing ──

    async def _list_when_wanted(self) -> None:
        while True:
            await self._listing_wanted.wait()
            self._listing_wanted.clear()
            await self._list()
            # A bookie that is held and permitted in turns asks for one listing after another.
            await self._pause(self._view.policy.zone_watch.evaluate_every_ms)

    async def _list(self) -> None:
        self._handle(auditing.ListingBegan())
        policy, began_ms = self._view.policy, self._wall_ms()
        placement = None
        if self._placement_due:
            placement = PlacementCheck(self._view.topology, policy.placement, self._chance)
        if self._index is not None:
            fresh = (self._audit.covering or frozenset()) - self._audit.covered.keys()
            published = await self._publisher.known(self._index, fresh)
            self._metrics.published_total += published
            if published:
                _logger.info(
                    "marked %d ledgers of %s for repair",
                    published,
                    ", ".join(sorted(fresh)),
                    extra={"marked": published},
                )
        found = await self._publisher.every(placement)
        self._take_in(found)
        named = {bookie: found.index.count_of(bookie) for bookie in self._look.lacking}
        self._handle(
            auditing.ListingEnded(
                named=named,
                passed_over=frozenset(found.passed_over),
                unreadable=found.unreadable > 0,
            )
        )
        await self._note(PeriodicCheck.ALL_LEDGERS, began_ms)
        if placement is not None:
            self._placement_due = False
            await self._note(PeriodicCheck.PLACEMENT, began_ms)

    def _take_in(self, found: PassFound) -> None:
        metrics, index = self._metrics, found.index
        self._index = index
        metrics.listings_total += 1
        self._measure()
        metrics.unreadable_ledgers = found.unreadable
        metrics.published_total += found.published
        metrics.respread_marked_total += found.respread
        if found.by_level:
            metrics.ledgers_by_placement.clear()
            for level, count in found.by_level.items():
                metrics.ledgers_by_placement[level.name] = count
            metrics.ledgers_undecided = found.undecided
        self._risk_moved.set()
        _logger.info(
            "listed %d ledgers (%d cannot be read), marked %d for lost bookies and %d to be "
            "moved; the index takes %d bytes",
            index.ledgers,
            found.unreadable,
            found.published,
            found.respread,
            index.size_bytes,
            extra={"ledgers": index.ledgers, "marked": found.published},
        )

    async def _await_marks(self) -> None:
        """Handle ``MarksGone`` for each covered bookie of whose ledgers none is marked any more."""
        while True:
            await self._pause(self._view.policy.zone_watch.evaluate_every_ms)
            index, awaited = self._index, self._audit.awaited
            if index is None or not awaited:
                continue
            try:
                done = await self._without_marks(index, awaited)
            except StoreError as error:
                await listing.pause(error, "looking for what is still to be repaired")
                continue
            for bookie in done:
                self._handle(auditing.MarksGone(bookie))

    async def _without_marks(
        self, index: LedgerIndex, awaited: frozenset[BookieId]
    ) -> list[BookieId]:
        left = sorted(awaited)
        async for ledger_id in underreplication.ids(self._cluster):
            left = [bookie for bookie in left if not index.names(bookie, ledger_id)]
            if not left:
                break
        return left

    # ── errands ──

    async def _run_errands(self) -> None:
        while True:
            errand = await self._errands.get()
            self._queued.discard(errand)
            try:
                await listing.until_done(partial(self._run, errand), str(errand))
            except UnreadableError as error:
                _logger.warning("%s is not done: %s", errand, error)

    async def _run(self, errand: _Errand) -> None:
        match errand:
            case auditing.WriteOff(bookie):
                await self._write_off(bookie)
            case auditing.TakeBack(bookie):
                await bookie_records.write_off(self._cluster, bookie, None)
            case auditing.Unmark(bookies):
                await self._unmark(bookies)
            case auditing.Remembers(bookie, boot_epoch):
                await self._remember(bookie, boot_epoch)
            case _:
                assert_never(errand)

    async def _unmark(self, bookies: frozenset[BookieId]) -> None:
        # An earlier errand may have looked at the marks of some of these bookies already.
        known = self._published_ms
        published_ms = {one: known[one] for one in sorted(bookies) if one in known}
        self._metrics.unmarked_total += await self._returning.unmark(published_ms)
        for bookie in bookies - self._look.lost:
            self._published_ms.pop(bookie, None)

    async def _remember(self, bookie: BookieId, boot_epoch: int) -> None:
        await bookie_records.has_all_again(self._cluster, bookie, boot_epoch)
        reason = "it had lost data, and has again what its ledgers say that it holds"
        await self._chronicle.write("repaired", f"bookie {bookie}", reason)

    async def _write_off(self, bookie: BookieId) -> None:
        """Write a lost bookie off, unless it is back, or has no cookie, after the errand waited."""
        if bookie not in self._look.lost or bookie in self._unknown:
            return
        reason = "lost, and no ledger names it any more"
        mark = Mark(at_ms=self._wall_ms(), by="auditor", reason=reason)
        await bookie_records.write_off(self._cluster, bookie, mark)
        self._metrics.written_off_total += 1
        await self._chronicle.write("repaired", f"bookie {bookie}", reason)

    # ── checks ──

    async def _ask_for_listings(self, check: PeriodicCheck, interval_ms: Interval) -> None:
        while True:
            await self._noted[check].wait()
            await self._times.until_due(check, interval_ms)
            self._ask(check)

    def _ask(self, check: PeriodicCheck) -> None:
        self._noted[check].clear()
        self._placement_due = self._placement_due or check is PeriodicCheck.PLACEMENT
        self._handle(auditing.ListingAsked())

    async def _check_replicas(self) -> None:
        while True:
            progress = await self._replicas.begun()
            if progress is None:
                await self._times.until_due(
                    PeriodicCheck.REPLICAS, lambda checks: checks.replicas_ms
                )
                progress = CheckProgress(next_ledger=LedgerId(0), began_ms=self._wall_ms())
            await self._replicas.run(progress)
            await self._times.note(PeriodicCheck.REPLICAS, progress.began_ms)
            await self._replicas.end()

    async def _note(self, check: PeriodicCheck, wall_ms: int) -> None:
        await self._times.note(check, wall_ms)
        self._noted[check].set()

    # ── the delay ──

    async def _mirror_delay(self) -> None:
        seen = 0
        while True:
            seconds = -(-self._view.policy.repair.bookie_recovery_delay_ms // SECOND_MS)
            await listing.until_done(
                partial(repair_controls.write_delay_s, self._cluster, seconds),
                "mirroring the recovery delay",
            )
            seen = await self._view.changed(seen)

    async def _heed_delay(self) -> None:
        async with repair_controls.watch_delay(self._cluster) as writes:
            known: int | None = None
            async for write in writes:
                if known is not None:
                    self._handle(auditing.ListingAsked())
                known = write

    # ── risk and room ──

    async def _watch_risk(self) -> None:
        known = Risk()
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(_NEW_LEDGERS_EVERY_MS / 1_000):
                    await self._risk_moved.wait()
            moved = self._risk_moved.is_set()
            self._risk_moved.clear()
            if not (await self._index_new_ledgers() or moved):
                continue
            metrics = self._metrics
            now = await self._at_risk()
            metrics.fragments_at_last_copy = now.fragments_at_last_copy
            metrics.fragments_out_of_reach = now.fragments_out_of_reach
            if now.worse_than(known) or (known.fragments and not now.fragments):
                await self._alert(now, known)
            known = now
            await self._pause(self._view.policy.zone_watch.evaluate_every_ms)

    async def _index_new_ledgers(self) -> int:
        """Add to the index the ledgers that were created since its listing; give their number."""
        index = self._index
        if index is None:
            return 0
        before = index.ledgers
        async for listed in listing.walk(self._cluster, first=index.following):
            if isinstance(listed, StoredLedger):
                index.add(listed.id, listed.metadata)
        self._measure()
        return index.ledgers - before

    def _measure(self) -> None:
        if self._index is not None:
            self._metrics.ledgers = self._index.ledgers
            self._metrics.index_bytes = self._index.size_bytes

    async def _at_risk(self) -> Risk:
        found = Risk()
        if self._index is None:
            return found
        for at, (ledger_id, left) in enumerate(self._index.copies_left(self._look.lacking)):
            found.add(ledger_id, left)
            if at % _SLICE == 0:
                await asyncio.sleep(0)
        return found

    async def _alert(self, now: Risk, before: Risk) -> None:
        text = now.text(before)
        level, kind = (logging.ERROR, "at risk") if now.fragments else (logging.INFO, "safe")
        _logger.log(level, "%s", text)
        await self._chronicle.write(kind, "cluster", text)

    async def _watch_room(self) -> None:
        while True:
            await self._room.look()
            await self._pause(_ROOM_EVERY_MS)

    async def _pause(self, delay_ms: int) -> None:
        await asyncio.sleep(delay_ms / 1_000)

    def _now_ms(self) -> int:
        return int(self._loop.time() * 1_000)
