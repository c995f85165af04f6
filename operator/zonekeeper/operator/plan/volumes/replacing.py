"""A bookie that serves is emptied, and gets another volume, because a person asks for it. Pure.

The annotation ``zonekeeper.io/replace`` names one bookie. In this order:

1. The gates of a scale-down hold, nothing is to be rolled or removed, and no other bookie is under
   way. The claim is noted, and the order to drain the bookie is given, in a name of its own.
2. The order says that the bookie is emptied, and a listing of the operator's own names it nowhere.
   The order is read once more, then the claim goes, that of a journal volume, too, and the pod.
   Each is named by its uid.
3. The bookie refuses the new disk, because the store knows it. A pod gives it that disk
   (``healing``), whatever ``heal.lostVolume`` says: no ledger names the bookie.
4. The bookie serves again: the order is taken back, so that it takes writes.

If the annotation goes before step 2, or the resource asks for the bookie no more, the order is
taken back, and nothing is deleted. After it the bookie is brought to the end: it has no other disk.

A pod is never deleted before its bookie is emptied, also if somebody else has deleted the claim.

It is done once for each time that the annotation is set. Another bookie waits until it is done.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from zonekeeper.operator.cluster import desired, owned_objects
from zonekeeper.operator.cluster.desired import Desired
from zonekeeper.operator.kubernetes.api import CLAIMS, PODS, REPLACE, Json
from zonekeeper.operator.plan import ownership
from zonekeeper.operator.plan.plans import (
    Action,
    ConfirmEmptied,
    OrderDrain,
    RemoveObject,
    TakeRemovalBack,
)
from zonekeeper.operator.plan.predicates import Predicate, Waiting
from zonekeeper.operator.plan.scaling import leaving, scale_gates
from zonekeeper.operator.plan.stages import Case
from zonekeeper.operator.plan.volumes import growing, replace_memory
from zonekeeper.operator.plan.volumes.replace_memory import ReplaceNotes
from zonekeeper.operator.roll import memory
from zonekeeper.operator.roots.roots import RootFound
from zonekeeper.operator.sight.observed import Observed, Pod, VolumeClaim
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.placement.zones.bookie_orders import BookieOrder, OrderKind

_REASON = "it gets another volume"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaceProgress:
    """What one turn decides about it."""

    actions: tuple[Action, ...] = ()
    waiting: Waiting | None = None
    notes: ReplaceNotes | None = None


def giver(observed: Observed) -> str:
    """Give the name in which the orders are given."""
    return f"{desired.owner(observed.resource)}/replace"


def asked(observed: Observed) -> str | None:
    """Give what the annotation names; None: there is none."""
    found = (observed.resource["metadata"].get("annotations") or {}).get(REPLACE)
    return str(found).strip() or None if found is not None else None


def is_wanted(observed: Observed) -> bool:
    """Is there perhaps something to do? Then the look reads what planned work asks."""
    notes = replace_memory.read(observed.status)
    if notes is not None and notes.is_done and notes.bookie == asked(observed):
        return False
    return notes is not None or asked(observed) is not None


def to_be_listed(observed: Observed) -> frozenset[BookieId]:
    """Give the bookie of which it must be proven that no ledger names it."""
    root, notes = observed.root, replace_memory.read(observed.status)
    if not isinstance(root, RootFound) or notes is None:
        return frozenset()
    standing = _standing(observed, root)
    if standing is None or standing[0] != notes.bookie or standing[1].emptied_ms is None:
        return frozenset()
    claim = _claim(observed, notes.bookie)
    is_there = claim is not None and claim.uid == notes.claim and not claim.leaving
    return frozenset({notes.bookie}) if is_there else frozenset()


def given_anew(observed: Observed, root: RootFound) -> BookieId | None:
    """Name the bookie that is to start on an empty volume; None: there is none."""
    notes, standing = replace_memory.read(observed.status), _standing(observed, root)
    if notes is None or standing is None or standing[1].emptied_ms is None:
        return None
    bookie, _ = standing
    claim = _claim(observed, bookie)
    is_other = claim is not None and claim.uid != notes.claim
    is_whole = is_other and _old_journal(observed, notes) is None
    return bookie if bookie == notes.bookie and is_whole else None


def decide(case: Case) -> ReplaceProgress:
    """Decide; while nothing can be built, or the root is not read, what is noted stays."""
    root, notes = ownership.own_root(case.observed), replace_memory.read(case.observed.status)
    if case.buildable is None or root is None or root.instance != case.observed.instance:
        return ReplaceProgress(notes=notes)
    return _Replacing(case, case.buildable, root, notes).decide()


def _standing(observed: Observed, root: RootFound) -> tuple[BookieId, BookieOrder] | None:
    """Give the order of ours that stands, with its bookie."""
    by = giver(observed)
    for bookie, order in sorted(root.orders.items()):
        if isinstance(order, BookieOrder) and order.given.by == by:
            return bookie, order
    return None


def _claim(
    observed: Observed, bookie: BookieId, volume: str = owned_objects.VOLUME
) -> VolumeClaim | None:
    return observed.claims.get(f"{volume}-{bookie}")


def _old_journal(observed: Observed, notes: ReplaceNotes) -> VolumeClaim | None:
    """Give the claim of the journal that goes, as long as it is there."""
    found = _claim(observed, notes.bookie, owned_objects.JOURNAL_VOLUME)
    return found if found is not None and notes.journal and found.uid == notes.journal else None


class _Replacing:
    """One decision; it is thrown away afterwards."""

    def __init__(
        self, case: Case, wanted: Desired, root: RootFound, notes: ReplaceNotes | None
    ) -> None:
        self._case = case
        self._observed = case.observed
        self._wanted = wanted
        self._root = root
        self._notes = notes
        self._asked = asked(case.observed)

    def decide(self) -> ReplaceProgress:
        standing = _standing(self._observed, self._root)
        if standing is not None:
            return self._go_on(*standing)
        if self._asked is None:
            return ReplaceProgress()
        if self._notes is not None and self._notes.is_done and self._notes.bookie == self._asked:
            return ReplaceProgress(notes=self._notes)
        return self._begin(BookieId(self._asked))

    def _begin(self, bookie: BookieId) -> ReplaceProgress:
        claim, pod = _claim(self._observed, bookie), self._pod(bookie)
        journal = _claim(self._observed, bookie, owned_objects.JOURNAL_VOLUME)
        claims = (claim,) if self._wanted.journal is None else (claim, journal)
        if (why := self._hindrance(bookie, claims, pod)) is not None:
            return _waits(Predicate.REPLACE_WAITS, f"{bookie} gets no other volume yet: {why}")
        assert claim is not None, "without one there is a hindrance"
        assert pod is not None, "without one there is a hindrance"
        return ReplaceProgress(
            actions=(
                OrderDrain(
                    bookie=bookie,
                    instance=self._root.instance,
                    owner=giver(self._observed),
                    reason=_REASON,
                ),
            ),
            notes=ReplaceNotes(bookie=bookie, claim=claim.uid, journal=_uid(journal), pod=pod.uid),
        )

    def _hindrance(
        self, bookie: BookieId, claims: tuple[VolumeClaim | None, ...], pod: Pod | None
    ) -> str | None:
        """Say why the order cannot be given now; None: it can."""
        if not leaving.is_asked_for(self._wanted, bookie) or bookie not in self._root.locations:
            return f"{REPLACE} must name one bookie of this cluster, such as log-b-0, and no more"
        if bookie in self._root.orders:
            return "an order about it stands already (status.bookieOrders): take that back before"
        ours = [one for one in claims if one is not None and self._is_ours(one)]
        if pod is None or len(ours) < len(claims):
            return "its pod or a claim is not there, or the claim is not of this cluster"
        return "\n".join(self._gates(bookie)) or None

    def _is_ours(self, claim: VolumeClaim) -> bool:
        return not claim.leaving and claim.instance == self._root.instance

    def _gates(self, bookie: BookieId) -> Iterator[str]:
        roll, scale = self._case.roll, self._case.scaling
        if roll is None or memory.read(self._observed.status).step or not roll.is_done:
            yield "the roll goes first: see the condition Rolling"
        elif scale is None or scale.is_done is not True:
            yield "bookies are being removed: see the condition Scaled"
        elif self._waits_for_its_set(bookie):
            yield "its StatefulSet is made again first, with the volumes that are asked for"
        else:
            yield from scale_gates.waits(self._wanted, self._observed, roll.sets, bookie)

    def _waits_for_its_set(self, bookie: BookieId) -> bool:
        """Would its new volume be another one than is asked for?"""
        name = bookie.rpartition("-")[0]
        is_away = any(one.set_name == name for one in self._observed.kept_sets)
        return is_away or name in growing.sets_with_others(self._wanted, self._observed)

    def _go_on(self, bookie: BookieId, order: BookieOrder) -> ReplaceProgress:
        claim, pod = _claim(self._observed, bookie), self._pod(bookie)
        notes = self._notes if self._notes and self._notes.bookie == bookie else None
        if notes is None and claim is not None:
            journal = _claim(self._observed, bookie, owned_objects.JOURNAL_VOLUME)
            notes = ReplaceNotes(
                bookie=bookie, claim=claim.uid, journal=_uid(journal), pod=_uid(pod)
            )
        if order.taken_back is not None:
            return self._tells(bookie, order, "takes writes again", notes)
        if order.kind is not OrderKind.DRAIN or notes is None:
            return self._tells(bookie, order, f"the order to {order.kind} it stands", notes)
        if claim is not None and claim.uid == notes.claim and not claim.leaving:
            if pod is not None:
                notes = replace(notes, pod=pod.uid)
            return self._before(bookie, order, notes, pod)
        return self._after(bookie, order, notes, pod)

    def _before(
        self, bookie: BookieId, order: BookieOrder, notes: ReplaceNotes, pod: Pod | None
    ) -> ReplaceProgress:
        """Nothing is deleted yet."""
        if self._asked != bookie or not leaving.is_asked_for(self._wanted, bookie):
            return ReplaceProgress(actions=(self._back(bookie, order),), notes=notes)
        if order.emptied_ms is None:
            return self._tells(bookie, order, "is emptied", notes)
        if bookie not in self._observed.holdings.empty:
            return self._tells(bookie, order, "is emptied; the ledgers are listed once more", notes)
        if self._waits_for_its_set(bookie):
            what = "is emptied; its StatefulSet is made again with the volumes that are asked for"
            return self._tells(bookie, order, what, notes)
        confirmed = ConfirmEmptied(bookie=bookie, token=order.token, instance=self._root.instance)
        name = f"{owned_objects.VOLUME}-{bookie}"
        actions: list[Action] = [confirmed, RemoveObject(kind=CLAIMS, name=name, uid=notes.claim)]
        actions += self._without_journal(notes)
        if pod is not None:
            actions.append(RemoveObject(kind=PODS, name=bookie, uid=pod.uid))
        return ReplaceProgress(actions=tuple(actions), notes=notes)

    def _without_journal(self, notes: ReplaceNotes) -> Iterator[RemoveObject]:
        """Remove the claim of the journal that goes, if it is not going already."""
        found = _old_journal(self._observed, notes)
        if found is not None and not found.leaving:
            name = f"{owned_objects.JOURNAL_VOLUME}-{notes.bookie}"
            yield RemoveObject(kind=CLAIMS, name=name, uid=found.uid)

    def _after(
        self, bookie: BookieId, order: BookieOrder, notes: ReplaceNotes, pod: Pod | None
    ) -> ReplaceProgress:
        """The claim goes, or is gone."""
        claim, journal = _claim(self._observed, bookie), _old_journal(self._observed, notes)
        is_old = pod is not None and (
            pod.uid == notes.pod
            or (claim is not None and claim.uid == notes.claim)
            or journal is not None
        )
        if pod is not None and is_old and order.emptied_ms is None:
            what = "is emptied; its claim is deleted already, by somebody else"
            return self._tells(bookie, order, what, notes)
        if order.emptied_ms is not None and (gone := tuple(self._without_journal(notes))):
            return ReplaceProgress(actions=gone, notes=notes)
        if pod is not None and is_old:
            removal = RemoveObject(kind=PODS, name=bookie, uid=pod.uid)
            return ReplaceProgress(actions=() if pod.leaving else (removal,), notes=notes)
        serves = pod is not None and pod.ready and bookie in self._root.registered
        if claim is not None and serves:
            done = replace(notes, is_done=True)
            return ReplaceProgress(actions=(self._back(bookie, order),), notes=done)
        return self._tells(bookie, order, "starts on its new volume", notes)

    def _back(self, bookie: BookieId, order: BookieOrder) -> TakeRemovalBack:
        return TakeRemovalBack(
            bookie=bookie,
            token=order.token,
            instance=self._root.instance,
            owner=giver(self._observed),
        )

    def _tells(
        self, bookie: BookieId, order: BookieOrder, what: str, notes: ReplaceNotes | None
    ) -> ReplaceProgress:
        said, progress = f"{bookie} gets another volume: it {what}", order.progress
        if progress is not None:
            why = f": {progress.why}" if progress.why else ""
            said = f"{said} ({progress.phase}, {progress.ledgers_left} ledgers left{why})"
        return replace(_waits(Predicate.REPLACING, said), notes=notes)

    def _pod(self, bookie: BookieId) -> Pod | None:
        return next((pod for pod in self._observed.pods if pod.name == bookie), None)


def _uid(found: VolumeClaim | Pod | None) -> str:
    return "" if found is None else found.uid


def _waits(predicate: Predicate, why: str) -> ReplaceProgress:
    return ReplaceProgress(waiting=Waiting(predicate, why))


def status(progress: ReplaceProgress) -> Json:
    """Give ``status.replacing``."""
    return {} if progress.notes is None else {"replacing": replace_memory.plain(progress.notes)}
