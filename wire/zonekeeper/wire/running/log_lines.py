"""The lines of a process's log: one record makes one line, as text or as JSON.

::

    2026-11-23T09:15:02.118Z WARNING zonekeeper.wire.running.readiness not ready: registered: …

    {"time": "2026-11-23T09:15:02.118Z", "level": "warning", "process": "bookie",
     "bookie": "bk-a-0", "component": "wire", "logger": "zonekeeper.wire.running.readiness",
     "event": "not ready: registered: …"}

The event is the same text in both forms. The JSON form has the facts of the event as fields of
their own, if the code gives them (``extra={"ledger": 7}``). Only the names in ``FIELDS`` become
fields, so nothing that a library attaches to its records is written. No field is a secret.

A line never ends inside a record: in the text form a character that cannot be printed is escaped,
also in the traceback of an error. So text that a peer sent cannot forge a line.
"""

import json
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

#: The names that may stand in ``extra``, and what each is. ``docs/logs.md`` shows this table.
FIELDS: Final[Mapping[str, str]] = {
    "bookie": "The id of the bookie that the event is about. Each line of a bookie has its own id.",
    "zone": "The zone that the event is about.",
    "ledger": "The id of the ledger.",
    "entry": "The id of the entry.",
    "address": "The address for clients.",
    "boot_epoch": "The number of the bookie's start.",
    "version": "The version of zonekeeper.",
    "data": "The data folder.",
    "journal": "The folder for arrival segments.",
    "ledger_dirs": "The folders for sorted segments.",
    "device": "The device that was looked at.",
    "used_share": "The used share of the device, from 0 to 1.",
    "mode": "The side that the bookie is registered on: `writable` or `read-only`.",
    "reason": "The reason, as a person or a condition gives it.",
    "missing": "The conditions of readiness that are not met, by name.",
    "alert": "The name of the alert; `zonekeeper runbook NAME` says what to do.",
    "severity": "The severity of the alert.",
    "role": "The role that the process leads: `auditor` or `zone watch`.",
    "trouble": "The kind of obstacle that a repair met.",
    "left": "The bookies that were replaced.",
    "joined": "The bookies that took their places.",
    "ledgers": "A number of ledgers.",
    "segments": "A number of segments.",
    "marked": "A number of ledgers that were marked for repair.",
    "size_bytes": "A number of bytes.",
    "free_bytes": "The free room on the device.",
    "total_bytes": "The size of the device.",
    "duration_ms": "How long it took, or lasted.",
    "same_session": "Is the session the one from before?",
    "peer": "The address of the other side of a connection.",
    "cause": "Why a connection of the socket lane ended, as its metric says it.",
    "principal": "The role and the name of the caller, by its certificate, or `nobody`.",
    "operation": "The operation that was asked for, as the table of rights names it.",
    "outcome": "The outcome: `done`, `refused`, `warned`, `cut off`, or the name of an error.",
    "suppressed": "So many lines of this kind were left out.",
}


def shown(field: str) -> str:
    """Spell a field's name as it stands in JSON, like all our JSON: ``bootEpoch``."""
    first, *rest = field.split("_")
    return first + "".join(map(str.capitalize, rest))


def when(created_s: float) -> str:
    """Spell a wall time as RFC 3339, in UTC, with milliseconds."""
    at = datetime.fromtimestamp(created_s, UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def one_line(text: str) -> str:
    """Escape the characters of a text that cannot be printed."""
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode() for one in text
    )


class TextLines(logging.Formatter):
    """Writes a record as a line of text."""

    def format(self, record: logging.LogRecord) -> str:
        """Give the line."""
        text = record.getMessage()
        if record.exc_info and record.exc_info[0] is not None:
            text = f"{text}\n{self.formatException(record.exc_info)}"
        return f"{when(record.created)} {record.levelname} {record.name} {one_line(text)}"


class JsonLines(logging.Formatter):
    """Writes a record as one JSON object; ``process`` stands in every line."""

    def __init__(self, process: Mapping[str, str]) -> None:
        super().__init__()
        self._process = dict(process)

    def format(self, record: logging.LogRecord) -> str:
        """Give the line."""
        line: dict[str, object] = {
            "time": when(record.created),
            "level": record.levelname.lower(),
            **self._process,
            "component": _component(record.name),
            "logger": record.name,
            "event": record.getMessage(),
        }
        given = vars(record)
        line |= {shown(name): given[name] for name in FIELDS if name in given}
        if record.exc_info and record.exc_info[0] is not None:
            kind, error, _ = record.exc_info
            line["error"] = {
                "type": kind.__name__,
                "text": str(error),
                "trace": self.formatException(record.exc_info),
            }
        return json.dumps(line, default=str)


def _component(logger: str) -> str:
    """Give the component of a logger: the part below ``zonekeeper``, or the library."""
    first, *rest = logger.split(".")
    return rest[0] if first == "zonekeeper" and rest else first
