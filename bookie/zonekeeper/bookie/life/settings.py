"""The settings of a bookie: texts from flags, environment and a file become values, or a refusal.

Each setting has one name: ``--upgrade-domains`` is ``ZONEKEEPER_UPGRADE_DOMAINS`` in the
environment and ``upgrade-domains:`` in the file. A flag goes before the environment, that before
the file, and that before the default. Every refusal begins with where the text came from.
"""

import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from zonekeeper.bookie.life.space import Marks
from zonekeeper.bookie.serving.collecting import Collecting
from zonekeeper.bookie.storage.compaction import Compacting
from zonekeeper.metadata.formats import cookies
from zonekeeper.metadata.store.errors import BadStoreUriError
from zonekeeper.metadata.stores import uri
from zonekeeper.placement.base import locations, units, upgrade_domains
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.base.troubles import Refusal
from zonekeeper.placement.base.upgrade_domains import RoundRobin
from zonekeeper.wire.formats import addresses
from zonekeeper.wire.formats.addresses import Address
from zonekeeper.wire.grpc import tls
from zonekeeper.wire.grpc.tls import TlsFiles

T = TypeVar("T")

#: Addresses that mean every address of the machine, and so cannot be told to others.
_EVERYWHERE: Final = ("0.0.0.0", "[::]")  # noqa: S104 they are recognised here, not bound
_DIGITS_MAX: Final = 9
_WHOLE: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One setting, as it is explained."""

    name: str
    shown_as: str
    help: str
    #: None: it may be missing, or must be given (``required``), or is found out.
    default: str | None = None
    required: bool = False
    #: Where it is not ZONEKEEPER_ and the name.
    variable: str | None = None

    @property
    def environment(self) -> str:
        """The environment variable."""
        return self.variable or "ZONEKEEPER_" + self.name.upper().replace("-", "_")


FIELDS: Final = (
    Field(
        name="metadata",
        shown_as="URI",
        required=True,
        help="The metadata store and the cluster's root in it: zk://host:2181/ledgers or "
        "sqlite:///absolute/path/meta.db.",
    ),
    Field(
        name="id",
        shown_as="NAME",
        variable="ZONEKEEPER_BOOKIE_ID",
        help="The bookie's name for life; if it is not given, the host name. With an upgrade "
        "domain it ends in its ordinal: bk-a-0.",
    ),
    Field(
        name="zone",
        shown_as="NAME",
        help="The zone that this machine stands in; if it is not given, what the cookie says.",
    ),
    Field(
        name="upgrade-domains",
        shown_as="N",
        help="How many upgrade domains each zone has; the ordinal says which one is this bookie's.",
    ),
    Field(
        name="data",
        shown_as="DIR",
        required=True,
        help="The folder for everything that the bookie keeps, but for what the next two say; an "
        "absolute path on a disk of its own.",
    ),
    Field(
        name="journal",
        shown_as="DIR",
        help="A folder on a device of its own for what arrives, which is written and synced at "
        "once. For life, as is the next.",
    ),
    Field(
        name="ledger-dirs",
        shown_as="DIR,DIR",
        help="Folders on devices of their own for what is sorted by ledger, in the background.",
    ),
    Field(
        name="listen",
        shown_as="HOST:PORT",
        default="0.0.0.0:3181",
        help="Where to serve clients; port 0 takes a free one.",
    ),
    Field(
        name="advertise",
        shown_as="HOST",
        help="What clients connect to; if it is not given, the host of --listen, or the host name.",
    ),
    Field(
        name="http",
        shown_as="HOST:PORT",
        default="0.0.0.0:8080",
        help="Where to answer GET of /metrics, /healthz, /readyz and /state; port 0 takes a free "
        "one.",
    ),
    Field(
        name="tls-authority",
        shown_as="FILE",
        help="PEM of the authority whose clients are served. With the next two: TLS on the port "
        "of --listen, and nobody is served without a certificate.",
    ),
    Field(name="tls-certificate", shown_as="FILE", help="PEM of the bookie's certificate."),
    Field(name="tls-key", shown_as="FILE", help="PEM of the bookie's private key."),
    Field(
        name="drain-timeout",
        shown_as="DURATION",
        default="10s",
        help="On SIGTERM, how long what is queued may take to be written and answered.",
    ),
    Field(
        name="waiting-bytes",
        shown_as="SIZE",
        default="256MiB",
        help="The memory for appends that wait for the disk; more are refused as too many.",
    ),
    Field(
        name="ledgers",
        shown_as="N",
        default="1000000",
        help="How many ledgers it knows at the most, each about 2 KB of memory; new ones beyond "
        "are refused as too many.",
    ),
    Field(
        name="reserve-bytes",
        shown_as="SIZE",
        default="64MiB",
        help="Room on the device that appends leave for the bookie's own work; recoveries and the "
        "rewrite leave half of it, compaction a quarter.",
    ),
    Field(
        name="read-threads",
        shown_as="N",
        default="4",
        help="How many reads of the disk go on at once; others wait, and acks do not.",
    ),
    Field(
        name="disk-warn",
        shown_as="SHARE",
        default="90%",
        help="A device of which so much is used is warned about.",
    ),
    Field(
        name="disk-full",
        shown_as="SHARE",
        default="95%",
        help="A bookie with a device of which so much is used takes no entries.",
    ),
    Field(
        name="disk-low",
        shown_as="SHARE",
        default="90%",
        help="It takes them again when no more than so much is used.",
    ),
    Field(
        name="disk-check-interval",
        shown_as="DURATION",
        default="10s",
        help="How often the room on the devices is looked at.",
    ),
    Field(
        name="gc-interval",
        shown_as="DURATION",
        default="10m",
        help="How long to wait between looking for ledgers that were deleted.",
    ),
    Field(
        name="minor-compaction-interval",
        shown_as="DURATION",
        default="1h",
        help="How often segments of which at most 20% lives are compacted.",
    ),
    Field(
        name="major-compaction-interval",
        shown_as="DURATION",
        default="1d",
        help="How often segments of which at most 80% lives are compacted.",
    ),
    Field(
        name="compaction-rate",
        shown_as="SIZE",
        default="20MiB",
        help="How much compaction writes a second at most.",
    ),
)

_BY_NAME: Final = {field.name: field for field in FIELDS}


class BadSettingError(Refusal, ValueError):
    """A setting is not what it must be; the message begins with its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BookieSettings:
    """All that a bookie's process needs to be told."""

    metadata: str
    bookie_id: BookieId
    #: None: not told; then the cookie must know it.
    location: Location | None
    data: Path
    #: None: in that of the data, as the ledgers if there are none.
    journal: Path | None
    ledger_dirs: tuple[Path, ...]
    listen: Address
    #: What others connect to.
    advertise: str
    http: Address
    #: None: whoever reaches the port is served, and nothing is encrypted.
    tls: TlsFiles | None
    drain_timeout_ms: int
    waiting_bytes_max: int
    ledgers_max: int
    reserve_bytes: int
    read_threads: int
    disk_marks: Marks
    disk_check_ms: int
    collecting: Collecting
    compacting: Compacting


