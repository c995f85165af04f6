r"""The nodes below ``underreplication``, byte for byte Apache BookKeeper's.

    LAYOUT                                       type: "BASIC" \n version: 1 \n
    ledgers/0000/0000/0000/002a/urL0000000042    replica: "a-0" \n ... ctime: 1700000000000 \n
    locks/urL0000000042                          bookieId: "worker" \n
    auditorelection, auditorelection/V_<n>       bookieId: "candidate" \n
    lostBookieRecoveryDelay                      seconds, in decimal
    checkallledgersctime, ...                    binary protobuf {1: milliseconds}

The four levels of a ledger's path are the hexadecimal digits of its 64-bit id.
"""

import re
from dataclasses import dataclass
from typing import Final

from zonekeeper.metadata.formats import protobuf_text
from zonekeeper.metadata.formats.malformed import Flaw, MalformedError, check_size
from zonekeeper.metadata.formats.protobuf import (
    INT32_MAX,
    INT64_MAX,
    FieldKind,
    Message,
    Schema,
    Spec,
    number_field,
)
from zonekeeper.placement.base.ids import BookieId, LedgerId

LAYOUT: Final = b'type: "BASIC"\nversion: 1\n'

_LEDGER: Final = Schema(
    "under-replicated ledger",
    Spec(1, "replica", FieldKind.BYTES, repeated=True),
    Spec(2, "ctime", FieldKind.NUMBER),
)
_HOLDER: Final = Schema("holder", Spec(1, "bookieId", FieldKind.BYTES))
_TIME: Final = Schema("time", Spec(1, "ctime", FieldKind.NUMBER))
_PATH: Final = re.compile(r"/((?:[0-9a-f]{4}/){4})urL([0-9]{10,19})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Underreplicated:
    """A ledger that has lost its copies on some bookies."""

    replicas: tuple[BookieId, ...]
    #: Wall time of the first mark; None if it was not written.
    marked_ms: int | None = None


def ledger_path(ledger_id: LedgerId) -> str:
    """Give the path of a ledger's mark below ``underreplication/ledgers``."""
    digits = f"{ledger_id:016x}"
    groups = "/".join(digits[at : at + 4] for at in range(0, 16, 4))
    return f"/{groups}/{lock_name(ledger_id)}"


def lock_name(ledger_id: LedgerId) -> str:
    """Give the name of a ledger's lock."""
    return f"urL{ledger_id:010d}"


def parse_ledger_path(relative: str) -> LedgerId | None:
    """Give the ledger of a mark; None if this is not the path of a mark."""
    found = _PATH.fullmatch(relative)
    if found is None:
        return None
    ledger_id = LedgerId(int(found[2]))
    return ledger_id if ledger_id <= INT64_MAX and ledger_path(ledger_id) == relative else None


def parse_lock_name(name: str) -> LedgerId | None:
    """Give the ledger of a lock; None if this is not the name of a lock."""
    if not re.fullmatch("urL[0-9]{10,19}", name):
        return None
    ledger_id = LedgerId(int(name[3:]))
    return ledger_id if lock_name(ledger_id) == name and ledger_id <= INT64_MAX else None


def render(mark: Underreplicated) -> bytes:
    """Write a ledger's mark."""
    text = "".join(protobuf_text.string_line("replica", replica) for replica in mark.replicas)
    if mark.marked_ms is not None:
        text += f"ctime: {mark.marked_ms}\n"
    return text.encode()


def parse(raw: bytes) -> Underreplicated:
    """Read a ledger's mark."""
    message = Message(_LEDGER, _binary(raw, _LEDGER))
    return Underreplicated(
        replicas=tuple(BookieId(text) for text in message.all_texts("replica")),
        marked_ms=message.between("ctime", 0, INT64_MAX) if "ctime" in message else None,
    )


def render_holder(bookie: BookieId) -> bytes:
    """Write the holder of a lock, or a candidate of an election."""
    return protobuf_text.string_line("bookieId", bookie).encode()


def parse_holder(raw: bytes) -> BookieId:
    """Read the holder of a lock, or a candidate of an election."""
    return BookieId(Message(_HOLDER, _binary(raw, _HOLDER)).text("bookieId"))


def render_seconds(seconds: int) -> bytes:
    """Write the recovery delay of lost bookies."""
    assert 0 <= seconds <= INT32_MAX, f"{seconds} s is no delay"
    return str(seconds).encode()


def render_time(wall_ms: int) -> bytes:
    """Write the time at which a periodic check last ran."""
    return number_field(1, wall_ms)


def parse_time(raw: bytes) -> int:
    """Read the time at which a periodic check last ran."""
    check_size(raw, "a time")
    return Message(_TIME, raw).between("ctime", 0, INT64_MAX)


def _binary(raw: bytes, schema: Schema) -> bytes:
    check_size(raw, schema.name)
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise MalformedError(Flaw.BAD_TEXT, f"{schema.name} is not UTF-8") from error
    return protobuf_text.to_binary(text, schema)
