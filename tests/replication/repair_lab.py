"""A small real cluster (``tests.client.lab``) with gates, and a repairer at work in it.

Gates are records in the store, as a zone watch writes them: their evaluation counters move, and a
test says what they permit.
"""

import asyncio
import dataclasses
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from tests.client.lab import Lab, play, policy
from tests.support import playing
from zonekeeper.client.api.client import Client
from zonekeeper.client.api.writer import Writer
from zonekeeper.client.base.config import ClientConfig
from zonekeeper.metadata.cluster import zone_store
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats.ledger_metadata import LedgerMetadata
from zonekeeper.metadata.ledgers import ledgers, underreplication
from zonekeeper.metadata.store.background import TasksBeside, alongside
from zonekeeper.placement.base.digests import Digest
from zonekeeper.placement.base.ids import BookieId, EntryId, LedgerId, ZoneName
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.placement.base.units import SECOND_MS
from zonekeeper.placement.policy.rules import Policy, RepairRules
from zonekeeper.placement.zones.freeze import ClusterObservation, ClusterObserved
from zonekeeper.placement.zones.gate import Gate, Permission, Token
from zonekeeper.placement.zones.losses import HeldBy
from zonekeeper.placement.zones.observation import Observation, ZoneObservation
from zonekeeper.placement.zones.zone_counts import Count
from zonekeeper.placement.zones.zone_records import ClusterRecord, ZoneRecord
from zonekeeper.replication.repair.repair_metrics import RepairTrouble
from zonekeeper.replication.repair.repairing import Attempt, Repairer
from zonekeeper.replication.view.view import View
from zonekeeper.wire.contract import service
from zonekeeper.wire.formats import digests, entries, errors, frames

ZONES = ("a", "b", "c")
#: The least that the policy's other times allow.
DELAY_MS = 21 * SECOND_MS
STRIPED = Quorums(ensemble=6, write=3, ack=2, ack_zones=2)
NAME = BookieId("worker")
#: Of all ledgers here, so that repairs and audits must prove a key.
PASSWORD = b"secret"
KEY = digests.master_key(PASSWORD)


def rules(*, repair: RepairRules | None = None, quorums: Quorums | None = None) -> Policy:
    """Give the rules of the cluster: nothing is paced unless a test says so, and what is lost is
    lost soon.
    """
    given = policy(quorums)
    watched = dataclasses.replace(given.zone_watch, suspect_for_ms=SECOND_MS)
    free = RepairRules(bytes_per_second=0, respread_bytes_per_second=0)
    soon = dataclasses.replace(repair or free, bookie_recovery_delay_ms=DELAY_MS)
    return dataclasses.replace(given, zone_watch=watched, repair=soon)


