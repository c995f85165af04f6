"""A ledger's metadata as people and programs read it. No password is ever shown."""

import base64
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime

from zonekeeper.log.sessions.chain import STAMP_KEY
from zonekeeper.metadata.formats.ledger_metadata import LedgerMetadata
from zonekeeper.placement.base.ids import NO_ENTRY, LedgerId


def plain(number: LedgerId, ledger: LedgerMetadata) -> dict[str, object]:
    """Give the metadata as plain data; custom values in base64, because they may be any bytes."""
    closed = ledger.is_closed
    return {
        "ledger": number,
        "state": ledger.state.value,
        "lastEntry": ledger.last_entry if closed else None,
        "length": ledger.length if closed else None,
        "quorums": _quorums(ledger),
        "digest": ledger.digest.value,
        "hasPassword": bool(ledger.password),
        "owner": ledger.owner or None,
        "created": _when(ledger.created_ms),
        "custom": {key: base64.b64encode(value).decode() for key, value in ledger.custom},
        "fragments": [
            {"firstEntry": fragment.first_entry, "ensemble": list(fragment.ensemble)}
            for fragment in ledger.fragments
        ],
    }


def rows(number: LedgerId, ledger: LedgerMetadata) -> Iterator[tuple[str, str]]:
    """Give the metadata as names and values, without the fragments."""
    yield "ledger", str(number)
    yield "state", _state(ledger)
    yield "quorums", f"{_quorums(ledger)}, digest {ledger.digest.value}"
    yield "password", "yes" if ledger.password else "none"
    yield "owner", ledger.owner or "none"
    yield "created", _when(ledger.created_ms) or "not known"
    for key, value in ledger.custom:
        yield "custom", _printable(f"{key}={value.decode(errors='backslashreplace')}")


def line(number: LedgerId, ledger: LedgerMetadata) -> str:
    """Give the main facts of the metadata on one line."""
    told = f"ledger {number}: {_state(ledger)}; {_quorums(ledger)}, {len(ledger.bookies)} bookies"
    return f"{told}; of {ledger.owner}" if ledger.owner else told


def listed(number: LedgerId, ledger: LedgerMetadata | None, *, as_json: bool) -> str:
    """Give a line of a list; without metadata the number alone."""
    if as_json:
        found = {"ledger": number} if ledger is None else plain(number, ledger)
        return json.dumps(found, sort_keys=True)
    return str(number) if ledger is None else line(number, ledger)


def log_of(ledger: LedgerMetadata) -> str | None:
    """Give the log that a ledger says it is of; None: it says none."""
    stamps = (value for key, value in ledger.custom if key == STAMP_KEY)
    return next((_printable(one.decode(errors="backslashreplace")) for one in stamps), None)


def of_logs(ledgers: Mapping[LedgerId, LedgerMetadata]) -> str | None:
    """Say which of some ledgers are of logs; None: none is."""
    named = {number: log_of(found) for number, found in ledgers.items()}
    said = [f"ledger {number} is of log {log}" for number, log in named.items() if log is not None]
    return ", ".join(said) or None


def entries(count: int) -> str:
    """Count entries in words."""
    return "1 entry" if count == 1 else f"{count} entries"


def deleted_so_far(numbers: Sequence[LedgerId], done: int, *, unknown: bool) -> str:
    """Say how far a deletion came, and how to go on.

    ``unknown``: it is not known whether the next ledger, ``numbers[done]``, is deleted.
    """
    if done == len(numbers):
        return f"all {done} are deleted"
    doubt = f"; ledger {numbers[done]} may be, too" if unknown else ""
    return f"{done} of {len(numbers)} are deleted{doubt}; go on: {delete_command(numbers[done:])}"


def delete_command(numbers: Iterable[LedgerId]) -> str:
    """Give the command that deletes these ledgers."""
    return f"`zonekeeper ledger delete {' '.join(map(str, numbers))}`"


def _printable(text: str) -> str:
    """Spell out characters that would move a terminal's cursor or fake a line of the answer."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def _state(ledger: LedgerMetadata) -> str:
    if not ledger.is_closed:
        return ledger.state.value
    if ledger.last_entry == NO_ENTRY:
        return "CLOSED without entries"
    return f"CLOSED at entry {ledger.last_entry}, {ledger.length} bytes"


def _quorums(ledger: LedgerMetadata) -> str:
    return f"{ledger.ensemble_size}/{ledger.write_quorum}/{ledger.ack_quorum}"


def _when(wall_ms: int | None) -> str | None:
    if wall_ms is None:
        return None
    return datetime.fromtimestamp(wall_ms / 1000, UTC).isoformat(timespec="seconds")
