"""What a resource may say of its pods: for the whole cluster, and for a zone beside that. Pure.

``TABLE`` has each field with its shape. None of them can make a pod that the ``restricted`` pod
security standard refuses. ``merged`` is the one rule for a zone's fields.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

from zonekeeper.operator.kubernetes.api import GROUP, Json
from zonekeeper.operator.shapes import affinity, environment, names, shapes
from zonekeeper.operator.shapes.shapes import REQUIRED, Leaf, ListOf, MapOf, Record, Rule, Shape
from zonekeeper.placement.base import fields
from zonekeeper.placement.base.fields import Problem

_NAMES_MAX: Final = 32
_SECRETS_MAX: Final = 8
_ANNOTATION_MAX: Final = 4_096

#: The labels by which Kubernetes and the operator find pods again; a name that ends with / is the
#: beginning of names.
RESERVED_LABELS: Final = (
    *(f"{GROUP}/", "statefulset.kubernetes.io/", "apps.kubernetes.io/"),
    *(f"app.kubernetes.io/{name}" for name in ("name", "instance", "managed-by")),
    *("controller-revision-hash", "pod-template-hash"),
)
#: The others of these once loosened the confinement of a pod.
RESERVED_ANNOTATIONS: Final = (
    f"{GROUP}/",
    "container.apparmor.security.beta.kubernetes.io/",
    "container.seccomp.security.alpha.kubernetes.io/",
    "seccomp.security.alpha.kubernetes.io/",
)


class PullPolicy(enum.StrEnum):
    """When the image is pulled."""

    ALWAYS = "Always"
    IF_NOT_PRESENT = "IfNotPresent"
    NEVER = "Never"


def _not_reserved(reserved: tuple[str, ...], why: str) -> Rule:
    beginnings = "|".join(name.replace(".", "[.]") for name in reserved if name.endswith("/"))
    whole = [name for name in reserved if not name.endswith("/")]

    def holds(given: Json) -> bool:
        return not any(
            name == one or (one.endswith("/") and name.startswith(one))
            for name in given
            for one in reserved
        )

    return Rule(
        cel=f"!self.exists(key, key in {whole} || key.matches(r'^({beginnings})'))",
        holds=holds,
        words=f"must not have these names, {why}: {', '.join(reserved)}; choose another name",
    )


_ALL: Final = "Of the pods of bookies and of autorecovery"
TABLE: Final[Mapping[str, Shape]] = {
    "imagePullSecrets": ListOf(
        items=Record(
            about="A secret.",
            default=REQUIRED,
            parts={
                "name": Leaf(
                    kind=names.OBJECT_NAME,
                    about="The secret's name.",
                    default=REQUIRED,
                    most=names.SUBDOMAIN_MAX,
                )
            },
        ),
        most=_SECRETS_MAX,
        about=f"{_ALL}: secrets in the namespace of the resource to pull the image with.",
        unique="name",
    ),
    "imagePullPolicy": Leaf(
        kind=fields.OneOf(PullPolicy),
        about=f"{_ALL}: when the image is pulled: Always, IfNotPresent or Never.",
        default="IfNotPresent",
    ),
    "podLabels": MapOf(
        keys=names.NAME_OF_LABEL,
        values=names.VALUE_OF_LABEL,
        most=_NAMES_MAX,
        about=f"{_ALL}: further labels.",
        value_max=names.LABEL_VALUE_MAX,
        rules=(_not_reserved(RESERVED_LABELS, "by which pods are found again"),),
    ),
    "podAnnotations": MapOf(
        keys=names.NAME_OF_LABEL,
        values=names.FREE_TEXT,
        most=_NAMES_MAX,
        about=f"{_ALL}: annotations.",
        value_max=_ANNOTATION_MAX,
        rules=(
            _not_reserved(RESERVED_ANNOTATIONS, "which are the operator's or loosen confinement"),
        ),
    ),
    "tolerations": affinity.tolerations(f"{_ALL}: taints of nodes that they tolerate."),
    "affinity": affinity.affinity(
        "Of the pods of bookies: nodes and pods that they are near to, or apart from, within "
        "the nodes of their zone."
    ),
    "priorityClassName": Leaf(
        kind=names.OBJECT_NAME,
        about=f"{_ALL}: the name of a PriorityClass.",
        default="that of Kubernetes",
        most=names.SUBDOMAIN_MAX,
    ),
    "env": environment.variables(f"{_ALL}: further environment variables."),
}
#: What a zone's field does to that of the cluster, in words; ``merged`` does it.
_IN_A_ZONE: Final = {
    "imagePullSecrets": "added to those of spec",
    "podLabels": "added to those of spec; of a name in both, this value counts",
    "podAnnotations": "added to those of spec; of a name in both, this value counts",
    "tolerations": "added to those of spec",
    "env": "added to those of spec; of a name in both, this one counts",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PodFields:
    """The fields of ``TABLE``, as a resource says them."""

    pull_secrets: tuple[str, ...] = ()
    pull_policy: str | None = None
    labels: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    annotations: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    tolerations: tuple[Json, ...] = ()
    #: None: none is said. Empty: none is wanted, which in a zone takes away that of the cluster.
    affinity: Json | None = None
    priority_class: str | None = None
    variables: tuple[Json, ...] = ()


def of_a_zone() -> Mapping[str, Shape]:
    """Give the table for a zone, which says how each field goes together with that of ``spec``."""
    return {
        name: replace(
            shape,
            about=f"In this zone: {_IN_A_ZONE.get(name, 'instead of that of spec')}.",
            default="that of spec",
        )
        for name, shape in TABLE.items()
    }


def read(given: Json, path: str, problems: list[Problem]) -> PodFields:
    """Read the fields that stand in ``given``, beside others; what is wrong is left out."""
    good: Json = {}
    for name, shape in TABLE.items():
        value = given.get(name)
        if value is None:
            continue
        wrong = list(shapes.read(shape, f"{path}.{name}", value))
        problems += wrong
        if not wrong:
            good[name] = shapes.pruned(shape, value)
    return PodFields(
        pull_secrets=tuple(one["name"] for one in good.get("imagePullSecrets", ())),
        pull_policy=good.get("imagePullPolicy"),
        labels=good.get("podLabels", {}),
        annotations=good.get("podAnnotations", {}),
        tolerations=tuple(good.get("tolerations", ())),
        affinity=good.get("affinity"),
        priority_class=good.get("priorityClassName"),
        variables=tuple(good.get("env", ())),
    )


def merged(common: PodFields, zone: PodFields) -> PodFields:
    """Give what holds in a zone.

    Lists and names are added. Of a name in both, the zone's value counts. A field that is one thing
    (pull policy, affinity, priority) is the zone's, if the zone says it.
    """
    own = {one["name"]: one for one in zone.variables}
    kept = [own.pop(one["name"], one) for one in common.variables]
    more = (one for one in zone.tolerations if one not in common.tolerations)
    return PodFields(
        pull_secrets=tuple(dict.fromkeys((*common.pull_secrets, *zone.pull_secrets))),
        pull_policy=zone.pull_policy or common.pull_policy,
        labels={**common.labels, **zone.labels},
        annotations={**common.annotations, **zone.annotations},
        tolerations=(*common.tolerations, *more),
        affinity=common.affinity if zone.affinity is None else zone.affinity,
        priority_class=zone.priority_class or common.priority_class,
        variables=(*kept, *own.values()),
    )
