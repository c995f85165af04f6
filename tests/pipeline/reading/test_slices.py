"""Slices of a read: together exactly what was asked for, whatever the numbers."""

import dataclasses
import itertools
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonekeeper.log.base.errors import LogTrimmed
from zonekeeper.metadata.formats.ledger_metadata import Fragment, LedgerMetadata, LedgerState
from zonekeeper.metadata.formats.log_record import LogLedger, LogLedgerEnd
from zonekeeper.metadata.formats.message_ids import MessageId
from zonekeeper.pipeline.reading import slices
from zonekeeper.pipeline.reading.slices import (
    LEDGER_BYTES,
    PARTITION_BYTES_AIM,
    EntrySlice,
    LogSpan,
    NotReadable,
    SizedSlice,
)
from zonekeeper.pipeline.reading.wanted import PARTITIONS_MAX, OneLedger
from zonekeeper.placement.base.digests import Digest
from zonekeeper.placement.base.ids import BookieId, EntryId, LedgerId

LEDGER = LedgerId(7)
ALL = OneLedger(ledger=LEDGER)
OPEN = LedgerMetadata(
    ensemble_size=1,
    write_quorum=1,
    ack_quorum=1,
    fragments=(Fragment(EntryId(0), (BookieId("bk-a-0"),)),),
    digest=Digest.CRC32C,
    password=b"",
)


def closed(entries: int, entry_bytes: int = 1) -> LedgerMetadata:
    return dataclasses.replace(
        OPEN,
        state=LedgerState.CLOSED,
        last_entry=EntryId(entries - 1),
        length=entries * entry_bytes,
    )


def every(tasks: Sequence[Sequence[EntrySlice]]) -> list[tuple[int, int]]:
    return [
        (part.ledger, entry)
        for task in tasks
        for part in task
        for entry in range(part.first, part.last + 1)
    ]


def sized(ledger: int, first: int, entries: int, size_bytes: int) -> SizedSlice:
    part = EntrySlice(
        ledger=LedgerId(ledger), first=EntryId(first), last=EntryId(first + entries - 1)
    )
    return SizedSlice(part=part, size_bytes=size_bytes)


def test_every_small_range_of_a_ledger_in_every_number_of_tasks_is_whole() -> None:
    for entries, first, last, count in itertools.product(
        range(6), range(7), [None, *range(6)], range(1, 8)
    ):
        if last is not None and last < first:
            continue  # is refused with the options
        wanted = OneLedger(ledger=LEDGER, first=first, last=last)
        end = entries - 1 if last is None else last
        if end >= entries or first > end + 1:
            with pytest.raises(NotReadable):
                slices.of_ledger(closed(entries), wanted)
            continue
        tasks = slices.tasks(slices.of_ledger(closed(entries), wanted), count)
        entry_ids = list(range(first, end + 1))
        assert every(tasks) == [(7, entry) for entry in entry_ids]
        assert len(tasks) == max(1, min(count, len(entry_ids)))
        sizes = {sum(map(len, task)) for task in tasks}
        assert max(sizes) - min(sizes) <= 1


@given(
    ledgers=st.lists(st.tuples(st.integers(1, 50), st.integers(0, 1 << 30)), max_size=20),
    count=st.none() | st.integers(1, 60),
)
def test_every_entry_of_every_ledger_is_in_one_task_once_and_in_order(
    ledgers: list[tuple[int, int]], count: int | None
) -> None:
    parts = [sized(at, at, entries, size) for at, (entries, size) in enumerate(ledgers)]

    tasks = slices.tasks(parts, count)

    assert every(tasks) == every([[one.part for one in parts]])
    assert len(tasks) <= max(1, sum(entries for entries, _ in ledgers))
    assert count is None or len(tasks) <= count
    assert len(tasks) == 1 or all(tasks)
    weights = [size + LEDGER_BYTES for _, size in ledgers]
    largest = max((w / n for w, (n, _) in zip(weights, ledgers, strict=True)), default=0)
    for task in tasks:
        weight = sum(len(one) * weights[one.ledger] / ledgers[one.ledger][0] for one in task)
        aim = PARTITION_BYTES_AIM + LEDGER_BYTES if count is None else sum(weights) / count
        assert weight <= aim + 2 * largest + 1


