"""The devices of a storage: its file systems, its index, and the threads that work on them."""

from collections.abc import Sequence
from dataclasses import dataclass

from zonekeeper.bookie.disk.disks import Disk
from zonekeeper.bookie.disk.files import FileSystem
from zonekeeper.bookie.formats.index import Index


@dataclass(frozen=True, slots=True, kw_only=True)
class Devices:
    """File systems, index and disks of one storage; all file systems may be the same one."""

    #: The arrival segments.
    arrival_files: FileSystem
    #: The checkpoint.
    files: FileSystem
    index: Index
    #: Used by the log alone.
    writing: Disk
    #: Used by the rewrite, and for writing zeros; one piece of work after the other.
    background: Disk
    #: Used for reads.
    reads: Disk
    #: The ledger directories; their order never changes. Empty: ``files`` is the only one.
    sorted_files: Sequence[FileSystem] = ()
    #: Used for reads of the newest entries, which are still in memory. So a reader that follows a
    #: ledger does not wait behind reads of old entries from the disk. None: ``reads``.
    tails: Disk | None = None

    @property
    def disks(self) -> Sequence[Disk]:
        """All disks."""
        return [self.writing, self.background, self.reads, *([self.tails] if self.tails else [])]
