"""The Certificates that cert-manager is asked for, one for each Secret. Pure.

Nothing else of cert-manager is used. It writes the Secrets, and rotates them by its own rules. It
does not overlap authorities: that is up to the issuer.
"""

from typing import Final

from zonekeeper.operator.certificates.renewing import LEFT
from zonekeeper.operator.certificates.subjects import Subject
from zonekeeper.operator.cluster import owned_objects
from zonekeeper.operator.cluster.desired import Desired
from zonekeeper.operator.kubernetes.api import CLUSTER_LABEL, Json

_GROUP: Final = "cert-manager.io"
#: cert-manager spells spans of time so.
_SECOND_MS: Final = 1_000


def certificate(desired: Desired, subject: Subject, resource: Json) -> Json:
    """Give the Certificate of one Secret."""
    issuer, lifetime_ms = desired.tls.issuer, desired.tls.lifetime_ms
    assert issuer is not None, "a rule of the shape"
    uses = ["client auth", *(["server auth"] if subject.dns else [])]
    spec: Json = {
        "secretName": subject.secret,
        "secretTemplate": {"labels": {CLUSTER_LABEL: desired.name}},
        "commonName": subject.common_name[:64],
        "uris": [subject.uri],
        "duration": f"{lifetime_ms // _SECOND_MS}s",
        "renewBefore": f"{lifetime_ms // LEFT // _SECOND_MS}s",
        "usages": ["digital signature", *uses],
        "privateKey": {"algorithm": "ECDSA", "size": 256, "rotationPolicy": "Always"},
        "issuerRef": {"group": _GROUP, "kind": str(issuer.kind), "name": issuer.name},
    }
    if subject.dns:
        spec["dnsNames"] = list(subject.dns)
    return {
        "metadata": {
            "name": subject.secret,
            "namespace": desired.namespace,
            "labels": {CLUSTER_LABEL: desired.name},
            "ownerReferences": [owned_objects.owner_reference(resource)],
        },
        "spec": spec,
    }
