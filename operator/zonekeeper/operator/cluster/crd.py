"""The custom resource's definition, made from the tables that the operator reads resources with.

So the schema allows no field that the operator does not know, and refuses none that it knows. A
rule between fields is written in CEL where that is cheap. The operator checks every rule again. A
rule that needs the judgement of placement is checked by the operator alone.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, assert_never, cast

from zonekeeper.operator.cluster import desired, quantities
from zonekeeper.operator.kubernetes.api import BOOKIE_CLUSTERS, Json
from zonekeeper.placement.base import fields
from zonekeeper.placement.policy import effects, rules, rules_data

_PLURAL: Final = BOOKIE_CLUSTERS.plural
_RESOURCE: Final = f"{_PLURAL}.{BOOKIE_CLUSTERS.group}"

_LABEL: Final = "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"

_DESCRIPTIONS: Final = {
    "bookiesPerZone": "The number of bookies in each zone. It can be raised, and not lowered.",
    "image": "The image that bookies run, with a tag or a digest.",
    "metadata": "The metadata store of the cluster.",
    "metadata.uri": "The ZooKeeper ensemble and the cluster's root in it: zk://host:2181/ledgers.",
    "onDelete": "On deletion Retain keeps volumes and metadata, Delete removes them.",
    "storage": "The volume of each bookie.",
    "storage.className": "The storage class of the volumes. Without it, the default class is used.",
    "storage.size": "The size of each bookie's volume.",
}
#: A cluster is built once its instance is known. Before that, every field can be corrected.
_BUILT: Final = "has(oldSelf.status) && has(oldSelf.status.instance)"

#: A name cannot be corrected later, so a resource that is there already keeps its name.
_NAME_RULE: Final = {
    "rule": f"oldSelf.hasValue() || self.metadata.name.matches('^{desired.CLUSTER_NAME}$')",
    "optionalOldSelf": True,
    "message": f"metadata.name: {desired.CLUSTER_NAME_RULE}; choose another name",
}

#: Rules over the whole resource: the condition that must hold, and the message if it does not.
_RULES: Final = (
    (
        f"!({_BUILT}) || self.spec.metadata == oldSelf.spec.metadata",
        "spec.metadata: cannot change once the cluster is built: its bookies belong to that root",
    ),
    (
        f"!({_BUILT}) || self.spec.storage == oldSelf.spec.storage",
        "spec.storage: cannot change once the cluster is built: its volumes are there",
    ),
    (
        f"!({_BUILT}) || self.spec.bookiesPerZone >= oldSelf.spec.bookiesPerZone",
        "spec.bookiesPerZone: removing bookies would lose what they hold; set it to what it was, "
        "or more",
    ),
    (
        f"!({_BUILT}) || "
        "oldSelf.spec.zones.all(old, self.spec.zones.exists(zone, zone.name == old.name))",
        "spec.zones: removing a zone would lose what its bookies hold; name it again",
    ),
)


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
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": _columns(),
                    "schema": {"openAPIV3Schema": _whole()},
                }
            ],
        },
    }


def _columns() -> list[Json]:
    ready = '.status.conditions[?(@.type=="Ready")]'
    return [
        {"name": "Ready", "type": "string", "jsonPath": f"{ready}.status"},
        {"name": "Bookies", "type": "integer", "jsonPath": ".status.readyBookies"},
        {"name": "Of", "type": "integer", "jsonPath": ".status.bookies"},
        {"name": "Reason", "type": "string", "jsonPath": f"{ready}.reason"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        {"name": "Message", "type": "string", "jsonPath": f"{ready}.message", "priority": 1},
    ]


def _whole() -> Json:
    spec = _object(
        {
            **_tree(desired.FIELDS, _DESCRIPTIONS.__getitem__, defaults=desired.DEFAULTS),
            "zones": _zones(),
            "resources": _resources(),
            "policy": _policy(),
        },
        description="The cluster that is asked for.",
        required=["zones"],
    )
    for name in desired.REQUIRED:
        _require(spec, name.split("."))
    whole = _object(
        {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": spec,
            "status": _status(),
        },
        description="A cluster of bookies in several zones.",
        required=["spec"],
    )
    checked = [{"rule": rule, "message": message} for rule, message in _RULES]
    return whole | {"x-kubernetes-validations": [_NAME_RULE, *checked]}


def _object(properties: Json, *, description: str, required: list[str] | None = None) -> Json:
    whole: Json = {"type": "object", "description": description, "properties": properties}
    return whole | ({"required": required} if required else {})


def _require(level: Json, path: Sequence[str]) -> None:
    """Require a field, and every section that it stands in."""
    for step in path:
        level["required"] = sorted({*level.get("required", ()), step})
        level = level["properties"][step]


def _tree(
    table: Mapping[str, fields.Kind],
    describe: Callable[[str], str],
    *,
    defaults: Mapping[str, int | str],
) -> Json:
    """Give the properties of a table; its names are paths, with a dot between their parts."""
    properties: Json = {}
    for name, kind in table.items():
        *sections, last = name.split(".")
        level, path = properties, ""
        for section in sections:
            path = f"{path}.{section}" if path else section
            inner = level.setdefault(section, _object({}, description=describe(path)))
            level = inner["properties"]
        leaf = schema_of(kind) | {"description": describe(name)}
        level[last] = leaf | ({"default": defaults[name]} if name in defaults else {})
    return properties


def schema_of(kind: fields.Kind) -> Json:
    """Give the schema of a kind of value; it allows all that the kind reads, and a little more."""
    schema: Json
    match kind:
        case fields.Whole():
            schema = {"type": "integer", "minimum": kind.least, "maximum": kind.most}
        case fields.Number():
            low = {"exclusiveMinimum": True} if kind.above else {}
            schema = {"type": "number", "minimum": kind.least, "maximum": kind.most} | low
        case fields.Duration():
            schema = {"type": "string", "pattern": "^[0-9]{1,15}(ms|s|m|h|d)$"}
        case fields.Size():
            pattern = "^(0|[0-9]{1,15}(KiB|MiB|GiB|TiB))$"
            schema = {"x-kubernetes-int-or-string": True, "pattern": pattern}
        case fields.Flag():
            schema = {"type": "boolean"}
        case fields.OneOf():
            schema = {"type": "string", "enum": [str(word) for word in kind.words]}
        case fields.Text():
            schema = {"type": "string", "pattern": f"^({kind.pattern})$"}
        case fields.Names():
            name = {"type": "string", "pattern": f"^{_LABEL}$"}
            schema = {"type": "array", "minItems": 1, "maxItems": kind.most, "items": name}
        case _:
            assert_never(kind)
    return schema


def _zones() -> Json:
    names = schema_of(fields.Names(rules_data.ZONES_MAX))
    selector = {
        "type": "object",
        "description": "Labels that each node of this zone has. Default: "
        f"{desired.DEFAULT_ZONE_LABEL} with the zone's name.",
        "additionalProperties": {"type": "string", "pattern": f"^({desired.LABEL_VALUE})$"},
        "maxProperties": 16,
    }
    zone = _object(
        {
            "name": names["items"] | {"description": "The zone's name.", "maxLength": 63},
            "nodeSelector": selector,
        },
        description="A zone.",
        required=["name"],
    )
    return names | {
        "description": "The zones, in the order in which planned work goes through them.",
        "items": zone,
    }


def _resources() -> Json:
    amounts = {
        "type": "object",
        "additionalProperties": {
            "x-kubernetes-int-or-string": True,
            "pattern": f"^({quantities.PATTERN})$",
        },
        "maxProperties": 16,
    }
    return _object(
        {"limits": amounts, "requests": amounts},
        description="Processor and memory of each bookie, written as in a container.",
    )


def _policy() -> Json:
    """Give the policy's schema: the record without the fields that only zonekeeper writes."""
    standing = rules_data.rules(rules.Policy(placement=rules.PlacementRules(zones=())))
    own = {name: kind for name, kind in rules_data.KINDS.items() if "." in name}
    whole = _object(
        _tree(own, "The section {}; docs/policy.md describes it.".format, defaults={}),
        description="The rules that clients, bookies and repair obey; docs/policy.md describes "
        "each. A rule that is left out has its default.",
    )
    for name in own:
        level, default = whole, cast(object, standing)
        for step in name.split("."):
            level = level["properties"][step]
            default = cast(Mapping[str, object], default)[step]
        level["description"] = f"{effects.EFFECTS[name]} {_default_text(name, default)}"
    return whole


