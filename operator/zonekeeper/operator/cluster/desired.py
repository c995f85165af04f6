"""Reads a ``BookieCluster`` resource: it gives a cluster that can be built, or every problem.

The schema of the custom resource refuses wrong kinds of value before they are stored. The operator
reads all fields again for two reasons: the schema may be older than the operator, and a schema
cannot state rules between fields or judge placement. A refusal of placement is passed on unchanged.
"""

import enum
import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from zonekeeper.metadata.store.errors import BadStoreUriError
from zonekeeper.metadata.stores import uri
from zonekeeper.operator.cluster import quantities
from zonekeeper.operator.kubernetes.api import Json
from zonekeeper.placement.base import fields
from zonekeeper.placement.base.fields import Problem
from zonekeeper.placement.base.ids import ZoneName
from zonekeeper.placement.policy import gating, legality, rules_data
from zonekeeper.placement.policy.rules import Policy

#: Clouds label each node with its zone under this name.
DEFAULT_ZONE_LABEL: Final = "topology.kubernetes.io/zone"

BOOKIES_PER_ZONE_MAX: Final = 1_000
CLUSTER_NAME_MAX: Final = 30
#: A pod has a label ``<cluster>-<zone>-<hash of 10 characters>``, of at most 63 characters.
SET_NAME_MAX: Final = 52

_NAME_REST: Final = rf"([-a-z0-9]{{0,{CLUSTER_NAME_MAX - 2}}}[a-z0-9])?"
#: Names of Services and pods begin with the name of the cluster.
CLUSTER_NAME: Final = rf"[a-z]{_NAME_REST}"
#: A resource's name cannot change, so a built cluster may keep a name that begins with a digit.
_BUILT_NAME: Final = rf"[a-z0-9]{_NAME_REST}"
CLUSTER_NAME_RULE: Final = (
    f"must begin with a letter and have at most {CLUSTER_NAME_MAX} characters and no dot, so that "
    "names of Services and pods can be made of it"
)

_SUBDOMAIN_MAX: Final = 253
_DNS_LABEL: Final = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_DNS_LABEL}(\.{_DNS_LABEL}){{0,15}}"
_LABEL: Final = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_LABEL_NAME: Final = rf"({_SUBDOMAIN}/)?{_LABEL}"
LABEL_VALUE: Final = rf"({_LABEL})?"
#: Of these a node may promise more than it has. Of every other resource: request = limit.
_SHARED: Final = frozenset({"cpu", "memory", "ephemeral-storage"})
_RESOURCE_NAME: Final = (
    rf"{'|'.join(sorted(_SHARED))}|hugepages-[0-9]{{1,9}}[KMG]i|{_SUBDOMAIN}/{_LABEL}"
)


class OnDelete(enum.StrEnum):
    """Do volumes and metadata stay when the resource is deleted?"""

    RETAIN = "Retain"
    DELETE = "Delete"


#: The plain fields of ``spec``, by name; the schema is made from the same table.
FIELDS: Final[Mapping[str, fields.Kind]] = {
    "bookiesPerZone": fields.Whole(1, BOOKIES_PER_ZONE_MAX),
    "image": fields.Text(
        r"[a-z0-9][-a-z0-9._/:]{0,254}(:[A-Za-z0-9_][-A-Za-z0-9_.]{0,127}|@sha256:[0-9a-f]{64})",
        "an image with a tag or a digest",
        "registry.example/zonekeeper:0.1.0",
    ),
    "metadata.uri": fields.Text(
        r"zk://[-0-9A-Za-z._:,;\[\]/~]{1,1000}",
        "the address of a ZooKeeper ensemble and a root in it",
        "zk://zookeeper:2181/ledgers",
    ),
    "onDelete": fields.OneOf(OnDelete),
    "storage.className": fields.Text(_SUBDOMAIN, "the name of a storage class", "fast"),
    "storage.size": fields.Text(
        r"[1-9][0-9]{0,5}(Mi|Gi|Ti)", "a whole number and Mi, Gi or Ti", "100Gi"
    ),
}
DEFAULTS: Final[Mapping[str, int | str]] = {
    "bookiesPerZone": 3,
    "onDelete": OnDelete.RETAIN.value,
}
REQUIRED: Final = ("image", "metadata.uri", "storage.size")


