"""The errors between a client and a bookie: a closed set, each with its number.

Every error answers two questions, and callers act on the answers:

``retryable``
    The same request may be sent to the same bookie again, later or after what ``detail`` asks for,
    and may then succeed. If it is false, another attempt gets the same answer.
``maybe_applied``
    The request may have been carried out all the same. If it is true, the outcome is unknown: an
    append that timed out is *maybe*, never *failed*. Appends can be sent again safely, because a
    bookie accepts an entry that it already has.

Only ``NoSuchEntry`` and ``NoSuchLedger`` are *negative*: the bookie knows that it never had, and
never acknowledged, what it was asked for. Recovery counts only these. Every other error, including
one that this version does not know, is *unknown*.

The numbers cross the wire and never change their meaning. A retired number is not used again. They
are our own: BookKeeper's client codes and its bookies' status codes are two different sets, and
neither has all that is needed here. The table has BookKeeper's client code after each name::

     1 NotOpened          -        10 EntryMismatch      -
     2 Fenced             -101     11 UnsupportedVersion -16
     3 UnauthorizedAccess -102     12 BadRequest         -14
     4 NoSuchLedger       -7       13 InsufficientSpace  -
     5 NoSuchEntry        -13      14 Timeout            -23
     6 LimboLedger        -108     15 ConnectionLost     -8
     7 IoFailed           -1, -12  16 NotConnected       -8
     8 ReadOnly           -104     17 ShuttingDown       -
     9 TooManyRequests    -105     18 StartedAgain       -
    19 LedgerDeleted      -        20 NotVouched         -
    21 MetadataAway       -        22 NotProven          -
    23 NotPermitted       -

An unknown number from a newer peer becomes ``UnknownError``, which assumes the worst of both
answers.
"""

import enum
from collections.abc import Callable
from typing import Final, TypeAlias

from zonekeeper.placement.base.troubles import Trouble


class WireError(Trouble):
    """Something between a client and a bookie went wrong."""


class ProtocolError(WireError):
    """An error with a number on the wire. ``detail`` says what was wrong, where, and what to do."""

    #: The number of the class; only for ``UnknownError`` it is the instance's own.
    code: int

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


class NotOpened(ProtocolError):
    """The ledger was not opened on this stream: open its fragment, then send again."""

    code = 1
    retryable = True


class Fenced(ProtocolError):
    """The ledger is being recovered, or was closed: this writer must stop."""

    code = 2


class UnauthorizedAccess(ProtocolError):
    """The master key is not the ledger's, or gRPC or TLS did not accept the peer."""

    code = 3


class Negative(ProtocolError):
    """The bookie is certain that it does not hold this, and never acknowledged it."""


class NoSuchLedger(Negative):
    """The bookie never had an entry of the ledger."""

    code = 4


class NoSuchEntry(Negative):
    """The bookie has the ledger, but never had the entry."""

    code = 5


class LimboLedger(ProtocolError):
    """The bookie lost data of this ledger and cannot tell whether it had the entry: unknown."""

    code = 6


class IoFailed(ProtocolError):
    """The bookie's disk failed; the bytes may have reached it all the same."""

    code = 7
    maybe_applied = True


class ReadOnly(ProtocolError):
    """The bookie takes no new data: choose another bookie."""

    code = 8


class TooManyRequests(ProtocolError):
    """The bookie's or the link's byte budget is spent: wait for acks, or go elsewhere."""

    code = 9
    retryable = True


class EntryMismatch(ProtocolError):
    """The bookie holds another entry with this id: two writers, or a writer that lost its state."""

    code = 10


class UnsupportedVersion(ProtocolError):
    """The peer speaks a version that this side does not know: upgrade the older one."""

    code = 11


class BadRequest(ProtocolError):
    """The request breaks the protocol: a bug of the sender, or damage that a checksum found."""

    code = 12


class InsufficientSpace(ProtocolError):
    """The bookie's disks have no room for this; it may still take smaller requests."""

    code = 13


class Timeout(ProtocolError):
    """No answer came within the deadline; the request may still be carried out."""

    code = 14
    retryable = True
    maybe_applied = True


