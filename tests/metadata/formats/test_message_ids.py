"""The ids of messages: one text each, and bytes that sort like them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonekeeper.metadata.formats import message_ids
from zonekeeper.metadata.formats.message_ids import (
    INDEX_MAX,
    LONG_MAX,
    MESSAGE_ID_BYTES,
    BadMessageIdError,
    MessageId,
)
from zonekeeper.placement.base.ids import EntryId, LedgerId

LONGS = st.one_of(st.integers(0, 300), st.integers(0, LONG_MAX))
IDS = st.builds(
    lambda ledger, entry, index: MessageId(LedgerId(ledger), EntryId(entry), index),
    LONGS,
    LONGS,
    st.one_of(st.integers(0, 300), st.integers(0, INDEX_MAX)),
)


def test_an_id_looks_as_the_page_says() -> None:
    one = MessageId(LedgerId(17), EntryId(204), 3)

    assert str(one) == "17:204:3"
    assert bytes(one).hex() == "000000000000001100000000000000cc00000003"


@given(IDS)
def test_an_id_is_read_as_it_was_written(one: MessageId) -> None:
    assert message_ids.parse(str(one)) == one
    assert message_ids.from_bytes(bytes(one)) == one
    assert len(bytes(one)) == MESSAGE_ID_BYTES


@given(IDS, IDS)
def test_the_bytes_sort_like_the_ids(one: MessageId, other: MessageId) -> None:
    assert (bytes(one) < bytes(other)) == (one < other)
    whole = [(each.ledger, each.entry, each.index) for each in (one, other)]
    assert (one < other) == (whole[0] < whole[1])


@pytest.mark.parametrize(
    "text",
    ["", "17", "17:204", "17:204:3:4", "17:204:", "-1:0:0", "01:0:0", "1:0:+3", " 1:0:0", "1:0:0\n",
     "1_0:0:0", "\N{ARABIC-INDIC DIGIT ONE}:0:0", f"{LONG_MAX + 1}:0:0", f"0:{LONG_MAX + 1}:0",
     f"0:0:{INDEX_MAX + 1}", "9" * 10_000],
)  # fmt: skip
def test_another_text_is_refused_in_words(text: str) -> None:
    with pytest.raises(BadMessageIdError, match="is not the id of a message") as caught:
        message_ids.parse(text)

    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("size", [0, 19, 21])
def test_bytes_of_another_length_are_refused(size: int) -> None:
    with pytest.raises(BadMessageIdError, match="it has 20"):
        message_ids.from_bytes(bytes(size))


def test_bytes_beyond_what_a_ledger_may_have_are_refused() -> None:
    with pytest.raises(BadMessageIdError, match="numbers from 0"):
        message_ids.from_bytes(b"\xff" * 20)
