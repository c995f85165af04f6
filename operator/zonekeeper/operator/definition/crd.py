"""The custom resource's definition, made from the tables that the operator reads resources with.

So the schema allows no field that the operator does not know, and refuses none that it knows. The
rules between fields stand in ``crd_rules``. Each field of ``spec`` has a description that ends with
its default, or says that the field is required. A rule that needs the judgement of placement is
checked by the operator alone. So is the removal of bookies and zones: only the operator sees
whether they hold something.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, cast

from zonekeeper.operator.cluster import desired, heal_rules, store_access
from zonekeeper.operator.definition import crd_rules, status_schema
from zonekeeper.operator.kubernetes.api import BOOKIE_CLUSTERS, Json
from zonekeeper.operator.shapes import (
    amounts,
    config,
    forbidden,
    images,
    names,
    network,
    pods,
    schemas,
    tls,
)
from zonekeeper.operator.shapes.shapes import TEXT_MAX
from zonekeeper.placement.base import fields
from zonekeeper.placement.policy import effects, rules, rules_data

_PLURAL: Final = BOOKIE_CLUSTERS.plural
_RESOURCE: Final = f"{_PLURAL}.{BOOKIE_CLUSTERS.group}"

_DESCRIPTIONS: Final = {
    "autoReplication": "The processes that watch zones and make lost copies again.",
    "autoReplication.perZone": "The number of autorecovery processes in each zone; 0: none, and "
    "lost copies are not made again unless such a process is run otherwise.",
    "bookiesPerZone": "The number of bookies in each zone; kubectl scale sets it. If it is "
    "lowered, the bookies that go are emptied first, one at a time.",
    "image": "The image of bookies and autorecovery, with a tag or a digest. Without it an upgrade "
    "of the operator rolls the cluster.",
    **heal_rules.DESCRIPTIONS,
    "metadata": "The metadata store of the cluster.",
    **store_access.DESCRIPTIONS,
    "metadata.uri": "The ZooKeeper ensemble and the cluster's root in it: zk://host:2181/ledgers.",
    "onDelete": "On deletion Retain keeps volumes and metadata, Delete removes them.",
    "paused": "The operator looks and writes the status, and does nothing else for this cluster.",
    "drains": "How bookies are evicted when nodes are drained.",
    "drains.paused": "No zone is opened to a drain, and one that is open is closed: one bookie at "
    "a time may be evicted.",
    "scaleDown": "How the bookies go that are not asked for any more.",
    "scaleDown.paused": "No further bookie is emptied; one that is being emptied goes on.",
    "storage": "The volumes of each bookie. Once the cluster is built they may grow; for another "
    "class or a smaller size a bookie gets another volume.",
    "storage.className": "The storage class of the volumes.",
    "storage.journal": "A volume of its own for each bookie's arrival segments, which are written "
    "and synced at once. It can be had only when the cluster is built.",
    "storage.journal.className": "The storage class of the journal volumes.",
    "storage.journal.size": "The size of each bookie's journal volume. It may grow.",
    "storage.newVolumes": "What the volumes are like that are made from now on, for bookies that "
    "are added, healed or replaced. Volumes that stand stay as they are, and grow only up to the "
    "smaller of both sizes.",
    "storage.newVolumes.className": "The storage class of new volumes.",
    "storage.newVolumes.size": "The size of new volumes.",
    "storage.onScaleDown": "When a bookie was removed because fewer are asked for, Retain keeps "
    "its volume, Delete removes it.",
    "storage.size": "The size of each bookie's volume. It may grow.",
    "update": "How a changed image or another change of the pods reaches the bookies.",
    "podUser": "Of the pods of bookies and of autorecovery: Fixed runs them as one user, which is "
    "always the same; Platform names no user, and the platform chooses one, as OpenShift does.",
    "socketLane": "The bookies serve the socket lane, too, at a port of its own beside that of "
    "gRPC. Clients use it where they reach it.",
    "update.bake": "After each step the roll rests for this time, and then asks its gates again.",
    "update.deadline": "A step whose bookies are not well after this time halts the roll.",
    "update.paused": "No step of a roll begins; a step that has begun is finished.",
}
#: What is so if a field of ``spec`` is left out and the schema has no default; others are required.
_OTHERWISE: Final = {
    **heal_rules.OTHERWISE,
    **store_access.OTHERWISE,
    "image": "the operator's own image",
    "storage.className": "the default class of the Kubernetes cluster",
    "storage.journal.className": "the default class of the Kubernetes cluster",
    "storage.newVolumes.className": "storage.className",
    "storage.newVolumes.size": "storage.size",
}
#: The longest texts of plain fields, where that is not the usual limit.
_LONGEST: Final = {
    **dict.fromkeys(("heal.grow.at", "heal.grow.by"), 4),
    "heal.grow.max": 16,
    "image": images.IMAGE_MAX,
    "metadata.identities": store_access.IDENTITIES_CHARACTERS_MAX,
    "storage.size": 16,
    "storage.journal.size": 16,
    "storage.newVolumes.size": 16,
}
#: The longest amount, and the most of them; older API servers count an amount as a long text.
_AMOUNT_MAX: Final = 64
_AMOUNTS_MAX: Final = 12


def definition() -> Json:
    """Give the CustomResourceDefinition."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": _RESOURCE},
        "spec": {
            "group": BOOKIE_CLUSTERS.group,
            "scope": "Namespaced",
            "names": {
                "kind": BOOKIE_CLUSTERS.name,
                "listKind": f"{BOOKIE_CLUSTERS.name}List",
                "plural": _PLURAL,
                "singular": BOOKIE_CLUSTERS.name.lower(),
                "shortNames": ["bkc"],
                "categories": ["zonekeeper"],
            },
            "versions": [
                {
                    "name": BOOKIE_CLUSTERS.version,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}, "scale": _scale()},
                    "additionalPrinterColumns": _columns(),
                    "schema": {"openAPIV3Schema": _whole()},
                }
            ],
        },
    }


