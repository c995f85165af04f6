"""The settings of a bookie: texts from flags and environment become values, or a clear refusal."""

import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypedDict

from zonekeeper.metadata import cookies
from zonekeeper.metadata.errors import BadStoreUriError
from zonekeeper.metadata.stores import uri
from zonekeeper.placement import locations, upgrade_domains
from zonekeeper.placement.ids import BookieId
from zonekeeper.placement.locations import Location
from zonekeeper.placement.upgrade_domains import RoundRobin

DEFAULT_LISTEN: Final = "0.0.0.0:3181"
DEFAULT_HTTP: Final = "0.0.0.0:8080"

PORT_MAX: Final = 65_535
#: Addresses that mean every address of the machine, and so cannot be told to others.
_EVERYWHERE: Final = ("0.0.0.0", "[::]")  # noqa: S104 they are recognised here, not bound


class BadSettingError(ValueError):
    """A setting is not what it must be; the message begins with its flag."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen; an IPv6 host stands in brackets, port 0 means a free one."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def bare_host(self) -> str:
        """The host as sockets take it."""
        return self.host.strip("[]")


class Texts(TypedDict):
    """The settings as they were given; None: not at all."""

    metadata: str
    bookie_id: str
    zone: str | None
    upgrade_domains: int | None
    data: str
    listen: str
    advertise: str | None
    http: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All that a bookie's process needs to be told."""

    metadata: str
    bookie_id: BookieId
    #: None: not told; then the cookie must know it.
    location: Location | None
    data: Path
    listen: Address
    #: What others connect to.
    advertise: str
    http: Address


def parse(texts: Texts) -> Settings:
    """Check all settings; raises ``BadSettingError`` for the first that is wrong."""
    try:
        uri.parse(texts["metadata"])
    except BadStoreUriError as error:
        raise BadSettingError(f"--metadata: {error}") from error
    if not cookies.is_bookie_id(texts["bookie_id"]):
        raise BadSettingError(
            f"--id: {texts['bookie_id']!r} cannot be a bookie's id: letters, digits and "
            ": . _ - only, and not readonly"
        )
    listen = _address("--listen", texts["listen"])
    return Settings(
        metadata=texts["metadata"],
        bookie_id=BookieId(texts["bookie_id"]),
        location=_location(texts),
        data=_folder(texts["data"]),
        listen=listen,
        advertise=_advertised(texts["advertise"], listen),
        http=_address("--http", texts["http"]),
    )


def _location(texts: Texts) -> Location | None:
    zone, count = texts["zone"], texts["upgrade_domains"]
    if zone is None and count is None:
        return None
    if zone is None or count is None:
        missing = "--zone" if zone is None else "--upgrade-domains"
        raise BadSettingError(
            f"{missing}: must be given, because the zone and the number of upgrade domains make "
            "the location only together"
        )
    try:
        ordinal = upgrade_domains.ordinal_of(texts["bookie_id"])
        domain = upgrade_domains.of_ordinal(ordinal, RoundRobin(upgrade_domains=count))
    except ValueError as error:
        raise BadSettingError(f"--id, --upgrade-domains: {error}") from error
    location = locations.parse(f"/{zone}/{domain}")
    if location is None:
        raise BadSettingError(
            f"--zone: {zone!r} cannot be a zone's name: no slash, no white space, not . or .."
        )
    return location


def _folder(text: str) -> Path:
    path = Path(text)
    if not path.is_absolute() or "," in text or "\t" in text:
        raise BadSettingError(
            f"--data: {text!r}: must be an absolute path without commas and tabs, because it "
            "stands in the bookie's cookie"
        )
    return path


def _address(flag: str, text: str) -> Address:
    host, colon, port = text.rpartition(":")
    if not colon or not host or (":" in host and not (host[0] == "[" and host[-1] == "]")):
        raise BadSettingError(
            f"{flag}: {text!r}: must be HOST:PORT, such as {DEFAULT_LISTEN} or [::1]:3181"
        )
    if not (port.isascii() and port.isdigit() and int(port) <= PORT_MAX):
        raise BadSettingError(f"{flag}: {text!r}: the port must be between 0 and {PORT_MAX}")
    return Address(host, int(port))


def _advertised(text: str | None, listen: Address) -> str:
    if text is None:
        return socket.gethostname() if listen.host in _EVERYWHERE else listen.host
    if not text or any(character.isspace() or character == "/" for character in text):
        raise BadSettingError(
            f"--advertise: {text!r}: must be a host name or an address, without a port"
        )
    return text
