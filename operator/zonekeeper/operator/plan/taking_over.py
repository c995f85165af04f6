"""Bookies that run already are taken over, with the objects that run them. Pure.

A resource that was deleted with its objects orphaned, or that a backup has brought back without its
status, finds objects that nobody controls. Without a person's word it is blocked. The word is the
annotation ``zonekeeper.io/adopt`` with the instance of the root. Then these things hold:

- Only objects that the resource needs, that nobody controls and that have the cluster's label are
  taken over. One that another object controls is never touched.
- Every registered bookie is a pod of these StatefulSets, or of this resource.
- The pods belong to this root, and what cannot change under running bookies is as the resource asks
  for it: volumes, TLS, upgrade domains.

To take an object over is to write the resource as its controller, and nothing else. No template
changes with it, so no pod is made anew. What differs after that is the roll's, behind its gates.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from zonekeeper.operator.cluster import desired, owned_objects, tls_parts
from zonekeeper.operator.cluster.desired import Desired
from zonekeeper.operator.kubernetes.api import (
    ADOPT,
    CLUSTER_LABEL,
    CONTROLLER_REVISIONS,
    STATEFUL_SETS,
    ZONE_LABEL,
    Json,
    ObjectKind,
)
from zonekeeper.operator.plan import ownership
from zonekeeper.operator.plan.plans import Action, Adopt, RemoveObject
from zonekeeper.operator.plan.predicates import Predicate, Waiting
from zonekeeper.operator.plan.stages import Act, Case, Outcome, Settled
from zonekeeper.operator.roots import roots
from zonekeeper.operator.shapes import quantities
from zonekeeper.operator.sight import naming
from zonekeeper.operator.sight.observed import Observed
from zonekeeper.wire.running import seam


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeOver:
    """What a person has said to take over."""

    #: Why it is not done, each with what to do; empty: it is.
    hindrances: tuple[str, ...]
    acts: tuple[Action, ...]
    #: The look as it will be once that is done.
    as_taken: Observed


def stage(case: Case) -> Outcome:
    """Take over what is to be taken over, before anything else is made or changed."""
    if not case.adopts:
        return Settled()
    why = "objects that run bookies already are being taken over"
    return Act(case.adopts, until=Waiting(Predicate.BLOCKED, why))


def of(wanted: Desired, observed: Observed) -> TakeOver | None:
    """Give what is to be taken over; None: nobody has said so, or nothing is left to take."""
    word = _word(observed)
    orphans = dict(_orphans(wanted, observed))
    if word is None or not (orphans or observed.orphans.revisions):
        return None
    seen = _as_taken(orphans, observed)
    acts: tuple[Action, ...] = tuple(Adopt(kind=kind, item=item) for kind, item in orphans.values())
    # Without an owner they would stay for ever; they keep what the earlier resource asked for.
    acts += tuple(
        RemoveObject(
            kind=CONTROLLER_REVISIONS, name=one["metadata"]["name"], uid=one["metadata"]["uid"]
        )
        for one in observed.orphans.revisions
    )
    hindrances = (*_of_root(word, observed, seen), *_of_sets(wanted, orphans))
    return TakeOver(hindrances=hindrances, acts=acts, as_taken=seen)


def _word(observed: Observed) -> str | None:
    found = (observed.resource["metadata"].get("annotations") or {}).get(ADOPT)
    return None if found is None else str(found)


def _orphans(
    wanted: Desired, observed: Observed
) -> Iterator[tuple[tuple[str, str], tuple[ObjectKind, Json]]]:
    for kind, name in owned_objects.names(wanted):
        found = observed.owned.get((kind.plural, name))
        if found is None or owned_objects.controller_of(found) is not None:
            continue
        if (found["metadata"].get("labels") or {}).get(CLUSTER_LABEL) == wanted.name:
            yield (kind.plural, name), (kind, found)


def _as_taken(
    orphans: Mapping[tuple[str, str], tuple[ObjectKind, Json]], observed: Observed
) -> Observed:
    owned, sets = dict(observed.owned), set[str]()
    for key, (kind, item) in orphans.items():
        owners = owned_objects.taken_over(item, observed.resource)
        owned[key] = item | {"metadata": item["metadata"] | {"ownerReferences": owners}}
        if kind is STATEFUL_SETS:
            sets.add(item["metadata"]["uid"])
    pods = tuple(pod for pod in observed.orphans.pods if pod.controller in sets)
    return replace(observed, owned=owned, pods=(*observed.pods, *pods))


def _of_root(word: str, observed: Observed, seen: Observed) -> Iterator[str]:
    """Say why this root is not taken over with these bookies."""
    found = observed.root
    if not isinstance(found, roots.RootFound):
        yield (
            f"metadata.annotations {ADOPT}: {word}: the root was not read, so it is not known "
            "whose bookies run: wait until the metadata store answers, and see MetadataReady"
        )
        return
    if word != found.instance:
        yield (
            f"metadata.annotations {ADOPT}: {word}: the root that spec.metadata.uri names is of "
            f"instance {found.instance}: correct the one or the other"
        )
        return
    if observed.instance not in (None, found.instance):
        yield (
            f"metadata.annotations {ADOPT}: this resource was built as instance "
            f"{observed.instance} already: take the annotation off"
        )
    running = {pod.name for pod in seen.pods}
    strangers = sorted(found.registered - running) or ownership.strangers(seen)
    if strangers:
        yield (
            f"metadata.annotations {ADOPT}: bookies are in the root that are no pods of the "
            f"StatefulSets that the resource asks for: {naming.some(strangers)}: name their zones, "
            "or stop them; nothing is taken over by halves"
        )
    if not found.registered and _owner_differs(observed, found):
        yield (
            f"metadata.annotations {ADOPT}: another owner has set the policy, and no bookie is "
            "registered that shows whose the root is: start the bookies first"
        )


def _owner_differs(observed: Observed, found: roots.RootFound) -> bool:
    return found.policy is not None and found.policy.owner != desired.owner(observed.resource)


def _of_sets(
    wanted: Desired, orphans: Mapping[tuple[str, str], tuple[ObjectKind, Json]]
) -> Iterator[str]:
    """Find what cannot change under running bookies, and differs."""
    for zone in wanted.zones:
        name = owned_objects.set_name(wanted.name, zone.name)
        _, found = orphans.get((STATEFUL_SETS.plural, name), (None, None))
        if found is None:
            continue
        labels = {CLUSTER_LABEL: wanted.name, ZONE_LABEL: str(zone.name)}
        if found["spec"].get("selector", {}).get("matchLabels") != labels:
            yield (
                f"metadata.name: StatefulSet {name} chooses its pods by other labels than "
                f"{labels}, and that cannot change: it is not one of zonekeeper's; it is not taken "
                "over"
            )
            continue
        yield from _of_volumes(wanted, name, found)
        variables = _variables(found)
        for field, key, asked in (
            ("spec.metadata.uri", seam.METADATA, wanted.metadata_uri),
            (
                "spec.policy.placement.upgradeDomains",
                seam.UPGRADE_DOMAINS,
                str(wanted.policy.placement.upgrade_domains),
            ),
        ):
            if variables.get(key) != asked:
                yield (
                    f"{field}: {asked}: the bookies of StatefulSet {name} run with "
                    f"{variables.get(key, 'none')}, and that cannot change: set it so"
                )
        secret, asked_for = _secret(found), tls_parts.of_bookies(wanted, zone.name)
        if secret != asked_for:
            yield (
                f"spec.tls: the bookies of StatefulSet {name} have the certificates of "
                f"{secret or 'no Secret'}, and the resource asks for {asked_for or 'none'}: that "
                "cannot change while they run; set spec.tls as it was"
            )


def _of_volumes(wanted: Desired, name: str, found: Json) -> Iterator[str]:
    standing = {
        one["metadata"]["name"]: (
            one["spec"].get("resources", {}).get("requests", {}).get("storage"),
            one["spec"].get("storageClassName"),
        )
        for one in found["spec"].get("volumeClaimTemplates") or ()
    }
    asked = owned_objects.new_volumes(wanted)
    for volume in sorted(standing.keys() | asked.keys()):
        size, kind = standing.get(volume, (None, None))
        one = asked.get(volume)
        is_same = (
            one is not None
            and volume in standing
            and quantities.value(size) == quantities.value(one.size)
            and one.storage_class in (None, kind)
        )
        if not is_same:
            has = f"size {size}, class {kind or 'none'}" if volume in standing else "no such volume"
            yield (
                f"spec.storage: StatefulSet {name} was made with {has} for the volume {volume}, "
                "and that cannot change: set it so"
            )


def _variables(found: Json) -> dict[str, str]:
    containers = found["spec"]["template"]["spec"].get("containers") or ()
    return {
        str(one["name"]): str(one.get("value", ""))
        for container in containers
        if container.get("name") == owned_objects.CONTAINER
        for one in container.get("env") or ()
    }


def _secret(found: Json) -> str | None:
    """Name the Secret with the certificates of a StatefulSet's pods."""
    for volume in found["spec"]["template"]["spec"].get("volumes") or ():
        if volume.get("name") == tls_parts.VOLUME:
            return str(volume.get("secret", {}).get("secretName", ""))
    return None