@dataclass(frozen=True, slots=True, kw_only=True)
class Zone:
    """A zone, and the labels that a node must have to belong to it."""

    name: ZoneName
    node_labels: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Desired:
    """A legal cluster, as its resource asks for it."""

    namespace: str
    name: str
    metadata_uri: str
    zones: tuple[Zone, ...]
    bookies_per_zone: int
    image: str
    storage_size: str
    storage_class: str | None
    resources: Json
    policy: Policy
    #: Warnings of placement, and problems that a cluster which is built already may keep.
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RefusedResource:
    """A resource that nothing is built from, with every reason."""

    reasons: tuple[str, ...]


def owner(resource: Json) -> str:
    """Give the name under which this resource owns a policy record."""
    meta = resource["metadata"]
    return f"operator/{meta['namespace']}/{meta['name']}"


def on_delete(resource: Json) -> OnDelete:
    """Read ``spec.onDelete``; every value but ``Delete`` means ``Retain``."""
    given = resource.get("spec", {}).get("onDelete")
    return OnDelete.DELETE if given == OnDelete.DELETE.value else OnDelete.RETAIN


def _is_built(resource: Json) -> bool:
    """Was a cluster built of this resource, perhaps by an operator with fewer rules?"""
    return bool(resource.get("status", {}).get("instance"))


def metadata_uri(resource: Json) -> str | None:
    """Read the metadata store's address; None: there is none that can be used."""
    given = resource.get("spec", {}).get("metadata", {}).get("uri")
    return None if _uri_problem(given) else given


def read(resource: Json) -> Desired | RefusedResource:
    """Read a resource; a refusal names all its problems at once."""
    spec: Json = resource.get("spec", {})
    problems: list[Problem] = []
    values = _plain_fields(spec, problems)
    zones = _zones(spec, problems)
    policy = _policy(spec, zones, problems)
    given_uri = values.get("metadata.uri")
    if given_uri is not None and (wrong := _uri_problem(given_uri)):
        problems.append(wrong)
    resources = _resources(spec.get("resources") or {}, problems)
    shared = tuple(_shared_nodes(zones))
    if not _is_built(resource):
        problems += shared
    problems += _name_problems(resource, zones)
    reasons = [str(problem) for problem in problems]
    if policy is None:
        return RefusedResource(tuple(reasons))
    verdict = legality.judge(policy.quorums, policy.placement)
    reasons += [f"spec.policy.{finding.reason}" for finding in verdict.refusals]
    bookies = values.get("bookiesPerZone")
    if isinstance(bookies, int) and bookies * len(zones) < policy.quorums.ensemble:
        reasons.append(_too_few(bookies, len(zones), policy.quorums.ensemble))
    if reasons:
        return RefusedResource(tuple(reasons))
    assert isinstance(bookies, int), "every plain field was read"
    sizes = {zone.name: bookies for zone in zones}
    risks = (*verdict.warnings, *gating.judge(policy.zone_watch, sizes))
    storage_class = values.get("storage.className")
    return Desired(
        namespace=resource["metadata"]["namespace"],
        name=resource["metadata"]["name"],
        metadata_uri=str(given_uri),
        zones=zones,
        bookies_per_zone=bookies,
        image=str(values["image"]),
        storage_size=str(values["storage.size"]),
        storage_class=None if storage_class is None else str(storage_class),
        resources=resources,
        policy=replace(policy, owner=owner(resource)),
        warnings=(
            *map(str, shared),
            *(f"spec.policy.{finding.reason}" for finding in risks),
        ),
    )


