"""What is true of a cluster now: its conditions, and the counts that stand beside them. Pure.

Each function answers one question from what was observed. Where something could not be seen the
answer is Unknown, with the reason.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from zonekeeper.operator.cluster import desired, owned_objects
from zonekeeper.operator.cluster.desired import Desired, RefusedResource, Zone
from zonekeeper.operator.cluster.observed import Observed
from zonekeeper.operator.kubernetes.api import ZONE_LABEL, Json
from zonekeeper.operator.plan import conditions
from zonekeeper.operator.plan.conditions import Condition, Type
from zonekeeper.operator.roots import roots
from zonekeeper.placement.base import upgrade_domains
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.base.upgrade_domains import RoundRobin

#: So many of a long list are named.
_NAMED_MAX: Final = 5


def legal(
    wanted: Desired | RefusedResource, blocked: tuple[str, ...], observed: Observed
) -> Condition:
    """Can it be built, in placement's words if not?

    A root that was not taken up yet may hold bookies that a resource before left: until it is seen,
    nobody knows whether they are left out.
    """
    if isinstance(wanted, RefusedResource):
        return conditions.bad(Type.LEGAL, "Refused", "\n".join(wanted.reasons))
    if blocked:
        return conditions.bad(Type.LEGAL, "Blocked", "\n".join(blocked))
    if observed.instance is None and isinstance(observed.root, roots.Unreachable):
        message = "bookies that a resource before left in the root were not seen: see MetadataReady"
        return conditions.unknown(Type.LEGAL, "NotSeen", message)
    if wanted.warnings:
        return conditions.good(Type.LEGAL, "LegalWithWarnings", "\n".join(wanted.warnings))
    return conditions.good(Type.LEGAL, "Legal", "placement keeps what the policy promises")


def metadata_ready(observed: Observed) -> Condition:
    """Is the metadata store there, and is the root in it this cluster's?"""
    found, known = observed.root, observed.instance
    match found:
        case roots.NotAsked():
            message = "the resource does not say which store"
            return conditions.unknown(Type.METADATA_READY, "NotAsked", message)
        case roots.Unreachable(reason):
            return conditions.bad(Type.METADATA_READY, "Unreachable", reason)
        case roots.Unusable(reason):
            return conditions.bad(Type.METADATA_READY, "Unusable", reason)
        case roots.Absent():
            return _root_missing(known)
        case roots.RootFound():
            if names := strangers(observed):
                return _root_in_use(found, names)
            return _root_found(found.instance, known)


def _root_missing(known: str | None) -> Condition:
    if known is None:
        message = "nothing stands at the root yet"
        return conditions.bad(Type.METADATA_READY, "NotInitialised", message)
    message = (
        f"the root of instance {known} is gone, and is not made again over its bookies' data: "
        "restore the metadata, or delete the resource and its volumes and make it anew"
    )
    return conditions.bad(Type.METADATA_READY, "RootLost", message)


def _root_found(instance: str, known: str | None) -> Condition:
    if known in (None, instance):
        return conditions.good(Type.METADATA_READY, "Found", f"instance {instance}")
    message = (
        f"the root is instance {instance} now, and this cluster is {known}: restore its metadata, "
        "or delete the resource and its volumes and make it anew"
    )
    return conditions.bad(Type.METADATA_READY, "OtherInstance", message)


def strangers(observed: Observed) -> list[BookieId]:
    """Name bookies that keep us from taking up a root that we could: they are no pods of ours.

    Those that run are registered. Those that are down have a cookie: where not one of them has its
    volume here, all are somewhere else.
    """
    found = observed.root
    if observed.instance is not None or not isinstance(found, roots.RootFound):
        return []
    if found.policy is not None and found.policy.owner != desired.owner(observed.resource):
        return []
    running = sorted(found.registered - {pod.name for pod in observed.pods})
    if running or any(_has_volume_here(bookie, found, observed) for bookie in found.locations):
        return running
    return sorted(found.locations)


def _has_volume_here(bookie: BookieId, found: roots.RootFound, observed: Observed) -> bool:
    claim = observed.claims.get(owned_objects.claim_name(bookie))
    return claim is not None and claim.instance in (None, found.instance)


