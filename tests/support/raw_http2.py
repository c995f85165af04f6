"""A peer that speaks HTTP/2 by hand, and so may break off, lie, and flood where gRPC would not.

It knows what the tests need: it greets, answers what must be answered, keeps to the windows that
the server gives (or sends nothing), and remembers what came.
"""

import asyncio
import contextlib
import ssl
import struct
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Final

from zonekeeper.metadata.store.background import alongside
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.wire.grpc import grpc_edge

_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_HEAD: Final = struct.Struct(">3sBBI")

DATA, HEADERS, RST_STREAM, SETTINGS, PING, WINDOW_UPDATE = 0, 1, 3, 4, 6, 8
_END_STREAM, _ACK, _END_HEADERS = 1, 1, 4
_INITIAL_WINDOW: Final = 4
_FIRST_WINDOW: Final = 65_535
_FRAME_BYTES_MAX: Final = 16_384
#: Headers are spelled out: no table, no Huffman code, lengths in one byte.
_LITERAL: Final = b"\x00"
_SHORT: Final = 127


class RawPeer:
    """One connection; streams are numbered as they are opened."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, bookie_id: BookieId
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._bookie_id = bookie_id
        self._next = 1
        self._first_window = _FIRST_WINDOW
        #: Stream 0 is the connection. What was given in addition, less what was sent.
        self._windows: Counter[int] = Counter({0: _FIRST_WINDOW})
        self._changed = asyncio.Event()
        #: By stream: what came as data, and as headers.
        self.data: defaultdict[int, bytes] = defaultdict(bytes)
        self.headers: defaultdict[int, bytes] = defaultdict(bytes)
        self.ended: set[int] = set()
        self.closed = False

    def send(self, kind: int, flags: int, stream: int, payload: bytes = b"") -> None:
        """Send a frame of HTTP/2, whatever it says."""
        size = len(payload).to_bytes(3, "big")
        self._writer.write(_HEAD.pack(size, kind, flags, stream) + payload)

    async def drain(self) -> None:
        """Let what was sent leave."""
        with contextlib.suppress(ConnectionError):
            await self._writer.drain()

    def open(self, method: str, more: Iterable[tuple[str, str]] = ()) -> int:
        """Begin a call of the bookie's service; give its stream."""
        stream, self._next = self._next, self._next + 2
        usual = {
            ":method": "POST",
            ":scheme": "http",
            ":path": grpc_edge.method_path(method),
            ":authority": "x",
            "te": "trailers",
            "content-type": "application/grpc",
        }
        lines = [*usual.items(), *grpc_edge.meant_for(self._bookie_id), *more]
        block = b"".join(_LITERAL + _text(name) + _text(value) for name, value in lines)
        self.send(HEADERS, _END_HEADERS, stream, block)
        return stream

    def take(self, stream: int, size_bytes: int) -> None:
        """Take so much more of a stream."""
        self.send(WINDOW_UPDATE, 0, stream, size_bytes.to_bytes(4, "big"))

    async def send_data(self, stream: int, data: bytes) -> None:
        """Send as the windows allow; returns when all is sent, or the stream has ended."""
        rest = memoryview(data)
        while rest and not (self.closed or stream in self.ended):
            room = min(self._first_window + self._windows[stream], self._windows[0])
            size = min(room, len(rest), _FRAME_BYTES_MAX)
            if size <= 0:
                await self._change()
                continue
            self._windows[stream] -= size
            self._windows[0] -= size
            self.send(DATA, 0, stream, bytes(rest[:size]))
            rest = rest[size:]
            with contextlib.suppress(ConnectionError):
                await self._writer.drain()

    async def send_message(self, stream: int, message: bytes, *, compressed: bool = False) -> None:
        """Send a whole message of gRPC."""
        await self.send_data(stream, struct.pack(">?I", compressed, len(message)) + message)

    async def until_ended(self, stream: int) -> bytes:
        """Wait for the end of a stream; give its last headers, in which texts stand as they are."""
        while not (self.closed or stream in self.ended):
            await self._change()
        return self.headers[stream]

    async def until_data(self, stream: int) -> bytes:
        """Wait for the first data of a stream, or its end."""
        while not (self.closed or stream in self.ended or self.data[stream]):
            await self._change()
        return self.data[stream]

    async def until_closed(self) -> None:
        """Wait until the server has closed the connection."""
        while not self.closed:
            await self._change()

    async def listen(self) -> None:
        """Take what comes; runs until the connection is closed."""
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = await self._reader.readexactly(_HEAD.size)
                raw_size, kind, flags, stream = _HEAD.unpack(head)
                payload = await self._reader.readexactly(int.from_bytes(raw_size, "big"))
                self._heard(kind, flags, stream, payload)
                self._tell()
        self.closed = True
        self._tell()

    def _heard(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind == SETTINGS and not flags & _ACK:
            for name, value in struct.iter_unpack(">HI", payload):
                if name == _INITIAL_WINDOW:
                    self._first_window = value
            self.send(SETTINGS, _ACK, 0)
        elif kind == PING and not flags & _ACK:
            self.send(PING, _ACK, 0, payload)
        elif kind == WINDOW_UPDATE:
            self._windows[stream] += int.from_bytes(payload, "big")
        elif kind == DATA:
            self.data[stream] += payload
        elif kind == HEADERS:
            self.headers[stream] = payload
        if kind == RST_STREAM or (kind in (DATA, HEADERS) and flags & _END_STREAM):
            self.ended.add(stream)

    def _tell(self) -> None:
        self._changed.set()

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()


@asynccontextmanager
async def raw_peer(
    port: int,
    bookie_id: BookieId,
    *,
    takes_bytes: int = 1 << 20,
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[RawPeer]:
    """Connect and greet; ``takes_bytes``: how much of each stream this peer takes at all."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls)
    peer = RawPeer(reader, writer, bookie_id)
    writer.write(_PREFACE)
    peer.send(SETTINGS, 0, 0, struct.pack(">HI", _INITIAL_WINDOW, takes_bytes))
    try:
        async with alongside(peer.listen()):
            yield peer
    finally:
        writer.transport.abort()


def _text(text: str) -> bytes:
    data = text.encode()
    assert len(data) < _SHORT, "longer ones are spelled otherwise"
    return bytes([len(data)]) + data
