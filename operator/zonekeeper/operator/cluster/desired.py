"""Reads a ``BookieCluster`` resource: it gives a cluster that can be built, or every problem.

The schema of the custom resource refuses wrong kinds of value before they are stored. The operator
reads all fields again for two reasons: the schema may be older than the operator, and a schema
cannot state rules between fields or judge placement. A refusal of placement is passed on unchanged.
"""

import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from zonekeeper.metadata.store.errors import BadStoreUriError
from zonekeeper.metadata.stores import uri
from zonekeeper.operator.cluster import heal_rules, security_rules, sizing, store_access
from zonekeeper.operator.cluster.choices import OnDelete, OnScaleDown, PodUser
from zonekeeper.operator.cluster.heal_rules import HealRules
from zonekeeper.operator.cluster.security_rules import NetworkRules, TlsRules
from zonekeeper.operator.cluster.store_access import StoreAccess
from zonekeeper.operator.kubernetes.api import Json
from zonekeeper.operator.shapes import amounts, config, forbidden, images, names, pods, volumes
from zonekeeper.operator.shapes.pods import PodFields
from zonekeeper.operator.shapes.volumes import Volume
from zonekeeper.placement.base import fields, units
from zonekeeper.placement.base.fields import Problem
from zonekeeper.placement.base.ids import ZoneName
from zonekeeper.placement.policy import gating, legality, rules_data
from zonekeeper.placement.policy.rules import Policy

#: Clouds label each node with its zone under this name.
DEFAULT_ZONE_LABEL: Final = "topology.kubernetes.io/zone"

BOOKIES_PER_ZONE_MAX: Final = 1_000
REPAIRERS_PER_ZONE_MAX: Final = 10
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


#: The plain fields of ``spec``, by name; the schema is made from the same table.
FIELDS: Final[Mapping[str, fields.Kind]] = {
    "autoReplication.perZone": fields.Whole(0, REPAIRERS_PER_ZONE_MAX),
    "bookiesPerZone": fields.Whole(1, BOOKIES_PER_ZONE_MAX),
    "drains.paused": fields.Flag(),
    **heal_rules.FIELDS,
    "image": images.IMAGE,
    **store_access.FIELDS,
    "metadata.uri": fields.Text(
        r"zk://[-0-9A-Za-z._:,;\[\]/~]{1,1000}",
        "the address of a ZooKeeper ensemble and a root in it",
        "zk://zookeeper:2181/ledgers",
    ),
    "onDelete": fields.OneOf(OnDelete),
    "paused": fields.Flag(),
    "podUser": fields.OneOf(PodUser),
    "scaleDown.paused": fields.Flag(),
    "socketLane": fields.Flag(),
    "storage.className": volumes.CLASS,
    "storage.journal.className": volumes.CLASS,
    "storage.journal.size": volumes.SIZE,
    "storage.newVolumes.className": volumes.CLASS,
    "storage.newVolumes.size": volumes.SIZE,
    "storage.onScaleDown": fields.OneOf(OnScaleDown),
    "storage.size": volumes.SIZE,
    "update.bake": fields.Duration(0, units.DAY_MS),
    "update.deadline": fields.Duration(units.SECOND_MS, units.DAY_MS),
    "update.paused": fields.Flag(),
}
DEFAULTS: Final[Mapping[str, int | str]] = {
    "autoReplication.perZone": 1,
    "bookiesPerZone": 3,
    "drains.paused": False,
    **heal_rules.DEFAULTS,
    "onDelete": OnDelete.RETAIN.value,
    "paused": False,
    "podUser": PodUser.FIXED.value,
    "scaleDown.paused": False,
    "socketLane": False,
    "storage.onScaleDown": OnScaleDown.RETAIN.value,
    "update.bake": "1m",
    "update.deadline": "10m",
    "update.paused": False,
}
REQUIRED: Final = ("metadata.uri", "storage.size")
NO_IMAGE: Final = "is required, because this operator was not told its own image"


