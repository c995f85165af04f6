"""A ledger's metadata rebuilt from the hints of bookies: what is certain, what is inferred. Pure.

A bookie's hints of a ledger are what writers told it: quorums, digest, master key, and the first
entry and the ensemble of each fragment that was opened there. Only its newcomers are told of an
ensemble change. So a fragment may be known to a single bookie, and **hints of every bookie are
needed**.

Quorums, digest, master key and create token are certain, if all hints that have them agree. The
token must be the ledger's own: bookies take a ledger with another one for another ledger. It is
made up only if no hint has it. The password is not in the hints; a given password is right if it
makes the master key. The end of the ledger is not in
the hints either. So the ledger is rebuilt as IN_RECOVERY: no writer goes on with it, and a recovery
finds its end. Entries that were never acknowledged may then count. An acknowledged entry must not
be lost:

* A recovery reads from the *last* ensemble only. "Not here" from enough of its members is an answer
  to it. But the hints may name an ensemble as the last one that was never published (a recovery
  failed), or two ensembles that begin at one entry. So the last ensemble is **sure** only under
  this condition: take each member of another ensemble that is not at the same position of the last
  one; it must hold no entry from the beginning of the last one on. Then every acknowledged entry is
  on as many members of the last ensemble as its acknowledgement needed, whichever ensemble it was
  written to. A bookie that gave no hints, or is in limbo, may hold any entry, and may be the only
  one that was told of a later fragment.
* If such entries may be on members of *earlier* fragments only, the last ensemble is still sure if
  no recovery can have got past its fencing: if too many members of each earlier ensemble are not
  fenced. Of two ensembles that begin at the same entry, neither becomes sure in this way.

Metadata that is not sure is **doubtful**: it is written only if a person asks for it. Metadata that
would be a guess (different keys, no password, an unknown beginning) is **blocked**, and is never
written.
"""

import dataclasses
import enum
import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from zonekeeper.metadata.formats import ledger_format, placement_stamp
from zonekeeper.metadata.formats.ledger_metadata import Fragment, LedgerMetadata, LedgerState
from zonekeeper.metadata.saving.rebuilding_format import FragmentHint, LedgerHints
from zonekeeper.placement.base.ids import NO_ENTRY, BookieId, EntryId, LedgerId
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.placement.policy.rules import PlacementRules

#: A sentence names at most this many bookies.
_NAMED_MAX: Final = 5
_TOKEN_BITS: Final = 62


class RebuildVerdict(enum.Enum):
    """May the metadata be written?"""

    SURE = "sure"
    DOUBTFUL = "doubtful"
    BLOCKED = "blocked"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebuilt:
    """The metadata that was rebuilt from the hints of one ledger, and its verdict."""

    ledger_id: LedgerId
    #: None if and only if it is blocked.
    metadata: LedgerMetadata | None
    #: The reasons for the verdicts blocked and doubtful.
    blocked: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    #: The choices that were made where the hints do not agree, or say nothing.
    inferred: tuple[str, ...] = ()
    #: If no bookie is missing, the ledger's last entry is in the range ``lac <= last <= highest``.
    lac: EntryId
    #: See ``lac``.
    highest: EntryId

    @property
    def verdict(self) -> RebuildVerdict:
        """May the metadata be written?"""
        if self.blocked:
            return RebuildVerdict.BLOCKED
        return RebuildVerdict.DOUBTFUL if self.doubts else RebuildVerdict.SURE


class _Chosen(NamedTuple):
    """The ensemble of a fragment, and the other ensembles that hints name for its first entry."""

    first_entry: EntryId
    ensemble: tuple[BookieId, ...]
    rivals: tuple[tuple[BookieId, ...], ...]


def keys_of(passwords: Iterable[bytes]) -> dict[bytes, bytes]:
    """Give the passwords by the master keys that Apache BookKeeper makes from them."""
    return {
        hashlib.sha1(b"ledger" + password).digest(): password  # noqa: S324 Apache's choice
        for password in passwords
    }


