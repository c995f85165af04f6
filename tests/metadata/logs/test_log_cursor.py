"""A cursor is moved by the consumer that opened it last, and is read as it was written."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import pytest

from tests.metadata.logs.records_of_logs import LOG_ID
from tests.metadata.parsers import INSTANCE
from zonekeeper.metadata.formats.log_record import OtherIncarnation
from zonekeeper.metadata.formats.malformed import Flaw, MalformedError
from zonekeeper.metadata.formats.message_ids import MessageId
from zonekeeper.metadata.logs import log_cursor
from zonekeeper.metadata.logs.log_cursor import (
    CURSOR_NAME_LENGTH_MAX,
    BadConsumerError,
    BadCursorNameError,
    CursorClaim,
    CursorGoesBack,
    CursorMark,
    CursorPosition,
    CursorTaken,
)
from zonekeeper.placement.base.ids import EntryId, LedgerId

NEW: Final = CursorMark(
    log_id=LOG_ID,
    created_ms=1,
    epoch=1,
    token="first",
    position=CursorPosition(sequence=0),
    moved_ms=1,
)
CLAIM: Final = CursorClaim(log_id=LOG_ID, epoch=1, token="first")
THERE: Final = CursorPosition(sequence=900, at=MessageId(LedgerId(17), EntryId(204), 3))
#: A cursor with every field.
FULL: Final = CursorMark(
    log_id=LOG_ID,
    created_ms=1_700_000_000_000,
    epoch=3,
    token="5d41",
    address="10.0.0.7:90",
    position=THERE,
    moved_ms=1_700_000_000_500,
    unknown='{"group": "a"}',
)

Golden = Callable[[str], bytes]


def test_the_golden_cursor_is_read_and_written(golden: Golden) -> None:
    assert log_cursor.parse(golden("log-cursor"), INSTANCE) == FULL
    assert log_cursor.render(FULL, INSTANCE) == golden("log-cursor")


@pytest.mark.parametrize("mark", [NEW, FULL])
def test_a_cursor_is_read_as_it_was_written(mark: CursorMark) -> None:
    assert log_cursor.parse(log_cursor.render(mark, INSTANCE), INSTANCE) == mark


def changed(**fields: object) -> bytes:
    plain = json.loads(log_cursor.render(FULL, INSTANCE))
    return json.dumps({**plain, **fields}).encode()


@pytest.mark.parametrize(
    ("raw", "flaw"),
    [
        (changed(log="7"), Flaw.BAD_TEXT),
        (changed(epoch=0), Flaw.OUT_OF_RANGE),
        (changed(sequence=-1), Flaw.WRONG_TYPE),
        (changed(at="4:1"), Flaw.BAD_TEXT),
        (changed(token=7), Flaw.WRONG_TYPE),
        (changed(address="y" * 1_001), Flaw.TOO_LARGE),
    ],
)
def test_each_kind_of_damage_is_named(raw: bytes, flaw: Flaw) -> None:
    with pytest.raises(MalformedError) as caught:
        log_cursor.parse(raw, INSTANCE)
    assert caught.value.flaw is flaw


@pytest.mark.parametrize("name", ["", "a/b", ".a", "é", "x" * (CURSOR_NAME_LENGTH_MAX + 1)])
def test_a_text_that_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(BadCursorNameError, match="cannot be a cursor's name"):
        log_cursor.node(name)


def test_a_cursor_is_told_from_a_folder_of_pages() -> None:
    assert log_cursor.name_of(log_cursor.node("billing").removeprefix("/")) == "billing"
    assert log_cursor.name_of("000000") is None


# ── changes ──


def test_the_second_consumer_takes_the_cursor_over_where_it_stands() -> None:
    there = log_cursor.moved(NEW, CLAIM, THERE, 5)
    wanted = replace(NEW, token="second", address="b", moved_ms=7, created_ms=7)

    after = log_cursor.opened(there, wanted)

    assert (after.epoch, after.token, after.address) == (2, "second", "b")
    assert (after.position, after.created_ms, after.moved_ms) == (THERE, 1, 7)
    for change in (log_cursor.moved, log_cursor.sought):
        with pytest.raises(CursorTaken, match="another consumer has opened it") as caught:
            change(after, CLAIM, replace(THERE, sequence=901), 8)
        assert not caught.value.retryable
        assert not caught.value.maybe_applied
    mine = replace(CLAIM, epoch=2, token="second")
    assert log_cursor.moved(after, mine, replace(THERE, sequence=901), 8).position.sequence == 901


def test_epoch_and_token_must_both_be_those_of_the_cursor() -> None:
    for claim in (replace(CLAIM, epoch=2), replace(CLAIM, token="x")):
        with pytest.raises(CursorTaken):
            log_cursor.moved(NEW, claim, THERE, 5)


def test_a_move_goes_forward_and_a_seek_anywhere() -> None:
    there = log_cursor.moved(NEW, CLAIM, THERE, 5)
    with pytest.raises(CursorGoesBack, match="is at message 900, and 899 is behind it"):
        log_cursor.moved(there, CLAIM, CursorPosition(sequence=899), 6)
    back = log_cursor.sought(there, CLAIM, CursorPosition(sequence=0), 6)
    assert back.position == CursorPosition(sequence=0)
    assert (back.epoch, back.moved_ms) == (1, 6)


def test_a_change_knows_its_work_again() -> None:
    assert log_cursor.opened(NEW, replace(NEW, moved_ms=9)) == NEW
    there = log_cursor.moved(NEW, CLAIM, THERE, 5)
    assert log_cursor.moved(there, CLAIM, THERE, 9) == there
    assert log_cursor.sought(there, CLAIM, THERE, 9) == there


def test_a_cursor_of_another_incarnation_is_refused() -> None:
    other = "ab" * 16
    with pytest.raises(OtherIncarnation, match="made anew"):
        log_cursor.opened(NEW, replace(NEW, log_id=other, token="second"))
    with pytest.raises(OtherIncarnation, match="made anew"):
        log_cursor.moved(NEW, replace(CLAIM, log_id=other), THERE, 5)


def test_the_time_of_the_last_change_never_falls() -> None:
    there = log_cursor.moved(NEW, CLAIM, THERE, 5)
    assert log_cursor.sought(there, CLAIM, CursorPosition(sequence=1), 2).moved_ms == 5


def test_an_address_that_nobody_could_read_again_is_refused() -> None:
    with pytest.raises(BadConsumerError, match="1001 characters; the limit is 1000"):
        log_cursor.opened(None, replace(NEW, address="x" * 1_001))
