"""What is promised of the ledgers from before the metadata store was set back to a backup."""

from collections.abc import Iterator

from tests.simulation import history as seen
from zonekeeper.metadata.formats.ledger_metadata import LedgerMetadata
from zonekeeper.placement.base.ids import LedgerId


class FromBefore:
    """The ledgers from before the store was set back: only bookies still know the truth of these.

    A bookie goes by what the store says of an id since then, as it knows of no other ledger of it.
    """

    def __init__(self) -> None:
        self.ledgers: set[LedgerId] = set()
        self._in_backup: set[LedgerId] = set()
        #: The ledgers of which perhaps nobody knows that they were lost: their ids may come again.
        self.young: set[LedgerId] = set()
        #: What the store says of them since.
        self.since: dict[LedgerId, LedgerMetadata] = {}

    def take(self, event: seen.SetBack, recorded: set[LedgerId]) -> None:
        """Take in that the store was set back; ``recorded``: all ledgers that it ever named."""
        self.ledgers |= recorded.union(event.young)
        self._in_backup.update(event.ledgers)
        self.young.update(event.young)

    def has(self, event: seen.Event) -> bool:
        """Is an event about such a ledger, and judged by no other rule?"""
        if not self.ledgers or isinstance(event, seen.Collected | seen.Deleted | seen.Redrawn):
            return False
        return getattr(event, "ledger", None) in self.ledgers

    def broken(self, event: seen.Event) -> Iterator[tuple[str, str]]:
        """Take in an event about such a ledger; give the rules that it breaks, and how."""
        if not isinstance(event, seen.Recorded):
            return
        if event.ledger not in self._in_backup | self.young:
            yield "ids", f"ledger {event.ledger} was created before the store was set back, too"
        if event.metadata is None:
            self.since.pop(event.ledger, None)
        else:
            self.since[event.ledger] = event.metadata
