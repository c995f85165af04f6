"""The ledger directories: the place of each sorted segment, and the directories that have failed.

A new segment goes into the directory with the most room. A directory has *failed* if it cannot be
written, or if segments are missing from it at the start. No new segment goes into a failed
directory. Its segments are tried again at every read, and their entries are unknown as long as that
fails. While a directory has failed, the bookie reports it, and takes no more entries. Only a start
makes a failed directory good again.

All calls except ``failed`` block; any thread may make them.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Final

from zonekeeper.bookie.disk.files import SHORTAGES, File, FileSystem, Space
from zonekeeper.bookie.formats import numbered_names
from zonekeeper.bookie.formats.arrival_scan import DamagedLogError
from zonekeeper.bookie.formats.checkpoint_format import SortedSegment

_PREFIX: Final = "sorted-"

_NAMED_MAX: Final = 5

_logger = logging.getLogger(__name__)


def name_of(number: int) -> str:
    """Give the name of a sorted segment's file."""
    return numbered_names.name_of(_PREFIX, number)


def number_of(name: str) -> int | None:
    """Give the number in a sorted segment's file name; None: it is no such name."""
    return numbered_names.number_of(_PREFIX, name)


class Directories:
    """The ledger directories, in their configured order."""

    def __init__(self, files: Sequence[FileSystem]) -> None:
        assert files, "sorted segments need a place"
        self._files = files
        #: The directory of each segment, by the segment's number.
        self._where: dict[int, int] = {}
        #: Why a directory failed, for each that has.
        self._failed: dict[int, str] = {}
        #: Files of segments that do not count: (number, directory).
        self._strays: list[tuple[int, int]] = []

    @property
    def failed(self) -> Mapping[int, str]:
        """The directories that have failed, and why."""
        return self._failed

    def look(self, segments: Sequence[SortedSegment], indexed: frozenset[int]) -> None:
        """Find the segments that count; a missing segment must be in the index.

        Raises ``DamagedLogError`` in two cases: a missing segment is not in the index, so it is
        unknown which entries are lost; or there is only one directory, which then cannot be the
        right one.
        """
        found = self._found()
        named = {(segment.number, segment.directory) for segment in segments}
        lost = [segment for segment in segments if (segment.number, segment.directory) not in found]
        lost_numbers = {segment.number for segment in lost}
        # A segment that counts may have left a piece in another directory, where its writing was
        # begun first: that piece is a stray. If the segment itself is missing, a file of its name
        # in another directory may be the segment, moved: it must be kept.
        elsewhere = {number: at for number, at in found - named if number in lost_numbers}
        self._strays = sorted(each for each in found - named if each[0] not in lost_numbers)
        self._where = dict(self._strays) | dict(named)
        names = [name_of(segment.number) for segment in lost]
        if lost and (len(self._files) == 1 or not indexed.issuperset(s.number for s in lost)):
            raise DamagedLogError(
                f"sorted segments are missing ({', '.join(names[:_NAMED_MAX])}, {len(lost)} in "
                "all): mount or restore the disk, or remove this bookie, start it anew, and let "
                "its ledgers be repaired"
            )
        for segment in lost:
            at = elsewhere.get(segment.number)
            why = (
                "is it mounted?"
                if at is None
                else f"a file of that name is in directory {at + 1} of {len(self._files)}, in the "
                "configured order: if it was moved there, stop the bookie and move it back"
            )
            self._failed.setdefault(
                segment.directory, f"{name_of(segment.number)} is missing; {why}"
            )

    def _found(self) -> set[tuple[int, int]]:
        """Give all files of segments: (number, directory)."""
        found: set[tuple[int, int]] = set()
        for directory, files in enumerate(self._files):
            try:
                names = files.names()
            except OSError as error:
                self.fail(directory, error)
                continue
            numbers = map(number_of, names)
            found |= {(number, directory) for number in numbers if number is not None}
        return found

    def remove_strays(self) -> None:
        """Remove the segments that were found and do not count: unfinished and compacted ones.

        Before that the checkpoint, which does not name them, must be durable, and the log must
        match it.
        """
        for number, directory in self._strays:
            if self._where.get(number) == directory:
                del self._where[number]
            self._remove(number, directory)
        self._strays.clear()

    def is_lost(self, number: int) -> bool:
        """Say whether a segment is in a directory that failed."""
        return self._where.get(number) in self._failed

    def open(self, number: int) -> File:
        """Open a segment to read; raises ``OSError``."""
        directory = self._where.get(number)
        if directory is None or directory >= len(self._files):
            raise FileNotFoundError(f"there is no sorted segment {number} in any ledger directory")
        try:
            return self._files[directory].open(name_of(number))
        except OSError as error:
            self.fail(directory, error)
            raise

    def roomiest(self) -> tuple[int, Space]:
        """Give the directory with the most room, and its room; raises ``OSError`` if all failed."""
        rooms = self._rooms()
        if not rooms:
            why = "; ".join(self._failed.values())
            raise OSError(f"no ledger directory can be written: {why}")
        return max(rooms, key=lambda room: (room[1].free_bytes, -room[0]))

    def space(self) -> Space:
        """Give the whole room for sorted segments; each device counts once.

        Its figures do not tell a device: two new disks are alike, and while a device is written
        its second directory shows less free bytes than the first.
        """
        rooms = {
            (room.device, 0 if room.device else directory): room
            for directory, room in self._rooms()
        }
        devices = [device for device, _ in rooms]
        return Space(
            total_bytes=sum(room.total_bytes for room in rooms.values()),
            free_bytes=sum(room.free_bytes for room in rooms.values()),
            device=devices[0] if len(devices) == 1 else 0,
        )

    def _rooms(self) -> list[tuple[int, Space]]:
        """Ask each directory that has not failed for its room."""
        rooms: list[tuple[int, Space]] = []
        for directory, files in enumerate(self._files):
            if directory in self._failed:
                continue
            try:
                rooms.append((directory, files.space()))
            except OSError as error:
                self.fail(directory, error)
        return rooms

    def create(self, directory: int, number: int) -> File:
        """Create a segment's file."""
        file = self._files[directory].create_direct(name_of(number))
        self._where[number] = directory
        return file

    def sync_names(self, directory: int) -> None:
        """Make a directory's names durable."""
        self._files[directory].sync_names()

    def remove(self, number: int) -> None:
        """Remove a segment's file; a file that cannot be removed is left for the next start."""
        self._remove(number, self._where.pop(number))

    def _remove(self, number: int, directory: int) -> None:
        try:
            self._files[directory].remove(name_of(number))
        except OSError as error:
            self.fail(directory, error)

    def fail(self, directory: int, error: OSError) -> None:
        """Mark a directory as failed, unless the error is only a shortage."""
        if error.errno not in SHORTAGES:
            if directory not in self._failed:
                _logger.error("ledger directory %d failed and is left: %s", directory, error)
            self._failed.setdefault(directory, f"{error.strerror or error}")
