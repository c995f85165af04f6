"""Plays a transcript on a zone watch that runs, over a store in memory and in virtual time.

The watch has its own rhythm, and its writes and reads take their way. So a line holds in time here:
at its moment, or as much later as one evaluation takes, and one more for each change of watch (the
time between a watch's last evaluation and its end is not counted). It is never early: what
must not hold yet is a line before.

What an auditor may publish is what an observer's view says, which is another process. A bookie
that was published is written off as long afterwards as the transcript says, and counts again when
it is back, as with a real auditor.
"""

import asyncio
import logging
import random
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final, assert_never

from tests.replication.gate_world import ANNA, SECOND, WALL_MS, GateWorld
from tests.support import virtual_time
from tests.zone_scenarios import judging, steps
from tests.zone_scenarios.clauses import UPGRADE_DOMAINS
from tests.zone_scenarios.judging import Happening, Passing, Seen
from tests.zone_scenarios.steps import (
    Act,
    Expectation,
    GateName,
    Kind,
    OfBookies,
    OfPeople,
    OfWatches,
)
from tests.zone_scenarios.transcripts import Line, Side, Transcript
from zonekeeper.metadata.bookies import bookie_records, cookie_store
from zonekeeper.metadata.bookies.bookie_records import Mark
from zonekeeper.metadata.cluster import repair_controls, timeline, zone_store
from zonekeeper.metadata.formats import cookies
from zonekeeper.placement.base.ids import BookieId, UpgradeDomain, ZoneName
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.policy.rules import Policy, ZoneWatchRules
from zonekeeper.placement.zones.losses import HeldBy
from zonekeeper.replication.gate import planned_work
from zonekeeper.replication.view import alerts

#: How often the watch evaluates at least, where nothing changes.
_EVERY_MS: Final = 30 * SECOND
#: What the way to the store, an election and a session's end take together, at most.
_WAY_MS: Final = 5 * SECOND
#: The lines of the log that say that an alert was raised, or is over; see ``alerts.tell``.
_LOGGED: Final = {"%s: %s: %s": Kind.RAISED, "%s: %s is over: %s": Kind.CLEARED}
#: The events of the timeline that say what the watch did.
_TOLD: Final = {
    "reminded": Kind.REMINDED,
    "switched off": Kind.SWITCHED_OFF,
    "ended": Kind.ENDED,
}
_REPAIRED: Final = Mark(at_ms=1, by="auditor", reason="every ledger is repaired")
_DRAINED: Final = Mark(at_ms=1, by="anna", reason="a smaller cluster")


def play(transcript: Transcript) -> None:
    """Play it to its end; raises ``AssertionError`` at the first line that does not hold."""

    async def played() -> None:
        async with asyncio.TaskGroup() as tasks:
            world = GateWorld(tasks)
            rules = _slower(transcript.setting.policy)
            await world.build(rules, per_zone=0)
            player = _WatchPlayer(transcript, world, rules.zone_watch)
            with _Log(player.hear):
                await player.begin()
                await player.play()
            await player.end()
        for store in world.stores:
            await store.close()

    try:
        virtual_time.run(played())
    except* AssertionError as group:
        raise group.exceptions[0] from None


class _Log(logging.Handler):
    """Hears what is told of alerts, however quiet the house's log is."""

    def __init__(self, hear: Callable[[logging.LogRecord], None]) -> None:
        super().__init__()
        self._hear = hear
        self._logger = logging.getLogger(alerts.__name__)
        self._level_before = self._logger.level

    def __enter__(self) -> None:
        self._level_before = self._logger.level
        self._logger.setLevel(logging.INFO)
        self._logger.addHandler(self)

    def __exit__(self, *_: object) -> None:
        self._logger.removeHandler(self)
        self._logger.setLevel(self._level_before)

    def emit(self, record: logging.LogRecord) -> None:
        self._hear(record)


