"""The shapes of tolerations and of affinity, as Kubernetes writes them. Pure.

Fields that Kubernetes has and that are not named here are refused. None of them can be needed to
choose nodes for bookies.
"""

import enum
from collections.abc import Mapping
from typing import Final

from zonekeeper.operator.kubernetes.api import Json
from zonekeeper.operator.shapes import names
from zonekeeper.operator.shapes.shapes import REQUIRED, Leaf, ListOf, MapOf, Record, Rule, Shape
from zonekeeper.placement.base import fields

#: With more the API server would think that to check a resource costs too much.
_TERMS_MAX: Final = 4
_EXPRESSIONS_MAX: Final = 8
_VALUES_MAX: Final = 16
_LABELS_MAX: Final = 8
_WEIGHT_MAX: Final = 100
_SECONDS_MAX: Final = 31_536_000
_REQUIRED_TERMS: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED_TERMS: Final = "preferredDuringSchedulingIgnoredDuringExecution"


class TolerationOperator(enum.StrEnum):
    """How a toleration names taints."""

    EQUAL = "Equal"
    EXISTS = "Exists"


class TaintEffect(enum.StrEnum):
    """What a taint does to a pod that does not tolerate it."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


class LabelOperator(enum.StrEnum):
    """How an expression compares the label of a pod."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


