"""The ways to compress that this process has: zlib always, zstd where pyarrow is installed.

Each unpacks at most the bytes that the header of a batch names, whatever the packed bytes say. So a
batch that was made to grow without end costs no more memory than an honest one.
"""

import functools
import importlib
import zlib
from importlib import util
from typing import Final, Protocol

from zonekeeper.log.formats.batches import Packer, Packers, Packing

#: Compression is on the path of an append, so the fastest level.
_ZLIB_LEVEL: Final = 1
_ZSTD_LEVEL: Final = 1


@functools.cache
def available() -> Packers:
    """Give the ways to compress."""
    packers = {Packing.ZLIB: Packer(_zlib_packed, _zlib_unpacked)}
    if util.find_spec("pyarrow") is not None:
        packers[Packing.ZSTD] = Packer(_zstd_packed, _zstd_unpacked)
    return packers


def _zlib_packed(body: bytes) -> bytes:
    return zlib.compress(body, _ZLIB_LEVEL)


def _zlib_unpacked(packed: bytes, size: int) -> bytes:
    unpacking = zlib.decompressobj()
    try:
        # One byte more shows a body that is too long; ``max_length=0`` would mean no limit.
        body = unpacking.decompress(packed, size + 1)
    except zlib.error as error:
        raise ValueError(str(error)) from error
    if len(body) != size or not unpacking.eof or unpacking.unused_data:
        raise ValueError(f"it is not the packing of {size} bytes, and of nothing more")
    return body


def _zstd_packed(body: bytes) -> bytes:
    return _zstd().compress(body, asbytes=True)


def _zstd_unpacked(packed: bytes, size: int) -> bytes:
    try:
        return _zstd().decompress(packed, decompressed_size=size, asbytes=True)
    except OSError as error:
        raise ValueError(str(error)) from error


class _Codec(Protocol):
    """The part of ``pyarrow.Codec`` that is used; pyarrow ships no types."""

    def compress(self, buf: bytes, *, asbytes: bool) -> bytes: ...

    def decompress(self, buf: bytes, *, decompressed_size: int, asbytes: bool) -> bytes: ...


@functools.cache
def _zstd() -> _Codec:
    """Load pyarrow when the first batch needs it: that takes a fifth of a second."""
    arrow = importlib.import_module("pyarrow")
    codec: _Codec = arrow.Codec("zstd", compression_level=_ZSTD_LEVEL)
    return codec
