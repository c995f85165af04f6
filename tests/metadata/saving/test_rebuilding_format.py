"""A file of hints: read as it was written, and refused whole if it is not whole."""

import dataclasses
import hashlib
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.metadata.hinting import INSTANCE, KEY, A, B, C, D, hints, lines_of, opened
from zonekeeper.metadata.formats.malformed import UnreadableError
from zonekeeper.metadata.saving import rebuilding_format
from zonekeeper.metadata.saving.rebuilding_format import HintsHeader
from zonekeeper.placement.base.ids import LedgerId


def test_hints_are_read_as_they_were_written() -> None:
    known = (
        hints(opened(0, A, B, C), opened(5, A, B, D), last=9, lac=8, fenced=True),
        dataclasses.replace(hints(ledger_id=LedgerId(8)), create_token=41),
        hints(limbo=True, key=None, ledger_id=LedgerId((1 << 63) - 1)),
    )

    header, *parts, footer = rebuilding_format.read(lines_of(A, *known))

    assert header == HintsHeader(instance=INSTANCE, bookie=A, generation=3)
    assert tuple(parts) == known
    assert isinstance(footer, rebuilding_format.HintsFooter)
    assert footer.ledgers == 3


def test_the_bytes_of_hints_stay_what_they_are() -> None:
    text = "".join(lines_of(A, hints(opened(0, A, B, C), last=9, lac=8)))

    assert text.splitlines()[1] == (
        '{"entries":10,"fenced":false,"firstEntry":0,"fragments":[{"ackZones":2,"digest":"CRC32C",'
        '"ensemble":["bk-a","bk-b","bk-c"],"firstEntry":0,"quorums":[3,3,2]}],"lac":8,'
        '"lastEntry":9,"ledger":7,"limbo":false,"masterKey":"' + KEY.hex() + '"}'
    )
    before, last = text.rsplit("{", 1)
    assert json.loads("{" + last) == {
        "ledgers": 1,
        "sha256": hashlib.sha256(before.encode()).hexdigest(),
    }


LINES = lines_of(A, hints(opened(0, A, B, C), last=9))


@pytest.mark.parametrize(
    "spoiled",
    [
        LINES[:-1],
        [*LINES[:-1], LINES[-1][:-5]],
        [LINES[0], LINES[1].replace('"lac":-1', '"lac":9'), LINES[2]],
        [*LINES[:2], LINES[1], LINES[2]],
        [*LINES, LINES[1]],
        ["{}\n"],
        [],
    ],
    ids=["cut short", "half a line", "changed", "twice", "more behind", "something else", "empty"],
)
def test_hints_that_are_not_whole_are_refused(spoiled: list[str]) -> None:
    with pytest.raises(UnreadableError):
        list(rebuilding_format.read(spoiled))


@pytest.mark.fuzz
@settings(max_examples=1_000, deadline=None)
@given(st.data())
def test_changed_hints_raise_what_they_should_or_are_read(data: st.DataObject) -> None:
    line = list(lines_of(A, hints(opened(0, A, B, C), opened(5, A, B, D), last=9, lac=8))[1])
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(line) - 2))
        line[at] = data.draw(st.characters())

    read = rebuilding_format.read([lines_of(A)[0], "".join(line)])

    with pytest.raises(UnreadableError):
        list(read)
