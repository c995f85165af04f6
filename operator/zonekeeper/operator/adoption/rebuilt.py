"""The resource that bookies which run already would be of, read off their objects. Pure.

If the earlier resource's last legal spec is there, it is the spec, word for word. Otherwise it is
read off StatefulSets, Deployments and the policy record. Then it says only what these objects
show; what it does not say would be shown as a change (``preflight``), before anything is applied.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from zonekeeper.operator.cluster import choices, desired, owned_objects, repair_objects, tls_parts
from zonekeeper.operator.kubernetes.api import (
    ADOPT,
    BOOKIE_CLUSTERS,
    CLUSTER_LABEL,
    INSTANCE_LABEL,
    ZONE_LABEL,
    Json,
)
from zonekeeper.operator.shapes import config
from zonekeeper.operator.shapes.network import PagesMode
from zonekeeper.placement.base.troubles import Refusal
from zonekeeper.placement.policy import rules_data
from zonekeeper.placement.policy.rules import Policy
from zonekeeper.wire.running import seam

#: Of a pod's template, and of a zone of the resource: fields of the same name and shape.
_OF_PODS: Final = ("tolerations", "affinity", "priorityClassName", "imagePullSecrets")
_OURS: Final = "ZONEKEEPER_"


class NotRebuiltError(Refusal):
    """No resource can be read off these objects; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingObjects:
    """What runs bookies already, of one cluster."""

    #: The StatefulSets of all zones.
    sets: tuple[Json, ...]
    deployments: tuple[Json, ...] = ()
    #: ControllerRevisions of specs that were legal once, which nobody controls.
    revisions: tuple[Json, ...] = ()
    has_policies: bool = False
    #: The Secret of the operator's authority is there.
    has_authority: bool = False
    policy: Policy | None = None
    #: The instance of the root; None: it was not read.
    instance: str | None = None


def cluster_of(found: Json) -> str:
    """Name the cluster of a StatefulSet; raises ``NotRebuiltError``."""
    meta = found["metadata"]
    name = (meta.get("labels") or {}).get(CLUSTER_LABEL)
    if name is None:
        raise NotRebuiltError(
            f"StatefulSet {meta['name']}: has no label {CLUSTER_LABEL}, so it is not one of "
            "zonekeeper's"
        )
    for owner in meta.get("ownerReferences") or ():
        if owner.get("controller"):
            raise NotRebuiltError(
                f"StatefulSet {meta['name']}: is controlled by {owner.get('kind')} "
                f"{owner.get('name')} already: only what nobody controls is adopted"
            )
    return str(name)


def address(standing: StandingObjects) -> str:
    """Give the metadata store's address that the bookies run with; raises ``NotRebuiltError``."""
    found = {_variables(one).get(seam.METADATA, {}).get("value") for one in standing.sets}
    if len(found) != 1 or None in found:
        raise NotRebuiltError(
            "the StatefulSets run with several metadata stores, or with none: "
            f"{sorted(map(str, found))}"
        )
    return str(found.pop())


def resource(standing: StandingObjects) -> Json:
    """Give the resource; raises ``NotRebuiltError``."""
    first = standing.sets[0]["metadata"]
    name, namespace = cluster_of(standing.sets[0]), first["namespace"]
    instance = standing.instance or _instance(standing.sets)
    if instance is None:
        raise NotRebuiltError(
            f"namespace {namespace}: neither the root nor a StatefulSet of {name} says of which "
            "instance the bookies are: run this where the metadata store is reached"
        )
    spec = _kept(standing.revisions)
    return {
        "apiVersion": BOOKIE_CLUSTERS.api_version,
        "kind": BOOKIE_CLUSTERS.name,
        "metadata": {"name": name, "namespace": namespace, "annotations": {ADOPT: instance}},
        "spec": _spec(name, standing) if spec is None else spec,
    }


def _instance(sets: Iterable[Json]) -> str | None:
    """Give the instance that the claims of these bookies are labelled with."""
    labels = [
        one["metadata"].get("labels", {}).get(INSTANCE_LABEL)
        for item in sets
        for one in item["spec"].get("volumeClaimTemplates") or ()
    ]
    found = set(labels)
    return str(found.pop()) if len(found) == 1 and None not in found else None


def _kept(revisions: Sequence[Json]) -> Json | None:
    """Give the newest spec that was legal; None: none was kept, or it cannot be read."""
    specs = [
        (int(one.get("revision", 0)), one["data"]["spec"])
        for one in revisions
        if isinstance(one.get("data"), dict) and isinstance(one["data"].get("spec"), dict)
    ]
    return max(specs, key=lambda one: one[0])[1] if specs else None


