"""What is to be done for one fragment of a ledger, and the swap that ends it. Pure.

Only a *finished* fragment is worked on: one that gets no more entries. Some of its members are to
be replaced, each for a cause:

- ``lost``: the bookie is not registered;
- ``draining``: the bookie is registered, and a person wants it empty;
- ``bad``: the bookie is registered, and its copy cannot be trusted;
- ``respread``: nothing is wrong with the copy, but another place would be better.

All of them are replaced at once, so that a dead neighbour never counts towards the spread of the
living. A repair never makes placement worse than it found it. A good copy moves only where the new
ensemble is judged at least as well as the old one. For a lost copy any ensemble that keeps the
rules will do, because the zones that are left may not allow the best level any more.

A good copy may also move to a member that leaves another position (``adhere``). That member keeps
what it holds. So in a swap of places, too, every entry has its write quorum before the swap, by the
old ensemble, and after it, by the new one. A reader that goes by the old ensemble finds each entry.

The members that stay, or the ledger's own quorums, may break today's rules already. Then no
newcomer can make the ensemble legal, and waiting does not help: the copies are restored as well as
can be.
"""

import enum
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from zonekeeper.metadata.formats import ledger_metadata
from zonekeeper.metadata.formats.ledger_metadata import Fragment, LedgerMetadata
from zonekeeper.placement.base.chance import Chance
from zonekeeper.placement.base.ids import BookieId, EntryId
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.placement.base.topology import Topology
from zonekeeper.placement.base.troubles import Trouble
from zonekeeper.placement.ensembles import adherence, selector
from zonekeeper.placement.ensembles.candidates import EnsembleRequest
from zonekeeper.placement.ensembles.failures import (
    Constraint,
    IllegalPlacement,
    NotEnoughBookies,
    PlacementError,
)


class Cause(enum.StrEnum):
    """Why bytes are moved: a label of the counters."""

    LOST = "lost"
    DRAINING = "draining"
    BAD = "bad"
    #: Entries are missing in a copy that is good otherwise. They are put in, and no member leaves.
    HOLES = "holes"
    RESPREAD = "respread"


#: Causes for which the leaving copy is good, and counts as a copy until the swap.
_ALIVE = frozenset({Cause.DRAINING, Cause.RESPREAD})


class LowersPlacementError(PlacementError):
    """A good copy would leave, and the ensemble chosen is judged worse than the present one."""

    retryable = True


