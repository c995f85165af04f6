"""Limbo: a bookie with a new disk under its old name is made to answer for a ledger again.

In limbo what is not there is unknown, never "no". So a ledger's limbo ends only here, and last:

1. it is asked whether the bookie is in limbo for the ledger, and in which start of it;
2. a last fragment that names it is fenced and recovered: nothing that the bookie forgot goes on;
3. every entry that its positions hold of finished fragments is read there and found good, or put in
   from another copy, durably (``copying.mend``);
4. in the same start of the bookie, which refuses it in another one, limbo ends.

A disk that is lost again in between begins another start, in limbo again. A fragment that does not
name the bookie, and may still grow, is no matter of its limbo: the ledger stays fenced there, so
that no writer gets an ack of it for what it forgot.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from zonekeeper.client.bookies.link_pool import LinkPool
from zonekeeper.placement.base.ids import BookieId, EntryId, LedgerId
from zonekeeper.wire.contract.service import ListEntriesRequest
from zonekeeper.wire.formats import errors


@dataclass(slots=True, kw_only=True)
class LimboFound:
    """Who is in limbo for a ledger, and who did not say."""

    #: The start (boot epoch) of each that is.
    boots: dict[BookieId, int] = field(default_factory=dict)
    silent: dict[BookieId, errors.ProtocolError] = field(default_factory=dict)


async def find(pool: LinkPool, ledger_id: LedgerId, bookies: Iterable[BookieId]) -> LimboFound:
    """Ask bookies whether they are in limbo for a ledger."""
    found = LimboFound()
    for bookie in sorted(bookies):
        try:
            # Asked first: a start in between shows at the end as another one.
            boot_epoch = (await (await pool.link(bookie)).info()).boot_epoch
            if await is_in_limbo(pool, ledger_id, bookie):
                found.boots[bookie] = boot_epoch
        except errors.ProtocolError as error:
            found.silent[bookie] = error
    return found


async def end(pool: LinkPool, ledger_id: LedgerId, bookie: BookieId, boot_epoch: int) -> None:
    """Let a bookie answer for a ledger again; raises ``ProtocolError``.

    The bookie compares the start by itself: whoever asked it first could be overtaken by one more.
    """
    await (await pool.link(bookie)).end_limbo(ledger_id, boot_epoch)


async def is_in_limbo(pool: LinkPool, ledger_id: LedgerId, bookie: BookieId) -> bool:
    """Ask a bookie whether it is in limbo for a ledger; raises ``ProtocolError``."""
    request = ListEntriesRequest(ledger_id=ledger_id, first_entry_id=EntryId(0), ranges_max=1)
    try:
        await (await pool.link(bookie)).list_entries(request)
    except errors.LimboLedger:
        return True
    except errors.NoSuchLedger:
        pass
    return False
