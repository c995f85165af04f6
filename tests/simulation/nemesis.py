"""Does to a world what its scenario says, counts what had an effect, and heals everything."""

import asyncio
import dataclasses
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Final

from tests.simulation import actors, disk, people
from tests.simulation.actors import Actor, Observer
from tests.simulation.loop import Process, loop
from tests.simulation.machine import Machine
from tests.simulation.scenarios import WHO, Fault, Kind, MetaWeather, Occasion, position_of
from tests.simulation.surroundings import CALM, ROTTEN, Surroundings
from tests.simulation.upheavals import Upheavals
from zonekeeper.metadata.stores.memory import MemoryStore
from zonekeeper.placement.base.ids import BookieId, EntryId, LedgerId

_SLOW_BOOKIE_MS: Final = 400
#: So long a member does not hear from a writer that dies meanwhile, and a disk with it.
_BEHIND_MS: Final = 300
#: A deletion with its collection takes no longer than this, or is given up; a bookie collects
#: within that, or is asked again.
_DELETION_MS: Final = 1_000
_COLLECTION_MS: Final = 50
#: Autorecovery is known to be at work again so long after a trouble.
_ON_ITS_FEET_MS: Final = 6_000


class Nemesis:
    """Knows every process by its name."""

    def __init__(
        self,
        around: Surroundings,
        machines: Mapping[BookieId, Machine],
        actors: Mapping[str, Actor],
        observer: Observer,
        fired: Counter[Kind],
    ) -> None:
        self._around = around
        self._observer = observer
        self._machines = machines
        self._actors = actors
        self._fired = fired
        self._healed = False
        self._chance = around.scenario.chance("nemesis")
        #: What waits for an occasion.
        self._waiting: dict[Occasion, list[Fault]] = {occasion: [] for occasion in Occasion}
        observer.on_recovery = partial(self._occur, Occasion.RECOVERY)
        #: What the recovery looked for that was stranded last.
        self._looked_for = LedgerId(-1), EntryId(-1)
        #: On whose disks something has rotten.
        self._rotten: set[BookieId] = set()
        #: The bookies of its ledger's last ensemble that a stranded writer reached.
        self._reached: dict[LedgerId, frozenset[BookieId]] = {}
        for machine in machines.values():
            machine.on_recovery_read = self._looks
        self.upheavals = Upheavals(around, machines, actors, observer, self._cut, self.do)
        #: Does a fault, and says whether it was there to be done.
        self._ways: dict[Kind, Callable[[Fault], bool]] = {
            Kind.KILL: lambda fault: self._crash([fault.target], fault),
            Kind.POWER: lambda fault: self._crash([fault.target], fault),
            Kind.ZONE_POWER: lambda fault: self._crash(self._zone(fault.target), fault),
            Kind.ZONE_LOSS: self._lose_zone,
            Kind.CLIENT_KILL: self._kill_client,
            Kind.CUT: lambda fault: self._cut([(fault.target, fault.other)], fault),
            Kind.ISOLATION: lambda fault: self._isolate([fault.target], fault),
            Kind.ZONE_CUT: lambda fault: self._isolate(self._zone(fault.target), fault),
            Kind.RESET: self._reset,
            Kind.STRAND: self._strand,
            Kind.HALF_WAY: self._strand_recovery,
            Kind.SLOW_BOOKIE: self._slow_down,
            Kind.DISK_ERROR: self._trouble,
            Kind.ROT: self._rot,
            Kind.HIDDEN_ROT: self._rot,
            Kind.SLOW_DISK: self._trouble,
            Kind.READ_ONLY: self._trouble,
            Kind.DISK_LOSS: self._lose_disk,
            Kind.DELETION: self._delete,
            Kind.MAINTENANCE: lambda fault: self._person(people.maintain, fault),
            Kind.RELEASE: lambda fault: self._person(people.release, fault),
            Kind.PAUSE: self._trouble_process,
            Kind.META_CUT: self._trouble_process,
            Kind.META_EXPIRY: self._trouble_process,
            Kind.META_LAG: self._trouble_process,
            Kind.NEWCOMERS: self._hunt,
            **self.upheavals.ways,
        }
        #: Is told until when autorecovery is in trouble.
        self.on_trouble: Callable[[int], None] = lambda until_ms: None
        #: How many cuts there are of each direction: the last one that ends heals it.
        self._cuts: Counter[tuple[str, str]] = Counter()

    def do(self, fault: Fault) -> None:
        """Let a fault happen, if it finds a target."""
        if self._healed:
            return
        if fault.occasion is not None:
            self._waiting[fault.occasion].append(fault)
            return
        fault = dataclasses.replace(
            fault, target=self._named(fault.target), other=self._named(fault.other)
        )
        if fault.target.startswith("autorecovery"):
            self.on_trouble(self._around.now_ms() + fault.for_ms + _ON_ITS_FEET_MS)
        if self._ways[fault.kind](fault):
            self._fired[fault.kind] += 1
            self._around.history.trace(str(fault))

    def let_weather_turn(self) -> None:
        """End the calm in which all processes came up."""
        self._around.meta = self._around.scenario.meta
        self._around.network.weather = self._around.scenario.weather

    def heal(self, dead: BookieId | None) -> None:
        """End all faults; only this bookie stays dead."""
        self._healed = True
        self.upheavals.heal()
        around = self._around
        around.meta = MetaWeather()
        around.network.weather = CALM
        around.network.slow_ms.clear()
        for source, target in sorted(self._cuts):
            around.network.heal(source, target)
        for actor in self._actors.values():
            if actor.life is not None:
                self._ease(actor.life.process, actor.life.store)
            if actor.name.startswith(("log-keeper", "mender")):
                actor.start()  # a deletion that is half-done is not left so, and no limbo lasts
            elif not actor.name.startswith("writer"):
                actor.crash(list(self._machines))
        for machine in self._machines.values():
            machine.slow_ms = 0
            machine.stays_dead |= machine.id == dead
            self._ease(machine.process, machine.store)
            if around.scenario.final_power_loss or machine.stays_dead:
                machine.crash(power=True)
            machine.start()
            if machine.serving is None or machine.serving.read_only:
                self._read_only(machine, read_only=False)

    def _ease(self, process: Process | None, store: MemoryStore | None) -> None:
        if process is not None:
            loop().go_on(process)
        if store is not None:
            store.read_lag_ms = 0
            store.mend()

    def _named(self, target: str) -> str:
        """Give the target, if it is a member of the newest ensemble."""
        position = position_of(target)
        if position is None:
            return target
        if not self._observer.ledgers:
            return next(iter(self._machines))
        newest = self._observer.ledgers[max(self._observer.ledgers)]
        ensemble = newest.last_fragment.ensemble
        return ensemble[position % len(ensemble)]

    def _reset(self, fault: Fault) -> bool:
        self._around.network.disconnect(fault.other, BookieId(fault.target))
        return True

    def _zone(self, zone: str) -> list[str]:
        return [name for name, machine in self._machines.items() if machine.location.zone == zone]

    def _crash(self, names: list[str], fault: Fault) -> bool:
        there = [self._machines[BookieId(name)] for name in names]
        there = [machine for machine in there if machine.running]
        for machine in there:
            machine.crash(power=fault.kind is not Kind.KILL)
            self._around.later(fault.for_ms, machine.start)
        return bool(there)

    def _lose_zone(self, fault: Fault) -> bool:
        lost = {BookieId(name) for name in [*self._zone(fault.target), fault.other] if name}
        if not self._is_survived(lost):
            return False
        for machine in self._machines.values():
            if machine.id in lost:
                machine.stays_dead = True
                machine.crash(power=True)
        return True

    def _is_survived(self, lost: set[BookieId]) -> bool:
        """Is less than an ack quorum lost of every ensemble? More of it may stand in one zone, if
        it was chosen when another zone was not there, or not trusted: that would be two losses."""
        return all(
            len(lost.intersection(fragment.ensemble)) < ledger.ack_quorum
            for ledger in self._observer.ledgers.values()
            for fragment in ledger.fragments
        )

    def _lose_disk(self, fault: Fault) -> bool:
        """Lose a disk, and the newest ledger's writer with it; another member is behind by what
        that wrote last. So a copy of it is lost, one is left, and one has never been."""
        machine, ledgers = self._machines[BookieId(fault.target)], self._observer.ledgers
        if machine.diskless or not ledgers:
            return False
        ensemble = ledgers[max(ledgers)].last_fragment.ensemble
        behind = self._chance.choice([bookie for bookie in ensemble if bookie != machine.id])
        writer = dataclasses.replace(
            fault, kind=Kind.CLIENT_KILL, target=self._observer.board.writer
        )
        self._cut([(writer.target, behind)], dataclasses.replace(fault, for_ms=_BEHIND_MS))
        after_ms = self._chance.randrange(_BEHIND_MS // 2)
        self._around.later(after_ms, partial(self.do, writer))
        self._around.later(after_ms, partial(self._without_disk, machine, fault))
        return True

    def _without_disk(self, machine: Machine, fault: Fault) -> None:
        if machine.diskless or self._healed:
            return
        machine.lose_disk()
        process = self._around.process("a person, with a disk")
        self._around.tasks.create_task(
            people.replace_disk(self._around, machine, fault.for_ms), context=process.context
        )

    def _delete(self, fault: Fault) -> bool:
        """Delete the newest ledger while its writer stands still; then that goes on."""
        writer = self._actors.get(self._observer.board.writer)
        if writer is None or writer.life is None or not self._observer.ledgers:
            return False
        ledger_id, asleep = max(self._observer.ledgers), writer.life.process
        loop().pause(asleep)
        process = self._around.process("a person, who deletes")

        async def delete() -> None:
            try:
                async with asyncio.timeout(_DELETION_MS / 1_000):
                    await self._delete_and_collect(ledger_id)
            except TimeoutError:
                pass
            finally:
                loop().go_on(asleep)

        self._around.tasks.create_task(delete(), context=process.context)
        return True

    async def _delete_and_collect(self, ledger_id: LedgerId) -> None:
        if not await people.delete(self._around, self._observer, ledger_id):
            return
        left = dict(self._machines)
        while left and not self._healed:
            for bookie_id, machine in list(left.items()):
                process = machine.process
                if process is None:
                    continue
                collecting = self._around.tasks.create_task(
                    machine.collect(ledger_id), context=process.context
                )
                done, _ = await asyncio.wait([collecting], timeout=_COLLECTION_MS / 1_000)
                if done and not collecting.cancelled() and collecting.result():
                    del left[bookie_id]
            await asyncio.sleep(_COLLECTION_MS / 1_000)

    def _kill_client(self, fault: Fault) -> bool:
        actor = self._actors[fault.target]
        if actor.life is None:
            return False
        actor.crash(list(self._machines))

        def start() -> None:
            if not self._healed:
                actor.start()

        self._around.later(fault.for_ms, start)
        return True

    def _person(self, does: people.Doing, fault: Fault) -> bool:
        process = self._around.process(f"a person, {fault.kind.value}")
        self._around.tasks.create_task(does(self._around, fault), context=process.context)
        return True

    def _strand(self, fault: Fault) -> bool:
        """Let what a writer sends reach one bookie less than its ledger's ack quorum."""
        writer = self._observer.board.writer
        if not writer or not self._observer.ledgers:
            return False
        ledger_id = max(self._observer.ledgers)
        newest = self._observer.ledgers[ledger_id]
        ensemble = list(newest.last_fragment.ensemble)
        self._chance.shuffle(ensemble)
        reached = newest.ack_quorum - 1
        self._reached[ledger_id] = frozenset(ensemble[:reached])
        for bookie in ensemble[reached:]:
            for_ms = int(fault.for_ms * (0.3 + 0.7 * self._chance.random()))
            self._cut([(writer, bookie)], dataclasses.replace(fault, for_ms=for_ms))
        self._observer.tip.set()
        self._observer.tip.clear()
        self._occur(Occasion.STRAND, writer)
        return True

    def _strand_recovery(self, fault: Fault) -> bool:
        """Let an entry that is recovered reach one bookie less than an ack quorum of those that
        metadata shows, and the recoverers die before the others get what was sent."""
        beyond = self._beyond_reach(*self._looked_for)
        if not beyond:
            return False
        recoverers = [name for name in self._actors if name.startswith("recoverer")]
        self._cut(list(product(recoverers, beyond)), fault)
        for name in recoverers:
            dies = dataclasses.replace(fault, kind=Kind.CLIENT_KILL, target=name)
            after_ms = int(fault.for_ms * (0.6 + 0.4 * self._chance.random()))
            self._around.later(after_ms, partial(self.do, dies))
        return True

    def _hunt(self, fault: Fault) -> bool:
        """Let a recovery put newcomers in, which lose their disks before metadata names them."""
        beyond = self._beyond_reach(*self._looked_for)
        return self.upheavals.hunt(fault, self._looked_for[0], beyond)

    def _beyond_reach(self, ledger_id: LedgerId, entry_id: EntryId) -> list[BookieId]:
        """Give the bookies that an entry's recoverers do not reach. They reach those of the writer:
        what that wrote last is there, and nowhere else."""
        ledger = self._observer.ledgers.get(ledger_id)
        if ledger is None or ledger.is_closed:
            return []
        members = actors.members(ledger, entry_id)
        reached = self._reached.get(ledger_id, frozenset()).intersection(members)
        if not reached:
            reached = frozenset(self._chance.sample(members, ledger.ack_quorum - 1))
        return [bookie for bookie in members if bookie not in reached]

    def _looks(self, ledger_id: LedgerId, entry_id: EntryId) -> None:
        """Hear of a recovery that reads."""
        if self._waiting[Occasion.TAIL] and ledger_id in self._reached:
            self._looked_for = ledger_id, entry_id
            self._occur(Occasion.TAIL, WHO)

    def _occur(self, occasion: Occasion, who: str) -> None:
        """Let happen what has waited for this; of what strands recoveries, one at a time."""
        waiting = self._waiting[occasion]
        most = 1 if occasion is Occasion.TAIL else len(waiting)
        happening, self._waiting[occasion] = waiting[:most], waiting[most:]
        for fault in happening:
            for_them = dataclasses.replace(
                fault,
                occasion=None,
                target=who if fault.target == WHO else fault.target,
                other=who if fault.other == WHO else fault.other,
            )
            self._around.later(fault.behind_ms, partial(self.do, for_them))

    def _slow_down(self, fault: Fault) -> bool:
        slow_ms = self._around.network.slow_ms
        slow_ms[fault.target] = _SLOW_BOOKIE_MS
        self._around.later(fault.for_ms, lambda: slow_ms.pop(fault.target, None))
        return True

    def _isolate(self, names: list[str], fault: Fault) -> bool:
        ways = list(product(names, self._actors))
        self._cut(ways + [(there, here) for here, there in ways], fault)
        for name in names:
            self._cut_store(self._machines[BookieId(name)].store, fault)
        return True

    def _cut(self, ways: Sequence[tuple[str, str]], fault: Fault) -> bool:
        network = self._around.network

        def heal() -> None:
            for way in ways:
                self._cuts[way] -= 1
                if not self._cuts[way]:
                    network.heal(*way)

        for way in ways:
            self._cuts[way] += 1
            if self._cuts[way] == 1:
                network.cut(*way)
        self._around.later(fault.for_ms, heal)
        return True

    def _cut_store(self, store: MemoryStore | None, fault: Fault) -> bool:
        if store is None:
            return False
        store.cut()
        self._around.later(fault.for_ms, store.mend)
        return True

    def _trouble(self, fault: Fault) -> bool:
        machine = self._machines[BookieId(fault.target)]
        if machine.serving is None:
            return False
        if fault.kind is Kind.DISK_ERROR:
            machine.fail_next_sync()
        elif fault.kind is Kind.SLOW_DISK:
            self._slow(machine, fault)
        else:
            self._read_only(machine, read_only=True)
            self._around.later(fault.for_ms, lambda: self._read_only(machine, read_only=False))
        return True

    def _rot(self, fault: Fault) -> bool:
        """Let copies rot, if those of fewer bookies than an ack quorum do: so many may be silent,
        and for ever, wherever a recovery needs an answer of them."""
        machine = self._machines[BookieId(fault.target)]
        touched = self._rotten | {machine.id}
        if len(touched) >= self._around.scenario.quorums.ack:
            return False
        rotten = machine.rot(disk.rotten if fault.kind is Kind.ROT else disk.rotten_unseen)
        if rotten:
            self._rotten = touched
            self._around.did(ROTTEN, rotten)
        return rotten > 0

    def _slow(self, machine: Machine, fault: Fault) -> None:
        machine.slow_ms = 200

        def fast() -> None:
            machine.slow_ms = 0

        self._around.later(fault.for_ms, fast)

    def _read_only(self, machine: Machine, *, read_only: bool) -> None:
        process = machine.process
        context = None if process is None else process.context
        self._around.tasks.create_task(machine.set_read_only(read_only=read_only), context=context)

    def _trouble_process(self, fault: Fault) -> bool:
        process, store = self._process(fault.target)
        if process is None or store is None:
            return False
        if fault.kind is Kind.PAUSE:
            loop().pause(process)
            self._around.later(fault.for_ms, lambda: loop().go_on(process))
        elif fault.kind is Kind.META_CUT:
            self._cut_store(store, fault)
        elif fault.kind is Kind.META_EXPIRY:
            session = store.session.id
            if session is not None:
                self._around.server.expire(session)
        else:
            store.read_lag_ms = min(fault.for_ms, 2_000)
            self._around.later(fault.for_ms, lambda: self._catch_up(store))
        return True

    def _catch_up(self, store: MemoryStore) -> None:
        store.read_lag_ms = 0

    def _process(self, name: str) -> tuple[Process | None, MemoryStore | None]:
        actor = self._actors.get(name)
        if actor is None:
            machine = self._machines[BookieId(name)]
            return machine.process, machine.store
        return (None, None) if actor.life is None else (actor.life.process, actor.life.store)
