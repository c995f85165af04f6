"""What one candidate of a log does next: open the log, hold it, give it back, or wait. Pure.

Every candidate decides alone, by what it sees: the candidates that stand, the log's record, and a
handover that a program asks for. What it sees may be old, and two may see different things. So two
candidates may open the log at the same moment. That costs a takeover, and never a message: the
claim in the record decides who writes.

The *order* of candidates: the list of zones that the longest-standing candidate has counts for all.
A candidate of an earlier zone goes first, and of one zone the one that stands longer. A candidate
whose zone is not in the list goes last. All who see the same candidates find the same order, even
if their lists differ, so no two of them take the log from each other in turn.

- A candidate that writes goes on writing while it stands, whatever its place in the order. It gives
  the log back at a rotation once a candidate of an earlier zone stands. After a handover that does
  not count candidates that stood already: they were passed over on purpose.
- If the writer of the record stands no more, or has closed the log, the first in order opens it.
- While a handover is asked for, its taker is the first of all.
- A candidate that does not stand, or does not know that its session lives, opens nothing. One that
  writes goes on: only the record ends it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from zonekeeper.placement.base.ids import ZoneName


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """A candidate as the decision sees it."""

    candidacy: str
    zone: ZoneName
    zones: tuple[ZoneName, ...]
    #: Ascends in the order in which candidates came.
    since: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenWriter:
    """What the record says of the log's writer."""

    #: 0: the log never had a writer.
    epoch: int
    #: Empty: the writer was no candidate, or has closed the log.
    candidacy: str
    #: Has the log no ledger without an end, and no candidate that would go on?
    is_closed: bool
    #: The ledger that was added last; None: there was none.
    last_ledger: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """A handover that is asked for."""

    giver: str
    taker: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldTurn:
    """What a candidate that writes knows of its own turn."""

    #: The epoch of its claim.
    epoch: int
    #: The candidacies that a handover passed over.
    passed: frozenset[str] = frozenset()
    #: The log's last ledger when it became due to give the log back; None: it is not due.
    due_ledger: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StandbyScene:
    """All that one candidate knows of a log."""

    #: The candidate's own id.
    mine: str
    #: Does its session live, as far as is known?
    in_touch: bool
    #: None: they are not known yet.
    contenders: tuple[Contender, ...] | None
    #: None: the record is not known yet, or cannot be read now.
    writer: SeenWriter | None
    wish: Wish | None = None
    #: None: this candidate does not write.
    held: HeldTurn | None = None


@dataclass(frozen=True, slots=True)
class WaitForTurn:
    """Do nothing until something changes."""


@dataclass(frozen=True, slots=True)
class OpenLog:
    """Take the log."""


@dataclass(frozen=True, slots=True)
class HoldOn:
    """Go on writing. ``due_ledger``: give the log back once a later ledger than this is there."""

    due_ledger: int | None = None


@dataclass(frozen=True, slots=True)
class GiveBack:
    """Close the log now, so that another candidate opens it."""


@dataclass(frozen=True, slots=True)
class YieldLog:
    """Stop writing at once: another writer has claimed the log."""


StandbyStep: TypeAlias = WaitForTurn | OpenLog | HoldOn | GiveBack | YieldLog


def next_step(scene: StandbyScene) -> StandbyStep:
    """Give what a candidate does now."""
    if scene.held is not None:
        return _of_the_writer(scene, scene.held)
    return _of_one_that_waits(scene)


def zones_of(contenders: Sequence[Contender]) -> tuple[ZoneName, ...]:
    """Give the list of zones that counts: that of the candidate that stands longest."""
    if not contenders:
        return ()
    return min(contenders, key=lambda one: (one.since, one.candidacy)).zones


def in_order(contenders: Sequence[Contender]) -> list[Contender]:
    """Sort candidates, the one that should write first."""
    zones = zones_of(contenders)
    return sorted(contenders, key=lambda one: (_rank(one, zones), one.since, one.candidacy))


def first_of(contenders: Sequence[Contender], wish: Wish | None) -> str | None:
    """Give the candidate that should write; None: none stands."""
    standing = {one.candidacy for one in contenders}
    if wish is not None and wish.taker in standing:
        return wish.taker
    return next((one.candidacy for one in in_order(contenders)), None)


def _rank(one: Contender, zones: tuple[ZoneName, ...]) -> int:
    return zones.index(one.zone) if one.zone in zones else len(zones)


def _of_the_writer(scene: StandbyScene, held: HeldTurn) -> StandbyStep:
    if scene.writer is not None and scene.writer.epoch > held.epoch:
        return YieldLog()
    if not scene.in_touch or scene.mine not in _standing(scene):
        return HoldOn(held.due_ledger)
    wish = scene.wish
    if wish is not None and wish.giver == scene.mine and wish.taker in _standing(scene):
        return GiveBack()
    if (wish is not None and wish.taker == scene.mine) or not _is_outranked(scene, held):
        return HoldOn()
    return _until_rotation(scene.writer, held)


def _is_outranked(scene: StandbyScene, held: HeldTurn) -> bool:
    """Does a candidate of an earlier zone stand, which no handover passed over?"""
    contenders = scene.contenders or ()
    zones = zones_of(contenders)
    mine = next(_rank(one, zones) for one in contenders if one.candidacy == scene.mine)
    return any(_rank(one, zones) < mine for one in contenders if one.candidacy not in held.passed)


def _until_rotation(writer: SeenWriter | None, held: HeldTurn) -> StandbyStep:
    """Hold on until the log has a later ledger than when the candidate of an earlier zone came."""
    if writer is None or writer.epoch != held.epoch:
        return HoldOn(held.due_ledger)  # the record as it was before this turn
    if held.due_ledger is not None and writer.last_ledger != held.due_ledger:
        return GiveBack()
    return HoldOn(writer.last_ledger)


def _standing(scene: StandbyScene) -> set[str]:
    return {one.candidacy for one in scene.contenders or ()}


def _of_one_that_waits(scene: StandbyScene) -> StandbyStep:
    writer = scene.writer
    standing = _standing(scene)
    if not scene.in_touch or writer is None or scene.mine not in standing:
        return WaitForTurn()
    if not writer.is_closed and writer.candidacy in standing:
        # A candidate writes, or its opening failed half-way: then that is this candidate's own.
        return OpenLog() if writer.candidacy == scene.mine else WaitForTurn()
    is_first = first_of(scene.contenders or (), scene.wish) == scene.mine
    return OpenLog() if is_first else WaitForTurn()
