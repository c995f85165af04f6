"""Volumes grow: all claims first, then the StatefulSets are made again, one after another. Pure.

The claim templates of a StatefulSet cannot change, so it is deleted alone and made again: with
larger volumes, or with those of ``spec.storage.newVolumes``, which no standing claim gets. Its pods
stay and run on. Before that it is kept in a ControllerRevision: a crash in between loses nothing
(``restoring`` makes it again from there). A StatefulSet is not touched while a step of the roll is
under way, or another one is being made again.

This works beside the stages, as ``marking`` does: a volume that cannot grow keeps nothing else from
being done, and a full cluster may grow while its roll waits. A claim without a volume cannot change
its size; it grows once it is bound.
"""

from collections.abc import Iterator

from zonekeeper.operator.cluster import kept_set, owned_objects
from zonekeeper.operator.cluster.desired import Desired
from zonekeeper.operator.kubernetes.api import CONTROLLER_REVISIONS, STATEFUL_SETS, Json
from zonekeeper.operator.plan import ownership, shaping
from zonekeeper.operator.plan.plans import Action, Apply, GrowClaim, RemoveObject, RemoveSetAlone
from zonekeeper.operator.plan.stages import Case
from zonekeeper.operator.shapes import volumes
from zonekeeper.operator.sight import holdings
from zonekeeper.operator.sight.observed import Observed


def actions(case: Case) -> tuple[Action, ...]:
    """Give what is to be done now; nothing: no volume is to grow, or something is waited for."""
    if case.buildable is None or case.observed.instance is None:
        return ()
    return tuple(claims(case.buildable, case.observed)) or tuple(_sets(case))


def claims(wanted: Desired, observed: Observed) -> Iterator[GrowClaim]:
    """Give each claim that asks for less than is wanted, and that may be told to grow."""
    for volume, one in owned_objects.volumes(wanted).items():
        for name in ownership.claims_below(observed, volume, one.size):
            claim = observed.claims[name]
            if claim.is_bound and not claim.is_left and not claim.leaving:
                assert claim.instance is not None, "it is one of this very cluster"
                yield GrowClaim(name=name, uid=claim.uid, instance=claim.instance, size=one.size)


def sets_with_others(wanted: Desired, observed: Observed) -> list[str]:
    """Name the StatefulSets that make other volumes than are wanted, in order."""
    asked, places = owned_objects.new_volumes(wanted), holdings.places(wanted)
    return [
        name
        for name, item in observed.sets.items()
        if name in places  # that of a zone that leaves makes no volume any more
        and any(
            volume in asked and not volumes.is_same(asked[volume], made)
            for volume, made in owned_objects.claim_volumes(item).items()
        )
    ]


def _sets(case: Case) -> Iterator[Action]:
    observed, standing = case.observed, case.observed.sets
    others = sets_with_others(case.desired, observed)
    for one in observed.kept_sets:
        found = standing.get(one.set_name)
        if found is None or _is_leaving(found):
            return  # ``restoring`` makes it again first
        if one.set_name not in others and found["metadata"]["uid"] == one.replaces:
            yield RemoveObject(kind=CONTROLLER_REVISIONS, name=one.name, uid=one.uid)
    if not others or _is_leaving(standing[others[0]]) or _is_rolling(case):
        return
    uid = str(standing[others[0]]["metadata"]["uid"])
    body = _made_again(case, others[0])
    name = kept_set.name_of(observed.resource, body, uid)
    newest = next((one for one in observed.kept_sets if one.set_name == others[0]), None)
    if newest is not None and newest.name == name:
        yield RemoveSetAlone(name=others[0], uid=uid)
    else:
        number = 1 + max((one.number for one in observed.kept_sets), default=0)
        revision = kept_set.revision(observed.resource, body, replaces=uid, number=number)
        yield Apply(kind=CONTROLLER_REVISIONS, body=revision)


def _made_again(case: Case, name: str) -> Json:
    """Give the StatefulSet as it shall be now, with the claim templates that are asked for."""
    instance = ownership.instance(case.observed)
    asked = owned_objects.all_of(case.desired, case.observed.resource, instance)
    fresh = next(body for kind, body in asked if _is(kind.plural, body, name))
    now = next(body for kind, body in shaping.objects(case) if _is(kind.plural, body, name))
    return owned_objects.with_claims(now, fresh["spec"]["volumeClaimTemplates"])


def _is(plural: str, body: Json, name: str) -> bool:
    return plural == STATEFUL_SETS.plural and body["metadata"]["name"] == name


def _is_leaving(found: Json) -> bool:
    return bool(found["metadata"].get("deletionTimestamp"))


def _is_rolling(case: Case) -> bool:
    """Is a step of the roll or of a scale-down under way, or does this turn begin one?"""
    roll, scale = case.roll, case.scaling
    if roll is None or roll.moves or roll.notes.step is not None:
        return True
    return scale is not None and bool(scale.moves)
