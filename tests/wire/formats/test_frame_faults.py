"""The frame parser takes what a builder gives, and for anything else says what is wrong with it."""

import tracemalloc

import pytest

from tests.support import allocations
from tests.wire import framing, tampering
from tests.wire.tampering import (
    FRAME_COUNT,
    FRAME_FIRST,
    FRAME_FLAGS,
    FRAME_LEDGER,
    FRAME_SIZE,
    FRAME_TABLES,
    u32,
    u64,
)
from zonekeeper.wire.formats import entries, errors, frames
from zonekeeper.wire.formats.errors import Fault

RUN = framing.run(5, b"a", b"bb", b"ccc").data()
LISTED = framing.listed([5, 7, 20]).data()
LISTED_IDS = FRAME_TABLES + 3 * 4


def fault_of(data: bytes) -> Fault:
    with pytest.raises(errors.FormatError) as caught:
        frames.parse(data)
    assert str(caught.value).startswith(f"frame {caught.value.fault.value}: ")
    return caught.value.fault


@pytest.mark.parametrize("good", [RUN, LISTED])
def test_every_flipped_bit_is_noticed(good: bytes) -> None:
    for bit in range(len(good) * 8):
        damaged = bytearray(good)
        damaged[bit // 8] ^= 1 << bit % 8
        fault_of(bytes(damaged))


@pytest.mark.fuzz
def test_every_two_flipped_bits_are_noticed() -> None:
    good = framing.run(5, b"a").data()
    for one in range(len(good) * 8):
        for other in range(one):
            damaged = bytearray(good)
            damaged[one // 8] ^= 1 << one % 8
            damaged[other // 8] ^= 1 << other % 8
            fault_of(bytes(damaged))


@pytest.mark.parametrize("good", [RUN, LISTED])
def test_every_truncation_is_noticed(good: bytes) -> None:
    for size in range(len(good)):
        assert fault_of(good[:size]) is Fault.TRUNCATED


def test_bytes_after_the_end_are_noticed() -> None:
    assert fault_of(RUN + b"\0") is Fault.TRAILING
    assert fault_of(RUN + RUN) is Fault.TRAILING


def test_another_magic_is_not_a_frame() -> None:
    assert fault_of(b"ZKCR" + RUN[4:]) is Fault.MAGIC


def test_the_next_version_is_unsupported_and_not_corrupt() -> None:
    newer = tampering.frame(RUN, 4, bytes([frames.VERSION + 1]))
    with pytest.raises(errors.FormatError) as caught:
        frames.parse(newer)

    assert caught.value.fault is Fault.VERSION
    assert isinstance(caught.value.as_protocol_error(), errors.UnsupportedVersion)
    assert "2, this side speaks 1" in str(caught.value)


def test_whatever_else_is_wrong_is_a_bad_request() -> None:
    with pytest.raises(errors.FormatError) as caught:
        frames.parse(RUN[:-1])

    refusal = caught.value.as_protocol_error()
    assert isinstance(refusal, errors.BadRequest)
    assert refusal.detail == str(caught.value)


@pytest.mark.parametrize("at", [5, 6, 7])
def test_reserved_bytes_are_zero(at: int) -> None:
    assert fault_of(tampering.frame(RUN, at, b"\1")) is Fault.RESERVED


@pytest.mark.parametrize("bit", [bit for bit in range(32) if 1 << bit not in (1, 2, 4)])
def test_reserved_flags_are_zero(bit: int) -> None:
    assert fault_of(tampering.frame(RUN, FRAME_FLAGS, u32(1 << bit))) is Fault.RESERVED


def test_a_wrong_checksum_is_told_with_both_values() -> None:
    with pytest.raises(errors.FormatError, match="00000000") as caught:
        frames.parse(tampering.patched(RUN, tampering.CRC_AT, u32(0)))

    assert caught.value.fault is Fault.CHECKSUM


@pytest.mark.parametrize(
    ("size", "fault"),
    [
        (0, Fault.LENGTH),
        (frames.HEADER_BYTES - 1, Fault.LENGTH),
        (len(RUN) + 1, Fault.TRUNCATED),
        (len(RUN) - 1, Fault.TRAILING),
        (frames.FRAME_BYTES_MAX + 1, Fault.OVERSIZED),
        ((1 << 32) - 1, Fault.OVERSIZED),
    ],
)
def test_a_size_that_cannot_be_is_refused(size: int, fault: Fault) -> None:
    assert fault_of(tampering.frame(RUN, FRAME_SIZE, u32(size))) is fault


@pytest.mark.parametrize(
    ("count", "fault"),
    [
        (0, Fault.COUNT),
        (1, Fault.LENGTH),
        (2, Fault.LENGTH),
        (4, Fault.LENGTH),
        (frames.ENTRIES_MAX, Fault.LENGTH),
        (frames.ENTRIES_MAX + 1, Fault.COUNT),
        ((1 << 32) - 1, Fault.COUNT),
    ],
)
@pytest.mark.parametrize("good", [RUN, LISTED])
def test_a_count_that_cannot_be_is_refused(good: bytes, count: int, fault: Fault) -> None:
    assert fault_of(tampering.frame(good, FRAME_COUNT, u32(count))) is fault


def test_a_header_alone_is_refused() -> None:
    assert fault_of(tampering.frame(RUN[: frames.HEADER_BYTES])) is Fault.LENGTH


@pytest.mark.parametrize("length", [0, entries.HEADER_BYTES - 1, entries.PACKET_BYTES_MAX + 1])
def test_a_packet_outside_the_limits_is_refused(length: int) -> None:
    assert fault_of(tampering.frame(RUN, FRAME_TABLES, u32(length))) is Fault.LENGTH


def test_lengths_that_do_not_add_up_are_refused() -> None:
    assert fault_of(tampering.frame(RUN, FRAME_TABLES, u32(38))) is Fault.LENGTH
    assert fault_of(tampering.frame(RUN + b"x")) is Fault.LENGTH
    assert fault_of(tampering.frame(RUN[:-1])) is Fault.LENGTH


def test_lengths_that_add_up_to_other_packets_are_refused() -> None:
    moved = tampering.patched(RUN, FRAME_TABLES, u32(37 + 1) + u32(38 - 1))

    assert fault_of(tampering.frame(moved)) is Fault.PACKET


def test_a_frame_and_its_packets_must_agree() -> None:
    assert fault_of(tampering.frame(RUN, FRAME_LEDGER, u64(8))) is Fault.PACKET
    assert fault_of(tampering.frame(RUN, FRAME_FIRST, u64(6))) is Fault.PACKET
    assert fault_of(tampering.frame(LISTED, LISTED_IDS, u32(0) + u32(3))) is Fault.PACKET


def test_what_was_kept_is_held_to_its_checksum_and_its_packets_are_not_looked_into() -> None:
    assert frames.parse_again(RUN) == frames.parse(RUN)
    assert frames.parse_again(tampering.frame(RUN, FRAME_LEDGER, u64(8))).ledger_id == 8
    for at in range(len(RUN)):
        with pytest.raises(errors.FormatError):
            frames.parse_again(tampering.patched(RUN, at, bytes([RUN[at] ^ 1])))


@pytest.mark.parametrize("at", [FRAME_LEDGER, FRAME_FIRST])
def test_negative_ids_are_refused(at: int) -> None:
    assert fault_of(tampering.frame(RUN, at, u64(-1))) is Fault.RANGE
    assert fault_of(tampering.frame(RUN, at, u64(-(1 << 63)))) is Fault.RANGE


def test_ids_past_the_last_possible_one_are_refused() -> None:
    last = u64(entries.ID_END - 1)

    assert fault_of(tampering.frame(RUN, FRAME_FIRST, last)) is Fault.RANGE
    assert fault_of(tampering.frame(LISTED, FRAME_FIRST, last)) is Fault.RANGE


def test_listed_ids_are_strictly_ascending() -> None:
    def with_ids(*steps: int) -> bytes:
        return tampering.frame(LISTED, LISTED_IDS, b"".join(map(u32, steps)))

    assert fault_of(with_ids(0, 0, 15)) is Fault.DUPLICATE
    assert fault_of(with_ids(0, 15, 15)) is Fault.DUPLICATE
    assert fault_of(with_ids(0, 15, 2)) is Fault.DESCENDING
    assert fault_of(with_ids(2, 0, 15)) is Fault.RANGE
    assert fault_of(with_ids(1, 2, 15)) is Fault.RANGE
    assert fault_of(with_ids(0, 1, 2)) is Fault.NOT_CANONICAL


def test_a_listed_frame_is_not_taken_as_consecutive_nor_the_other_way_round() -> None:
    fault_of(tampering.frame(LISTED, FRAME_FLAGS, u32(0)))
    fault_of(tampering.frame(RUN, FRAME_FLAGS, u32(1)))


def test_memory_is_bounded_by_what_is_there_and_not_by_what_is_claimed() -> None:
    claims = [
        tampering.frame(good, at, u32(value))
        for good in (RUN, LISTED)
        for at in (FRAME_SIZE, FRAME_COUNT, FRAME_FLAGS, FRAME_TABLES)
        for value in (1 << 16, (1 << 31) - 1, (1 << 32) - 1)
    ]
    for claim in claims:
        with allocations.peak_below(64 << 10):
            fault_of(claim)


def test_memory_for_a_frame_of_the_smallest_entries_is_a_few_times_its_size() -> None:
    data = framing.run(0, *[b""] * frames.ENTRIES_MAX).data()
    tracemalloc.start()
    try:
        frames.parse(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 5 * len(data)
