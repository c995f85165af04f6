"""Messages of a log as bytes for people and programs.

As text a message is its payload, byte for byte, and a newline behind it (``raw``: nothing). With
``is_long`` it is a line of sequence, id, time, key and payload, where bytes that are no text are
spelled out, so that no payload moves a terminal's cursor. As JSON it is an object on a line, with
key, payload and the values of headers in base64, because they may be any bytes.
"""

import asyncio
import base64
import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import BinaryIO

from zonekeeper.log.api.log_reader import ReadMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageForm:
    """How messages are written."""

    as_json: bool = False
    is_long: bool = False
    raw: bool = False

    def of(self, one: ReadMessage, wall_ms: int) -> bytes:
        """Give the bytes of a message whose batch has a time."""
        if self.as_json:
            return json.dumps(plain(one, wall_ms), sort_keys=True).encode() + b"\n"
        if self.is_long:
            return _line(one, wall_ms).encode(errors="backslashreplace") + b"\n"
        return one.message.payload + (b"" if self.raw else b"\n")


class MessageGiver:
    """Writes messages, many at a time."""

    def __init__(self, out: BinaryIO, form: MessageForm) -> None:
        self._out = out
        self._form = form

    async def give(self, many: Iterable[ReadMessage], wall_ms: int) -> None:
        """Write messages of one batch; a slow reader of the output holds up nothing else."""
        await asyncio.to_thread(self._write, b"".join(self._form.of(one, wall_ms) for one in many))

    def _write(self, data: bytes) -> None:
        self._out.write(data)
        self._out.flush()


def plain(one: ReadMessage, wall_ms: int) -> dict[str, object]:
    """Give a message as plain data."""
    message = one.message
    return {
        "id": str(one.id),
        "sequence": one.sequence,
        "timeMs": wall_ms,
        "key": None if message.key is None else _base64(message.key),
        "headers": [[name, _base64(value)] for name, value in message.headers],
        "payload": _base64(message.payload),
    }


def printable(raw: bytes) -> str:
    """Give bytes as text on one line, and spell out what is no text or is not printable."""
    text = raw.decode(errors="backslashreplace")
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def when(wall_ms: int) -> str:
    """Give a time of a log's messages."""
    return datetime.fromtimestamp(wall_ms / 1_000, UTC).isoformat(timespec="milliseconds")


def _line(one: ReadMessage, wall_ms: int) -> str:
    message = one.message
    key = "-" if message.key is None else f"key={printable(message.key)}"
    headers = "".join(f" {name}={printable(value)}" for name, value in message.headers)
    payload = printable(message.payload)
    return f"{one.sequence} {one.id} {when(wall_ms)} {key}{headers}  {payload}"


def _base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()
