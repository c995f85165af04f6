"""One task's attempt at one partition of a batch.

The first message makes the attempt look at the log's record. If the log has the batch already, the
attempt takes the messages and writes nothing. Otherwise it claims the log for the query's run, or
finds that another task of the run has done so.

Messages are packed into batches as a log's writer packs them, each at its place counted from the
ledger's start. While all of them are no larger than ``SMALL_BYTES_MAX``, they are kept here, and
travel in the part. A larger partition gets a ledger. Its id is above the log's last one, because an
attempt below that could never come in. The attempt holds one batch that is filled, and at most
``IN_FLIGHT_MAX`` on their way, however large the partition is.

An attempt of a copy takes messages with the times that they had. Messages of different times are in
different batches. A time that is less than the one before it in the attempt becomes that one,
because times of a ledger never fall.

An attempt whose write fails or is cancelled is over: it takes nothing more, and gives no part.
An attempt that dies, or is discarded, leaves a ledger that no manifest names: an orphan.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

from zonekeeper.client.api.client import Client
from zonekeeper.client.api.writer import Writer
from zonekeeper.client.base import boundary
from zonekeeper.client.base import errors as client_errors
from zonekeeper.log.base.errors import BadBatch, LogEnded
from zonekeeper.log.formats import batch_columns, batches, openings
from zonekeeper.log.formats.batch_columns import MessageColumns
from zonekeeper.log.formats.messages import LogMessage
from zonekeeper.log.formats.openings import AttemptOpening
from zonekeeper.log.publishing import partitions, retrying
from zonekeeper.log.publishing.partitions import (
    SMALL_BYTES_MAX,
    AttemptEnd,
    BatchPart,
    IdlePartition,
    QueryBatch,
    SmallPartition,
)
from zonekeeper.log.sessions import locating, trimming
from zonekeeper.log.sessions.chain import LedgerChain
from zonekeeper.log.writing.unsent import BATCH_BYTES_AIM
from zonekeeper.metadata.formats import log_record
from zonekeeper.metadata.formats.log_record import LogClaim
from zonekeeper.metadata.logs import log_queries, logs
from zonekeeper.placement.base.ids import EntryId, ZoneName
from zonekeeper.placement.base.troubles import Trouble

#: So many batches of an attempt are on their way to bookies at the same time.
IN_FLIGHT_MAX: Final = 8
#: So many messages of a list are taken in one step, if they go into one batch.
PORTION: Final = 256
_PARTITION_MAX: Final = (1 << 32) - 1

_logger = logging.getLogger(__name__)


class AttemptWriter:
    """Writes one partition of a batch, once."""

    def __init__(
        self,
        client: Client,
        of: QueryBatch,
        partition: int,
        wall_ms: Callable[[], int],
        *,
        small_bytes: int | None = None,
    ) -> None:
        """Nothing is asked or changed before the first message.

        ``small_bytes``: a partition that is no larger makes no ledger; None: ``SMALL_BYTES_MAX``.
        Parts without a ledger come in behind all others of their batch.
        """
        log_queries.check_id("query", of.run.query)
        log_queries.check_id("run", of.run.run)
        if not 0 <= partition <= _PARTITION_MAX or of.batch < 0:
            raise BadBatch(f"partition {partition} of batch {of.batch}: numbers begin at 0")
        self._client = client
        self._of = of
        self._partition = partition
        self._wall_ms = wall_ms
        self._small_bytes = SMALL_BYTES_MAX if small_bytes is None else small_bytes
        self._is_known = False
        self._is_over = False
        #: None: the log was not looked at yet.
        self._chain: LedgerChain | None = None
        self._claim: LogClaim | None = None
        #: The batch that is filled.
        self._filling: list[LogMessage] = []
        self._filling_bytes = 0
        #: Batches that wait until it is known that a ledger is needed.
        self._kept: list[bytes] = []
        self._kept_bytes = 0
        self._writer: Writer | None = None
        #: Held while batches are sent: those of two callers must not cross.
        self._sending = asyncio.Lock()
        self._messages = 0
        self._first_ms = 0
        self._last_ms = 0
        self._ledger_bytes = 0

    async def append(self, message: LogMessage) -> None:
        """Take a message. Raises ``LogTaken`` when the run lost the log before it wrote."""
        await self._begin()
        if not self._is_known:
            await self._take(message, batches.size_bytes(message))

    async def append_many(self, many: Iterable[LogMessage]) -> None:
        """Take messages in order; those in a list or a tuple cost less."""
        if not isinstance(many, list | tuple):
            for message in many:
                await self.append(message)
            return
        for at in range(0, len(many), PORTION):
            await self._begin()
            portion = many[at : at + PORTION]
            if self._is_known:
                return
            size = batches.total_bytes(portion)
            if size is None or not self._fits(len(portion), size):
                for message in portion:
                    await self._take(message, batches.size_bytes(message))
            else:
                self._filling += portion
                self._filling_bytes += size

    async def append_columns(
        self, columns: MessageColumns, times: Sequence[int] | None = None
    ) -> None:
        """Take messages in order, which come as columns, without a step for each of them.

        ``times``, of a copy alone: the time of each message. None: the present time of each batch.
        After a ``BadMessageError`` those before the bad one may be taken: discard the attempt.
        """
        if times is not None and self._of.begins_at is None:
            raise BadBatch(
                f"batch {self._of.batch} of query {self._of.run.query} is no copy of a log, so "
                "its messages have the time of their writing; nothing was taken: give no times"
            )
        await self._begin()
        if self._is_known:
            return
        columns.check_headers()
        if self._filling:
            await self._pack()
        for begin, stop in columns.cuts(BATCH_BYTES_AIM):
            for first, end, wall_ms in batch_columns.of_one_time(times, begin, stop):
                build = partial(batch_columns.build, columns, first, end)
                await self._keep(end - first, build, wall_ms)

    async def finish(self) -> BatchPart:
        """Close the attempt, and give the part for the publisher."""
        self._check_open()
        if self._filling:
            await self._end_batch()
        self._is_over = True
        if not self._messages:
            return IdlePartition(of=self._of, partition=self._partition, is_known=self._is_known)
        assert self._claim is not None, "a message was taken"
        if self._writer is None:
            return SmallPartition(
                of=self._of,
                partition=self._partition,
                log_id=self._claim.log_id,
                epoch=self._claim.epoch,
                batches=tuple(self._kept),
                messages=self._messages,
            )
        last_entry = self._writer.last_appended
        async with self._of_claim():
            await self._writer.close()
        return AttemptEnd(
            of=self._of,
            partition=self._partition,
            log_id=self._claim.log_id,
            epoch=self._claim.epoch,
            ledger=self._writer.ledger_id,
            last_entry=last_entry,
            size_bytes=self._ledger_bytes,
            messages=self._messages,
            first_ms=self._first_ms,
            last_ms=self._last_ms,
        )

    async def discard(self) -> None:
        """Give the attempt up: its part was handed to nobody. Its ledger is deleted if possible."""
        self._is_over = True
        if self._writer is None:
            return
        self._writer.halt()
        try:
            await self._client.delete(self._writer.ledger_id, by=trimming.DELETER)
        except Trouble as error:
            _logger.warning(
                "log %s: ledger %d is left over: %s", self._of.log, self._writer.ledger_id, error
            )

    def _check_open(self) -> None:
        if self._is_over:
            raise LogEnded(
                f"partition {self._partition} of batch {self._of.batch}: its attempt is over: it "
                "was finished or discarded, or a write of it failed or was interrupted; nothing "
                "was taken: write the partition in another attempt",
                maybe_applied=False,
            )

    async def _begin(self) -> None:
        """Look at the log, before the first message, and claim it."""
        self._check_open()
        if self._chain is not None or self._is_known:
            return
        of, client = self._of, self._client
        with boundary.translated(f"taking log {of.log} for query {of.run.query}"):
            seen = await logs.find(client.cluster, of.log)
            # Before the claim: a batch that is in the log needs none, and a late task takes none.
            if log_queries.is_known(seen, of.run.query, of.batch):
                self._is_known = True
                return
            partitions.check_copy(of, seen)
            await locating.check_password(client, of.log, seen)
            record = await logs.claim_for_query(client.cluster, of.log, seen, of.run, _zone(client))
        claim = LogClaim(log_id=record.id, epoch=record.epoch, token=of.run.token)
        self._check_open()
        self._claim = claim
        self._chain = LedgerChain(client, of.log, record, claim, batch=(of.run.query, of.batch))

    def _fits(self, count: int, size_bytes: int) -> bool:
        return (
            self._filling_bytes + size_bytes <= BATCH_BYTES_AIM
            and len(self._filling) + count <= batches.MESSAGES_MAX
        )

    async def _take(self, message: LogMessage, size_bytes: int) -> None:
        while self._filling and not self._fits(1, size_bytes):
            await self._end_batch()
            self._check_open()
        self._filling.append(message)
        self._filling_bytes += size_bytes

    async def _end_batch(self) -> None:
        """Pack the batch that is filled. A failure, or a cancellation, ends the attempt.

        Nobody knows then which batches its ledger has. One that was sent again would come twice.
        """
        try:
            async with self._sending:
                self._check_open()
                if self._filling:
                    await self._pack()
        except BaseException:
            self._is_over = True
            raise

    async def _pack(self) -> None:
        """End the batch that is filled; keep it, or send it."""
        many, self._filling, self._filling_bytes = self._filling, [], 0
        await self._keep(len(many), partial(batches.build, many))

    async def _keep(
        self, count: int, build: Callable[..., bytes], wall_ms: int | None = None
    ) -> None:
        """Take a batch; ``build`` makes it with its place and its time (None: the present one)."""
        self._last_ms = max(self._last_ms, self._wall_ms() if wall_ms is None else wall_ms)
        if not self._messages:
            self._first_ms = self._last_ms
        raw = build(place=self._messages, wall_ms=self._last_ms)
        self._messages += count
        self._kept.append(raw)
        self._kept_bytes += len(raw)
        if self._writer is None and self._kept_bytes <= self._small_bytes:
            return
        async with self._of_claim():
            writer = self._writer or await self._opened()
            for one in self._kept:
                self._ledger_bytes += len(one)
                entry = await writer.append(one)
                if entry >= IN_FLIGHT_MAX:
                    await writer.flushed(EntryId(entry - IN_FLIGHT_MAX))
        self._kept, self._kept_bytes = [], 0

    @asynccontextmanager
    async def _of_claim(self) -> AsyncIterator[None]:
        """Say ``LogTaken`` where a ledger fails because the run lost the log: it may be gone."""
        try:
            yield
        except client_errors.ClientError as failed:
            assert self._claim is not None, "a message was taken"
            try:
                with boundary.translated(f"reading log {self._of.log}"):
                    record = await logs.find(self._client.cluster, self._of.log)
            except Trouble:
                raise failed from None
            log_record.check_claim(record, self._claim)
            raise

    async def _opened(self) -> Writer:
        """Make the ledger, and write its opening."""
        chain, claim, of = self._chain, self._claim, self._of
        assert chain is not None, "the log was claimed before the first message was taken"
        assert claim is not None, "so it was"
        self._writer = await retrying.until_done(lambda: chain.apart(above=None), of.log)
        opening = AttemptOpening(
            log_id=bytes.fromhex(claim.log_id),
            epoch=claim.epoch,
            name=of.log,
            query=of.run.query,
            batch=of.batch,
            partition=self._partition,
        )
        raw = openings.build(opening)
        self._ledger_bytes = len(raw)
        await self._writer.append(raw)
        return self._writer


def _zone(client: Client) -> ZoneName | None:
    zone = client.config.zone
    return None if zone is None else ZoneName(zone)
