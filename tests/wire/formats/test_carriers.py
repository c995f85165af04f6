"""A carrier gives back its items, and refuses everything that no builder would write."""

import tracemalloc
from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import allocations
from tests.wire import carrying, framing, tampering
from tests.wire.link.worlds import Writer
from tests.wire.tampering import (
    CARRIER_CONTROL,
    CARRIER_FRAMES_AT,
    CARRIER_ITEMS,
    CARRIER_SIZE,
    u32,
    u64,
)
from zonekeeper.placement.base.ids import EntryId, LedgerId
from zonekeeper.wire.formats import carriers, digests, entries, errors, frames
from zonekeeper.wire.formats.errors import Fault

ALL = carriers.build(carrying.ONE_OF_EACH.values())

# Where the fields of an only item stand.
KIND, FLAGS, TAIL, WORD, NUMBER, FIXED = (CARRIER_CONTROL + at for at in (0, 1, 2, 4, 8, 16))


def alone(name: str) -> bytes:
    return carriers.build([carrying.ONE_OF_EACH[name]])


def fault_of(data: bytes) -> Fault:
    with pytest.raises(errors.FormatError) as caught:
        carriers.parse(data)
    return caught.value.fault


def test_one_of_each_means_each() -> None:
    assert {type(item) for item in carrying.ONE_OF_EACH.values()} == set(get_args(carriers.Item))


# ── round trips ──


@given(st.lists(carrying.items, min_size=1, max_size=8))
def test_a_parsed_carrier_has_the_items_that_were_built(items: list[carriers.Item]) -> None:
    data = carriers.build(items)

    assert carriers.parse(data) == tuple(items)
    assert carriers.build(carriers.parse(data)) == data
    assert len(data) == carriers.HEADER_BYTES + sum(map(carriers.size_of, items))


@given(st.lists(carrying.items | carrying.proving_items, min_size=1, max_size=8))
def test_a_carrier_of_the_second_version_gives_back_proofs_and_nonces(
    items: list[carriers.Item],
) -> None:
    data = carriers.build(items, 2)

    assert carriers.parse(data, 2) == tuple(items)
    assert carriers.build(carriers.parse(data, 2), 2) == data
    assert len(data) == carriers.HEADER_BYTES + sum(map(carriers.size_of, items))


@pytest.mark.parametrize("name", carrying.PROVING)
def test_the_first_version_has_no_nonce_and_no_proof(name: str) -> None:
    data = carriers.build([carrying.PROVING[name]], 2)
    as_first = tampering.patched(data, 4, bytes([carriers.VERSION]))
    if name == "Hello with a nonce":
        assert carriers.parse(data, 2) == (carrying.PROVING[name],)

    assert fault_of(as_first) is Fault.RESERVED
    with pytest.raises(AssertionError):
        carriers.build([carrying.PROVING[name]])


@pytest.mark.parametrize(
    ("name", "flags"),
    [("Read", 1), ("Read", 2), ("Read", 3), ("Read", 4), ("Read that fences", 2), ("Open", 4)],
)
def test_a_read_that_proves_has_a_proof_and_no_item_has_other_flags(name: str, flags: int) -> None:
    data = carriers.build([carrying.ONE_OF_EACH[name]], 2)
    changed = tampering.carrier(data, FLAGS, bytes([flags]))
    with pytest.raises(errors.FormatError) as caught:
        carriers.parse(changed, 2)
    assert caught.value.fault is Fault.RESERVED


def test_a_nonce_is_whole() -> None:
    data = carriers.build([carrying.PROVING["Hello with a nonce"]], 2)
    shorter = tampering.patched(data[:-1], TAIL, b"\0\x0f")
    shorter = tampering.patched(shorter, CARRIER_FRAMES_AT, u32(len(shorter)))
    with pytest.raises(errors.FormatError) as caught:
        carriers.parse(tampering.carrier(shorter), 2)
    assert caught.value.fault is Fault.LENGTH


def test_frames_of_many_ledgers_travel_in_one_carrier() -> None:
    sealers = [entries.Sealer(ledger, framing.DIGEST, b"") for ledger in framing.ledgers(100)]
    sent = [
        carriers.Append(
            number=number, frame=frames.seal(sealer, EntryId(0), EntryId(-1), 0, [b"x"])
        )
        for number, sealer in enumerate(sealers)
    ]

    received = carriers.parse(carriers.build(sent))

    assert received == tuple(sent)


