"""A bookie whose disk is lost for good gets an empty one under its old name.

It must deny nothing that it once acknowledged. So before it serves, every ledger whose metadata
names it in any fragment is in limbo in its first checkpoint, and fenced with that: what is not here
is unknown, and no writer goes on with a ledger of which this bookie forgot the fence. While the
bookie is not registered nobody names it in a new ensemble, so none is missed.

The checkpoint is written before the cookie: without a cookie beside it nothing starts, so a
replacement that was cut short is done again.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from zonekeeper.bookie import identity, records
from zonekeeper.bookie.files import FileSystem
from zonekeeper.bookie.segments import checkpoint as checkpoints
from zonekeeper.bookie.segments import storage
from zonekeeper.bookie.segments.checkpoint import Kept
from zonekeeper.bookie.tools import folders, identities
from zonekeeper.bookie.tools.folders import ToolError
from zonekeeper.metadata import cookie_store, cookies
from zonekeeper.metadata.cluster import Cluster
from zonekeeper.metadata.cookies import Cookie
from zonekeeper.placement.chance import Chance
from zonekeeper.placement.ids import NO_ENTRY, BookieId, LedgerId

#: What a replacement that was cut short leaves.
_CUT_SHORT: Final = frozenset(
    {checkpoints.NAME, f"{checkpoints.NAME}.new", f"{identity.VERSION_NAME}.new"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """What a new disk is to hold."""

    cookie: Cookie
    ledgers: tuple[LedgerId, ...]


def check_unused(data: Path) -> None:
    """Refuse a folder in which anything is, but for a replacement that was cut short."""
    identities.check_empty(data, besides=_CUT_SHORT)


async def look(cluster: Cluster, bookie: BookieId, data: Path) -> Replacement:
    """Find what is known of the bookie, and every ledger that names it."""
    stored = await cookie_store.read(cluster, bookie)
    if stored is None:
        raise ToolError(
            f"{cluster} does not know {bookie}, so nothing of it can be missing: prepare a new "
            "bookie with `zonekeeper bookie format`"
        )
    cookies.check_same_bookie(stored.cookie, identity.of_bookie(bookie, cluster, data))
    await identities.refuse_registered(cluster, bookie)
    return Replacement(cookie=stored.cookie, ledgers=await identities.naming(cluster, bookie))


def replace_disk(files: FileSystem, wanted: Replacement, chance: Chance) -> None:
    """Prepare the new disk; the cookie comes last. Blocks."""
    storage.create(files, chance)
    limbo = {
        ledger_id: Kept(
            records=(records.Limbo(ledger_id=ledger_id, in_limbo=True),), confirmed=NO_ENTRY
        )
        for ledger_id in wanted.ledgers
    }
    checkpoints.save(files, replace(checkpoints.load(files), ledgers=limbo))
    folders.write_cookie(files, wanted.cookie)
