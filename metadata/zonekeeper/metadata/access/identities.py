"""Identities: what the store knows a process by, and which role each has. Pure.

    <root>.zonekeeper/identities     {"roles":{"bookie":["digest:bookie:<hash>"],...},
                                      "owners":{"client/ingest":["digest:ingest:<hash>"]}}

An identity is a scheme and a name, as ZooKeeper writes it in an ACL: ``digest:user:hash``, where
the hash is of user and password; ``x509:CN=...``, the subject of a certificate; or ``sasl:user``.
The node says what is public, and no password. Every process reads it when it opens the store, and
follows it. So a process needs only its own credentials, and each node gets its ACL when it is made.

An owner of ledgers may have identities of its own. Each stands among those of the role ``client``,
too, so a release that does not know owners takes it for a client's.

A bookie may have an identity of its own beside that of its role: a digest whose user begins with
``own.``. It is in no list: the node that it guards names it.
"""

import base64
import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from zonekeeper.metadata.access.node_rights import StoreRole
from zonekeeper.metadata.formats import records
from zonekeeper.metadata.formats.malformed import Flaw, MalformedError, UnsupportedError
from zonekeeper.placement.base.fields import Plain
from zonekeeper.placement.base.troubles import Refusal

#: The user of an identity of one bookie's own begins with this.
OWN_PREFIX: Final = "own."
#: The node's name in our own tree.
NAME: Final = "identities"
IDENTITIES_MAX: Final = 32
NAME_BYTES_MAX: Final = 256

DIGEST: Final = "digest"
X509: Final = "x509"
_SCHEMES: Final = (DIGEST, X509, "sasl")
#: An owner that may have identities of its own: a principal with the role client.
_OWNER: Final = re.compile(rf"{StoreRole.CLIENT}/[0-9A-Za-z][-0-9A-Za-z._@:]{{0,127}}")
#: The bytes of a SHA-1, and of what encodes it.
_HASH_BYTES: Final = 20


class BadIdentityError(Refusal, ValueError):
    """The text names no identity that may have a role; the message says why."""


@dataclass(frozen=True, slots=True, order=True)
class StoreIdentity:
    """Scheme and name, as an ACL has them."""

    scheme: str
    name: str

    def __str__(self) -> str:
        return f"{self.scheme}:{self.name}"

    @property
    def shown(self) -> str:
        """For people and logs: without the hash of a password."""
        user = self.name.partition(":")[0] if self.scheme == DIGEST else self.name
        return f"{self.scheme}:{user}"

    @property
    def is_own(self) -> bool:
        """Is it the identity of one bookie, beside its role?"""
        return self.scheme == DIGEST and self.name.startswith(OWN_PREFIX)


#: Everybody: what a node is open to that was made without identities.
WORLD: Final = StoreIdentity("world", "anyone")


def of_secret(secret: bytes) -> StoreIdentity:
    """Give the identity that ``user:password`` proves, as ZooKeeper computes it."""
    user = secret.partition(b":")[0].decode("utf-8", errors="replace")
    digest = hashlib.sha1(secret, usedforsecurity=False).digest()
    return StoreIdentity(DIGEST, f"{user}:{base64.b64encode(digest).decode('ascii')}")


def parse_identity(text: str) -> StoreIdentity:
    """Read ``scheme:name``; raises ``BadIdentityError``, whose message shows no hash."""
    scheme, colon, name = text.partition(":")
    if not colon or scheme not in _SCHEMES:
        known = ", ".join(_SCHEMES)
        raise BadIdentityError(f"an identity begins with its scheme, one of {known}, and ':'")
    if not name or len(name.encode()) > NAME_BYTES_MAX or not name.isprintable():
        raise BadIdentityError(f"a name has 1 to {NAME_BYTES_MAX} bytes that can be printed")
    if name != name.strip():
        raise BadIdentityError("a name has no white space at its ends")
    if scheme == DIGEST:
        _check_digest(name)
    return StoreIdentity(scheme, name)


def _check_digest(name: str) -> None:
    user, colon, hashed = name.partition(":")
    try:
        is_hash = len(base64.b64decode(hashed, validate=True)) == _HASH_BYTES
    except ValueError:
        is_hash = False
    if not (user and colon and is_hash):
        raise BadIdentityError(
            f"'{DIGEST}:{user}:...' is not a user and the hash of a password: "
            "`zonekeeper metadata identity` gives it"
        )
    if user.startswith(OWN_PREFIX):
        raise BadIdentityError(f"a user that begins with {OWN_PREFIX!r} is one bookie's own")


