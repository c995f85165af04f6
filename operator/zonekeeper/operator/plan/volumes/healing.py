"""A bookie whose volume is lost gets its place back, if the resource chooses that. Pure.

Never is an empty disk taken for that of the bookie that it replaces, and no cookie is deleted to
make a bookie start: the bookie would deny what it acknowledged. Under ``lostVolume: Recover`` two
orders follow one another, and autorecovery carries them out:

1. ``recover``: the copies of the lost bookie are made elsewhere, and it is written off. If the
   bookie comes back with its disk, the order ends, and nothing is lost.
2. ``remove``: a whole listing proves that no ledger names the bookie; then its cookie goes.

Then the pod starts a new bookie under that name on the empty disk. If the bookie comes back before
that, the second order is taken back.

A volume whose node is gone for long is lost, too (``absence``). Its claim is deleted by its uid, so
that Kubernetes makes another one: under ``Recover`` only once the bookie is forgotten, so that a
node which comes back before that loses nothing; under ``Refill`` at once, because the empty disk is
needed first. The pod that is deleted with the claim was never on a node. The bookie counts as being
healed from then on until it serves. A node that comes back after its claim is gone changes nothing:
no claim has the old volume.

Under ``lostVolume: Refill`` the bookie keeps its cookie: a pod gives it the empty disk
(``refill_pod``). It starts in limbo for every ledger that names it, and denies nothing until its
copies are back.

At most ``heal.atOnce`` bookies are healed at a time, in both ways together: the way may be changed
while a bookie is healed. None is begun in a zone that is held or down: the loss of a zone is no
loss of its disks. Where a bookie has a journal volume of its own, nothing is
done: which of the two is lost is not known, and a new bookie starts only on two empty ones.

This works beside the stages, as growth does. Orders are given in a name of their own: a scale-down
takes back what the resource itself ordered about bookies that are asked for.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final, assert_never

from zonekeeper.metadata.bookies.bookie_records import BookieRecord
from zonekeeper.operator.cluster import desired, owned_objects
from zonekeeper.operator.cluster.choices import LostVolume
from zonekeeper.operator.cluster.desired import Desired
from zonekeeper.operator.kubernetes.api import CLAIMS, PODS
from zonekeeper.operator.plan import ownership
from zonekeeper.operator.plan.plans import (
    Action,
    Apply,
    OrderRecovery,
    OrderRemoval,
    RemoveObject,
    TakeRemovalBack,
)
from zonekeeper.operator.plan.predicates import Predicate, Waiting
from zonekeeper.operator.plan.stages import Case
from zonekeeper.operator.plan.volumes import absence, replacing
from zonekeeper.operator.roots.roots import RootFound
from zonekeeper.operator.sight import lost_disks, refill_pod
from zonekeeper.operator.sight.lost_disks import LostDisk
from zonekeeper.operator.sight.observed import Observed
from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.placement.policy.rules import Policy
from zonekeeper.placement.zones.bookie_orders import BookieOrder, OrderKind
from zonekeeper.placement.zones.observation import Observation

REASON: Final = "its volume is lost"
_CHOICES: Final = (
    "set spec.heal.lostVolume: Recover to have its copies made elsewhere and a new bookie in its "
    "place, or spec.heal.lostVolume: Refill to give it the empty disk, on which it gets its copies "
    "back; or mount the disk that it had (docs/operator.md)"
)


def giver(observed: Observed) -> str:
    """Give the name in which the orders are given."""
    return f"{desired.owner(observed.resource)}/heal"


def is_wanted(observed: Observed) -> bool:
    """Is there perhaps something to do? Then the look reads what planned work asks."""
    return bool(observed.lost_nodes) or any(True for _ in lost_disks.refusing(observed.pods))


def actions(case: Case) -> tuple[Action, ...]:
    """Give what is to be done now."""
    root, instance = ownership.own_root(case.observed), case.observed.instance
    if case.buildable is None or root is None or root.instance != instance:
        return ()
    return tuple(_Healing(case.buildable, case.observed, root).actions())


def giving_up(actions: Iterable[Action]) -> set[BookieId]:
    """Name the bookies whose claims these acts delete."""
    prefix = f"{owned_objects.VOLUME}-"
    return {
        BookieId(one.name.removeprefix(prefix))
        for one in actions
        if isinstance(one, RemoveObject) and one.kind is CLAIMS
    }


def waits(case: Case) -> Waiting | None:
    """Say which volumes are lost, and what is done about each; None: none is."""
    root = case.observed.root
    anew = replacing.given_anew(case.observed, root) if isinstance(root, RootFound) else None
    lost = lost_disks.found(case.observed)
    if case.buildable is not None and isinstance(root, RootFound):
        gone = absence.lost(case.buildable, case.observed, root)
        lost += tuple(one for one in gone if one.bookie in root.locations)
    found = [one for one in lost if one.bookie != anew]
    if not found:
        return None
    told = []
    for one in found:
        if case.buildable is None or not isinstance(root, RootFound):
            told.append(str(one))
        else:
            told.append(f"{one}; {_Healing(case.buildable, case.observed, root).told(one)}")
    return Waiting(Predicate.VOLUME_LOST, "\n".join(told))


class _Healing:
    """One decision; it is thrown away afterwards."""

    def __init__(self, wanted: Desired, observed: Observed, root: RootFound) -> None:
        self._wanted = wanted
        self._observed = observed
        self._root = root
        gone = absence.lost(wanted, observed, root)
        #: Those of them that the store does not know any more: a new bookie may take the place.
        self._forgotten = [one for one in gone if one.bookie not in root.locations]
        known = (one for one in gone if one.bookie in root.locations)
        self._lost = [*lost_disks.found(observed), *known]
        self._given_up = absence.given_up(observed, root)
        #: Its volume is given anew because a person asks for it: no choice is asked.
        self._anew = replacing.given_anew(observed, root)

    def actions(self) -> Iterator[Action]:
        yield from self._back()
        yield from self._refilled()
        pods = {pod.name for pod in self._observed.refilling}
        anew = [
            one
            for one in self._lost
            if one.bookie == self._anew and refill_pod.name_of(one.bookie) not in pods
        ]
        yield from _emptied(one for one in anew if one.claim)
        yield from self._given(one for one in anew if not one.claim)
        if self._wanted.journal is not None:
            return
        match self._wanted.heal.lost_volume:
            case LostVolume.TELL:
                return
            case LostVolume.RECOVER:
                yield from self._fresh()
                yield from self._recover()
            case LostVolume.REFILL:
                yield from self._fresh()
                yield from self._refill()
            case _:
                assert_never(self._wanted.heal.lost_volume)

    def _refill(self) -> Iterator[Action]:
        """Make the pods that give empty disks; one that is gone with its node comes first."""
        chosen = self._chosen(self._lost)
        yield from _emptied(one for one in chosen if one.claim)
        yield from self._given(one for one in chosen if not one.claim)

    def _given(self, lost: Iterable[LostDisk]) -> Iterator[Apply]:
        for one in lost:
            found = self._observed.sets.get(one.bookie.rpartition("-")[0])
            if found is not None:
                body = refill_pod.made(found, one, self._observed.resource)
                yield Apply(kind=PODS, body=body)

    def _refilled(self) -> Iterator[RemoveObject]:
        """Let bookies start at once on the disks that they were given; remove pods that are done.

        The pod of a bookie that was given a disk stays until the bookie serves again, so that it
        counts as being healed until its record says that it is in limbo.
        """
        lost = {refill_pod.name_of(one.bookie): one for one in self._lost}
        starting = {
            refill_pod.name_of(one) for one in self._root.locations.keys() - self._root.registered
        }
        for pod in self._observed.refilling:
            one, is_done = lost.get(pod.name), pod.exit_code == 0
            is_anew = self._anew is not None and pod.name == refill_pod.name_of(self._anew)
            chosen = LostVolume.REFILL if is_anew else self._wanted.heal.lost_volume
            if one is not None and is_done:
                if one.uid == pod.refused_by:
                    yield RemoveObject(kind=PODS, name=one.bookie, uid=one.uid)
                    continue
                stays = False  # the disk that it gave is lost, too
            elif is_done:
                stays = pod.name in starting and chosen is not LostVolume.TELL
            else:
                stays = pod.name in starting and chosen is LostVolume.REFILL
            if not stays and not pod.leaving:
                yield RemoveObject(kind=PODS, name=pod.name, uid=pod.uid)

    def _recover(self) -> Iterator[Action]:
        """Give the orders; a bookie that is written off comes before one that is whole."""
        readable = [one for one in self._lost if self._record(one.bookie) is not None]
        for one in self._chosen(sorted(readable, key=lambda one: not self._is_off(one.bookie))):
            if self._is_off(one.bookie):
                yield OrderRemoval(bookie=one.bookie, **self._named())
            else:
                yield OrderRecovery(bookie=one.bookie, **self._named())

    def _chosen(self, lost: list[LostDisk]) -> list[LostDisk]:
        """Give those that are healed now: first those whose claims were deleted for that."""
        pods = {pod.name for pod in self._observed.refilling}
        begun = [
            one
            for one in lost
            if one.bookie in self._given_up
            and one.bookie not in self._root.orders
            and refill_pod.name_of(one.bookie) not in pods
            and self._holds(one.zone) is None
        ]
        return [*begun, *self._next(lost)]

    def _next(self, lost: Iterable[LostDisk]) -> list[LostDisk]:
        """Give those that may be healed next, of these."""
        busy, free = self._under_way(), self._free()
        may = (
            one
            for one in lost
            if one.bookie not in busy
            and one.bookie not in self._root.orders
            and self._holds(one.zone) is None
        )
        return list(islice(may, max(0, free)))

    def _free(self) -> int:
        return self._wanted.heal.at_once - len(self._under_way())

    def _under_way(self) -> set[BookieId]:
        """Name the bookies that are healed now: in either way, and in doubt, too.

        They have an order of ours, or a pod that gives an empty disk, or they are in limbo.
        """
        own, by = {one.bookie for one in self._lost}, giver(self._observed)
        ordered = {
            bookie
            for bookie, order in self._root.orders.items()
            if (bookie in own if isinstance(order, str) else _is_by(order, by))
        }
        pods = {pod.name for pod in self._observed.refilling}
        filled = {one for one in self._root.locations if refill_pod.name_of(one) in pods}
        work = self._root.work
        records = {} if work is None else work.records
        limbo = {name for name, one in records.items() if one is None or one.lost_data is not None}
        # A bookie that was in limbo, and whose disk is lost again, is to be healed anew.
        return ordered | filled | self._given_up | (limbo - own)

    def told(self, one: LostDisk) -> str:
        """Say what is done about it, or what may be done."""
        order = self._root.orders.get(one.bookie)
        if isinstance(order, str):
            return f"the order about it cannot be read: {order}"
        if order is not None:
            return f"the order to {order.kind} it stands: {_progress(order)}"
        if self._wanted.heal.lost_volume is LostVolume.TELL:
            return _CHOICES
        if self._wanted.journal is not None:
            return (
                "it has a journal volume, too, and is not healed by itself: give the lost one "
                "of both anew with `zonekeeper bookie cookie replace-disk` (docs/operator.md)"
            )
        return self._told_of_refill(one) or self._hindrance(one) or "it is healed next"

    def _hindrance(self, one: LostDisk) -> str | None:
        """Say why it is not healed now; None: it is the next."""
        if (held := self._holds(one.zone)) is not None:
            return f"nothing is done about it now: {held}"
        recovers = self._wanted.heal.lost_volume is LostVolume.RECOVER
        if recovers and self._record(one.bookie) is None:
            return "nothing is done about it, because its record cannot be read"
        if self._free() <= 0:
            busy = ", ".join(sorted(self._under_way()))
            return f"it waits, because spec.heal.atOnce is {self._wanted.heal.at_once}: {busy}"
        return None

    def _told_of_refill(self, one: LostDisk) -> str | None:
        """Say how far the pod is that gives it an empty disk; None: there is none."""
        name = refill_pod.name_of(one.bookie)
        pod = next((each for each in self._observed.refilling if each.name == name), None)
        if pod is None:
            return None
        said = pod.words if pod.trouble is None else pod.trouble.told
        told = f"pod {name} gives it an empty disk"
        return told if pod.exit_code == 0 or not said else f"{told}: {said}"

    def _back(self) -> Iterator[TakeRemovalBack]:
        """Take back the removal of a bookie that serves again."""
        for bookie, order in sorted(self._root.orders.items()):
            if (
                isinstance(order, BookieOrder)
                and _is_by(order, giver(self._observed))
                and order.kind is OrderKind.REMOVE
                and bookie in self._root.registered
            ):
                named = self._named()
                yield TakeRemovalBack(
                    bookie=bookie,
                    token=order.token,
                    instance=named["instance"],
                    owner=named["owner"],
                )

    def _fresh(self) -> Iterator[RemoveObject]:
        """Let a pod start a new bookie now that the cookie is gone, and not after a long pause."""
        for one in lost_disks.refusing(self._observed.pods):
            if one.bookie not in self._root.locations and one.bookie not in self._root.orders:
                yield RemoveObject(kind=PODS, name=one.bookie, uid=one.uid)
        yield from _emptied(one for one in self._forgotten if one.bookie not in self._root.orders)

    def _record(self, bookie: BookieId) -> BookieRecord | None:
        work = self._root.work
        return None if work is None else work.records.get(bookie)

    def _is_off(self, bookie: BookieId) -> bool:
        record = self._record(bookie)
        return record is not None and record.written_off is not None

    def _holds(self, zone: ZoneName) -> str | None:
        """Say why nothing is done in a zone; None: it may be."""
        policy: Policy | None = self._root.policy
        if policy is None:
            return "the policy was not read"
        watched = self._observed.watched
        for held, one in watched.holds(policy):
            if held == zone:
                return f"zone {zone}: {one.by}; zonekeeper runbook {one.by}"
        record = watched.followed.records.zones.get(zone)
        if record is not None and record.observed.state is Observation.DOWN:
            return f"zone {zone} is down"
        return None

    def _named(self) -> dict[str, str]:
        return {
            "instance": self._root.instance,
            "owner": giver(self._observed),
            "reason": REASON,
        }


def _emptied(gone: Iterable[LostDisk]) -> Iterator[RemoveObject]:
    """Let Kubernetes make another claim and another pod; the pod was never on a node."""
    for one in gone:
        name = owned_objects.claim_name(one.bookie)
        yield RemoveObject(kind=CLAIMS, name=name, uid=one.claim)
        yield RemoveObject(kind=PODS, name=one.bookie, uid=one.uid)


def _is_by(order: BookieOrder, by: str) -> bool:
    return order.given.by == by and order.taken_back is None


def _progress(order: BookieOrder) -> str:
    one = order.progress
    if one is None:
        return "no autorecovery process has taken it up yet"
    why = f": {one.why}" if one.why else ""
    return f"{one.phase}, {one.ledgers_left} ledgers left{why}"
