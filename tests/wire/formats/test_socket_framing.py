"""Messages are cut out of a stream, whatever pieces it comes in; no length is believed."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zonekeeper.wire.formats import errors, socket_framing
from zonekeeper.wire.formats.errors import Fault
from zonekeeper.wire.formats.socket_framing import Dialect, Incoming

LIMIT = 1 << 20


def feed(incoming: Incoming, data: bytes, pieces: list[int]) -> list[bytes]:
    """Receive data in pieces of these sizes, over and over, as a socket gives it."""
    messages: list[bytes] = []
    at = turn = 0
    while at < len(data):
        room = incoming.room()
        assert room.nbytes, "a read without room would be taken for the end"
        count = min(len(room), pieces[turn % len(pieces)], len(data) - at)
        room[:count] = data[at : at + count]
        room.release()
        messages += map(bytes, incoming.received(count))
        at, turn = at + count, turn + 1
    return messages


def body(number: int, size: int) -> bytes:
    return (b"%08d" % number * (size // 8 + 1))[:size]


SMALL = st.integers(1, 100)
AROUND_THE_BUFFER = st.integers(-9, 9).map(lambda more: socket_framing.READ_BYTES + more)
LARGE = st.integers(1, LIMIT)


@given(
    sizes=st.lists(st.one_of(SMALL, AROUND_THE_BUFFER, LARGE), max_size=6),
    pieces=st.lists(st.integers(1, 100_000), min_size=1, max_size=5),
)
@settings(deadline=None, max_examples=60)
def test_messages_come_out_as_they_went_in_whatever_the_pieces(
    sizes: list[int], pieces: list[int]
) -> None:
    if min(pieces) < 1_000:
        sizes = [size % 5_000 + 1 for size in sizes]  # many tiny pieces of much take long
    sent = [body(number, size) for number, size in enumerate(sizes)]
    incoming = Incoming(LIMIT)
    assert feed(incoming, b"".join(map(socket_framing.headed, sent)), pieces) == sent
    assert incoming.half_bytes == incoming.held_bytes == 0


def test_a_half_message_takes_no_more_memory_than_a_few_times_what_has_come() -> None:
    incoming = Incoming(8 << 20)
    announced = (8 << 20).to_bytes(4, "big")
    feed(incoming, announced + bytes(1), [5])
    assert incoming.held_bytes == socket_framing.GROW_BYTES
    came = 1
    while came < 4 << 20:
        feed(incoming, bytes(1 << 18), [1 << 16])
        came += 1 << 18
        assert incoming.half_bytes == came
        assert incoming.held_bytes <= max(socket_framing.GROW_BYTES, 2 * came)


def test_a_half_message_that_is_dropped_takes_no_memory() -> None:
    incoming = Incoming(8 << 20)
    feed(incoming, (8 << 20).to_bytes(4, "big") + bytes(1 << 20), [1 << 16])
    incoming.drop()
    assert incoming.held_bytes == incoming.half_bytes == 0


@pytest.mark.parametrize(
    ("size", "fault"),
    [
        (0, Fault.LENGTH),
        (LIMIT + 1, Fault.OVERSIZED),
        (0x16030102, Fault.OVERSIZED),
        (0xFFFFFFFF, Fault.OVERSIZED),
    ],
)
def test_an_illegal_length_is_refused_before_anything_of_the_message_is_awaited(
    size: int, fault: Fault
) -> None:
    with pytest.raises(errors.FormatError) as caught:
        feed(Incoming(LIMIT), size.to_bytes(4, "big"), [4])
    assert caught.value.fault is fault


def test_the_largest_message_passes_and_the_limit_may_be_raised_between_two() -> None:
    incoming = Incoming(10)
    assert feed(incoming, socket_framing.headed(bytes(10)), [100]) == [bytes(10)]
    incoming.bytes_max = LIMIT
    assert feed(incoming, socket_framing.headed(bytes(LIMIT)), [1 << 16]) == [bytes(LIMIT)]


@pytest.mark.parametrize(
    ("first", "spoken"),
    [
        (bytes.fromhex("16030102000100 01"), Dialect.TLS),
        (b"\x16\x03\x01\x02", Dialect.TLS),
        (b"PRI * HTTP/2.0", Dialect.HTTP_2),
        (b"GET / HTTP/1.1", Dialect.HTTP_1),
        (b"POST /", Dialect.HTTP_1),
        (bytes.fromhex("00000060 02030000"), Dialect.GREETING),
        (bytes.fromhex("00000060 02010000"), Dialect.APACHE_2),
        (bytes.fromhex("00000030 01020000"), Dialect.APACHE_2),
        (bytes.fromhex("00000030 0a060803"), Dialect.APACHE_3),
        (bytes.fromhex("00000030 5a4b4352"), Dialect.UNKNOWN),
        (bytes(8), Dialect.UNKNOWN),
        (b"", Dialect.UNKNOWN),
    ],
)
def test_the_first_bytes_say_which_dialect_is_spoken(first: bytes, spoken: Dialect) -> None:
    assert socket_framing.dialect(first[: socket_framing.FIRST_BYTES]) is spoken
