"""One ledger of a bookie in memory: its two states, where its entries are, what is on its way.

Everything that is on disk comes in through ``placed``, in the log's order: when the log is read at
the start, and when a batch was written. So a bookie that restarts knows what it knew.
"""

import asyncio
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Container, Iterable, Sequence

from zonekeeper.bookie.ledgers import admission
from zonekeeper.bookie.ledgers.admission import AdmissionState, Effect, Event
from zonekeeper.bookie.ledgers.extents import Extent, Extents
from zonekeeper.bookie.ledgers.records import LedgerRecord
from zonekeeper.placement.base.ids import NO_ENTRY, EntryId, LedgerId
from zonekeeper.wire.formats.frames import Frame


class Ledger:
    """What a bookie knows of a ledger."""

    __slots__ = (
        "_news",
        "admitted",
        "closed_at",
        "confirmed",
        "durable",
        "extents",
        "highest",
        "known",
        "ledger_id",
        "on_the_way",
        "rendered",
    )

    def __init__(self, ledger_id: LedgerId, extents: Extents) -> None:
        """Know nothing of it but what is in the extents."""
        self.ledger_id = ledger_id
        self.admitted: AdmissionState = admission.UNKNOWN
        self.durable: AdmissionState = admission.UNKNOWN
        #: Is anything of it on disk?
        self.known = False
        #: The entries on disk.
        self.extents = extents
        #: What was handed to the log and is not on disk yet, in order.
        self.on_the_way: deque[LedgerRecord | Frame] = deque()
        #: The last entry of a ledger that is closed for ever; None: it is open, or nobody knows.
        self.closed_at: EntryId | None = None
        #: No entry is higher, on disk or on its way.
        self.highest: EntryId = NO_ENTRY if extents.last is None else extents.last
        #: The highest LAC that stands on disk.
        self.confirmed: EntryId = NO_ENTRY
        #: What was last written of a state and a LAC; another state is another object.
        self.rendered: tuple[AdmissionState, EntryId, bytes] | None = None
        self._news: asyncio.Event | None = None

    def decide(self, event: Event) -> Sequence[Effect]:
        """Decide about an event. Writes among the effects must be handed to the log at once."""
        effects = admission.decide(self.ledger_id, self.admitted, event)
        for effect in effects:
            if isinstance(effect, admission.WriteRecord):
                self.admit(effect.record)
        return effects

    def admit(self, record: LedgerRecord) -> None:
        """Count on a record that is handed to the log at once."""
        self.admitted = admission.applied(self.admitted, record)

    def sent(self, record: LedgerRecord | Frame) -> None:
        """Note what is handed to the log."""
        self.on_the_way.append(record)
        if isinstance(record, Frame):
            self.highest = max(self.highest, record.last)

    def placed(self, record: LedgerRecord | Frame, offset: int) -> None:
        """Note what is on disk, and for a frame where."""
        if self.on_the_way:
            sent = self.on_the_way.popleft()
            assert sent is record, "records reach the disk in the order in which they were sent"
        self.known = True
        if isinstance(record, Frame):
            self.extents.add(record.entry_ids, offset, record.size_bytes)
            self.highest = max(self.highest, record.last)
            self.confirmed = max(self.confirmed, record.last_add_confirmed)
        else:
            self.durable = admission.applied(self.durable, record)
            self.confirmed = max(self.confirmed, admission.lac_of(self.durable.explicit_lac))
        self.tell()

    def restarted(self) -> None:
        """Let what is on disk be all there is."""
        self.admitted = self.durable

    def news(self) -> asyncio.Event:
        """Give the event that is set when something of the ledger reaches the disk."""
        if self._news is None:
            self._news = asyncio.Event()
        return self._news

    def tell(self) -> None:
        """Wake whoever waits for news."""
        if self._news is not None:
            self._news.set()
            self._news = None

    def packets_on_the_way(self, frame: Frame) -> dict[EntryId, memoryview]:
        """Give the packets on their way under a frame's ids."""
        ids = frame.entry_ids
        wanted: Container[int] = ids if isinstance(ids, range) else frozenset(ids)
        return {
            entry_id: packet
            for sent in self.on_the_way
            if isinstance(sent, Frame) and sent.first <= frame.last and frame.first <= sent.last
            for entry_id, packet in sent
            if entry_id in wanted
        }


def ids_in(extents: Iterable[Extent], frame: Frame) -> list[EntryId]:
    """Give those of a frame's ids that are in these extents, ascending."""
    ids, found = frame.entry_ids, list[EntryId]()
    for extent in extents:
        found += ids[bisect_left(ids, extent.first) : bisect_right(ids, extent.last)]
    return found
