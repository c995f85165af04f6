"""How long the nodes of local volumes are gone, and which of the volumes count as lost. Pure.

Time is counted in watched steps: a step from one count to the next counts only if the node was seen
to be gone at both ends, and no more than ``STEP_MS_MAX`` lies between them. So neither a clock that
jumps nor an operator that was away makes a volume lost. A node that is back, or a pod that is on a
node, ends the count, and it begins anew.

The status has the count, at most one write in ``STEP_MS``.
"""

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Final

from zonekeeper.operator.cluster.desired import Desired
from zonekeeper.operator.kubernetes.api import Json
from zonekeeper.operator.plan import ownership
from zonekeeper.operator.plan.scaling import leaving
from zonekeeper.operator.plan.stages import Case
from zonekeeper.operator.plan.volumes import absence_memory
from zonekeeper.operator.plan.volumes.absence_memory import AwayBookie
from zonekeeper.operator.roots.roots import RootFound
from zonekeeper.operator.sight.lost_disks import LostDisk
from zonekeeper.operator.sight.observed import LostNode, Observed
from zonekeeper.placement.base.ids import BookieId

#: Time is counted when so much has passed.
STEP_MS: Final = 60_000
#: More than this was not watched.
STEP_MS_MAX: Final = 5 * 60_000


def lost(wanted: Desired, observed: Observed, root: RootFound) -> tuple[LostDisk, ...]:
    """Give the bookies whose volumes count as lost, because their nodes are gone for long.

    A bookie that is registered runs somewhere, whatever is seen of its pod.
    """
    noted = absence_memory.read(observed.status)
    return tuple(
        LostDisk(bookie=one.bookie, zone=one.zone, uid=one.pod, claim=one.claim, host=one.host)
        for one in observed.lost_nodes
        if (note := noted.get(one.bookie)) is not None
        and note.claim == one.claim
        and (note.away_ms >= wanted.heal.after_ms or note.is_given_up)
        and one.bookie not in root.registered
        and leaving.is_asked_for(wanted, one.bookie)
    )


def given_up(observed: Observed, root: RootFound) -> set[BookieId]:
    """Name the bookies whose claims were deleted, and that do not serve yet."""
    noted = absence_memory.read(observed.status)
    return {
        one.bookie
        for one in noted.values()
        if one.is_given_up and one.bookie in root.locations and one.bookie not in root.registered
    }


def status(case: Case, giving_up: Collection[BookieId]) -> Json:
    """Give ``status.lostNodes``; ``giving_up``: their claims are deleted by this very turn.

    While it is not clear whose bookies these are, what is noted stays.
    """
    observed = case.observed
    noted, root = absence_memory.read(observed.status), ownership.own_root(observed)
    if case.buildable is not None and root is not None and root.instance == observed.instance:
        noted = {one.bookie: one for one in _counted(noted, observed, root, giving_up)}
    return {"lostNodes": absence_memory.plain(noted)} if noted else {}


def _counted(
    noted: dict[BookieId, AwayBookie],
    observed: Observed,
    root: RootFound,
    giving_up: Collection[BookieId],
) -> Iterator[AwayBookie]:
    seen = {one.bookie: one for one in observed.lost_nodes}
    still = given_up(observed, root)
    yield from (one for name, one in noted.items() if name not in seen and name in still)
    for one in seen.values():
        if one.bookie not in root.registered:
            counted = _stepped(noted.get(one.bookie), one, observed.wall_ms)
            is_given_up = counted.is_given_up or one.bookie in giving_up
            yield replace(counted, is_given_up=is_given_up)


def _stepped(note: AwayBookie | None, seen: LostNode, wall_ms: int) -> AwayBookie:
    """Count the time that has passed since the last count, if it was watched."""
    if note is None or note.claim != seen.claim:
        return AwayBookie(bookie=seen.bookie, claim=seen.claim, away_ms=0, at_ms=wall_ms)
    step_ms = wall_ms - note.at_ms
    if 0 <= step_ms < STEP_MS:
        return note
    watched_ms = step_ms if 0 <= step_ms <= STEP_MS_MAX else 0
    return replace(note, away_ms=note.away_ms + watched_ms, at_ms=wall_ms)