@dataclass(frozen=True, slots=True, kw_only=True)
class Zone:
    """A zone, and the labels that a node must have to belong to it."""

    name: ZoneName
    node_labels: Mapping[str, str]
    #: What its pods have beside the rest: the cluster's fields, and its own over them.
    pods: PodFields = field(default_factory=PodFields)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateRules:
    """How a changed template reaches the bookies."""

    #: After each step the roll rests for this time.
    bake_ms: int
    #: A step whose bookies are not well after this time halts the roll.
    deadline_ms: int
    #: No step begins.
    paused: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Desired:
    """A legal cluster, as its resource asks for it."""

    namespace: str
    name: str
    metadata_uri: str
    zones: tuple[Zone, ...]
    bookies_per_zone: int
    #: The number of autorecovery processes in each zone; 0: this resource installs no repair.
    repairers_per_zone: int
    repair_resources: Json
    image: str
    pod_user: PodUser
    #: Do the bookies serve the socket lane, too? One of an older release does not know the variable
    #: that says so, and serves gRPC alone.
    socket_lane: bool
    #: Each bookie's volume.
    volume: Volume
    #: What is made from now on has another class or size than the volumes that stand.
    new_volume: Volume
    #: Does the volume of a bookie that was removed stay?
    on_scale_down: OnScaleDown
    #: No further bookie is emptied because fewer are asked for.
    scale_down_paused: bool
    #: No zone is opened to a drain; one that is open is closed.
    drains_paused: bool
    #: The volume of arrival segments; None: they are on the other one.
    journal: Volume | None
    resources: Json
    #: The bookies' settings that were chosen, as texts by name.
    config: Mapping[str, str]
    update: UpdateRules
    heal: HealRules
    policy: Policy
    store: StoreAccess
    tls: TlsRules
    network: NetworkRules
    #: Warnings of placement, and problems that a cluster which is built already may keep.
    warnings: tuple[str, ...]


#: What to do about two zones that one node can belong to.
APART: Final = "name one label in both, with different values"

#: The warning of a resource that asks for no autorecovery process.
NO_REPAIR: Final = (
    "spec.autoReplication.perZone: 0: nothing that this resource installs watches zones or makes "
    "lost copies again; run `zonekeeper autorecovery run` yourself, or set it to 1 or more"
)


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


def is_paused(resource: Json) -> bool:
    """Read ``spec.paused``, also of a resource that is refused; every value but true means no."""
    return resource.get("spec", {}).get("paused") is True


def _is_built(resource: Json) -> bool:
    """Was a cluster built of this resource, perhaps by an operator with fewer rules?"""
    return bool(resource.get("status", {}).get("instance"))


