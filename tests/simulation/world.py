"""A whole cluster under one seed: a safety phase in which anything fails, then everything heals.

In the safety phase writers, readers and recoverers work while the scenario's faults happen. Then
all heals, and the liveness phase begins: within bounded virtual time every ledger must be recovered
and read to its end, by a client that has seen nothing of what was before, a new ledger must be
written, closed and read, and every writer must know what became of what it appended.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from tests.simulation import (
    actors,
    checker,
    log_actors,
    loop,
    menders,
    negatives,
    reached,
    writing,
)
from tests.simulation import history as seen
from tests.simulation.actors import Actor, Observer
from tests.simulation.checker import Violation
from tests.simulation.eyes import Eyes
from tests.simulation.gates import Gates
from tests.simulation.loop import SimulatedLoop
from tests.simulation.machine import Machine
from tests.simulation.menders import Marks, Mending
from tests.simulation.nemesis import Nemesis
from tests.simulation.patching import patched
from tests.simulation.remembering import REMEMBERED
from tests.simulation.scenarios import CALM_AT_FIRST_MS, ZONES, Kind, Scenario, bookie_names
from tests.simulation.surroundings import INSTANCE, ROOT, SESSION_MS, Surroundings
from tests.support import roles
from tests.support.virtual_time import EndlessError
from zonekeeper.bookie.storage import reading
from zonekeeper.client.api.client import Client
from zonekeeper.client.base import errors
from zonekeeper.client.sessions import recovery
from zonekeeper.metadata.access.node_rights import StoreRole
from zonekeeper.metadata.cluster import policy_store
from zonekeeper.metadata.store.errors import StoreError
from zonekeeper.placement.base.ids import BookieId, EntryId, LedgerId, UpgradeDomain, ZoneName
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.base.troubles import Trouble
from zonekeeper.placement.policy.rules import (
    OnZoneLoss,
    PlacementRules,
    Policy,
    RepairRules,
    ZoneWatchRules,
)
from zonekeeper.replication.repair import copying

#: Everything must be well so long after everything healed.
PATIENCE_MS: Final = 60_000
_AGAIN_MS: Final = 250

#: As short as they may be, where autorecovery runs.
_WATCH: Final = ZoneWatchRules(
    session_timeout_ms=SESSION_MS,
    evaluate_every_ms=1_000,
    start_grace_ms=2_000,
    suspect_for_ms=2_000,
    between_marks_for_ms=5_000,
    hold_up_ms=3_000,
    hold_up_max_ms=12_000,
    flap_window_ms=60_000,
    stand_in_after_ms=3_000,
)
_REPAIR: Final = RepairRules(bookie_recovery_delay_ms=6_000, open_ledger_grace_ms=1_000)


def _repair_rules(scenario: Scenario) -> RepairRules:
    rules = replace(_REPAIR, bytes_per_second=scenario.repair_bytes_per_second)
    if scenario.repair_after_ms is None:
        return rules
    return replace(rules, on_zone_loss=OnZoneLoss.REPAIR_AFTER, after_ms=scenario.repair_after_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a scenario."""

    scenario: Scenario
    violations: tuple[Violation, ...]
    digest: str
    fired: Counter[Kind]
    appended: int
    acked: int
    reads: int
    ledgers: int
    recoveries: int
    ensemble_changes: int
    #: Copies that were replaced in closed ledgers.
    moved: int
    #: Times that a zone went away, and bytes that were copied, by what for.
    outages: int
    copied_bytes: Mapping[str, int]
    #: How long each thing lasted that ought to end.
    waits_ms: Mapping[str, Sequence[int]]
    #: What bookies did that no client sees, and how often.
    work: Mapping[str, int]
    steps: int
    virtual_ms: int


def run(scenario: Scenario) -> Outcome:
    """Run a scenario to its end, and judge it."""
    simulated = SimulatedLoop(scenario.chance("turns"))
    world = World(scenario)
    try:
        window = (recovery, "WINDOW_ENTRIES", scenario.window_entries)
        copied = (copying, "WINDOW_ENTRIES", scenario.window_entries)
        frames = (reading, "FRAMES_MAX", scenario.frames_a_reply or reading.FRAMES_MAX)
        with patched([*REMEMBERED, window, copied, frames, *log_actors.KEPT]):
            loop.run(simulated, world.live())
    except EndlessError as error:
        world.broke(str(error))
    for failure in simulated.failures:
        world.broke(failure)
    return world.outcome(simulated)


