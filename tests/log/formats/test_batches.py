"""What is put into a batch comes out of it; what no builder writes is refused."""

import dataclasses
import importlib
import tracemalloc
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.log.batching import (
    BODY,
    COUNT,
    EVERYTHING,
    FLAGS,
    MESSAGES,
    PACKERS,
    PACKING,
    PLACE,
    SIZE,
    VERSION,
    WALL,
    built,
    patched,
    u32,
)
from zonekeeper.log.formats import batches
from zonekeeper.log.formats.batches import (
    BODY_BYTES_MAX,
    HEADER_BYTES,
    MESSAGES_MAX,
    BytesColumn,
    Packing,
)
from zonekeeper.log.formats.messages import (
    HEADER_NAME_BYTES_MAX,
    HEADERS_MAX,
    BadMessageError,
    LogMessage,
)
from zonekeeper.metadata.formats.malformed import Flaw, MalformedError, UnsupportedError
from zonekeeper.wire.formats import entries

LONG = 1 << 63


def flaw_of(raw: bytes) -> Flaw:
    with pytest.raises(MalformedError, match="a batch of a log") as caught:
        batches.parse(raw, PACKERS)
    return caught.value.flaw


@given(
    many=st.lists(MESSAGES, min_size=1, max_size=8),
    place=st.integers(0, LONG - 9),
    wall_ms=st.integers(0, LONG - 1),
    packing=st.sampled_from(Packing),
)
def test_a_batch_is_read_as_it_was_written(
    many: list[LogMessage], place: int, wall_ms: int, packing: Packing
) -> None:
    raw = batches.build(many, place=place, wall_ms=wall_ms, packing=packing, packers=PACKERS)

    batch = batches.parse(raw, PACKERS)

    assert batch.messages() == many
    assert [batch.message(at) for at in range(len(batch))] == many
    assert (batch.place, batch.wall_ms) == (place, wall_ms)
    assert len(raw) - HEADER_BYTES <= sum(map(batches.size_bytes, many))


def test_the_columns_stand_apart_in_the_batch_as_it_came_and_nothing_is_copied() -> None:
    raw = built(*EVERYTHING)
    batch = batches.parse(raw, PACKERS)

    def values(column: BytesColumn | None) -> list[bytes]:
        assert column is not None
        assert column.data is raw
        return [column[at] for at in range(len(column))]

    assert values(batch.payloads) == [b"first", b"", b"third"]
    assert (values(batch.keys), batch.has_key) == ([b"k1", b"", b""], b"\x01\x00\x01")
    assert values(batch.header_names) == [b"trace", b"trace", b"Zeit"]
    assert batch.header_values is not None
    assert batch.header_values.offsets[-1] == len(raw)


def test_columns_that_nothing_needs_are_not_written() -> None:
    batch = batches.parse(built(LogMessage(payload=b"x")), PACKERS)

    assert len(built(LogMessage(payload=b"x"))) == HEADER_BYTES + 4 + 1
    assert (batch.keys, batch.has_key, batch.header_ends, batch.header_names) == (None,) * 4


@pytest.mark.parametrize("packing", [Packing.ZLIB, Packing.ZSTD])
def test_a_packed_batch_is_smaller_and_says_how(packing: Packing) -> None:
    many = [LogMessage(payload=b"the same words again")] * 100

    raw = built(*many, packing=packing)

    assert len(raw) < len(built(*many)) / 4
    assert batches.parse(raw, PACKERS).packing is packing
    assert batches.parse(raw, PACKERS).messages() == many


def test_what_does_not_become_smaller_is_not_packed() -> None:
    assert built(LogMessage(payload=b"x"), packing=Packing.ZLIB) == built(LogMessage(payload=b"x"))


def test_the_largest_message_fits_into_an_entry_and_one_byte_more_is_refused() -> None:
    over = batches.size_bytes(LogMessage(payload=b""))
    largest = LogMessage(payload=bytes(BODY_BYTES_MAX - over))

    raw = built(largest)

    assert len(raw) <= entries.PAYLOAD_BYTES_MAX
    assert batches.parse(raw, PACKERS).message(0) == largest
    with pytest.raises(BadMessageError, match="split it") as caught:
        batches.size_bytes(LogMessage(payload=bytes(BODY_BYTES_MAX - over + 1)))
    assert not caught.value.maybe_applied
    assert not caught.value.retryable


def test_a_batch_of_the_most_messages_is_read() -> None:
    many = [LogMessage(payload=b"")] * MESSAGES_MAX

    assert len(batches.parse(built(*many), PACKERS)) == MESSAGES_MAX


@pytest.mark.parametrize(
    ("headers", "says"),
    [
        ([("n", b"")] * (HEADERS_MAX + 1), "1001 headers"),
        ([("n" * (HEADER_NAME_BYTES_MAX + 1), b"")], "1001 bytes"),
        ([("\ud800", b"")], "UTF-8"),
    ],
)
def test_headers_beyond_the_limits_are_refused(
    headers: Sequence[tuple[str, bytes]], says: str
) -> None:
    with pytest.raises(BadMessageError, match=says):
        batches.size_bytes(LogMessage(payload=b"", headers=tuple(headers)))


