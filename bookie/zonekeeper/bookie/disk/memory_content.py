"""The content of a file in memory: its length, and its pages that are not all zeros.

A bookie fills files with zeros before it writes into them, and a small cluster in memory has dozens
of such files. So a page of zeros takes no memory. A page is never changed in place: a write puts
another one there. So a copy shares all pages with its original, and neither sees the other's later
changes.
"""

from collections.abc import Iterator
from typing import Final

PAGE_BYTES: Final = 4096

_ZEROS: Final = bytes(PAGE_BYTES)


class Content:
    """A file's bytes. Bytes before the end that were never written are zeros."""

    __slots__ = ("_pages", "_size")

    def __init__(self) -> None:
        """Make an empty content."""
        self._size = 0
        #: By number; a page that is missing is zeros, and so is what a page has behind the end.
        self._pages: dict[int, bytes] = {}

    def __len__(self) -> int:
        return self._size

    def copied(self) -> "Content":
        """Give another content with the same bytes."""
        copy = Content()
        copy._size, copy._pages = self._size, dict(self._pages)
        return copy

    def read(self, offset: int, size: int) -> bytes:
        """Give up to ``size`` bytes from ``offset`` on; less only at the end."""
        pages = self._pages
        return b"".join(
            pages.get(number, _ZEROS)[start:stop]
            for number, start, stop in _parts(offset, min(offset + size, self._size))
        )

    def write(self, offset: int, data: bytes) -> None:
        """Put bytes at an offset; between the old end and the offset there are zeros."""
        at = 0
        for number, start, stop in _parts(offset, offset + len(data)):
            piece = data[at : at + stop - start]
            at += len(piece)
            if len(piece) < PAGE_BYTES:
                page = self._pages.get(number, _ZEROS)
                piece = page[:start] + piece + page[stop:]
            self._put(number, piece)
        self._size = max(self._size, offset + len(data))

    def resize(self, size: int) -> None:
        """Set the length; what is new is zeros."""
        if size < self._size:
            last, kept = divmod(size, PAGE_BYTES)
            for number in [number for number in self._pages if number > last]:
                del self._pages[number]
            page = self._pages.get(last, _ZEROS)
            self._put(last, page[:kept] + _ZEROS[kept:])
        self._size = size

    def _put(self, number: int, page: bytes) -> None:
        if page == _ZEROS:
            self._pages.pop(number, None)
        else:
            self._pages[number] = page


def _parts(begin: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Cut a range at the pages' boundaries: the page's number, and the part that is inside it."""
    while begin < end:
        number, start = divmod(begin, PAGE_BYTES)
        stop = min(PAGE_BYTES, start + end - begin)
        yield number, start, stop
        begin += stop - start
