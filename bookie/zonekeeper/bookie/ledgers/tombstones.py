"""Tombstones: the ledgers that a bookie has collected, so that none is taken for a new one. Pure.

A collected ledger leaves nothing else on the bookie, not even its fence. Without a tombstone its
fenced writer could open it again, and its entries would be acknowledged in a ledger that no
metadata names. A tombstone names the ledger's id and its create token: a ledger that was made anew
under the same id has another token, and is another ledger. A token that is not known (0) may be any
token.

A tombstone is kept for at least ``KEPT_MS``, by the bookie's wall clock. At most ``most`` are kept.
Beyond that the oldest is dropped early, and counted. Dropping one is not the end of all safety: a
writer that had the ledger open on this bookie says so when it opens it again (``admission``).
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from zonekeeper.placement.base.ids import LedgerId

#: Seven days.
KEPT_MS: Final = 7 * 24 * 3_600_000
#: They take 24 bytes each in the checkpoint, 3 MiB in all, and some 40 MB of memory.
TOMBSTONES_MAX: Final = 1 << 17


@dataclass(frozen=True, slots=True)
class Tombstone:
    """One collected ledger."""

    ledger_id: LedgerId
    #: 0: not known.
    create_token: int
    #: When it was collected, by the bookie's wall clock.
    at_ms: int


class Tombstones:
    """A bounded set of tombstones. Same additions in the same order, same set."""

    def __init__(self, kept: Iterable[Tombstone] = (), *, most: int = TOMBSTONES_MAX) -> None:
        self._most = most
        self._by_id: dict[LedgerId, tuple[Tombstone, ...]] = {}
        #: In the order of their addition. One that a newer one replaced is only here, and for a
        #: while: ``len(_order) <= 2 * most``.
        self._order: deque[Tombstone] = deque()
        self._count = 0
        #: Tombstones that were dropped early, since this object was made.
        self.dropped = 0
        for each in kept:
            self.add(each)

    def __len__(self) -> int:
        return self._count

    def add(self, tombstone: Tombstone) -> None:
        """Add one; of the same ledger only the newer one stays."""
        others = []
        for other in self._by_id.get(tombstone.ledger_id, ()):
            if other.create_token != tombstone.create_token:
                others.append(other)
            elif other.at_ms >= tombstone.at_ms:
                return
        self._put(tombstone.ledger_id, (*others, tombstone))
        self._order.append(tombstone)
        while self._count > self._most:
            self.dropped += self._drop_oldest()
        if len(self._order) > 2 * self._most:
            self._order = deque(self.kept())

    def names(self, ledger_id: LedgerId, create_token: int) -> bool:
        """Was the ledger collected, or may it have been, as far as a token is not known?"""
        return any(
            create_token in (0, each.create_token) or not each.create_token
            for each in self._by_id.get(ledger_id, ())
        )

    def expire(self, now_ms: int) -> None:
        """Drop those that were kept for long enough."""
        while self._order and self._order[0].at_ms + KEPT_MS <= now_ms:
            self._drop_oldest()

    def kept(self) -> tuple[Tombstone, ...]:
        """Give all, the oldest first."""
        return tuple(each for each in self._order if each in self._by_id.get(each.ledger_id, ()))

    def _drop_oldest(self) -> bool:
        """Drop the oldest; False: it had been replaced already."""
        oldest = self._order.popleft()
        there = self._by_id.get(oldest.ledger_id, ())
        rest = tuple(each for each in there if each is not oldest)
        self._put(oldest.ledger_id, rest)
        return len(rest) < len(there)

    def _put(self, ledger_id: LedgerId, of_id: tuple[Tombstone, ...]) -> None:
        self._count += len(of_id) - len(self._by_id.pop(ledger_id, ()))
        if of_id:
            self._by_id[ledger_id] = of_id
