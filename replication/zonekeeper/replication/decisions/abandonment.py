"""Which open ledgers are abandoned, decided without a store.

A ledger is *abandoned* when the presence of its writer was missing in every look for as long as the
policy says, and the ledger did not grow between the last two looks. Looks that are far apart prove
nothing of the time between them, as where the store was out of reach for all. So the time begins
anew after a gap.

One list of ledger ids stands for each presence: 8 bytes a ledger. A ledger stays in its list after
its writer has closed it, until it is dropped or all is read anew. So the caller reads a ledger
again before it acts.
"""

from array import array
from collections.abc import Iterator, Set
from dataclasses import dataclass, field
from typing import Final

from zonekeeper.placement.base.ids import EntryId, LedgerId

#: Two looks that are further apart than this are no look at the time between them.
GAP_MS: Final = 3 * 60_000


@dataclass(slots=True)
class Abandonment:
    """The open ledgers by the presence of their writers, and since when a presence is missing."""

    _ledgers: dict[str, "array[int]"] = field(default_factory=dict)
    _missing_since_ms: dict[str, int] = field(default_factory=dict)
    _looked_ms: int | None = None
    #: How far a ledger was confirmed when it was last found due.
    _confirmed: dict[LedgerId, EntryId] = field(default_factory=dict)

    @property
    def presences(self) -> Set[str]:
        """The presences to look for."""
        return self._ledgers.keys()

    def add(self, ledger_id: LedgerId, presence: str) -> None:
        """Add an open ledger, and the presence that it names."""
        self._ledgers.setdefault(presence, array("q")).append(ledger_id)

    def looked(self, missing: Set[str], now_ms: int) -> None:
        """Take in a look at all presences."""
        if self._looked_ms is not None and now_ms - self._looked_ms > GAP_MS:
            self._missing_since_ms.clear()
        self._looked_ms = now_ms
        before = self._missing_since_ms
        self._missing_since_ms = {
            name: before.get(name, now_ms) for name in sorted(missing & self._ledgers.keys())
        }
        self._confirmed = {
            ledger_id: last
            for name in self._missing_since_ms
            for ledger_id in map(LedgerId, self._ledgers[name])
            if (last := self._confirmed.get(ledger_id)) is not None
        }

    def anew(self) -> "Abandonment":
        """Give what is known of presences and of growth, without ledgers: all are read anew."""
        return Abandonment(
            _missing_since_ms=self._missing_since_ms,
            _looked_ms=self._looked_ms,
            _confirmed=self._confirmed,
        )

    def due(self, after_ms: int) -> Iterator[tuple[LedgerId, str]]:
        """Give the ledgers whose presence was missing for so long at the last look, with it."""
        now_ms = self._looked_ms
        if now_ms is None:
            return
        for name, since_ms in sorted(self._missing_since_ms.items()):
            if now_ms - since_ms >= after_ms:
                yield from ((LedgerId(ledger_id), name) for ledger_id in tuple(self._ledgers[name]))

    def rests(self, ledger_id: LedgerId, confirmed: EntryId) -> bool:
        """Is a due ledger confirmed as far as in the look before? It is asked once a look."""
        before, self._confirmed[ledger_id] = self._confirmed.get(ledger_id), confirmed
        return before == confirmed

    def drop(self, ledger_id: LedgerId, presence: str) -> None:
        """Forget a due ledger: it is closed or gone, or is another one by now."""
        self._confirmed.pop(ledger_id, None)
        self._ledgers[presence].remove(ledger_id)
        if not self._ledgers[presence]:
            del self._ledgers[presence], self._missing_since_ms[presence]
