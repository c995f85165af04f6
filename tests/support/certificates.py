"""Certificates for one run of a test: an authority, and what it signs."""

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, ExtensionOID, NameOID

from zonekeeper.wire.grpc.tls import TlsFiles
from zonekeeper.wire.identity.principals import ANY_INSTANCE, Role, uri_of

#: Wide bounds, so that no clock of a test machine can fall outside them.
NOT_BEFORE = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
NOT_AFTER = datetime.datetime(2120, 1, 1, tzinfo=datetime.UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPair:
    """Paths of a private key and of its certificate (or public key), in PEM."""

    key: Path
    certificate: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """When a certificate is valid, and for which side of a connection."""

    valid: tuple[datetime.datetime, datetime.datetime] = (NOT_BEFORE, NOT_AFTER)
    usage: tuple[x509.ObjectIdentifier, ...] = (
        ExtendedKeyUsageOID.CLIENT_AUTH,
        ExtendedKeyUsageOID.SERVER_AUTH,
    )
    #: The bytes of subjectAltName, in place of the names: no builder makes what a forger does.
    alternatives: bytes = b""


class Authority:
    """Signs certificates, one after another, into one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test authority")])
        certificate = (
            self._builder(self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.pair = KeyPair(key=folder / "ca.key", certificate=folder / "ca.crt")
        self.pair.key.write_bytes(_private_pem(self._key))
        self.pair.certificate.write_bytes(_certificate_pem(certificate))

    def sign(
        self,
        file: str,
        *,
        name: str,
        organisation: str | None = None,
        hosts: tuple[str, ...] = (),
        uris: tuple[str, ...] = (),
        terms: "Terms | None" = None,
    ) -> KeyPair:
        """Sign a new key: for servers (``hosts``: names and addresses) and clients alike."""
        key = ec.generate_private_key(ec.SECP256R1())
        attributes = [x509.NameAttribute(NameOID.COMMON_NAME, name)]
        if organisation:
            attributes.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, organisation))
        terms = terms or Terms()
        subject = x509.Name(attributes)
        builder = self._builder(subject, key.public_key(), terms.valid).add_extension(
            x509.ExtendedKeyUsage(list(terms.usage)), critical=False
        )
        named = [
            *(_general_name(host) for host in hosts),
            *(x509.UniformResourceIdentifier(uri) for uri in uris),
        ]
        if terms.alternatives:
            oid = ExtensionOID.SUBJECT_ALTERNATIVE_NAME
            raw = x509.UnrecognizedExtension(oid, terms.alternatives)
            builder = builder.add_extension(raw, critical=False)
        elif named:
            names = x509.SubjectAlternativeName(named)
            builder = builder.add_extension(names, critical=False)
        pair = KeyPair(key=self.folder / f"{file}.key", certificate=self.folder / f"{file}.crt")
        pair.key.write_bytes(_private_pem(key))
        pair.certificate.write_bytes(_certificate_pem(builder.sign(self._key, hashes.SHA256())))
        return pair

    def _builder(
        self,
        subject: x509.Name,
        public_key: ec.EllipticCurvePublicKey,
        valid: tuple[datetime.datetime, datetime.datetime] = (NOT_BEFORE, NOT_AFTER),
    ) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(public_key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(valid[0])
            .not_valid_after(valid[1])
        )


def signing_pair(folder: Path, file: str) -> KeyPair:
    """Make a bare key pair: service-account tokens are signed with it."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    pair = KeyPair(key=folder / f"{file}.key", certificate=folder / f"{file}.pub")
    pair.key.write_bytes(_private_pem(key))
    pair.certificate.write_bytes(public)
    return pair


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _private_pem(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _certificate_pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


@dataclass(frozen=True, slots=True)
class Authorities:
    """Two of them: one is ours."""

    ours: Authority
    theirs: Authority


def certified(authority: Authority, name: str, file: str) -> TlsFiles:
    """A certificate for a name, and the authority that signed it."""
    pair = authority.sign(file, name=name, hosts=(name,))
    trusted = authority.pair.certificate
    return TlsFiles(authority=trusted, certificate=pair.certificate, key=pair.key)


def of_role(
    authority: Authority, role: Role, *, instance: str = ANY_INSTANCE, hosts: tuple[str, ...] = ()
) -> TlsFiles:
    """A certificate of a role, which names its principal."""
    uri = uri_of(instance, role, f"{role.value}-1")
    file = f"{role.value}-{instance}"
    pair = authority.sign(file, name=role.value, hosts=hosts, uris=(uri,))
    trusted = authority.pair.certificate
    return TlsFiles(authority=trusted, certificate=pair.certificate, key=pair.key)


def place(folder: Path, authority: Authority, name: str) -> TlsFiles:
    """Put a new certificate for a name, and its authority's, to where they are looked for."""
    pair = authority.sign(f"{name}-{authority.folder.name}", name=name, hosts=(name,))
    folder.mkdir(exist_ok=True)
    files = TlsFiles(
        authority=folder / "ca.crt", certificate=folder / "tls.crt", key=folder / "tls.key"
    )
    for file, content in (
        (files.authority, authority.pair.certificate),
        (files.certificate, pair.certificate),
        (files.key, pair.key),
    ):
        new = file.with_suffix(".new")
        new.write_bytes(content.read_bytes())
        new.rename(file)
    return files
