"""The ledgers of a log as its writer joins them: claim, settle what has no end, add the next one.

The order is what keeps the log whole:

1. One compare-and-set claims the log. From then on no other writer changes the record.
2. Each ledger without an end is recovered, in order. So no earlier writer gets an acknowledgement
   any more, and its end is known for good. It is noted, or the ledger is dropped.
3. The next ledger is made, and added by compare-and-set before anything is written to it. So a
   ledger with entries is always in the record.
4. Its opening entry is written, and acknowledged, before any message.

A fence alone says nothing about who holds the log: a replicator, too, recovers a quiet ledger. Only
the record says it, and every step here asks the record.
"""

from typing import Final

from zonekeeper.client.api.client import Client
from zonekeeper.client.api.writer import Writer
from zonekeeper.client.base import errors as client_errors
from zonekeeper.log.base.errors import LogDamaged
from zonekeeper.log.formats import openings
from zonekeeper.log.formats.openings import ChainedOpening
from zonekeeper.log.sessions import locating
from zonekeeper.log.writing import joining
from zonekeeper.log.writing.joining import ClosedLedger
from zonekeeper.metadata.formats import log_record
from zonekeeper.metadata.formats.log_record import (
    LedgerTooLow,
    LogClaim,
    LogLedger,
    LogRecord,
    LogWriterMark,
)
from zonekeeper.metadata.formats.message_ids import MessageId
from zonekeeper.metadata.logs import log_stamp, logs
from zonekeeper.placement.base.ids import NO_ENTRY, EntryId

#: Custom metadata of each ledger of a log: the log's name.
STAMP_KEY: Final = log_stamp.NAME_KEY
#: If so many new ledgers in a row are below the log's last, the id counters are wrong.
_LEDGERS_MAX: Final = 10


class LedgerChain:
    """One writer's hold on the ledgers of a log."""

    def __init__(self, client: Client, name: str, record: LogRecord, claim: LogClaim) -> None:
        self.name = name
        #: As it was after this writer's last change.
        self.record = record
        self._client = client
        self._claim = claim

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
        cluster = self._client.cluster
        self.record = await logs.find(cluster, self.name)
        log_record.check_claim(self.record, self._claim)
        while self.record.unended:
            ledger = self.record.unended[0]
            closed = await self._closed(ledger)
            end = joining.judged(self.record, ledger, closed)
            if end is not None:
                self.record = await logs.end(cluster, self.name, self._claim, ledger.id, end)
                continue
            for dropped in reversed(self.record.unended):
                self.record = await logs.drop(cluster, self.name, self._claim, dropped.id)

    async def next_ledger(self) -> Writer:
        """Make the next ledger, add it, and write its opening; every ledger before has an end."""
        writer, record = await self._added()
        ledger = record.ledgers[-1]
        assert ledger.sequence is not None, "every ledger before it has an end"
        opening = ChainedOpening(
            log_id=bytes.fromhex(record.id),
            epoch=ledger.epoch,
            name=self.name,
            sequence=ledger.sequence,
            before=joining.predecessor(record, ledger),
        )
        self.record = record
        try:
            await writer.append_and_wait(openings.build(opening))
        except BaseException:
            writer.halt()  # the next settling drops the ledger, or keeps it without a message
            raise
        return writer

    async def id_of(self, sequence: int) -> MessageId:
        """Give the id of a message that the log has, by looking it up."""
        record = await logs.find(self._client.cluster, self.name)
        return await locating.by_sequence(self._client, self.name, record, sequence)

    async def _added(self) -> tuple[Writer, LogRecord]:
        for attempts_left in reversed(range(_LEDGERS_MAX)):
            writer = await self._client.create(
                quorums=self.record.rules.quorums,
                custom=log_stamp.custom(self.name, self._claim.log_id, self._claim.epoch),
            )
            try:
                added = await logs.add(
                    self._client.cluster, self.name, self._claim, writer.ledger_id
                )
            except LedgerTooLow:
                writer.halt()
                await self._client.delete(writer.ledger_id, by="log")
                if attempts_left == 0:
                    raise
            except BaseException:
                writer.halt()  # it is in the record, or an orphan
                raise
            else:
                return writer, added
        raise AssertionError("the last attempt raises")

    async def _closed(self, ledger: LogLedger) -> ClosedLedger:
        """Close a ledger, and read what says how it ended; no batch of one that is no part."""
        try:
            reader = await self._client.open(ledger.id, recover=True)
        except client_errors.NoSuchLedger as error:
            raise LogDamaged(
                f"ledger {ledger.id} is in the record of log {self.name}, and was deleted by "
                "another program: the messages in it are lost; nothing was changed"
            ) from error
        last = reader.last_confirmed
        if last == NO_ENTRY:
            return ClosedLedger(last_entry=NO_ENTRY, size_bytes=0)
        opening = openings.parse(await locating.entry_of(reader, locating.OPENING_ENTRY))
        closed = ClosedLedger(last_entry=last, size_bytes=reader.metadata.length, opening=opening)
        if last == locating.OPENING_ENTRY or not joining.continues(self.record, ledger, opening):
            return closed
        return ClosedLedger(
            last_entry=last,
            size_bytes=reader.metadata.length,
            opening=opening,
            first=await locating.batch_of(reader, EntryId(locating.OPENING_ENTRY + 1)),
            last=await locating.batch_of(reader, last),
        )


async def claimed(client: Client, name: str, mark: LogWriterMark) -> LedgerChain:
    """Claim a log for a new writer; raises ``LogTaken`` if another one was faster."""
    seen = await logs.find(client.cluster, name)
    record = await logs.claim(client.cluster, name, seen, mark)
    claim = LogClaim(log_id=record.id, epoch=record.epoch, token=mark.token)
    return LedgerChain(client, name, record, claim)
