"""A ledger's metadata from what bookies remember of it: what is certain, what is inferred. Pure.

A bookie remembers of a ledger what writers told it: quorums, digest, master key, and of each
fragment that was opened there its first entry and ensemble. An ensemble change tells the newcomers
only, so a fragment may be known to a single bookie: **hints must be had from every bookie**.

Certain, if all who say it say the same: quorums, digest, master key. The password is not in the
hints; one that makes the master key is the right one. Where the ledger ends is nowhere: it is
rebuilt as IN_RECOVERY, so that no writer goes on with it, and a recovery finds the end. Entries
that were never acknowledged may come to count; one that was must not be lost:

* A recovery reads from the *last* ensemble alone, and takes "not here" from enough of its members
  for an answer. The hints may name as last an ensemble that was never published (a recovery died),
  or two that begin at one entry. So the last ensemble is **sure** only if no member of another one,
  that is not a member at the same place of this one, may hold an entry from its beginning on: then
  every acknowledged entry is held by as many members as its acknowledgement needed, whichever
  ensemble it was. Who gave no hints, or is in limbo, may hold anything, and may alone have been
  told of a later fragment.
* Without that, a later beginning is still sure if no recovery can have got anywhere: if too many
  members of each ensemble before are not fenced.

What is not sure is **doubtful**: it is written only if a person asks for it. What would be a guess
(another key, no password, an unknown beginning) is **blocked** and never written.
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

#: So many bookies are named in a sentence.
_NAMED_MAX: Final = 5
_TOKEN_BITS: Final = 62


class RebuildVerdict(enum.Enum):
    """May it be written?"""

    SURE = "sure"
    DOUBTFUL = "doubtful"
    BLOCKED = "blocked"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebuilt:
    """What came of the hints of one ledger."""

    ledger_id: LedgerId
    #: None exactly if it is blocked.
    metadata: LedgerMetadata | None
    #: Why it is blocked, or doubtful.
    blocked: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    #: What was chosen where the hints do not agree, or do not say.
    inferred: tuple[str, ...] = ()
    #: The end lies from here ...
    lac: EntryId
    #: ... to here, if no bookie is missing.
    highest: EntryId

    @property
    def verdict(self) -> RebuildVerdict:
        """May it be written?"""
        if self.blocked:
            return RebuildVerdict.BLOCKED
        return RebuildVerdict.DOUBTFUL if self.doubts else RebuildVerdict.SURE


class _Chosen(NamedTuple):
    """The ensemble of a fragment, and the others that were named for its first entry."""

    first_entry: EntryId
    ensemble: tuple[BookieId, ...]
    rivals: tuple[tuple[BookieId, ...], ...]


def keys_of(passwords: Iterable[bytes]) -> dict[bytes, bytes]:
    """Give the passwords by the master keys that Apache BookKeeper makes of them."""
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
    """Rebuild a ledger from what bookies told of it.

    ``reporters`` gave hints, of this ledger or not; ``known`` are all others of which is known that
    they exist. ``passwords`` are those to try, by their keys.
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
        metadata=_metadata(ledger_id, openings[0], chosen, password),
        doubts=_doubts(told, chosen, openings[0].quorums, missing),
        inferred=_inferred(told, chosen),
        lac=lac,
        highest=highest,
    )


def _blocked(
    told: Mapping[BookieId, LedgerHints], openings: Sequence[FragmentHint], password: bytes | None
) -> tuple[str, ...]:
    if not openings:
        return ("no bookie was told of a fragment of it: quorums and ensembles are not known",)
    quorums = {bookie: {f.quorums for f in hints.fragments} for bookie, hints in told.items()}
    digests = {bookie: {f.digest for f in hints.fragments} for bookie, hints in told.items()}
    keys = {bookie: {hints.master_key} - {None} for bookie, hints in told.items()}
    problems = [
        f"bookies were told different {what}: " + _says(said)
        for what, said in (("quorums", quorums), ("digests", digests))
        if len(set[object]().union(*said.values())) > 1
    ]
    if len(set[object]().union(*keys.values())) > 1:
        problems.append(f"bookies were shown different master keys: {_names(_telling(keys))}")
    elif password is None:
        problems.append("none of the passwords that were given is its password")
    if min(opening.first_entry for opening in openings) > 0:
        problems.append("nobody knows its first fragment: hints of a bookie are missing")
    if any(len(set(opening.ensemble)) < len(opening.ensemble) for opening in openings):
        problems.append("an ensemble names a bookie twice")
    return tuple(problems)


def _choose(told: Mapping[BookieId, LedgerHints]) -> list[_Chosen]:
    """Choose an ensemble for each beginning: the one of which most members hold something of it."""
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
            f"{_names(forgetful)} lost data of it (limbo), and with it may have lost what it was "
            "told of a later fragment"
        )
    last = chosen[-1]

    def strays(others: Iterable[tuple[BookieId, ...]]) -> list[BookieId]:
        """Give who, in another ensemble and not at that place of the last, may hold its entries."""
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

    A recovery goes on when each write set holds too few for an acknowledgement that are not fenced.
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
            f"as {_names(_who_say(told, part.first_entry, rival))} was told"
            for rival in part.rivals
        ]
    return tuple(inferred)


def _metadata(
    ledger_id: LedgerId, opening: FragmentHint, chosen: Sequence[_Chosen], password: bytes
) -> LedgerMetadata:
    quorums = opening.quorums
    # The stamp claims no more than the hints prove; no policy has version 0.
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
    # The same hints make the same token, so that a rebuild that was cut short is run again.
    summed = hashlib.sha256(b"%d " % ledger_id + ledger_format.render(metadata)).digest()
    token = int.from_bytes(summed, "big") >> (len(summed) * 8 - _TOKEN_BITS)
    return dataclasses.replace(metadata, create_token=token or 1)


def _key(told: Mapping[BookieId, LedgerHints]) -> bytes | None:
    return next((h.master_key for h in told.values() if h.master_key is not None), None)


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
