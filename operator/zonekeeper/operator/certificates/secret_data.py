"""Secrets with certificates as Kubernetes stores them, and what is read of one. Pure.

A value that is not there is written as an empty one: so what an apply gives is all that there is.
"""

import base64
import binascii
from collections.abc import Iterable, Mapping
from typing import Final

from zonekeeper.operator.certificates.sights import SecretState
from zonekeeper.operator.cluster import owned_objects, tls_parts
from zonekeeper.operator.kubernetes.api import (
    CLUSTER_LABEL,
    GROUP,
    INSTANCE_LABEL,
    SECRETS,
    Json,
)
from zonekeeper.placement.base.hidden import Secret
from zonekeeper.wire.signing.values import SeenCertificate

COMING_CERTIFICATE: Final = "coming.crt"
COMING_KEY: Final = "coming.key"
#: Annotations of the authority's Secret.
SETTLED: Final = f"{GROUP}/settled"
WORD: Final = f"{GROUP}/rotated"
#: On a resource: another authority follows each time that its value changes.
ROTATE: Final = f"{GROUP}/rotate"
_TLS: Final = "kubernetes.io/tls"
#: A Secret has at most 1 MiB; what is read of a value is bounded, too.
_VALUE_MAX: Final = 1 << 20


def value(item: Json, key: str) -> Secret:
    """Read a value; empty: it is not there, or cannot be read."""
    data = item.get("data")
    text = data.get(key) if isinstance(data, dict) else None
    if not isinstance(text, str) or len(text) > 2 * _VALUE_MAX:
        return Secret()
    try:
        return Secret(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError):
        return Secret()


def state(item: Json, resource: Json) -> SecretState:
    """Say which Secret this is.

    One that no object controls and that has the label of the cluster is taken for the operator's:
    a backup restores Secrets so.
    """
    meta = item["metadata"]
    controller = owned_objects.controller_of(item)
    if controller is None:
        labels = meta.get("labels") or {}
        if labels.get(CLUSTER_LABEL) == resource["metadata"]["name"]:
            controller = str(resource["metadata"]["uid"])
    return SecretState(
        uid=str(meta.get("uid", "")),
        version=str(meta.get("resourceVersion", "")),
        controller=controller,
    )


def annotation(item: Json, name: str) -> str:
    """Read an annotation; empty: there is none."""
    return str((item["metadata"].get("annotations") or {}).get(name, ""))


def bundle(trusted: Iterable[SeenCertificate]) -> bytes:
    """Give the authorities as one file."""
    return "".join(one.pem for one in trusted).encode()


def leaf(name: str, resource: Json, seen: SecretState | None, values: Mapping[str, bytes]) -> Json:
    """Give the Secret of a certificate, or the part of it that changes."""
    return _secret(name, resource, seen, values) | {"type": _TLS}


def authority(
    name: str,
    resource: Json,
    seen: SecretState | None,
    values: Mapping[str, bytes],
    annotations: Mapping[str, str],
) -> Json:
    """Give the Secret of the authority; ``values`` are all that it has."""
    keys = (
        *(tls_parts.CERTIFICATE, tls_parts.KEY, tls_parts.AUTHORITIES),
        *(COMING_CERTIFICATE, COMING_KEY),
    )
    body = _secret(name, resource, seen, {key: values.get(key, b"") for key in keys})
    body["metadata"]["annotations"] = dict(annotations)
    return body | {"type": "Opaque"}


def of_application(name: str, namespace: str, values: Mapping[str, bytes]) -> Json:
    """Give a Secret that belongs to no cluster."""
    return {
        "apiVersion": SECRETS.api_version,
        "kind": SECRETS.name,
        "metadata": {"name": name, "namespace": namespace},
        "type": _TLS,
        "data": _encoded(values),
    }


def with_instance(body: Json, instance: str) -> Json:
    """Give the Secret of the authority with the instance that its certificates are of."""
    meta = body["metadata"]
    return {**body, "metadata": meta | {"labels": meta["labels"] | {INSTANCE_LABEL: instance}}}


def _secret(
    name: str, resource: Json, seen: SecretState | None, values: Mapping[str, bytes]
) -> Json:
    meta = resource["metadata"]
    known = {} if seen is None else {"uid": seen.uid, "resourceVersion": seen.version}
    return {
        "apiVersion": SECRETS.api_version,
        "kind": SECRETS.name,
        "metadata": {
            "name": name,
            "namespace": meta["namespace"],
            "labels": {CLUSTER_LABEL: meta["name"]},
            "ownerReferences": [owned_objects.owner_reference(resource)],
            **known,
        },
        "data": _encoded(values),
    }


def _encoded(values: Mapping[str, bytes]) -> dict[str, str]:
    return {key: base64.b64encode(given).decode() for key, given in values.items()}
