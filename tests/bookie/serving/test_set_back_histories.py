"""Drawn histories: bookies collect while their metadata is set back, cleared, and goes on.

The world is small and whole: one store, two bookies with real witnesses and collectors, and
storages that are sets of ids. A ledger is created, deleted, or vanishes because the store is set
back to a copy of an earlier moment. A bookie restarts, or does a round. A person clears the mark.
Before the store is set back a minute has passed, so each bookie has looked at it since.

The judge knows what really happened. A bookie may forget a ledger only if the ledger was deleted,
or if a person cleared the mark after the ledger was lost. No id is given twice.
"""

import asyncio
import copy
import enum
import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import pytest

from tests.support import virtual_time
from zonekeeper.bookie.disk.disks import InlineDisk
from zonekeeper.bookie.disk.memory_files import MemoryFileSystem
from zonekeeper.bookie.life.witness import Witness
from zonekeeper.bookie.serving.collecting import Collecting, Collector
from zonekeeper.metadata.bookies import bookie_records
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.cluster import evidence, policy_store, restored
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.cluster.evidence import Accepted
from zonekeeper.metadata.formats.ledger_metadata import Fragment, LedgerMetadata
from zonekeeper.metadata.ledgers import ledger_ids, ledgers
from zonekeeper.metadata.ledgers.deletions import Deleter
from zonekeeper.metadata.store.errors import NodeExistsError
from zonekeeper.metadata.stores.memory import MemoryStore
from zonekeeper.metadata.stores.memory_server import MemoryServer
from zonekeeper.placement.base.digests import Digest
from zonekeeper.placement.base.ids import BookieId, EntryId, LedgerId, ZoneName
from zonekeeper.placement.policy.rules import PlacementRules, Policy

INSTANCE: Final = "d58c3de9-d9c6-429e-be20-474dcad4d089"
NAMES: Final = (BookieId("bk-a-0"), BookieId("bk-b-0"))
POLICY: Final = Policy(placement=PlacementRules(zones=(ZoneName("a"), ZoneName("b"))))
EVERY: Final = Collecting(every_ms=10, proofs_per_second=1_000_000)
NEW: Final = LedgerMetadata(
    ensemble_size=1,
    write_quorum=1,
    ack_quorum=1,
    fragments=(Fragment(EntryId(0), NAMES[:1]),),
    digest=Digest.CRC32C,
    password=b"secret",
    create_token=9,
)
SEEDS: Final = 40
SEEDS_LONG: Final = 3_000
STEPS: Final = 60


class Step(enum.Enum):
    CREATE = "create"
    DELETE = "delete"
    ROUND = "round"
    LOOK = "look"
    RESTART = "restart"
    SET_POLICY = "set the policy"
    COPY = "copy the store"
    SET_BACK = "set the store back"
    CLEAR = "clear the mark"


WEIGHTS: Final = {
    Step.CREATE: 8,
    Step.DELETE: 3,
    Step.ROUND: 14,
    Step.LOOK: 4,
    Step.RESTART: 2,
    Step.SET_POLICY: 1,
    Step.COPY: 3,
    Step.SET_BACK: 2,
    Step.CLEAR: 2,
}


class WronglyForgottenError(AssertionError):
    """A bookie forgot what nobody deleted or gave up."""


class GivenTwiceError(AssertionError):
    """A ledger got an id that an earlier ledger has had."""


class CopiedServer(MemoryServer):
    """A store that can be set back. Its sessions end then, as those of a restarted store do."""

    def copied(self) -> object:
        """Copy all nodes, but those of sessions."""
        return copy.deepcopy((self._nodes, self._children))

    def set_back(self, copied: object) -> None:
        """Put a copy in the place of the present."""
        assert isinstance(copied, tuple)
        nodes, children = copy.deepcopy(copied)
        self._nodes, self._children = nodes, children
        self._history.clear()


@dataclass
class Holding:
    """A bookie's storage: the ledgers that it knows."""

    judge: "World"
    ids: set[LedgerId] = field(default_factory=set)

    def known_ledgers(self) -> list[LedgerId]:
        return sorted(self.ids)

    def take_disputed(self) -> dict[LedgerId, int]:
        return {}

    async def forget(self, ledger_ids: Iterable[LedgerId]) -> None:
        for ledger_id in ledger_ids:
            if ledger_id not in self.judge.free:
                raise WronglyForgottenError(f"{ledger_id}: {self.judge.told}")
            self.ids.remove(ledger_id)

    async def reclaim(self) -> None:
        return


