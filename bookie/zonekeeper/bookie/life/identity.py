"""The identity of a bookie: before it serves, it checks that its disks are its own.

The cookie of a bookie is in the metadata store, and also in the file ``VERSION`` of each of its
folders: the data folder, the journal, and the ledger directories. In all folders except the data
folder a comment after the cookie names the folder. A new bookie makes ``VERSION``, then its
storage, then the cookie in the store. So a start that was cut short is continued by the next one.
Every other state means that a disk was wiped or swapped, or belongs to a bookie that was removed.
The bookie must not serve then: without its disk it would deny entries that it acknowledged.

The states, and the action for each::

    store   VERSION  storage           (an empty one was never served from)
    -       -        -                 a new bookie: make all three
    -       mine     - or empty        its first start was cut short: make the rest
    mine    mine     there             start; the location is settled by ``cookies.located``
    all else                           refuse, and say what to do

A bookie that gets its location now must stand in a zone that some policy can name. One that has a
location starts in any case: it may hold data.

All folders get their ``VERSION`` before the storage is made. So if there is a storage, a folder
without ``VERSION`` is a disk that is not mounted or was wiped, whatever the store says.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from zonekeeper.bookie.disk import whole_files
from zonekeeper.bookie.disk.disks import Disk
from zonekeeper.bookie.disk.files import FileSystem
from zonekeeper.bookie.life import boots
from zonekeeper.bookie.segments import checkpoint
from zonekeeper.bookie.storage import storage
from zonekeeper.metadata.bookies import bookie_records, cookie_store
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats import cookies
from zonekeeper.metadata.formats.cookies import Cookie
from zonekeeper.metadata.formats.malformed import UnreadableError, stored_at
from zonekeeper.placement.base.chance import Chance
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.base.troubles import Refusal
from zonekeeper.placement.policy import unnamed
from zonekeeper.wire.running import seam

VERSION_NAME: Final = "VERSION"
NEW_NAME: Final = whole_files.new_name(VERSION_NAME)
#: This file may be in the folder of a new bookie.
LOCK_NAME: Final = "LOCK"

_COOKIE_BYTES_MAX: Final = 1 << 20
_FOLDER: Final = re.compile(r'^# folder: "([^"\n]*)"$', re.MULTILINE)
_NAMED_MAX: Final = 5


class WrongDiskError(Refusal):
    """The disk is not this bookie's; nothing was changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """The content of a file ``VERSION``."""

    cookie: Cookie
    #: The path of its folder; None: the data folder.
    folder: str | None = None


def of_bookie(
    bookie_id: BookieId,
    cluster: Cluster,
    data: Path,
    *,
    journal: Path | None = None,
    ledgers: Sequence[Path] = (),
) -> Cookie:
    """Give the cookie of a bookie with these folders; its location is added later.

    Without a journal or ledger directories, the data folder is used.
    """
    alone = journal in (None, data) and tuple(ledgers) in ((), (data,))
    return Cookie(
        bookie=bookie_id,
        journal_dirs=(str(journal or data),),
        ledger_dirs=tuple(map(str, ledgers or (data,))),
        index_dirs=() if alone else (str(data),),
        instance=cluster.instance,
    )


def other_folders(cookie: Cookie) -> tuple[str, ...]:
    """Give the folders of a bookie except its data folder, sorted."""
    data = cookie.index_dirs or cookie.journal_dirs
    return tuple(sorted({*cookie.journal_dirs, *cookie.ledger_dirs} - set(data)))


async def settle_all(
    cluster: Cluster,
    mine: Cookie,
    location: Location | None,
    files: Mapping[str | None, FileSystem],
    *,
    disk: Disk,
    chance: Chance,
) -> Cookie:
    """Check that the disks are this bookie's, or set up a new bookie; give the cookie.

    ``files`` are the folders of ``other_folders``, and the data folder under None. Raises
    ``WrongDiskError``, ``NeverNamedError``, the errors of ``cookies``, and those of the store and
    the disk.
    """
    folders = _Folders(mine, files)
    versions = await disk.run(folders.read)
    stored = await cookie_store.read(cluster, mine.bookie)
    if location is not None and (stored is None or stored.cookie.location is None):
        unnamed.refuse_never_named(location.zone, f"the zone of {mine.bookie}")
    if stored is not None:
        cookies.check_same_bookie(stored.cookie, mine)
    for folder, version in versions.items():
        if version is not None:
            check(version, folder, mine)
    if stored is None:
        # An earlier bookie with this id may have left a count of starts.
        started = (await bookie_records.read(cluster, mine.bookie)).boot_epoch
        await disk.run(partial(folders.check_new, cluster, versions, started))
        located = cookies.located(mine, location)
        await disk.run(partial(folders.make, located, started, chance))
        await cookie_store.create(cluster, located)
    else:
        await disk.run(partial(folders.check_known, cluster, versions))
    cookie = await cookie_store.settle_location(cluster, mine.bookie, location)
    if any(version is None or version.cookie != cookie for version in versions.values()):
        await disk.run(partial(folders.write, cookie))
    return cookie


