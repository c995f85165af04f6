"""The machine's floor: what moving and keeping the same bytes costs when nothing else is done.

For ``copies`` bookies: each payload's digest once, each copy through a loopback socket in pieces of
512 KiB, its checksum at the other side, and its write into a recycled file with ``fdatasync``. What
a system reaches of that is a share that means the same on a slow machine and a fast one.
"""

import os
import socket
import tempfile
import threading
import time
from pathlib import Path
from typing import Final

from benchmarks.support.rounds import Sample
from zonekeeper.wire.formats import checksums

PIECE_BYTES: Final = 512 << 10
_FILE_PIECES: Final = 64


def measure(folder: Path, *, size_bytes: int, entries: int, copies: int) -> Sample:
    """Move and keep so many entries, at least one piece."""
    payload = os.urandom(size_bytes)
    piece = os.urandom(PIECE_BYTES)
    pieces = max(1, entries * size_bytes // PIECE_BYTES)
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        for number in range(min(pieces, _FILE_PIECES)):
            os.pwrite(file.fileno(), piece, number * PIECE_BYTES)
        os.fdatasync(file.fileno())
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in range(entries):
            checksums.value(payload)
        for _ in range(copies):
            _move(piece, pieces, file.fileno())
        cpu_s, wall_s = time.process_time() - cpu, time.perf_counter() - wall
    return Sample(entries=entries, size_bytes=size_bytes, wall_s=wall_s, cpu_s=cpu_s)


def _move(piece: bytes, pieces: int, file: int) -> None:
    """Send pieces through a socket, and keep each at the other side."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        sender = threading.Thread(target=_send, args=(server.getsockname(), piece, pieces))
        sender.start()
        connection, _ = server.accept()
        buffer = bytearray(len(piece))
        with connection:
            for number in range(pieces):
                view = memoryview(buffer)
                while view:
                    view = view[connection.recv_into(view) :]
                checksums.value(bytes(buffer))
                os.pwrite(file, buffer, number % _FILE_PIECES * len(piece))
                os.fdatasync(file)
        sender.join()


def _send(address: tuple[str, int], piece: bytes, pieces: int) -> None:
    with socket.create_connection(address) as connection:
        for _ in range(pieces):
            connection.sendall(piece)


def send_file(folder: Path, *, size_bytes: int, entries: int) -> Sample:
    """Read a file of so many entries piece by piece, and send it through a loopback socket."""
    piece, pieces = os.urandom(PIECE_BYTES), max(1, entries * size_bytes // PIECE_BYTES)
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        for number in range(pieces):
            os.pwrite(file.fileno(), piece, number * PIECE_BYTES)
        wall, cpu = time.perf_counter(), time.process_time()
        with socket.create_server(("127.0.0.1", 0)) as server:
            reader = threading.Thread(target=_drain, args=(server.getsockname(),))
            reader.start()
            connection, _ = server.accept()
            with connection:
                for number in range(pieces):
                    connection.sendall(os.pread(file.fileno(), PIECE_BYTES, number * PIECE_BYTES))
            reader.join()
        cpu_s, wall_s = time.process_time() - cpu, time.perf_counter() - wall
    return Sample(entries=entries, size_bytes=size_bytes, wall_s=wall_s, cpu_s=cpu_s)


def _drain(address: tuple[str, int]) -> None:
    buffer = bytearray(PIECE_BYTES)
    with socket.create_connection(address) as connection:
        while connection.recv_into(buffer):
            pass