class _WatchPlayer:
    def __init__(self, transcript: Transcript, world: GateWorld, rules: ZoneWatchRules) -> None:
        self._transcript = transcript
        self._world = world
        self._rules = rules
        self._zero_ms = 0
        self._changes = 0
        self._passed: defaultdict[GateName, Passing] = defaultdict(Passing.begun)
        self._published: dict[BookieId, int] = {}
        self._alerts: list[Happening] = []
        self._events_before = 0
        self._named: defaultdict[GateName, int] = defaultdict(int)
        self._following: asyncio.Task[None] | None = None

    # ── the play ──

    async def begin(self) -> None:
        """Let everything be there; then the time of the transcript begins."""
        await self._add(self._transcript.setting.bookies, placed=True)
        await self._world.wait(SECOND)
        if self._transcript.setting.first_start:
            self._zero_ms = self._clock_ms()
            await self._world.watched_by("watch-0")
        else:
            await self._world.watched_by("watch-0")
            await self._world.wait(self._rules.start_grace_ms + self._rules.evaluate_every_ms)
            await self._world.wait(_WAY_MS)
            self._zero_ms = self._clock_ms()
        self._alerts.clear()
        self._events_before = len(await timeline.newest(self._world.cluster))
        if self._transcript.setting.first_start:
            self._events_before = 0
        self._look()
        self._following = self._world.tasks.create_task(self._follow())

    async def play(self) -> None:
        """Play all lines that are for this side."""
        noticed_ms = SECOND
        for line in self._transcript.on(Side.WATCH):
            await self._wait_until(line.at_ms)
            if isinstance(line.step, Act):
                await self._do(line.step)
                noticed_ms = self._now_ms() + SECOND
            else:
                await self._wait_until(noticed_ms)
                await self._expect(line, line.step)

    async def end(self) -> None:
        """Put everything away; what was told by then is what the watches counted."""
        await self._world.wait(SECOND)
        told = [each for each in (await self._seen()).happened if each.kind is Kind.REMINDED]
        counters = [watch.watch.counters for watch in self._world.watches]
        assert len(told) == sum(each.reminders_total for each in counters), "reminders"
        assert self._following is not None
        self._following.cancel()
        for watch in self._world.watches:
            await watch.kill()
        self._world.observing.cancel()

    async def _expect(self, line: Line, expected: Expectation) -> None:
        """Wait for what is expected, as long as it may take."""
        late_ms = self._rules.evaluate_every_ms * (1 + self._changes) + _WAY_MS
        while True:
            found = judging.unmet(expected, await self._seen(), late_ms=late_ms)
            if found is None:
                break
            if self._now_ms() >= line.at_ms + late_ms:
                raise AssertionError(
                    f"{line.place}, on the running watch: {line.text}\n  but: {found}"
                )
            await self._world.wait(SECOND)
        if isinstance(expected, steps.Noted):
            self._named[expected.gate] += 1

    async def _wait_until(self, at_ms: int) -> None:
        await self._world.wait(max(0, at_ms - self._now_ms()))

    def _clock_ms(self) -> int:
        return int(asyncio.get_running_loop().time() * 1000)

    def _now_ms(self) -> int:
        return self._clock_ms() - self._zero_ms

    # ── what happens ──

    async def _do(self, act: Act) -> None:
        if isinstance(act, OfBookies):
            await self._do_to_bookies(act)
        elif isinstance(act, OfPeople):
            await self._do_as_a_person(act)
        else:
            await self._do_to_the_watch(act)

    async def _do_to_bookies(self, act: OfBookies) -> None:
        match act:
            case steps.Lose():
                await self._unregister(act.bookies)
            case steps.Return():
                await self._world.come(act.bookies)
                for bookie in act.bookies:
                    self._published.pop(bookie, None)
                    await bookie_records.write_off(self._world.cluster, bookie, None)
            case steps.Add():
                await self._add(act.bookies, placed=act.placed)
            case steps.Decommission():
                for bookie in act.bookies:
                    await self._decommission(bookie)
            case steps.Drain():
                for bookie in act.bookies:
                    await bookie_records.drain(self._world.cluster, bookie, _DRAINED)
            case _:
                assert_never(act)

    async def _do_as_a_person(self, act: OfPeople) -> None:
        world = self._world
        match act:
            case steps.Release():
                await world.release(act.gate)
            case steps.Hold():
                await world.hold(act.gate)
            case steps.Turn():
                await repair_controls.set_enabled(world.cluster, enabled=act.on)
            case steps.Declare():
                await self._declare(act)
            case steps.Lift():
                await zone_store.lift(world.cluster, world.observer.maintenance[act.unit])
            case _:
                assert_never(act)

    async def _do_to_the_watch(self, act: OfWatches) -> None:
        match act:
            case steps.WatchDies():
                await self._world.watches[-1].kill()
            case steps.WatchBegins():
                self._changes += 1
                await self._world.watched_by(f"watch-{self._changes}")
            case _:
                assert_never(act)

    async def _unregister(self, bookies: Iterable[BookieId]) -> None:
        """End registrations as an outage does: no process sees the zone in between."""
        store, root = self._world.cluster.store, self._world.cluster.root
        paths = [root.writable(bookie) for bookie in bookies]
        await asyncio.gather(*(store.delete(path, version=None) for path in paths))

    async def _add(self, bookies: Iterable[BookieId], *, placed: bool) -> None:
        for bookie in bookies:
            cookie = cookies.Cookie(
                bookie=bookie,
                journal_dirs=("/d",),
                ledger_dirs=("/d",),
                instance=self._world.cluster.instance,
                location=_place(bookie) if placed else None,
            )
            await cookie_store.create(self._world.cluster, cookie)
            await self._world.come([bookie])

    async def _decommission(self, bookie: BookieId) -> None:
        cluster = self._world.cluster
        await bookie_records.drain(cluster, bookie, _DRAINED)
        await self._world.wait(SECOND)
        if await cluster.store.get(cluster.root.writable(bookie)) is not None:
            await self._unregister([bookie])
        await self._world.wait(SECOND)
        stored = await cookie_store.read(cluster, bookie)
        assert stored is not None
        await cookie_store.delete(cluster, bookie, version=stored.version)
        self._published.pop(bookie, None)

    async def _declare(self, act: steps.Declare) -> None:
        world = self._world
        rules = world.observer.policy
        chance = random.Random(f"{act.unit} at {self._now_ms()}")
        declared = planned_work.planned((act.unit,), ANNA, act.lasts_ms, rules, chance)
        await planned_work.start(world.cluster, declared, world.told)

    # ── what is to be seen ──

    def hear(self, record: logging.LogRecord) -> None:
        """Take a line of the log, if it is about an alert."""
        kind = _LOGGED.get(str(record.msg))
        if kind is not None and isinstance(record.args, tuple):
            what = str(record.args[1])
            self._alerts.append(Happening(at_ms=self._now_ms(), kind=kind, what=what))

    async def _follow(self) -> None:
        """Look at everything that the observer sees, and do as an auditor does."""
        looks = self._world.observer.looks
        while True:
            looks = await self._world.observer.changed(looks)
            self._look()
            await self._write_off()

    def _look(self) -> None:
        view = self._world.observer
        for zone, record in view.zones.items():
            self._passed[zone].look(record)
        if view.cluster_record is not None:
            self._passed[None].look(view.cluster_record)
        for bookie in self._world.publishable():
            self._published.setdefault(bookie, self._now_ms())

    async def _write_off(self) -> None:
        take_ms = self._transcript.setting.repairs_take_ms
        if take_ms is None:
            return
        view = self._world.observer
        for bookie, at_ms in list(self._published.items()):
            if bookie not in view.written_off and self._now_ms() - at_ms >= take_ms:
                await bookie_records.write_off(self._world.cluster, bookie, _REPAIRED)

    async def _seen(self) -> Seen:
        cluster = self._world.cluster
        zones = {}
        for zone in await _zone_names(self._world):
            zones[zone] = await self._world.zone(zone)
        happened, noted = [*self._alerts], defaultdict[GateName, list[str]](list)
        events = [*reversed(await timeline.newest(cluster))][self._events_before :]
        for event in events:
            if event.kind in _TOLD:
                what = _unit_of(event.subject) if event.kind == "ended" else ""
                at_ms = event.at_ms - WALL_MS - self._zero_ms
                happened.append(Happening(at_ms=at_ms, kind=_TOLD[event.kind], what=what))
            elif event.kind == "changed":
                noted[_gate_of(event.subject)].append(event.reason)
        return Seen(
            zones=zones,
            cluster=await self._world.cluster_record(),
            replication_on=await self._world.enabled(),
            in_maintenance=frozenset(self._world.observer.maintenance),
            passed=self._passed,
            published=self._published,
            holds=self._holds,
            happened=happened,
            noted={gate: texts[self._named[gate] :] for gate, texts in noted.items()},
        )

    def _holds(self, bookie: BookieId) -> HeldBy | None:
        held = self._world.observer.what_holds_publishing(bookie)
        return None if held is None else held.by


def _slower(policy: Policy) -> Policy:
    """Give a policy that evaluates less often, unless it says how often: it only saves time."""
    every_ms = max(_EVERY_MS, policy.zone_watch.evaluate_every_ms)
    return replace(policy, zone_watch=replace(policy.zone_watch, evaluate_every_ms=every_ms))


async def _zone_names(world: GateWorld) -> list[ZoneName]:
    """Name the zones that have a record."""
    directory = world.cluster.root.beside("zones")
    names = await world.cluster.store.children(directory, sync=True) or ()
    return sorted(map(ZoneName, names))


def _place(bookie: BookieId) -> Location:
    zone, _, number = bookie.rpartition("-")
    return Location(ZoneName(zone), UpgradeDomain(f"ud-{int(number) % UPGRADE_DOMAINS}"))


def _gate_of(subject: str) -> GateName:
    return None if subject == "cluster" else ZoneName(subject.removeprefix("zone "))


def _unit_of(subject: str) -> str:
    return subject.removeprefix("maintenance of ")