def parse(
    flags: Mapping[str, str | None],
    environment: Mapping[str, str],
    file: Mapping[str, object] | None = None,
    file_name: str = "",
) -> BookieSettings:
    """Check all settings; raises ``BadSettingError`` for the first that is wrong.

    Of the environment only what is a setting's variable counts; a name that is none in the file is
    refused, because its writer meant something by it.
    """
    given = _Given(flags, environment, file or {}, file_name)
    listen = given.read("listen", addresses.parse)
    bookie_id = given.read("id", _bookie_id, socket.gethostname())
    return BookieSettings(
        metadata=given.read("metadata", _store),
        bookie_id=bookie_id,
        location=_location(given, bookie_id),
        data=given.read("data", _folder),
        journal=given.read("journal", _folder) if given.has("journal") else None,
        ledger_dirs=given.read("ledger-dirs", _folders) if given.has("ledger-dirs") else (),
        listen=listen,
        advertise=_advertised(given, listen),
        http=given.read("http", addresses.parse),
        tls=_tls(given, bookie_id),
        drain_timeout_ms=given.read("drain-timeout", _duration),
        waiting_bytes_max=given.read("waiting-bytes", _size),
        ledgers_max=given.read("ledgers", _count),
        reserve_bytes=given.read("reserve-bytes", _size),
        read_threads=given.read("read-threads", _count),
        disk_marks=_marks(given),
        disk_check_ms=given.read("disk-check-interval", _duration),
        collecting=Collecting(every_ms=given.read("gc-interval", _duration)),
        compacting=Compacting(
            minor_every_ms=given.read("minor-compaction-interval", _duration),
            major_every_ms=given.read("major-compaction-interval", _duration),
            bytes_per_second=given.read("compaction-rate", _size),
        ),
    )


class _Given:
    """The texts, and where each came from."""

    def __init__(
        self,
        flags: Mapping[str, str | None],
        environment: Mapping[str, str],
        file: Mapping[str, object],
        file_name: str,
    ) -> None:
        if unknown := sorted(file.keys() - _BY_NAME.keys()):
            raise BadSettingError(
                f"{unknown[0]!r} in {file_name}: there is no such setting; there are: "
                f"{', '.join(_BY_NAME)}"
            )
        self._texts: dict[str, tuple[str, str]] = {}
        for name, field in _BY_NAME.items():
            flag, variable, value = flags.get(name), environment.get(field.environment), None
            if flag is not None:
                self._texts[name] = (f"--{name}", flag)
            elif variable is not None:
                self._texts[name] = (field.environment, variable)
            elif (value := file.get(name)) is not None:
                self._texts[name] = (f"{name} in {file_name}", _text(name, value, file_name))

    def has(self, name: str) -> bool:
        """Was it given anywhere?"""
        return name in self._texts

    def source(self, name: str) -> str:
        """Say where a text came from, or would come from."""
        return self._texts[name][0] if name in self._texts else f"--{name}"

    def read(self, name: str, read: Callable[[str], T], default: str | None = None) -> T:
        """Read a text, or its default; ``read`` raises ``ValueError`` that says what is needed."""
        field = _BY_NAME[name]
        source, text = self._texts.get(name, (f"--{name}", default or field.default))
        if text is None:
            raise BadSettingError(
                f"--{name}: must be given (or {field.environment}, or {name}: in the file of "
                "--config)"
            )
        try:
            return read(text)
        except ValueError as error:
            raise BadSettingError(f"{source}: {error}") from error


