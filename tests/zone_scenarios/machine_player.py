"""Plays a transcript on the pure machine: every line must hold at its very moment."""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import assert_never

from tests.placement.zone_world import ANNA, World
from tests.zone_scenarios import judging, steps
from tests.zone_scenarios.judging import Happening, Passing, Seen
from tests.zone_scenarios.steps import (
    Act,
    GateName,
    Kind,
    OfBookies,
    OfPeople,
    OfWatches,
)
from tests.zone_scenarios.transcripts import Side, Transcript
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.placement.zones import zone_effects
from zonekeeper.placement.zones.gate import Token
from zonekeeper.placement.zones.losses import HeldBy
from zonekeeper.placement.zones.maintenance import Maintenance
from zonekeeper.placement.zones.zone_effects import Effect


@dataclass
class Passed(World):
    """A world that notes what each gate goes through."""

    passed: defaultdict[GateName, Passing] = field(
        default_factory=lambda: defaultdict(Passing.begun)
    )

    def look(self) -> None:
        """Evaluate, and note what came of it."""
        super().look()
        for zone, record in self.health.zones.items():
            self.passed[zone].look(record)
        if self.health.cluster is not None:
            self.passed[None].look(self.health.cluster)


def play(transcript: Transcript) -> None:
    """Play it to its end; raises ``AssertionError`` at the first line that does not hold."""
    _MachinePlayer(transcript).play()


class _MachinePlayer:
    def __init__(self, transcript: Transcript) -> None:
        setting = transcript.setting
        self._transcript = transcript
        self._every_ms = setting.policy.zone_watch.evaluate_every_ms
        self._world = Passed(policy=setting.policy, repair_ms=setting.repairs_take_ms)
        self._world.present = dict.fromkeys(setting.bookies, True)
        self._world.look()
        if not setting.first_start:
            self._world.wait(setting.policy.zone_watch.start_grace_ms, self._every_ms)
            self._world.happened.clear()
            self._world.passed.clear()
            self._world.look()
            assert not self._world.happened
        self._zero_ms = self._world.now_ms
        self._declared = 0
        self._named: defaultdict[GateName, int] = defaultdict(int)

    def play(self) -> None:
        for line in self._transcript.on(Side.MACHINE):
            self._wait_until(line.at_ms)
            if isinstance(line.step, Act):
                self._do(line.step)
                continue
            found = judging.unmet(line.step, self._seen(), late_ms=0)
            assert found is None, f"{line.place}, on the machine: {line.text}\n  but: {found}"
            if isinstance(line.step, steps.Noted):
                self._named[line.step.gate] += 1

    @property
    def _now_ms(self) -> int:
        return self._world.now_ms - self._zero_ms

    def _wait_until(self, at_ms: int) -> None:
        """Let time pass; watch and auditor look every ``evaluateEvery`` since the beginning."""
        while self._now_ms < at_ms:
            tick_ms = self._every_ms - self._now_ms % self._every_ms
            self._world.wait(min(tick_ms, at_ms - self._now_ms), self._every_ms)

    def _do(self, act: Act) -> None:
        if isinstance(act, OfBookies):
            self._do_to_bookies(act)
        elif isinstance(act, OfPeople):
            self._do_as_a_person(act)
        else:
            self._do_to_the_watch(act)

    def _do_to_bookies(self, act: OfBookies) -> None:
        world = self._world
        match act:
            case steps.Lose():
                world.lose(act.bookies)
            case steps.Return():
                world.come(act.bookies)
            case steps.Add():
                if not act.placed:
                    world.nowhere.update(act.bookies)
                world.come(act.bookies)
            case steps.Decommission():
                for bookie in act.bookies:
                    world.decommission(bookie)
                    world.published.pop(bookie, None)
            case steps.Drain():
                world.draining.update(act.bookies)
                world.look()
            case _:
                assert_never(act)

    def _do_as_a_person(self, act: OfPeople) -> None:
        world = self._world
        match act:
            case steps.Release():
                world.release(act.gate)
            case steps.Hold():
                world.hold(act.gate)
            case steps.Turn():
                world.enabled = act.on
                world.look()
            case steps.Declare():
                self._declare(act)
            case steps.Lift():
                del world.maintenance[act.unit]
                world.look()
            case _:
                assert_never(act)

    def _do_to_the_watch(self, act: OfWatches) -> None:
        match act:
            case steps.WatchDies():
                assert self._world.watching, "nobody watches"
                self._world.watching = False
            case steps.WatchBegins():
                assert not self._world.watching, "one watches already"
                self._world.change_watcher(clock_ms=self._now_ms * 7919 % 1_000_003)
            case _:
                assert_never(act)

    def _declare(self, act: steps.Declare) -> None:
        self._declared += 1
        self._world.maintenance[act.unit] = Maintenance(
            unit=act.unit,
            token=Token(f"m-{self._declared}"),
            declared_by=ANNA,
            lasts_ms=act.lasts_ms,
        )
        self._world.look()

    def _seen(self) -> Seen:
        world = self._world
        happened, noted = [], defaultdict[GateName, list[str]](list)
        for at_ms, effect in world.happened:
            if isinstance(effect, zone_effects.Noted):
                noted[effect.zone].append(effect.text)
            else:
                happened.append(_happening(at_ms - self._zero_ms, effect))
        return Seen(
            zones=world.health.zones,
            cluster=world.cluster,
            replication_on=world.enabled,
            in_maintenance=frozenset(world.maintenance),
            passed=world.passed,
            published={bookie: at_ms - self._zero_ms for bookie, at_ms in world.published.items()},
            holds=self._holds,
            happened=happened,
            noted={gate: texts[self._named[gate] :] for gate, texts in noted.items()},
        )

    def _holds(self, bookie: BookieId) -> HeldBy | None:
        held = self._world.what_holds(bookie)
        return None if held is None else held.by


def _happening(at_ms: int, effect: Effect) -> Happening:
    match effect:
        case zone_effects.AlertRaised():
            return Happening(at_ms=at_ms, kind=Kind.RAISED, what=effect.alert)
        case zone_effects.AlertCleared():
            return Happening(at_ms=at_ms, kind=Kind.CLEARED, what=effect.alert)
        case zone_effects.Reminder():
            return Happening(at_ms=at_ms, kind=Kind.REMINDED)
        case zone_effects.SwitchOff():
            return Happening(at_ms=at_ms, kind=Kind.SWITCHED_OFF)
        case zone_effects.EndMaintenance():
            unit = str(effect.maintenance.unit)
            return Happening(at_ms=at_ms, kind=Kind.ENDED, what=unit)
        case zone_effects.Noted():
            raise AssertionError("a line of the timeline is nothing that happens")
        case _:
            assert_never(effect)
