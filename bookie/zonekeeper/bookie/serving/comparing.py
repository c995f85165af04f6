"""Comparing a frame that comes with what is here of its entries, on disk and on its way there.

An entry that is the same but for its LAC and digest (``entries.same``) is the one that is here, and
is acknowledged without being written again. While one is compared others come, so it is looked
again until nothing is new: what is said then holds until the next ``await``.
"""

from collections.abc import Set as AbstractSet
from typing import Final

from zonekeeper.bookie.ledgers import extents
from zonekeeper.bookie.ledgers.admission import Here
from zonekeeper.bookie.storage.ledgers import Ledger, ids_in
from zonekeeper.bookie.storage.storage import Storage
from zonekeeper.placement.base.ids import EntryId
from zonekeeper.wire.formats import carriers, entries
from zonekeeper.wire.formats.frames import Frame

#: Listing looks up as many extents at a time as there may be.
LIST_BYTES: Final = 1 << 62


async def compare(storage: Storage, ledger: Ledger, frame: Frame) -> tuple[Here, set[EntryId]]:
    """Say whether what is here of a frame is the same, and which of its entries are here.

    Raises ``ProtocolError`` where that cannot be read.
    """
    compared = set[EntryId]()
    while True:
        on_disk = await _ids_on_disk(storage, ledger, frame)
        on_the_way = ledger.packets_on_the_way(frame)
        new = {*on_the_way, *on_disk} - compared
        if not new:
            return Here.SAME, compared
        compared |= new
        if not await _are_same(storage, ledger, frame, new, on_the_way):
            return Here.DIFFERENT, compared


async def _ids_on_disk(storage: Storage, ledger: Ledger, frame: Frame) -> list[EntryId]:
    """Give those of a frame's ids that are on disk, as of the moment of the return."""
    known = await storage.look_up(ledger, frame.first, frame.last, LIST_BYTES)
    if known.last < frame.last:
        # A frame over a thousand others: rare enough to be looked up on the event loop.
        return ids_in(ledger.extents.between(frame.first, frame.last), frame)
    return ids_in(known.extents, frame)


async def _are_same(
    storage: Storage,
    ledger: Ledger,
    frame: Frame,
    entry_ids: AbstractSet[EntryId],
    on_the_way: dict[EntryId, memoryview],
) -> bool:
    """Compare these entries of a frame with those that are here."""
    digest = ledger.admitted.digest
    assert digest is not None, "frames come to opened ledgers"
    for entry_id in entry_ids & on_the_way.keys():
        packet = frame.packet(entry_id)
        assert packet is not None, "only the frame's own entries are looked for"
        if not entries.same(on_the_way[entry_id], packet, digest):
            return False
    rest = sorted(entry_ids - on_the_way.keys())
    for first, last in extents.runs(rest) if rest else ():
        at = first
        while at <= last:
            wanted = range(at, last + 1)
            found = await storage.read(ledger, wanted, carriers.CARRIER_BYTES_AIM)
            for part in found.frames:
                for entry_id, there in part:
                    packet = frame.packet(entry_id)
                    if packet is None or not entries.same(there, packet, digest):
                        return False
            at = found.next_entry_id
    return True
