r"""A bookie's cookie: its identity, its directories, and its location.

    5 \n                                        version of the layout
    bookieHost: "a-0"                           protobuf text, fields in this order
    journalDir: "/j1,/j2"                       joined by commas
    ledgerDirs: "2\t/d1\t/d2"                   their number, then each
    instanceId: "d58c3de9-..."                  the cluster; may be missing
    indexDirs: "1\t/i1"                         may be missing
    # networkLocation: "/<zone>/<upgradeDomain>"

The same bytes are in the store and in the file ``VERSION`` of each directory. So a disk that was
wiped or swapped can be told from the bookie's own disk. The location is a comment, because every
Apache command that parses cookies fails on a field that it does not know. A plain field of that
name is read too. If a cookie has neither, the bookie's location is not known.
"""

import dataclasses
import re
from dataclasses import dataclass
from typing import Final

from zonekeeper.metadata.formats import protobuf_text
from zonekeeper.metadata.formats.malformed import Flaw, MalformedError, UnsupportedError, check_size
from zonekeeper.metadata.formats.protobuf import FieldKind, Message, Schema, Spec
from zonekeeper.placement.base import locations
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.base.troubles import Refusal

LAYOUT_VERSION: Final = 5
_VERSION: Final = str(LAYOUT_VERSION)
_LOCATION: Final = "networkLocation"
_COMMENT: Final = re.compile(
    rf'^[ \t]*#[ \t]*{_LOCATION}[ \t]*:[ \t]*"([^"\n]*)"[ \t]*$', re.MULTILINE
)
_COOKIE: Final = Schema(
    "cookie",
    Spec(1, "bookieHost", FieldKind.BYTES),
    Spec(2, "journalDir", FieldKind.BYTES),
    Spec(3, "ledgerDirs", FieldKind.BYTES),
    Spec(4, "instanceId", FieldKind.BYTES),
    Spec(5, "indexDirs", FieldKind.BYTES),
    Spec(1000, _LOCATION, FieldKind.BYTES),  # not one of Apache's numbers: it is used in text only
)
_ID: Final = re.compile(r"[A-Za-z0-9:._-]+")


def is_bookie_id(text: str) -> bool:
    """Is this text a valid bookie id? (Apache's rule; ``readonly`` is a node of the store.)"""
    return bool(_ID.fullmatch(text)) and text not in ("readonly", ".", "..")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cookie:
    """The properties that a bookie keeps from start to start, and its location."""

    bookie: BookieId
    journal_dirs: tuple[str, ...]
    ledger_dirs: tuple[str, ...]
    index_dirs: tuple[str, ...] = ()
    instance: str = ""
    location: Location | None = None

    def __post_init__(self) -> None:
        if not is_bookie_id(self.bookie):
            raise ValueError(
                f"{self.bookie!r} is no bookie id: letters, digits and : . _ - only, not readonly"
            )
        for name, dirs, split in (
            ("journal", self.journal_dirs, ","),
            ("ledger", self.ledger_dirs, "\t"),
            ("index", self.index_dirs, "\t"),
        ):
            if any(not path or split in path for path in dirs) or (not dirs and name != "index"):
                raise ValueError(f"{name} directories {dirs!r}: empty, or with {split!r} in them")

    def at(self, location: Location | None) -> "Cookie":
        """Give the same cookie with another location."""
        return dataclasses.replace(self, location=location)


class ZoneChangedError(Refusal):
    """The bookie stands in another zone than its cookie says: a wrong label, or a wrong disk."""


class LocationUnknownError(Refusal):
    """Neither the bookie nor its cookie knows where it stands."""

    retryable = True


class OtherBookieError(Refusal):
    """The cookie is not this bookie's: other directories, another name, or another cluster."""


