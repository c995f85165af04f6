"""Issues one certificate for a person's command or an application outside the operator's care.

It needs the right to read the Secret of the authority, and no other. The certificate is not
renewed: it is made again before it ends, and after each rotation of the authority.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from zonekeeper.operator.certificates import issuing, pem, secret_data
from zonekeeper.operator.certificates.renewing import BEFORE_MS, Validity
from zonekeeper.operator.certificates.subjects import Subject
from zonekeeper.operator.cluster import tls_parts
from zonekeeper.operator.kubernetes.api import SECRETS, Json, Kubernetes
from zonekeeper.placement.base import units
from zonekeeper.placement.base.hidden import Secret
from zonekeeper.placement.base.troubles import Refusal
from zonekeeper.wire.identity import principals
from zonekeeper.wire.identity.principals import Role

LIFETIME_MS: Final = 90 * units.DAY_MS
#: The roles that a certificate can be asked for.
GIVEN_ROLES: Final = (Role.CLIENT, Role.MONITOR, Role.ADMIN, Role.AUTORECOVERY)
_KEY_MODE: Final = 0o600
_MODE: Final = 0o644


class NoAuthorityError(Refusal):
    """The cluster has no authority of the operator's that could sign."""


class BadClientNameError(Refusal, ValueError):
    """A principal cannot have this name."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class IssuedFiles:
    """The contents of the three files; there is no text of it, because it has a key."""

    certificate: bytes
    key: Secret
    authorities: bytes
    not_after_ms: int


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
    subject = Subject(
        secret="",
        common_name=wanted.name,
        uri=principals.uri_of(instance, wanted.role, wanted.name),
    )
    not_after_ms = min(wall_ms + wanted.lifetime_ms, signs.not_after_ms)
    validity = Validity(not_before_ms=wall_ms - BEFORE_MS, not_after_ms=not_after_ms)
    certificate, key = pem.issued(
        subject, authority, secret_data.value(item, tls_parts.KEY), validity
    )
    return IssuedFiles(
        certificate=certificate,
        key=key,
        authorities=secret_data.value(item, tls_parts.AUTHORITIES),
        not_after_ms=not_after_ms,
    )


def write(files: IssuedFiles, folder: Path) -> tuple[Path, ...]:
    """Write them under the names that a Secret has; only the owner of the process reads the key.

    Each file is replaced whole, so that a process which reads them again never sees a part.
    """
    folder.mkdir(parents=True, exist_ok=True)
    contents = (
        (tls_parts.AUTHORITIES, files.authorities, _MODE),
        (tls_parts.CERTIFICATE, files.certificate, _MODE),
        (tls_parts.KEY, files.key, _KEY_MODE),
    )
    fresh = [
        (_written(folder / f".{name}.new", data, mode), folder / name)
        for name, data, mode in contents
    ]
    for new, path in fresh:
        new.replace(path)
    return tuple(path for _, path in fresh)


def secret(files: IssuedFiles, wanted: WantedCertificate, name: str) -> Json:
    """Give them as a Secret for an application."""
    values = {
        tls_parts.CERTIFICATE: files.certificate,
        tls_parts.KEY: files.key,
        tls_parts.AUTHORITIES: files.authorities,
    }
    return secret_data.of_application(name, wanted.namespace, values)


def _written(path: Path, data: bytes, mode: int) -> Path:
    path.unlink(missing_ok=True)  # one that was left may have another mode
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
    return path
