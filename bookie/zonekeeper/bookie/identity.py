"""Is this disk the one that this bookie's name stands for? Settled before anything is served.

A bookie's cookie stands in the metadata store and, the same, in the file ``VERSION`` beside its
data. A new bookie makes ``VERSION``, then its storage, then the cookie in the store, so that a
start which was cut short goes on where it stopped. Whatever else is found means that a disk was
wiped, swapped, or belongs to a bookie that was removed. Serving then would be worse than staying
away: a bookie without its disk denies entries that it acknowledged.

What is found, and what is done::

    store   VERSION  storage           (an empty one was never served from)
    -       -        -                 a new bookie: make all three
    -       mine     - or empty        its first start was cut short: make the rest
    mine    mine     there             start; the location is settled by ``cookies.located``
    all else                           refuse, and say how to get out of it
"""

from pathlib import Path
from typing import Final

from zonekeeper.bookie.disks import Disk
from zonekeeper.bookie.files import FileSystem
from zonekeeper.bookie.segments import checkpoint, storage
from zonekeeper.metadata import cookie_store, cookies
from zonekeeper.metadata.cluster import Cluster
from zonekeeper.metadata.cookies import Cookie
from zonekeeper.placement.chance import Chance
from zonekeeper.placement.ids import BookieId
from zonekeeper.placement.locations import Location

VERSION_NAME: Final = "VERSION"
_NEW_NAME: Final = "VERSION.new"
#: May stand in the folder of a bookie that is not there yet.
LOCK_NAME: Final = "LOCK"

_COOKIE_BYTES_MAX: Final = 1 << 20


class WrongDiskError(Exception):
    """The disk is not the one that this bookie's name stands for; nothing was changed."""


def of_bookie(bookie_id: BookieId, cluster: Cluster, data: Path) -> Cookie:
    """Give the cookie of a bookie that keeps everything in one folder; its location comes later."""
    folder = (str(data),)
    return Cookie(
        bookie=bookie_id, journal_dirs=folder, ledger_dirs=folder, instance=cluster.instance
    )


async def settle(
    cluster: Cluster,
    mine: Cookie,
    location: Location | None,
    *,
    files: FileSystem,
    disk: Disk,
    chance: Chance,
) -> Cookie:
    """Check that the disk is this bookie's, or make it so if both are new; give the cookie.

    Raises ``WrongDiskError``, the errors of ``cookies``, and those of the store and the disk.
    """
    on_disk = await disk.run(lambda: _read(files))
    stored = await cookie_store.read(cluster, mine.bookie)
    for cookie in (on_disk, None if stored is None else stored.cookie):
        if cookie is not None:
            cookies.check_same_bookie(cookie, mine)
    names = set(await disk.run(files.names)) - {LOCK_NAME, _NEW_NAME}
    if stored is None:
        if on_disk is None and names:
            raise WrongDiskError(
                f"{cluster} does not know {mine.bookie}, and its data folder "
                f"{mine.ledger_dirs[0]} is not empty ({', '.join(sorted(names)[:5])}): "
                "give a new bookie an empty folder"
            )
        if on_disk is not None and await disk.run(lambda: storage.was_served(files)):
            raise WrongDiskError(
                f"the cookie of {mine.bookie} is gone from {cluster}, and its data folder "
                f"{mine.ledger_dirs[0]} holds its data: the bookie was removed; start a new one "
                "with an empty folder"
            )
        await _make(cluster, cookies.located(mine, location), files, disk, chance)
    elif on_disk is None or checkpoint.NAME not in names:
        lost = VERSION_NAME if on_disk is None else checkpoint.NAME
        raise WrongDiskError(
            f"{cluster} knows {mine.bookie}, and its data folder {mine.ledger_dirs[0]} has no file "
            f"{lost}: the disk was wiped, or is not mounted; mount the right one, or remove the "
            "bookie, let its ledgers be repaired, and start a new one"
        )
    cookie = await cookie_store.settle_location(cluster, mine.bookie, location)
    if cookie != on_disk:
        await disk.run(lambda: _write(files, cookie))
    return cookie


async def _make(
    cluster: Cluster, cookie: Cookie, files: FileSystem, disk: Disk, chance: Chance
) -> None:
    def make() -> None:
        _write(files, cookie)
        if checkpoint.NAME not in files.names():
            storage.create(files, chance)

    await disk.run(make)
    await cookie_store.create(cluster, cookie)


def _read(files: FileSystem) -> Cookie | None:
    try:
        file = files.open(VERSION_NAME)
    except FileNotFoundError:
        return None
    try:
        return cookies.parse(file.read(0, _COOKIE_BYTES_MAX))
    finally:
        file.close()


def _write(files: FileSystem, cookie: Cookie) -> None:
    """Replace the file ``VERSION``, whole or not at all."""
    if _NEW_NAME in files.names():
        files.remove(_NEW_NAME)
    file = files.create(_NEW_NAME)
    try:
        file.write(0, [cookies.render(cookie)])
        file.sync()
    finally:
        file.close()
    files.rename(_NEW_NAME, VERSION_NAME)
    files.sync_names()
