"""Entries from a stream of bytes, and back, for ``zonekeeper ledger``.

As lines: an entry is a line without its newline. So text that ends in a newline goes in and comes
out the same. In pieces: entries have a fixed size, and come out as one stream. As JSON: each entry
is an object on a line. Its payload is in base64, because a payload may be any bytes.
"""

import asyncio
import base64
import io
import json
import threading
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import BinaryIO, Final, TextIO

from zonekeeper.client.base import errors
from zonekeeper.wire.formats.entries import PAYLOAD_BYTES_MAX, Entry

#: The most bytes of one read; a read gives less if less has come.
PORTION_BYTES: Final = 1 << 20
#: The shortest time between two progress lines.
_SHOWN_EVERY_S: Final = 0.5


class Lines:
    """Cuts the input into lines; the last line may lack its newline."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._kept_bytes = 0

    def more(self, portion: bytes) -> list[bytes]:
        """Give the lines that end in this portion."""
        *ended, rest = portion.split(b"\n")
        if ended:
            ended[0] = b"".join([*self._parts, ended[0]])
            self._parts, self._kept_bytes = [], 0
        self._parts.append(rest)
        self._kept_bytes += len(rest)
        if self._kept_bytes > PAYLOAD_BYTES_MAX:
            raise errors.TooLarge(
                f"a line of more than {PAYLOAD_BYTES_MAX} bytes: use --entry-bytes to cut anywhere"
            )
        return ended

    def end(self) -> list[bytes]:
        """Give what is left."""
        rest = b"".join(self._parts)
        return [rest] if rest else []


class Pieces:
    """Cuts the input into pieces of one size; the last piece may be smaller."""

    def __init__(self, size_bytes: int) -> None:
        self._size_bytes = size_bytes
        self._rest = bytearray()

    def more(self, portion: bytes) -> list[bytes]:
        """Give the full pieces."""
        self._rest += portion
        whole = len(self._rest) - len(self._rest) % self._size_bytes
        step = self._size_bytes
        found = [bytes(self._rest[at : at + step]) for at in range(0, whole, step)]
        del self._rest[:whole]
        return found

    def end(self) -> list[bytes]:
        """Give what is left."""
        return [bytes(self._rest)] if self._rest else []


async def entries_of(source: BinaryIO, cutter: Lines | Pieces) -> AsyncGenerator[list[bytes], None]:
    """Read the input to its end, and give entries as soon as they are whole."""
    while portion := await _portion(source):
        yield cutter.more(portion)
    yield cutter.end()


async def _portion(source: BinaryIO) -> bytes:
    """Read the bytes that have come; wait only if there are none.

    The reading thread is a daemon of its own. A thread of the loop's executor that waits for input
    would hold up the end of the process. The thread reads without a buffer, because the end of the
    process needs the lock of a buffer.
    """
    loop = asyncio.get_running_loop()
    came: asyncio.Future[bytes] = loop.create_future()

    def read() -> None:
        try:
            told = partial(_tell, came, _some(source))
        except Exception as error:  # noqa: BLE001 it is raised where the portion is awaited
            told = partial(_fail, came, error)
        with suppress(RuntimeError):  # the loop has ended: no task waits any more
            loop.call_soon_threadsafe(told)

    threading.Thread(target=read, name="input", daemon=True).start()
    return await came


def _tell(came: asyncio.Future[bytes], portion: bytes) -> None:
    if not came.done():
        came.set_result(portion)


def _fail(came: asyncio.Future[bytes], error: Exception) -> None:
    if not came.done():
        came.set_exception(error)


def _some(source: BinaryIO) -> bytes:
    raw = source.raw if isinstance(source, io.BufferedReader) else source
    portion = raw.read(PORTION_BYTES)
    if portion is None:
        raise BlockingIOError("the input is set not to wait for data; give it through a pipe")
    return portion


class Giver:
    """Writes entries, a batch at a time."""

    def __init__(self, out: BinaryIO, *, as_json: bool, raw: bool) -> None:
        self._out = out
        self._as_json = as_json
        self._end = b"" if raw else b"\n"

    async def give(self, batch: Iterable[Entry]) -> None:
        """Write a batch; a slow reader of the output holds up nothing else."""
        await asyncio.to_thread(self._write, b"".join(self._forms(batch)))

    def _write(self, data: bytes) -> None:
        self._out.write(data)
        self._out.flush()

    def _forms(self, batch: Iterable[Entry]) -> Iterator[bytes]:
        for entry in batch:
            if self._as_json:
                yield json.dumps(plain(entry), sort_keys=True).encode() + b"\n"
            else:
                yield bytes(entry.payload)
                yield self._end


def plain(entry: Entry) -> dict[str, object]:
    """Give an entry as plain data."""
    return {"entry": entry.entry_id, "payload": base64.b64encode(entry.payload).decode()}


class ProgressLine:
    """A progress line on a terminal; without a terminal nothing is written."""

    def __init__(self, out: TextIO, clock: Callable[[], float]) -> None:
        self._out = out
        self._clock = clock
        self._shown_s = clock()
        self._seen = out.isatty()
        self._shown = False

    def show(self, text: str) -> None:
        """Replace the line, unless it was written just now."""
        if self._seen and self._clock() - self._shown_s >= _SHOWN_EVERY_S:
            self._shown_s = self._clock()
            self._shown = True
            self._out.write(f"\r\x1b[K{text}")
            self._out.flush()

    def end(self) -> None:
        """Erase the line."""
        if self._shown:
            self._out.write("\r\x1b[K")
            self._out.flush()
