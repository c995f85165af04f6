"""The certificates that a cluster needs, and what each of them names. Pure.

A certificate names its principal by a URI (``wire.identity.principals``). That of a zone's bookies
is one for all of them: it names each bookie's id, by which clients check a bookie, and the names of
the Service. That of autorecovery is for clients alone, unless the pages are by certificate. The
operator itself speaks to no bookie, and has none.

A Secret of a zone or a client that is not asked for any more stays until the resource goes, and is
not renewed. To find it the operator would need the right to list all Secrets.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from zonekeeper.operator.cluster import owned_objects, tls_parts
from zonekeeper.operator.cluster.desired import Desired
from zonekeeper.operator.shapes.tls import TlsMode
from zonekeeper.wire.identity.principals import Role, uri_of
from zonekeeper.wire.signing.values import NamesToSign


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject(NamesToSign):
    """One certificate."""

    #: The name of its Secret.
    secret: str


def all_of(desired: Desired, instance: str, replicas: Mapping[str, int]) -> tuple[Subject, ...]:
    """Give the certificates that are issued for a cluster; ``replicas``: by StatefulSet."""
    if desired.tls.mode not in (TlsMode.OPERATOR, TlsMode.ISSUER):
        return ()
    return tuple(_issued(desired, instance, replicas))


def secrets_of(desired: Desired) -> tuple[str, ...]:
    """Name the Secrets whose certificates processes of the cluster, or its clients, have."""
    given = desired.tls.secrets
    match desired.tls.mode:
        case TlsMode.PLAINTEXT:
            return ()
        case TlsMode.SECRETS:
            assert given is not None, "a rule of the shape"
            return tuple(dict.fromkeys((given.bookies, given.autorecovery)))
        case TlsMode.OPERATOR | TlsMode.ISSUER:
            return (
                *(tls_parts.bookies_name(desired.name, zone.name) for zone in desired.zones),
                tls_parts.autorecovery_name(desired.name),
                *(tls_parts.client_name(desired.name, one) for one in desired.tls.clients),
            )


def _issued(desired: Desired, instance: str, replicas: Mapping[str, int]) -> Iterator[Subject]:
    for zone in desired.zones:
        name = owned_objects.set_name(desired.name, zone.name)
        # A bookie that is not asked for any more may have to stay.
        count = max(desired.bookies_per_zone, replicas.get(name, 0))
        yield Subject(
            secret=tls_parts.bookies_name(desired.name, zone.name),
            common_name=name,
            uri=uri_of(instance, Role.BOOKIE, name),
            dns=(*(f"{name}-{ordinal}" for ordinal in range(count)), *_service(desired)),
        )
    repairs = f"{desired.name}-autorecovery"
    yield Subject(
        secret=tls_parts.autorecovery_name(desired.name),
        common_name=repairs,
        uri=uri_of(instance, Role.AUTORECOVERY, repairs),
        # With a DNS name it is for servers, too. No bookie has this name: theirs end in a number.
        dns=(repairs,) if desired.network.by_certificate else (),
    )
    for client in desired.tls.clients:
        yield Subject(
            secret=tls_parts.client_name(desired.name, client),
            common_name=client,
            uri=uri_of(instance, Role.CLIENT, client),
        )


def _service(desired: Desired) -> Iterator[str]:
    """Give the names by which the Service, and the pods behind it, are reached."""
    whole = f"{owned_objects.service_name(desired.name)}.{desired.namespace}.svc"
    yield from (whole, f"*.{whole}")
