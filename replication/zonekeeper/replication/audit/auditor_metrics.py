"""What an auditor counts. Names that end in ``_total`` only grow; the others say how it is now."""

from collections import Counter
from dataclasses import dataclass, field, fields

from zonekeeper.placement.base.ids import ZoneName


@dataclass(slots=True)
class AuditorMetrics:
    """The numbers of one auditor. Those that say how it is now are 0 while it does not lead."""

    leading: int = 0
    # ── the index ──
    ledgers: int = 0
    index_bytes: int = 0
    unreadable_ledgers: int = 0
    listings_total: int = 0
    # ── losses ──
    lost_bookies: int = 0
    #: ``held_bookies <= lost_bookies``: those whose ledgers may not be published now.
    held_bookies: int = 0
    #: Pairs of a ledger and a held bookie that it names.
    held_copies: int = 0
    #: ``unknown_bookies <= lost_bookies``: those that have no cookie, and that ledgers name.
    unknown_bookies: int = 0
    #: Registered bookies whose disk lacks entries that they once acknowledged.
    forgetful_bookies: int = 0
    #: Fragments with ``copies_left == 1``: some entries have one copy that can be reached.
    fragments_at_last_copy: int = 0
    #: Fragments with ``copies_left == 0``: some entries have no copy that can be reached.
    fragments_out_of_reach: int = 0
    #: Ledgers marked for lost or forgetful bookies. Each listing that marks a ledger counts it.
    published_total: int = 0
    #: Ledgers from whose mark a bookie was taken, because it is back and has its entries.
    unmarked_total: int = 0
    written_off_total: int = 0
    #: How many times a mark could not be read.
    unreadable_marks_total: int = 0
    # ── abandoned ledgers ──
    #: Open ledgers whose writer's process has had no session for ``repair.abandonedAfter``.
    abandoned_ledgers: int = 0
    abandoned_closed_total: int = 0
    # ── the placement check ──
    #: Ledgers by level, as the last placement check found them.
    ledgers_by_placement: Counter[str] = field(default_factory=Counter)
    #: Ledgers for which no plan was found after a search that was cut short: a plan may exist.
    ledgers_undecided: int = 0
    respread_marked_total: int = 0
    # ── the replicas check ──
    entries_checked_total: int = 0
    bytes_checked_total: int = 0
    #: Copies of entries of which the check learnt nothing.
    copies_unknown_total: int = 0
    #: Ledgers that the check marked for registered bookies whose copies are doubted.
    doubted_total: int = 0
    entries_without_copy_total: int = 0
    entries_in_conflict_total: int = 0
    # ── headroom ──
    #: By the zone that would be lost. 1: the other zones have room for its data. 0: they have not,
    #: or only if it is spread unevenly. Not in it: unknown.
    headroom_enough: dict[ZoneName, int] = field(default_factory=dict)
    headroom_needed_bytes: dict[ZoneName, int] = field(default_factory=dict)
    headroom_free_bytes: dict[ZoneName, int] = field(default_factory=dict)

    def end_term(self) -> None:
        """Clear the numbers that say how it is now."""
        fresh = AuditorMetrics()
        for each in fields(self):
            if not each.name.endswith("_total"):
                setattr(self, each.name, getattr(fresh, each.name))
