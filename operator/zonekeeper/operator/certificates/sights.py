"""What was seen of the Secrets with certificates: never a private key. Pure.

A look reads a Secret, checks that its key belongs to its certificate, and keeps what is public. So
no plan, no status, no event and no log can have a key. An act that signs reads the key itself.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

from zonekeeper.operator.kubernetes.api import Json
from zonekeeper.wire.signing.values import SeenCertificate


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretState:
    """Which Secret was seen."""

    uid: str
    #: The version of the object.
    version: str
    #: The uid of the object that controls it; None: no object does.
    controller: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthoritySight:
    """The Secret of the operator's authority."""

    state: SecretState
    #: The authority that signs; None: there is none whose key belongs to it.
    active: SeenCertificate | None = None
    #: The authority that is trusted already, and will sign; None: there is none.
    coming: SeenCertificate | None = None
    #: All that are trusted.
    trusted: tuple[SeenCertificate, ...] = ()
    #: The hash of the authority that every process is known to trust; empty: of none.
    settled: str = ""
    #: The word by which a person asked for the authority that was made last.
    word: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafSight:
    """The Secret of one certificate."""

    state: SecretState
    #: None: it cannot be read, or its key is another's.
    certificate: SeenCertificate | None = None
    #: The hash of the authority that signed it; None: it is not among those that are trusted.
    issuer: str | None = None
    uris: frozenset[str] = frozenset()
    dns: frozenset[str] = frozenset()
    #: The authorities that its process trusts.
    trusted: tuple[SeenCertificate, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateSight:
    """All of them, as one look has seen them."""

    authority: AuthoritySight | None = None
    #: By the name of the Secret; one that is not there is missing.
    leaves: Mapping[str, LeafSight] = field(default_factory=dict)
    #: With an issuer of cert-manager: the Certificates by name; None: their kind is not known.
    issued: Mapping[str, Json] | None = field(default_factory=dict)
    #: May the operator read Secrets?
    permitted: bool = True
    #: Since when all is as it is, on the monotonic clock of this process.
    since_ms: int = 0
    #: For so long nothing has changed.
    quiet_ms: int = 0

    @property
    def basis(self) -> Hashable:
        """All that processes read from their files: while it is the same, nothing has changed."""
        return tuple(
            (
                name,
                one.certificate and one.certificate.print,
                tuple(sorted(each.print for each in one.trusted)),
            )
            for name, one in sorted(self.leaves.items())
        )
