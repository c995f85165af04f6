"""Ask bookies for entries and for a ledger's end: the shell around ``ShareRead`` and ``Survey``.

This module notes outstanding requests, failures, slowness and bad copies of each bookie. The notes
are shared by all ledgers of the client, and decide which replica is asked first next time.
"""

import gc
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar, assert_never

from zonekeeper.client.base.asks import Asks
from zonekeeper.client.base.tasks import Tasks
from zonekeeper.client.bookies.bookies import Bookies
from zonekeeper.client.reading import checking, share_read, survey
from zonekeeper.client.reading.share_read import ReadStanding, ShareRead
from zonekeeper.client.reading.survey import Survey
from zonekeeper.metadata.formats.ledger_metadata import Fragment
from zonekeeper.placement.base.ids import BookieId, EntryId
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.placement.ensembles import read_order
from zonekeeper.placement.ensembles.read_order import ReadOrder, Replica
from zonekeeper.wire.contract import service
from zonekeeper.wire.formats import entries, errors
from zonekeeper.wire.formats.digests import MasterKey

Reply = TypeVar("Reply")

_logger = logging.getLogger(__name__)


@contextmanager
def _collector_at_rest() -> Iterator[None]:
    """Let the garbage collector wait until the entries of a reply are made.

    It runs whenever some hundred objects are new, and walks through all that are young, or through
    all that there are. A reply brings thousands of entries, none of which is garbage: to walk
    through them again and again took as long as everything else that is done for small entries.
    """
    if not gc.isenabled():
        yield  # by the application, or by another thread that is here
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class Reading:
    """The way to ask bookies for one ledger's entries."""

    def __init__(  # noqa: PLR0913 each is a part of its own, and has a name
        self,
        sealer: entries.Sealer,
        quorums: Quorums,
        bookies: Bookies,
        tasks: Tasks,
        *,
        key: MasterKey,
        bytes_max: int,
        create_token: int,
    ) -> None:
        self.sealer = sealer
        #: The ledger's master key, which every request shows.
        self.key = key
        self.quorums = quorums
        self.bookies = bookies
        self._tasks = tasks
        self.bytes_max = bytes_max
        #: The create token of the ledger; 0: not known.
        self.create_token = create_token

    async def share(self, fragment: Fragment, wanted: range) -> ShareRead:
        """Read entries that have the same replicas; give the finished read."""
        rules = self.bookies.policy.reads
        order = self._order(fragment, EntryId(wanted[0]))
        read = ShareRead(wanted=wanted, order=order.positions, hedge_after_ms=rules.hedge_after_ms)
        self._count(order)
        async with Asks[share_read.Event](self._tasks) as asks:
            effects = read.start()
            while True:
                for effect in effects:
                    self._perform(effect, fragment, wanted, asks)
                if read.outcome is not ReadStanding.GOING_ON:
                    break
                effects = read.handle(await asks.next())
        self.bookies.counters.entries_read += len(read.entries)
        return read

    async def survey(self, fragment: Fragment, fence_key: MasterKey | None, found: Survey) -> None:
        """Ask a whole ensemble for the ledger's end, until enough or all have answered.

        With ``fence_key`` the request fences each bookie first. An UnauthorizedAccess or a
        NotPermitted of any bookie ends the survey.
        """

        async def ask(position: int) -> tuple[int, survey.Evidence | Exception]:
            try:
                link = await self.bookies.pool.link(fragment.ensemble[position])
                if fence_key is None:
                    said = await link.read_lac(self.sealer.ledger_id, self.key)
                else:
                    said = await link.fence(self.sealer.ledger_id, fence_key, self.create_token)
                return position, survey.check(self.sealer, said)
            except (errors.ProtocolError, entries.EntryError) as error:
                return position, error

        async with Asks[tuple[int, survey.Evidence | Exception]](self._tasks) as asks:
            for position in range(self.quorums.ensemble):
                asks.ask(ask(position))
            while not (found.complete or found.hopeless):
                position, answer = await asks.next()
                if isinstance(answer, survey.Evidence):
                    found.heard(position, answer)
                elif isinstance(answer, errors.NoSuchLedger):
                    found.denied(position)
                else:
                    self.report(fragment.ensemble[position], answer)
                    found.failed(position, answer)
                    if isinstance(answer, errors.UnauthorizedAccess | errors.NotPermitted):
                        return

    async def entries(
        self, bookie: BookieId, wanted: range, fence_key: MasterKey | None = None
    ) -> tuple[checking.CheckedReply, EntryId]:
        """Ask one bookie for entries; give the checked copies, and ``next_entry_id``.

        The bookie has spoken for all wanted entries ``< next_entry_id``.
        """
        request = service.ReadRequest(
            ledger_id=self.sealer.ledger_id,
            first_entry_id=EntryId(wanted[0]),
            last_entry_id=EntryId(wanted[-1]),
            step=wanted.step,
            bytes_max=self.bytes_max,
            fence_key=fence_key,
            key=self.key if fence_key is None else None,
            create_token=self.create_token,
        )
        self._pending(bookie, 1)
        try:
            reply = await (await self.bookies.pool.link(bookie)).read(request)
        finally:
            self._pending(bookie, -1)
        self.bookies.count_read(bookie, sum(frame.size_bytes for frame in reply.frames))
        with _collector_at_rest():
            checked = checking.check(self.sealer, reply.frames)
        for error in checked.bad.values():
            self.report(bookie, error)
        return checked, reply.next_entry_id

    def nearest(self, fragment: Fragment, entry_id: EntryId) -> BookieId:
        """Give the replica that is asked first for an entry."""
        return fragment.ensemble[self._order(fragment, entry_id).positions[0]]

    def _order(self, fragment: Fragment, entry_id: EntryId) -> ReadOrder:
        return read_order.order(
            self.quorums.write_set(entry_id),
            [self.bookies.replica(bookie) for bookie in fragment.ensemble],
            self.bookies.own_zone,
            self.bookies.policy.reads,
            self.bookies.now_ms(),
        )

    def _count(self, order: ReadOrder) -> None:
        if order.why_remote is None:
            self.bookies.counters.reads_local += 1
        else:
            self.bookies.counters.reads_remote[order.why_remote] += 1

    def _perform(
        self,
        effect: share_read.Effect,
        fragment: Fragment,
        wanted: range,
        asks: Asks[share_read.Event],
    ) -> None:
        match effect:
            case share_read.AskReplica():
                self.bookies.counters.reads_hedged += effect.hedging
                asks.ask(self._ask(fragment.ensemble[effect.position], effect.position, wanted))
            case share_read.WakeLater():
                asks.later(effect.delay_ms, share_read.HedgeDue())
            case share_read.CallSlow():
                now_ms = self.bookies.now_ms()
                self.bookies.note(
                    fragment.ensemble[effect.position], lambda replica: replica.slow(now_ms)
                )
            case _:
                assert_never(effect)

    async def _ask(self, bookie: BookieId, position: int, wanted: range) -> share_read.Event:
        try:
            checked, until = await self.entries(bookie, wanted)
        except errors.Negative:
            return share_read.Denied(position=position)
        except errors.ProtocolError as error:
            self.report(bookie, error)
            return share_read.Unknown(position=position, error=error)
        first = EntryId(wanted[0])
        if (bad := checked.bad.get(first)) is not None:
            return share_read.Unknown(position=position, error=bad)
        if checked.good and checked.good[0].entry_id == first:
            return share_read.Got(position=position, entries=checked.good)
        assert until > first, "a reply speaks for the first entry that was asked for"
        return share_read.Denied(position=position)

    def _pending(self, bookie: BookieId, step: int) -> None:
        rules = self.bookies.policy.reads

        def counted(replica: Replica) -> Replica:
            return replica.with_pending(replica.pending + step, rules)

        self.bookies.note(bookie, counted)

    def report(self, bookie: BookieId, error: Exception) -> None:
        """Note a failure of a bookie; a bad copy is also counted, because it needs repair."""
        rules, now_ms = self.bookies.policy.reads, self.bookies.now_ms()
        self.bookies.note(bookie, lambda replica: replica.failed(rules, now_ms))
        if isinstance(error, entries.EntryError):
            self.bookies.counters.bad_copies[bookie] += 1
            _logger.warning("%s has a bad copy: %s", bookie, error)
