"""Limbo: a bookie with a new disk under its old name is made to answer for a ledger again.

A bookie in limbo answers "unknown", and never "no", for an entry that it does not have. A ledger's
limbo ends only here, in these steps:

1. the bookie is asked whether it is in limbo for the ledger, and in which start;
2. a last fragment that names the bookie is fenced and recovered, so that no write goes on that the
   bookie has forgotten;
3. every entry of its positions in finished fragments is read there and found good, or is put in
   durably from another copy (``copying.mend``);
4. the repair vouches for the bookie in the metadata store, under its claim (``vouchers``), and the
   bookie, which reads the voucher itself, ends the limbo in that same start. In another start it
   refuses.

If a disk is lost again in between, the bookie is in another start, and in limbo again. A fragment
that does not name the bookie, and may still grow, does not concern its limbo: the ledger stays
fenced there, so that no writer gets an ack from it for what it forgot.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from zonekeeper.client.bookies.link_pool import LinkPool
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.ledgers import vouchers
from zonekeeper.metadata.ledgers.underreplication import Claim
from zonekeeper.placement.base.ids import BookieId, EntryId, LedgerId
from zonekeeper.wire.contract.service import ListEntriesRequest
from zonekeeper.wire.formats import errors
from zonekeeper.wire.formats.digests import MasterKey


@dataclass(slots=True, kw_only=True)
class LimboFound:
    """The bookies that are in limbo for a ledger, and those that did not answer."""

    #: The bookies in limbo, and the start (boot epoch) of each.
    boots: dict[BookieId, int] = field(default_factory=dict)
    silent: dict[BookieId, errors.ProtocolError] = field(default_factory=dict)


async def find(
    pool: LinkPool, ledger_id: LedgerId, key: MasterKey, bookies: Iterable[BookieId]
) -> LimboFound:
    """Ask bookies whether they are in limbo for a ledger."""
    found = LimboFound()
    for bookie in sorted(bookies):
        try:
            # The start is asked for first. If the bookie starts in between, ``end`` is refused.
            boot_epoch = (await (await pool.link(bookie)).info()).boot_epoch
            if await is_in_limbo(pool, ledger_id, key, bookie):
                found.boots[bookie] = boot_epoch
        except errors.ProtocolError as error:
            found.silent[bookie] = error
    return found


async def end(
    cluster: Cluster, pool: LinkPool, claim: Claim, bookie: BookieId, boot_epoch: int
) -> None:
    """End a bookie's limbo for a claimed ledger; raises ``ProtocolError`` or ``StoreError``.

    The bookie reads the voucher that is written here, and does not believe the call alone. It
    compares ``boot_epoch`` with its present start: it may have started again since it was asked.
    """
    await vouchers.vouch(cluster, claim, bookie, boot_epoch)
    try:
        await (await pool.link(bookie)).end_limbo(claim.ledger_id, boot_epoch)
    finally:
        await vouchers.take_back(cluster, claim, bookie)


async def is_in_limbo(
    pool: LinkPool, ledger_id: LedgerId, key: MasterKey, bookie: BookieId
) -> bool:
    """Ask a bookie whether it is in limbo for a ledger; raises ``ProtocolError``."""
    request = ListEntriesRequest(
        ledger_id=ledger_id, first_entry_id=EntryId(0), ranges_max=1, key=key
    )
    try:
        await (await pool.link(bookie)).list_entries(request)
    except errors.LimboLedger:
        return True
    except errors.NoSuchLedger:
        pass
    return False