def _root_in_use(found: roots.RootFound, names: list[BookieId]) -> Condition:
    named = some(names)
    if found.registered.isdisjoint(names):
        what = f"holds cookies of bookies whose volumes are not here: {named}"
        wait = "if they are of a resource before, restore their volumes"
    else:
        what = f"has bookies registered that this resource does not run: {named}"
        wait = "if they are of a resource before, wait until their sessions end"
    message = (
        f"the root (instance {found.instance}) {what}: {wait}; if another Kubernetes cluster runs "
        "them, or in doubt, choose another root in spec.metadata.uri"
    )
    return conditions.bad(Type.METADATA_READY, "InUse", message)


def policy_published(
    wanted: Desired | RefusedResource, observed: Observed, owner: str
) -> Condition:
    """Is the record in the metadata store the one that the resource asks for?"""
    kind, found = Type.POLICY_PUBLISHED, observed.root
    if not isinstance(found, roots.RootFound):
        return conditions.unknown(kind, "NotSeen", "the metadata store was not read")
    if strangers(observed):
        return conditions.unknown(kind, "InUse", "the root is not taken up: see MetadataReady")
    if found.policy is None:
        return conditions.bad(kind, "NoPolicy", "no policy stands there yet")
    if found.policy.owner != owner:
        message = (
            f"the policy of instance {found.instance} belongs to {found.policy.owner}, and is not "
            f"overwritten by {owner}: choose another root in spec.metadata.uri, or delete what "
            "owns it"
        )
        return conditions.bad(kind, "OwnedByAnother", message)
    if isinstance(wanted, RefusedResource) or not same_rules(wanted, found):
        legal = isinstance(wanted, Desired)
        what = "is about to be replaced" if legal else "holds until the resource is legal again"
        return conditions.bad(kind, "Outdated", f"version {found.policy.version} {what}")
    return conditions.good(kind, "Published", f"version {found.policy.version}")


def same_rules(wanted: Desired, found: roots.RootFound) -> bool:
    """Does the standing record say what the resource asks for?"""
    standing = found.policy
    assert standing is not None, "the caller looked"
    ours = wanted.policy
    return all(
        getattr(ours, part) == getattr(standing, part)
        for part in ("placement", "quorums", "digest", "reads", "zone_watch", "repair")
    )


def applied(observed: Observed) -> Condition:
    """Could the last turn do what it wanted?"""
    if observed.failures:
        return conditions.bad(Type.APPLIED, "Failed", "\n".join(observed.failures))
    return conditions.good(Type.APPLIED, "Applied", "nothing failed")


def up_to_date(observed: Observed) -> Condition:
    """Does every pod run what its StatefulSet says now?

    The pods are asked, and not the counts in a StatefulSet's status: these call revisions current
    that no pod runs.
    """
    kind = Type.UP_TO_DATE
    if not observed.pods:
        return conditions.unknown(kind, "NoBookies", "no bookie runs yet")
    old = [
        f"{name}: {count}"
        for name, item in observed.sets.items()
        if (count := _old(item, observed))
    ]
    if old:
        message = (
            f"pods that run an older template, by StatefulSet: {', '.join(old)}; they take the new "
            "one when they are deleted: one zone after another"
        )
        return conditions.bad(kind, "OldPods", message)
    behind = [name for name, item in observed.sets.items() if not _is_looked_at(item)]
    if behind:
        message = f"Kubernetes has not looked at the newest template yet: {', '.join(behind)}"
        return conditions.unknown(kind, "NotObserved", message)
    return conditions.good(kind, "UpToDate", "every pod runs the newest template")


def _is_looked_at(item: Json) -> bool:
    seen = item.get("status", {}).get("observedGeneration", 0)
    return int(seen) >= int(item["metadata"]["generation"])


def _old(item: Json, observed: Observed) -> int:
    """Count the pods of a StatefulSet that are known not to be of its newest template."""
    newest = item.get("status", {}).get("updateRevision")
    if newest is None or not _is_looked_at(item):
        return 0
    name = item["metadata"]["name"]
    return sum(
        pod.revision != newest for pod in observed.pods if pod.name.rpartition("-")[0] == name
    )


