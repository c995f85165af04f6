r"""The nodes of a cluster by name, and the two nodes that identify a root.

Nodes that Apache's tools know are under ``<root>``. Nodes that only we know are beside it, under
``<root>.zonekeeper``: Apache refuses to remove a root with children that it does not know.

    LAYOUT       2 \n <ledger manager's class> : 1       no newline at its end
    INSTANCEID   a UUID in ASCII, drawn when the cluster is made
"""

import re
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from zonekeeper.metadata.formats.malformed import Flaw, MalformedError, UnsupportedError
from zonekeeper.placement.base.ids import BookieId, UpgradeDomain, ZoneName

_LEDGER_MANAGER: Final = "org.apache.bookkeeper.meta.HierarchicalLedgerManagerFactory"
LAYOUT: Final = f"2\n{_LEDGER_MANAGER}:1".encode()
_LAYOUT_BYTES_MAX: Final = 1024

#: Our own nodes are beside a root, under the root's name with this suffix.
OWN_SUFFIX: Final = ".zonekeeper"

#: The nodes with the registrations of writable and of read-only bookies.
SIDES: Final = ("available", "available/readonly")

_ROOT: Final = re.compile(r"(/[^/\x00-\x1f\x7f]+)+")


@dataclass(frozen=True, slots=True)
class Root:
    """The root of a cluster in a store: it gives the paths of all its nodes."""

    path: str

    def __post_init__(self) -> None:
        if not _ROOT.fullmatch(self.path) or self.path.endswith(OWN_SUFFIX):
            raise ValueError(f"{self.path!r} cannot be a root: it must look like /ledgers")

    @property
    def own(self) -> str:
        """The tree of our own nodes."""
        return f"{self.path}{OWN_SUFFIX}"

    def below(self, name: str) -> str:
        """Give the path of a node that Apache knows."""
        return f"{self.path}/{name}"

    def beside(self, name: str) -> str:
        """Give the path of a node of our own."""
        return f"{self.own}/{name}"

    def cookie(self, bookie: BookieId) -> str:
        """Give the path of a bookie's cookie."""
        return self.below(f"cookies/{bookie}")

    def writable(self, bookie: BookieId) -> str:
        """Give the path of a bookie's registration as writable."""
        return self.below(f"available/{bookie}")

    def read_only(self, bookie: BookieId) -> str:
        """Give the path of a bookie's registration as read-only."""
        return self.below(f"available/readonly/{bookie}")

    def gate(self, zone: ZoneName) -> str:
        """Give the path of a zone's gate record."""
        return self.beside(f"zones/{zone}")

    def maintenance(self, zone: ZoneName, upgrade_domain: UpgradeDomain) -> str:
        """Give the path of the declaration of planned work on a unit."""
        return self.beside(f"maintenance/{zone}.{upgrade_domain}")


def parse_layout(raw: bytes) -> None:
    """Accept the only layout that this program works with; raise for any other."""
    if raw == LAYOUT:
        return
    try:
        version, newline, rest = raw[:_LAYOUT_BYTES_MAX].decode("ascii").partition("\n")
    except UnicodeDecodeError as error:
        raise MalformedError(Flaw.BAD_TEXT, "LAYOUT is not ASCII") from error
    if len(raw) > _LAYOUT_BYTES_MAX or not newline or not version.isdigit() or ":" not in rest:
        raise MalformedError(Flaw.BAD_HEADER, f"LAYOUT is {raw[:64]!r}")
    raise UnsupportedError(
        f"a layout of version {version} with {rest}; only {_LEDGER_MANAGER} works"
    )


def parse_instance_id(raw: bytes) -> str:
    """Read INSTANCEID."""
    try:
        text = raw.decode("ascii")
        canonical = str(UUID(text))
    except ValueError as error:
        raise MalformedError(Flaw.BAD_TEXT, f"INSTANCEID is {raw[:64]!r}, no UUID") from error
    if text != canonical:
        raise MalformedError(Flaw.BAD_TEXT, f"INSTANCEID is {raw[:64]!r}, not a canonical UUID")
    return text
