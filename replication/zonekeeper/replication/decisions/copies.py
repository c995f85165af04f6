"""Are the copies of some entries all there, and all the same? The judgement of a replicas check.

For each entry, and each bookie of its write set, one of four things is known: a good copy is there
(its fingerprint is length and payload, which make entries *the same*); no copy is there; a copy is
there and is bad or cannot be read; or nothing is known. From that:

- good copies agree: a bookie without one is *doubted*, and its copy is to be made again;
- good copies differ: it is unknown which is right. This is a *conflict*, for people; nothing is
  repaired from it;
- no bookie has a good copy, and all have answered: the entry is *lost*. If one has not answered, it
  is unknown, and unknown is no finding of the check.

``faults`` says the same copy by copy, for people: it has each copy that is not known to be good and
the same as the others, also those that nobody is to repair.
"""

import enum
import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from zonekeeper.placement.base.ids import BookieId, EntryId
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.wire.formats.entries import Entry

_DIGEST_BYTES: Final = 16


class Fingerprint(NamedTuple):
    """What makes two copies the same entry, in few bytes."""

    length: int
    payload: bytes


class Lack(enum.Enum):
    """Why a bookie that answered has no good copy."""

    ABSENT = "is not there"
    BAD = "does not match its digest"
    #: The bookie failed to read it, or is in limbo for the ledger.
    UNREADABLE = "cannot be read"


Copy: TypeAlias = Fingerprint | Lack


class FaultKind(enum.StrEnum):
    """What is wrong with a copy of an entry, or (``LOST``) with the entry."""

    MISSING = "missing"
    BAD = "bad"
    UNREADABLE = "unreadable"
    #: The copy matches its digest, and another copy that matches its own is not the same entry.
    DIFFERING = "differing"
    #: Nothing is known of the copy: its bookie was not asked, or gave no answer.
    UNKNOWN = "unknown"
    #: All bookies of the write set have answered, and none has a good copy.
    LOST = "lost"


_FAULT_OF: Final[Mapping[Lack, FaultKind]] = {
    Lack.ABSENT: FaultKind.MISSING,
    Lack.BAD: FaultKind.BAD,
    Lack.UNREADABLE: FaultKind.UNREADABLE,
}


class CopyFault(NamedTuple):
    """A fault of one copy of one entry; of a lost entry: of the entry, and ``bookie`` is None."""

    entry_id: EntryId
    bookie: BookieId | None
    fault: FaultKind
    #: For a copy that differs: how many good copies are the same as this one, itself included.
    same: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiesVerdict:
    """What is wrong with the copies of some entries."""

    #: The bookies whose copies are to be made again. Each has the first entry of which it has no
    #: good copy, and why.
    doubted: Mapping[BookieId, tuple[EntryId, Lack]]
    lost: tuple[EntryId, ...]
    conflicts: tuple[EntryId, ...]
    #: How many copies there are of which nothing is known.
    unknown: int
    #: By entry, and for each entry in the order of its write set; the loss of the entry comes last.
    faults: tuple[CopyFault, ...] = ()


def fingerprint(entry: Entry) -> Fingerprint:
    """Give the fingerprint of an entry that passed its check."""
    digest = hashlib.blake2b(entry.payload, digest_size=_DIGEST_BYTES).digest()
    return Fingerprint(entry.length, digest)


def judge(
    quorums: Quorums,
    ensemble: Sequence[BookieId],
    wanted: Iterable[EntryId],
    copies: Mapping[BookieId, Mapping[EntryId, Copy]],
) -> CopiesVerdict:
    """Judge the entries ``wanted`` of one fragment.

    ``copies`` has what each bookie said of each entry. An entry that is not in it is unknown.
    """
    doubted: dict[BookieId, tuple[EntryId, Lack]] = {}
    lost, conflicts, unknown = [], [], 0
    faults: list[CopyFault] = []
    for entry_id in wanted:
        holders = [ensemble[position] for position in quorums.write_set(entry_id)]
        said = {one: copies[one][entry_id] for one in holders if entry_id in copies.get(one, {})}
        unknown += len(holders) - len(said)
        good = {copy for copy in said.values() if isinstance(copy, Fingerprint)}
        if len(good) == 1 and all(isinstance(said.get(one), Fingerprint) for one in holders):
            continue
        faults += _faults(entry_id, holders, said)
        if len(good) > 1:
            conflicts.append(entry_id)
        elif good:
            for bookie, copy in said.items():
                if isinstance(copy, Lack):
                    doubted.setdefault(bookie, (entry_id, copy))
        elif len(said) == len(holders):
            lost.append(entry_id)
    return CopiesVerdict(
        doubted=doubted,
        lost=tuple(lost),
        conflicts=tuple(conflicts),
        unknown=unknown,
        faults=tuple(faults),
    )


def _faults(
    entry_id: EntryId, holders: Sequence[BookieId], said: Mapping[BookieId, Copy]
) -> Iterator[CopyFault]:
    alike = Counter(copy for copy in said.values() if isinstance(copy, Fingerprint))
    for bookie in holders:
        copy = said.get(bookie)
        if copy is None:
            yield CopyFault(entry_id, bookie, FaultKind.UNKNOWN)
        elif isinstance(copy, Lack):
            yield CopyFault(entry_id, bookie, _FAULT_OF[copy])
        elif len(alike) > 1:
            yield CopyFault(entry_id, bookie, FaultKind.DIFFERING, alike[copy])
    if not alike and len(said) == len(holders):
        yield CopyFault(entry_id, None, FaultKind.LOST)


def has_share(
    quorums: Quorums, position: int, wanted: range, ranges: Iterable[tuple[EntryId, EntryId]]
) -> bool:
    """Say whether ``ranges`` contain every entry of ``wanted`` that a position has to hold.

    ``ranges`` are pairs (first, last) in ascending order. Within ``wanted`` they are complete: the
    bookie does not have an entry that is in none of them.
    """
    at = wanted.start
    for first, last in ranges:
        if last < at:
            continue
        if _any_held(quorums, position, range(at, min(first, wanted.stop))):
            return False
        at = last + 1
        if at >= wanted.stop:
            return True
    return not _any_held(quorums, position, range(at, wanted.stop))


def _any_held(quorums: Quorums, position: int, gap: range) -> bool:
    """Has a position to hold any entry of a gap? Write sets repeat every ``ensemble`` entries."""
    return any(quorums.holds(position, EntryId(one)) for one in gap[: quorums.ensemble])