def _plain_fields(spec: Json, problems: list[Problem]) -> dict[str, object]:
    values: dict[str, object] = {}
    for name, kind in FIELDS.items():
        *section, last = name.split(".")
        inside: object = spec
        for step in section:
            inside = inside.get(step) if isinstance(inside, dict) else None
        given = inside.get(last) if isinstance(inside, dict) else None
        given = DEFAULTS.get(name) if given is None else given
        if given is None:
            if name in REQUIRED:
                problems.append(Problem(f"spec.{name}", "missing", "is required", _example(kind)))
            continue
        try:
            values[name] = kind.read(f"spec.{name}", given)
        except fields.InvalidFieldsError as refused:
            problems += refused.problems
    return values


def _example(kind: fields.Kind) -> str:
    assert isinstance(kind, fields.Text), "what is required is a text"
    return f"write for example {kind.example}"


def _zones(spec: Json, problems: list[Problem]) -> tuple[Zone, ...]:
    given = spec.get("zones")
    items = given if isinstance(given, list) else []
    names = [item.get("name") if isinstance(item, dict) else None for item in items]
    try:
        fields.Names(rules_data.ZONES_MAX).read("spec.zones", names)
    except fields.InvalidFieldsError as refused:
        problems += refused.problems
        return ()
    return tuple(
        Zone(
            name=ZoneName(item["name"]),
            node_labels=_node_labels(item, f"spec.zones[{index}].nodeSelector", problems),
        )
        for index, item in enumerate(items)
    )


def _node_labels(item: Json, where: str, problems: list[Problem]) -> dict[str, str]:
    default = {DEFAULT_ZONE_LABEL: str(item["name"])}
    given = item.get("nodeSelector") or default
    if isinstance(given, dict) and all(
        isinstance(label, str) and _is_name(_LABEL_NAME, name) and re.fullmatch(LABEL_VALUE, label)
        for name, label in given.items()
    ):
        return given
    rule = "must be names of labels, each with a value"
    problems.append(
        Problem(where, fields.shown(given), rule, f"write for example {fields.shown(default)}")
    )
    return default


def _is_name(pattern: str, name: str) -> bool:
    prefix = name.rpartition("/")[0]
    return len(prefix) <= _SUBDOMAIN_MAX and re.fullmatch(pattern, name) is not None


def _resources(given: object, problems: list[Problem]) -> Json:
    """Read limits and requests; Kubernetes drops a section without amounts, so this does, too."""
    found: Json = {}
    for section in ("limits", "requests"):
        amounts = given.get(section) or {} if isinstance(given, dict) else given
        where = f"spec.resources.{section}"
        if not isinstance(amounts, dict):
            rule, hint = "must be amounts by resource", 'write for example {"memory": "2Gi"}'
            problems.append(Problem(where, fields.shown(amounts), rule, hint))
            continue
        for name, amount in amounts.items():
            problems += _amount_problems(f"{where}.{name}", name, amount)
        if amounts:
            found[section] = amounts
    problems += _unlimited(found.get("requests", {}), found.get("limits", {}))
    return found


def _unlimited(requests: Json, limits: Json) -> Iterator[Problem]:
    """Find requests that their limits do not allow."""
    for name, amount in requests.items():
        least, most = quantities.value(amount), quantities.value(limits.get(name))
        above, limit = f"spec.resources.limits.{name}", limits.get(name, "missing")
        if least is None:
            continue  # `_amount_problems` has said it
        if name not in _SHARED and least != most:
            rule, hint = f"must be the same as {above} ({limit})", "write both, or the limit alone"
        elif most is not None and least > most:
            rule, hint = f"must not be above {above} ({limit})", "raise that or lower this"
        else:
            continue
        yield Problem(f"spec.resources.requests.{name}", fields.shown(amount), rule, hint)


