"""What the tasks of a batch hand to its publisher, and whether it makes one batch. Pure.

A publisher runs in a process that knows nothing. So each part carries the log, the query, its run
and the batch. Parts can be pickled.

- ``AttemptEnd``: the partition is in a ledger of its own, which is closed.
- ``SmallPartition``: the partition is in the part, packed as a ledger's batches would be.
- ``IdlePartition``: nothing was written, because there was no row, or because the log had the batch
  already.

One partition has one part. All parts that have messages were written under one claim.

A *copy* is a batch of messages of another log, which keep their sequences. It comes in only right
behind the message before its first one, and only into a log that its query alone has written. So a
copy that is repeated in other pieces, or whose log has got other messages, is refused, and no
message is lost or comes in twice.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from zonekeeper.log.base.errors import BadBatch
from zonekeeper.log.formats.manifests import ATTEMPTS_MAX
from zonekeeper.metadata.formats import log_record
from zonekeeper.metadata.formats.log_record import LogClaim, LogLedgerEnd, LogRecord, LogTaken
from zonekeeper.metadata.logs.log_queries import PublishedLedger, QueryRun
from zonekeeper.placement.base.ids import EntryId, LedgerId

#: A partition whose packed batches are no larger makes no ledger.
SMALL_BYTES_MAX: Final = 256 << 10
#: A publisher warns of batches with so many ledgers: each is read, kept and trimmed by itself.
MANY_ATTEMPTS: Final = 100


class CopyTaken(LogTaken):
    """The log that is to be a copy has another writer, or had one; this query changes nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryBatch:
    """A batch of a query, in one run; a job is a query of one batch."""

    log: str
    run: QueryRun
    batch: int
    is_job: bool = False
    #: Of a copy: the sequence of its first message, in both logs. None: it is no copy.
    begins_at: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEnd:
    """A partition in a ledger of its own, which is closed."""

    of: QueryBatch
    partition: int
    log_id: str
    epoch: int
    ledger: LedgerId
    last_entry: EntryId
    size_bytes: int
    messages: int
    first_ms: int
    last_ms: int

    @property
    def published(self) -> PublishedLedger:
        """Give the ledger as it comes into the log."""
        end = LogLedgerEnd(
            last_entry=self.last_entry,
            size_bytes=self.size_bytes,
            messages=self.messages,
            first_ms=self.first_ms,
            last_ms=self.last_ms,
        )
        return PublishedLedger(id=self.ledger, end=end)


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallPartition:
    """A partition that travels in its part: at most ``SMALL_BYTES_MAX``."""

    of: QueryBatch
    partition: int
    log_id: str
    epoch: int
    batches: tuple[bytes, ...]
    messages: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IdlePartition:
    """A partition of which nothing was written; ``is_known``: the log had its batch already."""

    of: QueryBatch
    partition: int
    is_known: bool = False


BatchPart: TypeAlias = AttemptEnd | SmallPartition | IdlePartition


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeBatch:
    """The parts of a batch, put together."""

    of: QueryBatch
    #: The claim under which all was written; None: no part has a message.
    claim: LogClaim | None
    #: By ascending ids.
    attempts: tuple[AttemptEnd, ...]
    #: By ascending partitions.
    small: tuple[SmallPartition, ...]
    #: A task found that the log has the batch, and wrote nothing.
    is_known: bool

    @property
    def messages(self) -> int:
        """How many messages come in."""
        return self.of_attempts + sum(one.messages for one in self.small)

    @property
    def of_attempts(self) -> int:
        """How many of them are in attempts."""
        return sum(one.messages for one in self.attempts)


def together(parts: Iterable[BatchPart | None]) -> WholeBatch | None:
    """Put the parts of a batch together; None: there is none. Raises ``BadBatch``."""
    given = sorted((one for one in parts if one is not None), key=lambda one: one.partition)
    if not given:
        return None
    of = given[0].of
    if any(one.of != of for one in given):
        raise BadBatch(
            f"parts of several batches, runs or logs, such as {of} and "
            f"{next(one.of for one in given if one.of != of)}; nothing was changed"
        )
    numbers = [one.partition for one in given]
    if len(set(numbers)) != len(numbers):
        raise BadBatch(
            f"{_named(of)}: two parts of one partition; nothing was changed: one attempt of a "
            "task counts"
        )
    attempts = sorted(
        (one for one in given if isinstance(one, AttemptEnd)), key=lambda one: one.ledger
    )
    if len({one.ledger for one in attempts}) != len(attempts):
        raise BadBatch(f"{_named(of)}: two parts name one ledger; nothing was changed")
    if len(attempts) > ATTEMPTS_MAX:
        raise BadBatch(
            f"{_named(of)}: {len(attempts)} ledgers; the limit is {ATTEMPTS_MAX}; nothing was "
            "changed: write with fewer partitions (coalesce)"
        )
    small = tuple(one for one in given if isinstance(one, SmallPartition))
    return WholeBatch(
        of=of,
        claim=_claim(of, [*attempts, *small]),
        attempts=tuple(attempts),
        small=small,
        is_known=any(isinstance(one, IdlePartition) and one.is_known for one in given),
    )


def check_copy(of: QueryBatch, record: LogRecord) -> None:
    """Hold that a batch which the log does not know may come in, if it is a copy.

    Raises ``CopyTaken`` if another program than the query wrote the log or may write it, and
    ``BadBatch`` if the copy does not begin where the log ends.
    """
    if of.begins_at is None:
        return
    check_only_copied(of, record)
    at = log_record.next_sequence(record)
    if at != of.begins_at:
        raise BadBatch(
            f"{_named(of)}: its first message has sequence {of.begins_at}, and the next one of the "
            f"log is {at}: messages would be lost, or be there twice; nothing was changed; go on "
            "at the log's end, or copy into another log"
        )


def check_only_copied(of: QueryBatch, record: LogRecord) -> None:
    """Raise ``CopyTaken`` if a writer other than runs of a query had the log last."""
    writer = record.writer
    if writer is None or writer.token.startswith(replace(of.run, run="").token):
        return
    raise CopyTaken(
        f"log {of.log} is written by another writer ({writer.address or 'without an address'}), "
        f"which claimed it at epoch {record.epoch}; a copy of a log has no other writer; nothing "
        "was changed: copy into another log"
    )


def _claim(of: QueryBatch, written: Sequence[AttemptEnd | SmallPartition]) -> LogClaim | None:
    claims = {(one.log_id, one.epoch) for one in written}
    if len(claims) > 1:
        raise BadBatch(f"{_named(of)}: parts under several claims; nothing was changed")
    for log_id, epoch in claims:
        return LogClaim(log_id=log_id, epoch=epoch, token=of.run.token)
    return None


def _named(of: QueryBatch) -> str:
    return f"batch {of.batch} of query {of.run.query} into log {of.log}"
