"""What a storage is made of: its file systems, its index, and the threads that work on them."""

from collections.abc import Sequence
from dataclasses import dataclass

from zonekeeper.bookie.disk.disks import Disk
from zonekeeper.bookie.disk.files import FileSystem
from zonekeeper.bookie.formats.index import Index


@dataclass(frozen=True, slots=True, kw_only=True)
class Devices:
    """Where everything is; the file systems may be one and the same."""

    arrival_files: FileSystem
    #: The checkpoint.
    files: FileSystem
    index: Index
    #: The writer's own.
    writing: Disk
    #: For the rewrite, and for writing zeros; one piece of work after the other.
    background: Disk
    reads: Disk
    #: The ledger directories, in an order that stays; none: they are where the checkpoint is.
    sorted_files: Sequence[FileSystem] = ()
    #: For reads of what arrived last, which is in memory still: who follows a ledger does not wait
    #: behind those who read old ones from the disk. None: the same as the others.
    tails: Disk | None = None
