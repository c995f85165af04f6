"""What a bookie asks before it ends a limbo: has a repair vouched for it in the metadata store?"""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from zonekeeper.placement.base.ids import LedgerId
from zonekeeper.wire.formats import errors

#: Reads whether a repair vouches that, in this start of the bookie (boot epoch), every entry of a
#: ledger that belongs here is here again; raises ``MetadataAway``.
Vouched: TypeAlias = Callable[[LedgerId, int], Awaitable[bool]]


async def no_vouchers(ledger_id: LedgerId, boot_epoch: int) -> bool:
    """Stand for a metadata store where there is none: no limbo ends."""
    raise errors.MetadataAway(
        f"there is no metadata store to read whether ledger {ledger_id} is whole in start "
        f"{boot_epoch}"
    )
