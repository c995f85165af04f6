"""A place in a log as a person writes it: ``earliest``, ``latest``, an id, a sequence, a time.

The forms are told apart by how they look: ``17:204:3`` is the id of a message, ``204`` a sequence,
and ``2026-11-27T03:00:00Z`` a time. A time without an offset is UTC.
"""

import enum
import re
from dataclasses import dataclass
from typing import Final, TypeAlias

import click

from zonekeeper.log.api import moments
from zonekeeper.log.api.log_reader import LogReader
from zonekeeper.metadata.commands.exits import RefusedCommand
from zonekeeper.metadata.formats import message_ids
from zonekeeper.metadata.formats.message_ids import LONG_MAX, BadMessageIdError, MessageId

_SEQUENCE: Final = re.compile("[0-9]{1,19}")
_ID: Final = re.compile("[0-9]+:[0-9]+:[0-9]+")
_FORMS: Final = "17:204:3 (an id), 204 (a sequence), or 2026-11-27T03:00:00Z (a time)"


class LogEdge(enum.Enum):
    """An end of a log."""

    EARLIEST = "earliest"
    LATEST = "latest"


@dataclass(frozen=True, slots=True)
class WallTime:
    """A time, in milliseconds."""

    ms: int


LogPlace: TypeAlias = LogEdge | MessageId | int | WallTime


class PlaceParameter(click.ParamType[LogPlace]):
    """A place in a log; ``edges`` are the ends that may be named."""

    name = "PLACE"

    def __init__(self, *edges: LogEdge) -> None:
        self._edges = {edge.value: edge for edge in edges}

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> LogPlace:
        """Read the place; refuse a text of no form."""
        if isinstance(value, LogEdge | MessageId | int | WallTime):
            return value
        text = str(value)
        if text in self._edges:
            return self._edges[text]
        if _SEQUENCE.fullmatch(text) and int(text) <= LONG_MAX:
            return int(text)
        if _ID.fullmatch(text):
            try:
                return message_ids.parse(text)
            except BadMessageIdError as error:
                self.fail(str(error), param, ctx)
        wall_ms = moments.wall_ms(text)
        if wall_ms is None:
            words = "".join(f"{edge}, " for edge in self._edges)
            self.fail(f"{text[:80]!r} is no place in a log: write {words}{_FORMS}", param, ctx)
        return WallTime(wall_ms)


async def found_at(reader: LogReader, place: LogPlace) -> LogEdge | MessageId:
    """Look a place up: it is a message, or an end of the log."""
    match place:
        case LogEdge():
            return place
        case MessageId():
            await reader.sequence_of(place)  # a message of the log, or an error that says why not
            return place
        case WallTime(ms=wall_ms):
            found = await reader.at_time(wall_ms)
            if found is None or found == await reader.latest():  # all was trimmed
                return LogEdge.LATEST
            return found
        case int():
            if place == await reader.end():
                return LogEdge.LATEST  # the next message that comes
            return await reader.at_sequence(place)


async def first_of(reader: LogReader, place: LogPlace) -> MessageId | None:
    """Give the id from which on messages are read; None: from the log's beginning on."""
    match found := await found_at(reader, place):
        case LogEdge.EARLIEST:
            return await reader.earliest()
        case LogEdge.LATEST:
            return await reader.latest()
        case MessageId():
            return found


async def end_of(reader: LogReader, place: LogPlace | None) -> int | None:
    """Give the sequence behind the last message that is meant; None: the end of the log."""
    match place:
        case None | LogEdge():
            return None
        case MessageId():
            return await reader.sequence_of(place) + 1
        case WallTime(ms=wall_ms):
            found = await reader.at_time(wall_ms + 1)
            return None if found is None else await reader.sequence_of(found)
        case int():
            await reader.at_sequence(place)
            return place + 1


async def sequence_of(reader: LogReader, place: LogPlace) -> int:
    """Give the sequence of the message at a place, before which a log is trimmed."""
    match place:
        case MessageId():
            return await reader.sequence_of(place)
        case WallTime(ms=wall_ms):
            found = await reader.at_time(wall_ms)
            if found is None:
                raise RefusedCommand(
                    f"log {reader.name} has no message of that time or later, and keeps at least "
                    "one; nothing was trimmed"
                )
            return await reader.sequence_of(found)
        case int():
            return place
        case LogEdge():
            raise AssertionError("an end of a log is no place to trim to")
