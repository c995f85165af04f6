"""What the readers of one client have read, by log: for people, and for an application's metrics.

A number that is not one of now only grows. A log has a number once one of its readers has read.
The lag of a cursor is that of the last time that it was asked for: asking costs a request to
bookies.
"""

from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

from zonekeeper.wire.formats import exposition
from zonekeeper.wire.formats.exposition import Family, numbers_by


class OfLog(NamedTuple):
    """The labels of a number of a log."""

    log: str


class OfCursor(NamedTuple):
    """The labels of a number of a cursor."""

    log: str
    cursor: str


@dataclass(slots=True)
class LogReaderFigures:
    """The numbers of all readers of one client."""

    messages: Counter[OfLog] = numbers_by("Messages that readers of logs gave.")
    bytes: Counter[OfLog] = numbers_by("Bytes of the entries that these messages stood in.")
    trimmed: Counter[OfLog] = numbers_by("How often a reader was behind the start of its log.")
    lag_now: Counter[OfCursor] = numbers_by(
        "Confirmed messages that a cursor had not passed when its lag was last asked for."
    )


def families(figures: LogReaderFigures) -> list[Family]:
    """Give the numbers as metrics, for ``exposition.render``."""
    return exposition.counted("zonekeeper_log_reader", figures, of_now=False)
