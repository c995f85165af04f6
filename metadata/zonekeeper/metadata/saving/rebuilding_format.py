r"""The hints of one bookie about its ledgers, as text: JSON lines, one line a ledger.

    {"bookie":"bk-a-0","format":"zonekeeper-hints","generation":12,"instance":"...","version":1}
    {"entries":500,"fenced":false,"firstEntry":0,"fragments":[...],"lac":498,"lastEntry":499,
     "ledger":7,"limbo":false,"masterKey":"<40 hexadecimal digits>"}
    {"ledgers":1,"sha256":"<of all lines before>"}

    a fragment: {"ackZones":2,"digest":"CRC32C","ensemble":["bk-a-0",...],"firstEntry":0,
                 "quorums":[3,3,2]}                       ensemble size, write and ack quorum

Keys are sorted and there is no white space; a real line has no line break. Ledgers ascend, so that
the files of many bookies can be read side by side. ``generation`` is that of the bookie's log, and
is increased at each of its starts. ``createToken`` is the token that the ledger was created with, a
number; it is left out if the bookie does not know it. ``masterKey`` is null if no writer ever
showed one.
``firstEntry`` and ``lastEntry`` are null if the bookie has no entry. A file without its last line
was cut short, and is refused as a whole.

A reader of the file can write to the ledgers with their master keys: hints are a secret.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from zonekeeper.metadata.formats import cookies, records
from zonekeeper.metadata.formats.ledger_paths import LEDGER_ID_MAX
from zonekeeper.metadata.formats.malformed import Flaw, MalformedError, UnsupportedError
from zonekeeper.metadata.saving.export_format import LINE_LENGTH_MAX
from zonekeeper.placement.base.digests import Digest
from zonekeeper.placement.base.fields import Plain
from zonekeeper.placement.base.ids import NO_ENTRY, BookieId, EntryId, LedgerId
from zonekeeper.placement.base.quorums import Quorums

_FORMAT: Final = "zonekeeper-hints"
_VERSION: Final = 1
_ID_MAX: Final = LEDGER_ID_MAX
_ENSEMBLE_MAX: Final = (1 << 16) - 1
_KEY: Final = re.compile("[0-9a-f]{40}")


@dataclass(frozen=True, slots=True, kw_only=True)
class HintsHeader:
    """The bookie that gave the hints."""

    instance: str
    bookie: BookieId
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FragmentHint:
    """The opening of a fragment, as a writer sent it to the bookie."""

    first_entry: EntryId
    ensemble: tuple[BookieId, ...]
    quorums: Quorums
    digest: Digest


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerHints:
    """The hints of a bookie about one ledger."""

    ledger_id: LedgerId
    #: None if no writer has shown one.
    master_key: bytes | None = field(repr=False)
    fenced: bool
    #: The bookie lost data, and does not know what it lost of this ledger.
    in_limbo: bool
    #: The highest LAC that the bookie was told.
    lac: EntryId
    #: Both are None if the bookie has no entry; otherwise ``first_entry <= last_entry``.
    first_entry: EntryId | None
    last_entry: EntryId | None
    entries: int
    #: Ascending by their first entries.
    fragments: tuple[FragmentHint, ...]
    #: The token that the ledger was created with; 0: not known.
    create_token: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class HintsFooter:
    """The last line of a file."""

    ledgers: int
    checksum: str


Part: TypeAlias = HintsHeader | LedgerHints | HintsFooter


class HintsWriter:
    """Makes the lines of a file, and keeps their number and their checksum."""

    def __init__(self) -> None:
        self._sum = hashlib.sha256()
        self._ledgers = 0

    def header(self, header: HintsHeader) -> str:
        """Give the first line."""
        return self._line(
            {
                "format": _FORMAT,
                "version": _VERSION,
                "instance": header.instance,
                "bookie": header.bookie,
                "generation": header.generation,
            }
        )

    def ledger(self, hints: LedgerHints) -> str:
        """Give the line of a ledger."""
        self._ledgers += 1
        key, token = hints.master_key, hints.create_token
        return self._line(
            {
                **({"createToken": token} if token else {}),
                "ledger": hints.ledger_id,
                "masterKey": None if key is None else key.hex(),
                "fenced": hints.fenced,
                "limbo": hints.in_limbo,
                "lac": hints.lac,
                "firstEntry": hints.first_entry,
                "lastEntry": hints.last_entry,
                "entries": hints.entries,
                "fragments": [_plain(fragment) for fragment in hints.fragments],
            }
        )

    def footer(self) -> str:
        """Give the last line."""
        return self._line({"ledgers": self._ledgers, "sha256": self._sum.hexdigest()})

    def _line(self, data: Mapping[str, Plain]) -> str:
        line = json.dumps(data, sort_keys=True, ensure_ascii=False, separators=(",", ":")) + "\n"
        self._sum.update(line.encode())
        return line


def read(lines: Iterable[str]) -> Iterator[Part]:
    """Read a file: its header, its ledgers in order, and at last its footer.

    Do not use anything before the footer has come. Raises ``UnreadableError``.
    """
    total, count, last = hashlib.sha256(), 0, -1
    numbered = enumerate(lines, 1)
    for number, line in numbered:
        data = _object(line, number)
        if number == 1:
            yield _header(data)
        elif "sha256" in data:
            yield _footer(data, count, total.hexdigest())
            if next(numbered, None) is not None:
                raise MalformedError(Flaw.TRAILING, f"lines behind the end, which is line {number}")
            return
        else:
            try:
                hints = _ledger(data)
            except MalformedError as error:
                error.where = f"line {number}"
                raise
            if hints.ledger_id <= last:
                raise MalformedError(Flaw.INCONSISTENT, f"line {number} is out of order")
            count, last = count + 1, hints.ledger_id
            yield hints
        total.update(line.encode())
    raise MalformedError(Flaw.TRUNCATED, "the hints have no end: the file was cut short")


def _object(line: str, number: int) -> dict[str, Plain]:
    if len(line) > LINE_LENGTH_MAX:
        raise MalformedError(Flaw.TOO_LARGE, f"line {number} has {len(line)} characters")
    if not line.endswith("\n"):
        raise MalformedError(Flaw.TRUNCATED, f"line {number} has no end")
    try:
        data = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise MalformedError(Flaw.BAD_TEXT, f"line {number} is no JSON: {error}") from error
    if not isinstance(data, dict):
        raise MalformedError(Flaw.WRONG_TYPE, f"line {number} is no JSON object")
    return data


def _plain(fragment: FragmentHint) -> dict[str, Plain]:
    quorums = fragment.quorums
    return {
        "firstEntry": fragment.first_entry,
        "ensemble": list(fragment.ensemble),
        "quorums": [quorums.ensemble, quorums.write, quorums.ack],
        "ackZones": quorums.ack_zones,
        "digest": fragment.digest.value,
    }


def _header(data: Mapping[str, Plain]) -> HintsHeader:
    if data.get("format") != _FORMAT:
        raise MalformedError(Flaw.BAD_HEADER, "this is no file of a bookie's hints")
    if (version := records.number(data, "version")) != _VERSION:
        raise UnsupportedError(f"hints of version {version}; this program reads {_VERSION}")
    return HintsHeader(
        instance=records.text(data, "instance"),
        bookie=_bookie(records.text(data, "bookie")),
        generation=records.number(data, "generation"),
    )


def _footer(data: Mapping[str, Plain], ledgers: int, checksum: str) -> HintsFooter:
    if (said := records.number(data, "ledgers")) != ledgers:
        raise MalformedError(Flaw.INCONSISTENT, f"{ledgers} ledgers, and the end says {said}")
    if data["sha256"] != checksum:
        raise MalformedError(Flaw.BAD_CHECKSUM, "the hints were changed since they were written")
    return HintsFooter(ledgers=ledgers, checksum=checksum)


def _ledger(data: Mapping[str, Plain]) -> LedgerHints:
    key = data.get("masterKey")
    if not (key is None or (isinstance(key, str) and _KEY.fullmatch(key))):
        raise MalformedError(Flaw.WRONG_TYPE, "masterKey must be null or 40 hexadecimal digits")
    first, last = _entry_or_none(data, "firstEntry"), _entry_or_none(data, "lastEntry")
    if (first is None) != (last is None) or (first or 0) > (last or 0):
        raise MalformedError(Flaw.INCONSISTENT, f"entries from {first} to {last}")
    fragments = tuple(_fragment(each) for each in _list(data, "fragments"))
    firsts = [fragment.first_entry for fragment in fragments]
    if firsts != sorted(set(firsts)):
        raise MalformedError(Flaw.INCONSISTENT, "fragments do not ascend")
    return LedgerHints(
        ledger_id=LedgerId(_id(records.number(data, "ledger"))),
        master_key=None if key is None else bytes.fromhex(key),
        fenced=_flag(data, "fenced"),
        in_limbo=_flag(data, "limbo"),
        lac=_lac(data),
        first_entry=first,
        last_entry=last,
        entries=records.number(data, "entries"),
        fragments=fragments,
        create_token=_id(records.number(data, "createToken")) if "createToken" in data else 0,
    )


def _fragment(data: Plain) -> FragmentHint:
    if not isinstance(data, dict):
        raise MalformedError(Flaw.WRONG_TYPE, "a fragment must be an object")
    sizes = _list(data, "quorums")
    zones = records.number(data, "ackZones")
    match sizes:
        case [int(size), int(write), int(ack)] if _ordered(zones, ack, write, size):
            quorums = Quorums(ensemble=size, write=write, ack=ack, ack_zones=zones)
        case _:
            raise MalformedError(Flaw.OUT_OF_RANGE, f"quorums {sizes} in {zones} zones")
    ensemble = tuple(_bookie(each) for each in _list(data, "ensemble"))
    if len(ensemble) != quorums.ensemble:
        raise MalformedError(Flaw.INCONSISTENT, f"{len(ensemble)} bookies, quorums {sizes}")
    digest = records.text(data, "digest")
    if digest not in Digest.__members__:
        raise UnsupportedError(f"the digest {digest!r} is one of a newer version")
    return FragmentHint(
        first_entry=EntryId(_id(records.number(data, "firstEntry"))),
        ensemble=ensemble,
        quorums=quorums,
        digest=Digest[digest],
    )


def _ordered(zones: int, ack: int, write: int, size: int) -> bool:
    """Say whether these can be quorums; JSON's ``true`` is a number in Python."""
    no_flags = bool not in (type(ack), type(write), type(size))
    return no_flags and 1 <= zones <= ack <= write <= size <= _ENSEMBLE_MAX


def _bookie(text: Plain) -> BookieId:
    if not isinstance(text, str) or not cookies.is_bookie_id(text):
        raise MalformedError(Flaw.OUT_OF_RANGE, f"{text!r} is no bookie's id")
    return BookieId(text)


def _id(number: int) -> int:
    if number > _ID_MAX:
        raise MalformedError(Flaw.OUT_OF_RANGE, f"{number} is not a ledger or entry id")
    return number


def _entry_or_none(data: Mapping[str, Plain], key: str) -> EntryId | None:
    return None if data.get(key) is None else EntryId(_id(records.number(data, key)))


def _lac(data: Mapping[str, Plain]) -> EntryId:
    return NO_ENTRY if data.get("lac") == NO_ENTRY else EntryId(_id(records.number(data, "lac")))


def _flag(data: Mapping[str, Plain], key: str) -> bool:
    value = data.get(key)
    if not isinstance(value, bool):
        raise MalformedError(Flaw.WRONG_TYPE, f"{key} must be true or false")
    return value


def _list(data: Mapping[str, Plain], key: str) -> list[Plain]:
    value = data.get(key)
    if not isinstance(value, list):
        raise MalformedError(Flaw.WRONG_TYPE, f"{key} must be a list")
    return value
