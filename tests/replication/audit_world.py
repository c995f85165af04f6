"""Auditors on the world of zones and watches: ledgers are metadata, and bookies answer nothing.

What an auditor needs of a bookie (its entries, its disks) is in the tests with real bookies.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable, Sequence

from tests.replication import gate_world
from tests.replication.gate_world import SECOND, GateWorld
from tests.support import playing
from zonekeeper.client.api.client import Surroundings
from zonekeeper.client.base.counters import ClientCounters
from zonekeeper.client.bookies.link_pool import LinkFactory, LinkPool
from zonekeeper.metadata.bookies import bookie_records
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats.ledger_metadata import Fragment, LedgerMetadata, LedgerState
from zonekeeper.metadata.ledgers import ledgers, underreplication
from zonekeeper.placement.base.digests import Digest
from zonekeeper.placement.base.ids import NO_ENTRY, BookieId, EntryId, LedgerId
from zonekeeper.placement.policy.rules import Policy
from zonekeeper.replication.audit.auditor import Auditor
from zonekeeper.replication.view.view import View
from zonekeeper.wire.contract.links import OwnedLink


class Nowhere:
    """A ``link_pool.LinkFactory`` that finds no bookie."""

    async def find(self, bookie_id: BookieId) -> str | None:
        return None

    def make(self, bookie_id: BookieId, address: str) -> OwnedLink:
        raise AssertionError(f"{bookie_id} was not found")


class AuditorProcess:
    """One process that stands for auditor."""

    def __init__(self, world: GateWorld, name: str, links: LinkFactory | None = None) -> None:
        self.store = world.open()
        self.cluster = Cluster(self.store, world.cluster.root, world.cluster.instance)
        self.view = View(self.cluster)
        self.auditor = Auditor(
            self.cluster,
            self.view,
            LinkPool(links or Nowhere(), ClientCounters()),
            name=BookieId(name),
            surroundings=Surroundings(random.Random(name), world.wall_ms),
        )
        self.metrics = self.auditor.metrics
        self._tasks = [
            world.tasks.create_task(self.view.follow()),
            world.tasks.create_task(self.auditor.run()),
        ]

    async def kill(self) -> None:
        """End the process; its session runs out like that of any that was killed."""
        self.store.cut()
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)


class AuditWorld:
    """A world with ledgers, and auditors over it."""

    def __init__(self, gates: GateWorld) -> None:
        self.gates = gates
        self.cluster = gates.cluster
        self.auditors: list[AuditorProcess] = []

    async def audited_by(self, name: str, links: LinkFactory | None = None) -> AuditorProcess:
        process = AuditorProcess(self.gates, name, links)
        self.auditors.append(process)
        await self.gates.wait(SECOND)
        return process

    async def add_ledger(
        self,
        ledger_id: int,
        *ensembles: Sequence[str],
        closed: bool = True,
        write: int | None = None,
    ) -> LedgerId:
        """Create a ledger; each fragment but the last has ten entries, and so has a closed one."""
        fragments = tuple(
            Fragment(EntryId(10 * at), tuple(map(BookieId, ensemble)))
            for at, ensemble in enumerate(ensembles)
        )
        size = len(ensembles[0])
        metadata = LedgerMetadata(
            ensemble_size=size,
            write_quorum=write or size,
            ack_quorum=min(2, size),
            fragments=fragments,
            digest=Digest.CRC32C,
            password=b"",
            state=LedgerState.CLOSED if closed else LedgerState.OPEN,
            last_entry=EntryId(10 * len(fragments) - 1) if closed else NO_ENTRY,
            create_token=ledger_id + 1,
        )
        await ledgers.create(self.cluster, metadata, ledger_id=LedgerId(ledger_id))
        return LedgerId(ledger_id)

    async def repaired(self, ledger_id: int, old: str, new: str) -> None:
        """Do what a replicator does to metadata: another bookie for a lost one, and no mark."""

        def swap(ledger: LedgerMetadata) -> LedgerMetadata:
            members = {BookieId(old): BookieId(new)}
            fragments = tuple(
                Fragment(each.first_entry, tuple(members.get(one, one) for one in each.ensemble))
                for each in ledger.fragments
            )
            return replaced(ledger, fragments)

        await ledgers.change(self.cluster, LedgerId(ledger_id), swap)
        claim = await underreplication.claim(self.cluster, LedgerId(ledger_id), BookieId("worker"))
        assert claim is not None
        assert await underreplication.finish(self.cluster, claim)

    async def marks(self) -> dict[int, list[str]]:
        """Give the marked ledgers, each with the bookies of its mark."""
        found: dict[int, list[str]] = {}
        async for ledger_id in underreplication.ids(self.cluster):
            mark = await underreplication.read(self.cluster, ledger_id)
            found[ledger_id] = [] if mark is None else sorted(mark.replicas)
        return found

    async def written_off(self, bookies: Iterable[str]) -> list[str]:
        records = {
            name: await bookie_records.read(self.cluster, BookieId(name)) for name in bookies
        }
        return [name for name, record in records.items() if record.written_off]


def replaced(ledger: LedgerMetadata, fragments: tuple[Fragment, ...]) -> LedgerMetadata:
    return LedgerMetadata(
        ensemble_size=ledger.ensemble_size,
        write_quorum=ledger.write_quorum,
        ack_quorum=ledger.ack_quorum,
        fragments=fragments,
        digest=ledger.digest,
        password=ledger.password,
        state=ledger.state,
        last_entry=ledger.last_entry,
        length=ledger.length,
        create_token=ledger.create_token,
    )


def play(
    scenario: Callable[[AuditWorld], Awaitable[None]],
    *,
    rules: Policy | None = None,
    per_zone: int = 4,
    audited: bool = True,
) -> None:
    """Play a scenario; a zone watch and an auditor are at work, unless told otherwise."""

    async def staged(gates: GateWorld) -> None:
        world = AuditWorld(gates)
        if audited:
            await world.audited_by("auditor-1")
        await scenario(world)
        for process in world.auditors:
            await process.kill()

    gate_world.play(staged, rules=rules, per_zone=per_zone)


played = playing.by(play)
