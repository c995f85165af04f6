"""Planted bugs of what an application is told: streams that end early, waits that end too soon, and
of writers that share a client and have little room."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Final

from tests.simulation.patching import Patch
from tests.simulation.planting import Mutant
from zonekeeper.client.api.reader import Reader
from zonekeeper.client.api.writer import Writer
from zonekeeper.client.sessions.write_session import WriteSession
from zonekeeper.client.writing import writer_events as ev
from zonekeeper.client.writing.seating import Seating
from zonekeeper.client.writing.seats import Seat, SeatState
from zonekeeper.placement.base.ids import EntryId
from zonekeeper.wire.formats.entries import Entry
from zonekeeper.wire.lanes.lanes import Lanes


def _reads_drop_the_last_entry() -> Sequence[Patch]:
    original = Reader.read_entries

    async def read_entries(
        self: Reader, first: int = 0, last: int | None = None
    ) -> AsyncGenerator[Entry, None]:
        end = self.last_confirmed if last is None else last
        async with aclosing(original(self, first, last)) as entries:
            async for entry in entries:
                if entry.entry_id < end:
                    yield entry

    return [(Reader, "read_entries", read_entries)]


def _tails_end_early() -> Sequence[Patch]:
    original = Reader._follow

    async def follow(self: Reader, following: EntryId) -> AsyncGenerator[Sequence[Entry], None]:
        async with aclosing(original(self, following)) as entries:
            async for some in entries:
                yield some
                return

    return [(Reader, "_follow", follow)]


def _flushes_return_at_once() -> Sequence[Patch]:
    async def flush(self: Writer, timeout: float | None = None) -> None:  # noqa: ASYNC109 as in the product
        del self, timeout

    return [(Writer, "flush", flush)]


def _full_lanes_lose_a_batch() -> Sequence[Patch]:
    def blocked(self: Seating, seat: Seat, first: EntryId) -> None:
        del self, first
        seat.state = SeatState.BLOCKED

    return [(Seating, "blocked", blocked)]


def _nobody_hears_of_room() -> Sequence[Patch]:
    original = WriteSession._perform

    def perform(self: WriteSession, effect: ev.Effect) -> None:
        if isinstance(effect, ev.Released):
            self.used_bytes -= effect.size_bytes
        else:
            original(self, effect)

    return [(WriteSession, "_perform", perform)]


def _acks_count_for_other_ledgers() -> Sequence[Patch]:
    original = Lanes._acked

    def acked(self: Lanes, first: int, last: int) -> None:
        put, following = self._sent.get(last), self._sent.get(last + 1)
        original(self, first, last)
        if put is not None and following is not None and following.lane is not put.lane:
            original(self, last + 1, last + 1)

    return [(Lanes, "_acked", acked)]


READING_MUTANTS: Final[Mapping[int, Mutant]] = {
    number: Mutant(number=number, what=what, profile=profile, within_seeds=within, patches=patches)
    for number, what, profile, within, patches in (
        (40, "a read drops its last entry", "calm", 10, _reads_drop_the_last_entry),
        (41, "a tail ends behind its first batch", "churn", 50, _tails_end_early),
        (42, "a flush returns at once", "calm", 10, _flushes_return_at_once),
        (43, "a full lane loses a batch", "calm", 50, _full_lanes_lose_a_batch),
        (44, "nobody hears that there is room again", "calm", 50, _nobody_hears_of_room),
        (
            45,
            "acks count for other ledgers, too",
            "crashy-disk",
            400,
            _acks_count_for_other_ledgers,
        ),
    )
}