class OvertakenError(Trouble):
    """The fragment is not what the work was done for: another process changed it meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A fragment that gets no more entries.

    Its entries are ``fragment.first_entry <= entry_id <= last``. There may be none.
    """

    fragment: Fragment
    last: EntryId

    @property
    def entries(self) -> range:
        """The ids of its entries."""
        return range(self.fragment.first_entry, self.last + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """Entries of one fragment that have the same write set."""

    wanted: range
    #: The positions of the write set.
    holders: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Owed:
    """Entries that are to be copied before an ensemble is swapped in."""

    share: Share
    #: The positions whose new bookies are no holders of these entries yet.
    positions: tuple[int, ...]


def finished(ledger: LedgerMetadata) -> tuple[Finished, ...]:
    """Give the fragments that get no more entries, empty ones included."""
    ends = [EntryId(after.first_entry - 1) for after in ledger.fragments[1:]]
    if ledger.is_closed:
        ends.append(ledger.last_entry)
    pairs = zip(ledger.fragments, ends, strict=False)
    return tuple(Finished(fragment=fragment, last=last) for fragment, last in pairs)


def stripes(quorums: Quorums, wanted: range) -> Iterator[range]:
    """Divide entries into ranges; all entries of a range have the same write set."""
    step = 1 if quorums.ensemble == quorums.write else quorums.ensemble
    return (wanted[at::step] for at in range(min(step, len(wanted))))


def shares(quorums: Quorums, part: Finished, positions: Collection[int]) -> Iterator[Share]:
    """Give the shares of a fragment that at least one of ``positions`` holds."""
    for wanted in stripes(quorums, part.entries):
        holders = quorums.write_set(EntryId(wanted[0]))
        if any(position in holders for position in positions):
            yield Share(wanted=wanted, holders=holders)


def owed(
    quorums: Quorums, part: Finished, after: tuple[BookieId, ...], joined: Collection[int]
) -> Iterator[Owed]:
    """Give what the bookies that ``after`` names at the positions ``joined`` must get.

    A bookie that changes places holds its old share. It gets no entry of which it is a holder now.
    """
    now = part.fragment.ensemble
    for share in shares(quorums, part, joined):
        have = {now[position] for position in share.holders}
        to = tuple(at for at in share.holders if at in joined and after[at] not in have)
        if to:
            yield Owed(share=share, positions=to)


def causes(
    ensemble: tuple[BookieId, ...], named: Collection[BookieId], topology: Topology
) -> dict[int, Cause | None]:
    """Give ``cause_of`` each member that is ``named``, by its position in the ensemble."""
    return {
        position: cause_of(bookie, topology)
        for position, bookie in enumerate(ensemble)
        if bookie in named
    }


def cause_of(bookie_id: BookieId, topology: Topology) -> Cause | None:
    """Say whether a bookie is lost or draining; None: it is registered, and not draining."""
    bookie = topology.get(bookie_id)
    if bookie is None or not bookie.readable:
        return Cause.LOST
    return Cause.DRAINING if bookie.draining else None


def replacement(
    request: EnsembleRequest,
    ensemble: tuple[BookieId, ...],
    leaving: Mapping[int, Cause],
    preferred: Collection[BookieId],
    chance: Chance,
) -> tuple[BookieId, ...]:
    """Give the ensemble after the repair; raises ``PlacementError`` if there is none.

    A ``preferred`` bookie joins instead of the chosen one if the ensemble with it is judged at
    least as well. A caller that prefers the members of the neighbouring fragments keeps a ledger on
    few bookies.
    """
    chosen = _choose(request, ensemble, leaving, chance).ensemble
    for position in leaving:
        chosen = _with_preferred(request, chosen, position, (*preferred, chosen[position]))
    if _ALIVE.intersection(leaving.values()):
        before, after = _judge(request, ensemble), _judge(request, chosen)
        if after.level < before.level:
            names = ", ".join(ensemble[position] for position in leaving)
            raise LowersPlacementError(
                f"without {names} the ensemble would be {after.level.name} where it is "
                f"{before.level.name} ({'; '.join(after.reasons)}); add bookies where they are few"
            )
    return chosen


def _with_preferred(
    request: EnsembleRequest,
    chosen: tuple[BookieId, ...],
    position: int,
    joining: Collection[BookieId],
) -> tuple[BookieId, ...]:
    """Put the first bookie of ``joining`` at a position that does not lower the ensemble's level.

    ``chosen[position] in joining``, so there is one.
    """
    level = _judge(request, chosen).level
    others = {bookie for at, bookie in enumerate(chosen) if at != position}
    for bookie in joining:
        with_it = (*chosen[:position], bookie, *chosen[position + 1 :])
        if bookie == chosen[position] or (
            bookie not in others
            and _may_join(request, bookie)
            and _judge(request, with_it).level >= level
        ):
            return with_it
    raise AssertionError("the chosen bookie is among them")


def _judge(request: EnsembleRequest, ensemble: tuple[BookieId, ...]) -> adherence.Adherence:
    return adherence.judge(ensemble, request.quorums, request.rules, request.topology)


def _may_join(request: EnsembleRequest, bookie_id: BookieId) -> bool:
    """May a bookie be chosen without a concession?"""
    avoid, bookie = request.avoid, request.topology.get(bookie_id)
    return (
        bookie is not None
        and bookie.accepts_ensembles
        and bookie_id not in avoid.bookies | avoid.quarantined
        and bookie.location is not None
        and bookie.location.zone in request.rules.zones
        and bookie.location.zone not in avoid.zones
    )


def _choose(
    request: EnsembleRequest,
    ensemble: tuple[BookieId, ...],
    positions: Collection[int],
    chance: Chance,
) -> selector.Choice:
    try:
        return selector.replace(request, ensemble, positions, chance)
    except IllegalPlacement:
        pass
    except NotEnoughBookies as error:
        if error.constraint is not Constraint.KEPT_MEMBERS:
            raise
    relaxed = replace(request, rules=replace(request.rules, strict=False))
    return selector.replace(relaxed, ensemble, positions, chance)


def swapped(
    ledger: LedgerMetadata, before: Fragment, after: tuple[BookieId, ...]
) -> LedgerMetadata | None:
    """Give the ledger with ``after`` as the fragment's ensemble; None: it is that already.

    The newcomers must have their copies. Raises ``OvertakenError`` if the fragment's ensemble is
    neither that of ``before`` nor ``after``: ``after`` was chosen for all members of ``before``.
    """
    first = before.first_entry
    now = next((one.ensemble for one in ledger.fragments if one.first_entry == first), None)
    if now == after:
        return None
    if now != before.ensemble:
        raise OvertakenError(
            f"the fragment from entry {first} is on {', '.join(now or ('no bookie',))} now, "
            f"and was on {', '.join(before.ensemble)}"
        )
    new_by_old = {old: new for old, new in zip(before.ensemble, after, strict=True) if old != new}
    return ledger_metadata.replicas_replaced(ledger, first, new_by_old)