def test_a_frame_of_the_largest_size_fits_into_a_carrier_of_its_own() -> None:
    one = framing.SEALER.overhead_bytes + frames.LENGTH_BYTES
    rest = frames.FRAME_BYTES_MAX - frames.HEADER_BYTES - 2 * one - entries.PAYLOAD_BYTES_MAX
    frame = framing.run(0, bytes(entries.PAYLOAD_BYTES_MAX), bytes(rest))
    assert frame.size_bytes == frames.FRAME_BYTES_MAX
    reply = carriers.ReadAnswer(
        number=1, next_entry=EntryId(2), last_add_confirmed=None, frames=(frame,)
    )

    for item in (carriers.Append(number=1, frame=frame), reply):
        assert carriers.parse(carriers.build([item])) == (item,)


def test_a_long_detail_is_cut_at_the_end_of_a_character() -> None:
    long = carriers.Refused(number=1, code=1, detail="é" + "x" * 1022 + "é")

    (found,) = carriers.parse(carriers.build([long]))

    assert found == carriers.Refused(number=1, code=1, detail="é" + "x" * 1022)


def test_a_detail_that_is_not_text_does_not_keep_an_error_from_being_told() -> None:
    (found,) = carriers.parse(carriers.build([carriers.Refused(number=1, code=1, detail="\ud800")]))

    assert found == carriers.Refused(number=1, code=1, detail="?")


def test_a_parsed_frame_does_not_keep_the_carrier_alive() -> None:
    large = framing.run(0, bytes(1 << 20))
    data = carriers.build(
        [carriers.Append(number=1, frame=large), carriers.Append(number=2, frame=carrying.RUN)]
    )
    tracemalloc.start()
    try:
        kept = carriers.parse(data)[1]
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert kept == carriers.Append(number=2, frame=carrying.RUN)
    assert held < 64 << 10


# ── what is refused ──


