"""Ledger metadata: Apache's bytes both ways, and everything else refused."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonekeeper.metadata.formats import ledger_format, protobuf
from zonekeeper.metadata.formats.ledger_metadata import Fragment, LedgerMetadata, LedgerState
from zonekeeper.metadata.formats.malformed import Flaw, MalformedError, UnsupportedError
from zonekeeper.placement.base.digests import Digest
from zonekeeper.placement.base.ids import NO_ENTRY, BookieId, EntryId

HEADER = b"BookieMetadataFormatVersion\t3\n"
Golden = Callable[[str], bytes]


def bookies(*names: str) -> tuple[BookieId, ...]:
    return tuple(BookieId(name) for name in names)


def one_bookie(digest: Digest, *, last_entry: int, length: int) -> LedgerMetadata:
    return LedgerMetadata(
        ensemble_size=1,
        write_quorum=1,
        ack_quorum=1,
        fragments=(Fragment(EntryId(0), bookies("127.0.0.1:33175")),),
        digest=digest,
        password=b"passwd",
        state=LedgerState.CLOSED,
        last_entry=EntryId(last_entry),
        length=length,
    )


APACHE = {
    "ledger-closed-crc32": one_bookie(Digest.CRC32, last_entry=1, length=11),
    "ledger-closed-crc32c": one_bookie(Digest.CRC32C, last_entry=1, length=11),
    "ledger-closed-hmac": one_bookie(Digest.HMAC, last_entry=1, length=11),
    "ledger-closed-dummy": one_bookie(Digest.DUMMY, last_entry=1, length=11),
    "ledger-recovered": one_bookie(Digest.CRC32C, last_entry=1, length=11),
    "ledger-deferred-sync": one_bookie(Digest.CRC32C, last_entry=0, length=8),
    "ledger-explicit-lac": one_bookie(Digest.CRC32C, last_entry=0, length=5),
    "ledger-closed-two-bookies": LedgerMetadata(
        ensemble_size=2,
        write_quorum=2,
        ack_quorum=2,
        fragments=(Fragment(EntryId(0), bookies("127.0.0.1:33172", "127.0.0.1:33171")),),
        digest=Digest.CRC32C,
        password=b"",
        state=LedgerState.CLOSED,
        last_entry=EntryId(19),
        length=50,
    ),
    "ledger-open-two-bookies": LedgerMetadata(
        ensemble_size=2,
        write_quorum=2,
        ack_quorum=2,
        fragments=(Fragment(EntryId(0), bookies("127.0.0.1:33172", "127.0.0.1:33173")),),
        digest=Digest.CRC32C,
        password=b"",
        create_token=0x7BF8_8B06_9FAE_98D3,
    ),
}


@pytest.mark.parametrize("name", APACHE)
def test_apaches_bytes_are_read_and_written_to_the_last_one(name: str, golden: Golden) -> None:
    raw = golden(name)
    ledger = ledger_format.parse(raw)
    if name == "ledger-open-two-bookies":  # its token was drawn at random
        assert ledger.create_token > 0
        assert ledger.state is LedgerState.OPEN
    else:
        assert ledger == APACHE[name]
    assert ledger_format.render(ledger) == raw


names = st.text(min_size=1, max_size=12).filter(lambda text: text.isprintable())


@st.composite
def ledgers(draw: st.DrawFn) -> LedgerMetadata:
    ensemble = draw(st.integers(1, 7))
    write = draw(st.integers(1, ensemble))
    ack = draw(st.integers(1, write))
    firsts = sorted({0, *draw(st.lists(st.integers(1, 2**62), max_size=4))})
    pool = draw(st.lists(names, min_size=ensemble, max_size=ensemble + 3, unique=True))
    fragments = tuple(
        Fragment(EntryId(first), bookies(*draw(st.permutations(pool))[:ensemble]))
        for first in firsts
    )
    is_closed = draw(st.booleans())
    custom = draw(st.dictionaries(st.text(max_size=8), st.binary(max_size=20), max_size=3))
    return LedgerMetadata(
        ensemble_size=ensemble,
        write_quorum=write,
        ack_quorum=ack,
        fragments=fragments,
        digest=draw(st.sampled_from(Digest)),
        password=draw(st.binary(max_size=20)),
        state=LedgerState.CLOSED
        if is_closed
        else draw(st.sampled_from([LedgerState.OPEN, LedgerState.IN_RECOVERY])),
        last_entry=EntryId(draw(st.integers(firsts[-1] - 1, 2**63 - 1))) if is_closed else NO_ENTRY,
        length=draw(st.integers(0, 2**63 - 1)) if is_closed else 0,
        created_ms=draw(st.none() | st.integers(-(2**63), 2**63 - 1)),
        custom=tuple(custom.items()),
        create_token=draw(st.integers(0, 2**63 - 1)),
    )


@given(ledgers())
def test_every_ledger_comes_back_as_it_was_written(ledger: LedgerMetadata) -> None:
    assert ledger_format.parse(ledger_format.render(ledger)) == ledger


VERSION_2 = b"""BookieMetadataFormatVersion\t2
quorumSize: 2
ensembleSize: 3
length: 0
lastEntryId: -1
state: OPEN
segment {
  ensembleMember: "10.0.0.1:3181"
  ensembleMember: "10.0.0.2:3181"
  ensembleMember: "10.0.0.3:3181"
  firstEntryId: 0
}
digestType: CRC32C
password: "p\\001\\"\\\\"
ackQuorumSize: 2
customMetadata {
  key: "app"
  value: "\\377"
}
"""


def test_version_2_is_read() -> None:
    assert ledger_format.parse(VERSION_2) == LedgerMetadata(
        ensemble_size=3,
        write_quorum=2,
        ack_quorum=2,
        fragments=(
            Fragment(EntryId(0), bookies("10.0.0.1:3181", "10.0.0.2:3181", "10.0.0.3:3181")),
        ),
        digest=Digest.CRC32C,
        password=b'p\x01"\\',
        custom=(("app", b"\xff"),),
    )


def test_an_ack_quorum_that_is_missing_is_the_write_quorum() -> None:
    text = VERSION_2.replace(b"ackQuorumSize: 2\n", b"")
    assert ledger_format.parse(text).ack_quorum == 2


def test_the_end_of_a_ledger_that_is_not_closed_is_passed_over() -> None:
    text = VERSION_2.replace(b"lastEntryId: -1", b"lastEntryId: 41").replace(
        b"length: 0", b"length: 7"
    )
    ledger = ledger_format.parse(text)
    assert (ledger.last_entry, ledger.length) == (NO_ENTRY, 0)


def test_a_later_version_is_unsupported_and_not_corrupt() -> None:
    with pytest.raises(UnsupportedError, match="version 4"):
        ledger_format.parse(HEADER.replace(b"3", b"4") + b"anything")


def test_a_field_of_a_later_version_is_unsupported_and_not_dropped(golden: Golden) -> None:
    body = golden("ledger-closed-crc32")[len(HEADER) + 1 :] + protobuf.number_field(13, 1)
    with pytest.raises(UnsupportedError, match="field 13"):
        ledger_format.parse(HEADER + protobuf.varint(len(body)) + body)


def test_a_state_of_a_later_version_is_unsupported() -> None:
    with pytest.raises(UnsupportedError, match="SEALED"):
        ledger_format.parse(VERSION_2.replace(b"OPEN", b"SEALED"))


@pytest.mark.parametrize("cut", range(76))
def test_every_truncation_is_refused(cut: int, golden: Golden) -> None:
    with pytest.raises(MalformedError) as caught:
        ledger_format.parse(golden("ledger-closed-crc32")[:cut])
    assert caught.value.flaw in {Flaw.TRUNCATED, Flaw.BAD_HEADER}


def body_with(golden: Golden, old: bytes, new: bytes) -> bytes:
    body = golden("ledger-closed-crc32")[len(HEADER) + 1 :]
    assert body.count(old) == 1
    body = body.replace(old, new)
    return HEADER + protobuf.varint(len(body)) + body


@pytest.mark.parametrize(
    ("old", "new", "flaw"),
    [
        (b"\x08\x01\x10", b"\x10", Flaw.MISSING),  # no write quorum
        (b"\x08\x01\x10", b"\x08\x01\x08\x01\x10", Flaw.DUPLICATE),
        (b"\x08\x01\x10", b"\x08\x02\x10", Flaw.INCONSISTENT),  # write quorum above the ensemble
        (b"\x08\x01\x10", b"\x08\x00\x10", Flaw.OUT_OF_RANGE),
        (
            b"\x08\x01\x10",
            b"\x08\x81\x00\x10",
            Flaw.BAD_NUMBER,
        ),  # a number in more bytes than needed
        (b"\x08\x01\x10", b"\x0a\x01\x41\x10", Flaw.WRONG_TYPE),
        (b"\x10\x00\x38", b"\x10\x05\x38", Flaw.INCONSISTENT),  # first fragment at entry 5
        (b"\x20\x01\x28", b"\x27\x01\x28", Flaw.BAD_NUMBER),  # a type that protobuf lacks
        (b"127.0.0.1", b"127.0.0.\xff", Flaw.BAD_TEXT),
    ],
)
def test_each_kind_of_damage_is_named(old: bytes, new: bytes, flaw: Flaw, golden: Golden) -> None:
    with pytest.raises((MalformedError, UnsupportedError)) as caught:
        ledger_format.parse(body_with(golden, old, new))
    assert isinstance(caught.value, MalformedError)
    assert caught.value.flaw is flaw


def test_bytes_behind_the_ledger_are_refused(golden: Golden) -> None:
    with pytest.raises(MalformedError, match="trailing"):
        ledger_format.parse(golden("ledger-closed-crc32") + b"\x00")


def test_a_length_is_checked_before_anything_is_allocated() -> None:
    with pytest.raises(MalformedError, match="announced"):
        ledger_format.parse(HEADER + protobuf.varint(2**62))


def test_more_than_a_node_can_hold_is_refused() -> None:
    with pytest.raises(MalformedError, match="too large"):
        ledger_format.parse(HEADER + bytes(1 << 20))