@pytest.mark.parametrize(
    "raw",
    [
        patched(built(*EVERYTHING), VERSION, b"\x02"),
        patched(built(*EVERYTHING), FLAGS, b"\x00\x04"),
        patched(built(*EVERYTHING), FLAGS, b"\x80\x00"),
        patched(built(*EVERYTHING), PACKING, b"\x03"),
        patched(built(*EVERYTHING), BODY + 12, b"\x03"),  # the attributes of a message
    ],
)
def test_what_a_newer_program_wrote_is_called_newer_and_not_damage(raw: bytes) -> None:
    with pytest.raises(UnsupportedError):
        batches.parse(raw, PACKERS)


def test_a_packing_without_its_library_is_named() -> None:
    raw = built(LogMessage(payload=bytes(500)), packing=Packing.ZSTD)

    with pytest.raises(UnsupportedError, match="zstd"):
        batches.parse(raw, {})


WHOLE = built(*EVERYTHING)
NAMED = built(LogMessage(payload=b"", headers=(("\N{EURO SIGN}", b""),)))
KEYED = built(LogMessage(payload=b"p", key=b"k"), LogMessage(payload=b"q"))


@pytest.mark.parametrize(
    ("raw", "flaw"),
    [
        (WHOLE[: HEADER_BYTES - 1], Flaw.TRUNCATED),
        (bytes(entries.PAYLOAD_BYTES_MAX + 1), Flaw.TOO_LARGE),
        (patched(WHOLE, 0, b"X"), Flaw.BAD_HEADER),
        (WHOLE[:-1] + b"?", Flaw.BAD_CHECKSUM),
        (patched(WHOLE, COUNT, u32(0)), Flaw.OUT_OF_RANGE),
        (patched(WHOLE, COUNT, u32(MESSAGES_MAX + 1)), Flaw.OUT_OF_RANGE),
        (patched(WHOLE, COUNT, u32(MESSAGES_MAX)), Flaw.TRUNCATED),
        (patched(WHOLE, PLACE, b"\x80"), Flaw.OUT_OF_RANGE),
        (patched(WHOLE, PLACE, b"\x7f" + b"\xff" * 7), Flaw.OUT_OF_RANGE),
        (patched(WHOLE, WALL, b"\x80"), Flaw.OUT_OF_RANGE),
        (patched(WHOLE, SIZE, u32(BODY_BYTES_MAX + 1)), Flaw.TOO_LARGE),
        (patched(WHOLE, SIZE, u32(5)), Flaw.INCONSISTENT),
        (patched(WHOLE, BODY, u32(6)), Flaw.TRUNCATED),
        (patched(NAMED, len(NAMED) - 1, b"\xff"), Flaw.BAD_TEXT),
        (patched(KEYED, BODY, u32(0)), Flaw.TRAILING),
        (patched(KEYED, BODY + 8, b"\x00"), Flaw.INCONSISTENT),  # it says keyed, and none is
        (patched(KEYED, BODY + 8, b"\x00\x01"), Flaw.INCONSISTENT),  # a key that nobody has
        (patched(WHOLE, PACKING, b"\x01"), Flaw.INCONSISTENT),  # zlib, and no zlib is there
    ],
)
def test_each_kind_of_damage_is_named(raw: bytes, flaw: Flaw) -> None:
    assert flaw_of(raw) is flaw


def test_headers_that_the_flag_promises_must_be_there() -> None:
    raw = built(LogMessage(payload=b"", headers=(("", b""),)))

    assert flaw_of(patched(raw, BODY + 4, b"\x00\x00")) is Flaw.INCONSISTENT


def test_too_many_headers_of_one_message_are_refused_on_the_way_back_too() -> None:
    most = LogMessage(payload=b"", headers=(("", b""),) * HEADERS_MAX)
    raw = built(most, dataclasses.replace(most, headers=(("", b""),)))

    moved = patched(raw, BODY + 8, bytes.fromhex("03e90000"))

    assert flaw_of(moved) is Flaw.TOO_LARGE


def test_a_batch_that_unpacks_to_more_than_it_says_costs_no_memory() -> None:
    packed = PACKERS[Packing.ZLIB].pack(bytes(256 << 20))
    raw = patched(built(LogMessage(payload=b"")), PACKING, b"\x01")
    bomb = patched(raw[:BODY] + packed, SIZE, u32(1 << 20))
    tracemalloc.start()
    try:
        assert flaw_of(bomb) is Flaw.INCONSISTENT
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 8 << 20


@given(st.lists(MESSAGES, max_size=8))
def test_the_bytes_of_many_are_those_of_each_or_not_given(many: list[LogMessage]) -> None:
    total = batches.total_bytes(many)
    if any(message.headers for message in many):
        assert total is None
    else:
        assert total == sum(map(batches.size_bytes, many))


def test_a_column_is_a_column_of_arrow_without_a_step_for_each_message() -> None:
    """The two buffers are taken as they are; pyarrow is an extra of this environment."""
    arrow = importlib.import_module("pyarrow")
    batch = batches.parse(built(*EVERYTHING), PACKERS)
    column = batch.payloads
    made = arrow.Array.from_buffers(
        arrow.binary(),
        len(column),
        [None, arrow.py_buffer(column.offsets), arrow.py_buffer(column.data)],
    )
    made.validate(full=True)
    assert made.to_pylist() == [message.payload for message in EVERYTHING]


def test_a_column_has_no_value_outside_of_it() -> None:
    column = batches.parse(built(*EVERYTHING), PACKERS).payloads
    for at in (-1, 3):
        with pytest.raises(IndexError):
            column[at]
