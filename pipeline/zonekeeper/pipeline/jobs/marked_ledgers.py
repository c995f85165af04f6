"""The marked ledgers: listed by the marks' own prefix, counted before a repair and after it.

The metadata of ledgers that are not marked is not read. While the store is out of reach a listing
waits, and goes on behind the last ledger that it gave. Of the ids at most ``MARKS_MAX`` are kept,
eight bytes each. Ledgers behind them are left to the next run.
"""

from array import array
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Final

from zonekeeper.client.api.client import Client
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats.malformed import UnreadableError
from zonekeeper.metadata.formats.underreplication_format import Underreplicated
from zonekeeper.metadata.ledgers import ledgers, underreplication
from zonekeeper.metadata.ledgers.ledgers import StoredLedger
from zonekeeper.metadata.store.background import together
from zonekeeper.metadata.store.errors import StoreError
from zonekeeper.pipeline.planning.id_ranges import IdRange
from zonekeeper.pipeline.planning.repair_holds import RepairHolds
from zonekeeper.pipeline.reports.repair_preflight import RepairPreflight
from zonekeeper.placement.base.ids import BookieId, LedgerId
from zonekeeper.placement.base.topology import Topology
from zonekeeper.replication.decisions import preflight
from zonekeeper.replication.decisions.preflight import Tally
from zonekeeper.replication.view import listing, usage
from zonekeeper.replication.view.view import View

#: A run takes at most so many marked ledgers: 16 MB of ids.
MARKS_MAX: Final = 1 << 21
#: At the end marks are counted up to this number.
LEFT_MAX: Final = 100_000
_IN_FLIGHT: Final = underreplication.READS_IN_FLIGHT_MAX
_TELL_EVERY: Final = 10_000


async def ids(cluster: Cluster, wanted: IdRange) -> AsyncGenerator[LedgerId, None]:
    """List the marked ledgers of a range; waits while the store cannot be reached."""
    first, last = wanted
    while first <= last:
        try:
            # After a read that is in step with the store no later read shows an older state.
            await cluster.store.exists(cluster.root.path, sync=True)
            async with aclosing(underreplication.ids(cluster, first=first, last=last)) as marked:
                async for one in marked:
                    first = LedgerId(one + 1)
                    yield one
        except StoreError as error:
            await listing.pause(error, f"the listing of marks from ledger {first} on")
        else:
            return


async def listed(cluster: Cluster, wanted: IdRange, most: int = MARKS_MAX) -> "array[int]":
    """Give the first marked ledgers of a range."""
    found = array("q")
    async with aclosing(ids(cluster, wanted)) as marked:
        async for one in marked:
            if len(found) == most:
                break
            found.append(one)
    return found


async def left(cluster: Cluster, wanted: IdRange, most: int = LEFT_MAX) -> int:
    """Count the ledgers of a range whose mark names a bookie, up to ``most``."""
    count = 0
    async with aclosing(_in_portions(cluster, wanted)) as portions:
        async for portion in portions:
            marks = await together(_mark(cluster, one) for one in portion)
            count += sum(
                isinstance(mark, UnreadableError) or (mark is not None and bool(mark.replicas))
                for mark in marks
            )
            if count >= most:
                return most
    return count


async def measure(
    client: Client,
    view: View,
    holds: RepairHolds,
    wanted: IdRange,
    bytes_per_second: int,
    counted: Callable[[int], None],
) -> RepairPreflight:
    """Count what a repair of the marked ledgers would copy; no entry is read.

    ``counted`` is called now and then with the number of ledgers that were looked at.
    """
    # A repair that is refused would copy all of this after a release.
    copied = holds.lost if holds.refusal is not None else holds.lost - holds.held.keys()
    seen = _Seen(holds, view.topology, Tally(copied, view.topology))
    number = 0
    async with aclosing(_in_portions(client.cluster, wanted)) as portions:
        async for portion in portions:
            for mark, ledger in await together(_look(client.cluster, one) for one in portion):
                seen.add(mark, ledger)
            number += len(portion)
            if number // _TELL_EVERY != (number - len(portion)) // _TELL_EVERY:
                counted(number)
    there = Topology(bookie for bookie in view.topology if bookie.readable)
    infos = await usage.survey(client.bookies.pool, [bookie.id for bookie in there])
    return RepairPreflight(
        marked=seen.marked,
        held=seen.held,
        doubted=seen.doubted,
        unresolved=seen.unresolved,
        spread=seen.spread,
        unmarked=tuple(sorted(copied - seen.named)),
        holds={bookie: held.text for bookie, held in holds.held.items() if bookie in holds.lost},
        counted=preflight.judge(
            seen.tally.work,
            copied & seen.named,
            usage.by_zone(there, infos, rules=view.policy.placement),
            processes=1,
            process_bytes_per_second=bytes_per_second,
        ),
    )


@dataclass(slots=True)
class _Seen:
    holds: RepairHolds
    topology: Topology
    tally: Tally
    marked: int = 0
    held: int = 0
    doubted: int = 0
    unresolved: int = 0
    spread: int = 0
    named: set[BookieId] = field(default_factory=set)

    def add(
        self,
        mark: Underreplicated | UnreadableError | None,
        ledger: StoredLedger | UnreadableError | None,
    ) -> None:
        """Take in a ledger with its mark. None: the mark, or the ledger, has gone meanwhile."""
        if mark is None or ledger is None:
            return
        if isinstance(mark, UnreadableError):
            self.marked += 1
            self.tally.unreadable()
            return
        if not mark.replicas:
            self.spread += 1
            return
        self.marked += 1
        self.named.update(mark.replicas)
        if self.holds.held.keys() >= set(mark.replicas):
            self.held += 1
            if self.holds.refusal is None:
                return
        known = [self.topology.get(one) for one in mark.replicas]
        self.doubted += any(one is not None and one.readable for one in known)
        self.unresolved += None in known
        if isinstance(ledger, UnreadableError):
            self.tally.unreadable()
        else:
            self.tally.add(ledger.metadata)


async def _in_portions(
    cluster: Cluster, wanted: IdRange
) -> AsyncGenerator[Sequence[LedgerId], None]:
    portion: list[LedgerId] = []
    async with aclosing(ids(cluster, wanted)) as marked:
        async for one in marked:
            portion.append(one)
            if len(portion) == _IN_FLIGHT:
                yield portion
                portion = []
    if portion:
        yield portion


async def _look(
    cluster: Cluster, ledger_id: LedgerId
) -> tuple[Underreplicated | UnreadableError | None, StoredLedger | UnreadableError | None]:
    mark = await _mark(cluster, ledger_id)
    try:
        stored = await listing.until_done(
            lambda: ledgers.read(cluster, ledger_id), f"reading ledger {ledger_id}"
        )
    except UnreadableError as error:
        return mark, error
    return mark, stored


async def _mark(cluster: Cluster, ledger_id: LedgerId) -> Underreplicated | UnreadableError | None:
    try:
        return await listing.until_done(
            lambda: underreplication.read(cluster, ledger_id), f"reading mark {ledger_id}"
        )
    except UnreadableError as error:
        return error
