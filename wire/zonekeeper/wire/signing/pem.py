"""Certificates and keys in PEM: made, signed and read. It is the only module that does this.

Keys are of the curve P-256, and come from the operating system's chance. A key is never in an
error: what cannot be read is told without its text.
"""

import datetime
from collections.abc import Iterable
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from zonekeeper.placement.base.hidden import Secret
from zonekeeper.placement.base.troubles import Refusal
from zonekeeper.wire.signing.values import NamesToSign, SeenCertificate, Validity

#: What a common name may have; the whole name stands in the URI.
_COMMON_NAME_MAX: Final = 64
#: More authorities than any rotation has; what stands behind them is not read.
AUTHORITIES_MAX: Final = 16
_UNREADABLE: Final = (ValueError, TypeError, UnsupportedAlgorithm)


class UnusableAuthorityError(Refusal, ValueError):
    """The authority's certificate and key cannot sign."""


def seen(data: bytes) -> SeenCertificate | None:
    """Read the first certificate; None: there is none that can be read."""
    found = all_seen(data)
    return found[0] if found else None


def all_seen(data: bytes) -> tuple[SeenCertificate, ...]:
    """Read all certificates, each once; one that cannot be read makes them all unreadable."""
    found = {one.print: one for one in map(_seen, _loaded(data)[:AUTHORITIES_MAX])}
    return tuple(found.values())


def belongs(key: bytes, certificate: bytes) -> bool:
    """Is this the private key of the first certificate?"""
    loaded = _loaded(certificate)
    if not loaded:
        return False
    try:
        found = serialization.load_pem_private_key(key, password=None)
        return _spelled(found.public_key()) == _spelled(loaded[0].public_key())
    except _UNREADABLE:
        return False


def is_authority(certificate: bytes) -> bool:
    """May the first certificate sign others?"""
    try:
        loaded = _loaded(certificate)
        found = loaded[0].extensions.get_extension_for_class(x509.BasicConstraints)
    except (*_UNREADABLE, IndexError, x509.ExtensionNotFound):
        return False
    return found.value.ca


def issuer_of(certificate: bytes, authorities: Iterable[SeenCertificate]) -> str | None:
    """Name the authority that signed the first certificate; None: none of these did."""
    loaded = _loaded(certificate)
    for one in authorities:
        try:
            loaded[0].verify_directly_issued_by(_loaded(one.pem.encode())[0])
        except (*_UNREADABLE, InvalidSignature, IndexError):
            continue
        return one.print
    return None


def names(certificate: bytes) -> tuple[frozenset[str], frozenset[str]]:
    """Give the URIs and the DNS names of the first certificate."""
    try:
        found = _loaded(certificate)[0].extensions.get_extension_for_class(
            x509.SubjectAlternativeName
        )
    except (*_UNREADABLE, IndexError, x509.ExtensionNotFound):
        return frozenset(), frozenset()
    return (
        frozenset(found.value.get_values_for_type(x509.UniformResourceIdentifier)),
        frozenset(found.value.get_values_for_type(x509.DNSName)),
    )


def made_authority(cluster: str, validity: Validity) -> tuple[bytes, Secret]:
    """Make an authority: its certificate and its key.

    Each has a name of its own: of two with one name, a process could take the wrong one to check a
    certificate by.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    serial = x509.random_serial_number()
    name = _name(f"{serial:032x}"[:12] + f" authority of {cluster}")
    public = key.public_key()
    certificate = (
        _builder(name, name, public, serial, validity)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .sign(key, hashes.SHA256())
    )
    return _certificate_pem(certificate), _key_pem(key)


def issued(
    names: NamesToSign, authority: bytes, authority_key: bytes, validity: Validity
) -> tuple[bytes, Secret]:
    """Sign a new key: give the certificate and the key; raises ``UnusableAuthorityError``."""
    if not (is_authority(authority) and belongs(authority_key, authority)):
        raise UnusableAuthorityError("the authority has no key that can sign")
    signer = _loaded(authority)[0]
    signing = serialization.load_pem_private_key(authority_key, password=None)
    if not isinstance(signing, ec.EllipticCurvePrivateKey):
        raise UnusableAuthorityError("the key of the authority is of no elliptic curve")
    key = ec.generate_private_key(ec.SECP256R1())
    public = key.public_key()
    alternatives = [
        x509.UniformResourceIdentifier(names.uri),
        *(x509.DNSName(one) for one in names.dns),
    ]
    both = [ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]
    uses = both if names.dns else both[:1]
    serial = x509.random_serial_number()
    certificate = (
        _builder(_name(names.common_name), signer.subject, public, serial, validity)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signing.public_key()),
            critical=False,
        )
        .sign(signing, hashes.SHA256())
    )
    return _certificate_pem(certificate), _key_pem(key)


def _loaded(data: bytes) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(data)
    except _UNREADABLE:
        return []


def _seen(certificate: x509.Certificate) -> SeenCertificate:
    return SeenCertificate(
        pem=_certificate_pem(certificate).decode(),
        print=certificate.fingerprint(hashes.SHA256()).hex(),
        not_after_ms=int(certificate.not_valid_after_utc.timestamp() * 1_000),
    )


def _builder(
    name: x509.Name,
    issuer: x509.Name,
    public: ec.EllipticCurvePublicKey,
    serial: int,
    validity: Validity,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(serial)
        .not_valid_before(_time(validity.not_before_ms))
        .not_valid_after(_time(validity.not_after_ms))
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:_COMMON_NAME_MAX])])


def _time(at_ms: int) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(at_ms // 1_000, datetime.UTC)


def _spelled(key: PublicKeyTypes) -> bytes:
    return key.public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def _certificate_pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> Secret:
    return Secret(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
