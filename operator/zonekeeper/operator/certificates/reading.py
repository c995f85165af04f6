"""Reads the Secrets of a cluster at the API server, and keeps what is public of them.

Each is read by its name: the operator needs no right to list Secrets.
"""

from zonekeeper.operator.certificates import secret_data, subjects
from zonekeeper.operator.certificates.sights import (
    AuthoritySight,
    CertificateSight,
    LeafSight,
)
from zonekeeper.operator.cluster import tls_parts
from zonekeeper.operator.cluster.desired import Desired
from zonekeeper.operator.kubernetes.api import (
    CERTIFICATES,
    CLUSTER_LABEL,
    SECRETS,
    GoneError,
    Json,
    Kubernetes,
    NotPermittedError,
)
from zonekeeper.operator.shapes.tls import TlsMode
from zonekeeper.wire.signing import pem
from zonekeeper.wire.signing.values import SeenCertificate


async def look(kubernetes: Kubernetes, desired: Desired, resource: Json) -> CertificateSight:
    """Read all that the cluster has; nothing is read without TLS."""
    if not desired.tls.is_on:
        return CertificateSight()
    try:
        found = {
            name: item
            for name in subjects.secrets_of(desired)
            if (item := await kubernetes.get(SECRETS, desired.namespace, name)) is not None
        }
        own = None
        if desired.tls.mode is TlsMode.OPERATOR:
            name = tls_parts.authority_name(desired.name)
            own = await kubernetes.get(SECRETS, desired.namespace, name)
        issued = await _issued(kubernetes, desired)
    except NotPermittedError:
        return CertificateSight(permitted=False)
    sight = None if own is None else authority(own, resource)
    known = () if sight is None else sight.trusted
    return CertificateSight(
        authority=sight,
        leaves={name: leaf(item, resource, known) for name, item in found.items()},
        issued=issued,
    )


async def _issued(kubernetes: Kubernetes, desired: Desired) -> dict[str, Json] | None:
    """Read the Certificates of cert-manager; None: the API server does not know the kind."""
    if desired.tls.mode is not TlsMode.ISSUER:
        return {}
    labels = f"{CLUSTER_LABEL}={desired.name}"
    try:
        found = await kubernetes.list(CERTIFICATES, desired.namespace, labels=labels)
    except GoneError:
        return None
    return {item["metadata"]["name"]: item for item in found}


def authority(item: Json, resource: Json) -> AuthoritySight:
    """Read the Secret of the authority."""
    return AuthoritySight(
        state=secret_data.state(item, resource),
        active=_signing(item, tls_parts.CERTIFICATE, tls_parts.KEY),
        coming=_signing(item, secret_data.COMING_CERTIFICATE, secret_data.COMING_KEY),
        trusted=pem.all_seen(secret_data.value(item, tls_parts.AUTHORITIES)),
        settled=secret_data.annotation(item, secret_data.SETTLED),
        word=secret_data.annotation(item, secret_data.WORD),
    )


def leaf(item: Json, resource: Json, known: tuple[SeenCertificate, ...]) -> LeafSight:
    """Read the Secret of a certificate; ``known`` are authorities beside those that it has."""
    certificate = secret_data.value(item, tls_parts.CERTIFICATE)
    key = secret_data.value(item, tls_parts.KEY)
    trusted = pem.all_seen(secret_data.value(item, tls_parts.AUTHORITIES))
    state = secret_data.state(item, resource)
    if not pem.belongs(key, certificate):
        return LeafSight(state=state, trusted=trusted)
    uris, dns = pem.names(certificate)
    return LeafSight(
        state=state,
        certificate=pem.seen(certificate),
        issuer=pem.issuer_of(certificate, (*trusted, *known)),
        uris=uris,
        dns=dns,
        trusted=trusted,
    )


def _signing(item: Json, name: str, key_name: str) -> SeenCertificate | None:
    certificate = secret_data.value(item, name)
    if not pem.is_authority(certificate):
        return None
    key = secret_data.value(item, key_name)
    return pem.seen(certificate) if pem.belongs(key, certificate) else None
