"""The bytes of the log: what is written is read, and nothing that was changed passes for it."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.bookie import running
from tests.wire import framing, hextext
from zonekeeper.bookie import log_format, records
from zonekeeper.bookie.records import Record
from zonekeeper.placement.digests import Digest
from zonekeeper.placement.ids import BookieId, EntryId, LedgerId
from zonekeeper.placement.quorums import Quorums
from zonekeeper.wire import digests, entries
from zonekeeper.wire.errors import FormatError
from zonekeeper.wire.frames import Frame
from zonekeeper.wire.service import FragmentOpening

LOG_ID = 0x0102030405060708

_ledgers = st.integers(0, entries.ID_END - 1).map(LedgerId)
_keys = st.binary(max_size=4).map(digests.master_key)
_openings = st.builds(
    lambda ledger, key, digest, first, names, ack: FragmentOpening(
        ledger_id=ledger,
        master_key=key,
        quorums=Quorums(ensemble=len(names), write=len(names), ack=min(ack, len(names))),
        digest=digest,
        first_entry_id=EntryId(first),
        ensemble=tuple(map(BookieId, names)),
    ),
    _ledgers,
    _keys,
    st.sampled_from(Digest),
    st.integers(0, entries.ID_END - 1),
    st.lists(st.text(max_size=9), min_size=1, max_size=4),
    st.integers(1, 4),
)
all_records: st.SearchStrategy[Record] = st.one_of(
    framing.some_frames,
    st.builds(records.Fragment, opening=_openings),
    st.builds(records.Fence, ledger_id=_ledgers, master_key=_keys),
    st.builds(records.Lac, ledger_id=_ledgers, packet=st.binary(min_size=16, max_size=36)),
    st.builds(records.Limbo, ledger_id=_ledgers, in_limbo=st.booleans()),
    st.builds(records.Mode, read_only=st.booleans()),
)

#: One record of each kind. Its batch is a golden file: change nothing here.
ONE_OF_EACH: Sequence[Record] = (
    records.Fragment(opening=running.opening(first=5)),
    running.frame(0, 1, 2),
    records.Fence(ledger_id=LedgerId(8), master_key=running.KEY),
    records.Lac(ledger_id=running.LEDGER, packet=running.lac_packet(2)),
    running.frame(3, 5, recovery=True),
    records.Limbo(ledger_id=LedgerId(9), in_limbo=True),
    records.Mode(read_only=True),
)


def bytes_of(*wanted: Record, sequence: int = 1) -> bytes:
    return b"".join(log_format.build(LOG_ID, sequence, wanted).buffers)


@given(st.lists(all_records, max_size=5), st.integers(1, (1 << 64) - 1))
def test_what_is_written_is_read(wanted: list[Record], sequence: int) -> None:
    built = log_format.build(LOG_ID, sequence, wanted)
    data = b"".join(built.buffers)

    header, placed = log_format.parse(data, LOG_ID)

    assert [record for record, _ in placed] == wanted
    assert header.sequence == sequence
    assert header.size == built.size == len(data)
    assert len(data) == log_format.BATCH_HEADER_BYTES + sum(map(log_format.size_of, wanted))


@given(st.lists(framing.some_frames, min_size=1, max_size=4))
def test_a_frame_stands_where_the_batch_says(wanted: list[Record]) -> None:
    built = log_format.build(LOG_ID, 1, wanted)
    data = b"".join(built.buffers)

    for record, offset in built.placed:
        assert isinstance(record, Frame)
        assert data[offset : offset + record.size_bytes] == record.data()


def test_no_bit_of_a_batch_can_change_unnoticed() -> None:
    data = bytes_of(*ONE_OF_EACH)
    for at in range(len(data)):
        for bit in range(8):
            changed = bytearray(data)
            changed[at] ^= 1 << bit
            with pytest.raises(FormatError):
                log_format.parse(bytes(changed), LOG_ID)


def test_no_prefix_of_a_batch_is_one_and_nothing_may_follow() -> None:
    data = bytes_of(*ONE_OF_EACH)
    for size in range(len(data)):
        with pytest.raises(FormatError):
            log_format.parse(data[:size], LOG_ID)
    with pytest.raises(FormatError):
        log_format.parse(data + b"x", LOG_ID)


def test_a_batch_of_another_log_is_none() -> None:
    with pytest.raises(FormatError):
        log_format.parse(bytes_of(*ONE_OF_EACH), LOG_ID + 1)


@given(st.binary(max_size=200))
def test_arbitrary_bytes_after_the_mark_are_refused_in_order(data: bytes) -> None:
    with pytest.raises(FormatError):
        log_format.parse(log_format.mark(LOG_ID) + data, LOG_ID)
    with pytest.raises(FormatError):
        log_format.parse_file_header(data)


def test_the_files_header_is_read_and_held_to_its_checksum() -> None:
    data = log_format.file_header(LOG_ID)
    assert log_format.parse_file_header(data) == LOG_ID
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 1
        with pytest.raises(FormatError):
            log_format.parse_file_header(bytes(changed))


def test_version_1_is_read_for_ever() -> None:
    golden = hextext.read("../bookie/golden/log_v1.txt")

    assert log_format.file_header(LOG_ID) == golden["file header"]
    assert bytes_of(*ONE_OF_EACH, sequence=3) == golden["one of each"]
    assert bytes_of(sequence=4) == golden["empty"]
    _, placed = log_format.parse(golden["one of each"], LOG_ID)
    assert tuple(record for record, _ in placed) == ONE_OF_EACH
