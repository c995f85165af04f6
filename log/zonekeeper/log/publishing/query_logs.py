"""What queries do with logs: write attempts, publish batches, end jobs.

``publish`` and ``end_job`` run in processes that know nothing but the parts.
"""

import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager

from zonekeeper.client.api import client as clients
from zonekeeper.client.api.client import Client
from zonekeeper.client.base import boundary
from zonekeeper.client.base.config import ClientConfig
from zonekeeper.log.publishing import partitions, publishing, retrying
from zonekeeper.log.publishing.attempt_writing import AttemptWriter
from zonekeeper.log.publishing.partitions import BatchPart, QueryBatch
from zonekeeper.log.publishing.publishing import PublishedBatch
from zonekeeper.metadata.logs import log_queries, logs


@asynccontextmanager
async def connect(uri: str, config: ClientConfig | None = None) -> AsyncIterator["QueryLogs"]:
    """Give what a query needs of the logs of a cluster, until the block ends."""
    async with clients.connect(uri, config) as client:
        yield QueryLogs(client, lambda: time.time_ns() // 1_000_000)


class QueryLogs:
    """The logs of a cluster, as queries write them."""

    def __init__(self, client: Client, wall_ms: Callable[[], int]) -> None:
        self.client = client
        self._wall_ms = wall_ms

    def attempt(
        self,
        of: QueryBatch,
        partition: int,
        *,
        small_bytes: int | None = None,
    ) -> AttemptWriter:
        """Begin an attempt at a partition; nothing is asked or changed before its first message.

        A partition of at most ``small_bytes`` (None: ``SMALL_BYTES_MAX``) makes no ledger, and
        comes in behind those that do.
        """
        return AttemptWriter(self.client, of, partition, self._wall_ms, small_bytes=small_bytes)

    async def publish(
        self, parts: Iterable[BatchPart | None], *, limit_s: float = retrying.LIMIT_S
    ) -> PublishedBatch:
        """Publish a batch whose parts these are; a batch that the log has is discarded.

        Trouble that may pass is waited for, ``limit_s`` at most. Raises ``LogTaken``, ``BadBatch``,
        ``QueryOver``, ``OtherIncarnation``: then nothing was changed. After an error that
        ``maybe_applied``, the same call says what became of the batch.
        """
        whole = partitions.together(parts)
        if whole is None:
            return PublishedBatch()
        return await publishing.publish(self.client, whole, limit_s)

    async def end_job(self, log: str, job: str) -> None:
        """Note that a job which is not published never will be, so that its attempts may go.

        For a job only: a query goes on with the batch after an abort. A job that was published
        stays so.
        """
        log_queries.check_id("query", job)
        with boundary.translated(f"ending job {job} of log {log}"):
            record = await logs.find(self.client.cluster, log)
            await logs.end_query(self.client.cluster, log, record.id, job)
