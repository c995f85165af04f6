"""The digests that an entry can carry, and the two keys that come from a ledger's password.

All of this is Apache BookKeeper's, bit for bit. A digest covers the header, then the payload::

    CRC32C   4 bytes   Castagnoli, big-endian; the default
    CRC32    8 bytes   zlib's, as an unsigned number in a 64-bit field
    HMAC    20 bytes   HMAC-SHA-1 under SHA-1("mac" + password)
    DUMMY    0 bytes   nothing is checked

The *master key*, SHA-1("ledger" + password), is what a writer shows to a bookie. It does not depend
on the digest. SHA-1 is required by the format. Neither key protects against a reader of the
bookie's disk. The transport (mTLS) keeps strangers out.
"""

import hashlib
import hmac
import struct
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import ClassVar, Final, assert_never

from zonekeeper.placement.base.digests import Digest
from zonekeeper.placement.base.hidden import Secret
from zonekeeper.wire.formats import checksums

MASTER_KEY_BYTES: Final = 20

#: The size of the longest digest.
DIGEST_BYTES_MAX: Final = 20

# These are used for every entry, so they are looked up once.
_value: Final = checksums.value
_extend: Final = checksums.extend
_U32: Final = struct.Struct(">I")
_U64: Final = struct.Struct(">Q")


class MasterKey(Secret):
    """The proof of a writer's right to a ledger; ``MASTER_KEY_BYTES`` long."""

    __slots__ = ()


def master_key(password: bytes) -> MasterKey:
    """Derive the key that bookies keep for a ledger; the empty password has a key too."""
    return MasterKey(_sha1(b"ledger" + password))


class Digester(ABC):
    """Computes one kind of digest."""

    #: The size of the digest, which is between header and payload.
    size_bytes: ClassVar[int]

    @abstractmethod
    def digest(self, head: bytes, payload: bytes) -> bytes:
        """Give the digest of a header followed by a payload."""

    def digests(self, heads: Iterable[bytes], payloads: Iterable[bytes]) -> list[bytes]:
        """Give the digests of several entries, each as ``digest`` does."""
        return list(map(self.digest, heads, payloads))


class _Crc32c(Digester):
    size_bytes = 4

    def digest(self, head: bytes, payload: bytes) -> bytes:
        return _U32.pack(_extend(_value(head), payload))

    def digests(self, heads: Iterable[bytes], payloads: Iterable[bytes]) -> list[bytes]:
        # No Python frame is run for an entry: this is most of what an entry costs its client.
        return list(map(_U32.pack, map(_extend, map(_value, heads), payloads)))


class _Crc32(Digester):
    size_bytes = 8

    def digest(self, head: bytes, payload: bytes) -> bytes:
        return _U64.pack(zlib.crc32(payload, zlib.crc32(head)))


class _Hmac(Digester):
    size_bytes = 20

    def __init__(self, password: bytes) -> None:
        self._key = Secret(_sha1(b"mac" + password))

    def digest(self, head: bytes, payload: bytes) -> bytes:
        return hmac.digest(self._key, head + payload, "sha1")


class _Dummy(Digester):
    size_bytes = 0

    def digest(self, head: bytes, payload: bytes) -> bytes:
        return b""


def digester(kind: Digest, password: bytes) -> Digester:
    """Give the digester of a ledger; only HMAC uses the password."""
    match kind:
        case Digest.CRC32C:
            return _Crc32c()
        case Digest.CRC32:
            return _Crc32()
        case Digest.HMAC:
            return _Hmac(password)
        case Digest.DUMMY:
            return _Dummy()
        case _:
            assert_never(kind)


def digest_bytes(kind: Digest) -> int:
    """Give the size of a kind of digest; no password is needed."""
    return digester(kind, b"").size_bytes


def _sha1(data: bytes) -> bytes:
    return hashlib.sha1(data).digest()  # noqa: S324 the format's, and all its peers compute it