class NodeLabelOperator(enum.StrEnum):
    """How an expression compares the label of a node."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    LT = "Lt"


def _names_a_key(item: Json) -> bool:
    return bool(item.get("key")) or item.get("operator") == TolerationOperator.EXISTS


def _has_a_fitting_value(item: Json) -> bool:
    return item.get("operator") != TolerationOperator.EXISTS or not item.get("value")


def _may_have_seconds(item: Json) -> bool:
    return "tolerationSeconds" not in item or item.get("effect") == TaintEffect.NO_EXECUTE


_TOLERATION: Final = Record(
    about="A toleration, as in a pod.",
    default=REQUIRED,
    parts={
        "key": Leaf(
            kind=names.NAME_OF_LABEL,
            about="The key of the taint.",
            default="every taint; operator is Exists then",
            most=names.LABEL_NAME_MAX,
        ),
        "operator": Leaf(
            kind=fields.OneOf(TolerationOperator),
            about="Equal: the taint has this value. Exists: it may have any.",
            default="Equal",
        ),
        "value": Leaf(
            kind=names.VALUE_OF_LABEL,
            about="The value of the taint.",
            default="empty",
            most=names.LABEL_VALUE_MAX,
        ),
        "effect": Leaf(
            kind=fields.OneOf(TaintEffect),
            about="The effect of the taint: NoSchedule, PreferNoSchedule or NoExecute.",
            default="every effect",
        ),
        "tolerationSeconds": Leaf(
            kind=fields.Whole(0, _SECONDS_MAX),
            about="With NoExecute: how long the pod stays on a node with the taint.",
            default="for ever",
        ),
    },
    rules=(
        Rule(
            cel="(has(self.key) && self.key != '') || "
            "(has(self.operator) && self.operator == 'Exists')",
            holds=_names_a_key,
            words="must name a key, or have operator Exists, which tolerates every taint; write "
            "for example key: dedicated",
        ),
        Rule(
            cel="!has(self.operator) || self.operator != 'Exists' || !has(self.value) || "
            "self.value == ''",
            holds=_has_a_fitting_value,
            words="must have no value, because operator Exists fits every value; leave value out",
        ),
        Rule(
            cel="!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')",
            holds=_may_have_seconds,
            words="must have effect NoExecute, because tolerationSeconds has no meaning without "
            "it; write effect: NoExecute, or leave tolerationSeconds out",
        ),
    ),
)
TOLERATIONS_MAX: Final = 16


def tolerations(about: str) -> Shape:
    """Give the shape of a list of tolerations."""
    return ListOf(items=_TOLERATION, most=TOLERATIONS_MAX, about=about)


def _has_fitting_values(item: Json) -> bool:
    count = len(item.get("values") or ())
    match item.get("operator"):
        case "In" | "NotIn":
            return count > 0
        case "Gt" | "Lt":
            return count == 1
        case _:
            return count == 0


_COUNT: Final = "(has(self.values) ? size(self.values) : 0)"
_FITTING_VALUES: Final = Rule(
    cel=f"self.operator in ['In', 'NotIn'] ? {_COUNT} > 0 : "
    f"self.operator in ['Gt', 'Lt'] ? {_COUNT} == 1 : {_COUNT} == 0",
    holds=_has_fitting_values,
    words="must have values with In and NotIn, one value with Gt and Lt, and none with Exists and "
    "DoesNotExist; correct values or operator",
)


def _expressions(operators: fields.OneOf, default: str | None) -> Shape:
    words = ", ".join(map(str, operators.words))
    expression = Record(
        about="A condition on one label.",
        default=REQUIRED,
        parts={
            "key": Leaf(
                kind=names.NAME_OF_LABEL,
                about="The label's name.",
                default=REQUIRED,
                most=names.LABEL_NAME_MAX,
            ),
            "operator": Leaf(kind=operators, about=f"One of {words}.", default=REQUIRED, most=16),
            "values": ListOf(
                items=Leaf(
                    kind=names.VALUE_OF_LABEL,
                    about="A value.",
                    default=REQUIRED,
                    most=names.LABEL_VALUE_MAX,
                ),
                most=_VALUES_MAX,
                about="The values to compare with.",
            ),
        },
        rules=(_FITTING_VALUES,),
    )
    return ListOf(
        items=expression,
        least=0 if default else 1,
        most=_EXPRESSIONS_MAX,
        about="Conditions on labels that must all hold.",
        default=default,
    )


def _node_term() -> Record:
    return Record(
        about="A choice of nodes.",
        default=REQUIRED,
        parts={"matchExpressions": _expressions(fields.OneOf(NodeLabelOperator), REQUIRED)},
    )


_POD_TERM: Final = Record(
    about="A choice of pods, and what counts as one place.",
    default=REQUIRED,
    parts={
        "topologyKey": Leaf(
            kind=names.NAME_OF_LABEL,
            about="Nodes with the same value of this label are one place.",
            default=REQUIRED,
            most=names.LABEL_NAME_MAX,
        ),
        "labelSelector": Record(
            about="The labels of the pods.",
            default="no pod",
            parts={
                "matchLabels": MapOf(
                    keys=names.NAME_OF_LABEL,
                    values=names.VALUE_OF_LABEL,
                    most=_LABELS_MAX,
                    about="Labels with their values.",
                    value_max=names.LABEL_VALUE_MAX,
                ),
                "matchExpressions": _expressions(fields.OneOf(LabelOperator), "none"),
            },
        ),
        "namespaces": ListOf(
            items=Leaf(
                kind=names.NAMESPACE,
                about="A namespace.",
                default=REQUIRED,
                most=names.LABEL_VALUE_MAX,
            ),
            most=_LABELS_MAX,
            about="The namespaces of the pods.",
            default="that of the resource",
        ),
    },
)


def _weighed(name: str, term: Record) -> Shape:
    weighed = Record(
        about="A choice with its weight.",
        default=REQUIRED,
        parts={
            "weight": Leaf(
                kind=fields.Whole(1, _WEIGHT_MAX),
                about="How much it counts beside the others.",
                default=REQUIRED,
            ),
            name: term,
        },
    )
    return ListOf(items=weighed, most=_TERMS_MAX, about="What is preferred, and not required.")


def _of_pods(about: str) -> Shape:
    required = ListOf(items=_POD_TERM, most=_TERMS_MAX, about="What is required.")
    return Record(
        about=about,
        parts={_REQUIRED_TERMS: required, _PREFERRED_TERMS: _weighed("podAffinityTerm", _POD_TERM)},
    )


def affinity(about: str) -> Shape:
    """Give the shape of an affinity."""
    nodes: Mapping[str, Shape] = {
        _REQUIRED_TERMS: Record(
            about="What is required.",
            parts={
                "nodeSelectorTerms": ListOf(
                    items=_node_term(),
                    least=1,
                    most=_TERMS_MAX,
                    about="Choices of which one must fit.",
                    default=REQUIRED,
                )
            },
        ),
        _PREFERRED_TERMS: _weighed("preference", _node_term()),
    }
    return Record(
        about=about,
        parts={
            "nodeAffinity": Record(about="The nodes for the pods.", parts=nodes),
            "podAffinity": _of_pods("The pods to be near to."),
            "podAntiAffinity": _of_pods("The pods to be apart from."),
        },
    )
