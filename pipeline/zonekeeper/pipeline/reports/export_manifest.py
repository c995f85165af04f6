"""The file beside the Parquet files of an exported log, which says what they hold. Pure.

It is a JSON object on one line. Its fields::

    format    "zonekeeper log export"
    version   1
    export    a token that was drawn for this export: 32 hexadecimal digits
    log       the name of the log
    logId     the id of its incarnation: 32 hexadecimal digits
    first     the sequence of the first message
    end       the sequence behind the last one: first <= end
    messages  how many there are: end - first
    hash      their hash (``message_hash``): 64 hexadecimal digits
    checksum  the SHA-256 of the object without this field, as ``json.dumps`` gives it with sorted
              keys and without blanks: 64 hexadecimal digits

The file is written last, so a folder without it is no export. A field that this version does not
know is refused, because it may say how the files are to be read.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from zonekeeper.metadata.formats import log_names
from zonekeeper.metadata.formats.log_names import BadLogNameError
from zonekeeper.metadata.formats.malformed import Flaw, MalformedError, UnsupportedError
from zonekeeper.metadata.formats.message_ids import LONG_MAX
from zonekeeper.pipeline.reports.message_hash import MessageSums

#: Its name in the folder. Readers of Parquet pass over files whose names begin so.
FILE: Final = "_zonekeeper_export.json"
#: No manifest is longer.
MANIFEST_BYTES_MAX: Final = 16 << 10

_FORMAT: Final = "zonekeeper log export"
_VERSION: Final = 1
_CHECKSUM: Final = "checksum"
_NUMBERS: Final = ("first", "end", "messages")
_HEX: Final = {"export": 32, "logId": 32, "hash": 64}
_FIELDS: Final = {"format", "version", "log", *_NUMBERS, *_HEX}
_WHERE: Final = f"the manifest {FILE}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportManifest:
    """What an export holds."""

    export: str
    log: str
    log_id: str
    sums: MessageSums


def build(manifest: ExportManifest) -> bytes:
    """Write a manifest."""
    sums = manifest.sums
    assert sums.is_dense, "a log has no gap"
    plain = {
        "format": _FORMAT,
        "version": _VERSION,
        "export": manifest.export,
        "log": manifest.log,
        "logId": manifest.log_id,
        "first": sums.first,
        "end": sums.end,
        "messages": sums.messages,
        "hash": sums.hash.hex(),
    }
    return _text({**plain, _CHECKSUM: _checksum(plain)}) + b"\n"


def parse(raw: bytes) -> ExportManifest:
    """Read a manifest; raises ``MalformedError``, or ``UnsupportedError`` for a newer one."""
    plain = _object(raw)
    if plain.get("format") != _FORMAT:
        raise _bad(Flaw.BAD_HEADER, f"it does not say that it is a {_FORMAT}")
    if plain.get("version") != _VERSION:
        raise UnsupportedError(
            f"{_WHERE} has version {str(plain.get('version'))[:20]}; this program reads {_VERSION}"
        )
    checksum = plain.pop(_CHECKSUM, None)
    if checksum != _checksum(plain):
        raise _bad(Flaw.BAD_CHECKSUM, "it was changed, or cut short")
    if unknown := sorted(plain.keys() - _FIELDS):
        raise UnsupportedError(f"{_WHERE} has a field {unknown[0]!r}, which a newer program wrote")
    numbers = {name: _number(plain, name) for name in _NUMBERS}
    hexes = {name: _hexadecimal(plain, name, length) for name, length in _HEX.items()}
    sums = MessageSums(
        messages=numbers["messages"],
        first=numbers["first"],
        end=numbers["end"],
        hash=bytes.fromhex(hexes["hash"]),
    )
    if not sums.is_dense:
        raise _bad(Flaw.INCONSISTENT, f"{sums}: a log has no gap")
    return ExportManifest(export=hexes["export"], log=_log(plain), log_id=hexes["logId"], sums=sums)


def _object(raw: bytes) -> dict[str, object]:
    if len(raw) > MANIFEST_BYTES_MAX:
        raise _bad(Flaw.TOO_LARGE, f"{len(raw)} bytes")
    try:
        plain = json.loads(raw.decode())
    except (ValueError, RecursionError) as error:
        raise _bad(Flaw.BAD_TEXT, f"it is no JSON: {error}") from error
    if not isinstance(plain, dict):
        raise _bad(Flaw.WRONG_TYPE, "it is no object")
    return plain


def _number(plain: Mapping[str, object], name: str) -> int:
    number = plain.get(name)
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= LONG_MAX:
        raise _bad(Flaw.BAD_NUMBER, name)
    return number


def _hexadecimal(plain: Mapping[str, object], name: str, length: int) -> str:
    text = plain.get(name)
    if not isinstance(text, str) or not re.fullmatch(f"[0-9a-f]{{{length}}}", text):
        raise _bad(Flaw.BAD_TEXT, name)
    return text


def _log(plain: Mapping[str, object]) -> str:
    name = plain.get("log")
    if not isinstance(name, str):
        raise _bad(Flaw.WRONG_TYPE, "log")
    try:
        log_names.check(name)
    except BadLogNameError as error:
        raise _bad(Flaw.BAD_TEXT, f"log: {error}") from error
    return name


def _checksum(plain: Mapping[str, object]) -> str:
    return hashlib.sha256(_text(plain)).hexdigest()


def _text(plain: Mapping[str, object]) -> bytes:
    return json.dumps(plain, sort_keys=True, separators=(",", ":")).encode()


def _bad(flaw: Flaw, detail: str) -> MalformedError:
    return MalformedError(flaw, f"{_WHERE}: {detail}")
