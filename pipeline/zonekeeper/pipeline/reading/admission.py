"""The offsets of a stream, and how far a micro-batch goes. Pure.

    {"at": "17:204:3", "log": "<32 digits>", "sequence": 900, "version": 1}

``sequence`` is that of the message that is read next. Reading from ``at`` on gives that message;
``at`` is null where reading begins at the log's beginning. ``log`` is the id of the incarnation. An
offset has no secret and no name. It stands in the checkpoint of the query for as long as that is
kept: a newer version is refused, and so is an offset of another log.

Between two offsets there are always the same messages. So Spark may ask for them again.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from zonekeeper.log.base.errors import LogTrimmed
from zonekeeper.metadata.formats import message_ids
from zonekeeper.metadata.formats.log_record import LogRecord, OtherIncarnation
from zonekeeper.metadata.formats.message_ids import LONG_MAX, BadMessageIdError, MessageId
from zonekeeper.pipeline.reading.slices import LogSpan
from zonekeeper.pipeline.reading.wanted import OneLog, OnTrimmed
from zonekeeper.placement.base.troubles import Refusal

VERSION: Final = 1

_FIELDS: Final = frozenset({"at", "log", "sequence", "version"})
_SHOWN_MAX: Final = 200


class BadOffsetError(Refusal):
    """The checkpoint has no offset of this source, or one of a newer version; nothing was read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOffset:
    """A place in one incarnation of a log."""

    log_id: str
    at: MessageId | None
    sequence: int


def render(offset: StreamOffset) -> dict[str, object]:
    """Give an offset as Spark keeps it in the checkpoint."""
    return {
        "at": None if offset.at is None else str(offset.at),
        "log": offset.log_id,
        "sequence": offset.sequence,
        "version": VERSION,
    }


def parse(plain: Mapping[str, object]) -> StreamOffset:
    """Read an offset of a checkpoint; raises ``BadOffsetError``."""
    version = plain.get("version")
    if type(version) is int and version > VERSION:
        raise BadOffsetError(
            f"the checkpoint has an offset of version {version}, and this program reads {VERSION}: "
            "use a newer zonekeeper, or another checkpointLocation"
        )
    at, log_id, sequence = plain.get("at"), plain.get("log"), plain.get("sequence")
    if (
        plain.keys() != _FIELDS
        or version != VERSION
        or not isinstance(log_id, str)
        or type(sequence) is not int
        or not 0 <= sequence <= LONG_MAX
        or not isinstance(at, str | None)
    ):
        raise _foreign(plain)
    try:
        place = None if at is None else message_ids.parse(at)
    except BadMessageIdError as error:
        raise _foreign(plain) from error
    return StreamOffset(log_id=log_id, at=place, sequence=sequence)


def _foreign(plain: Mapping[str, object]) -> BadOffsetError:
    return BadOffsetError(
        f"the checkpoint has the offset {str(plain)[:_SHOWN_MAX]}, which is none of a log: it is "
        "that of another source; give this query a checkpointLocation of its own"
    )


def check_log(offset: StreamOffset, name: str, record: LogRecord) -> None:
    """Refuse an offset of another log, or of an earlier incarnation of this one."""
    if offset.log_id != record.id:
        raise OtherIncarnation(
            f"the checkpoint is of the log with id {offset.log_id}, and log {name} has id "
            f"{record.id}: it is another log, or it was deleted and made anew; nothing was read; "
            "give the log of the checkpoint, or another checkpointLocation"
        )


def begun(offset: StreamOffset, wanted: OneLog, record: LogRecord) -> StreamOffset:
    """Give the place from which on the log still has what an offset asks for.

    Raises ``LogTrimmed`` if that is a later one, unless the options say to go on there.
    """
    if offset.sequence >= record.start_sequence:
        return offset
    if wanted.on_trimmed is OnTrimmed.EARLIEST:
        return StreamOffset(log_id=record.id, at=record.start, sequence=record.start_sequence)
    raise LogTrimmed(
        f"log {wanted.name}: the query goes on at message {offset.sequence}, and those before "
        f"{record.start_sequence} were trimmed; nothing was passed over: set onTrimmed to "
        "'earliest' to go on at the earliest that is kept, and give the query a cursor so that "
        "retention waits for it"
    )


def span(wanted: OneLog, start: StreamOffset, end: StreamOffset, record: LogRecord) -> LogSpan:
    """Give the messages between two offsets that the log still has."""
    check_log(start, wanted.name, record)
    check_log(end, wanted.name, record)
    first = begun(start, wanted, record)
    return LogSpan(
        name=wanted.name,
        log_id=record.id,
        start=first.at,
        first=min(first.sequence, end.sequence),
        stop=end.at,
        end=end.sequence,
    )


def least(*limits: int | None) -> int | None:
    """Give the lowest of some limits; None: there is none."""
    return min((limit for limit in limits if limit is not None), default=None)


def by_rows(first: int, end: int, rows: int | None) -> int:
    """Give the sequence at which a micro-batch ends that has at most so many rows."""
    return end if rows is None else min(end, first + rows)