def _scale() -> Json:
    """Let ``kubectl scale`` set the one number that all zones share."""
    name = "bookiesPerZone"
    return {"specReplicasPath": f".spec.{name}", "statusReplicasPath": f".status.{name}"}


def _columns() -> list[Json]:
    ready = '.status.conditions[?(@.type=="Ready")]'
    return [
        {"name": "Ready", "type": "string", "jsonPath": f"{ready}.status"},
        {"name": "Bookies", "type": "integer", "jsonPath": ".status.readyBookies"},
        {"name": "Of", "type": "integer", "jsonPath": ".status.bookies"},
        {"name": "Updated", "type": "integer", "jsonPath": ".status.updatedBookies"},
        {"name": "Reason", "type": "string", "jsonPath": f"{ready}.reason"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        {"name": "Message", "type": "string", "jsonPath": f"{ready}.message", "priority": 1},
    ]


def _whole() -> Json:
    spec = schemas.object_of(
        {
            **_tree(desired.FIELDS, _DESCRIPTIONS.__getitem__, _plain),
            **schemas.properties(pods.TABLE),
            "tls": schemas.of_shape(tls.SHAPE),
            "network": schemas.of_shape(network.SHAPE),
            "config": config.schema(),
            "zones": _zones(),
            "resources": _resources("Processor and memory of each bookie"),
            "policy": _policy(),
        },
        description="The cluster that is asked for.",
        required=["zones"],
    )
    inner = spec["properties"]
    inner["autoReplication"]["properties"]["resources"] = _resources(
        "Processor and memory of each autorecovery process"
    )
    for name in desired.REQUIRED:
        _require(spec, name.split("."))
    storage = inner["storage"]
    journal = storage["properties"]["journal"]
    _require(journal, ["size"])
    storage |= schemas.with_rules(storage, crd_rules.of_storage())
    journal |= schemas.with_rules(journal, crd_rules.of_journal())
    inner["image"] |= schemas.with_rules(inner["image"], schemas.of_rules([images.STAYS]))
    forbidden.add_to(spec)
    whole = schemas.object_of(
        {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            # A rule can name a field only if the schema has it.
            "metadata": {"type": "object", "properties": {"name": {"type": "string"}}},
            "spec": schemas.with_rules(spec, crd_rules.of_spec()),
            "status": status_schema.of_status(),
        },
        description="A cluster of bookies in several zones.",
        required=["spec"],
    )
    return schemas.with_rules(whole, crd_rules.of_resource())


def _plain(name: str, kind: fields.Kind) -> Json:
    """Give the schema of a plain field of ``spec``."""
    schema = schemas.of_kind(kind, _LONGEST.get(name, TEXT_MAX))
    if name not in desired.DEFAULTS:
        about = schemas.described(_DESCRIPTIONS[name], _OTHERWISE.get(name))
        return schema | {"description": about}
    default = desired.DEFAULTS[name]
    about = schemas.described(_DESCRIPTIONS[name], str(default))
    return schema | {"description": about, "default": default}


def _require(level: Json, path: Sequence[str]) -> None:
    """Require a field, and every section that it stands in."""
    for step in path:
        level["required"] = sorted({*level.get("required", ()), step})
        level = level["properties"][step]


def _tree(
    table: Mapping[str, fields.Kind],
    describe: Callable[[str], str],
    leaf_of: Callable[[str, fields.Kind], Json],
) -> Json:
    """Give the properties of a table; its names are paths, with a dot between their parts."""
    properties: Json = {}
    for name, kind in table.items():
        *sections, last = name.split(".")
        level, path = properties, ""
        for section in sections:
            path = f"{path}.{section}" if path else section
            inner = level.setdefault(section, schemas.object_of({}, description=describe(path)))
            level = inner["properties"]
        level[last] = leaf_of(name, kind)
    return properties


def _zones() -> Json:
    zones = schemas.of_kind(fields.Names(rules_data.ZONES_MAX))
    name = "The zone's name, which becomes part of the names of its StatefulSet and pods."
    selector = {
        "type": "object",
        "description": "Labels that each node of this zone has. Any two zones must name one label "
        f"with different values. Default: {desired.DEFAULT_ZONE_LABEL} with the zone's name.",
        "additionalProperties": schemas.of_kind(names.VALUE_OF_LABEL, names.LABEL_VALUE_MAX),
        "maxProperties": 16,
    }
    zone = schemas.object_of(
        {
            "name": zones["items"] | {"description": schemas.described(name, None)},
            "nodeSelector": selector,
            **schemas.properties(pods.of_a_zone()),
        },
        description="A zone.",
        required=["name"],
    )
    about = "The zones, in the order of planned work. One that is left out is emptied first."
    whole = zones | {"description": schemas.described(about, None), "items": zone}
    return schemas.with_rules(whole, crd_rules.of_zones())


def _resources(whose: str) -> Json:
    amount = {
        "x-kubernetes-int-or-string": True,
        "maxLength": _AMOUNT_MAX,
        schemas.RULES: [
            {
                "rule": "type(self) == int ? self >= 0 : isQuantity(self) && !self.startsWith('-')",
                "message": f"{amounts.AMOUNT_RULE}; {amounts.AMOUNT_FIX}",
            }
        ],
    }
    sections = {
        name: {
            "type": "object",
            "description": schemas.described(about, "none"),
            "additionalProperties": amount,
            "maxProperties": _AMOUNTS_MAX,
        }
        for name, about in (
            ("limits", "The most of each resource that a container gets."),
            ("requests", "What is set aside for a container of each resource."),
        )
    }
    return schemas.object_of(sections, description=f"{whose}, written as in a container.")


def _policy() -> Json:
    """Give the policy's schema: the record without the fields that only zonekeeper writes."""
    standing = rules_data.rules(rules.Policy(placement=rules.PlacementRules(zones=())))
    own = {name: kind for name, kind in rules_data.KINDS.items() if "." in name}

    def leaf(name: str, kind: fields.Kind) -> Json:
        default = cast(object, standing)
        for step in name.split("."):
            default = cast(Mapping[str, object], default)[step]
        about = f"{effects.EFFECTS[name]} {_default_text(name, default)}"
        return schemas.of_kind(kind) | {"description": about}

    about = "The section {}; docs/policy.md describes it."
    return schemas.object_of(
        _tree(own, about.format, leaf),
        description="The rules that clients, bookies and repair obey; docs/policy.md describes "
        "each. A rule that is left out has its default.",
    )


def _default_text(name: str, default: object) -> str:
    if name == "placement.zones":
        return "The names of spec.zones; leave it out."
    return f"Default: {str(default).lower() if isinstance(default, bool) else default}."
