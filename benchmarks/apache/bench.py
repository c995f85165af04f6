"""What the cases of a race share: a lap on a side is timed, its CPU is counted, and it settles."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Final, NamedTuple

from benchmarks.apache import laps, quiet
from benchmarks.apache.laps import Lap
from benchmarks.apache.sides import RaceSide
from benchmarks.support import accounting

#: A side is warm when so many windows one behind the other cost the same, up to this share. Two
#: are too few: a JVM of Apache's cost 48 and 52 us an entry in two windows, and 38 a minute later.
WARM_WINDOWS: Final = 3
WARM_SHARE: Final = 0.15
WARM_WINDOWS_MAX: Final = 12
WARM_SIZES: Final = (1_024, 65_536)
_LOOK_S: Final = 0.25
#: No side is waited for longer.
_QUIET_S_MAX: Final = 60.0


class _Spent(NamedTuple):
    """CPU seconds up to a moment."""

    at_s: float
    side: float
    client: float
    zookeeper: float
    machine: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """How long everything takes, and what is looked at."""

    zookeeper_pid: int
    seconds: float
    settle_s: float
    warm_s: float
    window_bytes: int
    #: How long the case of minutes takes.
    sustain_s: float

    @property
    def milliseconds(self) -> int:
        """The length of a window."""
        return round(self.seconds * 1_000)

    def lap(
        self, case: str, number: int, side: RaceSide, act: Callable[[], Mapping[str, object]]
    ) -> Lap:
        """Run a window on a side, and wait until the side is quiet."""
        rewritten, before = side.rewritten_bytes(), self._spent(side)
        answer = act()
        after = self._spent(side)
        left = self._settled(side)
        entries, wall_s = _number(answer["entries"]), _number(answer["seconds"])
        cpu_s, window_s = after.side - before.side, after.at_s - before.at_s
        others = after.machine - before.machine - cpu_s - (after.zookeeper - before.zookeeper)
        more = {
            name: _number(value)
            for name, value in answer.items()
            if isinstance(value, int | float) and name not in ("entries", "seconds")
        }
        if rewritten is not None and (now := side.rewritten_bytes()) is not None:
            more["rewritten_bytes"] = now - rewritten
        return Lap(
            case=case,
            side=side.name,
            round=number,
            entries=int(entries),
            wall_s=wall_s,
            cpu_s=cpu_s,
            client_cpu_s=after.client - before.client,
            zookeeper_cpu_s=after.zookeeper - before.zookeeper,
            others_cpus=max(0.0, others) / window_s,
            tail_cpu_s=left.cpu_s,
            tail_s=left.seconds,
            quiet=left.quiet,
            warm=side.warm,
            latencies_ms=laps.percentiles(_numbers(answer.get("latencies_us", []))),
            more=more,
        )

    def checked(self, lap: Lap, begun: Mapping[str, object], side: RaceSide) -> Lap:
        """Read back what a lap wrote, outside its time, and delete it."""
        appended = int(lap.more.get("appended", lap.entries))
        written = int(_number(begun["entries"])) + appended
        found = int(_number(side.driver.ask("finish", window=self.window_bytes)["entries"]))
        return replace(lap, written=written, found=found)

    def warm_up(self, side: RaceSide, say: Callable[[str], None]) -> None:
        """Load a side until windows cost the same; it is not warm if that never comes."""
        agreed = []
        for size in reversed(WARM_SIZES):
            costs: list[float] = []
            while len(costs) < WARM_WINDOWS_MAX and not agree(costs):
                costs.append(self._warm_window(side, size))
            say(f"{side.name}: {size} B, CPU-us {', '.join(f'{cost:.1f}' for cost in costs)}")
            agreed.append(agree(costs))
        side.warm = all(agreed)

    def _warm_window(self, side: RaceSide, size: int) -> float:
        window = self.window_bytes
        side.driver.ask("begin", size=size, window=window)
        before = self._spent(side)
        answer = side.driver.ask("append", milliseconds=round(self.warm_s * 1_000), window=window)
        spent = self._spent(side).side - before.side
        side.driver.ask("finish", window=window)
        return 1e6 * spent / _number(answer["entries"])

    def _settled(self, side: RaceSide) -> quiet.LeftBehind:
        looks = [self._look(side)]
        while not quiet.is_over(looks, settle_s=self.settle_s, most_s=_QUIET_S_MAX):
            time.sleep(_LOOK_S)
            looks.append(self._look(side))
        return quiet.left_behind(looks)

    def _look(self, side: RaceSide) -> quiet.Look:
        return quiet.Look(time.perf_counter(), side.cpu_seconds())

    def _spent(self, side: RaceSide) -> _Spent:
        return _Spent(
            at_s=time.perf_counter(),
            side=side.cpu_seconds(),
            client=accounting.cpu_seconds_of([side.driver.pid]),
            zookeeper=accounting.cpu_seconds_of([self.zookeeper_pid]),
            machine=accounting.machine_cpu_seconds(),
        )


def agree(costs: list[float]) -> bool:
    """Say whether the last windows cost the same."""
    last = costs[-WARM_WINDOWS:]
    return len(last) == WARM_WINDOWS and max(last) - min(last) <= WARM_SHARE * fmean(last)


def _number(value: object) -> float:
    assert isinstance(value, int | float), value
    return value


def _numbers(values: object) -> list[int]:
    assert isinstance(values, list), values
    return values
