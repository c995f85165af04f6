"""What a process proves to ZooKeeper who it is with: files that hold its secrets.

No secret stands in an address, because addresses are logged, and seen in process lists. Each line
is a ``Secret`` from here to the client of ZooKeeper.
"""

import os
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from cryptography import x509

from zonekeeper.metadata.access import identities
from zonekeeper.metadata.access.identities import OWN_PREFIX, X509, StoreIdentity
from zonekeeper.metadata.store import errors
from zonekeeper.metadata.stores import zookeeper_tls
from zonekeeper.metadata.stores.uri import ZooKeeperAddress
from zonekeeper.placement.base.hidden import Secret

_SECRET_BYTES_MAX: Final = 1_024
#: A role's identity, and those that it had before and has next.
_LINES_MAX: Final = 4
_OWNER_ONLY: Final = 0o600


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """The secrets of a process, and the identities that they prove."""

    secrets: tuple[Secret, ...]
    identities: tuple[StoreIdentity, ...] = field(repr=False)


def read(address: ZooKeeperAddress) -> Credentials:
    """Read the files of an address; raises ``UnauthorizedError``, which shows nothing of them."""
    store = str(address)
    known: list[Secret] = []
    if address.auth_file is not None:
        known += _lines(address.auth_file, "auth-file", store)
    if address.own_file is not None:
        known += _own(address.own_file, store)
    proven = [identities.of_secret(secret) for secret in known]
    if address.tls is not None:
        try:
            zookeeper_tls.context(address.tls)
            if address.tls.certificate is not None:
                proven.append(of_certificate(address.tls.certificate.read_bytes()))
        except (OSError, ValueError) as error:
            raise errors.UnauthorizedError(
                f"the files of 'tls-ca', 'tls-cert' and 'tls-key' cannot be used: {error}",
                store=store,
            ) from error
    return Credentials(secrets=tuple(known), identities=tuple(proven))


def of_certificate(pem: bytes) -> StoreIdentity:
    """Give the identity that a certificate proves: its subject, written as ZooKeeper writes it.

    Raises ``ValueError``.
    """
    return StoreIdentity(X509, x509.load_pem_x509_certificate(pem).subject.rfc4514_string())


def of_file(path: Path) -> StoreIdentity:
    """Give the identity of the first line of an ``auth-file``; raises ``UnauthorizedError``."""
    return identities.of_secret(_lines(path, "auth-file", "no store was asked")[0])


def _lines(path: Path, option: str, store: str) -> list[Secret]:
    try:
        with path.open("rb") as file:
            raw = file.read(_SECRET_BYTES_MAX + 1)
    except OSError as error:
        raise errors.UnauthorizedError(
            f"'{option}' cannot be read: {error}", store=store
        ) from error
    lines = raw.decode("utf-8", errors="replace").strip().splitlines()
    is_good = all(user and password for user, _, password in map(_parted, lines))
    if not (0 < len(lines) <= _LINES_MAX and is_good) or len(raw) > _SECRET_BYTES_MAX:
        raise errors.UnauthorizedError(
            f"'{option}' {path} does not hold one line 'user:password', or up to {_LINES_MAX} "
            f"in {_SECRET_BYTES_MAX} bytes",
            store=store,
        )
    return [Secret(line.encode()) for line in lines]


def _parted(line: str) -> tuple[str, str, str]:
    return line.partition(":")


def _own(path: Path, store: str) -> list[Secret]:
    """Read the identity of one bookie's own, and draw it at its first start."""
    drawn = f"{OWN_PREFIX}{secrets.token_hex(8)}:{secrets.token_hex(32)}\n"
    part = path.with_name(f"{path.name}.part")
    if not path.exists():
        try:
            part.unlink(missing_ok=True)  # of a start that was killed
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
            with os.fdopen(os.open(part, flags, _OWNER_ONLY), "w", encoding="utf-8") as out:
                out.write(drawn)
                out.flush()
                os.fsync(out.fileno())
            part.replace(path)
        except OSError as error:
            raise errors.UnauthorizedError(
                f"'own-file' cannot be made: {error}", store=store
            ) from error
    (line, *more) = _lines(path, "own-file", store)
    if more or not line.startswith(OWN_PREFIX.encode()):
        raise errors.UnauthorizedError(
            f"'own-file' {path} does not hold one line whose user begins with {OWN_PREFIX!r}",
            store=store,
        )
    return [line]
