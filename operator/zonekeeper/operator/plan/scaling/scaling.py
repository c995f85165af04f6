"""A scale-down: what it does next, what it waits for, and what it notes. Pure.

One bookie at a time, in this order:

1. The smaller number is accepted, and noted. All gates hold, and no roll is under way.
2. The order to remove the bookie is given, in the name of the resource. Its claims are noted.
3. Autorecovery empties the bookie. If the bookie dies meanwhile, its copies are made from others.
4. The order says that it is emptied, and a listing of the operator's own names it nowhere: its
   StatefulSet gets one replica less (``taking``).
5. It is registered no more. Autorecovery lists the ledgers once more, and removes order, record and
   cookie in one transaction.
6. Its pod is gone, and a listing names it nowhere: its claims are deleted, or get a label that says
   whose they were.

Of a zone that leaves, all bookies go so, once the policy does not name it any more; its copies come
to the zones that stay. Its objects and its record go after the last bookie (``taken_back``). The
zone is noted until then.

If the resource asks for the bookie again, the order is taken back, and nothing is deleted. Where
the order has ended just before, the bookie comes back once its old claims are settled: a bookie
does not start on the disk of one that was removed.

At most one bookie is emptied because of the resource, and no step of a roll begins meanwhile: the
roll waits while any bookie drains, and a scale-down waits while anything is to be rolled.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, TypeAlias, assert_never

from zonekeeper.operator.cluster import owned_objects
from zonekeeper.operator.cluster.choices import OnScaleDown
from zonekeeper.operator.cluster.desired import Desired
from zonekeeper.operator.kubernetes.api import ZONE_LABEL
from zonekeeper.operator.plan.predicates import Predicate, Waiting
from zonekeeper.operator.plan.scaling import leaving, scale_gates, scale_memory, zone_naming
from zonekeeper.operator.plan.scaling.scale_memory import (
    LeavingBookie,
    NotedClaim,
    ScaleMemory,
)
from zonekeeper.operator.roll import memory
from zonekeeper.operator.roll.rolling import RollProgress
from zonekeeper.operator.roots.roots import RootFound
from zonekeeper.operator.sight import holdings
from zonekeeper.operator.sight.observed import Observed
from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.placement.zones.bookie_orders import BookieOrder, OrderPhase

#: In these phases an order waits for more than time.
_STUCK: Final = frozenset(
    {OrderPhase.HELD, OrderPhase.STUCK, OrderPhase.RESTORED, OrderPhase.ANOTHER}
)


@dataclass(frozen=True, slots=True)
class GiveOrder:
    """Give the order to remove this bookie."""

    bookie: BookieId


@dataclass(frozen=True, slots=True)
class ReturnOrder:
    """Take this very order back."""

    bookie: BookieId
    token: str


@dataclass(frozen=True, slots=True)
class DropClaim:
    """Delete this very claim, and with it the volume."""

    claim: NotedClaim


@dataclass(frozen=True, slots=True)
class LabelClaim:
    """Let this very claim say that its bookie was removed."""

    claim: NotedClaim
    bookie: BookieId


ScaleMove: TypeAlias = GiveOrder | ReturnOrder | DropClaim | LabelClaim


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleProgress:
    """What one turn decides about a scale-down."""

    moves: tuple[ScaleMove, ...] = ()
    #: What is waited for; None: nothing, or the moves.
    waiting: Waiting | None = None
    notes: ScaleMemory = field(default_factory=ScaleMemory)
    #: The bookies that are left to go, in order.
    steps: tuple[BookieId, ...] = ()
    #: The roll goes first.
    yields: bool = False
    #: No more bookies run than are asked for, as far as is known; None: the root was not read.
    is_done: bool | None = True


def is_wanted(desired: Desired, observed: Observed) -> bool:
    """Is there perhaps something to do? Then the look reads what planned work asks."""
    runs = any(holdings.run_beyond(desired, observed.replicas).values())
    notes = scale_memory.read(observed.status)
    return runs or bool(notes.leaving) or bool(notes.zones)


def decide(desired: Desired, observed: Observed, roll: RollProgress) -> ScaleProgress:
    """Decide what a scale-down does now."""
    root = leaving.own_root(observed)
    if root is None:
        return _unseen(desired, observed)
    return _ScaleDown(desired, observed, roll, root).decide()


def _unseen(desired: Desired, observed: Observed) -> ScaleProgress:
    """Change nothing while the root is not read, or is not this cluster's."""
    notes = scale_memory.read(observed.status)
    runs = [one for bookies in leaving.running(desired, observed).values() for one in bookies]
    if not runs and not notes.leaving and not notes.zones:
        return ScaleProgress(notes=notes)
    return ScaleProgress(notes=notes, is_done=None)