@dataclass(frozen=True, slots=True, kw_only=True)
class Identities:
    """Which identities have which role; ``admin`` has at least one."""

    roles: Mapping[StoreRole, tuple[StoreIdentity, ...]]
    #: The identities of owners of ledgers, by principal; each is one of a client, too.
    owners: Mapping[str, tuple[StoreIdentity, ...]] = field(default_factory=dict)
    #: Fields that only a newer program knows, as JSON.
    unknown: str = field(default="{}")

    def __post_init__(self) -> None:
        every = [one for several in self.roles.values() for one in several]
        if not self.roles.get(StoreRole.ADMIN):
            raise BadIdentityError(
                "no identity has the role admin: then nobody could change an ACL again"
            )
        if len(every) > IDENTITIES_MAX:
            raise BadIdentityError(f"{len(every)} identities; at most {IDENTITIES_MAX}")
        clients = frozenset(self.roles.get(StoreRole.CLIENT, ()))
        for owner, several in self.owners.items():
            assert clients >= set(several), f"an identity of {owner} is one of a client"

    def roles_of(self, mine: Iterable[StoreIdentity]) -> tuple[StoreRole, ...]:
        """Give the roles that these identities have together, in the order of ``StoreRole``."""
        held = frozenset(mine)
        return tuple(role for role in StoreRole if held & frozenset(self.roles.get(role, ())))


def parse_lines(text: str) -> Identities:
    """Read a file of lines ``role scheme:name``; raises ``BadIdentityError`` with the line.

    The role ``client`` may be an owner of ledgers: ``client/ingest``.
    """
    roles: dict[StoreRole, list[StoreIdentity]] = {}
    owners: dict[str, list[StoreIdentity]] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        word, _, rest = line.strip().partition(" ")
        try:
            is_owner = "/" in word
            role = StoreRole.CLIENT if is_owner else _role(word)
            owner, one = _owner(word) if is_owner else None, parse_identity(rest.strip())
        except BadIdentityError as error:
            raise BadIdentityError(f"line {number}: {error}") from error
        if one not in roles.setdefault(role, []):
            roles[role].append(one)
        if owner is not None and one not in owners.setdefault(owner, []):
            owners[owner].append(one)
    return Identities(
        roles={role: tuple(several) for role, several in roles.items()},
        owners={owner: tuple(several) for owner, several in owners.items()},
    )


def _owner(word: str) -> str:
    if _OWNER.fullmatch(word) is None:
        raise BadIdentityError(
            f"{word[:64]!r} is no owner of ledgers: write {StoreRole.CLIENT}/NAME, as its "
            "certificate and its ledgers name it"
        )
    return word


def _role(word: str) -> StoreRole:
    try:
        return StoreRole(word)
    except ValueError:
        known = ", ".join(StoreRole)
        raise BadIdentityError(f"{word[:32]!r} is no role; there are {known}") from None


def render(identities: Identities, instance: str) -> bytes:
    """Write the node of a cluster."""
    roles: dict[str, Plain] = {
        role.value: [str(one) for one in several]
        for role, several in sorted(identities.roles.items())
    }
    owners: Plain = {
        owner: [str(one) for one in several] for owner, several in sorted(identities.owners.items())
    }
    said: dict[str, Plain] = {"roles": roles}
    if owners:
        said["owners"] = owners
    return records.render({**records.parse_object(identities.unknown.encode()), **said}, instance)


def parse(raw: bytes) -> Identities:
    """Read the node; raises ``UnreadableError``. It is read before the instance is known."""
    data = records.parse_object(raw)
    version = data.get("format")
    if type(version) is not int:
        raise MalformedError(Flaw.MISSING, "the identities have a format, a number")
    if version > records.FORMAT:
        raise UnsupportedError(
            f"identities of format {version}; this program reads up to {records.FORMAT}"
        )
    found = data.get("roles")
    if not isinstance(found, dict):
        raise MalformedError(Flaw.WRONG_TYPE, "roles must be an object")
    try:
        roles = {_role(word): _several(texts) for word, texts in found.items()}
        return Identities(
            roles=roles,
            owners=_owners(data.get("owners", {}), roles.get(StoreRole.CLIENT, ())),
            unknown=records.unknown(data, ("roles", "owners")),
        )
    except BadIdentityError as error:
        raise MalformedError(Flaw.OUT_OF_RANGE, f"the identities: {error}") from error


def _several(texts: Plain) -> tuple[StoreIdentity, ...]:
    if not isinstance(texts, list) or not all(isinstance(one, str) for one in texts):
        raise MalformedError(Flaw.WRONG_TYPE, "each role has a list of texts")
    return tuple(parse_identity(str(one)) for one in texts)


def _owners(found: Plain, clients: Iterable[StoreIdentity]) -> dict[str, tuple[StoreIdentity, ...]]:
    """Read the owners. A release that does not know them may have taken a client away."""
    if not isinstance(found, dict):
        raise MalformedError(Flaw.WRONG_TYPE, "owners must be an object")
    held = frozenset(clients)
    owners = {
        _owner(word): tuple(one for one in _several(texts) if one in held)
        for word, texts in found.items()
    }
    return {owner: several for owner, several in owners.items() if several}
