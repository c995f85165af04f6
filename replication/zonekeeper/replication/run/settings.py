"""The settings of an autorecovery process: texts become values, or a clear refusal.

They are few: what is repaired, when and how fast is the policy's. A flag goes before its
environment variable, and that before the file.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypedDict

from zonekeeper.metadata.formats import cookies
from zonekeeper.metadata.store.errors import BadStoreUriError
from zonekeeper.metadata.stores import uri
from zonekeeper.placement.base import locations
from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.placement.base.troubles import Refusal
from zonekeeper.wire.formats import addresses
from zonekeeper.wire.formats.addresses import Address
from zonekeeper.wire.grpc.tls import TlsFiles

DEFAULT_HTTP: Final = "0.0.0.0:8080"
WORKERS_MAX: Final = 64


class BadSettingError(Refusal, ValueError):
    """A setting is not what it must be; the message begins with its name."""


class Texts(TypedDict):
    """The settings as they were given; None: not at all."""

    metadata: str
    name: str
    zone: str | None
    http: str
    workers: int
    tls_authority: str | None
    tls_certificate: str | None
    tls_key: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AutorecoverySettings:
    """All that an autorecovery process needs to be told."""

    metadata: str
    #: Its name in elections and claims: a bookie's id in Apache's formats, and so in its letters.
    name: BookieId
    #: The zone that it runs in, for reading the nearest copy; None: unknown.
    zone: ZoneName | None
    http: Address
    workers: int
    tls: TlsFiles | None


def parse(texts: Texts) -> AutorecoverySettings:
    """Check all settings; raises ``BadSettingError`` for the first that is wrong."""
    try:
        uri.parse(texts["metadata"])
    except BadStoreUriError as error:
        raise BadSettingError(f"--metadata: {error}") from error
    if not cookies.is_bookie_id(texts["name"]):
        raise BadSettingError(
            f"--name: {texts['name']!r} cannot stand in a vote: letters, digits and : . _ - only"
        )
    if not 1 <= texts["workers"] <= WORKERS_MAX:
        raise BadSettingError(f"--workers: must be between 1 and {WORKERS_MAX}")
    return AutorecoverySettings(
        metadata=texts["metadata"],
        name=BookieId(texts["name"]),
        zone=_zone(texts["zone"]),
        http=_address("--http", texts["http"]),
        workers=texts["workers"],
        tls=_tls(texts),
    )


def _zone(text: str | None) -> ZoneName | None:
    if text is None:
        return None
    if locations.parse(f"/{text}/ud-0") is None:
        raise BadSettingError(
            f"--zone: {text!r} cannot be a zone's name: no slash, no white space, not . or .."
        )
    return ZoneName(text)


def _tls(texts: Texts) -> TlsFiles | None:
    authority, certificate, key = (
        texts["tls_authority"],
        texts["tls_certificate"],
        texts["tls_key"],
    )
    if authority is None and certificate is None and key is None:
        return None
    if authority is None or certificate is None or key is None:
        raise BadSettingError(
            "--tls-authority, --tls-certificate, --tls-key: give all three of them, or none"
        )
    return TlsFiles(authority=Path(authority), certificate=Path(certificate), key=Path(key))


def _address(flag: str, text: str) -> Address:
    try:
        return addresses.parse(text)
    except ValueError as error:
        raise BadSettingError(f"{flag}: {error}") from error
