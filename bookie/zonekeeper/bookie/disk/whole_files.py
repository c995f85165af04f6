"""Files that are replaced as a whole: after a crash there is the old content or the new one.

The new content is written into a file ``<name>.new`` and synced, the file gets the name of the old
one, and the names are synced. So a rename never shows bytes that are not on the disk.
"""

from zonekeeper.bookie.disk.files import FileSystem


def new_name(name: str) -> str:
    """Give the name of the file that holds the new content until it is whole."""
    return f"{name}.new"


def replace(files: FileSystem, name: str, data: bytes) -> None:
    """Replace a file's content, or make the file; return when that is durable. Blocks."""
    replacement = Replacement(files, name)
    replacement.add(data)
    replacement.finish()


class Replacement:
    """The new content of a file, which comes in pieces. All calls block.

    No file is open between two calls. So it may be left at any moment; the next replacement of the
    same file begins anew.
    """

    def __init__(self, files: FileSystem, name: str) -> None:
        self._files = files
        self._name = name
        self._new = new_name(name)
        self._size = 0

    def add(self, data: bytes) -> None:
        """Add a piece, durably; the first one begins the new file."""
        if self._size:
            file = self._files.open(self._new)
        else:
            self.discard()
            file = self._files.create(self._new)
        try:
            file.write(self._size, [data])
            file.sync()
        finally:
            file.close()
        self._size += len(data)

    def finish(self) -> None:
        """Give the new file the name of the old one, durably."""
        self._files.rename(self._new, self._name)
        self._files.sync_names()

    def discard(self) -> None:
        """Remove the new file, if there is one; the old one counts."""
        if self._new in self._files.names():
            self._files.remove(self._new)
