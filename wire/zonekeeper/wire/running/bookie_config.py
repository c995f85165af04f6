"""The settings of a bookie that the person who owns its cluster may choose, and their kinds.

The operator reads them in ``spec.config`` of a resource and puts each into the environment of the
bookie's container. The operator does not import the bookie, so the names stand here, below both. A
test compares them with the bookie's own table: each setting of a bookie is chosen or reserved, and
the bookie reads every value that is allowed here.

An operator and its bookies may be of different versions: a name that once stood here stays.
"""

import enum
from collections.abc import Mapping
from typing import Final

from zonekeeper.placement.base import fields, units
from zonekeeper.wire.running.logs import LogForm


class KeyRule(enum.StrEnum):
    """What becomes of a request to look at a ledger with a password that does not prove its key."""

    OFF = "off"
    #: It is counted and logged, and answered.
    WARN = "warn"
    ON = "on"


#: Each folder of a bookie needs a device of this size. A bookie works with less, and then serves
#: little before it is full.
CAPACITY_BYTES_MIN: Final = 256 << 20
#: The fewest arrival segments that a bookie keeps, of the least size. A device that has them beside
#: everything else must be so much larger.
ARRIVAL_BYTES_MIN: Final = 3 * (32 << 20)
#: A bookie that is told to stop is killed after a minute, and leaves its registration before.
DRAIN_MS_MAX: Final = 45 * units.SECOND_MS

_TIME: Final = fields.Duration()
_SIZE: Final = fields.Size(units.TIB, least_bytes=units.KIB)
_SHARE: Final = fields.Text("([1-9][0-9]?|100)%", "a share from 1% to 100%", "90%")

#: What may be chosen, by the name of the bookie's setting.
CHOSEN: Final[Mapping[str, fields.Kind]] = {
    "drain-timeout": fields.Duration(most_ms=DRAIN_MS_MAX),
    "waiting-bytes": _SIZE,
    "ledgers": fields.Whole(1, 999_999_999),
    "reserve-bytes": _SIZE,
    "read-threads": fields.Whole(1, 1_024),
    "capacity": fields.Size(1 << 60, least_bytes=CAPACITY_BYTES_MIN),
    "disk-warn": _SHARE,
    "disk-full": _SHARE,
    "disk-low": _SHARE,
    "disk-check-interval": _TIME,
    "gc-interval": _TIME,
    "minor-compaction-interval": _TIME,
    "major-compaction-interval": _TIME,
    "compaction-rate": _SIZE,
    "ledger-keys": fields.OneOf(KeyRule),
    "access": fields.Text("off|warn|named|on", "one of off, warn, named, on", "warn"),
    "ledger-owners": fields.Text("off|warn|on", "one of off, warn, on", "warn"),
    "log-level": fields.Text(
        "debug|info|warning|error", "one of debug, info, warning, error", "info"
    ),
    "log-format": fields.OneOf(LogForm),
}
#: What the operator sets itself, because pods, volumes and the policy follow from it.
RESERVED: Final = (
    *("metadata", "id", "zone", "upgrade-domains", "data", "journal", "ledger-dirs"),
    *(
        "listen",
        "listen-socket",
        "advertise",
        "http",
        "http-tls",
        "tls-authority",
        "tls-certificate",
        "tls-key",
        "access-names",
    ),
    "termination-log",
)
#: The settings that hold callers to what their certificates name; where they are ``NOT_HELD``,
#: nobody is held. ``access`` decides about all callers, so the other one counts beside it alone.
ACCESS: Final = "access"
OWNERS: Final = "ledger-owners"
NOT_HELD: Final = "off"
#: The shares of a device at which its level changes, and the share that none may exceed.
MARKS: Final = ("disk-warn", "disk-low")
FULL_MARK: Final = "disk-full"
#: The marks that a bookie has if none is given.
MARK_DEFAULTS: Final[Mapping[str, str]] = {
    "disk-warn": "90%",
    "disk-low": "90%",
    "disk-full": "95%",
}