class World:
    """The cluster, and what really happened."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.server = CopiedServer()
        self.store = MemoryStore(self.server)
        self.told = [f"seed {seed}"]
        #: Every ledger that there ever was; those that bookies may forget.
        self.every = set[LedgerId]()
        self.free = set[LedgerId]()
        self.live = set[LedgerId]()
        self.starts = 0
        self.collected = 0
        self.copies = list[tuple[object, set[LedgerId]]]()
        self.files = {name: MemoryFileSystem() for name in NAMES}
        self.holdings = {name: Holding(self) for name in NAMES}
        self.collectors = dict[BookieId, Collector]()
        self.witnesses = dict[BookieId, Witness]()
        self.cluster: Cluster

    async def begin(self) -> None:
        self.cluster = await clusters.initialise(self.store, INSTANCE)
        await policy_store.write(self.cluster, POLICY, replaces=0)
        for name in NAMES:
            await self.restart(name)
        self.copies.append((self.server.copied(), set(self.live)))

    async def restart(self, name: BookieId) -> None:
        witness = Witness(self.cluster, name, self.files[name], InlineDisk(), wall_ms=self._wall_ms)
        await witness.look()
        self.starts += 1
        await bookie_records.count_boot(self.cluster, name, self.starts)
        await witness.look()
        self.witnesses[name] = witness
        self.collectors[name] = Collector(
            self.cluster, name, self.holdings[name], witness, EVERY, wall_ms=self._wall_ms
        )

    async def step(self, step: Step) -> None:
        name = self.chance.choice(NAMES)
        self.told.append(f"{step.name} {name}")
        match step:
            case Step.CREATE:
                await self._create()
            case Step.DELETE if self.live:
                await self._delete(self.chance.choice(sorted(self.live)))
            case Step.ROUND:
                await virtual_time_passes()
                self.collected += await self.collectors[name].round()
            case Step.LOOK:
                await self.witnesses[name].look()
            case Step.RESTART:
                await self.restart(name)
            case Step.SET_POLICY:
                standing = await policy_store.read(self.cluster)
                assert standing is not None
                await policy_store.write(self.cluster, standing, replaces=standing.version)
            case Step.COPY:
                self.copies.append((self.server.copied(), set(self.live)))
            case Step.SET_BACK:
                for witness in self.witnesses.values():
                    await witness.look()
                copied, self.live = self.chance.choice(self.copies)
                self.live = set(self.live)
                self.server.set_back(copied)
                # A ledger that was deleted after the copy is there again; it is a ledger again.
                self.free -= self.live
                # Bookies look in each new session, before clients get anywhere.
                for witness in self.witnesses.values():
                    await witness.look()
            case Step.CLEAR:
                await self._clear()
            case _:
                pass

    async def _create(self) -> None:
        stored = await ledgers.create(self.cluster, NEW)
        if stored.id in self.every:
            raise GivenTwiceError(f"{stored.id}: {self.told}")
        self.every.add(stored.id)
        self.live.add(stored.id)
        for holding in self.holdings.values():
            holding.ids.add(stored.id)

    async def _delete(self, ledger_id: LedgerId) -> None:
        await ledgers.delete(self.cluster, ledger_id, Deleter(by="test", at_ms=1))
        self.live.discard(ledger_id)
        self.free.add(ledger_id)

    async def _clear(self) -> None:
        mark = await restored.read(self.cluster)
        if mark is not None:
            await restored.clear(self.cluster, mark)
            self.free |= self.every - self.live

    def _wall_ms(self) -> int:
        return 1_780_000_000_000

    async def end(self) -> None:
        """What is deleted, or given up, goes in the end, and the mark does not come again."""
        for witness in self.witnesses.values():
            await witness.look()
        await self._clear()
        for _ in range(3):
            await virtual_time_passes()
            for collector in self.collectors.values():
                self.collected += await collector.round()
        assert await restored.read(self.cluster) is None, self.told
        for holding in self.holdings.values():
            # A ledger may live again that a bookie has forgotten, because it had been deleted.
            assert holding.ids <= self.live, self.told
        await self.store.close()


async def virtual_time_passes() -> None:
    await asyncio.sleep(EVERY.every_ms / 1_000)


async def history(seed: int) -> int:
    world = World(seed)
    await world.begin()
    for step in world.chance.choices(list(WEIGHTS), list(WEIGHTS.values()), k=STEPS):
        await world.step(step)
    await world.end()
    return world.collected


def test_no_history_loses_what_was_not_deleted_or_given_up() -> None:
    collected = sum(virtual_time.run(history(seed)) for seed in range(SEEDS))
    assert collected > SEEDS, "histories in which nothing is collected show nothing"


@pytest.mark.long
def test_no_history_of_many_does() -> None:
    for seed in range(SEEDS, SEEDS_LONG):
        virtual_time.run(history(seed))


# ── planted bugs die ──


def until_found() -> None:
    for seed in range(SEEDS):
        virtual_time.run(history(seed))


def test_a_bookie_that_keeps_nothing_of_the_metadata_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(evidence, "proofs", lambda *_: ())
    with pytest.raises((WronglyForgottenError, GivenTwiceError)):
        until_found()


def test_a_mark_without_a_fresh_high_part_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_ids, "fresh_high", lambda **_: 1)
    with pytest.raises((GivenTwiceError, NodeExistsError)):
        until_found()


def test_a_collector_that_minds_no_mark_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def minds_none(self: Collector) -> bool:
        del self
        return False

    async def on_sight(cluster: Cluster, ledger_id: LedgerId) -> bool:
        return await cluster.store.get(ledgers.path(cluster, ledger_id), sync=True) is None

    monkeypatch.setattr(Collector, "_is_restored", minds_none)
    monkeypatch.setattr(ledgers, "proven_deleted", on_sight)
    with pytest.raises(WronglyForgottenError):
        until_found()


def test_a_bookie_that_learns_nothing_under_a_mark_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(evidence, "risen", lambda known, _: known)
    with pytest.raises(GivenTwiceError):
        until_found()


def test_a_mark_that_forgets_what_was_accepted_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def none(cluster: Cluster) -> Accepted:
        del cluster
        return Accepted()

    monkeypatch.setattr(restored, "accepted", none)
    with pytest.raises(AssertionError, match="seed"):
        until_found()