class _ScaleDown:
    """One decision; it is thrown away afterwards."""

    def __init__(
        self, desired: Desired, observed: Observed, roll: RollProgress, root: RootFound
    ) -> None:
        self._desired = desired
        self._observed = observed
        self._roll = roll
        self._root = root
        self._before = scale_memory.read(observed.status)
        self._runs = {
            one for bookies in leaving.running(desired, observed).values() for one in bookies
        }
        self._is_accepted = leaving.is_accepted(desired, observed)
        accepted = leaving.accepted_sets(desired, observed)
        self._steps = tuple(
            one
            for one in leaving.beyond(desired, observed, root)
            if leaving.set_of(one) in accepted
        )
        self._zones = tuple(
            zone for zone in leaving.zones_going(desired, observed) if not self._has_left(zone)
        )

    def decide(self) -> ScaleProgress:
        """Decide."""
        kept = [*self._ordered()]
        moves: list[ScaleMove] = [*self._back()]
        waiting: Waiting | None = None
        for one in self._settling():
            found, why = self._settle(one)
            moves += found
            if found or why:
                kept.append(one)
            waiting = waiting or (Waiting(Predicate.REMOVING, why) if why else None)
        if moves or waiting is not None:
            return self._found(kept, moves=moves, waiting=waiting)
        if (waiting := self._under_way()) is not None:
            return self._found(kept, waiting=waiting)
        bookie = next((one for one in self._steps if not self._has_order(one)), None)
        if bookie is None:
            is_done = not self._steps and not self._runs and not self._zones
            return self._found(kept, waiting=self._last_of_zones(), is_done=is_done)
        return self._next(bookie, kept)

    def _next(self, bookie: BookieId, kept: list[LeavingBookie]) -> ScaleProgress:
        """Give the next bookie its order, or say what it waits for."""
        zone = leaving.zone_of(self._desired, bookie)
        named = zone_naming.still_named(self._desired, self._observed, zone)
        if named is not None and zone in self._zones:
            told = f"{bookie} is the next to go, and waits:\n{named}"
            waiting = Waiting(Predicate.REMOVAL_WAITS, told)
            return self._found(kept, waiting=waiting, yields=self._is_rolling())
        if self._is_rolling():
            why = "the roll goes first: see the condition Rolling"
            waiting = Waiting(Predicate.REMOVAL_WAITS, f"{bookie} is the next to go; {why}")
            return self._found(kept, waiting=waiting, yields=True)
        gates = list(scale_gates.waits(self._desired, self._observed, self._roll.sets, bookie))
        if gates:
            why = "\n".join((f"{bookie} is the next to go, and waits:", *gates))
            return self._found(kept, waiting=Waiting(Predicate.REMOVAL_WAITS, why))
        kept.append(self._noted(bookie))
        return self._found(kept, moves=[GiveOrder(bookie)])

    def _found(
        self,
        kept: list[LeavingBookie],
        *,
        moves: list[ScaleMove] | None = None,
        waiting: Waiting | None = None,
        yields: bool = False,
        is_done: bool = False,
    ) -> ScaleProgress:
        asked = holdings.places(self._desired)
        left = (*self._steps, *self._runs)
        is_over = not any(leaving.set_of(one) in asked for one in left)
        target = self._desired.bookies_per_zone if self._is_accepted and not is_over else None
        return ScaleProgress(
            moves=tuple(moves or ()),
            waiting=waiting,
            notes=ScaleMemory(
                target=target, zones=self._zones, leaving=tuple(sorted(kept, key=_by_name))
            ),
            steps=self._steps,
            yields=yields,
            is_done=is_done,
        )

    def _is_rolling(self) -> bool:
        """Has the roll something to do, or is a step noted that has not ended?"""
        is_noted = memory.read(self._observed.status).step is not None
        return is_noted or not self._roll.is_done or bool(self._roll.moves)

    def _has_left(self, zone: ZoneName) -> bool:
        """Is nothing left of a zone that leaves: no bookie, no object, no record?"""
        observed, work = self._observed, self._root.work
        if work is None or zone in work.zone_records:
            return False
        labels = (
            item["metadata"].get("labels", {}).get(ZONE_LABEL)
            for items in (observed.sets, observed.deployments)
            for item in items.values()
        )
        return zone not in labels and leaving.is_cleared(self._desired, observed, zone)

    def _last_of_zones(self) -> Waiting | None:
        """Say that the objects and records of zones that leave go now; None: no zone leaves."""
        if not self._zones or self._steps:
            return None
        zones = leaving.listed(self._zones)
        return Waiting(Predicate.REMOVING, f"zone {zones}: its objects and its record go")

    # orders

    def _has_order(self, bookie: BookieId) -> bool:
        return leaving.is_to_remove(self._root.orders.get(bookie))

    def _back(self) -> Iterator[ReturnOrder]:
        """Take back what this resource ordered about bookies that it asks for."""
        for bookie, order in sorted(self._root.orders.items()):
            if (
                isinstance(order, BookieOrder)
                and order.taken_back is None
                and leaving.is_ours(order, self._observed)
                and leaving.is_asked_for(self._desired, bookie)
            ):
                yield ReturnOrder(bookie, order.token)

    def _under_way(self) -> Waiting | None:
        """Say what the orders that stand wait for; None: the next bookie may get its order.

        A bookie that is emptied and runs below another one that is to go waits for that one.
        """
        for bookie in self._steps:
            if isinstance(unreadable := self._root.orders.get(bookie), str):
                why = f"{bookie}: the record of its order cannot be read: {unreadable}"
                return Waiting(Predicate.REMOVAL_STUCK, why)
        for bookie in self._steps:
            order = self._root.orders.get(bookie)
            if not isinstance(order, BookieOrder) or not leaving.is_to_remove(order):
                continue
            if not (leaving.is_emptied(order) and bookie in self._runs and self._is_below(bookie)):
                return _told(bookie, order, is_running=bookie in self._runs)
        return None

    def _is_below(self, bookie: BookieId) -> bool:
        name, ordinal = leaving.set_of(bookie), leaving.ordinal_of(bookie)
        return self._observed.replicas.get(name, 0) > ordinal + 1

    # claims

    def _ordered(self) -> Iterator[LeavingBookie]:
        """Give the notes of the bookies that have an order."""
        for bookie in self._steps:
            if self._has_order(bookie):
                yield self._noted(bookie)

    def _noted(self, bookie: BookieId) -> LeavingBookie:
        claims = self._observed.claims
        found = tuple(
            NotedClaim(name=name, uid=claims[name].uid)
            for name in owned_objects.claim_names(bookie)
            if name in claims and claims[name].instance == self._root.instance
        )
        return LeavingBookie(bookie=bookie, claims=found)

    def _settling(self) -> Iterator[LeavingBookie]:
        """Give the notes of the bookies whose orders have ended with their cookies."""
        gone = {*leaving.unsettled(self._observed)}
        yield from (one for one in self._before.leaving if one.bookie in gone)

    def _settle(self, one: LeavingBookie) -> tuple[list[ScaleMove], str]:
        """Give what is to be done for the claims of a bookie that was removed, or the wait."""
        left = [claim for claim in one.claims if self._is_unsettled(claim)]
        if not left:
            return [], ""
        if (lacks := self._lacks(one.bookie)) is not None:
            return [], f"{one.bookie} was removed, and {lacks}"
        deletes = self._desired.on_scale_down is OnScaleDown.DELETE
        if deletes:
            return [DropClaim(claim) for claim in left], ""
        return [LabelClaim(claim, one.bookie) for claim in left], ""

    def _lacks(self, bookie: BookieId) -> str | None:
        """Say what its volumes wait for after a bookie was removed; None: nothing."""
        if bookie in self._root.orders:
            return "its order is still there"
        if any(pod.name == bookie for pod in self._observed.pods):
            return "its pod is not gone yet"
        if bookie in self._root.registered:
            return "it is still registered"
        if bookie not in self._observed.holdings.empty:
            return "the ledgers are listed once more"
        return None

    def _is_unsettled(self, claim: NotedClaim) -> bool:
        found = self._observed.claims.get(claim.name)
        if found is None or found.uid != claim.uid:
            return False
        return self._desired.on_scale_down is OnScaleDown.DELETE or not found.is_left


