"""The ledgers of a log as its writer joins them: claim, settle what has no end, add the next one.

The order is what keeps the log whole:

1. One compare-and-set claims the log. From then on no other writer changes the record.
2. Each ledger without an end is recovered, in order. So no earlier writer gets an acknowledgement
   any more, and its end is known for good. Those that are no part of the log are dropped first, and
   then the ends of the others are noted. So the record never shows a ledger that will be dropped
   behind one that has its end: a reader looks only at a ledger behind such ends.
3. The next ledger is made, and added by compare-and-set before anything is written to it. So a
   ledger with entries is always in the record. It may be opened at its bookies before that.
4. Its opening entry is written before any message. It names the last entry of the ledger before.

At a rotation the next ledger is added while the one before is still written (``make_ahead``). It
is opened at its bookies at the same time, so that its first messages do not wait for that. Its
opening entry is written once nothing more is sent to the ledger before, whose last entry is then
fixed. If that one turns out to end earlier, the next ledger does not continue it, and is dropped.

A fence alone says nothing about who holds the log: a replicator, too, recovers a quiet ledger. Only
the record says it, and every step here asks the record.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Final

from zonekeeper.client.api.client import Client
from zonekeeper.client.api.writer import Writer
from zonekeeper.client.base import boundary
from zonekeeper.client.base import errors as client_errors
from zonekeeper.log.base.errors import LogDamaged
from zonekeeper.log.formats import openings
from zonekeeper.log.formats.openings import ChainedOpening, Predecessor
from zonekeeper.log.sessions import locating, trimming
from zonekeeper.log.writing import joining
from zonekeeper.log.writing.downgrading import Downgrading
from zonekeeper.log.writing.joining import ClosedLedger
from zonekeeper.metadata.formats import log_record
from zonekeeper.metadata.formats.log_record import (
    LedgerTooLow,
    LogClaim,
    LogLedger,
    LogLedgerEnd,
    LogRecord,
    LogTaken,
    LogWriterMark,
)
from zonekeeper.metadata.formats.message_ids import MessageId
from zonekeeper.metadata.logs import log_stamp, logs
from zonekeeper.metadata.store.background import alongside
from zonekeeper.placement.base.ids import NO_ENTRY, BookieId, EntryId, LedgerId
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.placement.base.troubles import Trouble
from zonekeeper.placement.ensembles.failures import PlacementError

#: Custom metadata of each ledger of a log: the log's name.
STAMP_KEY: Final = log_stamp.NAME_KEY
#: If so many new ledgers in a row are below the log's last, the id counters are wrong.
_LEDGERS_MAX: Final = 10
#: A rotation waits no longer than this for bookies to open the next ledger. Meanwhile the present
#: one takes writes.
_PREPARING_S: Final = 1.0

_logger = logging.getLogger(__name__)


class LedgerChain:
    """One writer's hold on the ledgers of a log."""

    def __init__(
        self,
        client: Client,
        name: str,
        record: LogRecord,
        claim: LogClaim,
        *,
        deferred_sync: bool = False,
        batch: tuple[str, int] | None = None,
    ) -> None:
        """``batch``: the query, and its batch, that ledgers are made for, where a query writes."""
        self.name = name
        #: Do the bookies acknowledge before they sync?
        self.deferred_sync = deferred_sync
        #: Had the writer before not closed the log when this one claimed it?
        self.was_open = False
        #: As it was after this writer's last change.
        self.record = record
        self._client = client
        self._claim = claim
        self._batch = batch
        self._downgrading = Downgrading()
        #: Bookies that lagged too far: they count as missing while the client avoids them.
        self._laggards: set[BookieId] = set()
        #: Has the newest ledger that was made less than the full quorums?
        self.is_downgraded = False

    @property
    def next_sequence(self) -> int:
        """The sequence after the last ledger that has an end."""
        for ledger in reversed(self.record.ledgers):
            if ledger.end is not None and ledger.sequence is not None:
                return ledger.sequence + ledger.end.messages
        return self.record.start_sequence

    async def settle(self) -> None:
        """Recover every ledger without an end, in order, and note its end or drop it.

        Raises ``LogTaken`` if another writer has claimed the log: what then stands in the record is
        no answer to what became of this writer's messages.
        """
        await self._look()
        as_judged, ends, dropped = self.record, list[tuple[LedgerId, LogLedgerEnd]](), False
        for ledger in self.record.unended:
            closed = await self._closed(as_judged, ledger)
            end = None if dropped else joining.judged(as_judged, ledger, closed)
            if end is None:
                dropped = True
            else:
                as_judged = joining.with_end(as_judged, ledger, end)
                ends.append((ledger.id, end))
        await self._drop(self.record.unended[len(ends) :])
        for ledger_id, end in ends:
            await self.end(ledger_id, end)

    async def begin(self) -> Writer:
        """Settle the log that was claimed, and give its next ledger.

        The ledger may be recovered before its opening is written: by the next writer, whose claim
        the settling finds, or by a replicator, which is no takeover.
        """
        for attempts_left in reversed(range(_LEDGERS_MAX)):
            await self.settle()
            try:
                return await self.next_ledger()
            except client_errors.WriterStopped as error:
                _logger.warning("log %s: its first ledger is settled: %s", self.name, error)
                if attempts_left == 0:
                    raise
        raise AssertionError("the last attempt raises")

    async def next_ledger(self) -> Writer:
        """Make the next ledger, add it, and write its opening; every ledger before has an end."""
        writer = await self._added()
        ledger = self.record.ledgers[-1]
        assert ledger.sequence is not None, "every ledger before it has an end"
        opening = self.opening(ledger.sequence, joining.predecessor(self.record, ledger))
        try:
            await writer.append_and_wait(opening)
        except BaseException:
            writer.halt()  # the next settling drops the ledger, or keeps it without a message
            raise
        return writer

    async def make_ahead(self, present: LedgerId) -> Writer:
        """Make the ledger behind the present one, add it, and open it at its bookies.

        Nothing is written to it. A ledger that an earlier call may have added is dropped: its
        answer was lost.
        """
        await self._look()
        unended = self.record.unended
        if [one.id for one in unended[:1]] != [present]:
            raise LogDamaged(
                f"log {self.name}: its record does not have ledger {present}, which this writer "
                "writes, as the first that has no end; nothing was added"
            )
        await self._drop(unended[1:])
        return await self._added(ahead=True)

    async def apart(self, above: LedgerId | None) -> Writer:
        """Make a ledger that is not added yet: a query adds it with its batch, in one step.

        Its id is above ``above``, and above that of the log's last ledger.
        """
        highest = max(
            (one for one in (above, self.record.last_ledger) if one is not None), default=-1
        )
        for attempts_left in reversed(range(_LEDGERS_MAX)):
            writer = await self._created()
            if writer.ledger_id > highest:
                return writer
            writer.halt()
            await self._delete(writer.ledger_id)
            if attempts_left == 0:
                raise LedgerTooLow(
                    f"log {self.name}: new ledgers have ids that are not above {highest}; nothing "
                    "was changed; look at the cluster's counter of ids"
                )
        raise AssertionError("the last attempt raises")

    async def discard(self, writer: Writer) -> None:
        """Drop a ledger that was made ahead, and to which nothing was written."""
        writer.halt()
        await self._drop([one for one in self.record.unended if one.id == writer.ledger_id])

    async def end(self, ledger_id: LedgerId, end: LogLedgerEnd) -> None:
        """Note how a ledger has ended, for good."""
        with self._at_store():
            self.record = await logs.end(
                self._client.cluster, self.name, self._claim, ledger_id, end
            )

    async def release(self) -> None:
        """Let another candidate open the log that this one has closed."""
        if self.record.writer is None or not self.record.writer.candidacy:
            return
        with suppress(LogTaken), self._at_store():  # who took it meanwhile needs no release
            self.record = await logs.release(self._client.cluster, self.name, self._claim)

    def lacks(self, bookie: BookieId) -> None:
        """Count a bookie as missing, because it lags too far."""
        self._laggards.add(bookie)

    def can_lack(self, writer: Writer, bookie: BookieId) -> bool:
        """Does the log go on if a member of its ledger is given up?

        It does if another bookie can take the place, or the others are enough, or the next ledger
        may have the minimum. Else the log would wait for the member all the same, and for longer.
        """
        if self.record.rules.minimum is not None or writer.can_lose(bookie):
            return True
        ensemble = writer.ensemble
        with suppress(PlacementError, ValueError):  # it is no member any more
            self._client.bookies.replace(writer.quorums, ensemble, [ensemble.index(bookie)])
            return True
        return False

    def is_lacking(self, ensemble: Iterable[BookieId]) -> bool:
        """Is a bookie in an ensemble that counts as missing?"""
        return not self._laggards.isdisjoint(ensemble)

    def opening(self, sequence: int, before: Predecessor | None) -> bytes:
        """Build the opening of a ledger, whose first message has a sequence."""
        opening = ChainedOpening(
            log_id=bytes.fromhex(self.record.id),
            epoch=self._claim.epoch,
            name=self.name,
            sequence=sequence,
            before=before,
        )
        return openings.build(opening)

    async def id_of(self, sequence: int) -> MessageId:
        """Give the id of a message that the log has, by looking it up."""
        with self._at_store():
            record = await logs.find(self._client.cluster, self.name)
        return await locating.by_sequence(self._client, self.name, record, sequence)

    def _at_store(self) -> AbstractContextManager[None]:
        """Translate the errors of the metadata store, as the client of ledgers does."""
        return boundary.translated(f"log {self.name}")

    async def _look(self) -> None:
        """Read the record, no older than this call; raises ``LogTaken``."""
        with self._at_store():
            self.record = await logs.find(self._client.cluster, self.name)
        log_record.check_claim(self.record, self._claim)

    async def _drop(self, dropped: Sequence[LogLedger]) -> None:
        """Take the last ledgers out of the record, the very last one first."""
        cluster = self._client.cluster
        for ledger in reversed(dropped):
            with self._at_store():
                self.record = await logs.drop(cluster, self.name, self._claim, ledger.id)
            if ledger.sequence is None:
                # No reader ever looked at it, as the ledger before it had no end.
                await self._delete(ledger.id)

    async def _delete(self, ledger_id: LedgerId) -> None:
        """Delete a ledger that is no part of the log; one that stays is an orphan, and no harm."""
        try:
            await self._client.delete(ledger_id, by=trimming.DELETER)
        except Trouble as error:
            _logger.warning("log %s: ledger %d is left over: %s", self.name, ledger_id, error)

    async def _added(self, *, ahead: bool = False) -> Writer:
        """Make a ledger, and add it; one that is made ahead is opened at its bookies meanwhile."""
        for attempts_left in reversed(range(_LEDGERS_MAX)):
            writer = await self._created()
            try:
                async with alongside() as group:
                    if ahead:
                        group.create_task(self._prepare(writer))
                    await self._add(writer.ledger_id)
            except LedgerTooLow:
                writer.halt()
                await self._client.delete(writer.ledger_id, by=trimming.DELETER)
                if attempts_left == 0:
                    raise
            except BaseException:
                writer.halt()  # it is in the record, or an orphan
                raise
            else:
                return writer
        raise AssertionError("the last attempt raises")

    async def _add(self, ledger_id: LedgerId) -> None:
        with self._at_store():
            self.record = await logs.add(self._client.cluster, self.name, self._claim, ledger_id)

    async def _prepare(self, writer: Writer) -> None:
        """Open a ledger at its bookies, before anything is written to it.

        A bookie that fails here is replaced with the first entry. A bookie that needs longer than
        the limit is sent its entries once it has opened the ledger.
        """
        with suppress(client_errors.WaitTimedOut):
            await writer.prepare(_PREPARING_S)

    async def _created(self) -> Writer:
        """Create a ledger with the log's quorums, or with its minimum if they cannot be had."""
        rules = self.record.rules
        claim = self._claim
        custom = log_stamp.custom(self.name, claim.log_id, claim.epoch, self._batch)
        try:
            self._check_laggards(rules.quorums)
            writer = await self._create(rules.quorums, custom)
        except client_errors.NotEnoughBookies as error:
            now_ms = int(asyncio.get_running_loop().time() * 1_000)
            if not self._downgrading.may_be_less(rules, now_ms):
                raise
            try:
                writer = await self._create(rules.minimum, custom)
            except client_errors.IllegalPlacement as refused:
                _logger.warning("log %s: its minimum cannot be had: %s", self.name, refused)
                raise error from refused
            if not self.is_downgraded:
                _logger.warning(
                    "log %s: its next ledger has only its minimum of quorums, %s: %s",
                    self.name,
                    rules.minimum,
                    error,
                )
            self.is_downgraded = True
        else:
            if self.is_downgraded:
                _logger.warning("log %s: its next ledger has full quorums again", self.name)
            self._downgrading.full()
            self.is_downgraded = False
        return writer

    def _check_laggards(self, quorums: Quorums | None) -> None:
        """Raise ``NotEnoughBookies`` if no full ledger can be had without a laggard.

        A log without a minimum takes the laggard then: there is nothing else to wait for.
        """
        bookies = self._client.bookies
        self._laggards &= bookies.suspects
        if not self._laggards or self.record.rules.minimum is None:
            return
        with suppress(PlacementError):  # the creation says that better
            ensemble = bookies.choose(quorums or bookies.policy.quorums)
            if self.is_lacking(ensemble):
                raise client_errors.NotEnoughBookies(
                    f"log {self.name}: no ledger without {', '.join(sorted(self._laggards))}, "
                    "which lagged too far, and counts as missing for a while"
                )

    async def _create(self, quorums: Quorums | None, custom: Mapping[str, bytes]) -> Writer:
        return await self._client.create(
            quorums=quorums, custom=custom, deferred_sync=self.deferred_sync
        )

    async def _closed(self, record: LogRecord, ledger: LogLedger) -> ClosedLedger:
        """Close a ledger, and read what says how it ended; no batch of one that is no part."""
        try:
            return await self._read_closed(record, ledger)
        except client_errors.NoSuchLedger as error:
            await self._look()  # the log was taken or deleted meanwhile: then that is raised
            raise LogDamaged(
                f"ledger {ledger.id} is in the record of log {self.name}, and was deleted by "
                "another program: the messages in it are lost; nothing was changed"
            ) from error

    async def _read_closed(self, record: LogRecord, ledger: LogLedger) -> ClosedLedger:
        reader = await self._client.open(ledger.id, recover=True)
        last = reader.last_confirmed
        if last == NO_ENTRY:
            return ClosedLedger(last_entry=NO_ENTRY, size_bytes=0)
        opening = openings.parse(await locating.entry_of(reader, locating.OPENING_ENTRY))
        closed = ClosedLedger(last_entry=last, size_bytes=reader.metadata.length, opening=opening)
        if last == locating.OPENING_ENTRY or not joining.continues(record, ledger, opening):
            return closed
        return ClosedLedger(
            last_entry=last,
            size_bytes=reader.metadata.length,
            opening=opening,
            first=await locating.batch_of(reader, EntryId(locating.OPENING_ENTRY + 1)),
            last=await locating.batch_of(reader, last),
        )


async def claimed(
    client: Client, name: str, mark: LogWriterMark, *, deferred_sync: bool = False
) -> LedgerChain:
    """Claim a log for a new writer; raises ``LogTaken`` if another one was faster."""
    with boundary.translated(f"taking log {name}"):
        seen = await logs.find(client.cluster, name)
        await locating.check_password(client, name, seen)
        record = await logs.claim(client.cluster, name, seen, mark)
    claim = LogClaim(log_id=record.id, epoch=record.epoch, token=mark.token)
    held = LedgerChain(client, name, record, claim, deferred_sync=deferred_sync)
    held.was_open = bool(seen.unended)
    return held