class _Folders:
    """The folders of a bookie, by their names in ``VERSION``; all calls block."""

    def __init__(self, mine: Cookie, files: Mapping[str | None, FileSystem]) -> None:
        assert set(files) == {None, *other_folders(mine)}, "each folder has its files"
        self.data = files[None]
        self._mine = mine
        self._files = files
        #: None: the journal is in the data folder.
        self._journal_folder = next((each for each in mine.journal_dirs if each in files), None)
        self._journal = files[self._journal_folder]

    def read(self) -> dict[str | None, Version | None]:
        """Read all files ``VERSION``."""
        return {folder: read(files) for folder, files in self._files.items()}

    def write(self, cookie: Cookie) -> None:
        """Replace all files ``VERSION``, each as a whole or not at all."""
        for folder, files in self._files.items():
            write(files, Version(cookie=cookie, folder=folder))

    def make(self, cookie: Cookie, started: int, chance: Chance) -> None:
        """Set up a new bookie; an id that was used before continues its count of starts."""
        self.write(cookie)
        if started:
            boots.save_all(self.data, self._journal, started)
        if checkpoint.NAME not in self.data.names():
            storage.create(self.data, chance)

    def check_new(
        self, cluster: Cluster, versions: Mapping[str | None, Version | None], started: int
    ) -> None:
        """Refuse disks that are not those of a bookie that has never served."""
        bookie = self._mine.bookie
        for folder, files in self._files.items():
            names = set(files.names()) - {LOCK_NAME, NEW_NAME}
            if versions[folder] is None and names:
                raise WrongDiskError(
                    f"{cluster} does not know {bookie}, and its {self._called(folder)} is not "
                    f"empty ({', '.join(sorted(names)[:_NAMED_MAX])}): give a new bookie an empty "
                    "folder"
                )
        counts = (boots.load(self.data), boots.load(self._journal, self._journal_folder))
        was_started = any((count or 0) > started for count in counts)
        if was_started or storage.was_served(self.data, self._files.values()):
            raise WrongDiskError(
                f"the cookie of {bookie} is gone from {cluster}, and its {self._called(None)} is "
                "that of a bookie that has served: the bookie was removed; start a new one with an "
                "empty folder, or, if the store lost the cookie, see `zonekeeper bookie cookie "
                "create`"
            )
        if checkpoint.NAME in self.data.names() and None in versions.values():
            lost = next(folder for folder, version in versions.items() if version is None)
            raise WrongDiskError(
                f"{cluster} does not know {bookie}, its {self._called(None)} is prepared, and its "
                f"{self._called(lost)} has no file {VERSION_NAME}: the disk was wiped, or is not "
                "mounted; mount the right one, or give a new bookie empty folders"
            )

    def check_known(self, cluster: Cluster, versions: Mapping[str | None, Version | None]) -> None:
        """Refuse the disks if one of them is not the disk that the bookie served from."""
        lost = {folder: VERSION_NAME for folder, version in versions.items() if version is None}
        if None not in lost and checkpoint.NAME not in self.data.names():
            lost[None] = checkpoint.NAME
        for folder, name in lost.items():
            option = "" if folder is None else f" --folder {folder}"
            raise WrongDiskError(
                f"{cluster} knows {self._mine.bookie}, and its {self._called(folder)} has no file "
                f"{name}: {seam.LOST_DISK}, `zonekeeper bookie cookie replace-disk{option}` gives "
                "the bookie "
                "an empty one; or remove the bookie, let its ledgers be repaired, and start a new "
                "one"
            )

    def _called(self, folder: str | None) -> str:
        if folder is not None:
            return f"folder {folder}"
        return f"data folder {(self._mine.index_dirs or self._mine.journal_dirs)[0]}"


def is_of(version: Version, mine: Cookie) -> bool:
    """Is this folder that of a bookie with this id, of this cluster?"""
    theirs = version.cookie
    return (theirs.bookie, theirs.instance) == (mine.bookie, mine.instance)


def check(version: Version, folder: str | None, mine: Cookie) -> None:
    """Refuse a ``VERSION`` that belongs to another folder (None: the data folder)."""
    cookies.check_same_bookie(version.cookie, mine)
    if version.folder != folder:
        raise WrongDiskError(
            f"the disk of {mine.bookie} at {folder or 'the data folder'} is, as its file "
            f"{VERSION_NAME} says, that of {version.folder or 'the data folder'}: disks were "
            "swapped; mount them as they were"
        )


def read(files: FileSystem) -> Version | None:
    """Read a folder's ``VERSION``; None: there is none. Raises ``WrongDiskError``. Blocks."""
    try:
        file = files.open(VERSION_NAME)
    except FileNotFoundError:
        return None
    try:
        data = file.read(0, _COOKIE_BYTES_MAX)
    finally:
        file.close()
    try:
        with stored_at(f"the file {VERSION_NAME}", "the bookie's disk"):
            cookie = cookies.parse(data)
    except UnreadableError as error:
        raise WrongDiskError(
            f"{error}: either the file is damaged, or a newer zonekeeper wrote it; start that "
            "version, or restore the file, or empty the folder and use `zonekeeper bookie cookie "
            "replace-disk`"
        ) from error
    named = _FOLDER.search(data.decode())
    return Version(cookie=cookie, folder=named and named[1])


def write(files: FileSystem, version: Version) -> None:
    """Replace a folder's ``VERSION``, as a whole or not at all. Blocks."""
    comment = "" if version.folder is None else f'# folder: "{version.folder}"\n'
    whole_files.replace(files, VERSION_NAME, cookies.render(version.cookie) + comment.encode())
