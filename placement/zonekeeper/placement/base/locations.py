"""A bookie's network location: ``/<zone>/<upgradeDomain>``.

A location has exactly two levels. A bookie without them is *unresolved*, and unresolved is spelled
``None`` everywhere. There is no default zone.
"""

from dataclasses import dataclass
from typing import Final

from zonekeeper.placement.base.ids import UpgradeDomain, ZoneName

#: The greatest length of a name: names are part of metadata paths and of every record of a zone.
NAME_CHARS_MAX: Final = 255

_LEVELS: Final = 2


@dataclass(frozen=True, slots=True, order=True)
class Location:
    """A zone and an upgrade domain inside it: the unit that planned work may take down."""

    zone: ZoneName
    upgrade_domain: UpgradeDomain

    def __str__(self) -> str:
        return f"/{self.zone}/{self.upgrade_domain}"


def parse(text: str) -> Location | None:
    """Read ``/zone/upgradeDomain``; None (unresolved) for anything else.

    Each name is a path component in the metadata store. So a name may not be empty, longer than
    ``NAME_CHARS_MAX``, or one of the path steps ``.`` and ``..``, and it may not contain white
    space or control characters.
    """
    if not text.startswith("/"):
        return None
    parts = text[1:].split("/")
    if len(parts) != _LEVELS or not all(_is_name(part) for part in parts):
        return None
    return Location(ZoneName(parts[0]), UpgradeDomain(parts[1]))


def zone_name(text: str) -> ZoneName:
    """Read a zone's name; raises ``ValueError`` that says what is needed."""
    if not _is_name(text) or "/" in text:
        raise ValueError(f"{text!r} cannot be a zone's name: no slash, no white space, not . or ..")
    return ZoneName(text)


def _is_name(part: str) -> bool:
    if part in (".", "..") or not 1 <= len(part) <= NAME_CHARS_MAX:
        return False
    return part.isprintable() and not any(c.isspace() for c in part)
