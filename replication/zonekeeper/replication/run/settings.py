"""The settings of an autorecovery process: texts become values, or a clear refusal.

There are few of them: the policy says what is repaired, when and how fast. ``SETTINGS`` is the
table: flags, help and the page of the documentation follow from it.
"""

import socket
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from zonekeeper.metadata.formats import cookies
from zonekeeper.metadata.stores.settings import METADATA, address
from zonekeeper.placement.base import locations, settings
from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.placement.base.settings import GivenSettings, Setting
from zonekeeper.replication.repair.replicator import WORKERS
from zonekeeper.wire.formats import addresses
from zonekeeper.wire.formats.addresses import Address
from zonekeeper.wire.grpc import tls
from zonekeeper.wire.grpc.tls import TlsFiles
from zonekeeper.wire.running import logs, seam
from zonekeeper.wire.running.logs import LogSettings
from zonekeeper.wire.socket import page_rights

WORKERS_MAX: Final = 64

SETTINGS: Final = (
    METADATA,
    Setting(
        name="name",
        shown_as="NAME",
        otherwise="the host name",
        help="Its name in elections and claims.",
    ),
    Setting(
        name="zone",
        shown_as="NAME",
        help="The zone that it runs in: the copies that are read are the nearest.",
    ),
    Setting(
        name="http",
        shown_as="HOST:PORT",
        default=f"0.0.0.0:{seam.HTTP_PORT}",
        help="Where to answer GET of /metrics, /healthz, /readyz and /state; port 0 takes a free "
        "one.",
    ),
    Setting(
        name="advertise",
        variable=seam.ADVERTISE,
        shown_as="HOST",
        otherwise="the host of --http, or the host name",
        help="The host at which commands reach its pages.",
    ),
    Setting(
        name="workers",
        shown_as="N",
        default=str(WORKERS),
        help="How many ledgers are repaired at once.",
    ),
    page_rights.HTTP_TLS,
    *tls.CLIENT_SETTINGS,
    *logs.SETTINGS,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AutorecoverySettings:
    """All settings of an autorecovery process, checked."""

    metadata: str
    #: Its name in elections and claims. Apache's formats have a bookie's id there, so the name has
    #: only the letters that such an id may have.
    name: BookieId
    #: The zone that it runs in, for reading the nearest copy; None: unknown.
    zone: ZoneName | None
    http: Address
    #: The host of its pages, as others reach it.
    advertise: str
    workers: int
    tls: TlsFiles | None
    #: None: the pages are plain.
    page_tls: TlsFiles | None
    logging: LogSettings


def parse(
    flags: Mapping[str, str | None],
    environment: Mapping[str, str],
    file: Mapping[str, object] | None = None,
    file_name: str = "",
) -> AutorecoverySettings:
    """Check all settings; raises ``BadSettingError`` for the first that is wrong."""
    given = GivenSettings(SETTINGS, flags, environment, file, file_name)
    http = given.read("http", addresses.parse)
    return AutorecoverySettings(
        metadata=given.read("metadata", address),
        name=given.read("name", _name, socket.gethostname()),
        zone=given.optional("zone", locations.zone_name),
        http=http,
        advertise=given.read(
            "advertise", addresses.host, addresses.advertised(http, socket.gethostname())
        ),
        workers=given.read("workers", partial(settings.count, most=WORKERS_MAX)),
        tls=tls.files_given(given),
        page_tls=page_rights.files_given(given, tls.files_given(given)),
        logging=logs.given_to(given),
    )


def _name(text: str) -> BookieId:
    if not cookies.is_bookie_id(text):
        raise ValueError(f"{text!r} cannot stand in a vote: letters, digits and : . _ - only")
    return BookieId(text)
