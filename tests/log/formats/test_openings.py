"""Opening entries are read as they were written, and say what a ledger continues."""

import dataclasses
import struct

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonekeeper.log.formats import openings
from zonekeeper.log.formats.openings import (
    AttemptOpening,
    ChainedOpening,
    LogOpening,
    ManifestOpening,
    Predecessor,
)
from zonekeeper.metadata.formats.malformed import Flaw, MalformedError, UnsupportedError
from zonekeeper.placement.base.ids import NO_ENTRY, EntryId, LedgerId

LONGS = st.integers(0, (1 << 63) - 1)
NAMES = st.text(min_size=1, max_size=30)
BEFORE = st.builds(
    Predecessor, ledger=LONGS.map(LedgerId), last_entry=st.integers(-1, 1 << 40).map(EntryId)
)
CHAINED = st.builds(
    ChainedOpening,
    log_id=st.binary(min_size=16, max_size=16),
    epoch=st.integers(1, 1 << 40),
    name=NAMES,
    sequence=LONGS,
    before=st.none() | BEFORE,
)
ATTEMPTS = st.builds(
    AttemptOpening,
    log_id=st.binary(min_size=16, max_size=16),
    epoch=st.integers(1, 1 << 40),
    name=NAMES,
    query=NAMES,
    batch=LONGS,
    partition=st.integers(0, (1 << 32) - 1),
)
MANIFESTS = st.builds(
    ManifestOpening,
    log_id=st.binary(min_size=16, max_size=16),
    epoch=st.integers(1, 1 << 40),
    name=NAMES,
    sequence=LONGS,
    before=st.none() | BEFORE,
    query=NAMES,
    batch=LONGS,
)

FIRST = ChainedOpening(log_id=bytes(16), epoch=1, name="a", sequence=0, before=None)
SECOND = dataclasses.replace(
    FIRST, before=Predecessor(ledger=LedgerId(4), last_entry=EntryId(9)), sequence=70
)
ATTEMPT = AttemptOpening(log_id=bytes(16), epoch=1, name="a", query="q", batch=3, partition=2)
MANIFEST = ManifestOpening(
    log_id=bytes(16), epoch=1, name="a", sequence=70, before=SECOND.before, query="q", batch=3
)

KIND, ZERO, CRC, LOG_ID, EPOCH, SEQUENCE, REST = 5, 6, 8, 12, 28, 36, 44


def patched(opening: LogOpening, at: int, new: bytes, cut: int | None = None) -> bytes:
    """Build an opening, replace some bytes, and make the checksum right."""
    raw = openings.build(opening)
    raw = (raw[:at] + new + raw[at + len(new) :])[:cut]
    return raw[:CRC] + struct.pack(">I", google_crc32c.value(raw[LOG_ID:])) + raw[LOG_ID:]


@given(CHAINED | ATTEMPTS | MANIFESTS)
def test_an_opening_is_read_as_it_was_written(opening: LogOpening) -> None:
    assert openings.parse(openings.build(opening)) == opening


def test_only_the_very_end_of_the_ledger_before_is_continued() -> None:
    before = SECOND.before
    assert before is not None

    assert openings.continues(SECOND, before)
    assert openings.continues(MANIFEST, before)
    assert not openings.continues(MANIFEST, None)
    assert openings.continues(FIRST, None)
    for other in (
        None,
        dataclasses.replace(before, last_entry=EntryId(8)),
        dataclasses.replace(before, last_entry=EntryId(10)),
        dataclasses.replace(before, ledger=LedgerId(5)),
        Predecessor(ledger=LedgerId(4), last_entry=NO_ENTRY),
    ):
        assert not openings.continues(SECOND, other)
    assert not openings.continues(FIRST, before)
    assert not openings.continues(ATTEMPT, None)


@pytest.mark.parametrize(
    "raw",
    [
        patched(FIRST, 4, b"\x02"),
        patched(FIRST, KIND, b"\x04"),
        patched(FIRST, KIND, b"\x00"),
        patched(FIRST, ZERO, b"\x00\x01"),
    ],
)
def test_what_a_newer_program_wrote_is_called_newer_and_not_damage(raw: bytes) -> None:
    with pytest.raises(UnsupportedError):
        openings.parse(raw)


@pytest.mark.parametrize(
    ("raw", "flaw"),
    [
        (b"", Flaw.TRUNCATED),
        (patched(FIRST, 0, b"Y"), Flaw.BAD_HEADER),
        (openings.build(FIRST)[:-1] + b"b", Flaw.BAD_CHECKSUM),
        (openings.build(FIRST) + bytes(5_000), Flaw.TOO_LARGE),
        (patched(FIRST, EPOCH, bytes(8)), Flaw.OUT_OF_RANGE),
        (patched(FIRST, SEQUENCE, b"\x80"), Flaw.OUT_OF_RANGE),
        (patched(FIRST, REST, b"\xff" * 7 + b"\xfe"), Flaw.OUT_OF_RANGE),
        (patched(FIRST, REST + 8, bytes(8)), Flaw.OUT_OF_RANGE),  # no ledger, but its last entry
        (patched(SECOND, REST + 8, b"\xff" * 7 + b"\xfe"), Flaw.OUT_OF_RANGE),
        (patched(FIRST, REST, b"", cut=REST + 9), Flaw.TRUNCATED),
        (patched(FIRST, REST, b"", cut=REST + 16), Flaw.OUT_OF_RANGE),  # no name
        (patched(FIRST, REST + 16, b"\xff"), Flaw.BAD_TEXT),
        (patched(ATTEMPT, REST, b"\x80"), Flaw.OUT_OF_RANGE),
        (patched(ATTEMPT, SEQUENCE + 7, b"\x01"), Flaw.OUT_OF_RANGE),
        (patched(ATTEMPT, REST + 12, b"\x00\x09"), Flaw.OUT_OF_RANGE),  # it eats the name
        (patched(ATTEMPT, REST + 12, b"\x00\x00"), Flaw.OUT_OF_RANGE),  # no query
        (patched(MANIFEST, REST + 16, b"\x80"), Flaw.OUT_OF_RANGE),  # its batch
        (patched(MANIFEST, REST, b"\xff" * 7 + b"\xfe"), Flaw.OUT_OF_RANGE),
        (patched(MANIFEST, REST + 24, b"\x00\x00"), Flaw.OUT_OF_RANGE),  # no query
        (patched(MANIFEST, REST + 24, b"\x00\x09"), Flaw.OUT_OF_RANGE),  # it eats the name
        (patched(MANIFEST, REST, b"", cut=REST + 20), Flaw.TRUNCATED),
    ],
)
def test_each_kind_of_damage_is_named(raw: bytes, flaw: Flaw) -> None:
    with pytest.raises(MalformedError, match="an opening entry") as caught:
        openings.parse(raw)

    assert caught.value.flaw is flaw
