"""What is at risk: the fragments whose entries have one copy left that can be reached, or none.

Two looks are compared by *what* is at risk, not by how much, and not by whether anything is: an old
risk must not hide a new one. A look is *worse* than another if some ledger has more fragments at
risk in it, or more that are out of reach. So a ledger that recovers makes no room for another to
fail unseen.

A look remembers ``LEDGERS_KEPT`` ledgers. If more are at risk, looks are compared by their numbers
of fragments as well as by the ledgers that they remember. What grows is then still told. What is
replaced by the same number, among ledgers that are not remembered, is not.
"""

from dataclasses import dataclass, field
from typing import Final

from zonekeeper.placement.base.ids import LedgerId

#: Of so many ledgers a look remembers what is at risk: about 20 MB.
LEDGERS_KEPT: Final = 100_000

#: A text names at most this many ledgers.
_NAMED_MAX: Final = 5


@dataclass(slots=True)
class Risk:
    """What one look found at risk; ``add`` every fragment with a missing member."""

    fragments_at_last_copy: int = 0
    fragments_out_of_reach: int = 0
    #: By ledger: its fragments at risk, and those of them that are out of reach.
    by_ledger: dict[LedgerId, tuple[int, int]] = field(default_factory=dict)

    def add(self, ledger_id: LedgerId, copies_left: int) -> None:
        """Take in a fragment, with the copies that its worst-off entries have."""
        if copies_left > 1:
            return
        gone = copies_left == 0
        self.fragments_at_last_copy += not gone
        self.fragments_out_of_reach += gone
        known = self.by_ledger.get(ledger_id)
        if known is not None or len(self.by_ledger) < LEDGERS_KEPT:
            at_risk, out_of_reach = known or (0, 0)
            self.by_ledger[ledger_id] = (at_risk + 1, out_of_reach + gone)

    @property
    def fragments(self) -> int:
        """Give the number of fragments at risk; 0: everything is safe."""
        return self.fragments_at_last_copy + self.fragments_out_of_reach

    def worse_than(self, before: "Risk") -> bool:
        """Is something at risk that was not before, or out of reach that was not?"""
        return (
            bool(self._newly(before))
            or self.fragments > before.fragments
            or self.fragments_out_of_reach > before.fragments_out_of_reach
        )

    def text(self, before: "Risk") -> str:
        """Say what is at risk now, and which ledgers are new since an earlier look."""
        if not self.fragments:
            return "every fragment has more than one copy that can be reached"
        text = (
            f"{self.fragments_at_last_copy} fragments hold entries with one copy left that can be "
            f"reached, and {self.fragments_out_of_reach} fragments entries with none"
        )
        if newly := self._newly(before):
            named = ", ".join(map(str, newly[:_NAMED_MAX]))
            more = " and others" if len(newly) > _NAMED_MAX else ""
            ledgers = "1 ledger is" if len(newly) == 1 else f"{len(newly)} ledgers are"
            text += f"; {ledgers} newly so: {named}{more}"
        return text

    def _newly(self, before: "Risk") -> list[LedgerId]:
        """Give the ledgers with more at risk, or more out of reach, than before; ascending."""
        none = (0, 0)
        found = []
        for ledger_id, (at_risk, out_of_reach) in self.by_ledger.items():
            was_at_risk, was_out_of_reach = before.by_ledger.get(ledger_id, none)
            known = ledger_id in before.by_ledger or len(before.by_ledger) < LEDGERS_KEPT
            if known and (at_risk > was_at_risk or out_of_reach > was_out_of_reach):
                found.append(ledger_id)
        return sorted(found)
