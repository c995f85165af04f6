"""The serving side of TLS on a connection that was taken in plain, over ``asyncio``'s streams.

``asyncio`` shakes hands before a server hears of a connection. Then a server cannot count half a
handshake among its connections, nor say in plain text that its port speaks TLS. Here the server has
the connection first. It reads the first byte, and shakes hands within its own limit of time.

What is read in plain and not decrypted yet is bounded by the stream's limit and by TLS's own limits
of a record and of a handshake. The caller bounds the time.
"""

import asyncio
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeVar

_T = TypeVar("_T")

#: The first byte of a handshake: the kind of its record.
HANDSHAKE: Final = b"\x16"
_PART_BYTES: Final = 4 << 10


class TlsStream:
    """One connection; ``first`` are the bytes that were read of it before."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        context: ssl.SSLContext,
        first: bytes,
    ) -> None:
        self._reader, self._writer = reader, writer
        self._received, self._to_send = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._received, self._to_send, server_side=True)
        self._received.write(first)

    @property
    def certificate(self) -> bytes | None:
        """The peer's certificate in DER, which was checked; None: the peer showed none."""
        return self._tls.getpeercert(binary_form=True)

    async def shake_hands(self) -> None:
        """Raises ``ssl.SSLError``: the peer was told why."""
        await self._done(self._tls.do_handshake)

    async def read(self) -> bytes:
        """Give the next bytes; none: the peer has ended. Raises ``ssl.SSLError``."""
        try:
            return await self._done(lambda: self._tls.read(_PART_BYTES))
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
            return b""

    async def write_last(self, data: bytes) -> None:
        """Write what is the last of this side, and say so to the peer."""
        self._tls.write(data)
        with suppress(ssl.SSLError):  # the peer need not say the same, and may have said more
            self._tls.unwrap()
        await self._send()

    async def _done(self, step: Callable[[], _T]) -> _T:
        while True:
            try:
                return step()
            except ssl.SSLWantReadError:
                pass
            finally:
                await self._send()  # an alert, too
            if data := await self._reader.read(_PART_BYTES):
                self._received.write(data)
            else:
                self._received.write_eof()

    async def _send(self) -> None:
        if data := self._to_send.read():
            self._writer.write(data)
            await self._writer.drain()
