"""The count of a bookie's starts on its own disks: it shows a disk that was set back.

::

    0        4     5       8        16
    | magic  | ver | zero  | starts | crc32c |
    | "ZKBN" | 1   | 0 0 0 |        |        |

Numbers are big-endian. The metadata store has the same count. A start raises the count on the disks
first, also before each further attempt if an answer of the store was lost. So, wherever a start is
cut short, ``disk count >= store count``, unless the disk is not the one of the last start: it is a
snapshot that was put back, or a copy. Such a disk lacks entries that were acknowledged since, and
the bookie would deny them.

The data folder and the journal each have a count. A ledger directory needs none: the checkpoint
names the sorted segments, so a missing one is found. In older versions the journal had no count. A
journal that has arrival segments and no count is from such a version: the data folder's count is
taken for it, and from then on it has its own.

The count does not show one case. A snapshot of all disks that was taken after the last start has
the count of that start. A bookie whose disks were set back to it denies later entries. If only the
journal was set back, the file ``log-end`` in the data folder shows it.
"""

import struct
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from zonekeeper.bookie.disk import whole_files
from zonekeeper.bookie.disk.disks import Disk
from zonekeeper.bookie.disk.files import FileSystem
from zonekeeper.bookie.segments import arrivals
from zonekeeper.metadata.bookies import bookie_records, cookie_store
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.store.store import Check
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.placement.base.troubles import Refusal
from zonekeeper.wire.formats import checksums
from zonekeeper.wire.formats.errors import Fault, FormatError

NAME: Final = "boots"
NEW_NAME: Final = whole_files.new_name(NAME)

VERSION: Final = 1
_MAGIC: Final = b"ZKBN"
_HEAD: Final = struct.Struct(">4sB3sQ")
_CRC: Final = struct.Struct(">I")
_SIZE: Final = _HEAD.size + _CRC.size


class UntrustedDiskError(Refusal):
    """The disk is or may be older than the bookie's last start; nothing was changed."""


async def next_boot(
    cluster: Cluster,
    bookie: BookieId,
    folders: Mapping[str | None, FileSystem],
    *,
    journal: FileSystem,
    disk: Disk,
) -> int:
    """Count a start on the disks and in the store; raises ``UntrustedDiskError``.

    A start is counted only while the bookie has its cookie; raises ``NoCookieError``. A removal
    deletes record and cookie together. A start that made the record anew would serve as a stranger,
    and the record would refuse the empty disk of the next bookie of that name.

    ``folders`` are all folders of the bookie by path, the data folder under None; ``journal`` is
    one of them. A number may be skipped, but is never given twice.
    """
    stored = (await bookie_records.read(cluster, bookie)).boot_epoch
    files = folders[None]
    counted = {None: files} | {path: each for path, each in folders.items() if each is journal}
    counts = await disk.run(partial(_load_all, counted))
    for folder, on_disk in counts.items():
        if on_disk < stored:
            missing = f"no start (there is no file {NAME!r})"
            said = f"starts up to number {on_disk}" if on_disk else missing
            raise UntrustedDiskError(
                f"{cluster} knows of start number {stored} of {bookie}, and its {_called(folder)} "
                f"of {said}: the disk was set back to an older state, or is a copy, and lacks what "
                "was acknowledged since; mount the right one, or empty the folder and use "
                f"{_replaced(folder)}"
            )

    async def has_cookie() -> Sequence[Check]:
        return (await cookie_store.check(cluster, bookie),)

    # The store's count may be far lower, if the store was restored from an old export.
    number = max(stored, *counts.values())
    while True:
        number += 1
        await disk.run(partial(save_all, files, journal, number))
        if await bookie_records.count_boot(cluster, bookie, number, alongside=has_cookie):
            return number
        number = max(number, (await bookie_records.read(cluster, bookie)).boot_epoch)


def _load_all(folders: Mapping[str | None, FileSystem]) -> dict[str | None, int]:
    """Read the count of the data folder, and of the journal if that is another folder."""
    counts: dict[str | None, int] = {}
    for folder, files in folders.items():
        count = load(files, folder)
        served = any(arrivals.number_of(name) is not None for name in files.names())
        if count is None and folder is not None and served:
            count = counts[None]  # an older version served from it, without a count here
        counts[folder] = count or 0
    return counts


def load(files: FileSystem, folder: str | None = None) -> int | None:
    """Read the count of starts; None: there is no count. Blocks.

    ``folder`` names the folder in the error about a damaged count; None: the data folder.
    """
    try:
        file = files.open(NAME)
    except FileNotFoundError:
        return None
    try:
        return parse(file.read(0, _SIZE + 1))
    except FormatError as fault:
        if fault.fault is Fault.VERSION:
            raise UntrustedDiskError(
                f"the file {NAME!r} in the {_called(folder)} was written by a newer zonekeeper "
                f"({fault}): start that version; nothing is lost"
            ) from fault
        raise UntrustedDiskError(
            f"the file {NAME!r} in the {_called(folder)} is damaged ({fault}), so that this disk "
            "may be an older state of itself: restore it, or empty the folder and use "
            f"{_replaced(folder)}"
        ) from fault
    finally:
        file.close()


def _called(folder: str | None) -> str:
    return "data folder" if folder is None else f"journal {folder}"


def _replaced(folder: str | None) -> str:
    option = "" if folder is None else f" --folder {folder}"
    return f"`zonekeeper bookie cookie replace-disk{option}`"


def save_all(files: FileSystem, journal: FileSystem, number: int) -> None:
    """Save a count in the data folder and in the journal, which may be the same. Blocks."""
    save(files, number)
    if journal is not files:
        save(journal, number)


def save(files: FileSystem, number: int) -> None:
    """Replace the count in a folder, as a whole or not at all. Blocks."""
    whole_files.replace(files, NAME, render(number))


def render(number: int) -> bytes:
    """Give the bytes of the file."""
    head = _HEAD.pack(_MAGIC, VERSION, bytes(3), number)
    return head + _CRC.pack(checksums.value(head))


def parse(data: bytes) -> int:
    """Give the count of a file; raises ``FormatError``."""
    what = "a count of starts"
    if len(data) != _SIZE:
        raise FormatError(what, Fault.LENGTH, f"{len(data)} bytes, not {_SIZE}")
    magic, version, zero, number = _HEAD.unpack_from(data)
    (crc,) = _CRC.unpack_from(data, _HEAD.size)
    if magic != _MAGIC:
        raise FormatError(what, Fault.MAGIC, magic.hex())
    if version != VERSION:
        raise FormatError(what, Fault.VERSION, f"{version}, this side reads {VERSION}")
    if (found := checksums.value(data[: _HEAD.size])) != crc:
        raise FormatError(what, Fault.CHECKSUM, f"{found:08x}, the end says {crc:08x}")
    if any(zero):
        raise FormatError(what, Fault.RESERVED, "bytes 5 to 7")
    return int(number)
