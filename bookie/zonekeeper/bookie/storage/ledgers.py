"""One ledger in a bookie's memory: its two states, the places of its entries, and unsynced records.

Everything on the disk enters through ``placed``, in the log's order: when a start reads the log,
and when a batch was synced. So a restarted bookie has the same state as before.
"""

import asyncio
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Container, Iterable, Sequence
from typing import Final

from zonekeeper.bookie.ledgers import admission
from zonekeeper.bookie.ledgers.admission import AdmissionState, Effect, Event
from zonekeeper.bookie.ledgers.extents import Extent, Extents
from zonekeeper.bookie.ledgers.records import LedgerRecord
from zonekeeper.placement.base.ids import NO_ENTRY, EntryId, LedgerId
from zonekeeper.wire.formats import errors
from zonekeeper.wire.formats.frames import Frame
from zonekeeper.wire.formats.openings import FragmentOpening

#: An empty deque takes as much memory as all the rest of a ledger, so ledgers share it.
_NOTHING: Final[deque[LedgerRecord | Frame]] = deque(maxlen=0)


class Ledger:
    """The state of one ledger in memory."""

    __slots__ = (
        "_news",
        "admitted",
        "closed_at",
        "confirmed",
        "disputed",
        "durable",
        "extents",
        "highest",
        "known",
        "ledger_id",
        "on_the_way",
        "owner",
        "rendered",
    )

    def __init__(self, ledger_id: LedgerId, extents: Extents) -> None:
        """Begin with an unknown ledger that has these extents."""
        self.ledger_id = ledger_id
        self.admitted: AdmissionState = admission.UNKNOWN
        self.durable: AdmissionState = admission.UNKNOWN
        #: Is a record or an entry of the ledger on disk?
        self.known = False
        #: The places of the entries on disk.
        self.extents = extents
        #: Records that were handed to the log and are not on disk yet, in order.
        self.on_the_way: deque[LedgerRecord | Frame] = _NOTHING
        #: The last entry, if the ledger is proven to be closed; None: it is open, or unknown.
        self.closed_at: EntryId | None = None
        #: The principal that the ledger belongs to, "" if it has no owner; None: metadata was not
        #: asked. It counts only while the key is known: a ledger's owner never changes.
        self.owner: str | None = None
        #: Was another ledger under the same id refused here? Then this one was perhaps deleted.
        self.disputed = False
        #: ``entry <= highest`` for every entry on disk or on its way.
        self.highest: EntryId = NO_ENTRY if extents.last is None else extents.last
        #: The highest LAC in a record on disk.
        self.confirmed: EntryId = NO_ENTRY
        #: The bytes last rendered, with their state and LAC. A changed state is another object.
        self.rendered: tuple[AdmissionState, EntryId, bytes] | None = None
        self._news: asyncio.Event | None = None

    def decide(self, event: Event) -> Sequence[Effect]:
        """Decide an event. The caller must hand the records of the effects to the log at once."""
        effects = self.decided(event)
        for effect in effects:
            if isinstance(effect, admission.WriteRecord):
                self.admit(effect.record)
        return effects

    def decided(self, event: Event) -> Sequence[Effect]:
        """Decide an event; the caller must ``admit`` the records of the effects."""
        match event:
            case admission.OpenWanted(opening=FragmentOpening(create_token=token)):
                self.disputed = self.disputed or admission.is_other(self.admitted, token)
            case admission.FenceWanted(create_token=token):
                self.disputed = self.disputed or admission.is_other(self.admitted, token)
        return admission.decide(self.ledger_id, self.admitted, event)

    def admit(self, record: LedgerRecord) -> None:
        """Add a record to the admitted state; the caller hands it to the log at once."""
        self.admitted = admission.applied(self.admitted, record)

    def sent(self, record: LedgerRecord | Frame) -> None:
        """Note a record that is handed to the log."""
        if self.on_the_way is _NOTHING:
            self.on_the_way = deque()
        self.on_the_way.append(record)
        if isinstance(record, Frame):
            self.highest = max(self.highest, record.last)

    def placed(self, record: LedgerRecord | Frame, offset: int) -> None:
        """Note a record that is on disk; ``offset`` is the place of a frame."""
        if self.on_the_way:
            sent = self.on_the_way.popleft()
            assert sent is record, "records reach the disk in the order in which they were sent"
            if not self.on_the_way:
                self.on_the_way = _NOTHING
        self.known = True
        if isinstance(record, Frame):
            self.extents.add(record.entry_ids, offset, record.size_bytes)
            self.highest = max(self.highest, record.last)
            self.confirmed = max(self.confirmed, record.last_add_confirmed)
        else:
            self.durable = admission.applied(self.durable, record)
            self.confirmed = max(self.confirmed, admission.lac_of(self.durable.explicit_lac))
        self.tell()

    def was_kept(self, state: AdmissionState, confirmed: EntryId) -> None:
        """Begin with what a checkpoint says; the records past its mark are placed next."""
        self.known = True
        self.durable = state
        self.confirmed = max(confirmed, admission.lac_of(state.explicit_lac))

    def restarted(self) -> None:
        """Begin after a restart: the admitted state is the durable one."""
        self.admitted = self.durable

    def refuse_collected(self) -> None:
        """Raise if a ledger that was known was collected meanwhile: no answer is a negative now."""
        if not self.known:
            raise errors.LedgerDeleted(f"ledger {self.ledger_id} was collected here meanwhile")

    def news(self) -> asyncio.Event:
        """Give an event that is set when a record of the ledger reaches the disk."""
        if self._news is None:
            self._news = asyncio.Event()
        return self._news

    def tell(self) -> None:
        """Set the event of ``news``."""
        if self._news is not None:
            self._news.set()
            self._news = None

    def packets_on_the_way(self, frame: Frame) -> dict[EntryId, memoryview]:
        """Give the packets that are on their way to the disk under ids of a frame."""
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
    """Give the ids of a frame that are in these extents, ascending."""
    ids, found = frame.entry_ids, list[EntryId]()
    for extent in extents:
        found += ids[bisect_left(ids, extent.first) : bisect_right(ids, extent.last)]
    return found