class Gates:
    """What a zone watch has written, by a test's hand."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._held: set[str] = set()
        self._evaluation = 0

    async def run(self, every_s: float = 5) -> None:
        """Let the counters move."""
        while True:
            await self._write()
            await asyncio.sleep(every_s)

    def written_by(self, cluster: Cluster) -> None:
        """Write in another session from now on, as a zone watch elsewhere does."""
        self._cluster = cluster

    async def hold(self, zone: str) -> None:
        self._held.add(zone)
        await self._write()

    async def hold_alone(self, name: str) -> None:
        """Hold a zone, or the cluster (``-``), by a write to its record and no other one."""
        self._held.add(name)
        if name == "-":
            await zone_store.change_cluster(
                self._cluster, lambda one: one and dataclasses.replace(one, gate=self._gate(name))
            )
        else:
            await zone_store.change_zone(
                self._cluster,
                ZoneName(name),
                lambda one: one and dataclasses.replace(one, gate=self._gate(name)),
            )

    async def open(self, zone: str) -> None:
        self._held.discard(zone)
        await self._write()

    async def _write(self) -> None:
        self._evaluation += 1
        for zone in ZONES:
            name = ZoneName(zone)
            await zone_store.change_zone(self._cluster, name, self._always(self._zone(name)))
        calm = ClusterObserved(state=ClusterObservation.CALM, reason="the test's", since_wall_ms=0)
        whole = ClusterRecord(
            evaluation=self._evaluation, evidence=Count(), observed=calm, gate=self._gate("-")
        )
        await zone_store.change_cluster(self._cluster, lambda _: whole)

    @staticmethod
    def _always(record: ZoneRecord) -> Callable[[ZoneRecord | None], ZoneRecord]:
        return lambda _: record

    def _zone(self, zone: ZoneName) -> ZoneRecord:
        state = Observation.DOWN if zone in self._held else Observation.UP
        return ZoneRecord(
            zone=zone,
            evaluation=self._evaluation,
            evidence=Count(),
            observed=ZoneObservation(state=state, reason="the test's", since_wall_ms=0),
            gate=self._gate(zone),
        )

    def _gate(self, name: str) -> Gate:
        held = name in self._held
        return Gate(
            permission=Permission.HELD if held else Permission.OPEN,
            set_by="test",
            reason="the test's",
            since_wall_ms=0,
            token=Token(f"incident-{name}") if held else None,
            real=held,
        )


class Bench:
    """A repairer, and what a test does around it."""

    def __init__(
        self, lab: Lab, client: Client, gates: Gates, view: View, tasks: TasksBeside
    ) -> None:
        self.lab = lab
        self.client = client
        self.cluster = client.cluster
        self.gates = gates
        self.view = view
        self.tasks = tasks
        self.repairer = Repairer(client, view, name=NAME, chance=random.Random(7))
        self.metrics = self.repairer.metrics

    # ── what happens ──

    async def written(
        self,
        count: int = 20,
        *,
        quorums: Quorums | None = None,
        digest: Digest | None = None,
        size: int = 100,
        closed: bool = True,
    ) -> Writer:
        """A ledger of the test's own client."""
        writer = await self.client.create(quorums=quorums, digest=digest, password=PASSWORD)
        for number in range(count):
            await writer.append(payload(number, size))
        await writer.flush()
        await asyncio.sleep(0.2)  # for the bookies that the ack quorum did not wait for
        if closed:
            await writer.close()
        self.lab.writers.append(writer)
        return writer

    async def lose(self, *bookies: BookieId) -> None:
        """Bookies lose power, and every view shows that they are lost."""
        await self.miss(*bookies)
        await asyncio.sleep(DELAY_MS / SECOND_MS)
        await self.until(lambda: all(self._lost(bookie) for bookie in bookies))

    async def miss(self, *bookies: BookieId) -> None:
        """Bookies lose power, and it is not known for how long."""
        for bookie in bookies:
            await self.lab.machines[bookie].crash()
        await self.until(lambda: all(bookie in self.view.missing for bookie in bookies))

    def _lost(self, bookie: BookieId) -> bool:
        held = self.view.what_holds_anew(bookie)
        return held is None or held.by not in (HeldBy.RECOVERY_DELAY, HeldBy.NOT_EVALUATED)

    def see_nothing_new(self) -> None:
        """Let the view stay as it is, as where its watches are late."""
        self.view._look = lambda: None  # type: ignore[method-assign]  # as late watches do

    async def bring_back(self, bookie: BookieId) -> None:
        await self.lab.machines[bookie].start()
        await self.until(lambda: bookie not in self.view.missing)

    async def hold(self, zone: str) -> None:
        await self.gates.hold(zone)
        await self.until(lambda: not self.view.zones[ZoneName(zone)].gate.permits)

    async def open(self, zone: str) -> None:
        await self.gates.open(zone)
        await self.until(lambda: self.view.zones[ZoneName(zone)].gate.permits)

    async def mark(self, ledger_id: LedgerId, *bookies: BookieId) -> None:
        await underreplication.mark(self.cluster, ledger_id, bookies, at_ms=0)

    async def attempt(self, ledger_id: LedgerId, *bookies: BookieId) -> Attempt:
        """Mark a ledger, and let the repairer try."""
        await self.mark(ledger_id, *bookies)
        return await self.repairer.attempt(ledger_id)

    async def until(self, holds: Callable[[], bool]) -> None:
        for _ in range(1_000):
            if holds():
                return
            await asyncio.sleep(0.05)
        raise AssertionError("it does not hold within 50 s")

    # ── what is to be seen ──

    def zone(self, bookie: BookieId) -> str:
        location = self.view.topology.location(bookie)
        assert location is not None
        return location.zone

    async def ensemble(self, ledger_id: LedgerId) -> tuple[BookieId, ...]:
        """The bookies of the last fragment."""
        return (await self.ledger(ledger_id)).last_fragment.ensemble

    async def ledger(self, ledger_id: LedgerId) -> LedgerMetadata:
        stored = await ledgers.read(self.cluster, ledger_id, sync=True)
        assert stored is not None
        return stored.metadata

    async def marked(self, ledger_id: LedgerId) -> tuple[BookieId, ...] | None:
        mark = await underreplication.read(self.cluster, ledger_id)
        return None if mark is None else mark.replicas

    async def claimed(self) -> list[LedgerId]:
        return [one.ledger_id for one in await underreplication.held(self.cluster)]

    def moved(self) -> Counter[tuple[str, str, str]]:
        """Bytes moved by (source zone, target zone, cause)."""
        return Counter({(*route,): size for route, size in self.metrics.bytes_moved.items()})

    async def lacks(self, ledger_id: LedgerId, size: int = 100) -> list[tuple[BookieId, EntryId]]:
        """Give the copies that metadata promises and that are not there, or are not right."""
        ledger = await self.ledger(ledger_id)
        sealer = entries.Sealer(ledger_id, ledger.digest, ledger.password)
        quorums = Quorums(
            ensemble=ledger.ensemble_size, write=ledger.write_quorum, ack=ledger.ack_quorum
        )
        wrong = []
        for number in map(EntryId, range(ledger.last_entry + 1)):
            fragment = ledger.fragment_of(number)
            for position in quorums.write_set(number):
                bookie = fragment.ensemble[position]
                packet = await packet_at(self.lab, bookie, ledger_id, number)
                try:
                    entry = None if packet is None else sealer.open(packet, number)
                except entries.EntryError:
                    entry = None
                if entry is None or entry.payload != payload(number, size):
                    wrong.append((bookie, number))
        return wrong


