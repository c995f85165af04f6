"""What an auditor counts. Names that end in ``_total`` only grow; the others say how it is now."""

from collections import Counter
from dataclasses import dataclass, fields

from zonekeeper.placement.base.ids import ZoneName
from zonekeeper.wire.formats.exposition import number, numbers_by


@dataclass(slots=True)
class AuditorMetrics:
    """The numbers of one auditor. Those that say how it is now are 0 while it does not lead."""

    leading: int = number("1 while this process is the auditor, else 0.")
    # ── the index ──
    ledgers: int = number("Ledgers in the index of this auditor.")
    index_bytes: int = number("Size of the index, in bytes.")
    unreadable_ledgers: int = number("Ledgers whose metadata the last listing could not read.")
    listings_total: int = number("Listings of all ledgers that have ended.")
    # ── losses ──
    lost_bookies: int = number(
        "Bookies that have a cookie, or that ledgers name, and that are not registered."
    )
    held_bookies: int = number("Lost bookies whose ledgers may not be published now.")
    held_copies: int = number("Pairs of a ledger and a held bookie that it names.")
    unknown_bookies: int = number("Lost bookies that have no cookie, and that ledgers name.")
    forgetful_bookies: int = number(
        "Registered bookies whose disk lacks entries that they once acknowledged."
    )
    fragments_at_last_copy: int = number(
        "Fragments of which some entries have one copy that can be reached."
    )
    fragments_out_of_reach: int = number(
        "Fragments of which some entries have no copy that can be reached."
    )
    published_total: int = number(
        "Ledgers that listings have marked for lost or forgetful bookies."
    )
    unmarked_total: int = number(
        "Ledgers from whose mark a bookie was taken that is back and has its entries."
    )
    written_off_total: int = number(
        "Lost bookies that no ledger named any more, and that were written off."
    )
    unreadable_marks_total: int = number("How many times a mark could not be read.")
    # ── abandoned ledgers ──
    abandoned_ledgers: int = number(
        "Open ledgers whose writer's process has had no session for repair.abandonedAfter."
    )
    abandoned_closed_total: int = number("Ledgers that were closed because their writers are gone.")
    # ── the placement check ──
    ledgers_by_placement: Counter[str] = numbers_by(
        "Ledgers by how well they are spread, as the last placement check found them."
    )
    ledgers_undecided: int = number(
        "Ledgers for which the search for a better spread was cut short."
    )
    respread_marked_total: int = number(
        "Ledgers that were marked so that copies are spread better."
    )
    # ── the replicas check ──
    entries_checked_total: int = number("Entries that the replicas check has looked at.")
    bytes_checked_total: int = number("Bytes that the replicas check has read.")
    copies_unknown_total: int = number(
        "Copies of entries of which the replicas check learnt nothing."
    )
    doubted_total: int = number("Ledgers that the replicas check marked for registered bookies.")
    entries_without_copy_total: int = number(
        "Entries of which the replicas check found no good copy."
    )
    entries_in_conflict_total: int = number("Entries whose good copies are unlike each other.")
    # ── headroom ──
    headroom_enough: Counter[ZoneName] = numbers_by(
        "By the zone that would be lost: 1 if the other zones have room for its data, else 0."
    )
    headroom_needed_bytes: Counter[ZoneName] = numbers_by(
        "Bytes that would have to be copied if the zone were lost."
    )
    headroom_free_bytes: Counter[ZoneName] = numbers_by(
        "Room of the other zones for the data of the zone."
    )

    def end_term(self) -> None:
        """Clear the numbers that say how it is now."""
        fresh = AuditorMetrics()
        for each in fields(self):
            if not each.name.endswith("_total"):
                setattr(self, each.name, getattr(fresh, each.name))
