"""A measured bookie: the same service, with metrics of its requests and their time.

It stands between the transport and the bookie, and the bookie does not know of it. The time of an
append runs from handing over its carrier to giving its outcome. It includes the wait for the disk,
but not the network. So a slow disk shows in the figures of its own bookie, and only there.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field
from typing import Final

from zonekeeper.placement.base.ids import BookieId, LedgerId
from zonekeeper.wire.contract import service
from zonekeeper.wire.formats import carriers, errors
from zonekeeper.wire.formats.exposition import Family, Histogram, HistogramFamily, single
from zonekeeper.wire.formats.frames import Frame
from zonekeeper.wire.formats.proofs import Shown

OK: Final = "ok"


@dataclass(slots=True)
class Measures:
    """All counters since the start."""

    #: By operation.
    seconds: defaultdict[str, Histogram] = field(default_factory=lambda: defaultdict(Histogram))
    #: By operation and outcome: ``OK`` or the name of an error.
    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    appended_entries: int = 0
    appended_bytes: int = 0
    read_entries: int = 0
    read_bytes: int = 0

    def done(self, operation: str, outcome: str, seconds: float) -> None:
        """Count an operation that has ended."""
        self.seconds[operation].observe(seconds)
        self.outcomes[operation, outcome] += 1

    def families(self) -> list[Family | HistogramFamily]:
        """Give all metrics, to be rendered."""
        return [
            HistogramFamily(
                name="zonekeeper_bookie_operation_seconds",
                help="Time from taking a request to giving its outcome, by operation.",
                label="operation",
                histograms=self.seconds,
            ),
            Family(
                "zonekeeper_bookie_operations_total",
                {
                    (("operation", operation), ("outcome", outcome)): count
                    for (operation, outcome), count in self.outcomes.items()
                },
                "Requests that have ended, by operation and outcome.",
            ),
            single(
                "zonekeeper_bookie_appended_entries_total",
                self.appended_entries,
                "Entries that were acknowledged.",
            ),
            single(
                "zonekeeper_bookie_appended_bytes_total",
                self.appended_bytes,
                "Bytes of frames that were acknowledged.",
            ),
            single(
                "zonekeeper_bookie_read_entries_total",
                self.read_entries,
                "Entries that were given to readers and tails.",
            ),
            single(
                "zonekeeper_bookie_read_bytes_total",
                self.read_bytes,
                "Bytes of frames that were given to readers and tails.",
            ),
        ]


class _TimedReplies:
    """Counts the outcomes of one carrier's items, and passes them on."""

    __slots__ = ("_frames", "_measures", "_now", "_replies", "_since")

    def __init__(
        self,
        replies: service.Replies,
        measures: Measures,
        loop: asyncio.AbstractEventLoop,
        items: Sequence[carriers.Request],
    ) -> None:
        self._replies = replies
        self._measures = measures
        self._now = loop.time
        self._since = loop.time()
        self._frames = {item.number: _size(item) for item in items}

    @property
    def peer(self) -> object:
        return self._replies.peer

    def acked(self, numbers: Sequence[int]) -> None:
        measures, seconds = self._measures, self._now() - self._since
        for number in numbers:
            operation, entries, size_bytes = self._frames.pop(number)
            measures.done(operation, OK, seconds)
            measures.appended_entries += entries
            measures.appended_bytes += size_bytes
        self._replies.acked(numbers)

    def refused(self, number: int, error: errors.ProtocolError) -> None:
        operation, _, _ = self._frames.pop(number)
        self._measures.done(operation, type(error).__name__, self._now() - self._since)
        self._replies.refused(number, error)


class MeasuredBookie:
    """A ``wire.contract.service.BookieService`` that measures another one."""

    def __init__(self, bookie: service.BookieService, measures: Measures) -> None:
        """Must be called on the event loop that serves the bookie."""
        self._bookie = bookie
        self._measures = measures
        self._loop = asyncio.get_running_loop()

    @property
    def bookie_id(self) -> BookieId:
        """The bookie's id."""
        return self._bookie.bookie_id

    @property
    def boot_epoch(self) -> int:
        """The number of this start; it grows with each start."""
        return self._bookie.boot_epoch

    async def owner(self, ledger_id: LedgerId, *, also_unknown: bool, create_token: int = 0) -> str:
        """Give the principal that a ledger belongs to; "": it has no owner."""
        return await self._bookie.owner(
            ledger_id, also_unknown=also_unknown, create_token=create_token
        )

    def append(self, items: Sequence[carriers.Request], replies: service.Replies) -> None:
        """Take openings, frames and LACs, in order."""
        self._bookie.append(items, _TimedReplies(replies, self._measures, self._loop, items))

    async def read(self, request: service.ReadRequest) -> service.ReadReply:
        """Give the entries of a range that are here."""
        with self._timed("read" if request.fence_key is None else "fencing-read"):
            reply = await self._bookie.read(request)
        self._given(reply.frames)
        return reply

    async def fence(
        self, ledger_id: LedgerId, master_key: Shown, create_token: int = 0
    ) -> service.LacEvidence:
        """Fence a ledger."""
        with self._timed("fence"):
            return await self._bookie.fence(ledger_id, master_key, create_token)

    async def read_lac(self, ledger_id: LedgerId, key: Shown | None = None) -> service.LacEvidence:
        """Give the evidence for the LAC."""
        with self._timed("read-lac"):
            return await self._bookie.read_lac(ledger_id, key)

    async def force(self, ledger_id: LedgerId, key: Shown | None = None) -> None:
        """Return when all that was acknowledged is on disk."""
        with self._timed("force"):
            await self._bookie.force(ledger_id, key)

    async def tail(self, request: service.TailRequest) -> AsyncGenerator[service.TailUpdate, None]:
        """Send updates. A tail mostly waits for its writer, so its time is not measured."""
        async with aclosing(self._bookie.tail(request)) as updates:
            async for update in updates:
                self._given(update.frames)
                yield update

    async def list_entries(self, request: service.ListEntriesRequest) -> service.EntryRanges:
        """List the entries that are here."""
        with self._timed("list"):
            return await self._bookie.list_entries(request)

    async def info(self) -> service.BookieInfo:
        """Give the bookie's id, state, start, version and room."""
        return await self._bookie.info()

    async def set_read_only(self, *, read_only: bool) -> None:
        """Take no more plain appends, or take them again."""
        await self._bookie.set_read_only(read_only=read_only)

    async def end_limbo(self, ledger_id: LedgerId, boot_epoch: int) -> None:
        """End a ledger's limbo."""
        await self._bookie.end_limbo(ledger_id, boot_epoch)

    async def compact(self, *, major: bool) -> None:
        """Start a compaction."""
        await self._bookie.compact(major=major)

    def _given(self, frames: Sequence[Frame]) -> None:
        measures = self._measures
        for frame in frames:
            measures.read_entries += len(frame)
            measures.read_bytes += frame.size_bytes

    @contextmanager
    def _timed(self, operation: str) -> Iterator[None]:
        since, outcome = self._loop.time(), "cut off"
        try:
            yield
            outcome = OK
        except errors.ProtocolError as error:
            outcome = type(error).__name__
            raise
        finally:
            self._measures.done(operation, outcome, self._loop.time() - since)


def _size(item: carriers.Request) -> tuple[str, int, int]:
    match item:
        case carriers.Append(frame=frame):
            return "append", len(frame), frame.size_bytes
        case carriers.Open():
            return "open", 0, 0
        case carriers.WriteLac():
            return "write-lac", 0, 0
