"""Bookies that the resource does not ask for: which of them run, and which hold something. Pure.

A bookie holds something if a ledger names it. Only a listing of all ledgers proves that none does.
The listing costs a read a ledger, so it is made only where it is needed, and not in every turn.

A proof counts for a few turns after its listing: a bookie that serves may be named at any moment.
Of a bookie that no pod runs, it counts until the bookie serves again: no writer chooses it. But if
the bookie served while the listing was made, the listing is repeated once.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from zonekeeper.operator.cluster import owned_objects
from zonekeeper.operator.cluster.desired import Desired
from zonekeeper.placement.base.ids import BookieId

#: The shortest time from one listing to the next about the same bookies.
ASKED_EVERY_MS: Final = 30_000
#: For so long a proof counts for a bookie that serves; a turn does one step only.
PROOF_MS: Final = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Holdings:
    """What is known of bookies that the resource does not ask for and that have cookies."""

    #: The bookies that the last listing was about.
    asked: frozenset[BookieId] = frozenset()
    #: A ledger names them.
    named: frozenset[BookieId] = frozenset()
    #: No ledger names them.
    empty: frozenset[BookieId] = frozenset()
    #: They served when the last listing began, and so may have been named after it.
    served: frozenset[BookieId] = frozenset()
    #: When the last listing began; None: there was none.
    asked_ms: int | None = None
    #: When a turn first saw what it has found; None: it has found nothing.
    proven_ms: int | None = None

    def still(
        self, beyond: frozenset[BookieId], serving: frozenset[BookieId], now_ms: int
    ) -> "Holdings":
        """Give what still counts; ``serving`` are bookies that may be named by now."""
        is_fresh = self.proven_ms is not None and 0 <= now_ms - self.proven_ms < PROOF_MS
        doubtful = frozenset[BookieId]() if is_fresh else serving
        return Holdings(
            asked=self.asked & beyond,
            named=self.named & beyond,
            empty=(self.empty & beyond) - doubtful,
            served=self.served & beyond,
            asked_ms=self.asked_ms,
            proven_ms=self.proven_ms,
        )

    def is_due(self, beyond: frozenset[BookieId], now_ms: int) -> bool:
        """Is a listing to be made now?"""
        if beyond <= self.empty - self.served:
            return False
        is_old = self.asked_ms is None or now_ms - self.asked_ms >= ASKED_EVERY_MS
        return is_old or not beyond <= self.asked


def places(wanted: Desired) -> dict[str, int]:
    """Give the number of bookies that are asked for, by StatefulSet."""
    return {
        owned_objects.set_name(wanted.name, zone.name): wanted.bookies_per_zone
        for zone in wanted.zones
    }


def beyond(wanted: Desired, cookies: Iterable[BookieId]) -> frozenset[BookieId]:
    """Give the bookies of this cluster that have cookies and are not asked for."""
    known = places(wanted)
    return frozenset(
        bookie
        for bookie in cookies
        for name, _, ordinal in (bookie.rpartition("-"),)
        if name.startswith(f"{wanted.name}-")
        and ordinal.isdecimal()
        and int(ordinal) >= known.get(name, 0)
    )


def run_beyond(wanted: Desired, replicas: Mapping[str, int]) -> dict[str, tuple[BookieId, ...]]:
    """Give the bookies that StatefulSets run and that are not asked for, by StatefulSet."""
    known = places(wanted)
    found = {
        name: tuple(BookieId(f"{name}-{ordinal}") for ordinal in range(known.get(name, 0), count))
        for name, count in replicas.items()
    }
    return {name: bookies for name, bookies in found.items() if bookies or name not in known}
