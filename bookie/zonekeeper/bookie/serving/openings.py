"""Openings, and whose a ledger is: requests that wait until a bookie has read metadata.

An opening of a ledger that is not known here waits for what metadata says of the ledger. So does
one whose caller may open only ledgers of its own, as long as it is not known here whose the ledger
is: its *judge* decides then. All reads are bounded (``store_reads``).

A ledger's owner never changes, so a bookie remembers it with a ledger that it knows, until it
forgets the ledger. It is not on the disk: after a start it is read again, at the first request that
asks. So where owners are held, such a request waits for the store. It is refused while the store is
away, also if the ledger has no owner: that is not known then. With ``--ledger-owners warn`` it is
served, once the store has given no answer in ``ANSWER_TIMEOUT_MS``. A ledger whose metadata was
read since the start is in no doubt. The read that says what a new ledger is says whose it is, too.
"""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from typing import TypeAlias

from zonekeeper.bookie.ledgers import admission
from zonekeeper.bookie.serving import vouching
from zonekeeper.bookie.serving.capacity import Capacity
from zonekeeper.bookie.serving.store_reads import StoreReads, StoreTurn
from zonekeeper.bookie.serving.vouching import Standings
from zonekeeper.bookie.storage.memory import Memory
from zonekeeper.placement.base.ids import LedgerId
from zonekeeper.wire.contract import service
from zonekeeper.wire.formats import errors, openings


@dataclass(frozen=True, slots=True)
class ItemAnswer:
    """The receiver of the outcome of one item."""

    replies: service.Replies
    number: int

    def refuse(self, error: errors.ProtocolError) -> None:
        """Say that the item was not done."""
        self.replies.refused(self.number, error)


#: Decides a change of a ledger's state, and answers when the outcome is safe.
Change: TypeAlias = Callable[[LedgerId, admission.Event, ItemAnswer], None]
#: Does the rest of a request in a task of its own, or refuses it if the bookie ends.
Begin: TypeAlias = Callable[[Coroutine[object, None, None], ItemAnswer], None]


class Openings:
    """The openings of one bookie; as an object, the peer of reads about ledgers that are known."""

    def __init__(
        self,
        memory: Memory,
        capacity: Capacity,
        store_reads: StoreReads,
        *,
        change: Change,
        begin: Begin,
        standing: Standings,
    ) -> None:
        self._memory = memory
        self._capacity = capacity
        self._store_reads = store_reads
        self._change = change
        self._begin = begin
        self._standing = standing

    def decide(
        self, event: admission.OpenWanted, answer: ItemAnswer, judge: errors.OwnerJudge | None
    ) -> None:
        """Decide an opening, once its judge has heard whose the ledger is."""
        ledger_id, token = event.opening.ledger_id, event.opening.create_token
        if admission.is_other(self._memory.find(ledger_id).admitted, token):
            # Another ledger has this id here. The opening is refused for that; no owner is asked
            # for. The collector hears that the ledger here was perhaps deleted.
            self._change(ledger_id, event, answer)
            return
        found: str | errors.ProtocolError | None
        try:
            found = vouching.owner_of(self._memory.find(ledger_id), event.standing)
        except errors.ProtocolError as error:
            found = error
        if judge is not None and found is None:
            self.ask(event, answer, judge)
            return
        if judge is not None and found is not None and (refusal := judge(found)) is not None:
            answer.refuse(refusal)
            return
        self._change(ledger_id, event, answer)
        if isinstance(found, str):  # the opening may have made the ledger known
            vouching.owner_of(self._memory.find(ledger_id), event.standing)

    def ask(
        self,
        event: admission.OpenWanted,
        answer: ItemAnswer,
        judge: errors.OwnerJudge | None = None,
    ) -> None:
        """Open a ledger of which metadata must be asked first: what it is, or whose."""
        opening = event.opening
        if (crowded := self._capacity.crowded(opening.ledger_id)) is not None:
            answer.refuse(crowded)
            return

        def begin(turn: StoreTurn) -> None:
            self._begin(self._answered(event, answer, turn, judge), answer)

        peer, size_bytes = answer.replies.peer, openings.memory_of(opening)
        try:
            self._store_reads.enter(peer, begin, answer.refuse, size_bytes=size_bytes)
        except errors.ProtocolError as error:
            answer.refuse(error)

    async def _answered(
        self,
        event: admission.OpenWanted,
        answer: ItemAnswer,
        turn: StoreTurn,
        judge: errors.OwnerJudge | None,
    ) -> None:
        ledger_id, token = event.opening.ledger_id, event.opening.create_token
        try:
            standing = await self._store_reads.answer(
                turn, lambda: self._standing(ledger_id), found=vouching.stands
            )
        except errors.ProtocolError as error:
            refusal = error if judge is None else judge(error)
            if refusal is not None:
                answer.refuse(refusal)
            else:  # owners are only warned of; what the ledger is may be known here
                self._change(ledger_id, event, answer)
            return
        buried = self._memory.buried(ledger_id, token)
        self.decide(replace(event, buried=buried, standing=standing), answer, judge)

    async def owner(self, ledger_id: LedgerId, peer: object, *, also_unknown: bool) -> str:
        """Give the principal that a ledger belongs to; "": it has no owner.

        ``peer`` causes the read, if metadata must be read. See ``service.BookieService.owner``.
        """
        ledger = self._memory.find(ledger_id)
        is_known = ledger.admitted.master_key is not None
        if not is_known and not also_unknown:
            return ""
        if (owner := vouching.owner_of(ledger)) is not None:
            return owner
        # All callers share this peer. One that asks for a ledger that is here is no stranger, also
        # if the ledger was deleted: else it would slow down the others.
        standing = await self._store_reads.read(
            peer,
            lambda: self._standing(ledger_id),
            found=lambda says: is_known or vouching.stands(says),
        )
        return vouching.owner_of(self._memory.find(ledger_id), standing) or ""
