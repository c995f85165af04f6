"""The hash of messages of a log, whatever reads them and in however many pieces. Pure.

A message's *digest* is the SHA-256 of everything of it that a copy keeps::

    0          8      16        20       21    25        29
    | sequence | time | payload | is key | key | headers | of each header: name 4, value 4 |
    | 8        | ms 8 | length 4| 1      | 4   | count 4 | lengths                         |
    +----------+------+---------+--------+-----+---------+---------------------------------+
    | payload | key | name, value, name, value, ...                                        |

All numbers are big-endian and unsigned. The lengths come first, so two messages that differ have
different bytes. The hash of many messages is the XOR of their digests. So each task hashes what it
reads, and the order of tasks does not matter. The order of messages does, because the sequence is
in the digest. In the XOR a message that is there twice cancels itself. So a hash is compared only
together with the number of messages, and with their first and last sequence (``MessageSums``).

Where the sequences are dense, equal sums mean equal messages in equal order, but for a collision of
256 bits. Somebody who makes messages on purpose can make collisions of a XOR: it finds mistakes and
damage, and is no signature.
"""

import hashlib
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import xor
from typing import Final

HASH_BYTES: Final = 32

_FIXED: Final = struct.Struct(">QQIBII")
_HEADER: Final = struct.Struct(">II")


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageSums:
    """How many messages there are, from which sequence to which, and their hash."""

    messages: int
    #: The lowest sequence, and the one behind the highest; equal if there is no message.
    first: int
    end: int
    hash: bytes

    @property
    def is_dense(self) -> bool:
        """Are there as many messages as sequences?"""
        return self.messages == self.end - self.first

    def __str__(self) -> str:
        if not self.messages:
            return "no message"
        return f"{self.messages} messages from {self.first} to {self.end - 1}, {self.hash.hex()}"


def digest(
    sequence: int,
    wall_ms: int,
    payload: bytes,
    key: bytes | None,
    headers: Sequence[tuple[bytes, bytes]],
) -> bytes:
    """Give the digest of one message; the names of headers are in UTF-8."""
    fixed = _FIXED.pack(
        sequence, wall_ms, len(payload), key is not None, len(key or b""), len(headers)
    )
    if not headers:
        return hashlib.sha256(fixed + payload + (key or b"")).digest()
    lengths = [_HEADER.pack(len(name), len(value)) for name, value in headers]
    data = [part for header in headers for part in header]
    return hashlib.sha256(b"".join([fixed, *lengths, payload, key or b"", *data])).digest()


def combined(hashes: Iterable[bytes]) -> bytes:
    """Give the hash of messages of which these are digests, or hashes of some of them."""
    numbers = (int.from_bytes(one, "big") for one in hashes)
    return reduce(xor, numbers, 0).to_bytes(HASH_BYTES, "big")


def none_from(sequence: int) -> MessageSums:
    """Give the sums of no message, at a place."""
    return MessageSums(messages=0, first=sequence, end=sequence, hash=bytes(HASH_BYTES))
