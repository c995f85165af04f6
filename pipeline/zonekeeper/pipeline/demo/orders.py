"""The messages of the demonstration, what its query makes of them, and how both are compared. Pure.

The query is written in SQL, and ``billed`` is the same in Python. So the expected content of the
log that Spark writes is known without Spark. The content is compared whole: by the count, by the
SHA-256 of all messages, and message by message. The order of partitions is Spark's, so the messages
are sorted before they are hashed. Each order has a number of its own: no two messages are equal,
and a message that came in twice is seen.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from zonekeeper.log.formats.messages import LogMessage

#: ``billed`` in Spark's SQL: two steps of ``selectExpr``, and between them ``PAID``.
SPLIT: Final = ("key", "headers", "split(CAST(payload AS string), ';') AS part")
PAID: Final = "part[2] = 'paid'"
BILLED: Final = (
    "key",
    "headers",
    "concat(part[0], ';', CAST(CAST(part[1] AS int) * 2 AS string)) AS payload",
)
_PAID: Final = b"paid"
_CUSTOMERS: Final = 997
_CENTS: Final = 10_000
_EVERY: Final = 3


def order(number: int) -> LogMessage:
    """Give an order: its number, its cents, and whether it is paid; two of three are."""
    state = b"open" if number % _EVERY == 0 else _PAID
    return LogMessage(
        key=b"customer %d" % (number % _CUSTOMERS),
        payload=b"%d;%d;%s" % (number, number * 7 % _CENTS, state),
        headers=(("shop", b"%d" % (number % _EVERY)),),
    )


def billed(message: LogMessage) -> LogMessage | None:
    """Give the bill of an order, of twice its cents; None: the order is not paid."""
    number, cents, state = message.payload.split(b";")
    if state != _PAID:
        return None
    payload = b"%s;%d" % (number, 2 * int(cents))
    return LogMessage(key=message.key, payload=payload, headers=message.headers)


def bills(count: int) -> Iterator[LogMessage]:
    """Give the bills of the orders with the numbers ``0 <= number < count``."""
    for number in range(count):
        bill = billed(order(number))
        if bill is not None:
            yield bill


@dataclass(frozen=True, slots=True, kw_only=True)
class BillsFound:
    """The expected and the found messages of a log, compared."""

    expected: int
    found: int
    expected_sha256: str
    found_sha256: str
    #: Messages that are expected and not found.
    lost: int
    #: Messages that are found more often than expected; those that are not expected are among them.
    more: int
    #: Are the sequences of the found messages 0, 1, 2, …?
    dense: bool

    @property
    def same(self) -> bool:
        """Is the content the expected one?"""
        same = self.expected == self.found and self.expected_sha256 == self.found_sha256
        return same and self.dense and not self.lost and not self.more


def compared(
    expected: Iterable[LogMessage], found: Iterable[LogMessage], sequences: Sequence[int]
) -> BillsFound:
    """Compare what a log should have with what it has; ``sequences`` are those of the found."""
    wanted, there = Counter(map(_digest, expected)), Counter(map(_digest, found))
    return BillsFound(
        expected=wanted.total(),
        found=there.total(),
        expected_sha256=_sha256(wanted),
        found_sha256=_sha256(there),
        lost=(wanted - there).total(),
        more=(there - wanted).total(),
        dense=list(sequences) == list(range(len(sequences))),
    )


def _digest(message: LogMessage) -> bytes:
    """Give the SHA-256 of a message; its parts are told apart by their lengths."""
    digest = hashlib.sha256()
    parts = [message.payload, b"" if message.key is None else b"=" + message.key]
    parts += [part for name, value in message.headers for part in (name.encode(), value)]
    for part in parts:
        digest.update(b"%d:" % len(part) + part)
    return digest.digest()


def _sha256(digests: Counter[bytes]) -> str:
    return hashlib.sha256(b"".join(sorted(digests.elements()))).hexdigest()