def _text(name: str, value: object, file_name: str) -> str:
    if isinstance(value, str | int) and not isinstance(value, bool):
        return str(value)
    raise BadSettingError(f"{name} in {file_name}: must be a text or a number, and is {value!r}")


def _location(given: _Given, bookie_id: BookieId) -> Location | None:
    if not given.has("zone") and not given.has("upgrade-domains"):
        return None
    for name in ("zone", "upgrade-domains"):
        if not given.has(name):
            raise BadSettingError(
                f"--{name}: must be given, because the zone and the number of upgrade domains make "
                "the location only together"
            )
    count = given.read("upgrade-domains", _count)
    try:
        ordinal = upgrade_domains.ordinal_of(bookie_id)
        domain = upgrade_domains.of_ordinal(ordinal, RoundRobin(upgrade_domains=count))
    except ValueError as error:
        sources = f"{given.source('id')}, {given.source('upgrade-domains')}"
        raise BadSettingError(f"{sources}: {error}") from error

    def read(zone: str) -> Location:
        location = locations.parse(f"/{zone}/{domain}")
        if location is None:
            raise ValueError(
                f"{zone!r} cannot be a zone's name: no slash, no white space, not . or .."
            )
        return location

    return given.read("zone", read)


def _advertised(given: _Given, listen: Address) -> str:
    return given.read(
        "advertise",
        _host,
        socket.gethostname() if listen.host in _EVERYWHERE else listen.host,
    )


def _tls(given: _Given, bookie_id: BookieId) -> TlsFiles | None:
    names = ("tls-authority", "tls-certificate", "tls-key")
    missing = [name for name in names if not given.has(name)]
    if len(missing) == len(names):
        return None
    if missing:
        raise BadSettingError(
            f"--{missing[0]}: must be given, because the authority, the certificate and the key "
            "make TLS only together"
        )
    try:
        tls.check_id(bookie_id)
    except ValueError as error:
        raise BadSettingError(f"{given.source('id')}: {error}") from error
    authority, certificate, key = (given.read(name, Path) for name in names)
    return TlsFiles(authority=authority, certificate=certificate, key=key)


def _marks(given: _Given) -> Marks:
    names = ("disk-warn", "disk-full", "disk-low")
    warn, full, low = (given.read(name, _share) for name in names)
    try:
        return Marks(warn=warn, full=full, low=low)
    except ValueError as error:
        raise BadSettingError(f"{', '.join(map(given.source, names))}: {error}") from error


def _store(text: str) -> str:
    try:
        uri.parse(text)
    except BadStoreUriError as error:
        raise ValueError(str(error)) from error
    return text


def _bookie_id(text: str) -> BookieId:
    if not cookies.is_bookie_id(text):
        raise ValueError(
            f"{text!r} cannot be a bookie's id: letters, digits and : . _ - only, and not readonly"
        )
    return BookieId(text)


def _folder(text: str) -> Path:
    path = Path(text)
    if not path.is_absolute() or not {*',\t\n"'}.isdisjoint(text):
        raise ValueError(
            f"{text!r}: must be an absolute path without commas, tabs and quotes, because it "
            "stands in the bookie's cookie"
        )
    return path


def _folders(text: str) -> tuple[Path, ...]:
    paths = tuple(map(_folder, text.split(",")))
    if len(set(paths)) < len(paths):
        raise ValueError(f"{text!r}: names a folder twice")
    return paths


def _host(text: str) -> str:
    if not text or any(character.isspace() or character == "/" for character in text):
        raise ValueError(f"{text!r}: must be a host name or an address, without a port")
    return text


def _duration(text: str) -> int:
    found = units.duration_ms(text)
    if not found:
        raise ValueError(f"{text!r}: must be a duration above zero, such as 10s or 500ms")
    return found


def _size(text: str) -> int:
    found = units.size_bytes(text)
    if not found:
        raise ValueError(f"{text!r}: must be a size above zero, such as 64MiB")
    return found


def _share(text: str) -> float:
    number = text.removesuffix("%")
    if number == text or not (number.isascii() and number.isdigit() and 0 < int(number) <= _WHOLE):
        raise ValueError(f"{text!r}: must be a share from 1% to 100%")
    return int(number) / _WHOLE


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX and int(text)):
        raise ValueError(f"{text!r}: must be a whole number from 1 on")
    return int(text)
