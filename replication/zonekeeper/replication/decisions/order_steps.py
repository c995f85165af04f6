"""What is to be done next for an order about a bookie. Pure.

::

                  made read-only         every ledger leaves it
      given ───────────────────► emptying ───────────────────────► emptied
                                    ▲  a ledger names it again        │
                                    └─────────────────────────────────┤
        drain: it stays so, and needs no work any more ◄──────────────┤
        recover: written off, and the order ends ◄────────────────────┤
        remove: it is stopped ──► nothing names it ──► forgotten ◄────┘

      taken back, in each of these states: what the order made read-only is made writable, and the
      order ends

``next_step`` is asked anew after each step, with what was read then. So a worker that takes over
goes on where another one died, and an order that was changed is obeyed at the next step. Every step
may be done twice.

A bookie that is lost while it is drained or removed is emptied as one to ``recover``: its copies
are made anew from others, as far as the gate permits. If it comes back, draining goes on.
"""

from dataclasses import dataclass
from typing import TypeAlias

from zonekeeper.metadata.formats.ledger_metadata import LedgerMetadata
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.placement.zones.bookie_orders import BookieOrder, OrderKind, OrderPhase
from zonekeeper.replication.decisions import preflight


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderScene:
    """An order, and what was read about its bookie."""

    order: BookieOrder
    #: The incarnation of the bookie that has the name now; None: it has no cookie.
    incarnation: int | None
    registered: bool
    #: It is registered as read-only, or the worker has told it so.
    refuses: bool
    #: Its record has the mark ``draining``.
    draining: bool
    #: A person's own order to be read-only stands in its record.
    kept_read_only: bool
    #: The mark of a restored root stands.
    restored: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MakeReadOnly:
    """Have the bookie refuse new data, unless a person told it so already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmptyOnce:
    """Read all ledgers, and work once on each that names the bookie."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forget:
    """Prove that the bookie is stopped and named nowhere; remove order, record and cookie."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteLostOff:
    """Write the lost bookie off; the order ends with that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MakeWritable:
    """Have the bookie take new data again: this order had made it read-only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeOrderBack:
    """Take the order back: another program has removed the bookie's mark ``draining``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndOrder:
    """Remove the order: nothing is to be done any more. ``told`` is what the timeline says."""

    kind: str
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitChange:
    """Do nothing until something about the bookie or its order changes."""

    phase: OrderPhase
    why: str = ""


OrderStep: TypeAlias = (
    MakeReadOnly
    | EmptyOnce
    | Forget
    | WriteLostOff
    | MakeWritable
    | TakeOrderBack
    | EndOrder
    | AwaitChange
)


def next_step(scene: OrderScene) -> OrderStep:
    """Say what is to be done now."""
    order = scene.order
    if scene.incarnation != order.incarnation:
        return _of_another(scene)
    if order.taken_back is not None:
        return _back(scene)
    return _recovery(scene) if order.kind is OrderKind.RECOVER else _draining(scene)


def _recovery(scene: OrderScene) -> OrderStep:
    if scene.registered:
        return EndOrder(
            kind="recovery ended",
            why="the bookie is registered again: what was copied stays copied, and what was not is "
            "served by it",
        )
    return EmptyOnce() if scene.order.emptied_ms is None else WriteLostOff()


def _draining(scene: OrderScene) -> OrderStep:
    order = scene.order
    if not scene.draining:
        return TakeOrderBack()
    if scene.registered and (order.read_only is None or (order.read_only and not scene.refuses)):
        return MakeReadOnly()  # also where a worker died between its word and its deed
    if order.emptied_ms is None:
        return EmptyOnce()
    if order.kind is OrderKind.DRAIN:
        return AwaitChange(phase=OrderPhase.EMPTIED)
    return _removal(scene)


def _removal(scene: OrderScene) -> OrderStep:
    if scene.registered:
        return AwaitChange(phase=OrderPhase.STOPPING)
    if scene.restored:
        return AwaitChange(
            phase=OrderPhase.RESTORED,
            why="the metadata was restored to an older state: it may lack ledgers of the bookie",
        )
    return Forget()


def _of_another(scene: OrderScene) -> OrderStep:
    """The bookie that the order is about has no cookie any more, or its cookie was made anew."""
    if scene.order.taken_back is not None or scene.incarnation is None or not scene.draining:
        return EndOrder(
            kind="order ended", why="the bookie that it is about was forgotten in another way"
        )
    return AwaitChange(
        phase=OrderPhase.ANOTHER,
        why="the cookie of the bookie was made anew since the order was given, by another bookie "
        "or by an import of the metadata: give the order again, or take it back",
    )


def _back(scene: OrderScene) -> OrderStep:
    order = scene.order
    assert order.taken_back is not None, "asked for orders that were taken back"
    if order.read_only and not scene.kept_read_only:
        if scene.registered:
            return MakeWritable()
        return AwaitChange(
            phase=OrderPhase.RETURNING,
            why="the order made the bookie read-only, and the bookie is away: start it, or give "
            "another order about it",
        )
    return EndOrder(kind="taken back", why=order.taken_back.reason)


def held_bytes(ledger: LedgerMetadata, bookie: BookieId) -> int:
    """Give the payload bytes of a ledger that a bookie holds; 0 while they are unknown."""
    quorums = Quorums(
        ensemble=ledger.ensemble_size, write=ledger.write_quorum, ack=ledger.ack_quorum
    )
    ends: list[int | None] = [fragment.first_entry for fragment in ledger.fragments[1:]]
    ends.append(ledger.last_entry + 1 if ledger.is_closed else None)
    return sum(
        preflight.share_bytes(ledger, quorums, position, (fragment.first_entry, end))
        for fragment, end in zip(ledger.fragments, ends, strict=True)
        for position, member in enumerate(fragment.ensemble)
        if member == bookie
    )