def locations_verified(wanted: Desired | RefusedResource, observed: Observed) -> Condition:
    """Does each bookie's cookie say where its pod stands?"""
    kind, found = Type.LOCATIONS_VERIFIED, observed.root
    if isinstance(wanted, RefusedResource) or not isinstance(found, roots.RootFound):
        return conditions.unknown(kind, "NotSeen", "cookies were not read")
    wrong = list(_misplaced(wanted, observed, found))
    if wrong:
        return conditions.bad(kind, "Misplaced", "; ".join(wrong))
    if not observed.pods:
        return conditions.unknown(kind, "NoBookies", "no bookie runs yet")
    missing = [pod.name for pod in observed.pods if found.locations.get(pod.name) is None]
    if missing:
        return conditions.unknown(kind, "NoCookie", f"no location yet: {some(missing)}")
    if observed.nodes is None:
        message = "cookies agree with the zones' StatefulSets; nodes may not be read"
        return conditions.unknown(kind, "NodesNotPermitted", message)
    return conditions.good(kind, "Verified", f"{len(observed.pods)} bookies")


def _misplaced(wanted: Desired, observed: Observed, found: roots.RootFound) -> Iterator[str]:
    domains = RoundRobin(upgrade_domains=wanted.policy.placement.upgrade_domains)
    zones = {zone.name: zone for zone in wanted.zones}
    for pod in observed.pods:
        zone, said = zones.get(pod.zone), found.locations.get(pod.name)
        if zone is None:
            continue  # a zone that is not asked for blocks the turn, and is said there
        ordinal = upgrade_domains.ordinal_of(pod.name)
        computed = Location(zone.name, upgrade_domains.of_ordinal(ordinal, domains))
        if said not in (None, computed):
            yield f"{pod.name} belongs to {computed}, and its cookie says {said}"
        if lacking := _lacking(zone, observed, pod.node):
            yield f"{pod.name} of zone {zone.name} stands on node {pod.node} without {lacking}"


def _lacking(zone: Zone, observed: Observed, node: str | None) -> str:
    labels = None if observed.nodes is None or node is None else observed.nodes.get(node)
    if labels is None:
        return ""
    absent = [
        f"{key}={value}" for key, value in zone.node_labels.items() if labels.get(key) != value
    ]
    return ", ".join(sorted(absent))


def ready(zones: list[Json]) -> Condition:
    """Is every bookie that is asked for there and ready?"""
    if not zones:
        return conditions.bad(Type.READY, "Refused", "the resource is not built: see Legal")
    short = [
        f"zone {zone['name']}: {zone['ready']} of {zone['bookies']}"
        for zone in zones
        if zone["ready"] < zone["bookies"]
    ]
    if short:
        return conditions.bad(Type.READY, "BookiesNotReady", "; ".join(short))
    count = sum(zone["bookies"] for zone in zones)
    return conditions.good(Type.READY, "AllReady", f"{count} bookies in {len(zones)} zones")


def zone_counts(wanted: Desired | RefusedResource, observed: Observed) -> list[Json]:
    """Give for each zone how many bookies it shall have, and how many are ready.

    What is refused changes nothing, so then those count that run on.
    """
    shall: dict[str, int] = {}
    if isinstance(wanted, Desired):
        shall = {str(zone.name): wanted.bookies_per_zone for zone in wanted.zones}
    for item in observed.sets.values():
        zone = item["metadata"].get("labels", {}).get(ZONE_LABEL, "")
        shall.setdefault(str(zone), int(item["spec"]["replicas"]))
    return [
        {
            "name": zone,
            "bookies": count,
            "ready": sum(pod.ready for pod in observed.pods if pod.zone == zone),
        }
        for zone, count in shall.items()
    ]


def some(names: Sequence[str]) -> str:
    """Name a few of many, and count the others."""
    more = len(names) - _NAMED_MAX
    return ", ".join(sorted(names)[:_NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