def test_every_flipped_bit_is_noticed() -> None:
    for bit in range(len(ALL) * 8):
        damaged = bytearray(ALL)
        damaged[bit // 8] ^= 1 << bit % 8
        fault_of(bytes(damaged))


def test_every_truncation_is_noticed() -> None:
    for size in range(len(ALL)):
        assert fault_of(ALL[:size]) is Fault.TRUNCATED


def test_bytes_after_the_end_are_noticed() -> None:
    assert fault_of(ALL + b"\0") is Fault.TRAILING
    assert fault_of(tampering.carrier(ALL + b"\0")) is Fault.TRAILING
    assert fault_of(tampering.carrier(ALL + carrying.RUN.data())) is Fault.TRAILING


def test_another_magic_is_not_a_carrier() -> None:
    assert fault_of(carrying.RUN.data()) is Fault.MAGIC


def test_the_next_version_is_unsupported_and_not_corrupt() -> None:
    newer = tampering.carrier(ALL, 4, bytes([carriers.VERSION + 1]))
    with pytest.raises(errors.FormatError) as caught:
        carriers.parse(newer)

    assert caught.value.fault is Fault.VERSION
    assert isinstance(caught.value.as_protocol_error(), errors.UnsupportedVersion)


def test_a_frame_of_the_next_version_is_unsupported_too() -> None:
    data = alone("Append")

    assert fault_of(tampering.patched(data, data.index(frames.MAGIC) + 4, b"\2")) is Fault.VERSION


@pytest.mark.parametrize("at", [5, 6, 7])
def test_reserved_bytes_are_zero(at: int) -> None:
    assert fault_of(tampering.carrier(ALL, at, b"\1")) is Fault.RESERVED


@pytest.mark.parametrize(
    ("at", "value", "fault"),
    [
        (CARRIER_SIZE, 0, Fault.TRAILING),
        (CARRIER_SIZE, len(ALL) - 1, Fault.TRAILING),
        (CARRIER_SIZE, len(ALL) + 1, Fault.TRUNCATED),
        (CARRIER_SIZE, carriers.CARRIER_BYTES_MAX + 1, Fault.OVERSIZED),
        (CARRIER_ITEMS, 0, Fault.COUNT),
        (CARRIER_ITEMS, len(carrying.ONE_OF_EACH) - 1, Fault.TRAILING),
        (CARRIER_ITEMS, len(carrying.ONE_OF_EACH) + 1, Fault.TRUNCATED),
        (CARRIER_ITEMS, carriers.ITEMS_MAX, Fault.TRUNCATED),
        (CARRIER_ITEMS, carriers.ITEMS_MAX + 1, Fault.COUNT),
        (CARRIER_ITEMS, (1 << 32) - 1, Fault.COUNT),
        (CARRIER_FRAMES_AT, 0, Fault.LENGTH),
        (CARRIER_FRAMES_AT, CARRIER_CONTROL - 1, Fault.LENGTH),
        (CARRIER_FRAMES_AT, CARRIER_CONTROL, Fault.TRUNCATED),
        (CARRIER_FRAMES_AT, len(ALL) + 1, Fault.LENGTH),
        (CARRIER_FRAMES_AT, len(ALL), Fault.TRUNCATED),
    ],
)
def test_a_header_that_cannot_be_is_refused(at: int, value: int, fault: Fault) -> None:
    assert fault_of(tampering.carrier(ALL, at, u32(value))) is fault


def test_more_bytes_than_the_limit_are_refused_whatever_they_are() -> None:
    assert fault_of(ALL + bytes(carriers.CARRIER_BYTES_MAX)) is Fault.OVERSIZED


@pytest.mark.parametrize("kind", [0, 9, 255])
def test_an_unknown_kind_is_refused(kind: int) -> None:
    assert fault_of(tampering.carrier(alone("Hello"), KIND, bytes([kind]))) is Fault.KIND


@pytest.mark.parametrize("name", carrying.ONE_OF_EACH)
def test_reserved_flags_of_every_kind_are_zero(name: str) -> None:
    used = 1 if name.startswith(("ReadReply", "Open")) else 0
    for bit in range(8):
        if not 1 << bit & used:
            changed = tampering.carrier(alone(name), FLAGS, bytes([1 << bit]))
            assert fault_of(changed) is Fault.RESERVED


@pytest.mark.parametrize("name", ["Append", "WriteLac", "Hello", "Acked"])
def test_the_word_of_a_kind_that_has_none_is_zero(name: str) -> None:
    assert fault_of(tampering.carrier(alone(name), WORD, u32(1))) is Fault.RESERVED


@pytest.mark.parametrize("name", ["Append", "Hello", "Acked", "ReadReply", "Read"])
def test_a_tail_where_there_is_none_is_refused(name: str) -> None:
    data = alone(name)
    items_end = int.from_bytes(data[CARRIER_FRAMES_AT:CARRIER_CONTROL], "big")
    longer = data[:items_end] + b"x" + data[items_end:]
    longer = tampering.patched(longer, TAIL, b"\0\1")
    longer = tampering.patched(longer, CARRIER_FRAMES_AT, u32(items_end + 1))

    assert fault_of(tampering.carrier(longer)) is Fault.LENGTH


def test_a_tail_past_the_items_is_refused() -> None:
    for name in ("WriteLac", "Refused", "Hello", "Append"):
        assert fault_of(tampering.carrier(alone(name), TAIL, b"\xff\xff")) is Fault.TRUNCATED


def test_a_lac_packet_of_no_digest_is_refused() -> None:
    for size in (8, 15, 37):
        packet = bytes(7) + bytes([framing.LEDGER]) + bytes(size - 8)
        item = carriers.WriteLac(number=1, ledger_id=framing.LEDGER, packet=packet)
        assert fault_of(carriers.build([item])) is Fault.LENGTH


def test_acknowledgements_are_an_ascending_range_of_limited_length() -> None:
    data = alone("Acked")

    assert fault_of(tampering.carrier(data, FIXED, u64(4))) is Fault.RANGE
    assert fault_of(tampering.carrier(data, FIXED, u64(5 + carriers.ACKED_MAX))) is Fault.RANGE
    assert fault_of(tampering.carrier(data, FIXED, u64(-1))) is Fault.RANGE


def test_a_refusal_has_a_number_and_readable_words() -> None:
    data = alone("Refused")

    assert fault_of(tampering.carrier(data, WORD, u32(0))) is Fault.RANGE
    assert fault_of(tampering.carrier(data, FIXED, b"\xff")) is Fault.TEXT


def test_a_detail_over_the_limit_is_refused() -> None:
    data = alone("Refused")[:FIXED] + b"x" * 1025
    data = tampering.patched(data, TAIL, (1025).to_bytes(2, "big"))
    data = tampering.patched(data, CARRIER_FRAMES_AT, u32(len(data)))

    assert fault_of(tampering.carrier(data)) is Fault.LENGTH


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (0, 1 << 63),  # ledger
        (1, 18),  # first, after the last
        (1, -1),
        (2, 4),  # last, before the first
        (2, 1 << 63),
        (3, 0),  # step
        (3, (1 << 63) + 1),
    ],
)
def test_a_read_of_what_cannot_be_is_refused(field: int, value: int) -> None:
    changed = tampering.carrier(alone("Read"), FIXED + 8 * field, u64(value))

    assert fault_of(changed) is Fault.RANGE


