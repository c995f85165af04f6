"""Our own records: JSON objects with sorted keys, each with the instance of its cluster.

    {"format":1,"instance":"<INSTANCEID>", ...}      UTF-8, no white space, keys sorted

A record of another cluster says nothing about this one. (The root may have been wiped and made
again, or the record may come from a foreign backup.) To read it raises ``ForeignRecordError``. A
watcher goes on as if the record did not exist, and reports it. Keys that a reader does not know are
kept when it writes the record again, so that an older program does not undo a newer one's work.
"""

import json
import math
from collections.abc import Container, Mapping
from typing import Final

from zonekeeper.metadata.formats.malformed import Flaw, MalformedError, UnsupportedError, check_size
from zonekeeper.placement.base.fields import Plain
from zonekeeper.placement.base.troubles import Refusal

FORMAT: Final = 1
#: The earliest format that is read.
FORMAT_MIN: Final = 1
_FORMAT: Final = "format"
_NUMBER_SHOWN_MAX: Final = 20
_INSTANCE: Final = "instance"


class ForeignRecordError(Refusal):
    """A record of another cluster: to be ignored, and reported."""


def render(data: Mapping[str, Plain], instance: str) -> bytes:
    """Write a record of this cluster; format and instance in ``data`` are replaced."""
    whole = {**data, _FORMAT: FORMAT, _INSTANCE: instance}
    text = json.dumps(
        whole, sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":")
    )
    return text.encode()


def parse(raw: bytes, instance: str) -> dict[str, Plain]:
    """Read a record of this cluster; raises ``UnreadableError`` or ``ForeignRecordError``."""
    data = parse_object(raw)
    version, owner = data.get(_FORMAT), data.get(_INSTANCE)
    if type(version) is not int or not isinstance(owner, str):
        raise MalformedError(
            Flaw.MISSING, f"a record has {_FORMAT} (a number) and {_INSTANCE} (a text)"
        )
    if version > FORMAT:
        raise UnsupportedError(
            f"a record of format {version}; this program reads up to {FORMAT}: use the newer "
            "zonekeeper that wrote it"
        )
    if owner != instance:
        raise ForeignRecordError(f"a record of instance {owner!r}; this cluster is {instance!r}")
    return data


def parse_object(raw: bytes) -> dict[str, Plain]:
    """Read a JSON object of any content, with no key twice and only the numbers that JSON has.

    Whatever is read can be written again. JSON can spell half of a character that takes two code
    units, and UTF-8 cannot; such a text is malformed.
    """
    check_size(raw, "a record")
    try:
        data = json.loads(
            raw.decode("utf-8"),
            object_pairs_hook=_distinct,
            parse_constant=_no_constant,
            parse_float=_finite,
        )
        if b"\\u" in raw:
            json.dumps(data, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise MalformedError(Flaw.BAD_TEXT, f"no JSON: {error}") from error
    if not isinstance(data, dict):
        raise MalformedError(Flaw.WRONG_TYPE, "a record is a JSON object")
    return data


def _distinct(pairs: list[tuple[str, Plain]]) -> dict[str, Plain]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise MalformedError(Flaw.DUPLICATE, "a key stands twice in a JSON object")
    return found


def _finite(text: str) -> Plain:
    """Read a fraction; ``1e999`` would be read as a number that JSON cannot write."""
    found = float(text)
    if math.isinf(found):
        raise MalformedError(Flaw.BAD_NUMBER, f"{text[:_NUMBER_SHOWN_MAX]} is no number")
    return found


def _no_constant(text: str) -> Plain:
    raise MalformedError(Flaw.BAD_NUMBER, f"{text} is no JSON")


def unknown(data: Mapping[str, Plain], known: Container[str]) -> str:
    """Give the fields that a reader does not know, as JSON: it writes them back unchanged."""
    rest = {name: data[name] for name in data if name not in known}
    rest.pop(_FORMAT, None)
    rest.pop(_INSTANCE, None)
    return json.dumps(rest, sort_keys=True)


# ── typed access to the fields of a record ──


def text(data: Mapping[str, Plain], key: str) -> str:
    """Give a text, which is required."""
    value = data.get(key)
    if not isinstance(value, str):
        raise MalformedError(Flaw.WRONG_TYPE, f"{key} must be a text")
    return value


def number(data: Mapping[str, Plain], key: str) -> int:
    """Give a whole number, which is required: ``0 <= number``."""
    value = data.get(key)
    if type(value) is not int or value < 0:
        raise MalformedError(Flaw.WRONG_TYPE, f"{key} must be a number from 0")
    return value
