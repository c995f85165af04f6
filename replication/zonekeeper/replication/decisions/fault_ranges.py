"""Faults of copies as ranges: a bookie that lacks a million entries is one line. Pure.

A range has the entries of one fault on one bookie that follow each other in a stripe. Windows are
added in the order in which a fragment is read. Each fault that was added is in exactly one range.
At any time as many ranges are kept as there are bookies and kinds of fault, however many entries
the fragment has.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from zonekeeper.placement.base.ids import BookieId, EntryId
from zonekeeper.replication.decisions.copies import CopyFault, FaultKind


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultRange:
    """Entries with one fault on one bookie; a lost entry has no bookie."""

    bookie: BookieId | None
    fault: FaultKind
    same: int | None
    #: Its step is that of the stripe: write sets repeat after so many entries.
    entries: range


class _Key(NamedTuple):
    bookie: BookieId | None
    fault: FaultKind
    same: int | None


class FaultRanges:
    """Puts the faults of one fragment together."""

    def __init__(self) -> None:
        self._open: dict[_Key, range] = {}

    def add(self, window: range, faults: Iterable[CopyFault]) -> Iterator[FaultRange]:
        """Take in the faults of a window; give the ranges that cannot grow any more."""
        for entry_id, bookie, fault, same in faults:
            key = _Key(bookie, fault, same)
            known = self._open.get(key)
            if known is not None and _continues(known, entry_id, window.step):
                self._open[key] = range(known.start, entry_id + 1, window.step)
                continue
            if known is not None:
                yield _made(key, known)
            self._open[key] = range(entry_id, entry_id + 1, window.step)

    def end(self) -> Iterator[FaultRange]:
        """Give what is left at the end of the fragment."""
        for key, known in self._open.items():
            yield _made(key, known)
        self._open = {}


def _continues(known: range, entry_id: EntryId, step: int) -> bool:
    return known.step == step and known[-1] + step == entry_id


def _made(key: _Key, entries: range) -> FaultRange:
    return FaultRange(bookie=key.bookie, fault=key.fault, same=key.same, entries=entries)
