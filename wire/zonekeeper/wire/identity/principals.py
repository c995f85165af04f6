"""Principals: the roles and names that a certificate gives the code that shows it. Pure.

A certificate names a principal by a URI in its subjectAltName::

    zonekeeper://<instance>/<role>/<name>         zonekeeper://any/autorecovery/repair-0

``instance`` is the id of one cluster, or ``any``: then the principal is one in every cluster that
trusts the certificate's authority. The name stands in the audit's lines, and has no other effect.
A certificate may name several principals; the roles of all of them count.

A URI of this scheme has one spelling. One that breaks the rule names no principal, and ``Named``
says why: it is never read as another principal than its writer meant.
"""

import enum
import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Final, TypeAlias

#: A certificate of ours has a few names. What stands behind these is not looked at.
NAMES_MAX: Final = 64
#: No name of a certificate that is looked at is longer.
NAME_CHARACTERS_MAX: Final = 512

#: An instance that stands for each cluster.
ANY_INSTANCE: Final = "any"

SCHEME: Final = "zonekeeper://"
_INSTANCE: Final = r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}"
_NAME: Final = r"[A-Za-z0-9][A-Za-z0-9._@:-]{0,252}"
_URI: Final = re.compile(rf"{SCHEME}({_INSTANCE})/([a-z]{{1,32}})/({_NAME})")
_PRINCIPAL_NAME: Final = re.compile(_NAME)


class Role(enum.Enum):
    """The role of a process, or of a person's command; ``rights`` says what each may ask."""

    BOOKIE = "bookie"
    AUTORECOVERY = "autorecovery"
    OPERATOR = "operator"
    ADMIN = "admin"
    CLIENT = "client"
    MONITOR = "monitor"


@dataclass(frozen=True, slots=True)
class Principal:
    """A role, and the name under which the audit shows it."""

    role: Role
    name: str

    def __str__(self) -> str:
        return f"{self.role.value}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerNames:
    """The names in a certificate that was checked: of subjectAltName, and the common name."""

    uris: tuple[str, ...] = ()
    dns: tuple[str, ...] = ()
    common_name: str = ""

    def __str__(self) -> str:
        """Give the first name that says most, for a text."""
        first = next(iter((*self.uris, *self.dns, self.common_name)), "")
        return first[:NAME_CHARACTERS_MAX] or "no name"


@dataclass(frozen=True, slots=True)
class NamesNobody:
    """A URI of our scheme names no principal here, for this reason."""

    why: str


Named: TypeAlias = Principal | NamesNobody


def is_ours(uri: str) -> bool:
    """Is this a URI of our scheme, right or wrong?"""
    return uri.casefold().startswith(SCHEME)


def parse(uri: str, instance: str) -> Named:
    """Give the principal that a URI of our scheme names in the cluster of this instance."""
    if len(uri) > NAME_CHARACTERS_MAX:
        return NamesNobody(f"a name of {len(uri)} characters is not read")
    match = _URI.fullmatch(uri)
    if match is None:
        return NamesNobody(f"{uri!r} is not {SCHEME}<instance>/<role>/<name>")
    of, role, name = match.groups()
    if of not in (instance, ANY_INSTANCE):
        return NamesNobody(f"{uri!r} is of another cluster; this one is {instance}")
    try:
        return Principal(Role(role), name)
    except ValueError:
        known = ", ".join(each.value for each in Role)
        return NamesNobody(f"{uri!r} names no role that is known here; there are: {known}")


def principal_of(text: str) -> Principal:
    """Read ``role/name``, as a ledger's owner is written; raises ValueError."""
    role, slash, name = text.partition("/")
    roles = {each.value: each for each in Role}
    if not slash or role not in roles or not is_name(name):
        known = ", ".join(roles)
        raise ValueError(
            f"{text[:NAME_CHARACTERS_MAX]!r} is no principal: write role/name, as client/ingest; "
            f"the roles are {known}, and a name has letters, digits and . _ - @ :"
        )
    return Principal(roles[role], name)


def uri_of(instance: str, role: Role, name: str) -> str:
    """Spell the URI of a principal; raises ValueError for a text that no URI can have."""
    uri = f"{SCHEME}{instance}/{role.value}/{name}"
    if _URI.fullmatch(uri) is None or len(uri) > NAME_CHARACTERS_MAX:
        raise ValueError(
            f"{instance!r}, {name!r}: an instance and a name begin with a letter or a digit and "
            "have letters, digits, dots, underscores and hyphens, the name also @ and :"
        )
    return uri


def is_name(text: str) -> bool:
    """May a principal have this name?"""
    return _PRINCIPAL_NAME.fullmatch(text) is not None


def bounded(names: Iterable[str]) -> tuple[str, ...]:
    """Give the first of a certificate's names, as many as are looked at, each of a bounded length.

    A name that is too long stays too long, so it names nobody.
    """
    return tuple(cut(name) for name in islice(names, NAMES_MAX))


def cut(name: str) -> str:
    """Give a name that is not much longer than what is looked at."""
    return name[: NAME_CHARACTERS_MAX + 1]
