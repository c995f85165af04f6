"""Which ledgers name which bookies, for millions of ledgers, in a few flat arrays.

One row for each fragment; bookies are numbers, and each bookie has the list of its rows::

    ledger    8 bytes a row     whose fragment it is
    start     4 bytes a row     where its members begin in the flat list of members
    write     4 bytes a row     its write quorum; 0: it has no entries, and gets none
    members   4 bytes a member
    rows      4 bytes a member  by bookie, ascending

So a ledger of one fragment on three bookies takes 40 bytes, whatever the number of bookies, and
adding one is constant work. An index is built from a listing in ascending order, and grows by the
ledgers that are created after it, whose ids are higher. What it says of a ledger was so when the
ledger was read. So the caller reads the ledger again before it acts. What changed meanwhile is
found by the next listing, not here.
"""

import bisect
from array import array
from collections.abc import Iterator, Set
from typing import Final

from zonekeeper.metadata.formats.ledger_metadata import LedgerMetadata
from zonekeeper.placement.base.ids import BookieId, LedgerId


class LedgerIndex:
    """An index. Ledgers are added to it in ascending order of their ids."""

    def __init__(self) -> None:
        self.ledgers = 0
        self._numbers: dict[BookieId, int] = {}
        self._names: list[BookieId] = []
        self._ledger: Final = array("q")
        self._start: Final = array("I", [0])
        self._write: Final = array("I")
        self._members: Final = array("I")
        self._rows: list[array[int]] = []
        #: How many ledgers name each bookie.
        self._counts: Final = array("I")

    def add(self, ledger_id: LedgerId, ledger: LedgerMetadata) -> None:
        """Add a ledger. ``ledger_id >= following``."""
        assert not self._ledger or self._ledger[-1] < ledger_id, "ledgers are added in order"
        self.ledgers += 1
        ends: list[int | None] = [after.first_entry for after in ledger.fragments[1:]]
        ends.append(ledger.last_entry + 1 if ledger.is_closed else None)
        for fragment, end in zip(ledger.fragments, ends, strict=True):
            row = len(self._ledger)
            self._ledger.append(ledger_id)
            empty = end is not None and end <= fragment.first_entry
            self._write.append(0 if empty else ledger.write_quorum)
            for bookie in fragment.ensemble:
                number = self._number(bookie)
                rows = self._rows[number]
                if not rows or self._ledger[rows[-1]] != ledger_id:
                    self._counts[number] += 1
                rows.append(row)
                self._members.append(number)
            self._start.append(len(self._members))

    @property
    def following(self) -> LedgerId:
        """The lowest id that may still be added."""
        return LedgerId(self._ledger[-1] + 1 if self._ledger else 0)

    @property
    def size_bytes(self) -> int:
        """The size of all rows and members, without bookies' names and the arrays' spare room."""
        flat = (self._ledger, self._start, self._write, self._members, self._counts, *self._rows)
        return sum(part.itemsize * len(part) for part in flat)

    @property
    def bookies(self) -> frozenset[BookieId]:
        """Every bookie that some ledger names."""
        return frozenset(self._names)

    def count_of(self, bookie: BookieId) -> int:
        """Say how many ledgers name a bookie."""
        number = self._numbers.get(bookie)
        return 0 if number is None else self._counts[number]

    def ledgers_of(self, bookie: BookieId) -> Iterator[LedgerId]:
        """Give the ledgers that name a bookie, ascending, each once."""
        number = self._numbers.get(bookie)
        last = -1
        for row in () if number is None else self._rows[number]:
            ledger_id = self._ledger[row]
            if ledger_id != last:
                last = ledger_id
                yield LedgerId(ledger_id)

    def names(self, bookie: BookieId, ledger_id: LedgerId) -> bool:
        """Does a ledger name a bookie?"""
        number = self._numbers.get(bookie)
        if number is None:
            return False
        rows = self._rows[number]
        wanted: int = ledger_id
        at = bisect.bisect_left(rows, wanted, key=lambda row: self._ledger[row])
        return at < len(rows) and self._ledger[rows[at]] == ledger_id

    def copies_left(self, missing: Set[BookieId]) -> Iterator[tuple[LedgerId, int]]:
        """Give, for each fragment with a missing member, its ledger and the fewest copies left.

        The fewest copies left are the minimum over all write sets of the members that are not
        missing. Each fragment is given once. A fragment that has no entries, and gets none, is left
        out, because nothing of it can be lost. The work grows with the number of fragments that
        name a missing bookie, not with the size of the index.
        """
        gone = {self._numbers[bookie] for bookie in missing if bookie in self._numbers}
        for number in sorted(gone):
            for row in self._rows[number]:
                if not (write := self._write[row]):
                    continue
                members = self._members[self._start[row] : self._start[row + 1]]
                if next(member for member in members if member in gone) == number:
                    yield LedgerId(self._ledger[row]), _fewest(members, write, gone)

    def _number(self, bookie: BookieId) -> int:
        number = self._numbers.get(bookie)
        if number is None:
            number = self._numbers[bookie] = len(self._names)
            self._names.append(bookie)
            self._rows.append(array("I"))
            self._counts.append(0)
        return number


def _fewest(members: "array[int]", write: int, gone: Set[int]) -> int:
    """Give the minimum over all write sets of the members that are not ``gone``."""
    here = [member not in gone for member in members]
    if write == len(here):
        return sum(here)
    around = here + here
    return min(sum(around[at : at + write]) for at in range(len(here)))
