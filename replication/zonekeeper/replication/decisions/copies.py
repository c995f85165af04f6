"""Are the copies of some entries all there, and all the same? The judgement of a replicas check.

For each entry, and each bookie of its write set, one of four things is known: a good copy is there
(its fingerprint is length and payload, which make entries *the same*); no copy is there; a copy is
there and is bad or cannot be read; or nothing is known. From that:

- good copies agree: a bookie without one is *doubted*, and its copy is to be made again;
- good copies differ: it is unknown which is right. This is a *conflict*, for people; nothing is
  repaired from it;
- no bookie has a good copy, and all have answered: the entry is *lost*. If one has not answered, it
  is unknown, and unknown is no finding.
"""

import enum
import hashlib
from collections.abc import Iterable, Mapping, Sequence
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
    #: The bookie cannot read it, or is not sure that it ever had it.
    UNREADABLE = "cannot be read"


Copy: TypeAlias = Fingerprint | Lack


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiesVerdict:
    """What is wrong with some entries."""

    #: The bookies whose copies are to be made again, each with its first bad entry and the flaw.
    doubted: Mapping[BookieId, tuple[EntryId, Lack]]
    lost: tuple[EntryId, ...]
    conflicts: tuple[EntryId, ...]
    #: The number of copies whose bookie gave no answer.
    unknown: int


def fingerprint(entry: Entry) -> Fingerprint:
    """Give what is compared of an entry that was checked."""
    digest = hashlib.blake2b(entry.payload, digest_size=_DIGEST_BYTES).digest()
    return Fingerprint(entry.length, digest)


def judge(
    quorums: Quorums,
    ensemble: Sequence[BookieId],
    wanted: Iterable[EntryId],
    copies: Mapping[BookieId, Mapping[EntryId, Copy]],
) -> CopiesVerdict:
    """Judge entries of one fragment by what its bookies have of them."""
    doubted: dict[BookieId, tuple[EntryId, Lack]] = {}
    lost, conflicts, unknown = [], [], 0
    for entry_id in wanted:
        holders = [ensemble[position] for position in quorums.write_set(entry_id)]
        said = {one: copies[one][entry_id] for one in holders if entry_id in copies.get(one, {})}
        unknown += len(holders) - len(said)
        good = {copy for copy in said.values() if isinstance(copy, Fingerprint)}
        if len(good) > 1:
            conflicts.append(entry_id)
        elif good:
            for bookie, copy in said.items():
                if isinstance(copy, Lack):
                    doubted.setdefault(bookie, (entry_id, copy))
        elif len(said) == len(holders):
            lost.append(entry_id)
    return CopiesVerdict(
        doubted=doubted, lost=tuple(lost), conflicts=tuple(conflicts), unknown=unknown
    )


def has_share(
    quorums: Quorums, position: int, wanted: range, ranges: Iterable[tuple[EntryId, EntryId]]
) -> bool:
    """Say whether these runs hold every one of ``wanted`` that a position of its ensemble holds.

    ``ranges`` ascend and are whole: what is not in them is not there.
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
    """Is any entry of a gap in the position's share? The pattern repeats after an ensemble."""
    return any(quorums.holds(position, EntryId(one)) for one in gap[: quorums.ensemble])