def _default_text(name: str, default: object) -> str:
    if name == "placement.zones":
        return "The names of spec.zones; leave it out."
    return f"Default: {str(default).lower() if isinstance(default, bool) else default}."


def _status() -> Json:
    text, count = {"type": "string"}, {"type": "integer"}
    condition = _object(
        {
            "type": text,
            "status": text | {"enum": ["True", "False", "Unknown"]},
            "reason": text,
            "message": text,
            "observedGeneration": count,
            "lastTransitionTime": text | {"format": "date-time"},
        },
        description="A statement on the cluster that is true, false or not known now.",
        required=["type", "status", "reason", "message", "lastTransitionTime"],
    )
    zone = _object(
        {"name": text, "bookies": count, "ready": count},
        description="The number of bookies that a zone shall have, and of those that are ready.",
        required=["name", "bookies", "ready"],
    )
    return _object(
        {
            "observedGeneration": count,
            "conditions": _by_key("type", condition),
            "zones": _by_key("name", zone),
            "bookies": count,
            "readyBookies": count,
            "instance": text | {"description": "The INSTANCEID of the cluster in its root."},
        },
        description="The state of the cluster, as the operator saw it last.",
    )


def _by_key(key: str, items: Json) -> Json:
    return {
        "type": "array",
        "items": items,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": [key],
    }