class World:
    """One run of one scenario."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._history = seen.History()
        self._fired: Counter[Kind] = Counter()
        self._gates: Gates | None = None
        self._around: Surroundings | None = None

    def broke(self, what: str) -> None:
        """Note what no process of the world could."""
        self._history.add(seen.Broke(what=what), 0)

    async def live(self) -> None:
        """Run both phases."""
        try:
            async with asyncio.TaskGroup() as tasks:
                around = Surroundings(self._scenario, tasks)
                self._around, self._history = around, around.history
                run = _Run(around, self._fired)
                self._gates = run.gates
                listening = [
                    *negatives.listening(around, run.machines),
                    *reached.listening(around),
                ]
                with patched(listening):
                    await run.live()
                _end_of_the_world()
        except* _OverError:
            pass
        except* Exception as group:  # noqa: BLE001 a bug of whatever kind is to be reported
            self.broke(f"the world itself: {group.exceptions!r}")

    def outcome(self, simulated: SimulatedLoop) -> Outcome:
        """Judge what was seen."""
        events = self._history.events
        acked: dict[LedgerId, int] = {}
        changes: dict[LedgerId, int] = {}
        for event in events:
            if isinstance(event, seen.Acked):
                acked[event.ledger] = event.last + 1
            elif isinstance(event, seen.Recorded) and event.metadata is not None:
                changes[event.ledger] = len(event.metadata.fragments) - 1
        self._history.trace(f"{simulated.steps} steps")
        return Outcome(
            scenario=self._scenario,
            violations=tuple(checker.check(events)),
            digest=self._history.digest,
            fired=self._fired,
            appended=sum(isinstance(event, seen.Appended) for event in events),
            acked=sum(acked.values()),
            reads=sum(isinstance(event, seen.Got) for event in events),
            ledgers=len(changes),
            recoveries=sum(isinstance(event, seen.Recovered) for event in events),
            ensemble_changes=sum(changes.values()),
            moved=sum(len(event.bookies) for event in events if isinstance(event, seen.Moved)),
            outages=0 if self._gates is None else self._gates.outages,
            copied_bytes={} if self._gates is None else dict(self._gates.copied_bytes),
            waits_ms=_waits(events),
            work={} if self._around is None else self._around.work(),
            steps=simulated.steps,
            virtual_ms=int(simulated.world_time() * 1_000),
        )


def _waits(events: Sequence[seen.Event]) -> dict[str, list[int]]:
    waits: dict[str, list[int]] = {}
    for event in events:
        if isinstance(event, seen.Waited):
            waits.setdefault(event.what, []).append(event.for_ms)
    return waits


class _OverError(Exception):
    """Ends a world, with all that still runs in it."""


def _end_of_the_world() -> None:
    raise _OverError


class _Run:
    """The processes of a world, and what happens to them."""

    def __init__(self, around: Surroundings, fired: Counter[Kind]) -> None:
        self._around = around
        self._scenario = around.scenario
        self.machines = _machines(around)
        self._observer = Observer(around, self._holds)
        self._actors = self._cast()
        #: What the liveness phase has not got yet.
        self._waiting_for = "a client"
        self._nemesis = Nemesis(around, self.machines, self._actors, self._observer, fired)
        #: Sees zones and gates, where autorecovery runs.
        self.gates: Gates | None = None
        self._marks: Marks | None = None
        if self._scenario.menders:
            self._marks = Marks(around, self._observer, self.machines)
        for machine in self.machines.values():
            machine.on_frame = self._nemesis.upheavals.arrived
        if self._scenario.autorecoveries:
            self.gates = Gates(around, self._observer, self.machines)
            self._nemesis.on_trouble = self.gates.disturb

    async def live(self) -> None:
        around = self._around
        eyes = Eyes(around, self._observer, self.machines, self.gates, self._marks)
        around.server.join(eyes)
        around.server.on_set_back = eyes.look_anew
        await self._found()
        for machine in self.machines.values():
            machine.start()
        for actor in self._actors.values():
            actor.start()
        if self.gates is not None:
            self.gates.watch()
        for fault in self._scenario.faults:
            self._nemesis.upheavals.prepare(fault)
            around.later(fault.at_ms - around.now_ms(), partial(self._nemesis.do, fault))
        await asyncio.sleep(CALM_AT_FIRST_MS / 1_000)
        self._nemesis.let_weather_turn()
        await asyncio.sleep((self._scenario.chaos_ms - CALM_AT_FIRST_MS) / 1_000)
        if self.gates is not None:
            self.gates.stop()
        self._nemesis.heal(self._dead())
        await self._converge()

    def _dead(self) -> BookieId | None:
        if not self._scenario.one_stays_dead:
            return None
        return self._scenario.chance("who stays dead").choice(list(self.machines))

    def _holds(self, bookie: BookieId, ledger: LedgerId, entry: EntryId) -> bool:
        return self.machines[bookie].holds(ledger, entry)

    def _cast(self) -> dict[str, Actor]:
        cast: dict[str, actors.Doing] = {}
        for kind, number, doing in (
            ("writer", self._scenario.writers, writing.write_ledgers),
            ("reader", self._scenario.readers, actors.follow_ledgers),
            ("recoverer", self._scenario.recoverers, actors.recover_ledgers),
            ("autorecovery", self._scenario.autorecoveries, actors.repair_ledgers),
            ("mender", self._scenario.menders, Mending(self.machines).mend),
        ):
            cast |= {f"{kind}-{ordinal}": doing for ordinal in range(number)}
        cast |= log_actors.cast(self._scenario.log_writers, self._scenario.log_queries)
        return {
            name: Actor(name, self._around, self._observer, doing) for name, doing in cast.items()
        }

    async def _found(self) -> None:
        """Make the cluster, as its operator does before any other process is there."""
        store = roles.opened(self._around.server, StoreRole.OPERATOR, ROOT)
        cluster = await roles.guarded_root(store, INSTANCE)
        rules = PlacementRules(
            zones=tuple(ZoneName(zone) for zone in ZONES), strict=self._scenario.strict, min_zones=2
        )
        policy = Policy(
            placement=rules,
            quorums=self._scenario.quorums,
            zone_watch=_WATCH,
            repair=_repair_rules(self._scenario),
        )
        await policy_store.write(cluster, policy, replaces=0)
        await store.close()

    # ── the liveness phase ──

    async def _converge(self) -> None:
        """Let a stranger find everything well; it has the patience that the promise allows."""
        process = self._around.process("stranger")
        task = self._around.tasks.create_task(self._look_around(), context=process.context)
        _, late = await asyncio.wait([task], timeout=PATIENCE_MS / 1_000)
        if late:
            self._around.note(
                seen.Broke(what=f"{PATIENCE_MS} ms after everything healed: {self._waiting_for}")
            )
        for machine in self.machines.values():
            if machine.serving is not None:
                self._around.note(seen.Looked(kept=machine.kept()))

    async def _look_around(self) -> None:
        while True:
            store = self._around.open_store("stranger")
            chance = self._scenario.chance("stranger")
            try:
                async with actors.client_of(self._around, "stranger", store, chance) as client:
                    await self._visit(client)
            except (errors.ClientError, StoreError) as error:
                self._waiting_for = f"a client: {error!r}"
                await store.close()
                await asyncio.sleep(_AGAIN_MS / 1_000)
            else:
                await self._wait_for_writers()
                await self._wait_for_menders()
                return

    async def _visit(self, client: Client) -> None:
        if self._scenario.log_writers:
            await self._insist("the log", partial(log_actors.visit, self._around, client))
            return
        for ledger_id in list(self._observer.ledgers):
            if ledger_id in self._around.from_before or ledger_id in self._observer.doomed:
                continue
            await self._insist(
                f"recovery and reading of ledger {ledger_id}",
                partial(self._recover_and_read, client, ledger_id),
            )
        await self._insist("a new ledger", partial(self._write_and_read, client))

    async def _wait_for_writers(self) -> None:
        """Wait until whatever was appended has come to an end: it is acknowledged, or never will
        be."""
        while under_way := self._observer.board.under_way:
            self._waiting_for = f"the writers of ledgers {list(under_way)}"
            await asyncio.sleep(_AGAIN_MS / 1_000)

    async def _wait_for_menders(self) -> None:
        """Wait until no bookie is in limbo for a ledger that names it."""
        while self._scenario.menders and (left := menders.owing(self._observer, self.machines)):
            self._waiting_for = f"the end of limbo for ledgers {left}"
            await asyncio.sleep(_AGAIN_MS / 1_000)

    async def _recover_and_read(self, client: Client, ledger_id: LedgerId) -> None:
        if ledger_id in self._observer.ledgers:  # else it was deleted meanwhile, by order
            name = f"stranger/{ledger_id}"
            await actors.recover(self._observer, client, name, ledger_id)

    async def _write_and_read(self, client: Client) -> None:
        writer = await client.create(password=b"stranger", quorums=self._scenario.quorums)
        ledger_id = writer.ledger_id
        try:
            for number in range(3):
                value = f"{ledger_id}/{number}/stranger".encode()
                entry = writer.append_nowait(value)
                self._around.note(seen.Appended(ledger=ledger_id, entry=entry, value=value))
            await writer.close()
            copies = self._observer.copies(ledger_id, 0, writer.last_confirmed)
            last = writer.last_confirmed
            self._around.note(
                seen.Acked(ledger=ledger_id, first=EntryId(0), last=last, copies=copies)
            )
        finally:
            writer.halt()
        self._around.note(seen.ClosedByWriter(ledger=ledger_id, last=writer.last_confirmed))
        await actors.recover(self._observer, client, f"stranger/{ledger_id}", ledger_id)

    async def _insist(self, what: str, attempt: Callable[[], Awaitable[object]]) -> None:
        while True:
            try:
                await attempt()
            except Trouble as error:
                self._waiting_for = f"{what}: {error!r}"
                await asyncio.sleep(_AGAIN_MS / 1_000)
            else:
                return


def _machines(around: Surroundings) -> dict[BookieId, Machine]:
    machines = {}
    scenario = around.scenario
    for name in bookie_names(scenario.bookies_a_zone, scenario.bookies_max):
        _, zone, ordinal = name.split("-")
        location = Location(ZoneName(zone), UpgradeDomain(f"ud-{int(ordinal) % 3}"))
        machines[BookieId(name)] = Machine(around, BookieId(name), location)
    return machines
