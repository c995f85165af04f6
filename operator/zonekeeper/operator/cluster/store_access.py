"""``spec.metadata`` beside its address: what processes prove to ZooKeeper, and how. Pure.

Each role has a Secret, which the resource names; the operator reads none but its own. A Secret has
``auth`` (one line ``user:password``), or a certificate, or both: ``tls.crt``, ``tls.key`` and
``ca.crt``. A pod gets its Secret as files, and an address that names these files. So no secret
stands in a resource, in a pod's template, in a status or in a list of processes.

``identities`` are public: by which names ZooKeeper knows the roles. With them the operator makes a
new root with ACLs from its first node on. A root that stands is secured by a person.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from zonekeeper.metadata.access import identities
from zonekeeper.metadata.access.identities import BadIdentityError, Identities
from zonekeeper.operator.kubernetes.api import Json
from zonekeeper.operator.shapes import names
from zonekeeper.placement.base import fields
from zonekeeper.placement.base.fields import Problem

VOLUME: Final = "metadata-credentials"
FOLDER: Final = "/metadata-credentials"
#: The keys of a Secret.
AUTH: Final = "auth"
AUTHORITIES: Final = "ca.crt"
CERTIFICATE: Final = "tls.crt"
KEY: Final = "tls.key"

IDENTITIES_CHARACTERS_MAX: Final = 8_192


class StoreProof(enum.StrEnum):
    """What a process shows ZooKeeper."""

    #: The line of ``auth``, by the scheme ``digest``.
    PASSWORD = "Password"  # noqa: S105 the name of a way, and no password
    #: Its certificate, by the scheme ``x509``.
    CERTIFICATE = "Certificate"


_BOOKIES: Final = "metadata.credentials.bookies"
_AUTORECOVERY: Final = "metadata.credentials.autorecovery"
_OPERATOR: Final = "metadata.credentials.operator"
_TLS: Final = "metadata.tls"
_PROOF: Final = "metadata.proof"
_IDENTITIES: Final = "metadata.identities"
_SECRETS: Final = (_BOOKIES, _AUTORECOVERY, _OPERATOR)

FIELDS: Final[Mapping[str, fields.Kind]] = {
    **dict.fromkeys(_SECRETS, names.OBJECT_NAME),
    _IDENTITIES: fields.Text(
        # The API server's expressions know no repeat of more than 1000; the schema has the limit.
        r"[ -~\n]+",
        "lines ROLE SCHEME:NAME",
        "admin x509:CN=admin",
    ),
    _PROOF: fields.OneOf(StoreProof),
    _TLS: fields.Flag(),
}
DESCRIPTIONS: Final[Mapping[str, str]] = {
    "metadata.credentials": "The Secrets with what each role proves to ZooKeeper, in the namespace "
    "of the resource. They have auth (user:password), or tls.crt and tls.key; with tls also "
    "ca.crt.",
    _BOOKIES: "The Secret of bookies.",
    _AUTORECOVERY: "The Secret of autorecovery.",
    _OPERATOR: "The Secret that the operator reads for itself.",
    _IDENTITIES: "Lines ROLE SCHEME:NAME, as zonekeeper metadata identity prints the names: a new "
    "root gets ACLs by them. It has no effect on a root that stands.",
    _PROOF: "Password: processes show the line of auth. Certificate: they show tls.crt, and "
    "ZooKeeper knows them by its subject.",
    _TLS: "Speak TLS with ZooKeeper, and believe only servers with a certificate of ca.crt that "
    "names their host.",
}
OTHERWISE: Final[Mapping[str, str]] = {
    **dict.fromkeys(_SECRETS, "no proof: ZooKeeper takes each process for everybody"),
    _IDENTITIES: "a new root has no ACLs",
    _PROOF: StoreProof.PASSWORD.value,
    _TLS: "false",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenCredentials:
    """The names of the Secrets of the roles."""

    bookies: str
    autorecovery: str
    operator: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreAccess:
    """How the processes of a cluster come to ZooKeeper."""

    #: None: without a proof, and without TLS.
    credentials: GivenCredentials | None = None
    proof: StoreProof = StoreProof.PASSWORD
    tls: bool = False
    identities: Identities | None = None


OPEN: Final = StoreAccess()


def of_bookies(access: StoreAccess) -> str | None:
    """Name the Secret of bookies; None: they have none."""
    return None if access.credentials is None else access.credentials.bookies


def of_autorecovery(access: StoreAccess) -> str | None:
    """Name the Secret of autorecovery; None: it has none."""
    return None if access.credentials is None else access.credentials.autorecovery


def read(values: Mapping[str, object], problems: list[Problem]) -> StoreAccess:
    """Read the fields; each rule between them that is broken is a problem."""
    given = [name for name in _SECRETS if values.get(name) is not None]
    missing = [name for name in _SECRETS if name not in given]
    tls = values.get(_TLS) is True
    proof = StoreProof(str(values.get(_PROOF, StoreProof.PASSWORD)))
    known = _identities(values, problems)
    if given and missing:
        rule = f"must have all of bookies, autorecovery and operator, and lacks {len(missing)}"
        problems.append(_problem("metadata.credentials", given, rule, f"add {missing[0]}"))
    for name, is_asked in (
        (_TLS, tls),
        (_PROOF, proof is StoreProof.CERTIFICATE),
        (_IDENTITIES, known is not None),
    ):
        if is_asked and not given:
            problems.append(
                _problem(name, values.get(name), "needs metadata.credentials", "name the Secrets")
            )
    if proof is StoreProof.CERTIFICATE and not tls:
        problems.append(_problem(_PROOF, proof, "needs TLS", "set metadata.tls to true"))
    if len(given) < len(_SECRETS):
        return OPEN
    return StoreAccess(
        credentials=GivenCredentials(
            bookies=str(values[_BOOKIES]),
            autorecovery=str(values[_AUTORECOVERY]),
            operator=str(values[_OPERATOR]),
        ),
        proof=proof,
        tls=tls,
        identities=known,
    )


def _identities(values: Mapping[str, object], problems: list[Problem]) -> Identities | None:
    text = values.get(_IDENTITIES)
    if text is None:
        return None
    if len(str(text)) > IDENTITIES_CHARACTERS_MAX:
        rule = f"must have at most {IDENTITIES_CHARACTERS_MAX} characters"
        problems.append(_problem(_IDENTITIES, "...", rule, "leave out comments and blank lines"))
        return None
    try:
        return identities.parse_lines(str(text))
    except BadIdentityError as error:
        problems.append(_problem(_IDENTITIES, "...", str(error), "see docs/security.md"))
        return None


def _problem(name: str, value: object, rule: str, hint: str) -> Problem:
    return Problem(f"spec.{name}", fields.shown(value), rule, hint)


def address(uri: str, access: StoreAccess, files: Mapping[str, str] | None = None) -> str:
    """Give the address with its options, which name files; ``files``: others than a pod's."""
    if access.credentials is None:
        return uri
    at = files or {key: f"{FOLDER}/{key}" for key in (AUTH, AUTHORITIES, CERTIFICATE, KEY)}
    # Without this a root without identities would get nodes that one role alone may use.
    options = {"acl": "open"}
    if access.proof is StoreProof.PASSWORD:
        options["auth-file"] = at[AUTH]
    if access.tls:
        options["tls-ca"] = at[AUTHORITIES]
    if access.proof is StoreProof.CERTIFICATE:
        options |= {"tls-cert": at[CERTIFICATE], "tls-key": at[KEY]}
    return f"{uri}?{'&'.join(f'{name}={value}' for name, value in sorted(options.items()))}"


def needed(access: StoreAccess) -> tuple[str, ...]:
    """Give the keys that a Secret must have."""
    password = (AUTH,) if access.proof is StoreProof.PASSWORD else (CERTIFICATE, KEY)
    return (*password, AUTHORITIES) if access.tls else password


def mounts(access: StoreAccess) -> list[Json]:
    """Give the mount in a container."""
    if access.credentials is None:
        return []
    return [{"name": VOLUME, "mountPath": FOLDER, "readOnly": True}]


def with_volume(pod: Json, secret: str | None) -> Json:
    """Give the volumes of a pod with that of the credentials."""
    if secret is None:
        return pod
    volume = {"name": VOLUME, "secret": {"secretName": secret}}
    return {**pod, "volumes": [*pod.get("volumes", ()), volume]}


def unguarded(access: StoreAccess) -> str:
    """Say what is open between the cluster and ZooKeeper; "": nothing that the resource says."""
    if access.credentials is None:
        return (
            "ZooKeeper is asked without TLS and without identities: whoever reaches it may change "
            "the metadata (spec.metadata.credentials)"
        )
    return "" if access.tls else "ZooKeeper is asked without TLS (spec.metadata.tls)"
