"""What a bookie asks the metadata store: is this a ledger, and has a repair vouched for it?

The bookie believes no peer in this. It asks before it takes in a ledger that it does not know, and
before it ends a limbo.
"""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from zonekeeper.bookie.ledgers.admission import Standing, Stands
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


def stands(standing: Standing) -> bool:
    """Does metadata have the ledger?"""
    return isinstance(standing, Stands)