def rebuild(
    ledger_id: LedgerId,
    told: Mapping[BookieId, LedgerHints],
    *,
    reporters: Collection[BookieId],
    known: Collection[BookieId],
    passwords: Mapping[bytes, bytes],
) -> Rebuilt:
    """Rebuild a ledger from the hints of bookies.

    ``told`` has the hints of this ledger. ``reporters`` are the bookies that gave hints, of this
    ledger or not. ``known`` are bookies that are known to exist. ``passwords`` are those to try, by
    their keys.
    """
    lac = max((hints.lac for hints in told.values()), default=NO_ENTRY)
    highest = max((_last(hints) for hints in told.values()), default=NO_ENTRY)
    openings = [fragment for hints in told.values() for fragment in hints.fragments]
    password = passwords.get(_key(told) or b"")
    if blocked := _blocked(told, openings, password):
        return Rebuilt(
            ledger_id=ledger_id, metadata=None, blocked=blocked, lac=lac, highest=highest
        )
    assert password is not None, "a ledger without its password is blocked"
    chosen = _choose(told)
    named = {bookie for opening in openings for bookie in opening.ensemble}
    missing = (named | {*known}) - {*reporters}
    return Rebuilt(
        ledger_id=ledger_id,
        metadata=_metadata(ledger_id, openings[0], chosen, password, _tokens(told)),
        doubts=_doubts(told, chosen, openings[0].quorums, missing),
        inferred=_inferred(told, chosen),
        lac=lac,
        highest=highest,
    )


def _blocked(
    told: Mapping[BookieId, LedgerHints], openings: Sequence[FragmentHint], password: bytes | None
) -> tuple[str, ...]:
    if not openings:
        return ("no bookie has a hint of a fragment of it: quorums and ensembles are not known",)
    quorums = {bookie: {f.quorums for f in hints.fragments} for bookie, hints in told.items()}
    digests = {bookie: {f.digest for f in hints.fragments} for bookie, hints in told.items()}
    keys = {bookie: {hints.master_key} - {None} for bookie, hints in told.items()}
    problems = [
        f"the hints have different {what}: " + _says(said)
        for what, said in (("quorums", quorums), ("digests", digests))
        if len(set[object]().union(*said.values())) > 1
    ]
    if len(_tokens(told)) > 1:
        problems.append("the hints have different create tokens: they are of several ledgers")
    if len(set[object]().union(*keys.values())) > 1:
        problems.append(f"the hints have different master keys: {_names(_telling(keys))}")
    elif password is None:
        problems.append("none of the passwords that were given is its password")
    if min(opening.first_entry for opening in openings) > 0:
        problems.append("no hint has its first fragment: hints of a bookie are missing")
    if any(len(set(opening.ensemble)) < len(opening.ensemble) for opening in openings):
        problems.append("an ensemble names a bookie twice")
    return tuple(problems)


def _choose(told: Mapping[BookieId, LedgerHints]) -> list[_Chosen]:
    """Choose an ensemble for each beginning: the one with most members that hold entries of it."""
    by_first: dict[EntryId, set[tuple[BookieId, ...]]] = {}
    for hints in told.values():
        for opening in hints.fragments:
            by_first.setdefault(opening.first_entry, set()).add(opening.ensemble)
    chosen = []
    for first in sorted(by_first):

        def worth(ensemble: tuple[BookieId, ...], first: EntryId = first) -> tuple[int, int]:
            members = [told[bookie] for bookie in ensemble if bookie in told]
            holding = sum(_last(hints) >= first for hints in members)
            return holding, sum(_was_told(hints, first, ensemble) for hints in members)

        ensembles = sorted(by_first[first])
        best = max(ensembles, key=worth)
        rivals = tuple(each for each in ensembles if each != best)
        chosen.append(_Chosen(first, best, rivals))
    return chosen


def _doubts(
    told: Mapping[BookieId, LedgerHints],
    chosen: Sequence[_Chosen],
    quorums: Quorums,
    missing: Collection[BookieId],
) -> tuple[str, ...]:
    doubts = []
    if missing:
        doubts.append(
            f"{_names(missing)} gave no hints: a later fragment, or acknowledged entries, may be "
            "known there only"
        )
    if forgetful := [bookie for bookie, hints in told.items() if hints.in_limbo]:
        doubts.append(
            f"{_names(forgetful)} lost data of it (limbo), and with it perhaps the hint of a later "
            "fragment"
        )
    last = chosen[-1]

    def strays(others: Iterable[tuple[BookieId, ...]]) -> list[BookieId]:
        """Give the members of other ensembles, not at that position of the last, with entries."""
        beside = {
            bookie
            for other in others
            for bookie, here in zip(other, last.ensemble, strict=True)
            if bookie != here
        }
        return sorted(
            bookie
            for bookie in beside
            if bookie in missing or (bookie in told and _last(told[bookie]) >= last.first_entry)
        )

    if found := strays(last.rivals):
        doubts.append(
            f"more than one ensemble was named from entry {last.first_entry} on, and "
            f"{_names(found)} may hold acknowledged entries beside {_names(last.ensemble)}"
        )
    before = [each for part in chosen[:-1] for each in (part.ensemble, *part.rivals)]
    found = strays(before)
    if found and not all(_unfenced(told, ensemble, quorums) for ensemble in before):
        doubts.append(
            f"the ledger may have been recovered: whether its last ensemble, from entry "
            f"{last.first_entry} on, was ever published is not known, and {_names(found)} may "
            "hold acknowledged entries beside it"
        )
    return tuple(doubts)


