"""The identity that a process shows on its ``/state`` page: which process of which cluster it is.

A command may ask an endpoint that it remembers from an earlier day. Another process may listen
there now. So each page names its process, and a reader compares before it believes the page. The
process that writes the page and the command that reads it take the names of the keys from here.

Pure. A process of an older version shows fewer keys: what it does not show is unknown. A reader
ignores keys that it does not know.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from zonekeeper.placement.base.fields import Plain
from zonekeeper.placement.base.ids import BookieId, UpgradeDomain, ZoneName

KIND: Final = "kind"
NAME: Final = "name"
INSTANCE: Final = "instance"
ZONE: Final = "zone"
UPGRADE_DOMAIN: Final = "upgradeDomain"
VERSION: Final = "version"
#: A bookie of an older version names itself under this key, and shows no kind.
_BOOKIE: Final = "bookie"


class ProcessKind(enum.StrEnum):
    """The long-lived processes of a cluster that serve pages."""

    BOOKIE = "bookie"
    AUTORECOVERY = "autorecovery"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessIdentity:
    """Which process a page is of; None: the process does not say."""

    kind: ProcessKind
    name: BookieId
    #: The instance of the process's cluster.
    instance: str | None = None
    zone: ZoneName | None = None
    upgrade_domain: UpgradeDomain | None = None

    def plain(self) -> dict[str, Plain]:
        """Give the keys of the page."""
        return {
            KIND: self.kind.value,
            NAME: self.name,
            INSTANCE: self.instance,
            ZONE: self.zone,
            UPGRADE_DOMAIN: self.upgrade_domain,
        }


def of_state(state: Mapping[str, Plain]) -> ProcessIdentity | None:
    """Read the identity on a ``/state`` page; None: the page names no process of ours."""
    name = _text(state, NAME if NAME in state else _BOOKIE)
    kind = state.get(KIND)
    if kind is None:
        kind = ProcessKind.BOOKIE if _BOOKIE in state else ProcessKind.AUTORECOVERY
    if name is None or kind not in tuple(ProcessKind):
        return None
    zone, domain = _text(state, ZONE), _text(state, UPGRADE_DOMAIN)
    return ProcessIdentity(
        kind=ProcessKind(kind),
        name=BookieId(name),
        instance=_text(state, INSTANCE),
        zone=None if zone is None else ZoneName(zone),
        upgrade_domain=None if domain is None else UpgradeDomain(domain),
    )


def _text(state: Mapping[str, Plain], key: str) -> str | None:
    value = state.get(key)
    # It is shown on terminals, and any process may have written it.
    return value if isinstance(value, str) and value and value.isprintable() else None
