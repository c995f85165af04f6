"""The cursor of a log: a consumer's named position, and the changes of it. Pure.

    {"address":"","at":"17:204:3","createdMs":…,"epoch":2,"log":"<32 digits>","movedMs":…,
     "sequence":900,"token":"…"}                          JSON (``records``)

``sequence`` is that of the message that the consumer reads next. Reading from ``at`` on gives that
message, perhaps with earlier ones before it: those are passed over by their sequences. ``at`` is
not written where it is None: the consumer reads from the log's start. Fields that this version does
not know are kept.

- To open a cursor raises its epoch, and names the consumer. Each change names epoch and token, and
  is refused once the cursor names others. So of two consumers with one name only the second moves
  the cursor, and the first hears it.
- A move goes forward. Only ``sought`` goes back.
- A cursor belongs to one incarnation of its log.

Each change recognises its own work, so it may be made again after an answer was lost.
"""

import json
import re
from dataclasses import dataclass, replace
from typing import Final

from zonekeeper.metadata.formats import message_ids, records
from zonekeeper.metadata.formats.log_record import ADDRESS_LENGTH_MAX, OtherIncarnation
from zonekeeper.metadata.formats.malformed import Flaw, MalformedError
from zonekeeper.metadata.formats.message_ids import BadMessageIdError, MessageId
from zonekeeper.placement.base.fields import Plain
from zonekeeper.placement.base.troubles import Refusal, Trouble

CURSOR_NAME_LENGTH_MAX: Final = 100
#: Of one log. A node has at most 1,000 children, and the folders of pages are children, too.
CURSORS_MAX: Final = 500

_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
_ID: Final = re.compile("[0-9a-f]{32}")
_NODE: Final = "cursor."
_KNOWN: Final = frozenset(
    {"address", "at", "createdMs", "epoch", "log", "movedMs", "sequence", "token"}
)


class BadCursorNameError(Refusal, ValueError):
    """The text cannot be the name of a cursor."""


class CursorTaken(Trouble):
    """Another consumer has opened the cursor; nothing was changed, nor is by this one again."""


class BadConsumerError(Refusal, ValueError):
    """What the consumer says of itself cannot stand with a cursor; nothing was changed."""


class CursorGoesBack(Refusal, ValueError):
    """A move goes forward only; nothing was changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CursorPosition:
    """Where a cursor stands."""

    #: The sequence of the message that is read next.
    sequence: int
    #: Where the reading of that message may begin; None: at the log's start.
    at: MessageId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CursorMark:
    """The cursor, as it stands with the log."""

    #: The id of the log's incarnation.
    log_id: str
    created_ms: int
    epoch: int
    #: The consumer that opened the cursor last.
    token: str
    #: What the consumer says of how it is reached; the cursor gives it no meaning.
    address: str = ""
    position: CursorPosition
    #: Wall time of the last change.
    moved_ms: int
    #: The fields that this version does not know, as JSON; they are written back unchanged.
    unknown: str = "{}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CursorClaim:
    """A consumer's right to move a cursor."""

    log_id: str
    epoch: int
    token: str


def check_name(name: str) -> None:
    """Refuse a text that cannot be the name of a cursor."""
    if not _NAME.fullmatch(name) or len(name) > CURSOR_NAME_LENGTH_MAX:
        raise BadCursorNameError(
            f"{name[:CURSOR_NAME_LENGTH_MAX]!r} cannot be a cursor's name: it has letters, digits "
            "and . _ -, begins with a letter, a digit or _, and has at most "
            f"{CURSOR_NAME_LENGTH_MAX} characters"
        )


def node(name: str) -> str:
    """Give the path of a cursor below its log's record; raises ``BadCursorNameError``."""
    check_name(name)
    return f"/{_NODE}{name}"


def name_of(child: str) -> str | None:
    """Give the cursor that a child of a log's record is; None: it is something else."""
    return child.removeprefix(_NODE) if child.startswith(_NODE) else None