async def packet_at(
    lab: Lab, bookie: BookieId, ledger_id: LedgerId, number: EntryId
) -> memoryview | None:
    """Give an entry's packet as a bookie has it; None: it is down, or has none."""
    machine = lab.machines[bookie]
    if machine.door is None:
        return None
    request = service.ReadRequest(
        ledger_id=ledger_id,
        first_entry_id=number,
        last_entry_id=number,
        bytes_max=1,
        key=KEY,
    )
    try:
        reply = await machine.door.bookie.read(request)
    except errors.ProtocolError:
        return None
    return next((packet for frame in reply.frames for _, packet in frame), None)


def payload(number: int, size: int = 100) -> bytes:
    return b"entry %d " % number + b"." * size


def troubles(attempt: Attempt) -> list[RepairTrouble]:
    return [obstacle.trouble for obstacle in attempt.obstacles]


@asynccontextmanager
async def bench(lab: Lab, name: str = "repairer", zone: str = "a") -> AsyncIterator[Bench]:
    """Run a repairer's process beside the block, in a zone."""
    async with lab.client(name, ClientConfig(zone=ZoneName(zone))) as client:
        gates, view = Gates(client.cluster), View(client.cluster)
        async with alongside(gates.run(), view.follow()) as tasks:
            await view.known()
            made = Bench(lab, client, gates, view, tasks)
            await made.until(lambda: view.what_holds(None) is None)
            yield made


def play_repair(
    scenario: Callable[[Bench], Awaitable[None]],
    *,
    given: Policy | None = None,
    bookies_in: dict[str, int] | None = None,
) -> None:
    """Play a scenario with one repairer."""

    async def staged(lab: Lab) -> None:
        async with bench(lab) as made:
            await scenario(made)

    play(staged, rules=given or rules(), bookies_in=bookies_in)


played = playing.by(play_repair)


async def lost_one(bench: Bench, count: int = 20) -> tuple[Writer, BookieId]:
    """A closed ledger that has lost its first bookie."""
    writer = await bench.written(count)
    lost = writer.ensemble[0]
    await bench.lose(lost)
    return writer, lost


async def go_on_elsewhere(writer: Writer, number: int) -> None:
    """Append two entries: with the first a writer finds out what it has lost, with the second it
    finds others."""
    before = writer.ensemble
    for each in (number, number + 1):
        await writer.append(payload(each))
        await writer.flush()
        await asyncio.sleep(0.5)
    assert writer.ensemble != before


def spoiled(reply: service.ReadReply) -> service.ReadReply:
    """Flip a bit in the payload of each entry: the frame is whole, the digests are wrong."""

    def spoil(packet: bytes) -> bytes:
        return packet[:-1] + bytes([packet[-1] ^ 1])

    bad = tuple(
        frames.build(
            frame.ledger_id,
            frame.entry_ids,
            [spoil(bytes(packet)) for _, packet in frame],
            frame.flags,
        )
        for frame in reply.frames
    )
    return dataclasses.replace(reply, frames=bad)


def without_entry_three(reply: service.ReadReply) -> service.ReadReply:
    parts = [frame.subset(frozenset(frame.entry_ids) - {EntryId(3)}) for frame in reply.frames]
    return dataclasses.replace(reply, frames=tuple(part for part in parts if part is not None))


def cut_short(reply: service.ReadReply) -> service.ReadReply:
    """Give the first three entries of a reply, as a bookie does that has room for no more."""
    ids = [number for frame in reply.frames for number in frame.entry_ids]
    if len(ids) <= 3:
        return reply
    fitting = frozenset(ids[:3])
    parts = [frame.subset(fitting & frozenset(frame.entry_ids)) for frame in reply.frames]
    return dataclasses.replace(
        reply,
        frames=tuple(part for part in parts if part is not None),
        next_entry_id=EntryId(ids[2] + 1),
    )
