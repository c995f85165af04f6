"""The hash of messages: it sees every change, their order, and not how they were shared out."""

import hashlib
import random
import struct

from hypothesis import given
from hypothesis import strategies as st

from zonekeeper.pipeline.reports import message_hash
from zonekeeper.pipeline.reports.message_hash import MessageSums

NUMBERS = st.integers(0, (1 << 63) - 1)
BYTES = st.binary(max_size=6)
HEADERS = st.lists(st.tuples(BYTES, BYTES), max_size=3)
MESSAGES = st.tuples(NUMBERS, NUMBERS, BYTES, st.none() | BYTES, HEADERS)


def independent(
    sequence: int,
    wall_ms: int,
    payload: bytes,
    key: bytes | None,
    headers: list[tuple[bytes, bytes]],
) -> bytes:
    """The picture of the module, written down a second time."""
    raw = struct.pack(">QQ", sequence, wall_ms) + struct.pack(">I", len(payload))
    raw += bytes([key is not None]) + struct.pack(">II", len(key or b""), len(headers))
    for name, value in headers:
        raw += struct.pack(">I", len(name)) + struct.pack(">I", len(value))
    raw += payload + (key or b"")
    for name, value in headers:
        raw += name + value
    return hashlib.sha256(raw).digest()


@given(MESSAGES)
def test_a_digest_is_that_of_the_picture(
    one: tuple[int, int, bytes, bytes | None, list[tuple[bytes, bytes]]],
) -> None:
    assert message_hash.digest(*one) == independent(*one)


def test_the_format_does_not_change() -> None:
    made = message_hash.digest(7, 1_000, b"payload", b"key", [(b"n", b"v"), (b"n", b"")])
    assert made.hex() == "4fcad420bbeeb758f476b7e4d289eb18839ed3296f01b909ae39c20b76649a1d"


@given(MESSAGES, MESSAGES)
def test_what_differs_has_another_digest(
    one: tuple[int, int, bytes, bytes | None, list[tuple[bytes, bytes]]],
    other: tuple[int, int, bytes, bytes | None, list[tuple[bytes, bytes]]],
) -> None:
    assert (message_hash.digest(*one) == message_hash.digest(*other)) == (one == other)


def test_a_byte_that_moves_from_one_part_to_the_next_is_seen() -> None:
    some = [
        (b"ab", None, []),
        (b"ab", b"", []),
        (b"a", b"b", []),
        (b"", b"ab", []),
        (b"", b"", [(b"ab", b"")]),
        (b"", b"", [(b"a", b"b")]),
        (b"", b"", [(b"a", b""), (b"b", b"")]),
        (b"", None, [(b"a", b""), (b"b", b"")]),
    ]
    assert len({message_hash.digest(1, 1, *one) for one in some}) == len(some)


def test_the_hash_depends_on_the_order_of_messages_and_not_on_that_of_tasks() -> None:
    def of(payloads: list[bytes]) -> list[bytes]:
        return [message_hash.digest(at, 1, one, None, []) for at, one in enumerate(payloads)]

    made = of([b"a", b"b", b"c", b"d"])
    whole = message_hash.combined(made)
    parts = [message_hash.combined(made[1:3]), message_hash.combined([made[3]]), made[0]]
    random.Random(1).shuffle(parts)
    assert message_hash.combined(parts) == whole
    assert message_hash.combined(of([b"a", b"c", b"b", b"d"])) != whole
    assert message_hash.combined([]) == bytes(message_hash.HASH_BYTES)


def test_sums_say_whether_a_sequence_is_lacking() -> None:
    assert MessageSums(messages=3, first=4, end=7, hash=b"").is_dense
    assert not MessageSums(messages=2, first=4, end=7, hash=b"").is_dense
    assert message_hash.none_from(4).is_dense
    assert str(message_hash.none_from(4)) == "no message"
    assert str(MessageSums(messages=3, first=4, end=7, hash=b"\x0f")) == (
        "3 messages from 4 to 6, 0f"
    )