def located(cookie: Cookie, location: Location | None) -> Cookie:
    """Give the cookie of a bookie that starts at a location (None: the bookie does not know it).

    A missing location is filled in, and a new upgrade domain replaces the old one. A new zone is
    refused: data does not move by itself from one zone to another.
    """
    known = cookie.location
    if location is None:
        if known is None:
            raise LocationUnknownError(
                f"{cookie.bookie} does not know its zone and upgrade domain, and its cookie does "
                "not say: set ZONEKEEPER_ZONE and ZONEKEEPER_UPGRADE_DOMAINS"
            )
        return cookie
    if known is not None and known.zone != location.zone:
        raise ZoneChangedError(
            f"{cookie.bookie} starts in zone {location.zone}, and its cookie says zone "
            f"{known.zone}: correct the label or the volume, or move the bookie with "
            "`zonekeeper bookie cookie move-zone`"
        )
    return cookie.at(location)


def check_same_bookie(stored: Cookie, mine: Cookie) -> None:
    """Refuse a cookie that differs in more than the location; both are of one start of a bookie."""
    for name in ("bookie", "instance", "journal_dirs", "ledger_dirs", "index_dirs"):
        theirs, ours = getattr(stored, name), getattr(mine, name)
        if theirs != ours:
            raise OtherBookieError(
                f"the cookie of {stored.bookie} has {name} {theirs!r}, and this bookie has "
                f"{ours!r}: a disk was swapped, wiped or moved; put back what was, or remove the "
                "bookie and start a new one"
            )


def render(cookie: Cookie) -> bytes:
    """Write a cookie."""
    text = (
        f"{_VERSION}\n"
        + protobuf_text.string_line("bookieHost", cookie.bookie)
        + protobuf_text.string_line("journalDir", ",".join(cookie.journal_dirs))
        + protobuf_text.string_line("ledgerDirs", _counted(cookie.ledger_dirs))
    )
    if cookie.instance:
        text += protobuf_text.string_line("instanceId", cookie.instance)
    if cookie.index_dirs:
        text += protobuf_text.string_line("indexDirs", _counted(cookie.index_dirs))
    if cookie.location is not None:
        text += f'# {_LOCATION}: "{cookie.location}"\n'
    return text.encode()


def parse(raw: bytes) -> Cookie:
    """Read a cookie; raises ``MalformedError`` or ``UnsupportedError``."""
    check_size(raw, "a cookie")
    try:
        version, newline, text = raw.decode("utf-8").partition("\n")
    except UnicodeDecodeError as error:
        raise MalformedError(Flaw.BAD_TEXT, "a cookie is not UTF-8") from error
    if not newline or not re.fullmatch("[0-9]{1,9}", version):
        raise MalformedError(
            Flaw.BAD_HEADER, f"a cookie starts with {version[:32]!r}, not a version"
        )
    if version != _VERSION:
        raise UnsupportedError(f"a cookie of version {version}; this program reads {_VERSION}")
    message = Message(_COOKIE, protobuf_text.to_binary(text, _COOKIE))
    try:
        return Cookie(
            bookie=BookieId(message.text("bookieHost")),
            journal_dirs=tuple(message.text("journalDir").split(",")),
            ledger_dirs=_uncounted("ledgerDirs", message.text("ledgerDirs")),
            index_dirs=(
                _uncounted("indexDirs", message.text("indexDirs")) if "indexDirs" in message else ()
            ),
            instance=message.text("instanceId") if "instanceId" in message else "",
            location=_location(text, message),
        )
    except ValueError as error:
        raise MalformedError(Flaw.OUT_OF_RANGE, str(error)) from error


def _counted(paths: tuple[str, ...]) -> str:
    return "\t".join([str(len(paths)), *paths])


def _uncounted(name: str, text: str) -> tuple[str, ...]:
    count, *paths = text.split("\t")
    if count != str(len(paths)):
        raise MalformedError(
            Flaw.INCONSISTENT, f"{name} says {count[:16]!r} and lists {len(paths)}"
        )
    return tuple(paths)


def _location(text: str, message: Message) -> Location | None:
    said = set(_COMMENT.findall(text))
    if _LOCATION in message:
        said.add(message.text(_LOCATION))
    if not said:
        return None
    if len(said) > 1:
        raise MalformedError(Flaw.INCONSISTENT, f"{_LOCATION} is given as {sorted(said)}")
    spelled = said.pop()
    if (location := locations.parse(spelled)) is None:
        raise MalformedError(
            Flaw.OUT_OF_RANGE, f"{_LOCATION} {spelled!r} is not /zone/upgradeDomain"
        )
    return location
