"""A frame gives back the entries that went into it, and any part of them, without losing one."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire import framing
from zonekeeper.placement.base.ids import EntryId
from zonekeeper.wire.formats import entries, frames
from zonekeeper.wire.formats.frames import Flags


def ids(*numbers: int) -> list[EntryId]:
    return [EntryId(number) for number in numbers]


@given(framing.some_frames)
def test_a_parsed_frame_is_the_one_that_was_built(frame: frames.Frame) -> None:
    parsed = frames.parse(frame.data())

    assert parsed == frame
    assert parsed == frames.parse(memoryview(frame.data()))
    assert parsed.data() == frame.data()
    assert (parsed.ledger_id, parsed.flags) == (frame.ledger_id, frame.flags)
    assert list(parsed.entry_ids) == list(frame.entry_ids)
    assert list(parsed.ends) == list(frame.ends)
    assert isinstance(parsed.entry_ids, range) is isinstance(frame.entry_ids, range)
    assert parsed.size_bytes == len(frame.data()) == frames.measure(frame.data() + b"and more")


@given(framing.some_frames)
def test_packets_come_out_whole_in_order_and_by_id(frame: frames.Frame) -> None:
    assert [entry_id for entry_id, _ in frame] == list(frame.entry_ids)
    assert b"".join(packet for _, packet in frame) == frame.packets
    assert (frame.first, frame.last) == (frame.entry_ids[0], frame.entry_ids[-1])
    assert len(frame) == len(frame.entry_ids)
    for entry_id, packet in frame:
        assert frame.packet(entry_id) == packet
        assert entries.header(packet).entry_id == entry_id


@given(framing.some_frames)
def test_rebuilding_a_frame_from_its_packets_gives_the_same_bytes(frame: frames.Frame) -> None:
    entry_ids, packets = zip(*frame, strict=True)

    assert frames.build(frame.ledger_id, entry_ids, packets, frame.flags) == frame


def test_what_a_writer_seals_is_what_a_reader_unseals() -> None:
    frame = frames.seal(framing.SEALER, EntryId(5), EntryId(3), 100, [b"a", b"", b"ccc"])

    opened = frames.unseal(framing.SEALER, frames.parse(frame.data()))

    assert opened == [
        (7, 5, 3, 101, b"a"),
        (7, 6, 3, 101, b""),
        (7, 7, 3, 104, b"ccc"),
    ]
    assert frame.last_add_confirmed == 3


def test_unsealing_names_the_entry_that_is_bad() -> None:
    good = framing.run(5, b"first", b"second", b"third")
    packets = [bytes(packet) for _, packet in good]
    packets[1] = packets[1][:-1] + b"!"
    damaged = frames.build(good.ledger_id, good.entry_ids, packets)

    with pytest.raises(entries.EntryError) as caught:
        frames.unseal(framing.SEALER, frames.parse(damaged.data()))

    assert caught.value.fault is entries.EntryFault.DIGEST
    assert caught.value.entry_id == 6


def test_an_absent_entry_has_no_packet() -> None:
    frame = framing.listed([2, 4, 9])

    assert [frame.packet(entry) for entry in ids(0, 1, 3, 5, 8, 10)] == [None] * 6


def test_the_lac_of_a_frame_is_that_of_its_last_packet() -> None:
    """Recovery and repair put packets of different ages into one frame."""
    old = framing.SEALER.seal(EntryId(4), EntryId(1), 10, b"old")
    new = framing.SEALER.seal(EntryId(5), EntryId(3), 13, b"new")

    assert frames.build(framing.LEDGER, ids(4, 5), [old, new]).last_add_confirmed == 3


@pytest.mark.parametrize("numbers", [[3, 4, 5, 6], [3, 5, 6, 9], [0], [2, 1 << 20, 1 << 31]])
def test_every_range_of_every_small_frame_is_cut_out(numbers: list[int]) -> None:
    whole = framing.listed(numbers, Flags.RECOVERY)
    edges = sorted({edge + step for edge in numbers for step in (-1, 0, 1)} - {-1})
    for first in edges:
        for last in edges:
            expected = [entry for entry in numbers if first <= entry <= last]
            cut = whole.between(EntryId(first), EntryId(last))
            assert cut == (framing.listed(expected, Flags.RECOVERY) if expected else None)
            assert cut is None or frames.parse(cut.data()) == cut


@pytest.mark.parametrize("numbers", [[3, 4, 5, 6], [3, 5, 6, 9], [0]])
def test_every_subset_of_every_small_frame_is_taken_out(numbers: list[int]) -> None:
    whole = framing.listed(numbers)
    for size in range(len(numbers) + 1):
        for wanted in combinations(ids(*numbers), size):
            expected = framing.listed(wanted) if wanted else None
            assert whole.subset(wanted) == expected
            assert whole.subset(ids(*wanted, 77)) == expected


def test_a_share_of_consecutive_entries_is_listed_and_one_of_it_is_not() -> None:
    """E > Qw: each bookie gets the frame of its entries."""
    whole = framing.run(10, b"a", b"b", b"c", b"d", b"e", b"f")

    share = whole.subset(ids(10, 13))

    assert share is not None
    assert share.entry_ids == (10, 13)
    alone = share.between(EntryId(11), EntryId(20))
    assert alone == whole.between(EntryId(13), EntryId(13))
    assert alone is not None
    assert alone.entry_ids == range(13, 14)


def test_the_whole_of_a_frame_is_not_built_again() -> None:
    frame = framing.run(1, b"a", b"b")

    assert frame.between(EntryId(0), EntryId(9)) is frame
    assert frame.subset(ids(1, 2)) is frame


@pytest.mark.parametrize("flags", [Flags.PLAIN, Flags.RECOVERY, Flags.DEFERRED_SYNC])
def test_flags_survive_parsing_and_cutting(flags: Flags) -> None:
    frame = frames.parse(framing.run(1, b"a", b"b", b"c", flags=flags).data())
    cut, share = frame.between(EntryId(2), EntryId(3)), frame.subset(ids(1, 3))

    assert cut is not None
    assert share is not None
    assert frame.flags == cut.flags == share.flags == flags


def test_frames_of_the_largest_count_and_of_the_largest_entries_are_taken() -> None:
    many = framing.run(0, *[b""] * frames.ENTRIES_MAX)
    large = framing.run(0, bytes(entries.PAYLOAD_BYTES_MAX), bytes(3 << 20))

    assert frames.parse(many.data()) == many
    assert frames.parse(large.data()) == large


@given(st.data())
def test_a_frame_keeps_nothing_of_the_buffer_that_it_was_parsed_from(data: st.DataObject) -> None:
    frame = data.draw(framing.some_frames)
    buffer = bytearray(frame.data())

    parsed = frames.parse(memoryview(buffer).toreadonly())
    buffer[:] = bytes(len(buffer))

    assert parsed == frame
