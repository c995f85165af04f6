"""Garbage collection: the bookie forgets a ledger only on positive proof that it was deleted.

Two rounds must prove it, and the second one begins at least a whole interval after the end of the
first. A round proves that a ledger is gone by three readings of the metadata:

1. A look (``Looking``): a write of the bookie's own, and the evidence whether the metadata was set
   back. The readings that follow are of the same session. So they are no older than the write, even
   if this session's server of the store is behind. The bookie knew the ledger before the write.
2. A whole listing does not name the ledger.
3. A direct reading of the ledger's node finds none (``ledgers.proven_deleted``). It also requires
   that the root is whole, that it is the cluster that was opened, and that it is not restored.

In the second round there is one more look after these, and one more direct reading right before the
ledger is forgotten. So no moment is left at which a store that was set back would be believed.

A ledger whose id was given to another ledger is proven deleted, too: the direct reading finds a
node with another create token. Only ledgers are examined that such another one was refused for.

A missing answer is no proof: the round ends, and the next one begins anew. A round that finds the
root restored also drops what earlier rounds proved.

A deletion by a program of ours leaves a record (``deletions``). Many ledgers that are gone without
a record are no deletion, but damage: the round then waits for a person (``held_collections``). Each
of these ledgers waits until a person permits it, or until it is there again: a rebuild puts ledgers
back one by one, and when few of them are left, these few must not go.

A ledger's metadata exists before any bookie gets an entry of the ledger. So a ledger that was known
when the look began, and is not listed, was deleted. A ledger that came later is not examined.

``candidates``, ``ripe`` and ``too_many`` decide; ``Collector`` performs.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final, Protocol

from zonekeeper.metadata.bookies import held_collections
from zonekeeper.metadata.bookies.held_collections import HeldCollection
from zonekeeper.metadata.cluster import restored
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats.malformed import UnreadableError
from zonekeeper.metadata.ledgers import deletions, ledger_listing, ledgers
from zonekeeper.metadata.ledgers.ledger_ids import IdsUsedUpError
from zonekeeper.metadata.store.errors import SessionLostError, StoreError
from zonekeeper.metadata.store.store import SessionId
from zonekeeper.placement.base.ids import BookieId, LedgerId
from zonekeeper.wire.formats.exposition import number

#: So many ledgers, or a tenth of those that the bookie knows if that is more, go in one round
#: without a record of their deletion. More of them wait for a person.
UNRECORDED_MAX: Final = 1_000
_UNRECORDED_SHARE: Final = 10

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Collecting:
    """The settings of garbage collection."""

    every_ms: int = 600_000
    #: The most direct readings of the metadata in a second.
    proofs_per_second: int = 100


class Forgetful(Protocol):
    """The storage that garbage is collected from."""

    def known_ledgers(self) -> list[LedgerId]:
        """Give the ledgers that have a record or an entry on the disk, ascending."""
        ...

    def take_disputed(self) -> dict[LedgerId, int]:
        """Give the ledgers that another one under the same id was refused for, and their tokens."""
        ...

    async def forget(self, ledger_ids: Iterable[LedgerId]) -> None:
        """Forget ledgers for good, durably."""
        ...

    async def reclaim(self) -> None:
        """Begin to free the space of forgotten ledgers."""
        ...


class Looking(Protocol):
    """The witness (``life.witness``)."""

    async def look(self) -> SessionId:
        """Write to the metadata, mark it if it was set back, and give the session of the write."""
        ...


@dataclass(slots=True, kw_only=True)
class CollectionCounters:
    """Counters since the start; none ever falls."""

    rounds: int = number("Rounds of garbage collection that were begun.")
    rounds_failed: int = number("Rounds that ended because the metadata could not be read.")
    rounds_held: int = number("Rounds that did nothing because the root is marked as restored.")
    rounds_waited: int = number(
        "Rounds that collected nothing because too many ledgers are gone without a record."
    )
    unproven: int = number(
        "Ledgers that a listing did not name, and that a second reading did not prove deleted."
    )
    forgotten: int = number("Deleted ledgers that were collected.")


@dataclass(slots=True, kw_only=True)
class CollectionState:
    """What the last round found."""

    restored: int = number("1 if the last round found the root marked as restored, else 0.")
    waiting_ledgers: int = number(
        "Ledgers that are gone without a record, and wait for a person's word."
    )


# ── deciding ──


async def candidates(known: Iterable[LedgerId], listed: AsyncIterator[LedgerId]) -> list[LedgerId]:
    """Give the known ledgers that a whole listing does not name; both are ascending."""
    missing: list[LedgerId] = []
    rest = iter(known)
    at = next(rest, None)
    async for ledger_id in listed:
        while at is not None and at < ledger_id:
            missing.append(at)
            at = next(rest, None)
        if at == ledger_id:
            at = next(rest, None)
    if at is not None:
        missing += [at, *rest]
    return missing


def ripe(
    gone: Iterable[LedgerId], proven_ms: Mapping[LedgerId, int], *, begun_ms: int, every_ms: int
) -> list[LedgerId]:
    """Give those of the ledgers that are gone that a round proved gone a whole interval before.

    ``proven_ms`` says when the first such round ended, ``begun_ms`` when the present one began.
    """
    return [one for one in gone if one in proven_ms and begun_ms - proven_ms[one] >= every_ms]


def too_many(unrecorded: int, known: int) -> bool:
    """Are so many of the known ledgers gone without a record that a person must say so?"""
    return unrecorded > max(UNRECORDED_MAX, known // _UNRECORDED_SHARE)


# ── doing ──


class Collector:
    """Collects garbage from time to time."""

    def __init__(
        self,
        cluster: Cluster,
        bookie: BookieId,
        storage: Forgetful,
        witness: Looking,
        settings: Collecting,
        *,
        wall_ms: Callable[[], int],
    ) -> None:
        self.counters = CollectionCounters()
        self.state = CollectionState()
        self._cluster = cluster
        self._bookie = bookie
        self._storage = storage
        self._witness = witness
        self._settings = settings
        self._wall_ms = wall_ms
        self._one_at_a_time = asyncio.Lock()
        #: For each ledger that the last whole round proved gone: when a round proved it first.
        self._proven_ms: dict[LedgerId, int] = {}
        #: Ledgers whose id may have been given to another ledger, and the tokens known here.
        self._disputed: dict[LedgerId, int] = {}
        #: The ledgers that a person was asked about last.
        self._asked = frozenset[LedgerId]()
        #: The same; if an earlier start asked, all the ledgers that its question may name.
        self._named = frozenset[LedgerId]()
        #: False: the bookie has no question in the metadata. An earlier start may have left one.
        self._may_have_asked = True

    async def run(self) -> None:
        """Do rounds until cancelled; raises the storage's error when its disk fails."""
        while True:
            await asyncio.sleep(self._settings.every_ms / 1_000)
            await self.round()

    async def round(self) -> int:
        """Forget the ledgers that are proven deleted for the second time, and give their number."""
        async with self._one_at_a_time:
            self.counters.rounds += 1
            before, began_ms = self.counters.forgotten, _now_ms()
            try:
                await self._round()
            except (StoreError, UnreadableError, IdsUsedUpError) as error:
                self.counters.rounds_failed += 1
                _logger.warning("garbage collection ends early, and will begin anew: %s", error)
            count = self.counters.forgotten - before
            if count:
                took_ms = _now_ms() - began_ms
                _logger.info(
                    "collected %d deleted ledgers in %d ms; their room comes back by compaction",
                    count,
                    took_ms,
                    extra={"ledgers": count, "duration_ms": took_ms},
                )
                await self._storage.reclaim()
            return count

    async def _round(self) -> None:
        # The ledgers must be known before the write, and the write must come before the listing.
        begun_ms, known = _now_ms(), self._storage.known_ledgers()
        self._disputed |= self._storage.take_disputed()
        session = await self._witness.look()
        if await self._is_restored():
            return
        missing = await candidates(known, ledger_listing.ids(self._cluster))
        examined = sorted({*missing, *self._disputed.keys() & set(known)})
        gone = [one for one in examined if await self._is_gone(one, session)]
        self._disputed = {one: token for one, token in self._disputed.items() if one in set(gone)}
        due = ripe(gone, self._proven_ms, begun_ms=begun_ms, every_ms=self._settings.every_ms)
        self._proven_ms = {one: self._proven_ms.get(one, _now_ms()) for one in gone}
        question = await self._question(gone)
        allowed = await self._allowed(due, len(known), question)
        if allowed:
            await self._collect(allowed, session)
        if self._named.isdisjoint(set(gone) - set(allowed)):
            await self._asks_no_more()

    async def _collect(self, allowed: Collection[LedgerId], session: SessionId) -> None:
        if await self._witness.look() != session or await self._is_restored():
            return
        for ledger_id in allowed:
            if await self._is_gone(ledger_id, session):
                await self._storage.forget([ledger_id])
                self.counters.forgotten += 1
            self._proven_ms.pop(ledger_id, None)

    async def _is_restored(self) -> bool:
        stands = await restored.read(self._cluster) is not None
        if stands and not self.state.restored:
            _logger.warning("nothing is collected while the root is marked as restored")
        self.state.restored = int(stands)
        if stands:
            self.counters.rounds_held += 1
            self._proven_ms.clear()
        return stands

    async def _is_gone(self, ledger_id: LedgerId, session: SessionId) -> bool:
        """Read the ledger's node itself, in the session of the look."""
        await asyncio.sleep(1 / self._settings.proofs_per_second)
        proven = await ledgers.proven_deleted(self._cluster, ledger_id)
        if not proven and (token := self._disputed.get(ledger_id)) is not None:
            proven = await ledgers.proven_replaced(self._cluster, ledger_id, token)
        if self._cluster.store.session.id != session:
            raise SessionLostError(
                "the session ended during a round", store=self._cluster.store.name
            )
        self.counters.unproven += not proven
        return proven

    async def _question(self, gone: Iterable[LedgerId]) -> HeldCollection | None:
        """Give the question that stands; find the ledgers that one of an earlier start may name."""
        if not self._may_have_asked:
            return None
        question = await held_collections.read(self._cluster, self._bookie)
        if question is not None and not self._named:
            self._named = frozenset(one for one in gone if question.first <= one <= question.last)
        return question

    async def _allowed(
        self, due: Collection[LedgerId], known: int, question: HeldCollection | None
    ) -> Collection[LedgerId]:
        """Give the ledgers that may go now: all that are due, or none while a person is asked."""
        unrecorded: AbstractSet[LedgerId] = frozenset()
        if self._named or too_many(len(due), known):
            unrecorded = set(due) - await deletions.recorded(self._cluster, due)
        unrecorded = unrecorded - self._permitted(unrecorded, question)
        waits = question is not None and question.permit is None and unrecorded & self._named
        if waits or too_many(len(unrecorded), known):
            self.counters.rounds_waited += 1
            self.state.waiting_ledgers = len(unrecorded)
            await self._ask(unrecorded, known)
            return ()
        self.state.waiting_ledgers = 0
        return due

    def _permitted(
        self, unrecorded: AbstractSet[LedgerId], question: HeldCollection | None
    ) -> AbstractSet[LedgerId]:
        """Give the ledgers that a person permitted to collect."""
        if question is not None and question.permit is not None:
            for asked in (self._asked, unrecorded):
                if held_collections.digest_of(asked) == question.digest:
                    return asked
        return frozenset()

    async def _ask(self, unrecorded: AbstractSet[LedgerId], known: int) -> None:
        asked = HeldCollection(
            at_ms=self._wall_ms(),
            ledgers=len(unrecorded),
            known=known,
            first=min(unrecorded),
            last=max(unrecorded),
            digest=held_collections.digest_of(unrecorded),
        )
        self._may_have_asked = True
        self._asked = self._named = frozenset(unrecorded)
        await held_collections.ask(self._cluster, self._bookie, asked)
        _logger.error(
            "%d of %d ledgers are gone from the metadata without a record of their deletion, the "
            "first %d, the last %d. Nothing is collected until a person permits it: see "
            "`zonekeeper metadata collections`",
            asked.ledgers,
            known,
            asked.first,
            asked.last,
        )

    async def _asks_no_more(self) -> None:
        """Remove the question, if there is one and nothing waits."""
        if self._may_have_asked and not self.state.waiting_ledgers:
            await held_collections.done(self._cluster, self._bookie)
            self._asked = self._named = frozenset()
            self._may_have_asked = False


def _now_ms() -> int:
    return round(asyncio.get_running_loop().time() * 1_000)
