"""What the logs of one client count: for people, for tests, and for a page of metrics. Pure.

Names that end in ``_total`` only grow; those that end in ``_now`` say how it is. All logs of a
client share these numbers, so a process with 1,000 logs shows no more lines than one with one log.
An application gives ``LogClient.figures.render()`` to whatever scrapes it.
"""

from dataclasses import dataclass, field

from zonekeeper.wire.formats import exposition
from zonekeeper.wire.formats.exposition import Family, number


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


@dataclass(slots=True)
class LogFigures:
    """The numbers of one client."""

    writers: LogWriterFigures = field(default_factory=LogWriterFigures)

    def families(self) -> list[Family]:
        """Give all numbers, for a page that has others, too."""
        return exposition.counted("zonekeeper_log_writers", self.writers, of_now=False)

    def render(self) -> str:
        """Write all numbers in the text format of Prometheus (``exposition.CONTENT_TYPE``)."""
        return exposition.render(self.families())
