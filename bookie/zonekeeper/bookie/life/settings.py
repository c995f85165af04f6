"""The settings of a bookie: texts from flags, environment and a file become values, or an error.

``SETTINGS`` is the table: flags, help and the page of the documentation follow from it.
"""

import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from zonekeeper.bookie.life.space import Marks
from zonekeeper.bookie.serving.collecting import Collecting
from zonekeeper.bookie.storage.compaction import Compacting
from zonekeeper.metadata.formats import cookies
from zonekeeper.metadata.stores.settings import METADATA, address
from zonekeeper.placement.base import locations, settings, units, upgrade_domains
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.base.settings import BadSettingError, GivenSettings, Setting
from zonekeeper.placement.base.upgrade_domains import RoundRobin
from zonekeeper.wire.formats import addresses
from zonekeeper.wire.formats.addresses import Address
from zonekeeper.wire.grpc import tls
from zonekeeper.wire.grpc.tls import TlsFiles
from zonekeeper.wire.identity.callers import Enforcement, OwnerRule
from zonekeeper.wire.running import logs, seam
from zonekeeper.wire.running.bookie_config import CAPACITY_BYTES_MIN, KeyRule
from zonekeeper.wire.running.logs import LogSettings
from zonekeeper.wire.socket import page_rights

DATA: Final = Setting(
    name="data",
    variable=seam.DATA,
    shown_as="DIR",
    required=True,
    help="The data folder: all that --journal and --ledger-dirs do not name is kept here; an "
    "absolute path on a disk of its own.",
)
TERMINATION_LOG: Final = Setting(
    name="termination-log",
    variable=seam.TERMINATION_LOG,
    shown_as="FILE",
    help="Where to leave in one line why the bookie does not start or go on: the file from which "
    "Kubernetes takes a container's last words.",
)
SETTINGS: Final = (
    METADATA,
    Setting(
        name="id",
        shown_as="NAME",
        variable=seam.BOOKIE_ID,
        otherwise="the host name",
        help="The bookie's id, which never changes. With an upgrade domain it ends in the bookie's "
        "ordinal: bk-a-0.",
    ),
    Setting(
        name="zone",
        variable=seam.ZONE,
        shown_as="NAME",
        otherwise="what the cookie says",
        help="The zone that this machine stands in.",
    ),
    Setting(
        name="upgrade-domains",
        variable=seam.UPGRADE_DOMAINS,
        shown_as="N",
        otherwise="what the cookie says",
        help="The number of upgrade domains in each zone; the ordinal gives this bookie's domain.",
    ),
    DATA,
    Setting(
        name="journal",
        variable=seam.JOURNAL,
        shown_as="DIR",
        help="A folder on a device of its own for arrival segments, which are written and synced "
        "at once. It can never be changed, nor can --ledger-dirs.",
    ),
    Setting(
        name="ledger-dirs",
        shown_as="DIR,DIR",
        help="Folders on devices of their own for sorted segments, which are written in the "
        "background.",
    ),
    Setting(
        name="listen",
        variable=seam.LISTEN,
        shown_as="HOST:PORT",
        default=f"0.0.0.0:{seam.GRPC_PORT}",
        help="Where to serve clients; port 0 takes a free one.",
    ),
    Setting(
        name="listen-socket",
        variable=seam.LISTEN_SOCKET,
        shown_as="HOST:PORT",
        otherwise="no socket lane",
        help="Where to serve clients over the socket lane, beside --listen; port 0 takes a free "
        "one. TLS and --advertise are those of --listen.",
    ),
    Setting(
        name="advertise",
        variable=seam.ADVERTISE,
        shown_as="HOST",
        otherwise="the host of --listen, or the host name",
        help="What clients connect to.",
    ),
    Setting(
        name="http",
        variable=seam.HTTP,
        shown_as="HOST:PORT",
        default=f"0.0.0.0:{seam.HTTP_PORT}",
        help="Where to answer GET of /metrics, /healthz, /readyz and /state; port 0 takes a free "
        "one.",
    ),
    page_rights.HTTP_TLS,
    *tls.SERVER_SETTINGS,
    Setting(
        name="access",
        shown_as="HOW",
        otherwise="named with TLS, off without",
        help="How strictly the rights of roles are held: off; warn counts and logs what would be "
        "refused; named refuses callers whose certificate names a role, and warns of the others; "
        "on refuses every caller what no role of it may do.",
    ),
    Setting(
        name="access-names",
        shown_as="FILE",
        help="The map of foreign names: which certificates without a URI of zonekeeper's have "
        "which role. It is read again when it changes.",
    ),
    Setting(
        name="ledger-keys",
        shown_as="off|warn|on",
        default=KeyRule.WARN.value,
        help="What becomes of reads, tails and lists of a ledger with a password that do not prove "
        "its key: they are answered, answered and counted, or refused. Set it to on once every "
        "client proves keys.",
    ),
    Setting(
        name="ledger-owners",
        shown_as="off|warn|on",
        # With warn and on, the first request for a ledger after a start waits for the store.
        default=OwnerRule.OFF.value,
        help="What becomes of requests for a ledger that has an owner and is another's: they are "
        "done, done and counted, or refused. It counts where --access is not off. With warn and on "
        "the first request for a ledger after a start waits until its metadata is read.",
    ),
    Setting(
        name="drain-timeout",
        shown_as="DURATION",
        default="10s",
        help="On SIGTERM, how long what is queued may take to be written and answered.",
    ),
    Setting(
        name="waiting-bytes",
        shown_as="SIZE",
        default="256MiB",
        help="The memory for appends that wait for the disk; more are refused as too many.",
    ),
    Setting(
        name="ledgers",
        shown_as="N",
        default="1000000",
        help="How many ledgers it knows at the most; new ones beyond are refused as too many. Each "
        "takes about 1.3 KB of memory, 200 bytes of the disk, and 360 bytes that stay free for "
        "checkpoints; one with many fragments takes more.",
    ),
    Setting(
        name="reserve-bytes",
        shown_as="SIZE",
        default="64MiB",
        help="Room on the device that appends leave for the bookie's own work; recoveries and the "
        "rewrite leave half of it, compaction a quarter. Room for checkpoints is kept beside it, "
        "as much as the ledgers take.",
    ),
    Setting(
        name="read-threads",
        shown_as="N",
        default="4",
        help="How many reads of the disk go on at once; others wait, and acks do not.",
    ),
    Setting(
        name="capacity",
        shown_as="SIZE",
        otherwise="that of the device",
        help="What each of the bookie's folders counts as the size of its device, where others use "
        "the device, too: then only the bookie's own files count as used. It never counts on the "
        "last 64 MiB of the device.",
    ),
    Setting(
        name="disk-warn",
        shown_as="SHARE",
        default="90%",
        help="When this share of a device is used, the bookie logs a warning.",
    ),
    Setting(
        name="disk-full",
        shown_as="SHARE",
        default="95%",
        help="When this share of a device is used, the bookie takes no entries.",
    ),
    Setting(
        name="disk-low",
        shown_as="SHARE",
        default="90%",
        help="When at most this share is used again, the bookie takes entries again.",
    ),
    Setting(
        name="disk-check-interval",
        shown_as="DURATION",
        default="10s",
        help="How often the room on the devices is looked at.",
    ),
    Setting(
        name="gc-interval",
        shown_as="DURATION",
        default="10m",
        help="How long to wait between looking for ledgers that were deleted.",
    ),
    Setting(
        name="minor-compaction-interval",
        shown_as="DURATION",
        default="1h",
        help="How often sorted segments with at most 20% live bytes are compacted.",
    ),
    Setting(
        name="major-compaction-interval",
        shown_as="DURATION",
        default="1d",
        help="How often sorted segments with at most 80% live bytes are compacted.",
    ),
    Setting(
        name="compaction-rate",
        shown_as="SIZE",
        default="20MiB",
        help="How much compaction writes a second at most.",
    ),
    TERMINATION_LOG,
    *logs.SETTINGS,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BookieSettings:
    """All settings of a bookie's process."""

    metadata: str
    bookie_id: BookieId
    #: None: not given; then the cookie must have it.
    location: Location | None
    data: Path
    #: None: the data folder is the journal. Empty ``ledger_dirs``: it is the ledger directory.
    journal: Path | None
    ledger_dirs: tuple[Path, ...]
    listen: Address
    #: None: there is no socket lane.
    listen_socket: Address | None
    #: What others connect to.
    advertise: str
    http: Address
    #: None: the pages are plain.
    page_tls: TlsFiles | None
    #: None: every client that reaches the port is served, and nothing is encrypted.
    tls: TlsFiles | None
    access: Enforcement
    #: None: no certificate is mapped.
    access_names: Path | None
    ledger_keys: KeyRule
    ledger_owners: OwnerRule
    drain_timeout_ms: int
    waiting_bytes_max: int
    ledgers_max: int
    reserve_bytes: int
    read_threads: int
    #: None: each folder has the capacity of its device.
    capacity_bytes: int | None
    disk_marks: Marks
    disk_check_ms: int
    collecting: Collecting
    compacting: Compacting
    #: None: the last words are only logged.
    termination_log: Path | None
    logging: LogSettings


def parse(
    flags: Mapping[str, str | None],
    environment: Mapping[str, str],
    file: Mapping[str, object] | None = None,
    file_name: str = "",
) -> BookieSettings:
    """Check all settings; raises ``BadSettingError`` for the first that is wrong."""
    given = GivenSettings(SETTINGS, flags, environment, file, file_name)
    listen = given.read("listen", addresses.parse)
    bookie_id = given.read("id", _bookie_id, socket.gethostname())
    files = _tls(given, bookie_id)
    return BookieSettings(
        metadata=given.read("metadata", address),
        bookie_id=bookie_id,
        location=_location(given, bookie_id),
        data=given.read("data", _folder),
        journal=given.optional("journal", _folder),
        ledger_dirs=given.optional("ledger-dirs", _folders) or (),
        listen=listen,
        listen_socket=given.optional("listen-socket", addresses.parse),
        advertise=_advertised(given, listen),
        http=given.read("http", addresses.parse),
        page_tls=page_rights.files_given(given, files),
        tls=files,
        access=_access(given, files),
        access_names=given.optional("access-names", Path),
        ledger_keys=given.read("ledger-keys", _key_rule),
        ledger_owners=given.read("ledger-owners", _owner_rule),
        drain_timeout_ms=given.read("drain-timeout", settings.duration_ms),
        waiting_bytes_max=given.read("waiting-bytes", settings.size_bytes),
        ledgers_max=given.read("ledgers", settings.count),
        reserve_bytes=given.read("reserve-bytes", settings.size_bytes),
        read_threads=given.read("read-threads", settings.count),
        capacity_bytes=given.optional("capacity", _capacity_bytes),
        disk_marks=_marks(given),
        disk_check_ms=given.read("disk-check-interval", settings.duration_ms),
        collecting=Collecting(every_ms=given.read("gc-interval", settings.duration_ms)),
        compacting=Compacting(
            minor_every_ms=given.read("minor-compaction-interval", settings.duration_ms),
            major_every_ms=given.read("major-compaction-interval", settings.duration_ms),
            bytes_per_second=given.read("compaction-rate", settings.size_bytes),
        ),
        termination_log=given.optional("termination-log", Path),
        logging=logs.given_to(given),
    )


def _location(given: GivenSettings, bookie_id: BookieId) -> Location | None:
    why = "the zone and the number of upgrade domains make the location only together"
    if not given.together(("zone", "upgrade-domains"), why):
        return None
    count = given.read("upgrade-domains", settings.count)
    try:
        ordinal = upgrade_domains.ordinal_of(bookie_id)
        domain = upgrade_domains.of_ordinal(ordinal, RoundRobin(upgrade_domains=count))
    except ValueError as error:
        sources = f"{given.source('id')}, {given.source('upgrade-domains')}"
        raise BadSettingError(f"{sources}: {error}") from error
    return Location(given.read("zone", locations.zone_name), domain)


def _advertised(given: GivenSettings, listen: Address) -> str:
    otherwise = addresses.advertised(listen, socket.gethostname())
    return given.read("advertise", addresses.host, otherwise)


def _tls(given: GivenSettings, bookie_id: BookieId) -> TlsFiles | None:
    files = tls.files_given(given)
    if files is None:
        return None
    try:
        tls.check_id(bookie_id)
    except ValueError as error:
        raise BadSettingError(f"{given.source('id')}: {error}") from error
    return files


def _access(given: GivenSettings, files: TlsFiles | None) -> Enforcement:
    """Read how strictly rights are held. Without TLS nobody is known, and so nothing is held."""
    default = Enforcement.OFF if files is None else Enforcement.NAMED
    found = given.read("access", _enforcement, default.value)
    asks = "access" if found is not Enforcement.OFF else "access-names"
    if files is None and given.has(asks):
        raise BadSettingError(
            f"{given.source(asks)}: needs --tls-authority, --tls-certificate and --tls-key, "
            "because roles stand in the certificates of callers"
        )
    return found


def _enforcement(text: str) -> Enforcement:
    try:
        return Enforcement(text)
    except ValueError:
        known = ", ".join(each.value for each in Enforcement)
        raise ValueError(f"{text!r}: must be one of {known}") from None


def _key_rule(text: str) -> KeyRule:
    try:
        return KeyRule(text)
    except ValueError as error:
        raise ValueError(f"{text!r}: must be off, warn or on") from error


def _owner_rule(text: str) -> OwnerRule:
    try:
        return OwnerRule(text)
    except ValueError as error:
        raise ValueError(f"{text!r}: must be off, warn or on") from error


def _marks(given: GivenSettings) -> Marks:
    names = ("disk-warn", "disk-full", "disk-low")
    warn, full, low = (given.read(name, settings.share) for name in names)
    try:
        return Marks(warn=warn, full=full, low=low)
    except ValueError as error:
        raise BadSettingError(f"{', '.join(map(given.source, names))}: {error}") from error


def _capacity_bytes(text: str) -> int:
    size = settings.size_bytes(text)
    if size < CAPACITY_BYTES_MIN:
        least = units.size_text(CAPACITY_BYTES_MIN)
        raise ValueError(f"{text!r}: must be at least {least}, or the bookie has no room to work")
    return size


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
