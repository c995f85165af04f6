"""The ledger directories: where sorted segments are, and which directories cannot be used.

A new segment goes where there is most room. A directory that cannot be written, or from which
segments are missing at the start, has *failed*: nothing new goes there, what is in it is tried
again at every read, and stays unknown as long as that fails. Whoever serves says so, and takes no
more entries. Only a start makes a failed directory good again.

All calls but ``failed`` block, in any thread.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from zonekeeper.bookie.disk.files import SHORTAGES, File, FileSystem, Space
from zonekeeper.bookie.formats import numbered_names
from zonekeeper.bookie.formats.arrival_scan import DamagedLogError
from zonekeeper.bookie.segments.checkpoint import SortedSegment

_PREFIX: Final = "sorted-"

_NAMED_MAX: Final = 5


def name_of(number: int) -> str:
    """Give the name of a sorted segment's file."""
    return numbered_names.name_of(_PREFIX, number)


def number_of(name: str) -> int | None:
    """Give the number of the sorted segment that is called so; None: none is."""
    return numbered_names.number_of(_PREFIX, name)


class Directories:
    """Some directories, in their configured order."""

    def __init__(self, files: Sequence[FileSystem]) -> None:
        assert files, "sorted segments need a place"
        self._files = files
        self._where: dict[int, int] = {}
        self._failed: dict[int, str] = {}
        #: Files of segments that do not count, by their numbers, and in which directory.
        self._strays: list[tuple[int, int]] = []

    @property
    def failed(self) -> Mapping[int, str]:
        """Those that failed, and why."""
        return self._failed

    def look(self, segments: Sequence[SortedSegment], indexed: frozenset[int]) -> None:
        """Find the segments that count; those that are missing must be in the index.

        Raises ``DamagedLogError`` if it is not even known which entries are gone, or if there is
        but one directory, which then is not the one that it was.
        """
        found = self._found()
        named = {(segment.number, segment.directory) for segment in segments}
        lost = [segment for segment in segments if (segment.number, segment.directory) not in found]
        lost_numbers = {segment.number for segment in lost}
        # A segment that counts may have left a piece in another directory, where it was begun. One
        # that is not in its place may have been moved: then what is elsewhere is all there is.
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
        """Give all files of segments: their numbers, and in which directory."""
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
        """Remove the segments that were found and do not count: unfinished ones, compacted ones.

        The checkpoint that does not name them must be on the disk, and the log must fit to it.
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
        """Give the directory with most room, and that; raises ``OSError`` if all have failed."""
        rooms = self._rooms()
        if not rooms:
            why = "; ".join(self._failed.values())
            raise OSError(f"no ledger directory can be written: {why}")
        return max(rooms, key=lambda room: (room[1].free_bytes, -room[0]))

    def space(self) -> Space:
        """Give the room for sorted segments in all.

        Directories that are alike in both figures count once: they are on one device.
        """
        rooms = {(room.total_bytes, room.free_bytes) for _, room in self._rooms()}
        return Space(
            total_bytes=sum(total for total, _ in rooms), free_bytes=sum(free for _, free in rooms)
        )

    def _rooms(self) -> list[tuple[int, Space]]:
        """Ask each directory that is used."""
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
        """Remove a segment's file; one that cannot be removed is left for the next start."""
        self._remove(number, self._where.pop(number))

    def _remove(self, number: int, directory: int) -> None:
        try:
            self._files[directory].remove(name_of(number))
        except OSError as error:
            self.fail(directory, error)

    def fail(self, directory: int, error: OSError) -> None:
        """Use a directory no more for what is new, unless the error says nothing about it."""
        if error.errno not in SHORTAGES:
            self._failed.setdefault(directory, f"{error.strerror or error}")
