"""What queries do with logs, for code that does not await, such as the tasks of Spark.

The names are those of ``query_logs``, whose docstrings say what each call does. No object here can
be sent to another process, and none works in a forked child: parts can be sent.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from zonekeeper.client.api import loop_thread
from zonekeeper.client.api.loop_objects import LoopObject
from zonekeeper.client.api.loop_thread import Calls
from zonekeeper.client.base.config import ClientConfig
from zonekeeper.log.formats.batch_columns import MessageColumns
from zonekeeper.log.formats.messages import LogMessage
from zonekeeper.log.publishing import query_logs, retrying
from zonekeeper.log.publishing.attempt_writing import AttemptWriter
from zonekeeper.log.publishing.partitions import BatchPart, QueryBatch
from zonekeeper.log.publishing.publishing import PublishedBatch
from zonekeeper.log.publishing.query_logs import QueryLogs


@contextmanager
def connect(uri: str, config: ClientConfig | None = None) -> Iterator["BlockingQueryLogs"]:
    """Give what a query needs of the logs of a cluster, until the block ends."""
    with loop_thread.opened(query_logs.connect(uri, config)) as (opened, calls):
        yield BlockingQueryLogs(opened, calls)


class BlockingQueryLogs(LoopObject):
    """See ``query_logs.QueryLogs``."""

    def __init__(self, opened: QueryLogs, calls: Calls) -> None:
        super().__init__(calls, opened)
        self._logs = opened

    def attempt(
        self,
        of: QueryBatch,
        partition: int,
        *,
        small_bytes: int | None = None,
    ) -> "BlockingAttempt":
        """Begin an attempt at a partition."""
        opened = self._logs.attempt(of, partition, small_bytes=small_bytes)
        return BlockingAttempt(opened, self._calls)

    def publish(
        self, parts: Iterable[BatchPart | None], *, limit_s: float = retrying.LIMIT_S
    ) -> PublishedBatch:
        """Publish a batch whose parts these are."""
        given = list(parts)
        return self._calls.do(lambda: self._logs.publish(given, limit_s=limit_s))

    def end_job(self, log: str, job: str) -> None:
        """Note that a job which is not published never will be."""
        self._calls.do(lambda: self._logs.end_job(log, job))


class BlockingAttempt(LoopObject):
    """See ``attempt_writing.AttemptWriter``."""

    def __init__(self, opened: AttemptWriter, calls: Calls) -> None:
        super().__init__(calls, opened)
        self._attempt = opened

    def append_many(self, many: Iterable[LogMessage]) -> None:
        """Take messages in order; one trip to the loop for all of them."""
        given = list(many)
        self._calls.do(lambda: self._attempt.append_many(given))

    def append_columns(self, columns: MessageColumns, times: Sequence[int] | None = None) -> None:
        """Take messages in order, which come as columns."""
        self._calls.do(lambda: self._attempt.append_columns(columns, times))

    def finish(self) -> BatchPart:
        """Close the attempt, and give the part for the publisher."""
        return self._calls.do(self._attempt.finish)

    def discard(self) -> None:
        """Give the attempt up: its part was handed to nobody."""
        self._calls.do(self._attempt.discard)
