"""What is to become of a bookie: an order of a person or of the operator, as a value. Pure.

- ``drain``: the bookie gets no new data, and every ledger leaves it. It goes on to run.
- ``remove``: the same; then the bookie is stopped, and it is forgotten.
- ``recover``: the bookie is lost, and all that it held is made anew elsewhere.

An order is about one *incarnation* of a bookie: the number that the store gave to the bookie's
cookie when the cookie was made. A bookie that is made anew under the same id has another one. So an
order that was left behind never meets the wrong bookie.

An order is taken back by a word in it. It stands until what it made read-only is writable again.
"""

import dataclasses
import enum
from dataclasses import dataclass
from typing import Final

from zonekeeper.placement.base.ids import BookieId
from zonekeeper.placement.zones.gate import RefusedError

#: A text that says why an order waits is cut to this length.
WHY_CHARS_MAX: Final = 1_000


class OrderKind(enum.StrEnum):
    """What is to become of the bookie."""

    DRAIN = "drain"
    RECOVER = "recover"
    REMOVE = "remove"

    @property
    def drains(self) -> bool:
        """Does the bookie's record have the mark ``draining`` as long as the order stands?"""
        return self is not OrderKind.RECOVER


class OrderPhase(enum.StrEnum):
    """How far an order is."""

    LISTING = "reading all ledgers"
    HELD = "waiting for the gate"
    COPYING = "copying"
    #: Ledgers keep the bookie, for reasons that only a person can remove.
    STUCK = "ledgers keep the bookie"
    EMPTIED = "emptied"
    STOPPING = "waiting for the bookie to be stopped"
    #: The metadata was restored: ledgers may be wanted that it does not know.
    RESTORED = "waiting until the restored metadata is accepted"
    RETURNING = "being taken back"
    #: The bookie of this name is not the one that the order is about.
    ANOTHER = "another bookie has the name"


#: In these phases an order waits for something that has its own alert, or for nothing.
AT_REST: Final = frozenset({OrderPhase.HELD, OrderPhase.EMPTIED, OrderPhase.RESTORED})

#: In these phases there is something to do.
_AT_WORK: Final = frozenset({OrderPhase.LISTING, OrderPhase.COPYING})


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderWord:
    """Somebody's word: when it was given (wall time), by whom, and why."""

    at_ms: int
    by: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderProgress:
    """How far an order is, as the process that works on it said last."""

    #: Wall time of this word.
    at_ms: int
    #: The process, and since when it works on the order.
    worker: str
    since_ms: int
    phase: OrderPhase
    #: Wall time at which the phase changed or a ledger left the bookie.
    moved_ms: int
    #: ``0 <= ledgers_left <= ledgers``: the most ledgers that a listing found, and those left.
    ledgers: int = 0
    ledgers_left: int = 0
    #: ``0 <= bytes_left <= bytes``: the bookie's share of them, as far as they are closed.
    bytes: int = 0
    bytes_left: int = 0
    #: What holds or keeps it; empty: nothing.
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BookieOrder:
    """What is to become of one bookie."""

    kind: OrderKind
    #: Drawn when the order was given: no other order has it.
    token: str
    given: OrderWord
    #: The incarnation of the bookie; None: it had no cookie when the order was given.
    incarnation: int | None
    #: Did this order make the bookie read-only? None: that was not tried yet.
    read_only: bool | None = None
    #: Wall time at which a whole listing named the bookie nowhere.
    emptied_ms: int | None = None
    taken_back: OrderWord | None = None
    progress: OrderProgress | None = None
    #: The fields that this version does not know, as JSON; they are written back unchanged.
    unknown: str = "{}"

    @property
    def meaning(self) -> tuple[str, OrderKind, bool]:
        """Give what a worker goes by: if it changes, the work begins anew."""
        return self.token, self.kind, self.taken_back is not None

    @property
    def needs_work(self) -> bool:
        """Is there something to do? A bookie that is drained, and is to stay so, needs nothing."""
        is_drained = self.kind is OrderKind.DRAIN and self.emptied_ms is not None
        return self.taken_back is not None or not is_drained

    @property
    def can_go_on(self) -> bool:
        """Does nothing hold the order, as far as the process that works on it has said?"""
        return self.progress is None or self.progress.phase in _AT_WORK


def given(bookie: BookieId, standing: BookieOrder | None, wanted: BookieOrder) -> BookieOrder:
    """Give the order that stands after ``wanted`` is given; raises ``RefusedError``.

    The same order twice is one order: the first is kept. A stronger order takes over what a weaker
    one has done. An order that was taken back, or that is about another incarnation of the bookie,
    makes way; what it made read-only counts as made by the new one if the bookie is the same.
    """
    if standing is None or standing.incarnation != wanted.incarnation:
        return wanted
    if standing.taken_back is not None:
        return dataclasses.replace(wanted, read_only=standing.read_only or None)
    if standing.kind is wanted.kind:
        return standing
    if wanted.kind is OrderKind.DRAIN:
        raise RefusedError(
            f"the order to {standing.kind} {bookie} stands (by {standing.given.by}: "
            f"{standing.given.reason}): take it back with `zonekeeper bookies take-back {bookie}` "
            "before; nothing was done"
        )
    if standing.kind is OrderKind.REMOVE:
        return standing  # to remove a bookie that is lost is to recover it first
    # A removal reads all ledgers once more. A recovery would write off by what was read long ago.
    emptied_ms = standing.emptied_ms if wanted.kind is OrderKind.REMOVE else None
    return dataclasses.replace(wanted, read_only=standing.read_only, emptied_ms=emptied_ms)


def after_recovery(
    order: BookieOrder, draining: OrderWord | None, token: str
) -> BookieOrder | None:
    """Give the order that stands after one to recover has ended; ``draining``: by whose word.

    A bookie that was draining before it was lost drains on. What was made read-only for that stays
    known, so that it can be taken back.
    """
    if order.kind is not OrderKind.RECOVER or order.taken_back is not None or draining is None:
        return None
    return BookieOrder(
        kind=OrderKind.DRAIN,
        token=token,
        given=draining,
        incarnation=order.incarnation,
        read_only=order.read_only,
    )


def taken_back(standing: BookieOrder | None, word: OrderWord) -> BookieOrder | None:
    """Give the order after it is taken back; the first word is kept. None: there is none."""
    if standing is None or standing.taken_back is not None:
        return standing
    return dataclasses.replace(standing, taken_back=word, emptied_ms=None)


def still_ms(order: BookieOrder, now_ms: int) -> int:
    """Say for how long nothing moved (wall time); 0 where nothing is to move.

    An order that no process has taken up stands still since it was given.
    """
    if not order.needs_work:
        return 0
    if order.progress is None:
        began = order.given if order.taken_back is None else order.taken_back
        return max(0, now_ms - began.at_ms)
    if order.progress.phase in AT_REST and order.taken_back is None:
        return 0
    return max(0, now_ms - order.progress.moved_ms)
