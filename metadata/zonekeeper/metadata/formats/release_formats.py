"""The formats of one release of zonekeeper: what it reads, and what it writes.

::

    {"disk": {"checkpoint": {"highest": 3, "lowest": 1}, ...},
     "metadata": {...}, "version": "0.1.0", "wire": {"client-bookie": {...}}}

A release reads each version of a format from the lowest to the highest, and writes the highest. Of
the wire it speaks each of them. ``zonekeeper bookie formats`` prints this object, and each start of
a bookie puts it into the bookie's record. So it can be known before a change whether another
release reads what is there.

A reader ignores keys that it does not know, within the object and within a format. A format that
one of two releases does not name is one that came later or has gone; it is judged as version 0 of
the release that does not name it.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from zonekeeper.metadata.formats.malformed import Flaw, MalformedError
from zonekeeper.placement.base.fields import Plain

WIRE: Final = "client-bookie"
#: A text with this many characters is no release's; a real one has less than a thousand.
_TEXT_CHARS_MAX: Final = 1 << 14
_VERSION_CHARS_MAX: Final = 64
_PLACES: Final = ("wire", "disk", "metadata")


@dataclass(frozen=True, slots=True)
class FormatRange:
    """The versions of one format: ``0 <= lowest <= highest``."""

    lowest: int
    highest: int

    def __str__(self) -> str:
        if self.lowest == self.highest:
            return str(self.lowest)
        return f"{self.lowest}..{self.highest}"


#: Of a release that does not have the format.
NONE: Final = FormatRange(0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseFormats:
    """All formats of one release, by name."""

    version: str
    wire: Mapping[str, FormatRange]
    disk: Mapping[str, FormatRange]
    metadata: Mapping[str, FormatRange]

    def plain(self) -> dict[str, Plain]:
        """Give the object as plain data."""
        places = {name: _plain(formats) for name, formats in self._by_place()}
        return {"version": self.version, **places}

    def lines(self) -> Iterator[str]:
        """Give the formats for people."""
        yield f"version {self.version}"
        for place, formats in self._by_place():
            for name, held in sorted(formats.items()):
                yield f"{place} {name} {held}"

    def _by_place(self) -> Iterator[tuple[str, Mapping[str, FormatRange]]]:
        yield from zip(_PLACES, (self.wire, self.disk, self.metadata), strict=True)


def render(formats: ReleaseFormats) -> str:
    """Write the object on one line."""
    return json.dumps(formats.plain(), sort_keys=True)


def parse(text: str) -> ReleaseFormats:
    """Read the object; raises ``MalformedError``."""
    if len(text) > _TEXT_CHARS_MAX:
        raise MalformedError(Flaw.WRONG_TYPE, f"formats of {len(text)} characters")
    try:
        data: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise MalformedError(Flaw.BAD_TEXT, f"no JSON: {error}") from error
    return of_plain(data)


def of_plain(data: object) -> ReleaseFormats:
    """Read the object from plain data; raises ``MalformedError``."""
    version = data.get("version") if isinstance(data, dict) else None
    if not isinstance(data, dict) or not isinstance(version, str):
        raise MalformedError(Flaw.WRONG_TYPE, "formats are an object with a version")
    wire, disk, metadata = (_ranges(data.get(place), place) for place in _PLACES)
    return ReleaseFormats(
        version=version[:_VERSION_CHARS_MAX], wire=wire, disk=disk, metadata=metadata
    )


def _plain(formats: Mapping[str, FormatRange]) -> dict[str, Plain]:
    return {
        name: {"lowest": held.lowest, "highest": held.highest}
        for name, held in sorted(formats.items())
    }


def _ranges(data: object, place: str) -> dict[str, FormatRange]:
    if not isinstance(data, dict):
        raise MalformedError(Flaw.WRONG_TYPE, f"{place} must be an object")
    return {str(name): _range(value, f"{place}.{name}") for name, value in data.items()}


def _range(data: object, where: str) -> FormatRange:
    ends = [data.get(key) if isinstance(data, dict) else None for key in ("lowest", "highest")]
    lowest, highest = (end if type(end) is int else -1 for end in ends)
    if not 0 <= lowest <= highest:
        raise MalformedError(Flaw.WRONG_TYPE, f"{where} must have lowest <= highest, from 0 on")
    return FormatRange(lowest, highest)
