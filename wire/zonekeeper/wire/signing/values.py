"""What is said of a certificate before it is made, and after it was read. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Validity:
    """From when to when a certificate is valid, in wall time."""

    not_before_ms: int
    not_after_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NamesToSign:
    """The names that a certificate gets."""

    #: The name of its principal.
    common_name: str
    #: The URI of its principal (``identity.principals``).
    uri: str
    #: The names in DNS that it is checked by; none: it is signed for clients alone.
    dns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenCertificate:
    """A certificate."""

    pem: str
    #: The hash of the whole certificate: another one has another.
    print: str
    not_after_ms: int
