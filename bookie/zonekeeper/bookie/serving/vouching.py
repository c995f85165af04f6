"""What a bookie asks the metadata store: is this a ledger, and has a repair vouched for it?

The bookie believes no peer in this. It asks before it takes in a ledger that it does not know, and
before it ends a limbo.
"""

import sys
from collections.abc import Awaitable, Callable
from typing import TypeAlias, assert_never

from zonekeeper.bookie.ledgers import admission
from zonekeeper.bookie.ledgers.admission import Gone, Standing, Stands
from zonekeeper.bookie.storage.ledgers import Ledger
from zonekeeper.placement.base.ids import LedgerId
from zonekeeper.wire.formats import errors

#: Reads what metadata says of a ledger, not before the call; raises ``MetadataAway``.
Standings: TypeAlias = Callable[[LedgerId], Awaitable[Standing]]

#: Reads whether a repair vouches that, in this start of the bookie (boot epoch), every entry of a
#: ledger that belongs here is here again; raises ``MetadataAway``.
Vouched: TypeAlias = Callable[[LedgerId, int], Awaitable[bool]]


async def no_standings(ledger_id: LedgerId) -> Standing:
    """Stand for a metadata store where there is none: no unknown ledger is taken in."""
    raise errors.MetadataAway(
        f"there is no metadata store to read whether there is a ledger {ledger_id}"
    )


async def no_vouchers(ledger_id: LedgerId, boot_epoch: int) -> bool:
    """Stand for a metadata store where there is none: no limbo ends."""
    raise errors.MetadataAway(
        f"there is no metadata store to read whether ledger {ledger_id} is whole in start "
        f"{boot_epoch}"
    )


def owner_of(ledger: Ledger, standing: Standing | None = None) -> str | None:
    """Give the principal that a ledger belongs to, "" for none; None: metadata says it.

    What metadata says is kept with a ledger whose key is known: another ledger under its id has
    another create token. Raises ``LedgerDeleted`` if metadata has another ledger, or none.
    """
    match standing:
        case None:
            return None if ledger.admitted.master_key is None else ledger.owner
        case Gone():
            raise errors.LedgerDeleted(
                f"ledger {ledger.ledger_id} is not in the metadata that this bookie has read: "
                "nobody knows whose it was"
            )
        case Stands(owner=owner, create_token=token):
            if admission.is_other(ledger.admitted, token):
                raise errors.LedgerDeleted(
                    f"ledger {ledger.ledger_id}: another ledger has this id in the metadata"
                )
            if ledger.admitted.master_key is not None:
                ledger.owner = sys.intern(owner)
            return owner
        case _:
            assert_never(standing)


def stands(standing: Standing) -> bool:
    """Does metadata have the ledger?"""
    return isinstance(standing, Stands)
