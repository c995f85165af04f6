"""The identity of a bookie: its cookie in the data folder, and its cookie in the metadata store.

The store's cookie is the authority. Each change is a person's explicit command for a stopped
bookie. A command says what it will change before it does so.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from zonekeeper.bookie.disk.disks import ThreadDisk
from zonekeeper.bookie.life import identity
from zonekeeper.bookie.life.data_folder import HeldFolders
from zonekeeper.bookie.tools import folders
from zonekeeper.bookie.tools.folders import ToolError, ToolFailedError
from zonekeeper.metadata.bookies import bookie_records, cookie_store, registration
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats import cookies
from zonekeeper.metadata.formats.cookies import Cookie
from zonekeeper.metadata.ledgers import ledger_listing
from zonekeeper.metadata.ledgers.ledger_listing import UnreadableLedger
from zonekeeper.placement.base.chance import Chance
from zonekeeper.placement.base.ids import BookieId, LedgerId
from zonekeeper.placement.base.locations import Location

#: Names that an empty folder may hold: a file system's own, and that of the lock.
_NOT_DATA: Final = frozenset({"lost+found", identity.LOCK_NAME})
_NAMED_MAX: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """The two cookies of a bookie, and the advice that follows from them."""

    #: The cookie in the data folder.
    local: Cookie | None
    #: The cookie in the metadata store.
    stored: Cookie | None
    #: Can the bookie start?
    fits: bool
    advice: str


async def compare(cluster: Cluster, local: Cookie | None, bookie: BookieId) -> Compared:
    """Compare the cookie in the data folder with the one in the store."""
    found = await cookie_store.read(cluster, bookie)
    stored = None if found is None else found.cookie
    fits, advice = _advice(cluster, local, stored)
    return Compared(local=local, stored=stored, fits=fits, advice=advice)


async def restore_cookie(cluster: Cluster, local: Cookie) -> None:
    """Write the cookie of the data folder into a store that lost it."""
    if local.instance != cluster.instance:
        raise ToolError(
            f"the data belongs to cluster {local.instance}, and this is {cluster}: check "
            "--metadata; a root that is rebuilt keeps the old instance"
        )
    await cookie_store.create(cluster, local)


async def check_movable(cluster: Cluster, bookie: BookieId) -> Cookie:
    """Give the stored cookie of a bookie that may be moved to another zone."""
    stored = await cookie_store.read(cluster, bookie)
    if stored is None:
        raise ToolError(
            f"{bookie} has no cookie in {cluster}: start the bookie, or see `zonekeeper bookie "
            "cookie create`"
        )
    await refuse_registered(cluster, bookie)
    return stored.cookie


async def move(cluster: Cluster, bookie: BookieId, location: Location) -> Cookie:
    """Give a bookie another location in the store; its next start writes it to the folders."""
    await check_movable(cluster, bookie)
    return await cookie_store.move(cluster, bookie, location)


async def check_removable(cluster: Cluster, bookie: BookieId) -> None:
    """Refuse to forget a bookie that runs, or that a ledger names."""
    await refuse_registered(cluster, bookie)
    if found := await naming(cluster, bookie):
        named = ", ".join(map(str, found[:_NAMED_MAX]))
        raise ToolError(
            f"{len(found)} ledgers name {bookie} ({named}{', ...' * (len(found) > _NAMED_MAX)}): "
            "let them be repaired first"
        )


async def refuse_registered(cluster: Cluster, bookie: BookieId) -> None:
    """Refuse a bookie that is registered."""
    if await registration.read_service_info(cluster, bookie) is not None:
        raise ToolError(
            f"{bookie} is registered in {cluster}: it runs, or its session has not ended yet; stop "
            "it, and try again"
        )


async def naming(cluster: Cluster, bookie: BookieId) -> tuple[LedgerId, ...]:
    """Give all ledgers that name a bookie; raises ``ToolError`` for an unreadable ledger."""
    found: list[LedgerId] = []
    async for listed in ledger_listing.all_of(cluster):
        if isinstance(listed, UnreadableLedger):
            raise ToolFailedError(
                f"whether ledger {listed.id} names {bookie} is unknown: {listed.error}"
            )
        if bookie in listed.metadata.bookies:
            found.append(listed.id)
    return tuple(found)


async def remove(cluster: Cluster, bookie: BookieId) -> bool:
    """Forget a bookie that is gone for good; say whether it had a cookie."""
    await check_removable(cluster, bookie)
    stored = await cookie_store.read(cluster, bookie)
    if stored is not None:
        await cookie_store.delete(cluster, bookie, version=stored.version)
    await bookie_records.forget(cluster, bookie)
    return stored is not None


def check_empty(folder: Path, *, besides: frozenset[str] = frozenset()) -> None:
    """Refuse a folder that holds other files than ``besides``."""
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    used = sorted(names - _NOT_DATA - besides)
    if used:
        raise ToolError(
            f"{folder} is not empty (it holds {', '.join(used[:_NAMED_MAX])}): nothing is "
            "ever erased here; give a new bookie an empty folder"
        )


async def check_new(cluster: Cluster, mine: Cookie, location: Location | None) -> None:
    """Refuse to prepare a bookie whose id has a cookie already."""
    cookies.located(mine, location)
    stored = await cookie_store.read(cluster, mine.bookie)
    if stored is not None:
        raise ToolError(
            f"{mine.bookie} has a cookie in {cluster} already: it is not new. Mount its disk; or, "
            "if the disk is lost, see `zonekeeper bookie cookie show`"
        )


async def make_new(
    cluster: Cluster,
    mine: Cookie,
    location: Location | None,
    *,
    held: HeldFolders,
    chance: Chance,
) -> Cookie:
    """Prepare a new bookie in empty folders, as its first start does before it serves."""
    await check_new(cluster, mine, location)
    disk = ThreadDisk("format", threads=1)
    try:
        return await identity.settle_all(
            cluster, mine, location, held.folders, disk=disk, chance=chance
        )
    finally:
        await disk.close()


def local_cookie(data: Path) -> Cookie | None:
    """Read the cookie in the data folder of a stopped bookie; None: there is none."""
    with folders.held(data) as held:
        version = identity.read(held.data)
        return None if version is None else version.cookie


def _advice(cluster: Cluster, local: Cookie | None, stored: Cookie | None) -> tuple[bool, str]:
    if local is None and stored is None:
        return True, "there is no cookie at all: a new bookie; its first start makes both cookies"
    if stored is None:
        return False, (
            f"{cluster} does not know the bookie. If the store was lost: `zonekeeper bookie cookie "
            "create` writes the cookie back. If the bookie was removed: start a new one with an "
            "empty folder"
        )
    if local is None:
        return False, (
            "there is no cookie beside the data: the disk was wiped, replaced or is not mounted. "
            "Mount the right one. If it is lost for good: `zonekeeper bookie cookie replace-disk` "
            "gives the bookie an empty one; or `cookie delete` forgets it, once its ledgers are "
            "repaired"
        )
    try:
        cookies.check_same_bookie(stored, local)
    except cookies.OtherBookieError as error:
        return False, str(error)
    if local.location == stored.location:
        return True, "they are the same"
    return True, (
        f"they differ only in the location: the store says {stored.location}, and the store "
        "counts; the next start changes the folders' cookie"
    )


def plain(compared: Compared) -> dict[str, object]:
    """Give the comparison as plain data."""
    return {
        "local": None if compared.local is None else _cookie(compared.local),
        "stored": None if compared.stored is None else _cookie(compared.stored),
        "fits": compared.fits,
        "advice": compared.advice,
    }


def text(compared: Compared) -> str:
    """Give the comparison as lines for a person."""
    lines = []
    for where, cookie in (("beside data", compared.local), ("in store", compared.stored)):
        said = (
            "none" if cookie is None else ", ".join(f"{k} {v}" for k, v in _cookie(cookie).items())
        )
        lines.append(f"{where + ':':<13}{said}")
    return "\n".join([*lines, compared.advice])


def _cookie(cookie: Cookie) -> dict[str, object]:
    return {
        "bookie": cookie.bookie,
        "instance": cookie.instance,
        "location": None if cookie.location is None else str(cookie.location),
        "journal": ", ".join(cookie.journal_dirs),
        "directories": ", ".join(cookie.ledger_dirs),
    }
