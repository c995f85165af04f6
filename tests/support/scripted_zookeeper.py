"""A server that speaks as much of ZooKeeper's protocol as a client needs to have a session.

What it answers to a request is the test's: an answer, an error of any code, or the end of the
connection. So a test says exactly what was received, and what was never answered. A real server
shows the same only by accident.
"""

import asyncio
import struct
from collections.abc import Callable
from typing import Final, TypeAlias

from kazoo.protocol.serialization import Close, Ping, Transaction

from tests.support import fronts

#: The connection ends without an answer.
CUT: Final = None

#: Given a request's type and body: the code of an error and the answer's body, or ``CUT``.
Script: TypeAlias = Callable[[int, bytes], tuple[int, bytes] | None]

_SIZE: Final = struct.Struct("!i")
_GREETED: Final = struct.Struct("!iiqi16s?")
_REQUEST: Final = struct.Struct("!ii")
_REPLY: Final = struct.Struct("!iqi")
_PART: Final = struct.Struct("!i?i")
_PING_XID: Final = -2
#: The type of an operation's result that is an error.
_FAILED: Final = -1

SESSION: Final = 0x77


def refused(*codes: int) -> tuple[int, bytes]:
    """Give the answer to a transaction whose operations have these errors."""
    parts = [_PART.pack(_FAILED, False, code) + _SIZE.pack(code) for code in codes]
    return 0, b"".join(parts) + _PART.pack(_FAILED, True, _FAILED)


class ScriptedZooKeeper:
    """One server. It grants every session that it is asked for."""

    def __init__(self, script: Script) -> None:
        self.script = script
        #: How many transactions were received.
        self.transactions = 0
        self.session_ms = 30_000
        #: Sessions are over, from the next greeting on, until one begins anew.
        self.expired = False
        self._server: asyncio.Server | None = None
        self._zxid = 1

    @property
    def port(self) -> int:
        """Where it listens."""
        assert self._server is not None
        listening: int = self._server.sockets[0].getsockname()[1]
        return listening

    async def open(self) -> None:
        """Begin to listen."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)

    async def close(self) -> None:
        """End."""
        assert self._server is not None
        await fronts.close(self._server)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._greet(await _frame(reader), writer)
            while True:
                answer = self._answer(await _frame(reader))
                if answer is CUT:
                    return
                writer.write(_SIZE.pack(len(answer)) + answer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.transport.abort()

    async def _greet(self, asked: bytes, writer: asyncio.StreamWriter) -> None:
        (session,) = struct.unpack_from("!q", asked, 16)
        granted_ms = self.session_ms
        if session and self.expired:
            granted_ms, self.expired = 0, False
        greeting = _GREETED.pack(0, granted_ms, session or SESSION, 16, b"p" * 16, False)
        writer.write(_SIZE.pack(len(greeting)) + greeting)

    def _answer(self, request: bytes) -> bytes | None:
        xid, kind = _REQUEST.unpack_from(request)
        if kind in (Ping.type, Close.type):
            return _REPLY.pack(_PING_XID if kind == Ping.type else xid, self._zxid, 0)
        self.transactions += kind == Transaction.type
        scripted = self.script(kind, request[_REQUEST.size :])
        if scripted is None:
            return CUT
        code, body = scripted
        self._zxid += 1
        return _REPLY.pack(xid, self._zxid, code) + body


async def _frame(reader: asyncio.StreamReader) -> bytes:
    (size,) = _SIZE.unpack(await reader.readexactly(_SIZE.size))
    return await reader.readexactly(size)
