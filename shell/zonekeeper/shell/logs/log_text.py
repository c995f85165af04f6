"""A log as people and programs read it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from zonekeeper.metadata.formats.log_record import LogLedger, LogRecord, LogRules
from zonekeeper.placement.base import units
from zonekeeper.shell.logs import log_options, message_io


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenLog:
    """What a command has seen of a log."""

    name: str
    record: LogRecord
    #: The sequence behind the last message that readers see; None: bookies did not say it.
    end: int | None
    #: In order, without those that were deleted already.
    ledgers: Sequence[LogLedger]

    @property
    def messages(self) -> int | None:
        """How many messages the log keeps; None: unknown."""
        return None if self.end is None else self.end - self.record.start_sequence


def state(record: LogRecord) -> str:
    """Say in a word how a log stands.

    ``open``: a writer has it, or had it and did not close it. Only bookies know which.
    """
    if record.deleting:
        return "deleting"
    if record.unended:
        return "open"
    return "closed" if record.epoch else "new"


def plain(seen: SeenLog) -> dict[str, object]:
    """Give a log as plain data."""
    record = seen.record
    return {
        **listed_plain(seen.name, record),
        "end": seen.end,
        "messages": seen.messages,
        "pages": record.next_page - record.first_page,
        "rules": _plain_rules(record.rules),
        "ledgers": [_plain_ledger(one) for one in seen.ledgers],
    }


def listed_plain(name: str, record: LogRecord) -> dict[str, object]:
    """Give what the record alone says of a log as plain data."""
    writer = record.writer
    return {
        "log": name,
        "id": record.id,
        "state": state(record),
        "created": message_io.when(record.created_ms),
        "epoch": record.epoch,
        "writer": None
        if writer is None
        else {"zone": writer.zone, "address": writer.address or None},
        "start": None if record.start is None else str(record.start),
        "startSequence": record.start_sequence,
    }


def listed(name: str, record: LogRecord) -> str:
    """Give the main facts of a log on one line."""
    kept = f"from message {record.start_sequence}" if record.start_sequence else "from the first"
    return f"{name}: {state(record)}, epoch {record.epoch}, {kept}, {ledgers_text(record)}"


def ledgers_text(record: LogRecord) -> str:
    """Count the newest ledgers and the pages."""
    pages = record.next_page - record.first_page
    older = f" and {counted(pages, 'page')} of older ones" if pages else ""
    return f"{counted(len(record.ledgers), 'ledger')}{older}"


def rows(seen: SeenLog) -> Iterator[tuple[str, str]]:
    """Give a log as names and values, without its ledgers."""
    record = seen.record
    start = "the first message" if record.start is None else f"message {record.start}"
    yield "log", seen.name
    yield "id", f"{record.id}, made {message_io.when(record.created_ms)}"
    yield "state", _state_text(record)
    yield "writer", _writer_text(record)
    yield "start", f"{start}, sequence {record.start_sequence}"
    if seen.end is None:
        yield "end", "unknown: the bookies of the open ledger gave no answer"
    else:
        yield "end", f"sequence {seen.end}: {counted(seen.messages or 0, 'message')} kept"
    yield "ledgers", ledgers_text(record)
    yield "rules", " ".join(_rule_rows(record.rules))


def ledger_row(one: LogLedger) -> tuple[str, ...]:
    """Give a row of the table of ledgers."""
    if one.end is None:
        sequence = "?" if one.sequence is None else str(one.sequence)
        return str(one.id), str(one.epoch), sequence, "open", "", "", ""
    return (
        str(one.id),
        str(one.epoch),
        str(one.sequence),
        str(one.end.messages),
        str(one.end.last_entry + 1),
        str(one.end.size_bytes),
        message_io.when(one.end.last_ms) if one.end.messages else "",
    )


def counted(count: int, what: str) -> str:
    """Count things in words."""
    return f"1 {what}" if count == 1 else f"{count} {what}s"


def _state_text(record: LogRecord) -> str:
    return {
        "deleting": "deleting: `zonekeeper log delete`, given again, goes on",
        "open": "open: a writer has it, or had it and did not close it",
        "closed": "closed: the last writer has closed it",
        "new": "new: no writer ever had it",
    }[state(record)]


def _writer_text(record: LogRecord) -> str:
    if record.writer is None:
        return "none ever"
    zone = "" if record.writer.zone is None else f", zone {record.writer.zone}"
    address = "" if not record.writer.address else f", address {record.writer.address}"
    return message_io.printable(f"epoch {record.epoch}{zone}{address}".encode())


def _plain_ledger(one: LogLedger) -> dict[str, object]:
    end = one.end
    return {
        "ledger": one.id,
        "epoch": one.epoch,
        "sequence": one.sequence,
        "entries": None if end is None else end.last_entry + 1,
        "messages": None if end is None else end.messages,
        "bytes": None if end is None else end.size_bytes,
        "firstMs": None if end is None else end.first_ms,
        "lastMs": None if end is None else end.last_ms,
    }


def _plain_rules(rules: LogRules) -> dict[str, object]:
    return {
        "quorums": None if rules.quorums is None else str(rules.quorums),
        "minimum": None if rules.minimum is None else str(rules.minimum),
        "downgradeAfterMs": rules.downgrade_after_ms,
        "downgradeLagMs": rules.downgrade_lag_ms,
        "downgradeLagBytes": rules.downgrade_lag_bytes,
        "rotateBytes": rules.rotate_bytes,
        "rotateMessages": rules.rotate_messages,
        "rotateAfterMs": rules.rotate_after_ms,
        "keepMs": rules.keep_ms,
        "keepBytes": rules.keep_bytes,
        "cursorWaitMs": rules.cursor_wait_ms,
        "cursorWaitBytes": rules.cursor_wait_bytes,
    }


def _rule_rows(rules: LogRules) -> Iterator[str]:
    """Give each rule as its option."""
    for field, option in log_options.RULE_OPTIONS.items():
        value = getattr(rules, field)
        if field.endswith("_ms") and value is not None:
            value = units.duration_text(value)
        if value is not None:
            yield f"--{option} {value}"
