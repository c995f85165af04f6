"""A torn end is cut off, damage is refused, and what an earlier life left behind is not read."""

from collections.abc import Sequence

import pytest

from tests.bookie.segments import keeping
from zonekeeper.bookie.disk.memory_files import MemoryFileSystem
from zonekeeper.bookie.formats import batch_format, log_end
from zonekeeper.bookie.formats.arrival_scan import DamagedLogError
from zonekeeper.bookie.formats.batch_format import Position
from zonekeeper.bookie.formats.log_end import LogEnd
from zonekeeper.bookie.ledgers.records import Record
from zonekeeper.bookie.segments import arrivals
from zonekeeper.bookie.segments.arrivals import Opened
from zonekeeper.wire.formats.frames import Frame

LOG_ID = 99
NOTHING = Position(0, 0)
UNKNOWN = log_end.none_of(LOG_ID)


def batch(
    generation: int,
    sequence: int,
    wanted: Sequence[Record],
    *,
    before: Position = NOTHING,
    synced: int | None = None,
) -> bytes:
    known = sequence - 1 if synced is None else synced
    built = batch_format.build(LOG_ID, Position(generation, sequence), known, before, wanted)
    return b"".join(built.buffers)


def one(entry_id: int) -> list[Record]:
    return [keeping.frame(1, [entry_id])]


class Segments:
    """Arrival segments as a bookie wrote them, all on the disk."""

    def __init__(self) -> None:
        self.files = MemoryFileSystem()

    def write(self, number: int, *batches: bytes) -> None:
        name = arrivals.name_of(number)
        there = name in self.files.names()
        file = self.files.open(name) if there else self.files.create(name)
        file.write(0, batches)
        file.sync()
        self.files.sync_names()

    def damage(self, number: int, offset: int) -> None:
        file = self.files.open(arrivals.name_of(number))
        (byte,) = file.read(offset, 1)
        file.write(offset, [bytes([byte ^ 1])])
        file.sync()

    def open(self, mark: Position = NOTHING, known: LogEnd = UNKNOWN) -> tuple[list[int], Opened]:
        """Give the entries that are found, and what the start made of it."""
        found: list[int] = []
        opened = arrivals.open_arrivals(
            self.files,
            known,
            mark,
            lambda scanned: found.extend(
                record.first for record, _ in scanned.placed if isinstance(record, Frame)
            ),
        )
        return found, opened


def test_a_bad_batch_at_the_end_is_the_end() -> None:
    for synced in (0, 1):
        segments = Segments()
        first, second = batch(2, 1, one(0)), batch(2, 2, one(1), synced=1)
        segments.write(1, first, second, batch(2, 3, one(2), synced=synced))
        segments.damage(1, len(first) + 80)
        found, opened = segments.open()
        assert found == [0]
        assert opened.active.before == Position(2, 1)


def test_a_bad_batch_that_a_later_one_says_was_synced_is_damage() -> None:
    segments = Segments()
    first, second = batch(2, 1, one(0)), batch(2, 2, one(1))
    segments.write(1, first, second, batch(2, 3, ()))
    segments.damage(1, len(first) + 80)
    with pytest.raises(DamagedLogError, match=r"batch 2/2 at byte \d+ of 'arrival-00000001'"):
        segments.open()


def test_a_bad_batch_before_the_one_that_the_next_segment_names_is_damage() -> None:
    first = batch(2, 1, one(0))
    for at, says in ((100, "generation 2 is missing"), (len(first) + 100, "counts on it")):
        segments = Segments()
        segments.write(1, first, batch(2, 2, one(1)))
        segments.write(2, batch(3, 3, one(2), before=Position(2, 2)))
        segments.damage(1, at)
        with pytest.raises(DamagedLogError, match=says):
            segments.open()


def test_the_first_batch_of_a_segment_is_missed_if_a_later_one_says_that_it_was_there() -> None:
    segments = Segments()
    segments.write(1, batch(2, 1, one(0)), batch(2, 2, ()))
    before = Position(2, 2)
    segments.write(2, batch(3, 3, one(1), before=before), batch(3, 4, (), before=before))
    segments.damage(2, 60)
    with pytest.raises(DamagedLogError, match="damaged at its beginning"):
        segments.open()


def test_a_first_batch_that_was_never_whole_is_no_damage() -> None:
    segments = Segments()
    segments.write(1, batch(2, 1, one(0)), batch(2, 2, ()))
    segments.write(2, batch(3, 3, one(1), before=Position(2, 2)))
    segments.damage(2, 60)
    found, opened = segments.open()
    assert found == [0]
    assert opened.active.before == Position(2, 2)
    assert opened.active.generation > 3


def test_a_segment_that_another_names_and_that_is_not_there_is_damage() -> None:
    segments = Segments()
    segments.write(2, batch(3, 3, one(2), before=Position(2, 2)))
    with pytest.raises(DamagedLogError, match="generation 2 is missing"):
        segments.open()


