"""A torn end is cut, damage is refused, and the two are never taken for each other."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.bookie import running
from zonekeeper.bookie import log_format, log_scan
from zonekeeper.bookie.log_scan import DamagedLogError, Scanned
from zonekeeper.wire.frames import Frame

LOG_ID = 99


def log_of(*sizes: int) -> tuple[bytes, list[int]]:
    """A log whose batches have frames of so many entries (0: empty), and where they begin."""
    data = log_format.file_header(LOG_ID)
    starts, entry = [], 0
    for number, size in enumerate(sizes):
        starts.append(len(data))
        wanted = [running.frame(*range(entry, entry + size))] if size else []
        entry += size
        data += b"".join(log_format.build(LOG_ID, number + 1, wanted).buffers)
    return data, starts


def scanned(data: bytes) -> tuple[list[Scanned], log_scan.End]:
    seen: list[Scanned] = []
    end = log_scan.scan(lambda at, size: data[at : at + size], LOG_ID, seen.append)
    return seen, end


def test_a_whole_log_is_read_to_its_end() -> None:
    data, starts = log_of(1, 0, 3)

    seen, end = scanned(data)

    assert [batch.offset for batch in seen] == starts
    assert [batch.sequence for batch in seen] == [1, 2, 3]
    assert end == log_scan.End(offset=len(data), sequence=4, last_batch=starts[-1])


def test_an_empty_log_ends_where_it_begins() -> None:
    data, _ = log_of()

    assert scanned(data) == ([], log_scan.End(offset=len(data), sequence=1, last_batch=None))


def test_frames_are_given_with_their_place_in_the_file() -> None:
    data, _ = log_of(2, 1)

    for batch in scanned(data)[0]:
        for record, offset in batch.placed:
            assert isinstance(record, Frame)
            assert data[offset : offset + record.size_bytes] == record.data()


def test_every_torn_end_is_cut_at_the_last_whole_batch() -> None:
    data, starts = log_of(1, 2, 2)

    for cut in range(starts[2], len(data)):
        for rest in (b"", bytes(64), b"\xff" * 64):
            seen, end = scanned(data[:cut] + rest)
            assert len(seen) == 2
            assert end == log_scan.End(offset=starts[2], sequence=3, last_batch=starts[1])


@settings(deadline=None)
@given(st.data())
def test_damage_in_front_of_a_whole_batch_is_refused(data: st.DataObject) -> None:
    whole, starts = log_of(2, 1, 0)
    at = data.draw(st.integers(starts[0], starts[2] - 1))
    bits = data.draw(st.integers(1, 255))
    changed = bytearray(whole)
    changed[at] ^= bits

    with pytest.raises(DamagedLogError, match="not a torn end"):
        scanned(bytes(changed))


def test_a_batch_that_is_all_zeros_in_front_of_a_whole_one_is_damage() -> None:
    data, starts = log_of(1, 1, 1)
    gone = data[: starts[1]] + bytes(starts[2] - starts[1]) + data[starts[2] :]

    with pytest.raises(DamagedLogError, match=f"byte {starts[1]}"):
        scanned(gone)


def test_a_missing_batch_is_noticed_by_its_number() -> None:
    data, starts = log_of(1, 1, 1)

    with pytest.raises(DamagedLogError, match="in the place of batch 2"):
        scanned(data[: starts[1]] + data[starts[2] :])


def test_what_a_client_stored_is_never_taken_for_a_later_batch() -> None:
    """A payload can hold the bytes of a batch, but not of one of this log: its id is random."""
    foreign = b"".join(log_format.build(LOG_ID + 1, 9, ()).buffers)
    data, starts = log_of(1)

    seen, end = scanned(data[: starts[0] + 30] + foreign)

    assert seen == []
    assert end.offset == starts[0]


def test_a_later_batch_is_found_across_the_chunks_of_the_search() -> None:
    data, starts = log_of(1, 1)
    padding = bytes((1 << 20) - 7)
    far = data[: starts[0]] + b"?" + padding + data[starts[1] :]

    with pytest.raises(DamagedLogError):
        scanned(far)
