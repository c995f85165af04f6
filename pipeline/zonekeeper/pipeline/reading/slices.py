"""Which entries each task of a read takes. Pure.

A *slice* is a run of entries of one ledger. The tasks are made of slices in the order of ledgers
and entries. Together they are exactly what was asked for: no entry twice, none left out. A large
ledger is cut by its bytes, as if all its entries had one size, and small ledgers share a task.

Messages of a log are asked for by sequence. The slices name the entries that may have such
messages, and the task leaves out the messages before and behind. So the same task gives the same
rows for ever: its end is fixed here, also in a ledger that still grows.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from zonekeeper.log.base.errors import LogTrimmed
from zonekeeper.metadata.formats.ledger_metadata import LedgerMetadata
from zonekeeper.metadata.formats.log_record import LogLedger
from zonekeeper.metadata.formats.message_ids import MessageId
from zonekeeper.pipeline.reading.wanted import PARTITIONS_MAX, OneLedger
from zonekeeper.placement.base.ids import EntryId, LedgerId
from zonekeeper.placement.base.troubles import Refusal

#: One task reads about this many bytes, unless the number of tasks is given.
PARTITION_BYTES_AIM: Final = 64 << 20
#: To open a ledger costs about as much as to read so many bytes.
LEDGER_BYTES: Final = 64 << 10
#: The first entry of a log's ledger that can have messages: the opening stands before it.
FIRST_OF_LOG: Final = EntryId(1)


class NotReadable(Refusal):
    """The ledgers cannot be read as requested; nothing was done to them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EntrySlice:
    """The entries ``first <= entry <= last`` of a ledger; at least one."""

    ledger: LedgerId
    first: EntryId
    last: EntryId
    #: Of a log's ledger: the sequence of its first message.
    sequence: int = 0
    #: The ledger had no end when this was planned. All entries up to ``last`` were confirmed.
    was_open: bool = False
    #: Of a log's ledger that had an end: its last entry, which may be a manifest.
    ends_at: EntryId | None = None

    def __len__(self) -> int:
        return self.last - self.first + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SizedSlice:
    """A slice with the bytes that it has by estimate."""

    part: EntrySlice
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSpan:
    """The messages ``first <= sequence < end`` of one incarnation of a log.

    ``start`` is the id of the first one, or stands before it; None: the log's beginning. ``stop``
    stands behind the last one; None if there is none. An id ``stop`` with index 0 has no message of
    its own entry before it.
    """

    name: str
    log_id: str
    start: MessageId | None
    first: int
    stop: MessageId | None
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTask:
    """What one task reads; ``span``: of a log, and then only its messages."""

    slices: tuple[EntrySlice, ...]
    span: LogSpan | None = None


def of_ledger(ledger: LedgerMetadata, wanted: OneLedger) -> list[SizedSlice]:
    """Give the requested entries of a ledger, none or one slice; raises ``NotReadable``."""
    check_closed(wanted.ledger, ledger)
    end = ledger.last_entry
    beyond = wanted.last if wanted.last is not None and wanted.last > end else None
    if beyond is None and wanted.first > end + 1:
        beyond = wanted.first
    if beyond is not None:
        has = f"its last entry is {end}" if end >= 0 else "it has no entries"
        raise NotReadable(
            f"ledger {wanted.ledger} is closed, and {has}: there is no entry {beyond}; "
            "give another first and last, or leave them out"
        )
    last = end if wanted.last is None else EntryId(wanted.last)
    return _sized(wanted.ledger, EntryId(wanted.first), last, ledger.length, end)


def whole(ledger_id: LedgerId, ledger: LedgerMetadata) -> list[SizedSlice]:
    """Give all entries of a closed ledger, none or one slice; raises ``NotReadable``."""
    check_closed(ledger_id, ledger)
    end = ledger.last_entry
    return _sized(ledger_id, EntryId(0), end, ledger.length, end)


def check_closed(ledger_id: LedgerId, ledger: LedgerMetadata) -> None:
    """Raise ``NotReadable`` for a ledger that is not closed."""
    if not ledger.is_closed:
        raise NotReadable(
            f"ledger {ledger_id} is {ledger.state.value}: only a closed ledger is read, "
            "because only its end is known for good. Close its writer; or, if the writer is gone "
            f"for good, close the ledger with zonekeeper.client: client.open({ledger_id}, "
            "recover=True) recovers it, and fences a writer that lives after all"
        )