def told_of(moves: Iterable[ScaleMove]) -> str:
    """Say what is done now."""
    return "; ".join(map(_done, moves))


def _done(move: ScaleMove) -> str:
    match move:
        case GiveOrder(bookie):
            return f"the order to remove {bookie} is given"
        case ReturnOrder(bookie):
            return f"the order to remove {bookie} is taken back"
        case DropClaim(claim):
            return f"the volume {claim.name} is removed"
        case LabelClaim(claim):
            return f"the volume {claim.name} is left"
        case _:
            assert_never(move)


def _by_name(one: LeavingBookie) -> BookieId:
    return one.bookie


def _told(bookie: BookieId, order: BookieOrder, *, is_running: bool) -> Waiting:
    """Say how far an order is."""
    progress = order.progress
    if progress is None:
        why = "no autorecovery process has taken up the order to remove it"
        return Waiting(Predicate.REMOVING, f"{bookie}: {why}")
    left = f", {progress.ledgers_left} ledgers left" if progress.ledgers_left else ""
    more = f": {progress.why}" if progress.why else ""
    why = f"{bookie}: {progress.phase}{left}{more}"
    if progress.phase in _STUCK:
        return Waiting(Predicate.REMOVAL_STUCK, f"{why}; zonekeeper bookies show {bookie}")
    if leaving.is_emptied(order) and is_running:
        why = f"{bookie} is emptied; it is stopped once a listing names it nowhere"
    return Waiting(Predicate.REMOVING, why)