def test_what_is_up_to_the_mark_is_not_looked_for() -> None:
    segments = Segments()
    segments.write(2, batch(3, 3, one(2), before=Position(2, 2)))
    assert segments.open(Position(2, 2))[0] == [2]


def test_a_chain_that_ends_elsewhere_than_at_the_mark_is_damage() -> None:
    segments = Segments()
    segments.write(2, batch(3, 3, one(2), before=Position(2, 2)))
    with pytest.raises(DamagedLogError, match="the checkpoint says 2/1"):
        segments.open(Position(2, 1))


def test_what_is_left_of_an_earlier_generation_is_not_read() -> None:
    segments = Segments()
    old = batch(2, 1, one(0)), batch(2, 2, one(1)), batch(2, 3, one(2))
    segments.write(1, *old)
    segments.write(1, batch(3, 4, one(3), before=Position(2, 3)))
    assert segments.open(Position(2, 3))[0] == [3]


def test_what_is_behind_the_batch_that_a_later_generation_names_is_not_read() -> None:
    segments = Segments()
    segments.write(1, batch(2, 1, one(0)), batch(2, 2, one(1), synced=0))
    segments.write(2, batch(4, 2, one(7), before=Position(2, 1)))
    assert segments.open()[0] == [0, 7]


def test_a_start_writes_again_what_nobody_says_was_synced() -> None:
    segments = Segments()
    first = batch(2, 1, one(0))
    second, third = batch(2, 2, one(1), synced=1), batch(2, 3, one(2), synced=1)
    segments.write(1, first, second, third)
    calls: list[tuple[str, str]] = []
    segments.files.troubles = lambda kind, name: calls.append((kind, name))
    assert segments.open()[0] == [0, 1, 2]
    again = calls.index(("write", "arrival-00000001"))
    assert calls[again + 1] == ("sync", "arrival-00000001")


def test_each_start_begins_a_generation_of_its_own() -> None:
    segments = Segments()
    generations = [segments.open()[1].active.generation for _ in range(4)]
    assert generations == [2, 4, 6, 8]


def test_something_else_in_a_segments_place_is_damage() -> None:
    segments = Segments()
    segments.write(1, batch(2, 1, one(0)), batch(2, 7, one(1)))
    with pytest.raises(DamagedLogError, match="something else wrote"):
        segments.open()
    twice = Segments()
    twice.write(1, batch(2, 1, one(0)))
    twice.write(2, batch(2, 1, one(0)))
    with pytest.raises(DamagedLogError, match="one generation"):
        twice.open()


def known_end(generation: int, sequence: int) -> LogEnd:
    position = Position(generation, sequence)
    return LogEnd(log_id=LOG_ID, position=position, arrival_number=1)


def test_a_log_that_ends_before_its_known_end_is_damaged() -> None:
    first, second = batch(2, 1, one(0)), batch(2, 2, one(1))
    for written, end, says in (
        ([first], known_end(2, 2), r"batch 2/2 at byte \d+ .* 'log-end' says that batch 2/2 was"),
        ([first, second], known_end(2, 3), r"'log-end' says that batch 2/3 was on the disk"),
        ([first, second], known_end(4, 3), r"'arrival-00000001' is missing, or lost"),
        ([], known_end(2, 1), r"'arrival-00000001' is missing, or lost"),
    ):
        segments = Segments()
        segments.write(1, *written)
        with pytest.raises(DamagedLogError, match=says):
            segments.open(known=end)


def test_a_segment_that_names_a_batch_before_the_known_end_was_begun_on_a_damaged_log() -> None:
    """So it would be by a version that did not know of the log's end."""
    segments = Segments()
    segments.write(1, batch(2, 1, one(0)), batch(2, 2, one(1)))
    segments.write(2, batch(4, 2, one(2), before=Position(2, 1)))
    with pytest.raises(DamagedLogError, match="'log-end' says that batch 2/2 was on the disk"):
        segments.open(known=known_end(2, 2))


def test_a_log_that_reaches_its_known_end_or_goes_on_behind_it_is_whole() -> None:
    for end in (known_end(2, 1), known_end(2, 2), UNKNOWN):
        segments = Segments()
        segments.write(1, batch(2, 1, one(0)), batch(2, 2, one(1)))
        assert segments.open(known=end)[0] == [0, 1]


def test_a_known_end_that_the_mark_has_passed_is_not_asked_for() -> None:
    mark = Position(2, 2)
    for end in (known_end(2, 1), known_end(2, 2)):
        assert Segments().open(mark, end)[0] == []
        segments = Segments()
        segments.write(1, batch(4, 3, one(2), before=mark))
        assert segments.open(mark, end)[0] == [2]
