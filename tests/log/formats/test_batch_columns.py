"""A batch that is made of columns is the batch that the same messages make."""

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.log.batching import EVERYTHING, MESSAGES, PACKERS, columns, values
from zonekeeper.log.formats import batch_columns, batches
from zonekeeper.log.formats.batch_columns import HeaderColumns, MessageColumns
from zonekeeper.log.formats.batches import BODY_BYTES_MAX, MESSAGES_MAX
from zonekeeper.log.formats.messages import (
    HEADER_NAME_BYTES_MAX,
    HEADERS_MAX,
    BadMessageError,
    LogMessage,
)

WALL = 1_700_000_000_000


def made(of: MessageColumns, aim: int) -> list[bytes]:
    of.check_headers()
    return [
        batch_columns.build(of, first, end, place=7 + first, wall_ms=WALL)
        for first, end in of.cuts(aim)
    ]


@given(
    many=st.lists(MESSAGES, min_size=1, max_size=12),
    aim=st.integers(1, 600),
    before=st.binary(max_size=3),
)
def test_columns_give_the_bytes_that_messages_give(
    many: list[LogMessage], aim: int, before: bytes
) -> None:
    of = columns(many, before)

    cuts = list(of.cuts(aim))

    assert [place for cut in cuts for place in range(*cut)] == list(range(len(many)))
    assert made(of, aim) == [
        batches.build(many[first:end], place=7 + first, wall_ms=WALL) for first, end in cuts
    ]
    for first, end in cuts:
        sizes = [batches.size_bytes(one) for one in many[first : end + 1]]
        assert of.size_bytes(first, end) <= sum(sizes[: end - first])
        assert end == first + 1 or of.size_bytes(first, end) <= aim
        # No batch ends before it must.
        assert end == len(many) or of.size_bytes(first, end + 1) > aim


def test_columns_that_are_not_there_and_those_without_a_value_are_the_same() -> None:
    many = [LogMessage(payload=b"one"), LogMessage(payload=b"")]
    bare = MessageColumns(payloads=values([b"one", b""]))
    (plain,) = made(bare, 1_000)

    assert made(columns(many), 1_000) == [plain]
    assert plain == batches.build(many, place=7, wall_ms=WALL)
    parsed = batches.parse(made(columns(EVERYTHING), 1_000)[0], PACKERS)
    assert parsed.messages() == list(EVERYTHING)


def test_a_batch_ends_at_the_most_messages_and_a_message_that_none_can_hold_is_refused() -> None:
    many = MessageColumns(payloads=values([b""] * (MESSAGES_MAX + 1)))
    assert list(many.cuts(BODY_BYTES_MAX)) == [
        (0, MESSAGES_MAX),
        (MESSAGES_MAX, MESSAGES_MAX + 1),
    ]

    most = BODY_BYTES_MAX - batches.PLAIN_BYTES
    large = MessageColumns(payloads=values([b"x", b"x" * most, b"x" * (most + 1)]))
    cuts = large.cuts(1 << 20)
    assert [next(cuts), next(cuts)] == [(0, 1), (1, 2)]
    with pytest.raises(BadMessageError, match="split it"):
        next(cuts)


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ([b"ok", b"\xff"], "is not UTF-8"),
        ([b"n" * (HEADER_NAME_BYTES_MAX + 1)], "the name of a header has 1001 bytes"),
        (["é".encode()[:1], "é".encode()[1:]], "is not UTF-8"),
        ([b"n"] * (HEADERS_MAX + 1), "1001 headers; the limit is 1000"),
    ],
)
def test_headers_that_no_reader_would_take_are_refused(names: list[bytes], said: str) -> None:
    of = MessageColumns(
        payloads=values([b""]),
        headers=HeaderColumns(
            ends=array("i", [0, len(names)]),
            counts=array("I", [len(names)]),
            names=values(names),
            values=values([b""] * len(names)),
        ),
    )

    with pytest.raises(BadMessageError, match=said):
        of.check_headers()
