"""The names in a certificate, from its bytes (X.509 in DER), for every transport alike. Pure.

The libraries of TLS have checked the certificate before: its chain, its time and its signature. But
they show its names in ways of their own. gRPC cuts a name at a zero byte, so that a URI
``zonekeeper://any/admin/a\\0.example`` would look like another one. So the names are read here,
from the bytes that were checked.

Only what names need is read: the common name of the subject, and the URIs and DNS names of
subjectAltName. A name that is not plain text is left out: it names nobody. A certificate that does
not have the form, or has two lists of names or two common names, has no names at all.
"""

from collections.abc import Iterator
from typing import Final

from zonekeeper.wire.identity import principals
from zonekeeper.wire.identity.principals import PeerNames

#: No certificate that is looked at is larger.
BYTES_MAX: Final = 1 << 16

_INTEGER: Final = 0x02
_OCTETS: Final = 0x04
_OBJECT_ID: Final = 0x06
_SEQUENCE: Final = 0x30
_SET: Final = 0x31
_VERSION: Final = 0xA0
_EXTENSIONS: Final = 0xA3
_BOOLEAN: Final = 0x01
_DNS_NAME: Final = 0x82
_URI_NAME: Final = 0x86
#: UTF8String, PrintableString and IA5String.
_TEXTS: Final = (0x0C, 0x13, 0x16)

_COMMON_NAME_ID: Final = bytes.fromhex("550403")
_ALTERNATIVES_ID: Final = bytes.fromhex("551d11")

_LONG: Final = 0x80
_LENGTH_BYTES_MAX: Final = 3

#: A tag and the bytes that belong to it.
_Element = tuple[int, bytes]


def names_in(certificate: bytes) -> PeerNames:
    """Give the names in a certificate that was checked; none if it has not the form."""
    if len(certificate) > BYTES_MAX:
        return PeerNames()
    try:
        return _names(certificate)
    except ValueError:
        return PeerNames()


def _names(certificate: bytes) -> PeerNames:
    to_be_signed = list(_inside(_only(_inside_of(certificate, _SEQUENCE)[0], _SEQUENCE)))
    if to_be_signed and to_be_signed[0][0] == _VERSION:
        del to_be_signed[0]
    # Serial number, algorithm, issuer, validity, subject, key; then unique ids and extensions.
    tags = [tag for tag, _ in to_be_signed[:6]]
    if tags != [_INTEGER, *[_SEQUENCE] * 5]:
        raise ValueError("not the fields of a certificate")
    common = list(_common_names(to_be_signed[4][1]))
    lists = [
        value
        for tag, content in to_be_signed[6:]
        if tag == _EXTENSIONS
        for value in _alternatives(content)
    ]
    if len(common) > 1 or len(lists) > 1:
        raise ValueError("two common names, or two lists of names")
    named = [one for value in lists for one in _inside_of(value, _SEQUENCE)]
    return PeerNames(
        uris=principals.bounded(_texts(named, _URI_NAME)),
        dns=principals.bounded(_texts(named, _DNS_NAME)),
        common_name=principals.cut(common[0]) if common else "",
    )


def _common_names(subject: bytes) -> Iterator[str]:
    for part in _inside(subject):
        for attribute in _inside(_only(part, _SET)):
            fields = list(_inside(_only(attribute, _SEQUENCE)))
            if len(fields) == 2 and fields[0] == (_OBJECT_ID, _COMMON_NAME_ID):  # noqa: PLR2004 id, value
                tag, text = fields[1]
                yield _text(text, "utf-8") if tag in _TEXTS else ""


def _alternatives(extensions: bytes) -> Iterator[bytes]:
    """Give the value of each extension that is a list of names."""
    for extension in _inside_of(extensions, _SEQUENCE):
        fields = [one for one in _inside(_only(extension, _SEQUENCE)) if one[0] != _BOOLEAN]
        if fields and fields[0] == (_OBJECT_ID, _ALTERNATIVES_ID):
            (value,) = fields[1:]
            yield _only(value, _OCTETS)


def _texts(named: list[_Element], kind: int) -> Iterator[str]:
    for tag, name in named:
        if tag == kind and (text := _text(name, "ascii")):
            yield text


def _text(name: bytes, coding: str) -> str:
    """Give a name's text; empty if it is not plain text."""
    try:
        text = name.decode(coding)
    except UnicodeDecodeError:
        return ""
    return text if text.isprintable() else ""


def _only(element: _Element, wanted: int) -> bytes:
    """Give the content of an element of this kind."""
    tag, content = element
    if tag != wanted:
        raise ValueError(f"element {tag:#x} where {wanted:#x} should be")
    return content


def _inside_of(data: bytes, wanted: int) -> list[_Element]:
    """Give the elements in the one element of this kind that the bytes are."""
    (whole,) = _inside(data)
    return list(_inside(_only(whole, wanted)))


def _inside(data: bytes) -> Iterator[_Element]:
    """Give the elements that stand one after the other; raises ValueError."""
    at = 0
    while at < len(data):
        if at + 2 > len(data):
            raise ValueError("half an element")
        tag, size = data[at], data[at + 1]
        at += 2
        if size & _LONG:
            count = size - _LONG
            if not 1 <= count <= _LENGTH_BYTES_MAX or at + count > len(data):
                raise ValueError("a length that is none")
            size = int.from_bytes(data[at : at + count])
            at += count
        if at + size > len(data):
            raise ValueError("an element that is longer than what is there")
        yield tag, data[at : at + size]
        at += size
