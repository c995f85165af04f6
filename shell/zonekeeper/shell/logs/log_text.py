"""A log as people and programs read it."""

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from zonekeeper.metadata.formats.log_record import LogLedger, LogRecord, LogRules
from zonekeeper.metadata.logs.log_cursor import CursorMark
from zonekeeper.placement.base import units
from zonekeeper.placement.base.ids import NO_ENTRY, EntryId, LedgerId
from zonekeeper.shell.logs import log_options, message_io


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenLog:
    """What a command has seen of a log."""

    name: str
    record: LogRecord
    #: The sequence behind the last message that readers see; None: unknown.
    end: int | None
    #: In order, without those that were deleted already.
    ledgers: Sequence[LogLedger]
    #: The last confirmed entry of each ledger without an end; not there: unknown.
    confirmed: Mapping[LedgerId, EntryId] = dataclasses.field(default_factory=dict)
    #: A ledger without an end has another password, so no bookie was asked about it.
    wrong_password: bool = False
    #: Ledgers without an end that another program deleted.
    deleted: Collection[LedgerId] = ()
    #: Ledgers that are marked as under-replicated.
    marked: Collection[LedgerId] = ()
    cursors: Mapping[str, CursorMark] = dataclasses.field(default_factory=dict)
    #: Cursors without which retention would trim more now.
    waited_for: Collection[str] = ()

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
        "wrongPassword": seen.wrong_password,
        "deletedLedgers": sorted(seen.deleted),
        "pages": record.next_page - record.first_page,
        "rules": _plain_rules(record.rules),
        "pendingLedgers": [one.id for one in record.unended],
        "cursors": [
            {**_plain_cursor(name, mark, seen.end), "waitedFor": name in seen.waited_for}
            for name, mark in sorted(seen.cursors.items())
        ],
        "ledgers": [_plain_ledger(seen, one) for one in seen.ledgers],
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
        yield "end", _unknown_end(seen)
    else:
        yield "end", f"sequence {seen.end}: {counted(seen.messages or 0, 'message')} kept"
    yield "ledgers", ledgers_text(record)
    if record.unended:
        yield "pending", "; ".join(_pending_text(seen, one) for one in record.unended)
    if seen.marked:
        yield "marked", f"{counted(len(seen.marked), 'ledger')} under-replicated"
    for name, mark in sorted(seen.cursors.items()):
        yield "cursor", _cursor_text(seen, name, mark)
    yield "rules", " ".join(_rule_rows(record.rules))


LEDGER_TITLES: Final = (
    *("ledger", "epoch", "sequence", "messages", "entries", "bytes", "last", "copies"),
)


def ledger_row(seen: SeenLog, one: LogLedger) -> tuple[str, ...]:
    """Give a row of the table of ledgers."""
    copies = "lacking" if one.id in seen.marked else ""
    if one.end is None:
        sequence = "?" if one.sequence is None else str(one.sequence)
        confirmed = seen.confirmed.get(one.id)
        entries = "" if confirmed is None else f"{confirmed + 1}+"
        return str(one.id), str(one.epoch), sequence, "open", entries, "", "", copies
    return (
        str(one.id),
        str(one.epoch),
        str(one.sequence),
        str(one.end.messages),
        str(one.end.last_entry + 1),
        str(one.end.size_bytes),
        message_io.when(one.end.last_ms) if one.end.messages else "",
        copies,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenCursors:
    """What a command has seen of the cursors of a log. ``end`` None: it is unknown."""

    name: str
    end: int | None
    marks: Mapping[str, CursorMark]
    now_ms: int


CURSOR_TITLES: Final = ("cursor", "message", "lag", "moved before", "epoch", "consumer")


def plain_cursors(seen: SeenCursors) -> dict[str, object]:
    """Give the cursors of a log as plain data."""
    every = [
        {**_plain_cursor(name, mark, seen.end), "ageMs": max(0, seen.now_ms - mark.moved_ms)}
        for name, mark in sorted(seen.marks.items())
    ]
    return {"log": seen.name, "end": seen.end, "cursors": every}


def cursor_rows(seen: SeenCursors) -> Iterator[tuple[str, ...]]:
    """Give the rows of the table of cursors."""
    for name, mark in sorted(seen.marks.items()):
        lag = _lag(mark, seen.end)
        age_ms = max(0, seen.now_ms - mark.moved_ms)
        yield (
            name,
            str(mark.position.sequence),
            "?" if lag is None else str(lag),
            units.duration_text(age_ms // 1_000 * 1_000),
            str(mark.epoch),
            message_io.printable(mark.address.encode()),
        )


def _plain_cursor(name: str, mark: CursorMark, end: int | None) -> dict[str, object]:
    return {
        "cursor": name,
        "sequence": mark.position.sequence,
        "lag": _lag(mark, end),
        "epoch": mark.epoch,
        "address": mark.address or None,
        "created": message_io.when(mark.created_ms),
        "moved": message_io.when(mark.moved_ms),
    }


def _lag(mark: CursorMark, end: int | None) -> int | None:
    return None if end is None else max(0, end - mark.position.sequence)


def _cursor_text(seen: SeenLog, name: str, mark: CursorMark) -> str:
    lag = _lag(mark, seen.end)
    behind = "lag unknown" if lag is None else f"lag {lag}"
    waits = "; retention waits for it" if name in seen.waited_for else ""
    return f"{name} at message {mark.position.sequence}, {behind}{waits}"


def _unknown_end(seen: SeenLog) -> str:
    if seen.record.deleting:
        return "none: the log is being deleted"
    if seen.wrong_password:
        return "unknown: the open ledger has another password"
    if seen.deleted:
        gone = ", ".join(str(one) for one in sorted(seen.deleted))
        return f"unknown: another program deleted ledger {gone}, so what is in it is lost"
    return "unknown: the bookies of the open ledger gave no answer"


def _pending_text(seen: SeenLog, one: LogLedger) -> str:
    confirmed = seen.confirmed.get(one.id)
    if confirmed is None and seen.record.deleting:
        return f"ledger {one.id} has no end"
    if one.id in seen.deleted:
        return f"ledger {one.id} has no end, and was deleted by another program"
    if confirmed is None and seen.wrong_password:
        return f"ledger {one.id} has no end, and its entries are unknown without its password"
    if confirmed is None:
        return f"ledger {one.id} has no end, and its bookies gave no answer"
    if confirmed == NO_ENTRY:
        return f"ledger {one.id} has no end, and nothing in it is confirmed"
    return f"ledger {one.id} has no end, and is confirmed up to entry {confirmed}"


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


def _plain_ledger(seen: SeenLog, one: LogLedger) -> dict[str, object]:
    end = one.end
    confirmed = seen.confirmed.get(one.id) if end is None else end.last_entry
    return {
        "ledger": one.id,
        "epoch": one.epoch,
        "sequence": one.sequence,
        "entries": None if end is None else end.last_entry + 1,
        "lastConfirmed": None if confirmed in (None, NO_ENTRY) else confirmed,
        "underReplicated": one.id in seen.marked,
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