def _unfenced(
    told: Mapping[BookieId, LedgerHints], ensemble: tuple[BookieId, ...], quorums: Quorums
) -> bool:
    """Is it proven that no recovery of this ensemble got past its fencing?

    A recovery goes on when in each write set the unfenced members are fewer than the ack quorum.
    """
    free = {
        position
        for position, bookie in enumerate(ensemble)
        if bookie in told and not told[bookie].fenced
    }
    sets = (quorums.write_set(EntryId(start)) for start in range(quorums.ensemble))
    return any(len(free.intersection(each)) >= quorums.ack for each in sets)


def _inferred(told: Mapping[BookieId, LedgerHints], chosen: Sequence[_Chosen]) -> tuple[str, ...]:
    inferred = ["state IN_RECOVERY; a recovery finds its end"]
    for part in chosen:
        inferred += [
            f"from entry {part.first_entry} on {_names(part.ensemble)}, and not {_names(rival)}, "
            f"which the hints of {_names(_who_say(told, part.first_entry, rival))} name"
            for rival in part.rivals
        ]
    return tuple(inferred)


def _metadata(
    ledger_id: LedgerId,
    opening: FragmentHint,
    chosen: Sequence[_Chosen],
    password: bytes,
    tokens: Collection[int],
) -> LedgerMetadata:
    quorums = opening.quorums
    # The stamp claims no more than the hints prove. Version 0 is the version of no policy.
    proven = PlacementRules(
        zones=(), min_zones=quorums.ack_zones, desired_zones=quorums.ack_zones, strict=False
    )
    stamp = placement_stamp.render(quorums, proven, 0)
    metadata = LedgerMetadata(
        ensemble_size=quorums.ensemble,
        write_quorum=quorums.write,
        ack_quorum=quorums.ack,
        fragments=tuple(Fragment(part.first_entry, part.ensemble) for part in chosen),
        digest=opening.digest,
        password=password,
        state=LedgerState.IN_RECOVERY,
        custom=((placement_stamp.KEY, stamp),),
    )
    if tokens:
        return dataclasses.replace(metadata, create_token=min(tokens))
    # The same hints give the same token, so that an interrupted rebuild can be run again.
    summed = hashlib.sha256(b"%d " % ledger_id + ledger_format.render(metadata)).digest()
    token = int.from_bytes(summed, "big") >> (len(summed) * 8 - _TOKEN_BITS)
    return dataclasses.replace(metadata, create_token=token or 1)


def _key(told: Mapping[BookieId, LedgerHints]) -> bytes | None:
    return next((h.master_key for h in told.values() if h.master_key is not None), None)


def _tokens(told: Mapping[BookieId, LedgerHints]) -> set[int]:
    return {hints.create_token for hints in told.values() if hints.create_token}


def _last(hints: LedgerHints) -> EntryId:
    return NO_ENTRY if hints.last_entry is None else hints.last_entry


def _was_told(hints: LedgerHints, first: EntryId, ensemble: tuple[BookieId, ...]) -> bool:
    return any(f.first_entry == first and f.ensemble == ensemble for f in hints.fragments)


def _who_say(
    told: Mapping[BookieId, LedgerHints], first: EntryId, ensemble: tuple[BookieId, ...]
) -> list[BookieId]:
    return [bookie for bookie in sorted(told) if _was_told(told[bookie], first, ensemble)]


def _says(said: Mapping[BookieId, Collection[object]]) -> str:
    return "; ".join(
        f"{bookie} {' and '.join(sorted(map(str, values)))}"
        for bookie, values in sorted(said.items())
        if values
    )


def _telling(said: Mapping[BookieId, Collection[object]]) -> list[BookieId]:
    return sorted(bookie for bookie, values in said.items() if values)


def _names(bookies: Collection[BookieId]) -> str:
    shown = ", ".join(sorted(bookies)[:_NAMED_MAX])
    more = len(bookies) - _NAMED_MAX
    return f"{shown} and {more} more" if more > 0 else shown
