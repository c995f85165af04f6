"""The names of a certificate are read from its bytes, and whatever is odd names nobody."""

import datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from tests.support.certificates import NOT_AFTER, NOT_BEFORE
from zonekeeper.wire.identity import certificates
from zonekeeper.wire.identity.principals import PeerNames

KEY = ec.generate_private_key(ec.SECP256R1())
URI = "zonekeeper://any/client/c"


def signed(
    subject: list[tuple[x509.ObjectIdentifier, str]], *extensions: x509.ExtensionType
) -> bytes:
    """Give the bytes of a certificate."""
    name = x509.Name([x509.NameAttribute(kind, text) for kind, text in subject])
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "the authority")]))
        .public_key(KEY.public_key())
        .serial_number(7)
        .not_valid_before(NOT_BEFORE)
        .not_valid_after(NOT_AFTER - datetime.timedelta(days=1))
    )
    for extension in extensions:
        builder = builder.add_extension(extension, critical=True)
    return builder.sign(KEY, hashes.SHA256()).public_bytes(serialization.Encoding.DER)


def alternatives(*names: x509.GeneralName) -> x509.SubjectAlternativeName:
    return x509.SubjectAlternativeName(names)


WHOLE = signed(
    [(NameOID.ORGANIZATION_NAME, "us"), (NameOID.COMMON_NAME, "älice")],
    x509.BasicConstraints(ca=False, path_length=None),
    alternatives(
        x509.DNSName("a.example"),
        x509.UniformResourceIdentifier(URI),
        x509.RFC822Name("a@example"),
        x509.UniformResourceIdentifier("spiffe://x/y"),
        x509.DNSName("b.example"),
    ),
)


def test_the_common_name_the_uris_and_the_dns_names_are_read_in_their_order() -> None:
    assert certificates.names_in(WHOLE) == PeerNames(
        uris=(URI, "spiffe://x/y"), dns=("a.example", "b.example"), common_name="älice"
    )


def test_a_certificate_may_have_no_names() -> None:
    assert certificates.names_in(signed([])) == PeerNames()
    only_common = signed([(NameOID.COMMON_NAME, "x")])
    assert certificates.names_in(only_common) == PeerNames(common_name="x")


def test_the_issuer_s_name_is_not_the_subject_s() -> None:
    assert certificates.names_in(signed([(NameOID.ORGANIZATION_NAME, "us")])).common_name == ""


def test_two_common_names_are_none() -> None:
    two = [(NameOID.COMMON_NAME, "alice"), (NameOID.COMMON_NAME, "bob")]
    uri = alternatives(x509.UniformResourceIdentifier(URI))
    assert certificates.names_in(signed(two, uri)) == PeerNames()


def test_two_lists_of_names_are_none() -> None:
    """No library signs this: the second extension is made of a first one with another number."""
    other = x509.UnrecognizedExtension(x509.ObjectIdentifier("2.5.29.99"), b"\x30\x03\x82\x01a")
    data = signed([], alternatives(x509.UniformResourceIdentifier(URI)), other)
    assert certificates.names_in(data).uris == (URI,)
    assert data.count(b"\x55\x1d\x63") == 1
    assert certificates.names_in(data.replace(b"\x55\x1d\x63", b"\x55\x1d\x11")) == PeerNames()


@pytest.mark.parametrize("odd", [b"\0", b"\n", b"\xff", b"\x7f"])
def test_a_name_that_is_not_plain_text_names_nobody(odd: bytes) -> None:
    assert odd
    changed = WHOLE.replace(b"client/c", b"client" + odd + b"c")
    assert certificates.names_in(changed).uris == ("spiffe://x/y",)


def test_a_common_name_that_is_not_plain_text_is_none() -> None:
    data = signed([(NameOID.COMMON_NAME, "alice")])
    assert certificates.names_in(data.replace(b"alice", b"al\0ce")).common_name == ""


def test_what_is_too_long_is_not_read() -> None:
    many = alternatives(*(x509.DNSName(f"{n}.example") for n in range(7_000)))
    assert len(signed([], many)) > certificates.BYTES_MAX
    assert certificates.names_in(signed([], many)) == PeerNames()


def test_a_certificate_that_is_cut_short_has_no_names() -> None:
    for end in range(len(WHOLE)):
        assert certificates.names_in(WHOLE[:end]) == PeerNames()


@given(st.binary(max_size=300))
def test_any_bytes_are_survived(data: bytes) -> None:
    assert certificates.names_in(data) == PeerNames()


@given(st.integers(0, len(WHOLE) - 1), st.integers(0, 255))
def test_a_changed_byte_is_survived(at: int, byte: int) -> None:
    changed = bytearray(WHOLE)
    changed[at] = byte
    found = certificates.names_in(bytes(changed))
    assert len(found.uris) <= 3
