"""Pieces of a ledger: together exactly what was asked for, whatever the numbers."""

import dataclasses
import itertools

import pytest

from zonekeeper.metadata.formats.ledger_metadata import Fragment, LedgerMetadata, LedgerState
from zonekeeper.pipeline.reading import entry_ranges
from zonekeeper.pipeline.reading.entry_ranges import PARTITION_BYTES_AIM, NotReadable
from zonekeeper.pipeline.reading.options import PARTITIONS_MAX, ReadOptions
from zonekeeper.placement.base.digests import Digest
from zonekeeper.placement.base.ids import BookieId, EntryId, LedgerId

OPTIONS = ReadOptions(metadata="memory:", ledger=LedgerId(7))
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


def test_every_small_range_in_every_number_of_pieces_is_whole() -> None:
    for entries, first, last, count in itertools.product(
        range(6), range(7), [None, *range(6)], range(1, 8)
    ):
        if last is not None and last < first:
            continue  # is refused with the options
        options = dataclasses.replace(OPTIONS, first=first, last=last, partitions=count)
        end = entries - 1 if last is None else last
        if end >= entries or first > end + 1:
            with pytest.raises(NotReadable):
                entry_ranges.plan(closed(entries), options)
            continue
        pieces = entry_ranges.plan(closed(entries), options)
        wanted = list(range(first, end + 1))
        assert list(itertools.chain(*pieces)) == wanted
        assert len(pieces) == max(1, min(count, len(wanted)))
        sizes = {len(piece) for piece in pieces}
        assert max(sizes) - min(sizes) <= 1


def test_without_a_number_the_pieces_are_of_one_size() -> None:
    one = closed(64, PARTITION_BYTES_AIM // 64)
    assert len(entry_ranges.plan(one, OPTIONS)) == 1
    assert len(entry_ranges.plan(closed(65, PARTITION_BYTES_AIM // 64), OPTIONS)) == 2
    half = dataclasses.replace(OPTIONS, first=64)
    assert len(entry_ranges.plan(closed(128, PARTITION_BYTES_AIM // 64), half)) == 1
    assert len(entry_ranges.plan(closed(3, 0), OPTIONS)) == 1
    vast = closed(1 << 40, 4 << 20)
    assert len(entry_ranges.plan(vast, OPTIONS)) == PARTITIONS_MAX


@pytest.mark.parametrize("state", [LedgerState.OPEN, LedgerState.IN_RECOVERY])
def test_a_ledger_that_is_not_closed_is_refused_with_the_way_to_close_it(
    state: LedgerState,
) -> None:
    with pytest.raises(NotReadable) as refused:
        entry_ranges.plan(dataclasses.replace(OPEN, state=state), OPTIONS)

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
    options = dataclasses.replace(OPTIONS, first=first, last=last)

    with pytest.raises(NotReadable, match=said):
        entry_ranges.plan(closed(entries), options)
