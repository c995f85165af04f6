"""What the logs of one client count: for people, for tests, and for a page of metrics. Pure.

Names that end in ``_now`` say how it is; all others only grow. The writers of a client share their
numbers, so a process that writes 1,000 logs shows no more lines than one that writes one. Numbers
of readers are by log. A log has one once a reader has read it. The lag of a cursor is that of the
last time that it was asked for, because asking costs a request to bookies.

An application gives ``LogClient.figures.render()`` to the program that scrapes it.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from zonekeeper.wire.formats import exposition
from zonekeeper.wire.formats.exposition import Family, number, numbers_by


@dataclass(slots=True)
class LogWriterFigures:
    """The numbers of all writers."""

    open_now: int = number("Logs that this client has open for writing.")
    downgraded_now: int = number(
        "Logs open for writing whose newest ledger has only the minimum of quorums."
    )
    unsent_bytes_now: int = number("Bytes of appended messages that are not acknowledged.")
    messages_total: int = number("Messages that were acknowledged.")
    batches_total: int = number("Batches, each an entry, that were acknowledged.")
    bytes_total: int = number("Bytes of acknowledged messages, with keys, headers and lengths.")
    rotations_total: int = number("Ledgers that were rotated: the log goes on in the next one.")
    settlings_total: int = number(
        "Ledgers that failed or were fenced, after which the log's ledgers were settled."
    )
    takeovers_total: int = number(
        "Logs that were claimed, and whose last writer did not close them."
    )
    lost_total: int = number("Logs that another writer has claimed from this client.")
    laggards_total: int = number("Bookies that were given up because they lagged too far.")


class OfLog(NamedTuple):
    """The labels of a number of a log."""

    log: str


class OfCursor(NamedTuple):
    """The labels of a number of a cursor."""

    log: str
    cursor: str


@dataclass(slots=True)
class LogReaderFigures:
    """The numbers of all readers."""

    messages: Counter[OfLog] = numbers_by("Messages that readers of logs gave.")
    bytes: Counter[OfLog] = numbers_by("Bytes of the entries that these messages stood in.")
    trimmed: Counter[OfLog] = numbers_by("How often a reader was behind the start of its log.")
    lag_now: Counter[OfCursor] = numbers_by(
        "Confirmed messages that a cursor had not passed when its lag was last asked for."
    )


@dataclass(slots=True)
class LogFigures:
    """The numbers of one client."""

    writers: LogWriterFigures = field(default_factory=LogWriterFigures)
    readers: LogReaderFigures = field(default_factory=LogReaderFigures)

    def families(self) -> list[Family]:
        """Give all numbers, for a page that has others, too."""
        return [
            *exposition.counted("zonekeeper_log_writers", self.writers, of_now=False),
            *exposition.counted("zonekeeper_log_readers", self.readers, of_now=False),
        ]

    def render(self) -> str:
        """Write all numbers in the text format of Prometheus (``exposition.CONTENT_TYPE``)."""
        return exposition.render(self.families())
