"""The evidence for a ledger's LAC at a bookie: what is on its disk, and nothing else."""

from zonekeeper.bookie.ledgers import admission
from zonekeeper.bookie.storage.ledgers import Ledger
from zonekeeper.bookie.storage.storage import Storage
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.wire.contract import service
from zonekeeper.wire.formats import errors


async def of(storage: Storage, ledger: Ledger, bookie: BookieId) -> service.LacEvidence:
    """Give the evidence; raises ``LimboLedger``, and ``LedgerDeleted`` if it was collected."""
    ledger_id = ledger.ledger_id
    admission.refuse_limbo(ledger_id, ledger.durable)
    explicit_lac, last = ledger.durable.explicit_lac, ledger.extents.last
    if last is None:
        return service.LacEvidence(explicit_lac=explicit_lac, last_entry=None)
    found = await storage.read(ledger, range(last, last + 1), 1)
    packet = found.frames[0].packet(last) if found.frames else None
    if packet is None:
        raise errors.LedgerDeleted(f"ledger {ledger_id} was collected from {bookie}")
    return service.LacEvidence(explicit_lac=explicit_lac, last_entry=bytes(packet))