def with_own_image(resource: Json, image: str | None) -> Json:
    """Give a resource whose bookies run the operator's own image, if it names none itself."""
    spec = resource.get("spec")
    if image is None or not isinstance(spec, dict) or spec.get("image") is not None:
        return resource
    return {**resource, "spec": {**spec, "image": image}}


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
    chosen = config.read(spec.get("config"), "spec.config", problems)
    problems += [*forbidden.problems(spec), *heal_rules.problems(values)]
    tls, network = security_rules.read(spec, resource, problems)
    problems += security_rules.held_by_nobody(chosen, tls)
    store = store_access.read(values, problems)
    given_uri = values.get("metadata.uri")
    if given_uri is not None and (wrong := _uri_problem(given_uri)):
        problems.append(wrong)
    resources = amounts.read(spec.get("resources") or {}, "spec.resources", problems)
    repair_resources = _repair_resources(spec, problems)
    journal = _journal(spec, values, problems)
    newer = tuple(_rules_of_later(zones, values))
    if not _is_built(resource):
        problems += newer
    problems += [*_name_problems(resource, zones), *heal_rules.problems(values)]
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
    repairers = values.get("autoReplication.perZone")
    assert isinstance(bookies, int), "every plain field was read"
    assert isinstance(repairers, int), "every plain field was read"
    sizes = {zone.name: bookies for zone in zones}
    risks = (*verdict.warnings, *gating.judge(policy.zone_watch, sizes))
    volume = volumes.of_class(str(values["storage.size"]), values.get("storage.className"))
    return Desired(
        namespace=resource["metadata"]["namespace"],
        name=resource["metadata"]["name"],
        metadata_uri=str(given_uri),
        zones=zones,
        bookies_per_zone=bookies,
        repairers_per_zone=repairers,
        repair_resources=repair_resources,
        image=str(values["image"]),
        pod_user=PodUser(str(values["podUser"])),
        socket_lane=values["socketLane"] is True,
        volume=volume,
        new_volume=_new_volume(volume, values),
        on_scale_down=OnScaleDown(str(values["storage.onScaleDown"])),
        scale_down_paused=values["scaleDown.paused"] is True,
        drains_paused=values["drains.paused"] is True,
        journal=journal,
        resources=resources,
        config=chosen,
        update=_update(values),
        heal=heal_rules.read(values),
        policy=replace(policy, owner=owner(resource)),
        store=store,
        tls=tls,
        network=network,
        warnings=(
            *map(str, newer),
            *(() if repairers else (NO_REPAIR,)),
            *sizing.warnings(policy, bookies),
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
            if name == "image":
                problems.append(Problem("spec.image", "missing", NO_IMAGE, _example(kind)))
            continue
        try:
            values[name] = kind.read(f"spec.{name}", given)
        except fields.InvalidFieldsError as refused:
            problems += refused.problems
    return values


def _update(values: Mapping[str, object]) -> UpdateRules:
    bake_ms, deadline_ms = values["update.bake"], values["update.deadline"]
    assert isinstance(bake_ms, int), "every plain field was read"
    assert isinstance(deadline_ms, int), "every plain field was read"
    paused = values["update.paused"] is True
    return UpdateRules(bake_ms=bake_ms, deadline_ms=deadline_ms, paused=paused)


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
    common = pods.read(spec, "spec", problems)
    return tuple(
        Zone(
            name=ZoneName(item["name"]),
            node_labels=_node_labels(item, f"spec.zones[{index}].nodeSelector", problems),
            pods=pods.merged(common, pods.read(item, f"spec.zones[{index}]", problems)),
        )
        for index, item in enumerate(items)
    )


def _node_labels(item: Json, where: str, problems: list[Problem]) -> dict[str, str]:
    default = {DEFAULT_ZONE_LABEL: str(item["name"])}
    given = item.get("nodeSelector") or default
    if isinstance(given, dict) and all(
        isinstance(label, str)
        and names.is_name(names.LABEL_NAME, name)
        and re.fullmatch(names.LABEL_VALUE, label)
        for name, label in given.items()
    ):
        return given
    rule = "must be names of labels, each with a value"
    problems.append(
        Problem(where, fields.shown(given), rule, f"write for example {fields.shown(default)}")
    )
    return default


def _repair_resources(spec: Json, problems: list[Problem]) -> Json:
    given = spec.get("autoReplication") or {}
    if not isinstance(given, dict):
        rule, hint = "must be fields by name", "write for example {perZone: 1}"
        problems.append(Problem("spec.autoReplication", fields.shown(given), rule, hint))
        return {}
    where = "spec.autoReplication.resources"
    return amounts.read(given.get("resources") or {}, where, problems)


def _journal(spec: Json, values: Mapping[str, object], problems: list[Problem]) -> Volume | None:
    """Read the volume of arrival segments, which needs a size if it is there at all."""
    storage = spec.get("storage")
    if not isinstance(storage, dict) or storage.get("journal") is None:
        return None
    size, where = values.get("storage.journal.size"), "spec.storage.journal.size"
    if size is None:
        if not any(problem.path == where for problem in problems):
            problems.append(Problem(where, "missing", "is required", _example(volumes.SIZE)))
        return None
    return volumes.of_class(str(size), values.get("storage.journal.className"))


def _new_volume(standing: Volume, values: Mapping[str, object]) -> Volume:
    """Read what new volumes are like; what is left out is as that of the volumes that stand."""
    size = values.get("storage.newVolumes.size")
    given = values.get("storage.newVolumes.className")
    return volumes.of_class(
        standing.size if size is None else str(size),
        standing.storage_class if given is None else given,
    )


def _rules_of_later(zones: tuple[Zone, ...], values: Mapping[str, object]) -> Iterator[Problem]:
    """Find what an operator of fewer rules may have built; there it is only warned of."""
    yield from _shared_nodes(zones)
    yield from images.problems(values.get("image"))
    sizes = {path: values.get(path) for path in ("storage.size", "storage.newVolumes.size")}
    yield from volumes.problems(sizes, values.get("storage.journal.size"))


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
        shown = fields.shown(dict(other.node_labels))
        yield Problem(f"spec.zones[{second}].nodeSelector", shown, rule, APART)


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
