"""``spec.tls``: who issues the certificates of a cluster, and for how long. Pure.

``mode`` says where certificates come from. The other fields belong to one mode each, and a rule
refuses them beside another: a field that has no effect would look like one that has.
"""

import enum
from collections.abc import Mapping
from typing import Final

from zonekeeper.operator.kubernetes.api import Json
from zonekeeper.operator.shapes import names
from zonekeeper.operator.shapes.shapes import REQUIRED, Leaf, ListOf, Record, Rule
from zonekeeper.placement.base import fields, units

#: A client's name becomes part of the name of a Secret.
CLIENT_NAME_MAX: Final = 63
CLIENTS_MAX: Final = 32


class TlsMode(enum.StrEnum):
    """Where the certificates of a cluster come from."""

    #: The operator keeps an authority of its own for the cluster.
    OPERATOR = "Operator"
    #: cert-manager issues them, from an issuer that the resource names.
    ISSUER = "Issuer"
    #: A person keeps Secrets, which the resource names.
    SECRETS = "Secrets"
    #: There are none: bookies and clients speak without TLS.
    PLAINTEXT = "Plaintext"


class IssuerKind(enum.StrEnum):
    """The kinds of issuers of cert-manager."""

    ISSUER = "Issuer"
    CLUSTER_ISSUER = "ClusterIssuer"


#: The spans of time, with their defaults.
SPANS: Final[Mapping[str, tuple[fields.Duration, str]]] = {
    "lifetime": (fields.Duration(5 * units.MINUTE_MS, 3_650 * units.DAY_MS), "90d"),
    "authorityLifetime": (fields.Duration(units.HOUR_MS, 36_500 * units.DAY_MS), "1825d"),
    "settle": (fields.Duration(units.SECOND_MS, units.DAY_MS), "10m"),
}


def _goes_with(field: str, modes: tuple[TlsMode, ...], *, needed: bool) -> Rule:
    """Give the rule that a field stands beside these modes only (``needed``: and there always)."""
    words = [str(mode) for mode in modes]
    has_mode = f"has(self.mode) && self.mode in {words}"
    shown = " or ".join(words)

    def is_mode(given: Json) -> bool:
        return given.get("mode") in words

    if needed:
        return Rule(
            cel=f"has(self.{field}) == ({has_mode})",
            holds=lambda given: (field in given) == is_mode(given),
            words=f"must have {field} with mode {shown}, and with no other mode; "
            f"write mode: {words[0]} and {field} together",
        )
    return Rule(
        cel=f"!has(self.{field}) || ({has_mode}) || !has(self.mode)",
        holds=lambda given: field not in given or is_mode(given) or "mode" not in given,
        words=f"must have {field} with mode {shown} only; leave {field} out",
    )


def _secret(whose: str) -> Leaf:
    return Leaf(
        kind=names.OBJECT_NAME,
        about=f"The Secret (tls.crt, tls.key, ca.crt) of {whose}.",
        default=REQUIRED,
        most=names.SUBDOMAIN_MAX,
    )


_ISSUED: Final = (TlsMode.OPERATOR, TlsMode.ISSUER)
SHAPE: Final = Record(
    about="TLS between bookies, autorecovery and clients. It cannot change between modes once the "
    "cluster is built.",
    default="mode Operator for a resource that is made under this release, mode Plaintext for one "
    "that an older release built",
    parts={
        "mode": Leaf(
            kind=fields.OneOf(TlsMode),
            about="Operator: the operator keeps an authority for the cluster, and issues and "
            "rotates all certificates. Issuer: cert-manager issues them. Secrets: they stand in "
            "given Secrets. Plaintext: no TLS; the condition Secure is False then.",
            default="Operator, or Plaintext for a resource that an older release built",
            most=16,
        ),
        "issuerRef": Record(
            about="With mode Issuer: the issuer of cert-manager.",
            parts={
                "name": Leaf(
                    kind=names.OBJECT_NAME,
                    about="The issuer's name.",
                    default=REQUIRED,
                    most=names.SUBDOMAIN_MAX,
                ),
                "kind": Leaf(
                    kind=fields.OneOf(IssuerKind),
                    about="Issuer: one of the namespace of the resource, or ClusterIssuer.",
                    default="Issuer",
                    most=16,
                ),
            },
        ),
        "secrets": Record(
            about="With mode Secrets: the Secrets, in the namespace of the resource.",
            parts={"bookies": _secret("bookies"), "autorecovery": _secret("autorecovery")},
        ),
        "clients": ListOf(
            items=Leaf(
                kind=names.NAMESPACE,
                about="A client's name.",
                default=REQUIRED,
                most=CLIENT_NAME_MAX,
            ),
            most=CLIENTS_MAX,
            about="Clients that get a certificate, too: for each name the Secret "
            "<cluster>-client-<name>-tls, which is rotated with the others.",
        ),
        "lifetime": Leaf(
            kind=SPANS["lifetime"][0],
            about="For so long a certificate is valid; it is renewed when a third is left.",
            default=SPANS["lifetime"][1],
        ),
        "authorityLifetime": Leaf(
            kind=SPANS["authorityLifetime"][0],
            about="With mode Operator: for so long the authority is valid; another one follows "
            "when a third is left.",
            default=SPANS["authorityLifetime"][1],
        ),
        "settle": Leaf(
            kind=SPANS["settle"][0],
            about="With mode Operator: for so long no certificate may have changed before every "
            "process is taken to have read it. It must be longer than the kubelet needs to bring "
            "a changed Secret to a pod.",
            default=SPANS["settle"][1],
        ),
        "paused": Leaf(
            kind=fields.Flag(),
            about="The operator issues, renews and follows nothing, and asks cert-manager for "
            "nothing; what stands stays as it is.",
            default="false",
        ),
    },
    rules=(
        _goes_with("issuerRef", (TlsMode.ISSUER,), needed=True),
        _goes_with("secrets", (TlsMode.SECRETS,), needed=True),
        _goes_with("clients", _ISSUED, needed=False),
        _goes_with("lifetime", _ISSUED, needed=False),
        _goes_with("authorityLifetime", (TlsMode.OPERATOR,), needed=False),
        _goes_with("settle", (TlsMode.OPERATOR,), needed=False),
        _goes_with("paused", _ISSUED, needed=False),
    ),
)
