"""Many seeds, in as many processes as there are: what they did, and what they found."""

import logging
import multiprocessing
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Final

from tests.simulation import drawing, shrinking, world
from tests.simulation.checker import Violation
from tests.simulation.gate_mutants import GATE_MUTANTS
from tests.simulation.log_mutants import LOG_MUTANTS
from tests.simulation.mutants import MUTANTS
from tests.simulation.planting import Mutant
from tests.simulation.profiles import PROFILES
from tests.simulation.query_mutants import QUERY_MUTANTS
from tests.simulation.reading_mutants import READING_MUTANTS
from tests.simulation.scenarios import Scenario
from tests.simulation.standing_mutants import STANDING_MUTANTS
from tests.simulation.storage_mutants import STORAGE_MUTANTS
from tests.simulation.sync_mutants import SYNC_MUTANTS

_CHUNK: Final = 10

#: All that can be planted.
BUGS: Final[Mapping[int, Mutant]] = {
    **MUTANTS,
    **GATE_MUTANTS,
    **SYNC_MUTANTS,
    **STORAGE_MUTANTS,
    **READING_MUTANTS,
    **STANDING_MUTANTS,
    **LOG_MUTANTS,
    **QUERY_MUTANTS,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Seeds of one profile, under a planted bug or none; enough for a process to start on."""

    profile: str
    first: int
    seeds: int
    mutant: int | None = None
    #: The moments of the faults that are to happen; None: all of them.
    only_ms: tuple[int, ...] | None = None

    def scenario(self, seed: int) -> Scenario:
        """Draw a seed's scenario."""
        drawn = drawing.draw(PROFILES[self.profile], seed)
        return drawn if self.only_ms is None else drawn.only(self.only_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A seed that broke a promise, and all that is needed to see it again."""

    scenario: Scenario
    violations: tuple[Violation, ...]
    mutant: int | None
    digest: str

    def __str__(self) -> str:
        scenario = self.scenario
        faults = [f"    {fault}" for fault in scenario.faults] or ["    no faults at all"]
        moments = ",".join(str(fault.at_ms) for fault in scenario.faults)
        planted = "" if self.mutant is None else f" --mutant {self.mutant}"
        return "\n".join(
            [
                f"profile {scenario.profile}, seed {scenario.seed}, {scenario.quorums}, "
                f"trace {self.digest}:",
                *(f"  {violation}" for violation in self.violations[:5]),
                "  after",
                *faults,
                f"  again: python -m tests.simulation --profile {scenario.profile} "
                f"--first {scenario.seed} --seeds 1 --only '{moments}'{planted}",
            ]
        )


@dataclass(slots=True, kw_only=True)
class Report:
    """What came of some seeds."""

    seeds: int = 0
    fired: Counter[str] = field(default_factory=Counter)
    #: Seeds, by profile.
    profiles: Counter[str] = field(default_factory=Counter)
    appended: int = 0
    acked: int = 0
    #: Of ``appended`` and ``acked``, those of calm weather.
    calm_appended: int = 0
    calm_acked: int = 0
    reads: int = 0
    ledgers: int = 0
    recoveries: int = 0
    ensemble_changes: int = 0
    moved: int = 0
    #: Times that a zone went away, by the outage's shape; bytes that repairs copied, by what for.
    outages: Counter[str] = field(default_factory=Counter)
    copied_bytes: Counter[str] = field(default_factory=Counter)
    #: How often what ought to end did, and how long it took at most.
    waits: Counter[str] = field(default_factory=Counter)
    longest_ms: dict[str, int] = field(default_factory=dict)
    #: What bookies did that no client sees.
    work: Counter[str] = field(default_factory=Counter)
    virtual_ms: int = 0
    failures: list[Failure] = field(default_factory=list)

    def add(self, outcome: world.Outcome, mutant: int | None) -> None:
        """Take a seed's outcome in."""
        self.seeds += 1
        self.profiles[outcome.scenario.profile] += 1
        self.fired.update({kind.value: number for kind, number in outcome.fired.items()})
        self.appended += outcome.appended
        self.acked += outcome.acked
        if outcome.scenario.profile == "calm":
            self.calm_appended += outcome.appended
            self.calm_acked += outcome.acked
        self.reads += outcome.reads
        self.ledgers += outcome.ledgers
        self.recoveries += outcome.recoveries
        self.ensemble_changes += outcome.ensemble_changes
        self.moved += outcome.moved
        if outcome.scenario.shape is not None:
            self.outages[outcome.scenario.shape.value] += outcome.outages
        self.copied_bytes.update(outcome.copied_bytes)
        for what, waits_ms in outcome.waits_ms.items():
            self.waits[what] += len(waits_ms)
            self.longest_ms[what] = max(self.longest_ms.get(what, 0), *waits_ms)
        self.work.update(outcome.work)
        self.virtual_ms += outcome.virtual_ms
        if outcome.violations:
            self.failures.append(
                Failure(
                    scenario=outcome.scenario,
                    violations=outcome.violations,
                    mutant=mutant,
                    digest=outcome.digest,
                )
            )

    def join(self, other: "Report") -> None:
        """Take another report in."""
        self.seeds += other.seeds
        self.fired += other.fired
        self.profiles += other.profiles
        self.appended += other.appended
        self.acked += other.acked
        self.calm_appended += other.calm_appended
        self.calm_acked += other.calm_acked
        self.reads += other.reads
        self.ledgers += other.ledgers
        self.recoveries += other.recoveries
        self.ensemble_changes += other.ensemble_changes
        self.moved += other.moved
        self.outages += other.outages
        self.copied_bytes += other.copied_bytes
        self.waits += other.waits
        for what, longest_ms in other.longest_ms.items():
            self.longest_ms[what] = max(self.longest_ms.get(what, 0), longest_ms)
        self.work += other.work
        self.virtual_ms += other.virtual_ms
        self.failures += other.failures

    @property
    def faults(self) -> int:
        """All faults that happened."""
        return self.fired.total()

    def counts(self) -> dict[str, int]:
        """Give what is to be summed up over many reports; seeds come first."""
        return {
            "seeds": self.seeds,
            "simulated seconds": self.virtual_ms // 1_000,
            "entries acknowledged": self.acked,
            "read": self.reads,
            "recoveries": self.recoveries,
            "ensemble changes": self.ensemble_changes,
            "copies moved by repair": self.moved,
            **dict(sorted(self.work.items())),
            "faults": self.faults,
            **dict(self.fired.most_common()),
        }

    def counts_of_repair(self) -> dict[str, int]:
        """Give what is to be summed up of zones that went away."""
        return {
            "seeds": self.seeds,
            "simulated seconds": self.virtual_ms // 1_000,
            "entries acknowledged": self.acked,
            **dict(sorted(self.outages.items())),
            **{f"bytes copied, {why}": size for why, size in sorted(self.copied_bytes.items())},
            **{f"ended: {what}": number for what, number in sorted(self.waits.items())},
        }

    def lines(self, seconds: float) -> list[str]:
        """Say it in words."""
        fired = ", ".join(f"{kind} {number}" for kind, number in self.fired.most_common())
        return [
            f"{self.seeds} seeds in {seconds:.0f} s ({self.seeds / max(seconds, 0.001):.1f} a "
            f"second), {self.virtual_ms / 3_600_000:.1f} simulated hours",
            f"{self.acked} entries acknowledged of {self.appended} appended, {self.reads} read; "
            f"{self.ledgers} ledgers, {self.recoveries} recoveries, "
            f"{self.ensemble_changes} ensemble changes, {self.moved} copies moved by repair",
            ", ".join(f"{number} {what}" for what, number in sorted(self.work.items())),
            f"{self.faults} faults: {fired or 'none'}",
            *self._lines_of_repair(),
            f"{len(self.failures)} seeds broke a promise",
        ]

    def _lines_of_repair(self) -> list[str]:
        if not self.outages:
            return []
        outages = ", ".join(f"{number} {shape}" for shape, number in self.outages.most_common())
        copied = ", ".join(f"{size} {why}" for why, size in self.copied_bytes.most_common())
        waits = ", ".join(
            f"{number} times {what} (at most {self.longest_ms[what] / 1_000:.1f} s)"
            for what, number in self.waits.most_common()
        )
        return [
            f"{self.outages.total()} zone outages: {outages}",
            f"bytes copied by repair: {copied or 'none'}",
            f"what ought to end, did: {waits or 'nothing'}",
        ]


def tasks(profile: str | None, first: int, seeds: int, mutant: int | None = None) -> list[Task]:
    """Cut seeds into pieces of work, over one profile or in turn over all that are not long."""
    short = [name for name, drawn in PROFILES.items() if not drawn.is_long]
    names = short if profile is None else [profile]
    share, left_over = divmod(seeds, len(names))
    cut = []
    for index, name in enumerate(names):
        end = first + share + (index < left_over)
        for start in range(first, end, _CHUNK):
            number = min(_CHUNK, end - start)
            cut.append(Task(profile=name, first=start, seeds=number, mutant=mutant))
    # By seed, not by profile: a run that is cut short has seen something of each.
    return sorted(cut, key=lambda task: task.first)


def do(task: Task) -> Report:
    """Run a piece of work; the first failure of it is shrunk."""
    report = Report()
    with quiet(), planted(task.mutant):
        for seed in range(task.first, task.first + task.seeds):
            report.add(world.run(task.scenario(seed)), task.mutant)
        if report.failures:
            report.failures[0] = _shrunk(report.failures[0])
    return report


def run(work: Iterable[Task], processes: int, until_s: float | None = None) -> Report:
    """Run pieces of work side by side, until ``until_s`` seconds have gone by.

    With a time limit, what was begun is finished and nothing more is begun.
    """
    report, began = Report(), time.perf_counter()

    def in_time() -> Iterator[Task]:
        for task in work:
            if until_s is not None and time.perf_counter() - began > until_s:
                return
            yield task

    if processes == 1:
        for task in in_time():
            report.join(do(task))
        return report
    # Unlike multiprocessing's own pool, this one fails, and does not wait for ever, when a process
    # of it dies.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=context) as pool:
        waiting = []
        for task in in_time():
            waiting.append(pool.submit(do, task))
            if len(waiting) > 2 * processes:
                report.join(waiting.pop(0).result())
        for result in waiting:
            report.join(result.result())
    return report


def seeds_to_detection(mutant: int, first: int = 0) -> tuple[int, Failure] | None:
    """Plant a bug, and give after how many seeds of its profile it was found; None: it was not."""
    planted_bug = BUGS[mutant]
    assert planted_bug.profile is not None, f"mutant {mutant} is not the simulator's"
    for start in range(first, first + planted_bug.within_seeds):
        task = Task(profile=planted_bug.profile, first=start, seeds=1, mutant=mutant)
        with quiet(), planted(mutant):
            report = Report()
            report.add(world.run(task.scenario(start)), mutant)
        if report.failures:
            return start - first + 1, report.failures[0]
    return None


def planted(mutant: int | None) -> AbstractContextManager[None]:
    """Let the code have a bug, or none."""
    return nullcontext() if mutant is None else BUGS[mutant].planted()


@contextmanager
def quiet() -> Iterator[None]:
    """Keep the product's warnings to itself: trouble is what these worlds are for."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


def _shrunk(failure: Failure) -> Failure:
    kind = failure.violations[0].kind

    def fails(scenario: Scenario) -> bool:
        found = world.run(scenario).violations
        return any(violation.kind == kind for violation in found)

    small = shrinking.shrink(failure.scenario, fails)
    outcome = world.run(small)
    return Failure(
        scenario=small,
        violations=outcome.violations,
        mutant=failure.mutant,
        digest=outcome.digest,
    )
