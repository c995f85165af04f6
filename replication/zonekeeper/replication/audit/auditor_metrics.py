"""What an auditor counts. Names that end in ``_total`` only grow; the others say how it is now."""

from collections import Counter
from dataclasses import dataclass, field, fields

from zonekeeper.placement.base.ids import ZoneName


@dataclass(slots=True)
class AuditorMetrics:
    """The numbers of one auditor; those of now are 0 while it does not lead."""

    leading: int = 0
    # ── the index ──
    ledgers: int = 0
    index_bytes: int = 0
    unreadable_ledgers: int = 0
    listings_total: int = 0
    # ── losses ──
    lost_bookies: int = 0
    #: Lost, and not to be published now.
    held_bookies: int = 0
    #: Pairs of a ledger and a held bookie that it names.
    held_copies: int = 0
    #: Named by ledgers, without a cookie.
    unknown_bookies: int = 0
    #: There, with a disk that lacks what they once held.
    forgetful_bookies: int = 0
    #: Fragments in which some entries have one copy that can be reached, or none.
    fragments_at_last_copy: int = 0
    fragments_out_of_reach: int = 0
    #: Ledgers marked for a lost bookie, again if they are met again.
    published_total: int = 0
    #: Ledgers whose mark was taken back, as the bookie is back and has its entries.
    unmarked_total: int = 0
    written_off_total: int = 0
    #: Marks that cannot be read.
    unreadable_marks_total: int = 0
    # ── the placement check ──
    #: By level, as the last check found them.
    ledgers_by_placement: Counter[str] = field(default_factory=Counter)
    #: Too wide to try every way of spreading them better, and none was found.
    ledgers_undecided: int = 0
    respread_marked_total: int = 0
    # ── the replicas check ──
    entries_checked_total: int = 0
    bytes_checked_total: int = 0
    #: Copies of entries whose bookie gave no answer.
    copies_unknown_total: int = 0
    #: Ledgers marked for a bookie that is there, and whose copy is not.
    doubted_total: int = 0
    entries_without_copy_total: int = 0
    entries_in_conflict_total: int = 0
    # ── headroom ──
    #: If this zone were lost: 1 the others have room for its data, 0 not, or only unevenly;
    #: a zone that is not named is unknown.
    headroom_enough: dict[ZoneName, int] = field(default_factory=dict)
    headroom_needed_bytes: dict[ZoneName, int] = field(default_factory=dict)
    headroom_free_bytes: dict[ZoneName, int] = field(default_factory=dict)

    def end_term(self) -> None:
        """Clear what was true while this auditor led."""
        fresh = AuditorMetrics()
        for each in fields(self):
            if not each.name.endswith("_total"):
                setattr(self, each.name, getattr(fresh, each.name))
