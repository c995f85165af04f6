"""What a log keeper counts: names that end in ``_total`` only grow, others say how it is now."""

from dataclasses import dataclass, fields

from zonekeeper.wire.formats.exposition import number


@dataclass(slots=True)
class LogKeeperMetrics:
    """The numbers of one log keeper. Those that say how it is now are 0 while it does not lead."""

    leading: int = number("1 while this process is the log keeper, else 0.")
    held: int = number("1 while nothing is trimmed or collected because the root was restored.")
    # ── logs ──
    logs: int = number("Logs that the last round found.")
    failing_logs: int = number("Logs that the last round could not look after, see the log.")
    rounds_total: int = number("Rounds over all logs that have ended.")
    trims_total: int = number("How often the start of a log was moved by the rules of the log.")
    deletions_total: int = number("Half-done deletions of logs that were done to the end.")
    ledgers_deleted_total: int = number("Ledgers below starts, or of deleted logs, deleted.")
    # ── orphans ──
    listings_total: int = number("Listings of all ledgers, in search of orphans, that have ended.")
    orphans_deleted_total: int = number("Ledgers deleted that were made for a log and never added.")
    pending_ledgers: int = number(
        "Ledgers that no record has, and whose writer may still add them, at the last listing."
    )
    stray_ledgers: int = number(
        "Ledgers made for a log whose record is missing or older, at the last listing: nothing is "
        "proved, and they stay. A log that was lost can be rebuilt from them."
    )

    def end_term(self) -> None:
        """Clear the numbers that say how it is now."""
        fresh = LogKeeperMetrics()
        for each in fields(self):
            if not each.name.endswith("_total"):
                setattr(self, each.name, getattr(fresh, each.name))
