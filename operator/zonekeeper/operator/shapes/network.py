"""``spec.network``: which pods may reach those of a cluster. Pure."""

from typing import Final

from zonekeeper.operator.shapes import names
from zonekeeper.operator.shapes.shapes import REQUIRED, Leaf, ListOf, Record
from zonekeeper.placement.base import fields

NAMESPACES_MAX: Final = 32


def _namespaces(about: str) -> ListOf:
    return ListOf(
        items=Leaf(
            kind=names.NAMESPACE,
            about="A namespace.",
            default=REQUIRED,
            most=names.LABEL_VALUE_MAX,
        ),
        most=NAMESPACES_MAX,
        about=about,
    )


SHAPE: Final = Record(
    about="The NetworkPolicies of the cluster.",
    default="policies true for a resource that is made under this release, and false for one that "
    "an older release built",
    parts={
        "policies": Leaf(
            kind=fields.Flag(),
            about="The operator makes NetworkPolicies that deny every path but those that are "
            "needed. A client's pod needs the label zonekeeper.io/client with the cluster's name.",
            default="true, or false for a resource that an older release built",
        ),
        "clientsFrom": _namespaces("Namespaces whose pods reach the bookies without that label."),
        "pagesFrom": _namespaces(
            "Namespaces whose pods reach the pages (metrics, state) of bookies and autorecovery."
        ),
    },
)