def test_a_fence_key_is_whole() -> None:
    data = alone("Read that fences")
    shorter = tampering.patched(data[:-1], TAIL, b"\0\x13")
    shorter = tampering.patched(shorter, CARRIER_FRAMES_AT, u32(len(shorter)))

    assert fault_of(tampering.carrier(shorter)) is Fault.LENGTH


def test_a_lac_and_its_packet_are_of_one_ledger_in_its_range() -> None:
    data = alone("WriteLac")

    assert fault_of(tampering.carrier(data, FIXED, u64(8))) is Fault.PACKET
    assert fault_of(tampering.carrier(data, FIXED, u64(1 << 63) * 2)) is Fault.RANGE


def test_the_numbers_of_a_reply_are_in_their_range() -> None:
    with_lac, without = alone("ReadReply"), alone("ReadReply without a LAC")

    assert fault_of(tampering.carrier(with_lac, FIXED + 8, u64(-2))) is Fault.RANGE
    assert fault_of(tampering.carrier(without, FIXED + 8, u64(1))) is Fault.RANGE
    assert fault_of(tampering.carrier(without, FIXED, u64((1 << 63) + 1))) is Fault.RANGE


def test_the_frames_of_a_reply_are_one_ledger_in_order_before_the_next_entry() -> None:
    def reply(*found: frames.Frame) -> bytes:
        appends = [carriers.Append(number=1, frame=frame) for frame in found]
        data = carriers.build(appends)
        packed = data[data.index(frames.MAGIC) :]
        good = alone("ReadReply")
        bad = good[: good.index(frames.MAGIC)] + packed
        return tampering.carrier(tampering.patched(bad, WORD, u32(len(found))))

    early, late = framing.run(1, b"a", b"b"), framing.run(10, b"c", b"d")
    sealer = entries.Sealer(framing.ledgers(9)[-1], framing.DIGEST, b"")
    foreign = frames.seal(sealer, EntryId(10), EntryId(9), 0, [b"x"])

    assert carriers.parse(reply(early, late))
    assert fault_of(reply(late, early)) is Fault.DESCENDING
    assert fault_of(reply(early, early)) is Fault.DESCENDING
    assert fault_of(reply(early, framing.run(2, b"x"))) is Fault.DESCENDING
    assert fault_of(reply(early, foreign)) is Fault.DESCENDING
    assert fault_of(reply(framing.run(11, b"x", b"y"))) is Fault.DESCENDING


def test_fewer_or_more_frames_than_items_speak_of_are_refused() -> None:
    data = alone("ReadReply")

    assert fault_of(tampering.carrier(data, WORD, u32(1))) is Fault.TRAILING
    assert fault_of(tampering.carrier(data, WORD, u32(3))) is Fault.TRUNCATED
    assert fault_of(tampering.carrier(data, WORD, u32((1 << 32) - 1))) is Fault.TRUNCATED


def test_a_bad_frame_spoils_the_whole_carrier() -> None:
    damaged = bytearray(ALL)
    damaged[-1] ^= 1

    assert fault_of(bytes(damaged)) is Fault.CHECKSUM


def test_memory_is_bounded_by_what_is_there_and_not_by_what_is_claimed() -> None:
    claims = [
        tampering.carrier(data, at, u32(value))
        for data in (ALL, alone("ReadReply"))
        for at in (CARRIER_SIZE, CARRIER_ITEMS, CARRIER_FRAMES_AT, TAIL)
        for value in (1 << 16, (1 << 31) - 1, (1 << 32) - 1)
    ]
    for claim in claims:
        with allocations.peak_below(64 << 10):
            fault_of(claim)


def test_no_item_shows_a_key_or_a_proof_in_a_text() -> None:
    """An item on a stream where it does not belong stands in the error, and so in the log."""
    key = digests.master_key(b"secret")
    read = carriers.Read(
        number=1, ledger_id=LedgerId(7), first=EntryId(0), last=EntryId(1), max_bytes=9
    )
    opening = Writer(7).opening(key)
    for item in (
        replace(read, fence_key=key),
        replace(read, proof=bytes(key), fences=True),
        carriers.Open(number=1, opening=opening),
        carriers.Open(number=1, opening=opening, proven=True),
    ):
        assert repr(bytes(key))[2:-1] not in repr(item)
        assert "7" in repr(item)
