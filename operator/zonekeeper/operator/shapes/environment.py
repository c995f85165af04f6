"""The shape of environment variables, as a container has them. Pure.

The operator sets all variables of zonekeeper itself. So a resource cannot move a bookie's data,
ports or zone away from what the pod was made for.
"""

import enum
from typing import Final

from zonekeeper.operator.kubernetes.api import Json
from zonekeeper.operator.shapes import names
from zonekeeper.operator.shapes.shapes import REQUIRED, Leaf, ListOf, Record, Rule, Shape
from zonekeeper.placement.base import fields
from zonekeeper.placement.base.settings import VARIABLES

VARIABLES_MAX: Final = 32
_NAME_MAX: Final = 253
_VALUE_MAX: Final = 4_096


class PodField(enum.StrEnum):
    """A field of a pod that a variable may have as its value."""

    NAME = "metadata.name"
    NAMESPACE = "metadata.namespace"
    UID = "metadata.uid"
    NODE = "spec.nodeName"
    ACCOUNT = "spec.serviceAccountName"
    HOST_IP = "status.hostIP"
    POD_IP = "status.podIP"


def _is_not_ours(name: Json) -> bool:
    return not str(name).startswith(VARIABLES)


def _has_one_source(source: Json) -> bool:
    return len(source) == 1


def _has_one_value(item: Json) -> bool:
    return not (item.get("value") and item.get("valueFrom"))


def _key_of(what: str) -> Shape:
    return Record(
        about=f"A key of a {what} in the namespace of the resource.",
        parts={
            "name": Leaf(
                kind=names.OBJECT_NAME,
                about=f"The {what}'s name.",
                default=REQUIRED,
                most=names.SUBDOMAIN_MAX,
            ),
            "key": Leaf(
                kind=fields.Text("[-._a-zA-Z0-9]{1,253}", "a key: letters, digits, -, _, .", "key"),
                about=f"The key in the {what}.",
                default=REQUIRED,
                most=names.SUBDOMAIN_MAX,
            ),
            "optional": Leaf(
                kind=fields.Flag(),
                about="May it be missing? Then the variable is not set.",
                default="false",
            ),
        },
    )


_SOURCE: Final = Record(
    about="Where the value is read from.",
    parts={
        "secretKeyRef": _key_of("Secret"),
        "configMapKeyRef": _key_of("ConfigMap"),
        "fieldRef": Record(
            about="A field of the pod.",
            parts={
                "fieldPath": Leaf(
                    kind=fields.OneOf(PodField),
                    about=f"One of {', '.join(PodField)}.",
                    default=REQUIRED,
                    most=64,
                )
            },
        ),
    },
    rules=(
        Rule(
            cel="[has(self.secretKeyRef), has(self.configMapKeyRef), has(self.fieldRef)]"
            ".filter(one, one).size() == 1",
            holds=_has_one_source,
            words="must name exactly one source; write one of secretKeyRef, configMapKeyRef and "
            "fieldRef",
        ),
    ),
)
_VARIABLE: Final = Record(
    about="A variable, with value or valueFrom.",
    default=REQUIRED,
    parts={
        "name": Leaf(
            kind=fields.Text(
                "[A-Za-z_][A-Za-z0-9_]{0,252}",
                "the name of a variable: letters, digits and _",
                "TZ",
            ),
            about=f"The variable's name; those that begin with {VARIABLES} are the operator's.",
            default=REQUIRED,
            most=_NAME_MAX,
            rules=(
                Rule(
                    cel=f"!self.startsWith('{VARIABLES}')",
                    holds=_is_not_ours,
                    words=f"must not begin with {VARIABLES}, because the operator sets these "
                    "variables; choose settings of bookies in spec.config",
                ),
            ),
        ),
        "value": Leaf(
            kind=names.FREE_TEXT,
            about="The value; $(NAME) stands for the value of another variable.",
            default="empty",
            most=_VALUE_MAX,
        ),
        "valueFrom": _SOURCE,
    },
    rules=(
        Rule(
            cel="!(has(self.value) && self.value != '' && has(self.valueFrom))",
            holds=_has_one_value,
            words="must not have both value and valueFrom; leave one of them out",
        ),
    ),
)


def variables(about: str) -> Shape:
    """Give the shape of a list of variables."""
    return ListOf(items=_VARIABLE, most=VARIABLES_MAX, about=about, unique="name")