def test_without_a_number_tasks_are_of_one_size() -> None:
    def count(entries: int, entry_bytes: int, wanted: OneLedger = ALL) -> int:
        return len(slices.tasks(slices.of_ledger(closed(entries, entry_bytes), wanted), None))

    assert count(64, PARTITION_BYTES_AIM // 64) == 1
    assert count(65, PARTITION_BYTES_AIM // 64) == 2
    half = OneLedger(ledger=LEDGER, first=64)
    assert count(128, PARTITION_BYTES_AIM // 64, half) == 1
    assert count(3, 0) == 1
    assert count(1 << 40, 4 << 20) == PARTITIONS_MAX


def test_small_ledgers_share_tasks_and_many_of_them_share_several() -> None:
    assert len(slices.tasks([sized(at, 0, 2, 10) for at in range(300)], None)) == 1
    many = PARTITION_BYTES_AIM // LEDGER_BYTES
    assert len(slices.tasks([sized(at, 0, 1, 0) for at in range(3 * many)], None)) == 3


@pytest.mark.parametrize("state", [LedgerState.OPEN, LedgerState.IN_RECOVERY])
def test_a_ledger_that_is_not_closed_is_refused_with_the_way_to_close_it(
    state: LedgerState,
) -> None:
    unclosed = dataclasses.replace(OPEN, state=state)
    asks: list[Callable[[], object]] = [
        lambda: slices.of_ledger(unclosed, ALL),
        lambda: slices.whole(LEDGER, unclosed),
    ]
    for ask in asks:
        with pytest.raises(NotReadable) as refused:
            ask()
        assert f"ledger 7 is {state.value}: only a closed ledger is read" in str(refused.value)
        assert "client.open(7, recover=True) recovers it, and fences a writer" in str(refused.value)


@pytest.mark.parametrize(
    ("entries", "first", "last", "said"),
    [
        (10, 0, 10, "its last entry is 9: there is no entry 10"),
        (10, 12, 15, "its last entry is 9: there is no entry 15"),
        (10, 11, None, "its last entry is 9: there is no entry 11"),
        (0, 0, 0, "it has no entries: there is no entry 0"),
    ],
)
def test_a_range_beyond_the_end_is_refused_with_the_end(
    entries: int, first: int, last: int | None, said: str
) -> None:
    wanted = OneLedger(ledger=LEDGER, first=first, last=last)

    with pytest.raises(NotReadable, match=said):
        slices.of_ledger(closed(entries), wanted)


def test_a_whole_ledger_is_one_slice_and_an_empty_one_is_none() -> None:
    assert slices.whole(LEDGER, closed(3, 5)) == [sized(7, 0, 3, 15)]
    assert slices.whole(LEDGER, closed(0)) == []


# ── logs ──

#: Three ledgers of 10, 0 and 20 messages, two messages an entry, and one without an end.
CHAIN = [
    LogLedger(
        id=LedgerId(3),
        epoch=1,
        sequence=0,
        end=LogLedgerEnd(last_entry=EntryId(5), size_bytes=600, messages=10, first_ms=1, last_ms=1),
    ),
    LogLedger(
        id=LedgerId(5),
        epoch=1,
        sequence=10,
        end=LogLedgerEnd(last_entry=EntryId(0), size_bytes=9, messages=0, first_ms=1, last_ms=1),
    ),
    LogLedger(
        id=LedgerId(8),
        epoch=1,
        sequence=10,
        end=LogLedgerEnd(
            last_entry=EntryId(10), size_bytes=1100, messages=20, first_ms=1, last_ms=1
        ),
    ),
    LogLedger(id=LedgerId(9), epoch=2, sequence=30),
    LogLedger(id=LedgerId(12), epoch=2, sequence=None),
]


def place(sequence: int) -> tuple[int, int, int]:
    """Give ledger, entry and index of a message of the chain."""
    for ledger, first, end in ((3, 0, 10), (8, 10, 30), (9, 30, 100)):
        if first <= sequence < end:
            return ledger, 1 + (sequence - first) // 2, (sequence - first) % 2
    raise AssertionError(sequence)


def message_id(sequence: int) -> MessageId:
    ledger, entry, index = place(sequence)
    return MessageId(LedgerId(ledger), EntryId(entry), index)


def span(first: int, end: int, *, exact: bool = True) -> LogSpan:
    ledger, entry, index = place(end - 1) if end else (3, 0, 0)
    behind = (entry, index + 1) if exact else (entry + 1, 0)
    return LogSpan(
        name="orders",
        log_id="0f" * 16,
        start=None if first == 0 else message_id(first),
        first=first,
        stop=MessageId(LedgerId(ledger), EntryId(behind[0]), behind[1]),
        end=end,
    )


@pytest.mark.parametrize("exact", [True, False])
def test_every_span_of_a_log_names_just_the_entries_of_its_messages(*, exact: bool) -> None:
    for first in range(41):
        for end in range(first, 41):
            wanted = span(first, end, exact=exact)
            start = 0 if wanted.start is None else wanted.start.ledger
            chain = [ledger for ledger in CHAIN if ledger.id >= start]
            parts = slices.of_log(chain, wanted)
            entries = sorted({place(sequence)[:2] for sequence in range(first, end)})
            assert every([[one.part for one in parts]]) == entries
            for one in parts:
                assert one.part.was_open == (one.part.ledger == 9)
                assert one.part.sequence == {3: 0, 8: 10, 9: 30}[one.part.ledger]


def test_the_bytes_of_a_span_are_those_of_its_entries() -> None:
    parts = slices.of_log(CHAIN, span(0, 40), open_bytes=600)

    assert [one.size_bytes for one in parts] == [500, 1000, 500]


@pytest.mark.parametrize(
    ("chain", "first", "end"),
    [
        (CHAIN[2:], 0, 40),
        ([CHAIN[0], *CHAIN[3:]], 0, 40),
        (CHAIN[3:], 29, 31),
        (CHAIN[:2], 0, 40),
        ([], 0, 1),
    ],
)
def test_a_ledger_that_was_trimmed_meanwhile_is_an_error_and_never_a_gap(
    chain: list[LogLedger], first: int, end: int
) -> None:
    with pytest.raises(LogTrimmed, match="were trimmed meanwhile") as refused:
        slices.of_log(chain, span(first, end))
    assert refused.value.retryable


def test_a_span_of_nothing_needs_no_ledger() -> None:
    empty = LogSpan(name="x", log_id="0f" * 16, start=None, first=4, stop=None, end=4)

    assert slices.of_log([], empty) == []
    assert slices.tasks([], 5) == [()]
