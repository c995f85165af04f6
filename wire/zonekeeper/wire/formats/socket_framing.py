"""The framing of the socket lane: messages with their length before them, cut out of a stream.

::

    0        4
    | length | body ...      |   big-endian; 1 <= length <= the reader's limit

The same framing has Apache BookKeeper's own protocol, so one port can serve both. The first eight
bytes of a connection say which dialect it speaks (``dialect``). They also tell a peer of another
protocol, which came to this port by mistake: the first bytes of TLS or HTTP are no legal length.

``Incoming`` gives the buffer that the next bytes are received into, and the messages that are then
complete. A message larger than ``READ_BYTES`` is received straight into a buffer of its own, which
becomes the message. That buffer grows with the bytes that have come, and never by a length that was
only announced: ``len(buffer) <= max(GROW_BYTES, 2 * bytes that came)``.
"""

import enum
import struct
from typing import Final

from zonekeeper.wire.formats import carriers
from zonekeeper.wire.formats.errors import Fault, FormatError

LENGTH_BYTES: Final = 4
#: No message is larger, after the greeting: a carrier, or an answer with as many bytes in it.
MESSAGE_BYTES_MAX: Final = carriers.CARRIER_BYTES_MAX + (64 << 10)
#: One read of the socket may bring as much, of any number of messages.
READ_BYTES: Final = 64 << 10
#: The first size of the buffer of a larger message.
GROW_BYTES: Final = 64 << 10
#: So many bytes say which dialect a connection speaks.
FIRST_BYTES: Final = 8

_LENGTH: Final = struct.Struct(">I")
_WHAT: Final = "message"


def head(body: bytes) -> bytes:
    """Give the length of a message, as it stands before it."""
    assert 1 <= len(body) <= MESSAGE_BYTES_MAX
    return _LENGTH.pack(len(body))


def headed(body: bytes) -> bytes:
    """Give a message with its length before it."""
    return head(body) + body


class Dialect(enum.Enum):
    """What a connection speaks, by its first bytes."""

    #: A greeting in the form of Apache's second protocol. Its plugin says whether it is ours.
    GREETING = "a greeting"
    APACHE_2 = "version 2 of Apache BookKeeper's protocol"
    APACHE_3 = "version 3 of Apache BookKeeper's protocol"
    TLS = "TLS"
    HTTP_2 = "HTTP/2, as gRPC does"
    HTTP_1 = "HTTP"
    UNKNOWN = "no protocol that is known here"


#: The first byte of a body of Apache's third protocol: a protobuf field 1 that has a length.
_APACHE_3_FIRST: Final = 0x0A
_APACHE_2_VERSIONS: Final = (1, 2)
#: In Apache's second protocol: version 2, operation AUTH.
_AUTH: Final = b"\x02\x03"
_HTTP_1: Final = (b"GET ", b"HEAD", b"POST", b"PUT ", b"OPTI", b"DELE", b"CONN")


def dialect(first: bytes) -> Dialect:
    """Say what a connection speaks that begins with these bytes, at most ``FIRST_BYTES``."""
    first = first.ljust(FIRST_BYTES, b"\xff")
    if first[:2] == b"\x16\x03":
        return Dialect.TLS
    if first[:4] == b"PRI ":
        return Dialect.HTTP_2
    if first[:4] in _HTTP_1:
        return Dialect.HTTP_1
    if first[4:6] == _AUTH:
        return Dialect.GREETING
    if first[4] in _APACHE_2_VERSIONS:
        return Dialect.APACHE_2
    return Dialect.APACHE_3 if first[4] == _APACHE_3_FIRST else Dialect.UNKNOWN


class Incoming:
    """The bytes of one connection that have come, and are no whole message yet."""

    __slots__ = ("_buffer", "_filled", "_have", "_large", "_size", "bytes_max")

    def __init__(self, bytes_max: int) -> None:
        #: The limit of a message. It may be changed between two messages.
        self.bytes_max = bytes_max
        self._buffer = bytearray(READ_BYTES)
        self._filled = 0
        #: A message that does not fit into the buffer, its size, and how much of it is here.
        self._large: bytearray | None = None
        self._size = 0
        self._have = 0

    @property
    def half_bytes(self) -> int:
        """The bytes of a message that has begun and is not complete."""
        return self._filled if self._large is None else self._have

    @property
    def held_bytes(self) -> int:
        """The memory that a half message takes beside the buffer that every connection has."""
        return 0 if self._large is None else len(self._large)

    def first(self) -> bytes:
        """Give the first bytes of the buffer: of its first message, until that is complete."""
        return bytes(self._buffer[: min(self._filled, FIRST_BYTES)])

    def drop(self) -> None:
        """Give back the memory of a half message: nothing more is read."""
        self._large, self._have, self._filled = None, 0, 0

    def room(self) -> memoryview:
        """Give where to receive the next bytes; the view of the last time must be gone."""
        large = self._large
        if large is None:
            return memoryview(self._buffer)[self._filled :]
        if self._have == len(large):
            large.extend(bytes(min(self._size, 2 * self._have) - len(large)))
        return memoryview(large)[self._have :]

    def received(self, count: int) -> list[bytes | bytearray]:
        """Note that so many bytes were received; give the messages that are complete now.

        Raises ``FormatError`` for an illegal length; then nothing more can be read.
        """
        if self._large is not None:
            self._have += count
            if self._have < self._size:
                return []
            whole, self._large = self._large, None
            return [whole]
        self._filled += count
        messages: list[bytes | bytearray] = []
        at, end = 0, self._filled
        while end - at >= LENGTH_BYTES:
            (size,) = _LENGTH.unpack_from(self._buffer, at)
            self._check(size)
            body = at + LENGTH_BYTES
            if body + size > end:
                if LENGTH_BYTES + size > READ_BYTES:
                    self._begin_large(size, self._buffer[body:end])
                    at = end
                break
            messages.append(bytes(self._buffer[body : body + size]))
            at = body + size
        self._filled = end - at
        self._buffer[: self._filled] = self._buffer[at:end]
        return messages

    def _check(self, size: int) -> None:
        if size == 0:
            raise FormatError(_WHAT, Fault.LENGTH, "0 bytes")
        if size > self.bytes_max:
            raise FormatError(
                _WHAT, Fault.OVERSIZED, f"{size} bytes, the limit is {self.bytes_max}"
            )

    def _begin_large(self, size: int, begun: bytearray) -> None:
        self._size, self._have = size, len(begun)
        begun.extend(bytes(min(size, max(GROW_BYTES, 2 * len(begun))) - len(begun)))
        self._large = begun
