"""Issues one certificate for a person's command or an application outside the operator's care.

It needs the right to read the Secret of the authority, and no other. The certificate is not
renewed: it is made again before it ends, and after each rotation of the authority.
"""

from dataclasses import dataclass
from typing import Final

from zonekeeper.operator.certificates import issuing, secret_data
from zonekeeper.operator.certificates.renewing import BEFORE_MS
from zonekeeper.operator.cluster import tls_parts
from zonekeeper.operator.kubernetes.api import SECRETS, Json, Kubernetes
from zonekeeper.placement.base import units
from zonekeeper.placement.base.troubles import Refusal
from zonekeeper.wire.identity import principals
from zonekeeper.wire.identity.principals import Role
from zonekeeper.wire.signing import pem
from zonekeeper.wire.signing.folders import IssuedFiles
from zonekeeper.wire.signing.values import NamesToSign, Validity

LIFETIME_MS: Final = 90 * units.DAY_MS
#: The roles that a certificate can be asked for.
GIVEN_ROLES: Final = (Role.CLIENT, Role.MONITOR, Role.ADMIN, Role.AUTORECOVERY)


class NoAuthorityError(Refusal):
    """The cluster has no authority of the operator's that could sign."""


class BadClientNameError(Refusal, ValueError):
    """A principal cannot have this name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedCertificate:
    """The certificate that is asked for."""

    namespace: str
    cluster: str
    name: str
    role: Role = Role.CLIENT
    lifetime_ms: int = LIFETIME_MS


async def issued(kubernetes: Kubernetes, wanted: WantedCertificate, *, wall_ms: int) -> IssuedFiles:
    """Sign it; raises ``Trouble``."""
    if not principals.is_name(wanted.name):
        raise BadClientNameError(
            f"{wanted.name!r}: a name begins with a letter or a digit and has letters, digits and "
            ". _ @ : - only; choose another name"
        )
    secret = tls_parts.authority_name(wanted.cluster)
    item = await kubernetes.get(SECRETS, wanted.namespace, secret)
    if item is None:
        raise NoAuthorityError(
            f"there is no Secret {secret} in namespace {wanted.namespace}: name a cluster whose "
            "spec.tls.mode is Operator, once it is built"
        )
    instance = issuing.instance_of(item)
    authority = secret_data.value(item, tls_parts.CERTIFICATE)
    signs = pem.seen(authority)
    if instance is None or signs is None:
        raise NoAuthorityError(
            f"Secret {secret} has no authority that signs now: wait until the condition Secure of "
            f"{wanted.cluster} is True, and try again"
        )
    names = NamesToSign(
        common_name=wanted.name,
        uri=principals.uri_of(instance, wanted.role, wanted.name),
    )
    not_after_ms = min(wall_ms + wanted.lifetime_ms, signs.not_after_ms)
    validity = Validity(not_before_ms=wall_ms - BEFORE_MS, not_after_ms=not_after_ms)
    certificate, key = pem.issued(
        names, authority, secret_data.value(item, tls_parts.KEY), validity
    )
    return IssuedFiles(
        certificate=certificate,
        key=key,
        authorities=secret_data.value(item, tls_parts.AUTHORITIES),
        not_after_ms=not_after_ms,
    )


def secret(files: IssuedFiles, wanted: WantedCertificate, name: str) -> Json:
    """Give them as a Secret for an application."""
    values = {
        tls_parts.CERTIFICATE: files.certificate,
        tls_parts.KEY: files.key,
        tls_parts.AUTHORITIES: files.authorities,
    }
    return secret_data.of_application(name, wanted.namespace, values)
