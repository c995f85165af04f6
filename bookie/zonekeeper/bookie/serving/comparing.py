"""Compare an arriving frame with the entries that are here, on disk or on their way there.

Two entries are the same if they differ at most in LAC and digest (``entries.same``). An entry that
is the same as the one here is acknowledged without being written again. Other frames may arrive
during the comparison. So it looks again until there is no new entry. The result then holds until
the next ``await``.
"""

from collections.abc import Set as AbstractSet
from typing import Final

from zonekeeper.bookie.ledgers import extents
from zonekeeper.bookie.ledgers.admission import Here
from zonekeeper.bookie.storage.ledgers import Ledger, ids_in
from zonekeeper.bookie.storage.storage import Storage
from zonekeeper.placement.base.digests import Digest
from zonekeeper.placement.base.ids import EntryId
from zonekeeper.wire.formats import carriers, entries, errors
from zonekeeper.wire.formats.frames import Frame

#: No limit in bytes: a listing looks up as many extents at a time as it may.
LIST_BYTES: Final = 1 << 62


async def compare(storage: Storage, ledger: Ledger, frame: Frame) -> tuple[Here, set[EntryId]]:
    """Say whether the entries here are the same as a frame's, and which entries are here.

    Raises ``NotOpened`` if the ledger is forgotten already, and another ``ProtocolError`` if an
    entry that is here cannot be read. The ledger may be forgotten meanwhile: the caller must look.
    If they differ, perhaps not all entries that are here are given.
    """
    digest = ledger.admitted.digest
    if digest is None:
        raise errors.NotOpened(f"ledger {ledger.ledger_id} was deleted meanwhile")
    compared = set[EntryId]()
    while True:
        on_disk = await _ids_on_disk(storage, ledger, frame)
        on_the_way = ledger.packets_on_the_way(frame)
        new = {*on_the_way, *on_disk} - compared
        if not new:
            return Here.SAME, compared
        compared |= new
        if not await _are_same(storage, ledger, frame, new, on_the_way, digest):
            return Here.DIFFERENT, compared


async def _ids_on_disk(storage: Storage, ledger: Ledger, frame: Frame) -> list[EntryId]:
    """Give the ids of a frame that are on disk; true at the moment of the return."""
    known = await storage.look_up(ledger, frame.first, frame.last, LIST_BYTES)
    if known.last < frame.last:
        # The frame overlaps more than a thousand others: so rare that the event loop may block.
        return ids_in(ledger.extents.between(frame.first, frame.last), frame)
    return ids_in(known.extents, frame)


async def _are_same(
    storage: Storage,
    ledger: Ledger,
    frame: Frame,
    entry_ids: AbstractSet[EntryId],
    on_the_way: dict[EntryId, memoryview],
    digest: Digest,
) -> bool:
    """Say whether these entries of a frame are the same as those that are here."""
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
