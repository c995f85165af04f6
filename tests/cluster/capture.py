"""What goes over the lab's network: every frame of every interface, searched for a mark.

A frame between two pods is seen several times, on its way through the bridge. A mark that is split
between two frames is not found: a payload must have it many times.
"""

import socket
import struct
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_EVERY_PROTOCOL: Final = socket.htons(3)
_IPV4: Final = 0x0800
_TCP: Final = 6
_FRAME_BYTES_MAX: Final = 1 << 17
_BUFFER_BYTES: Final = 64 << 20
#: From Linux' headers; the module ``socket`` has no names for them.
_SO_RCVBUFFORCE: Final = 33
_SOL_PACKET: Final = 263
_PACKET_STATISTICS: Final = 6
_POLL_SECONDS: Final = 0.1


class Capture:
    """What was seen so far; once the block has ended, all of it."""

    def __init__(self, mark: bytes) -> None:
        self._mark = mark
        self._ends = threading.Event()
        #: The bytes of TCP to and from each port, headers without.
        self.bytes_at: Counter[int] = Counter()
        #: The frames with the mark, by both of their ports.
        self.found_at: Counter[int] = Counter()
        #: Frames that came faster than they were read.
        self.missed = 0

    def end(self) -> None:
        """Let ``run`` return once it has read what came until now."""
        self._ends.set()

    def run(self, frames: socket.socket) -> None:
        """Read frames until the end."""
        while True:
            is_last = self._ends.is_set()
            try:
                self.take(frames.recv(_FRAME_BYTES_MAX))
            except TimeoutError:
                if is_last:
                    break
        counts = frames.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8)
        _, self.missed = struct.unpack("II", counts)

    def take(self, frame: bytes) -> None:
        """Look at one frame; what is not TCP over IPv4 is passed over."""
        if len(frame) < 34 or struct.unpack_from("!H", frame, 12) != (_IPV4,) or frame[23] != _TCP:
            return
        segment = 14 + 4 * (frame[14] & 15)
        (size,) = struct.unpack_from("!H", frame, 16)
        if len(frame) < segment + 20:
            return
        # A short frame is padded behind its packet; a size of 0 is one that the card would cut.
        payload = frame[segment + 4 * (frame[segment + 12] >> 4) : 14 + size if size else None]
        for port in struct.unpack_from("!HH", frame, segment):
            self.bytes_at[port] += len(payload)
            self.found_at[port] += self._mark in payload


@contextmanager
def captured(mark: bytes) -> Iterator[Capture]:
    """Capture what goes over the network of the calling thread while the block runs."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, _EVERY_PROTOCOL) as frames:
        frames.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER_BYTES)
        frames.settimeout(_POLL_SECONDS)
        seen = Capture(mark)
        reading = threading.Thread(target=seen.run, args=(frames,))
        reading.start()
        try:
            yield seen
        finally:
            seen.end()
            reading.join()