def _spec(name: str, standing: StandingObjects) -> Json:
    if standing.policy is None:
        raise NotRebuiltError(
            "the metadata store was not reached from here, and no kept spec says the policy: a "
            "resource without it would set another policy; run this where the store is reached"
        )
    rules = dict(rules_data.rules(standing.policy))
    placement = dict(rules["placement"]) if isinstance(rules["placement"], dict) else {}
    order = [str(zone) for zone in standing.policy.placement.zones]
    placement.pop("zones", None)
    sets = sorted(standing.sets, key=lambda one: _place(order, _zone(one)))
    counts = {int(one["spec"].get("replicas", 0)) for one in sets}
    if len(counts) != 1:
        raise NotRebuiltError(
            f"the zones have different numbers of bookies ({sorted(counts)}), and a resource has "
            "one number for all: make them the same first"
        )
    template = _Template(sets[0])
    spec: Json = {
        "image": str(template.container.get("image", "")),
        "metadata": {"uri": address(standing)},
        "zones": [_of_zone(one) for one in sets],
        "bookiesPerZone": counts.pop(),
        "storage": _storage(sets[0]),
        "tls": _tls(name, standing, sets[0]),
        "network": {"policies": standing.has_policies},
        "autoReplication": _repair(name, standing, sets),
        "policy": {**rules, "placement": placement},
    }
    if template.container.get("resources"):
        spec["resources"] = template.container["resources"]
    if template.variables.get(seam.HTTP_TLS, {}).get("value") == "on":
        spec["network"]["pages"] = PagesMode.CERTIFICATE.value
    if seam.LISTEN_SOCKET in template.variables:
        spec["socketLane"] = True
    if "runAsUser" not in (template.spec.get("securityContext") or {}):
        spec["podUser"] = choices.PodUser.PLATFORM.value
    if chosen := config.chosen({n: v.get("value", "") for n, v in template.variables.items()}):
        spec["config"] = chosen
    return spec


@dataclass(frozen=True, slots=True)
class _Template:
    """The template of a bookie's pods."""

    item: Json

    @property
    def spec(self) -> Json:
        found: Json = self.item["spec"]["template"]["spec"]
        return found

    @property
    def container(self) -> Json:
        containers = self.spec.get("containers") or ()
        return next((c for c in containers if c.get("name") == owned_objects.CONTAINER), {})

    @property
    def variables(self) -> Mapping[str, Json]:
        return {str(one["name"]): one for one in self.container.get("env") or ()}


def _variables(item: Json) -> Mapping[str, Json]:
    return _Template(item).variables


def _zone(item: Json) -> str:
    return str((item["metadata"].get("labels") or {}).get(ZONE_LABEL, ""))


def _place(order: Sequence[str], zone: str) -> tuple[int, str]:
    return (order.index(zone) if zone in order else len(order)), zone


def _of_zone(item: Json) -> Json:
    template, zone = _Template(item), _zone(item)
    found: Json = {"name": zone}
    selector = template.spec.get("nodeSelector")
    if selector and selector != {desired.DEFAULT_ZONE_LABEL: zone}:
        found["nodeSelector"] = selector
    for name in _OF_PODS:
        if template.spec.get(name):
            found[name] = template.spec[name]
    policy = template.container.get("imagePullPolicy")
    if policy not in (None, "IfNotPresent"):
        found["imagePullPolicy"] = policy
    theirs = [one for one in template.variables.values() if not one["name"].startswith(_OURS)]
    return found | ({"env": theirs} if theirs else {})


def _storage(item: Json) -> Json:
    volumes: dict[str, Json] = {}
    for one in item["spec"].get("volumeClaimTemplates") or ():
        volume: Json = {"size": one["spec"]["resources"]["requests"]["storage"]}
        if (kind := one["spec"].get("storageClassName")) is not None:
            volume["className"] = kind
        volumes[one["metadata"]["name"]] = volume
    if owned_objects.VOLUME not in volumes:
        raise NotRebuiltError(
            f"StatefulSet {item['metadata']['name']}: has no volume {owned_objects.VOLUME}, so it "
            "is not one of zonekeeper's"
        )
    storage = volumes[owned_objects.VOLUME]
    journal = volumes.get(owned_objects.JOURNAL_VOLUME)
    return storage if journal is None else storage | {"journal": journal}


def _secret(item: Json) -> str | None:
    volumes = item["spec"]["template"]["spec"].get("volumes") or ()
    names = (v["secret"]["secretName"] for v in volumes if v.get("name") == tls_parts.VOLUME)
    return next(names, None)


def _tls(name: str, standing: StandingObjects, first: Json) -> Json:
    secret = _secret(first)
    if secret is None:
        return {"mode": "Plaintext"}
    if secret != tls_parts.bookies_name(name, _zone(first)):
        others = (found for one in standing.deployments if (found := _secret(one)) is not None)
        return {
            "mode": "Secrets",
            "secrets": {"bookies": secret, "autorecovery": next(others, secret)},
        }
    if standing.has_authority:
        return {"mode": "Operator"}
    raise NotRebuiltError(
        f"the certificates of the bookies are in Secret {secret}, and no authority of the operator "
        "is there: if cert-manager issued them, write the resource by hand, with tls.mode: Issuer "
        f"and its issuerRef, and annotate it with {ADOPT}"
    )


def _repair(name: str, standing: StandingObjects, sets: Sequence[Json]) -> Json:
    known = {one["metadata"]["name"]: one for one in standing.deployments}
    ours = [known.get(repair_objects.deployment_name(name, _zone(one))) for one in sets]
    counts = {0 if one is None else int(one["spec"].get("replicas", 1)) for one in ours}
    found: Json = {"perZone": max(counts)}
    if ours[0] is not None:
        containers = ours[0]["spec"]["template"]["spec"].get("containers") or ()
        resources = next((c.get("resources") for c in containers), None)
        return found | ({"resources": resources} if resources else {})
    return found