def of_log(ledgers: Iterable[LogLedger], span: LogSpan, *, open_bytes: int = 0) -> list[SizedSlice]:
    """Give the entries that may have the messages of a span.

    ``ledgers`` are those of the log from ``span.start`` on, in order. ``open_bytes`` is the size of
    the ledger without an end, up to ``span.stop``. Raises ``LogTrimmed`` if a ledger is missing: it
    was trimmed since the span was made.
    """
    if span.first >= span.end:
        return []
    assert span.stop is not None, "a span that has messages has an end"
    found: list[SizedSlice] = []
    covered = None
    for ledger in ledgers:
        if ledger.sequence is None or ledger.sequence >= span.end or ledger.id > span.stop.ledger:
            break
        if ledger.sequence > (span.first if covered is None else covered):
            raise _gone(span, ledger.sequence)
        first, last = FIRST_OF_LOG, _last(ledger, span.stop)
        if span.start is not None and span.start.ledger == ledger.id:
            first = max(first, span.start.entry)
        size = open_bytes if ledger.end is None else ledger.end.size_bytes
        end = last if ledger.end is None else ledger.end.last_entry
        covered = span.end if ledger.end is None else ledger.sequence + ledger.end.messages
        if covered <= span.first:
            continue
        for one in _sized(ledger.id, first, last, size, end):
            part = replace(
                one.part,
                sequence=ledger.sequence,
                was_open=ledger.end is None,
                ends_at=None if ledger.end is None else end,
            )
            found.append(replace(one, part=part))
    if covered is None or covered < span.end:
        raise _gone(span, span.first if covered is None else covered)
    return found


def _last(ledger: LogLedger, stop: MessageId) -> EntryId:
    """Give the last entry of a ledger that stands before ``stop``."""
    before = EntryId(stop.entry if stop.index else stop.entry - 1)
    if ledger.end is None:
        assert ledger.id == stop.ledger, "a span ends in the ledger without an end, or before"
        return before
    return min(before, ledger.end.last_entry) if ledger.id == stop.ledger else ledger.end.last_entry


def _gone(span: LogSpan, sequence: int) -> LogTrimmed:
    error = LogTrimmed(
        f"log {span.name}: messages from {span.first} to {span.end - 1} were asked for, and those "
        f"up to {sequence} were trimmed meanwhile; ask again, from a later message on"
    )
    error.retryable = True
    return error


def _sized(
    ledger_id: LedgerId, first: EntryId, last: EntryId, size_bytes: int, end: EntryId
) -> list[SizedSlice]:
    if first > last:
        return []
    part = EntrySlice(ledger=ledger_id, first=first, last=last)
    return [SizedSlice(part=part, size_bytes=size_bytes * len(part) // (end + 1))]


def tasks(parts: Sequence[SizedSlice], count: int | None) -> list[tuple[EntrySlice, ...]]:
    """Cut slices into tasks, at least one; ``count`` of them, or as their size says.

    No task but a single one is empty, so there are never more tasks than entries.
    """
    if count is None:
        size = sum(part.size_bytes for part in parts) + LEDGER_BYTES * max(0, len(parts) - 1)
        count = min(max(1, -(-size // PARTITION_BYTES_AIM)), PARTITIONS_MAX)
    weights = [part.size_bytes + LEDGER_BYTES for part in parts]
    total, before = sum(weights), 0
    cut: list[list[EntrySlice]] = [[] for _ in range(count)]
    for one, weight in zip(parts, weights, strict=True):
        entries, at = len(one.part), 0
        first_task = before * count // total
        last_task = ((before + weight) * count - 1) // total
        for task in range(first_task, last_task + 1):
            end = (total * (task + 1) - before * count) * entries // (weight * count)
            end = entries if task == last_task else end
            if end > at:
                cut[task].append(_between(one.part, at, end))
                at = end
        before += weight
    return [tuple(task) for task in cut if task] or [()]


def _between(part: EntrySlice, low: int, high: int) -> EntrySlice:
    first, last = EntryId(part.first + low), EntryId(part.first + high - 1)
    return replace(part, first=first, last=last)
