"""A message of a log, and its limits. Pure.

A message has a payload, and may have a key and headers. A header is a pair of a name and a value;
headers keep their order, and a name may stand there twice. No key and an empty key are different.
"""

from dataclasses import dataclass
from typing import Final, TypeAlias

from zonekeeper.placement.base.troubles import Refusal

HEADERS_MAX: Final = 1_000
HEADER_NAME_BYTES_MAX: Final = 1_000

#: An error repeats so much of a wrong value.
_SHORT: Final = 40

#: A name, and a value.
MessageHeader: TypeAlias = tuple[str, bytes]


class BadMessageError(Refusal, ValueError):
    """The message breaks a limit; it was not appended, and nothing else is affected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogMessage:
    """One message."""

    payload: bytes
    key: bytes | None = None
    headers: tuple[MessageHeader, ...] = ()


def check_kinds(message: LogMessage) -> None:
    """Refuse a payload or a key that is not bytes: it would end the writer that sends it."""
    values: list[tuple[str, object]] = [("payload", message.payload)]
    if message.key is not None:
        values.append(("key", message.key))
    for what, value in values:
        if not isinstance(value, bytes):
            raise BadMessageError(
                f"the {what} of a message is {_short(value)}, of {type(value).__name__}: give bytes"
            )


def header_names(message: LogMessage) -> list[bytes]:
    """Give the names of the headers as they are stored; raises ``BadMessageError``."""
    if len(message.headers) > HEADERS_MAX:
        raise too_many_headers(len(message.headers))
    names = []
    for header in message.headers:
        name = _name(header)
        try:
            raw = name.encode()
        except UnicodeEncodeError as error:
            raise BadMessageError(
                f"the name {name!r} of a header cannot be written as UTF-8"
            ) from error
        _check_length(raw)
        names.append(raw)
    return names


def check_stored_name(raw: bytes) -> None:
    """Refuse the name of a header that did not come as a str, unless a reader would take it."""
    _check_length(raw)
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        raise BadMessageError(f"the name {_short(raw)} of a header is not UTF-8") from error


def too_many_headers(count: int) -> BadMessageError:
    """Give the error for a message with more than ``HEADERS_MAX`` headers."""
    return BadMessageError(f"a message with {count} headers; the limit is {HEADERS_MAX}")


def _check_length(raw: bytes) -> None:
    if len(raw) > HEADER_NAME_BYTES_MAX:
        raise BadMessageError(
            f"the name of a header has {len(raw)} bytes; the limit is {HEADER_NAME_BYTES_MAX}"
        )


def _name(header: object) -> str:
    match header:
        case (str(name), bytes()):
            return name
        case _:
            raise BadMessageError(
                f"a header of a message is {_short(header)}: give a pair of a str and bytes"
            )


def _short(value: object) -> str:
    return repr(value)[:_SHORT]
