"""Of all processes that stand for a Lease one may act at a time, whatever comes between.

The small world is enumerated to its end: two processes whose clocks show different times, every
order of their reads and writes, answers that are lost, writes that arrive late, a process that
stands still for any time between any two steps, and one that gives the Lease up.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

from zonekeeper.operator.lead import tenure
from zonekeeper.operator.lead.tenure import LeaseRecord, LeaseStep, LeaseTimes, Tenure

TIMES = LeaseTimes(lease_ms=4, hold_ms=3, renew_ms=2, again_ms=1)
#: The smallest times that differ.
SMALL = LeaseTimes(lease_ms=3, hold_ms=2, renew_ms=1, again_ms=1)
#: The clock of the second process shows so much more than that of the first.
OFFSETS = (0, 1_000)
#: Long enough for a change of the holder, and for the one before it to come back.
TICKS = 4


@dataclass(frozen=True, slots=True)
class Write:
    """A write on its way; it counts only over the version that was read."""

    record: LeaseRecord
    over: int
    begun_ms: int


@dataclass(frozen=True, slots=True)
class Process:
    """One process, between two of its steps."""

    tenure: Tenure
    #: What a read has found, and its process has not taken in yet.
    reading: tuple[LeaseRecord | None, int] | None = None
    writing: Write | None = None
    #: A write that has counted; its answer is on its way.
    answer: Write | None = None
    ended: bool = False

    @property
    def idle(self) -> bool:
        return not (self.ended or self.reading or self.writing or self.answer)


@dataclass(frozen=True, slots=True)
class SmallWorld:
    """The Lease, the processes, and writes whose process gave up waiting for an answer."""

    now_ms: int
    lease: LeaseRecord | None
    version: int
    processes: tuple[Process, ...]
    late: tuple[Write, ...] = ()

    def clock(self, number: int) -> int:
        return self.now_ms + OFFSETS[number]

    def actors(self) -> list[int]:
        return [
            number
            for number, one in enumerate(self.processes)
            if tenure.may_act(one.tenure, SMALL, self.clock(number))
        ]


def start() -> SmallWorld:
    both = tuple(Process(Tenure(me=name)) for name in ("a", "b"))
    return SmallWorld(now_ms=0, lease=None, version=0, processes=both)


@dataclass(frozen=True, slots=True)
class Rules:
    """Under what the world is enumerated."""

    #: So many writes there may be.
    writes: int
    #: The bug: a holder counts its time from the answer, not from the begin of its write.
    count_from_answer: bool = False


def following(world: SmallWorld, rules: Rules) -> Iterator[SmallWorld]:
    if world.now_ms < TICKS:
        yield replace(world, now_ms=world.now_ms + 1)
    for write in world.late:
        rest = tuple(one for one in world.late if one is not write)
        yield replace(landed(world, write), late=rest)
    for number, process in enumerate(world.processes):
        for changed, after in steps(world, number, process, rules):
            others = list(changed.processes)
            others[number] = after
            yield replace(changed, processes=tuple(others))


def landed(world: SmallWorld, write: Write) -> SmallWorld:
    """Let a write arrive: it counts over its version, and is refused over any other."""
    if write.over != world.version:
        return world
    lease = None if write.record.holder == "" else write.record
    return replace(world, lease=lease or write.record, version=world.version + 1)


def steps(
    world: SmallWorld, number: int, process: Process, rules: Rules
) -> Iterator[tuple[SmallWorld, Process]]:
    now_ms = world.clock(number)
    if process.idle:
        yield world, replace(process, reading=(world.lease, world.version))
        record = tenure.given_up(process.tenure)
        if record is not None and process.tenure.seen == world.lease:
            yield (
                landed(world, Write(record, world.version, now_ms)),
                replace(process, ended=True, tenure=Tenure(me=process.tenure.me)),
            )
    elif process.reading is not None:
        yield world, decided(process, now_ms, rules)
    elif process.writing is not None:
        write = process.writing
        after = landed(world, write)
        # Refused: it reads again. Counted: the answer comes. Late: no answer ever comes.
        counted = after is not world
        yield after, replace(process, writing=None, answer=write if counted else None)
        if not world.late:
            yield replace(world, late=(write,)), replace(process, writing=None)
    elif process.answer is not None:
        write = process.answer
        begun_ms = now_ms if rules.count_from_answer else write.begun_ms
        known = tenure.written(process.tenure, write.record, begun_ms=begun_ms)
        yield world, replace(process, answer=None, tenure=known)


def decided(process: Process, now_ms: int, rules: Rules) -> Process:
    assert process.reading is not None
    found, version = process.reading
    known = tenure.read(process.tenure, found, now_ms)
    step = tenure.step(known, SMALL, now_ms)
    process = replace(process, tenure=known, reading=None)
    if step is LeaseStep.END:
        return replace(process, ended=True)
    if step is LeaseStep.STAND_BY:
        return process
    record = tenure.next_record(known)
    if record.renewals > rules.writes:
        return process
    return replace(process, writing=Write(record, version, now_ms))


def enumerated(rules: Rules) -> tuple[int, SmallWorld | None]:
    """Give the number of situations, and one in which two may act."""
    seen, todo = {start()}, [start()]
    while todo:
        world = todo.pop()
        if len(world.actors()) > 1:
            return len(seen), world
        for after in following(world, rules):
            if after not in seen:
                seen.add(after)
                todo.append(after)
    return len(seen), None


@pytest.mark.parametrize("writes", [2, pytest.param(3, marks=pytest.mark.long)])
def test_two_never_may_act_at_once(writes: int) -> None:
    count, found = enumerated(Rules(writes))

    assert found is None
    assert count > 100_000


def test_the_small_world_finds_a_holder_that_counts_from_the_answer() -> None:
    _, found = enumerated(Rules(2, count_from_answer=True))

    assert found is not None


def test_a_lease_that_is_not_there_is_taken_at_once() -> None:
    fresh = Tenure(me="a")

    assert tenure.step(fresh, TIMES, 0) is LeaseStep.TAKE
    assert tenure.next_record(fresh) == LeaseRecord(holder="a", renewals=1, transitions=0)


def test_a_lease_that_does_not_change_is_taken_after_its_time_and_not_before() -> None:
    held = LeaseRecord(holder="b", renewals=7, transitions=1)
    stands_by = tenure.read(Tenure(me="a"), held, 10)

    assert tenure.step(stands_by, TIMES, 13) is LeaseStep.STAND_BY
    assert tenure.step(stands_by, TIMES, 14) is LeaseStep.TAKE
    assert tenure.next_record(stands_by) == LeaseRecord(holder="a", renewals=8, transitions=2)


def test_each_renewal_puts_the_taking_off() -> None:
    stands_by = Tenure(me="a")
    for renewals in range(20):
        held = LeaseRecord(holder="b", renewals=renewals, transitions=0)
        stands_by = tenure.read(stands_by, held, renewals * 3)
        assert tenure.step(stands_by, TIMES, renewals * 3 + 2) is LeaseStep.STAND_BY


def test_a_lease_that_is_deleted_is_taken_only_when_its_holder_has_surely_ended() -> None:
    stands_by = tenure.read(Tenure(me="a"), LeaseRecord(holder="b", renewals=1, transitions=0), 10)
    gone = tenure.read(stands_by, None, 12)

    assert tenure.step(gone, TIMES, 13) is LeaseStep.STAND_BY
    assert tenure.step(gone, TIMES, 14) is LeaseStep.TAKE


def test_a_lease_that_was_given_up_is_taken_at_once() -> None:
    holder = tenure.written(
        Tenure(me="b"), LeaseRecord(holder="b", renewals=1, transitions=0), begun_ms=0
    )
    left = tenure.given_up(holder)
    assert left == LeaseRecord(holder="", renewals=2, transitions=0)

    assert tenure.step(tenure.read(Tenure(me="a"), left, 1), TIMES, 1) is LeaseStep.TAKE


@pytest.mark.parametrize(
    "never",
    [
        Tenure(me="a"),
        Tenure(me="a", seen=LeaseRecord(holder="b", renewals=1, transitions=0)),
        Tenure(me="a", seen=LeaseRecord(holder="b", renewals=1, transitions=0), held_from_ms=0),
    ],
)
def test_only_the_holder_gives_up(never: Tenure) -> None:
    assert tenure.given_up(never) is None


def test_a_holder_may_act_until_its_time_is_over_and_then_ends() -> None:
    record = LeaseRecord(holder="a", renewals=1, transitions=0)
    holder = tenure.written(Tenure(me="a"), record, begun_ms=100)

    assert [tenure.left_ms(holder, TIMES, now_ms) for now_ms in (100, 102, 103, 900)] == [
        *(3, 1, 0, 0)
    ]
    assert tenure.step(holder, TIMES, 102) is LeaseStep.RENEW
    assert tenure.step(holder, TIMES, 103) is LeaseStep.END


def test_a_holder_that_reads_another_holder_ends_at_once() -> None:
    record = LeaseRecord(holder="a", renewals=1, transitions=0)
    holder = tenure.written(Tenure(me="a"), record, begun_ms=100)
    robbed = tenure.read(holder, LeaseRecord(holder="b", renewals=2, transitions=1), 101)

    assert not tenure.may_act(robbed, TIMES, 101)
    assert tenure.step(robbed, TIMES, 101) is LeaseStep.END


def test_a_write_whose_answer_was_lost_is_repeated() -> None:
    unsure = tenure.read(Tenure(me="a"), LeaseRecord(holder="a", renewals=1, transitions=0), 1)

    assert not tenure.may_act(unsure, TIMES, 1), "it is not known when the write was begun"
    assert tenure.step(unsure, TIMES, 1) is LeaseStep.RENEW


def test_the_holder_stops_well_before_another_may_begin() -> None:
    times = LeaseTimes()

    assert times.hold_ms * 1.4 < times.lease_ms, "clocks may run at different rates"
    assert times.renew_ms * 2 + times.again_ms < times.hold_ms, "a renewal may fail twice"