class ConnectionLost(ProtocolError):
    """The connection ended between the request and its answer."""

    code = 15
    retryable = True
    maybe_applied = True


class NotConnected(ProtocolError):
    """Nothing was done: there is no connection to the bookie, or another bookie answers there."""

    code = 16
    retryable = True


class ShuttingDown(ProtocolError):
    """The bookie is shutting down and did nothing of this request."""

    code = 17
    retryable = True


class StartedAgain(ProtocolError):
    """The bookie was started after it was looked at: its disk may be another one. Look again."""

    code = 18


class LedgerDeleted(ProtocolError):
    """The bookie no longer has this ledger, or has another one under its id: read the metadata.

    It is no negative: the bookie may have acknowledged entries of the ledger before it forgot them.
    """

    code = 19


class NotVouched(ProtocolError):
    """The bookie ends a limbo only if a repair vouches for it in the metadata store; none does."""

    code = 20
    retryable = True


class MetadataAway(ProtocolError):
    """The bookie must ask the metadata store before it does this, and the store did not answer."""

    code = 21
    retryable = True


class NotProven(ProtocolError):
    """The proof of a ledger's key is of a stream that has ended, or was used: prove it anew."""

    code = 22
    retryable = True


class NotPermitted(ProtocolError):
    """No role of the caller's certificate may do this: nothing was done, use another certificate.

    A client of a release before this number takes it as unknown, and does not try again.
    """

    code = 23


class UnknownError(ProtocolError):
    """A number that this version does not know; it may mean anything, even "it was applied"."""

    maybe_applied = True

    def __init__(self, code: int, detail: str) -> None:
        super().__init__(detail)
        self.code = code


#: Every number and the error that it stands for.
BY_NUMBER: Final[dict[int, type[ProtocolError]]] = {
    error.code: error
    for error in (
        NotOpened,
        Fenced,
        UnauthorizedAccess,
        NoSuchLedger,
        NoSuchEntry,
        LimboLedger,
        IoFailed,
        ReadOnly,
        TooManyRequests,
        EntryMismatch,
        UnsupportedVersion,
        BadRequest,
        InsufficientSpace,
        Timeout,
        ConnectionLost,
        NotConnected,
        ShuttingDown,
        StartedAgain,
        LedgerDeleted,
        NotVouched,
        MetadataAway,
        NotProven,
        NotPermitted,
    )
}


def from_number(code: int, detail: str) -> ProtocolError:
    """Give the error that a peer named; ``UnknownError`` for a number outside the table."""
    kind = BY_NUMBER.get(code)
    return UnknownError(code, detail) if kind is None else kind(detail)


class Fault(enum.Enum):
    """The faults of a frame or a carrier; the strict parsers tell them apart."""

    TRUNCATED = "ends too early"
    TRAILING = "has bytes after its end"
    OVERSIZED = "is larger than the limit"
    MAGIC = "does not begin with the magic"
    VERSION = "has a version that is not supported"
    RESERVED = "has a reserved bit or byte that is not zero"
    CHECKSUM = "has a checksum that does not match"
    COUNT = "has a count outside the limits"
    LENGTH = "has lengths outside the limits, or that do not add up"
    RANGE = "has a number outside its range"
    DUPLICATE = "lists an entry twice"
    DESCENDING = "lists entries out of order"
    NOT_CANONICAL = "spells what has a shorter spelling"
    PACKET = "holds a packet whose own header disagrees"
    KIND = "has an item of an unknown kind"
    TEXT = "has text that is not UTF-8"


class FormatError(WireError):
    """The bytes are not a frame, or not a carrier, for this reason. Nothing of them was used."""

    def __init__(self, what: str, fault: Fault, detail: str) -> None:
        super().__init__(f"{what} {fault.value}: {detail}")
        self.fault = fault

    def as_protocol_error(self) -> ProtocolError:
        """Give the error that the sender of these bytes is told."""
        if self.fault is Fault.VERSION:
            return UnsupportedVersion(str(self))
        return BadRequest(str(self))


#: Is told whose a ledger is ("": it has no owner), or why that is not known; gives the refusal of a
#: request for it, or None.
OwnerJudge: TypeAlias = Callable[[str | ProtocolError], ProtocolError | None]