def _amount_problems(where: str, name: str, amount: object) -> Iterator[Problem]:
    if not _is_name(_RESOURCE_NAME, name):
        rule = "must be cpu, memory, ephemeral-storage or a resource's whole name"
        yield Problem(where, fields.shown(name), rule, "write for example memory")
    if quantities.value(amount) is None:
        rule = "must be an amount of zero, or from 1n to 2^63-1"
        yield Problem(where, fields.shown(amount), rule, "write for example 500m or 2Gi")


def _shared_nodes(zones: tuple[Zone, ...]) -> Iterator[Problem]:
    """Find pairs of zones that one node can belong to: with that node both zones would go down.

    A cluster that was built with such zones only gets a warning. Its nodes may differ in labels
    that only one of the zones names, and to stop keeping it up would not make it safer.
    """
    for (first, one), (second, other) in itertools.combinations(enumerate(zones), 2):
        if any(
            other.node_labels.get(key, value) != value for key, value in one.node_labels.items()
        ):
            continue
        rule = f"can choose a node of spec.zones[{first}] ({fields.shown(one.name)}), too"
        hint = "name one label in both, with different values"
        shown = fields.shown(dict(other.node_labels))
        yield Problem(f"spec.zones[{second}].nodeSelector", shown, rule, hint)


def _policy(spec: Json, zones: tuple[Zone, ...], problems: list[Problem]) -> Policy | None:
    """Read the policy; its zones are those of ``spec.zones``, and may be left out of it."""
    if not zones:
        return None  # the problem of the zones is said; without zones there is nothing to judge
    names = [str(zone.name) for zone in zones]
    given = spec.get("policy") or {}
    placement = given.get("placement") or {} if isinstance(given, dict) else {}
    if isinstance(given, dict) and isinstance(placement, dict):
        said = placement.get("zones")
        if said is not None and said != names:
            rule = f"must be the zones of spec.zones ({fields.shown(names)})"
            where = "spec.policy.placement.zones"
            problems.append(Problem(where, fields.shown(said), rule, "leave it out"))
        given = {**given, "placement": {**placement, "zones": names}}
    try:
        return rules_data.from_rules(given, "spec.policy")
    except fields.InvalidFieldsError as refused:
        problems += refused.problems
        return None


def _uri_problem(given: object) -> Problem | None:
    where = "spec.metadata.uri"
    if not isinstance(given, str):
        return Problem(where, fields.shown(given), "must be an address", "write zk://host/ledgers")
    try:
        address = uri.parse(given)
    except BadStoreUriError as error:
        return Problem(where, fields.shown(given), "cannot be used", str(error))
    if not isinstance(address, uri.ZooKeeperAddress):
        rule = "must be a store that pods on all nodes reach"
        return Problem(where, fields.shown(given), rule, "write zk://host:2181/ledgers")
    return None


def _name_problems(resource: Json, zones: tuple[Zone, ...]) -> Iterator[Problem]:
    name = resource["metadata"]["name"]
    for index, zone in enumerate(zones):
        whole = f"{name}-{zone.name}"
        if len(whole) > SET_NAME_MAX:
            rule = f"makes {whole}, and a StatefulSet's name has at most {SET_NAME_MAX} characters"
            yield Problem(f"spec.zones[{index}]", fields.shown(zone.name), rule, "shorten one")
    if not re.fullmatch(_BUILT_NAME if _is_built(resource) else CLUSTER_NAME, name):
        hint = "choose another name"
        yield Problem("metadata.name", fields.shown(name), CLUSTER_NAME_RULE, hint)


def _too_few(bookies: int, zones: int, ensemble: int) -> str:
    return (
        f"spec.bookiesPerZone: {bookies}: must give at least as many bookies as "
        f"spec.policy.quorums.ensemble ({ensemble}), and {zones} zones have {bookies * zones}; "
        f"set it to {-(-ensemble // zones)} or more"
    )
