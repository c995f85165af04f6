"""Volumes that fill grow by themselves, where the resource lets them. Pure.

Each bookie publishes its room. If more than ``heal.grow.at`` of a bookie's volume is used, the
claim of that volume, and no other claim, asks for ``heal.grow.by`` more: at most for
``heal.grow.max``. ``storage.size`` and the claim templates stay as they are, because they say what
every bookie gets, and other bookies may have room. A claim that is larger than its template is
legal everywhere: ``growing`` raises only claims that are below ``storage.size``, nothing shrinks a
claim, and a StatefulSet never looks at a claim that is there. A bookie that gets a new claim (a new
bookie, a lost volume, another volume) has the template's size, and grows from there.

Volumes grow so at most once in ``REST_MS``, all that are too full together. So a room that is
wrong, or a driver that says what is not so, cannot let sizes run away. The time is noted together
with the sizes before the first claim is told (``growth_memory``); until the hour is over, the noted
sizes are told again where a claim does not have them.

The room is that of the folders with ledgers, so it is the volume ``data`` that grows. A journal
volume does not fill: arrival segments have a bounded size.

What is not known lets nothing grow: a bookie without a room, an old room, a root that was not read,
a claim that is not of this cluster, that has no volume, or that still grows. A volume that is too
full and does not grow is told of with what stops it.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

from zonekeeper.operator.cluster import heal_rules, owned_objects
from zonekeeper.operator.cluster.desired import Desired
from zonekeeper.operator.cluster.heal_rules import GrowRules
from zonekeeper.operator.kubernetes.api import Json
from zonekeeper.operator.plan import ownership
from zonekeeper.operator.plan.plans import GrowClaim
from zonekeeper.operator.plan.predicates import Predicate, Waiting
from zonekeeper.operator.plan.scaling import leaving
from zonekeeper.operator.plan.stages import Case
from zonekeeper.operator.plan.volumes import growth_memory
from zonekeeper.operator.plan.volumes.growth_memory import GrownClaim, GrowthNotes
from zonekeeper.operator.roots.roots import RootFound
from zonekeeper.operator.shapes import quantities, volumes
from zonekeeper.operator.sight.observed import Observed, VolumeClaim
from zonekeeper.operator.sight.room_sight import RoomSight
from zonekeeper.placement.base.ids import BookieId

#: The shortest time from one growth to the next.
REST_MS: Final = 3_600_000
#: A file system is at most so much smaller than its volume, or larger.
SLACK: Final = Fraction(1, 10)
_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class FullVolume:
    """A volume that is used by more than the resource wants."""

    name: str
    claim: VolumeClaim
    #: ``at < used <= 1``.
    used: Fraction
    #: Why a larger claim would give the bookie no room; None: it would.
    apart: str | None

    @property
    def told(self) -> str:
        """Name it, and say how full it is."""
        return f"{self.name} is used by {float(self.used):.1%}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FillingProgress:
    """What one turn decides about volumes that fill."""

    actions: tuple[GrowClaim, ...] = ()
    waiting: Waiting | None = None
    notes: GrowthNotes | None = None


def wants_rooms(wanted: object, sight: RoomSight, now_ms: int) -> bool:
    """Are the rooms of bookies to be read now?"""
    return isinstance(wanted, Desired) and wanted.heal.grow is not None and sight.is_due(now_ms)


def classes(wanted: Desired, observed: Observed) -> set[str]:
    """Name the storage classes of volumes that are to grow, as far as it is not known if they may.

    While nothing can grow, and in the hour after a growth, none is read.
    """
    rules, root = wanted.heal.grow, ownership.own_root(observed)
    if rules is None or root is None or root.instance != observed.instance:
        return set()
    if _rests(growth_memory.read(observed.status), observed):
        return set()
    return {
        one.claim.storage_class
        for one in full(wanted, observed, root, rules)
        if one.claim.storage_class
        and one.claim.storage_class not in observed.growable
        and one.apart is None
        and _next_size(one.claim, rules) is not None
    }


def decide(case: Case) -> FillingProgress:
    """Decide; while it is not clear whose volumes these are, what is noted stays."""
    observed = case.observed
    root, notes = ownership.own_root(observed), growth_memory.read(observed.status)
    if not case.builds_as_asked or root is None or root.instance != observed.instance:
        return FillingProgress(notes=notes)
    return _Filling(case.desired, observed, root, notes).decide()


def status(progress: FillingProgress) -> Json:
    """Give ``status.growing``."""
    return {} if progress.notes is None else {"growing": growth_memory.plain(progress.notes)}


def full(
    wanted: Desired, observed: Observed, root: RootFound, rules: GrowRules
) -> list[FullVolume]:
    """Give the volumes that are too full and could grow as far as Kubernetes goes, fullest first.

    A volume that is about to grow, or still grows, is none of them.
    """
    found = []
    for name, claim in _free(wanted, observed, root).items():
        bookie = _bookie_of(name)
        seen, capacity = observed.rooms.seen.get(bookie), quantities.value(claim.capacity)
        if seen is None or seen.claim != claim.uid or not capacity:
            continue
        total, held = seen.room.total_bytes, seen.room.total_bytes - seen.room.free_bytes
        # A room that is much smaller than the volume was said before the volume grew.
        size = int(capacity) if total < (1 - SLACK) * int(capacity) else total
        used = Fraction(held, size)
        if used * 100 > rules.at_percent:
            apart = _apart(bookie, observed.rooms, int(capacity))
            found.append(FullVolume(name=name, claim=claim, used=used, apart=apart))
    return sorted(found, key=lambda one: (-one.used, one.name))


def _free(wanted: Desired, observed: Observed, root: RootFound) -> dict[str, VolumeClaim]:
    """Give the claims that may be told another size: of bookies that serve and that are to stay."""
    asked = owned_objects.volumes(wanted)[owned_objects.VOLUME].size
    return {
        name: claim
        for name, claim in ownership.own_claims(observed).items()
        if name.partition("-")[0] == owned_objects.VOLUME
        and (bookie := _bookie_of(name)) in root.registered
        and bookie not in root.orders
        and leaving.is_asked_for(wanted, bookie)
        and claim.is_bound
        and not claim.is_left
        and not claim.leaving
        and not quantities.is_larger(asked, claim.size)
        and not quantities.is_larger(claim.size, claim.capacity)
    }


def _bookie_of(name: str) -> BookieId:
    return BookieId(name.partition("-")[2])


def _apart(bookie: BookieId, rooms: RoomSight, capacity: int) -> str | None:
    """Say why the disk that the room is of does not grow with the claim; None: it does."""
    room = rooms.seen[bookie].room
    if room.disk is not None:
        for other, one in rooms.seen.items():
            if other != bookie and one.room.disk == room.disk:
                return f"it shares its disk with {other}, and a larger claim gives it no room"
    if room.total_bytes > (1 + SLACK) * capacity:
        return (
            f"its disk has {room.total_bytes} bytes and its volume {capacity}, so that a larger "
            "claim gives it no room"
        )
    return None


def _rests(notes: GrowthNotes | None, observed: Observed) -> bool:
    """Have volumes grown by themselves in the last hour? A look ahead knows no time."""
    now_ms = observed.wall_ms
    return notes is not None and now_ms > 0 and now_ms - notes.at_ms < REST_MS


def _next_size(claim: VolumeClaim, rules: GrowRules) -> str | None:
    """Give the size that a claim is to ask for; None: it has the largest already.

    A driver may give more than was asked for: what a volume has counts.
    """
    has = max(quantities.value(one) or 0 for one in (claim.size, claim.capacity))
    most = int(quantities.value(rules.most) or 0) // _MIB
    raised = -(-int(has) * (100 + rules.by_percent) // (100 * _MIB))
    size = min(raised, most)
    return f"{size}Mi" if size * _MIB > has else None


class _Filling:
    """One decision; it is thrown away afterwards."""

    def __init__(
        self, wanted: Desired, observed: Observed, root: RootFound, notes: GrowthNotes | None
    ) -> None:
        self._wanted = wanted
        self._observed = observed
        self._root = root
        self._rules = wanted.heal.grow
        #: A clock that went back makes the rest an hour at most, and not longer.
        self._notes = notes
        if notes is not None and notes.at_ms > observed.wall_ms > 0:
            self._notes = replace(notes, at_ms=observed.wall_ms)
        self._is_resting = _rests(self._notes, observed)

    def decide(self) -> FillingProgress:
        rests, rules = self._is_resting, self._rules
        if rules is None:
            return FillingProgress(notes=self._notes if rests else None)
        again = tuple(self._again(rules)) if rests else ()
        told = {one.name for one in again}
        too_full = [one for one in self._full(rules) if one.name not in told]
        stopped = {one.name: self._stops(one, rules) for one in too_full}
        due = [] if rests else [one for one in too_full if stopped[one.name] is None]
        fresh = tuple(self._grow(due[: heal_rules.GROWN_MAX], rules))
        return FillingProgress(
            actions=(*again, *fresh),
            waiting=self._waits(too_full, stopped, fresh),
            notes=self._noted(fresh) if fresh else self._notes,
        )

    def _full(self, rules: GrowRules) -> list[FullVolume]:
        return full(self._wanted, self._observed, self._root, rules)

    def _again(self, rules: GrowRules) -> Iterator[GrowClaim]:
        """Tell noted claims their size, as long as they do not ask for it."""
        free = _free(self._wanted, self._observed, self._root)
        for one in () if self._notes is None else self._notes.claims:
            claim = free.get(one.name)
            if (
                claim is not None
                and claim.uid == one.uid
                and quantities.is_larger(one.size, claim.size)
                and not quantities.is_larger(one.size, rules.most)
            ):
                yield _act(one.name, claim, one.size)

    def _grow(self, due: Iterable[FullVolume], rules: GrowRules) -> Iterator[GrowClaim]:
        for one in due:
            size = _next_size(one.claim, rules)
            assert size is not None, "one that has the largest size is stopped"
            yield _act(one.name, one.claim, size)

    def _stops(self, one: FullVolume, rules: GrowRules) -> str | None:
        """Say what keeps a volume from growing, also after the rest; None: nothing does."""
        if one.apart is not None:
            return one.apart
        if _next_size(one.claim, rules) is None:
            return f"it has spec.heal.grow.max ({rules.most}) already"
        if self._is_resting:
            return None  # its class is asked when it can grow
        return volumes.growth_stop(one.claim.storage_class, self._observed.growable)

    def _noted(self, fresh: Iterable[GrowClaim]) -> GrowthNotes:
        claims = tuple(GrownClaim(name=one.name, uid=one.uid, size=one.size) for one in fresh)
        return GrowthNotes(at_ms=self._observed.wall_ms, claims=claims)

    def _waits(
        self,
        too_full: list[FullVolume],
        stopped: Mapping[str, str | None],
        fresh: tuple[GrowClaim, ...],
    ) -> Waiting | None:
        """Tell of each volume that is too full, and that this turn does not let grow."""
        grown, told = {one.name for one in fresh}, list[str]()
        for one in too_full:
            if one.name not in grown:
                why = stopped[one.name] or (
                    "it grows later, because volumes grow by themselves at most once an hour, "
                    f"and at most {heal_rules.GROWN_MAX} at a time"
                )
                told.append(f"{one.told}, more than spec.heal.grow.at: {why}")
        return Waiting(Predicate.GROWTH_WAITS, "\n".join(told)) if told else None


def _act(name: str, claim: VolumeClaim, size: str) -> GrowClaim:
    assert claim.instance is not None, "it is one of this very cluster"
    return GrowClaim(name=name, uid=claim.uid, instance=claim.instance, size=size)
