"""The bytes that storage leaves on disks: what is written is read, and no change passes for it."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.bookie.segments import keeping
from tests.bookie.segments.some_records import FORGET, ONE_OF_EACH, all_records
from tests.wire import hextext
from zonekeeper.bookie.formats import (
    batch_format,
    checkpoint_format,
    locations,
    log_end,
    record_format,
    sorted_format,
)
from zonekeeper.bookie.formats.arrival_scan import DamagedLogError
from zonekeeper.bookie.formats.batch_format import Position
from zonekeeper.bookie.formats.checkpoint_format import Checkpoint, Kept, SortedSegment
from zonekeeper.bookie.formats.index import ExtentRow
from zonekeeper.bookie.formats.log_end import LogEnd
from zonekeeper.bookie.ledgers import admission, records
from zonekeeper.bookie.ledgers.admission import AdmissionState
from zonekeeper.bookie.ledgers.extents import Extent
from zonekeeper.bookie.ledgers.records import LedgerRecord, Record
from zonekeeper.bookie.ledgers.tombstones import Tombstone
from zonekeeper.bookie.segments import checkpoint
from zonekeeper.placement.base.ids import EntryId, LedgerId
from zonekeeper.wire.formats import checksums
from zonekeeper.wire.formats.errors import FormatError
from zonekeeper.wire.formats.frames import Frame

LOG_ID = 0x0102030405060708
AT = Position(7, 40)
BEFORE = Position(5, 30)

STATE_RECORDS: Sequence[LedgerRecord] = (
    records.FragmentRecord.of(keeping.opening(3)),
    records.FenceRecord(ledger_id=LedgerId(3), master_key=keeping.KEY),
    records.LacRecord(ledger_id=LedgerId(3), packet=keeping.sealer(3).seal_lac(EntryId(4))),
    records.LimboRecord(ledger_id=LedgerId(3), in_limbo=True),
)


def after(wanted: Sequence[LedgerRecord]) -> AdmissionState:
    state = admission.UNKNOWN
    for record in wanted:
        state = admission.applied(state, record)
    return state


#: Golden files: change nothing here.
CHECKPOINT = Checkpoint(
    log_id=LOG_ID,
    mark=BEFORE,
    next_sorted=9,
    segments=(
        SortedSegment(number=3, directory=0, size_bytes=9_000, live_bytes=8_000),
        SortedSegment(number=8, directory=1, size_bytes=122, live_bytes=122),
    ),
    read_only=True,
    sweep=2,
    forgotten=(LedgerId(5), LedgerId(6)),
    ledgers={
        LedgerId(3): Kept(state=after(STATE_RECORDS), confirmed=EntryId(4)),
        LedgerId(4): Kept(state=admission.UNKNOWN, confirmed=EntryId(-1), since=8),
    },
)
#: As it is read from a file of version 3; files of version 1 and 2 say nothing of the log's end.
CHECKPOINT_2 = replace(CHECKPOINT, limbo_generation=6)
CHECKPOINT_3 = replace(
    CHECKPOINT_2,
    tombstones=(Tombstone(LedgerId(5), 0x0102, 1_000), Tombstone(LedgerId(6), 0, 2_000)),
)
LOG_END = LogEnd(log_id=LOG_ID, position=AT, arrival_number=4)
ROWS = (
    ExtentRow(
        LedgerId(3),
        Extent(EntryId(0), EntryId(4), locations.location(locations.sorted_key(8), 28), 72),
    ),
    ExtentRow(
        LedgerId(4),
        Extent(EntryId(2), EntryId(2), locations.location(locations.sorted_key(8), 100), 50),
    ),
)


def golden_of(file: str, name: str) -> bytes:
    return hextext.read(f"../bookie/segments/golden/{file}.txt")[name]


def batch_bytes(wanted: Sequence[Record]) -> bytes:
    return b"".join(batch_format.build(LOG_ID, AT, 38, BEFORE, wanted).buffers)


def table_bytes() -> bytes:
    return sorted_format.table_and_footer(LOG_ID, 8, 150, ROWS)


def parse_table(data: bytes) -> list[ExtentRow]:
    size = 150 + len(data)
    footer = sorted_format.parse_footer(data[-40:], LOG_ID, 8, size)
    return sorted_format.parse_table(data[footer.table_at - 150 :], 8)


@given(st.lists(all_records, max_size=5))
def test_a_batch_is_read_as_it_was_written(wanted: list[Record]) -> None:
    data = batch_bytes(wanted)

    header, placed = batch_format.parse(data, LOG_ID)

    assert [record for record, _ in placed] == wanted
    assert (header.position, header.known_synced, header.before) == (AT, 38, BEFORE)
    assert header.size == len(data) == batch_format.size_of(wanted)
    for record, offset in placed:
        if isinstance(record, Frame):
            assert data[offset : offset + record.size_bytes] == record.data()


@pytest.mark.parametrize(
    ("data", "parse"),
    [
        (batch_bytes(ONE_OF_EACH), lambda data: batch_format.parse(data, LOG_ID)),
        (golden_of("segments_v1", "checkpoint"), checkpoint_format.parse),
        (golden_of("checkpoint_v2", "checkpoint"), checkpoint_format.parse),
        (checkpoint_format.render(CHECKPOINT_3), checkpoint_format.parse),
        (log_end.render(LOG_END), log_end.parse),
        (table_bytes(), parse_table),
    ],
    ids=[
        "batch",
        "checkpoint of version 1",
        "checkpoint of version 2",
        "checkpoint",
        "log end",
        "sorted table",
    ],
)
def test_no_bit_can_change_and_no_byte_be_missing_unnoticed(
    data: bytes, parse: Callable[[bytes], object]
) -> None:
    parse(data)
    for at in range(len(data)):
        for bit in range(8):
            changed = bytearray(data)
            changed[at] ^= 1 << bit
            with pytest.raises(FormatError):
                parse(bytes(changed))
    for size in range(len(data)):
        with pytest.raises(FormatError):
            parse(data[:size])
    with pytest.raises(FormatError):
        parse(data + b"x")


@given(st.binary(max_size=300))
def test_arbitrary_bytes_are_refused_in_order(data: bytes) -> None:
    for parse in (
        lambda: batch_format.parse(batch_format.log_mark(LOG_ID) + data, LOG_ID),
        lambda: checkpoint_format.parse(data),
        lambda: log_end.parse(data),
        lambda: sorted_format.parse_footer(data, LOG_ID, 8, len(data)),
    ):
        with pytest.raises(FormatError):
            parse()


def test_an_older_frame_of_the_same_size_does_not_pass_for_a_batchs_own() -> None:
    newer, older = keeping.frame(1, [23]), keeping.frame(1, [46])
    assert newer.size_bytes == older.size_bytes
    torn = batch_bytes([newer])[: -newer.size_bytes] + older.data()
    with pytest.raises(FormatError, match="another frame"):
        batch_format.parse(torn, LOG_ID)


def test_the_generation_of_one_batch_does_not_go_with_the_rest_of_another() -> None:
    newer = b"".join(batch_format.build(LOG_ID, AT, 38, BEFORE, ()).buffers)
    older = b"".join(batch_format.build(LOG_ID, Position(6, 31), 30, BEFORE, ()).buffers)
    with pytest.raises(FormatError):
        batch_format.parse(newer[:24] + older[24:], LOG_ID)


@given(
    st.lists(
        st.one_of(
            st.sampled_from(STATE_RECORDS),
            st.just(
                records.FenceRecord(ledger_id=LedgerId(3), master_key=keeping.KEY, create_token=7)
            ),
            st.just(records.LimboRecord(ledger_id=LedgerId(3), in_limbo=False)),
            st.builds(
                records.FragmentRecord.of,
                st.builds(
                    lambda first, token: replace(keeping.opening(3, first), create_token=token),
                    st.integers(0, 3),
                    st.sampled_from((0, 7)),
                ),
            ),
        ),
        max_size=8,
    )
)
def test_a_ledgers_state_is_the_same_after_a_checkpoint(wanted: list[LedgerRecord]) -> None:
    state = after(wanted)
    assert after(checkpoint_format.records_of(LedgerId(3), state)) == state


def test_a_checkpoint_is_read_as_it_was_written() -> None:
    for each in (CHECKPOINT, CHECKPOINT_2, CHECKPOINT_3):
        assert checkpoint_format.parse(checkpoint_format.render(each)) == each


def test_a_checkpoint_that_is_written_says_that_the_logs_end_is_beside_it() -> None:
    """Also where the last one was of a version that had no such file."""
    before = checkpoint_format.parse(golden_of("segments_v1", "checkpoint"))
    assert not before.has_log_end

    assert checkpoint_format.parse(checkpoint_format.render(before)).has_log_end


def test_the_logs_end_is_read_as_it_was_written() -> None:
    assert log_end.parse(log_end.render(LOG_END)) == LOG_END


def test_a_checkpoint_of_a_newer_version_is_not_called_damaged() -> None:
    files = keeping.fresh()
    written = checkpoint_format.render(CHECKPOINT_3)
    data = written[:4] + b"\x04" + written[5:-4]
    files.remove(checkpoint.NAME)
    files.create(checkpoint.NAME).write(0, [data, checksums.value(data).to_bytes(4, "big")])

    with pytest.raises(DamagedLogError, match=r"by a newer zonekeeper .* start that version"):
        checkpoint.load(files)


def test_a_frame_is_not_a_ledgers_state() -> None:
    frame, state = keeping.frame(3, [0]), record_format.encode(STATE_RECORDS[1])
    data = checkpoint_format.render(CHECKPOINT)
    assert state in data
    for other in (frame, FORGET, records.ModeRecord(read_only=True)):
        bad = data[:-4].replace(state, record_format.encode(other))
        with pytest.raises(FormatError):
            checkpoint_format.parse(bad + checksums.value(bad).to_bytes(4, "big"))


def test_version_1_is_read_for_ever() -> None:
    golden = hextext.read("../bookie/segments/golden/segments_v1.txt")

    assert batch_bytes(ONE_OF_EACH) == golden["batch"]
    assert batch_bytes(()) == golden["empty batch"]
    assert batch_bytes([FORGET]) == golden["forgetting batch"]
    assert sorted_format.header(LOG_ID, 8) == golden["sorted header"]
    assert table_bytes() == golden["sorted table"]
    assert [record for record, _ in batch_format.parse(golden["batch"], LOG_ID)[1]] == list(
        ONE_OF_EACH
    )
    assert checkpoint_format.parse(golden["checkpoint"]) == replace(CHECKPOINT, has_log_end=False)
    assert parse_table(golden["sorted table"]) == list(ROWS)


def test_version_2_of_the_checkpoint_is_read_for_ever() -> None:
    golden = golden_of("checkpoint_v2", "checkpoint")

    assert checkpoint_format.parse(golden) == replace(CHECKPOINT_2, has_log_end=False)


def test_version_3_of_the_checkpoint_is_read_for_ever() -> None:
    golden = golden_of("checkpoint_v3", "checkpoint")

    assert checkpoint_format.render(CHECKPOINT_3) == golden
    assert checkpoint_format.parse(golden) == CHECKPOINT_3


def test_version_1_of_the_logs_end_is_read_for_ever() -> None:
    golden = golden_of("log_end_v1", "log end")

    assert log_end.render(LOG_END) == golden
    assert log_end.parse(golden) == LOG_END


def test_records_with_a_create_token_are_read_for_ever() -> None:
    """Those without are in the golden batch of version 1."""
    forget = records.ForgetRecord(ledger_id=LedgerId(9), create_token=0x0102, at_ms=0x0304)
    fence = records.FenceRecord(ledger_id=LedgerId(9), master_key=keeping.KEY, create_token=0x0102)
    spelled: dict[Record, str] = {
        forget: "0700000000000018000000000000000900000000000001020000000000000304",
        fence: f"0300000000000024 0000000000000009 {keeping.KEY.hex()} 0000000000000102",
    }
    for record, digits in spelled.items():
        data = bytes.fromhex(digits)
        assert record_format.encode(record) == data
        assert record_format.parse(data, 0, len(data)) == (record, len(data))
