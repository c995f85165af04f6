"""Hints: what writers have told a bookie of the fragments of a ledger; they have limits. Pure.

A hint is the bytes of a fragment's opening, without the create token: the token is the ledger's.
Hints serve a rebuild of lost metadata (``zonekeeper metadata rebuild``). The rebuild takes it that
a bookie knows every fragment that it has entries of. So a bookie takes the frames of a fragment
only when the fragment's hint is on its disk, and it never drops or shortens a hint. A hint that
would pass a limit is refused, with its opening. A writer then goes to another bookie.

Openings of the same ensemble leave one hint. Several hints may begin at one entry: a writer that
changes an ensemble before an entry of it is confirmed tells the new one with the same first entry.
The one that came last counts (``counting``), and the others stay beside it. If it replaced the
others, a peer could tell two ensembles in turn, for ever: the log would get longer and longer, and
so would the next start, which reads all of it. As all stay, and none comes twice, a ledger's hints
in the log are never more than its limit.

Hints are kept as bytes. A peer chooses what its opening names, and 64 KiB of short names are a MiB
of objects.
"""

from bisect import bisect_left, bisect_right
from dataclasses import replace
from typing import Final

from zonekeeper.wire.formats import openings
from zonekeeper.wire.formats.openings import FragmentOpening

#: The most bytes of one ledger's hints, by ``size_of``: thousands of fragments.
LEDGER_BYTES_MAX: Final = 1 << 20
#: The memory that a hint takes beside its bytes. The head of its record on the disk, and the create
#: token there, are smaller. So no hint takes more than its ``size_of``, in memory and on the disk.
BESIDE_BYTES: Final = 48

#: The place of the first entry in an opening.
_FIRST: Final = slice(8, 16)


def size_of(hint: bytes) -> int:
    """Give the bytes that a hint takes, by which it is limited."""
    return len(hint) + BESIDE_BYTES


def has(hints: tuple[bytes, ...], hint: bytes) -> bool:
    """Is the hint among these?"""
    if not hints:
        return False
    first = hint[_FIRST]
    begin = bisect_left(hints, first, key=_first)
    return hint in hints[begin : bisect_right(hints, first, lo=begin, key=_first)]


def added(hints: tuple[bytes, ...], hint: bytes) -> tuple[bytes, ...]:
    """Add a hint that is not among these; those that begin at one entry keep their order."""
    if not hints or _first(hints[-1]) <= _first(hint):
        return (*hints, hint)
    at = bisect_right(hints, _first(hint), key=_first)
    return (*hints[:at], hint, *hints[at:])


def counting(hints: tuple[bytes, ...], create_token: int) -> tuple[FragmentOpening, ...]:
    """Give the openings that count, by their first entries: of each first entry the last hint."""
    last = {_first(hint): hint for hint in hints}
    return tuple(opening_of(hint, create_token) for hint in last.values())


def opening_of(hint: bytes, create_token: int) -> FragmentOpening:
    """Give the opening that a hint is of."""
    return replace(openings.parse(hint), create_token=create_token)


def _first(hint: bytes) -> bytes:
    return hint[_FIRST]
