"""``spec.network``: which pods may reach those of a cluster. Pure."""

import enum
from typing import Final

from zonekeeper.operator.shapes import names
from zonekeeper.operator.shapes.shapes import REQUIRED, Leaf, ListOf, Record
from zonekeeper.placement.base import fields

NAMESPACES_MAX: Final = 32


class PagesMode(enum.StrEnum):
    """How the pages of bookies and autorecovery are served."""

    #: Plain HTTP: a peer that reaches the port sees the pages.
    PLAIN = "Plain"
    #: Over TLS, to callers whose certificate has a role that may look.
    CERTIFICATE = "Certificate"


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
        "pages": Leaf(
            kind=fields.OneOf(PagesMode),
            about="Plain: whoever reaches the pages sees them, in plain HTTP. Certificate: they "
            "are over TLS, and shown to certificates of the roles admin and monitor; it needs "
            "TLS, and an image of a release that knows it.",
            default=PagesMode.PLAIN.value,
            most=16,
        ),
    },
)
