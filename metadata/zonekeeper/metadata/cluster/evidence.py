"""What a bookie keeps of the metadata, and when it proves that the metadata was set back.

A bookie keeps three numbers that it read itself, behind a write of its own. Each of them only rises
while a store keeps what it confirmed:

    starts   the bookie's own starts, as its record in the store counts them
    ids      a number that all ledger ids that were given out are below, by the store's counters
    policy   the version of the policy

If the store shows a lower number than the bookie keeps, the store is older than the bookie's disk.
That is evidence. Ledgers of openings, fences and entries are no evidence: any peer can name any id.
A record or policy that cannot be read, or that is not there, is unknown and proves nothing: a
bookie's record is removed together with its cookie. The counters of ids are never removed.

A person who clears the mark of a restored root accepts exactly the evidence that the mark names.
``Accepted`` remembers it: the same evidence, or less of the same, does not set the mark again.
An export that a person imported is accepted whole: with everything that was kept before the import.
"""

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from zonekeeper.placement.base.ids import BookieId


class EvidenceKind(enum.StrEnum):
    """The number that is too low in the store."""

    STARTS = "starts"
    IDS = "ids"
    POLICY = "policy"


@dataclass(frozen=True, slots=True, kw_only=True)
class Knowledge:
    """The three numbers. 0 starts or policy: the bookie never read it, or the store has none."""

    starts: int = 0
    ids: int = 0
    policy: int = 0

    def number(self, kind: EvidenceKind) -> int:
        """Give the number of one kind."""
        numbers: Mapping[EvidenceKind, int] = {
            EvidenceKind.STARTS: self.starts,
            EvidenceKind.IDS: self.ids,
            EvidenceKind.POLICY: self.policy,
        }
        return numbers[kind]


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class StoreEvidence:
    """One proof that the metadata was set back: ``0 <= found < known``."""

    bookie: BookieId
    kind: EvidenceKind
    #: The number that the bookie read once.
    known: int
    #: The number that the store showed instead.
    found: int

    def __str__(self) -> str:
        what = {
            EvidenceKind.STARTS: f"{self.known} starts of the bookie, and the store knows of",
            EvidenceKind.IDS: f"ledger ids below {self.known}, and the store gave out those below",
            EvidenceKind.POLICY: f"version {self.known} of the policy, and the store has version",
        }[self.kind]
        return f"{self.bookie} knew of {what} {self.found}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """The evidence that people accepted, as the highest numbers that it named."""

    starts: Mapping[BookieId, int] = field(default_factory=dict)
    ids: int = 0
    policy: int = 0
    #: Whatever was kept while all ids were below this was accepted with an import.
    before_ids: int = 0
    #: The fields that this version does not know, as JSON; they are written back unchanged.
    unknown: str = "{}"

    def covers(self, evidence: StoreEvidence, known: Knowledge) -> bool:
        """Did a person accept this evidence of a bookie that keeps these numbers?"""
        return known.ids < self.before_ids or self.names(evidence)

    def names(self, evidence: StoreEvidence) -> bool:
        """Did a person accept this evidence itself, or more of the same?"""
        match evidence.kind:
            case EvidenceKind.STARTS:
                return evidence.known <= self.starts.get(evidence.bookie, 0)
            case EvidenceKind.IDS:
                return evidence.known <= self.ids
            case EvidenceKind.POLICY:
                return evidence.known <= self.policy

    def also(self, evidence: Iterable[StoreEvidence]) -> "Accepted":
        """Give these numbers together with those of more evidence."""
        after = self
        for one in evidence:
            match one.kind:
                case EvidenceKind.STARTS:
                    most = max(one.known, after.starts.get(one.bookie, 0))
                    after = replace(after, starts={**after.starts, one.bookie: most})
                case EvidenceKind.IDS:
                    after = replace(after, ids=max(one.known, after.ids))
                case EvidenceKind.POLICY:
                    after = replace(after, policy=max(one.known, after.policy))
        return after


Proofs: TypeAlias = tuple[StoreEvidence, ...]


def proofs(bookie: BookieId, known: Knowledge, found: Knowledge, accepted: Accepted) -> Proofs:
    """Give the evidence that nobody accepted yet; sorted."""
    evidence = (
        StoreEvidence(bookie=bookie, kind=kind, known=known.number(kind), found=found.number(kind))
        for kind in EvidenceKind
        if found.number(kind) < known.number(kind)
        and (found.number(kind) or kind is EvidenceKind.IDS)
    )
    return tuple(sorted(one for one in evidence if not accepted.covers(one, known)))


def kept(known: Knowledge, found: Knowledge) -> Knowledge:
    """Give what a bookie keeps after a look that proved nothing: what it found, where it did."""
    return Knowledge(
        starts=found.starts or known.starts,
        ids=found.ids,
        policy=found.policy or known.policy,
    )


def risen(known: Knowledge, found: Knowledge) -> Knowledge:
    """Give what a bookie keeps while it has evidence: the higher of each number.

    So the evidence stays, and a store that loses its mark by being set back once more is known by
    what was given out under the mark.
    """
    return Knowledge(
        starts=max(known.starts, found.starts),
        ids=max(known.ids, found.ids),
        policy=max(known.policy, found.policy),
    )


def merged(standing: Proofs, more: Proofs, *, limit: int) -> Proofs:
    """Add evidence to that of a mark: one of a kind a bookie, that with the highest number."""
    best: dict[tuple[BookieId, EvidenceKind], StoreEvidence] = {}
    for one in sorted((*standing, *more), key=lambda each: each.known):
        held = best.get((one.bookie, one.kind))
        if held is None or one.known > held.known:
            best[one.bookie, one.kind] = one
    named = {(one.bookie, one.kind) for one in standing}
    # What the mark names already stays named when there is too much.
    chosen = sorted(best.values(), key=lambda one: ((one.bookie, one.kind) not in named, one))
    return tuple(sorted(chosen[:limit]))
