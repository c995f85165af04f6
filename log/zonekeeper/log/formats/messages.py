"""A message of a log, and its limits. Pure.

A message has a payload, and may have a key and headers. A header is a pair of a name and a value;
headers keep their order, and a name may stand there twice. No key and an empty key are different.
"""

from dataclasses import dataclass
from typing import Final, TypeAlias

from zonekeeper.placement.base.troubles import Refusal

HEADERS_MAX: Final = 1_000
HEADER_NAME_BYTES_MAX: Final = 1_000

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


def header_names(message: LogMessage) -> list[bytes]:
    """Give the names of the headers as they are stored; raises ``BadMessageError``."""
    if len(message.headers) > HEADERS_MAX:
        raise BadMessageError(
            f"a message with {len(message.headers)} headers; the limit is {HEADERS_MAX}"
        )
    names = []
    for name, _ in message.headers:
        try:
            raw = name.encode()
        except UnicodeEncodeError as error:
            raise BadMessageError(
                f"the name {name!r} of a header cannot be written as UTF-8"
            ) from error
        if len(raw) > HEADER_NAME_BYTES_MAX:
            raise BadMessageError(
                f"the name of a header has {len(raw)} bytes; the limit is {HEADER_NAME_BYTES_MAX}"
            )
        names.append(raw)
    return names