def opened(before: CursorMark | None, wanted: CursorMark) -> CursorMark:
    """Give a cursor to a consumer. ``wanted`` is what a new cursor would be, with epoch 1."""
    if len(wanted.address) > ADDRESS_LENGTH_MAX:
        raise BadConsumerError(
            f"an address of {len(wanted.address)} characters; the limit is {ADDRESS_LENGTH_MAX}"
        )
    if before is None:
        return wanted
    if before.log_id != wanted.log_id:
        raise _other(before, wanted.log_id)
    if before.token == wanted.token:
        return before
    return replace(
        before,
        epoch=before.epoch + 1,
        token=wanted.token,
        address=wanted.address,
        moved_ms=wanted.moved_ms,
    )


def moved(before: CursorMark, claim: CursorClaim, to: CursorPosition, now_ms: int) -> CursorMark:
    """Move a cursor forward."""
    _check_claim(before, claim)
    if to.sequence < before.position.sequence:
        raise CursorGoesBack(
            f"the cursor is at message {before.position.sequence}, and {to.sequence} is behind it: "
            "a move goes forward; seek to go back"
        )
    return _at(before, to, now_ms)


def sought(before: CursorMark, claim: CursorClaim, to: CursorPosition, now_ms: int) -> CursorMark:
    """Set a cursor anywhere."""
    _check_claim(before, claim)
    return _at(before, to, now_ms)


def render(mark: CursorMark, instance: str) -> bytes:
    """Write a cursor."""
    plain: dict[str, Plain] = json.loads(mark.unknown)
    plain |= {
        "address": mark.address,
        "createdMs": mark.created_ms,
        "epoch": mark.epoch,
        "log": mark.log_id,
        "movedMs": mark.moved_ms,
        "sequence": mark.position.sequence,
        "token": mark.token,
    }
    if mark.position.at is not None:
        plain["at"] = str(mark.position.at)
    return records.render(plain, instance)


def parse(raw: bytes, instance: str) -> CursorMark:
    """Read a cursor; raises ``UnreadableError`` or ``ForeignRecordError``."""
    data = records.parse(raw, instance)
    log_id, address = records.text(data, "log"), records.text(data, "address")
    epoch = records.number(data, "epoch")
    if not _ID.fullmatch(log_id):
        raise MalformedError(Flaw.BAD_TEXT, f"{log_id[:40]!r} is not the id of a log")
    if epoch < 1:
        raise MalformedError(Flaw.OUT_OF_RANGE, "the epoch of a cursor is a number from 1")
    if len(address) > ADDRESS_LENGTH_MAX:
        raise MalformedError(Flaw.TOO_LARGE, f"an address of {len(address)} characters")
    try:
        at = message_ids.parse(records.text(data, "at")) if "at" in data else None
    except BadMessageIdError as error:
        raise MalformedError(Flaw.BAD_TEXT, str(error)) from error
    return CursorMark(
        log_id=log_id,
        created_ms=records.number(data, "createdMs"),
        epoch=epoch,
        token=records.text(data, "token"),
        address=address,
        position=CursorPosition(sequence=records.number(data, "sequence"), at=at),
        moved_ms=records.number(data, "movedMs"),
        unknown=records.unknown(data, _KNOWN),
    )


def _at(before: CursorMark, to: CursorPosition, now_ms: int) -> CursorMark:
    if before.position == to:
        return before
    return replace(before, position=to, moved_ms=max(now_ms, before.moved_ms))


def _check_claim(before: CursorMark, claim: CursorClaim) -> None:
    if before.log_id != claim.log_id:
        raise _other(before, claim.log_id)
    if (before.epoch, before.token) != (claim.epoch, claim.token):
        raise CursorTaken(
            f"the cursor is at epoch {before.epoch}: another consumer has opened it, and stands at "
            f"message {before.position.sequence}; this one changes nothing more; to take the "
            "cursor back, open it again"
        )


def _other(before: CursorMark, log_id: str) -> OtherIncarnation:
    return OtherIncarnation(
        f"the cursor is one of log {before.log_id}, and no longer of {log_id}: the log was "
        "deleted, and made anew; nothing was changed; open the cursor again"
    )
