"""What an auditor's pass over all ledgers costs: counted by its requests, and not timed."""

import sys
from types import FrameType

import pytest

from tests.replication.audit_world import AuditorProcess, AuditWorld, play
from tests.replication.gate_world import MINUTE, SECOND
from zonekeeper.metadata.stores.memory import Passage, RequestKind
from zonekeeper.placement.base.ids import BookieId


class Cost:
    """Of a first pass, and of the pass that publishes a lost bookie."""

    def __init__(self) -> None:
        self.reads = 0
        self.writes = 0
        self.calls = 0
        self.index_bytes = 0
        self.marks = 0


def cost_of(count: int) -> Cost:
    cost = Cost()

    def weather(kind: RequestKind) -> Passage:
        cost.reads += kind is RequestKind.READ
        cost.writes += kind is RequestKind.WRITE
        return Passage()

    def count_call(_: FrameType, event: str, __: object) -> None:
        cost.calls += event == "call"

    async def scenario(world: AuditWorld) -> None:
        for number in range(count):
            await world.add_ledger(number, [f"{zone}-{number % 4}" for zone in "abc"])
        process = AuditorProcess(world.gates, "auditor-1")
        process.store.weather = weather
        world.auditors.append(process)
        sys.setprofile(count_call)
        try:
            while process.metrics.listings_total < 1:
                await world.gates.wait(SECOND)
        finally:
            sys.setprofile(None)
        await world.gates.lose([BookieId("a-0")])
        await world.gates.wait(8 * MINUTE)
        cost.marks = len(await world.marks())
        cost.index_bytes = process.metrics.index_bytes

    play(scenario, audited=False)
    return cost


def check_twice(count: int) -> None:
    once, twice = cost_of(count), cost_of(2 * count)
    assert (once.marks, twice.marks) == (count // 4, 2 * count // 4)
    assert twice.reads <= 2.1 * once.reads
    assert twice.writes <= 2.1 * once.writes
    assert twice.calls <= 2.1 * once.calls
    assert twice.index_bytes <= 2.1 * once.index_bytes
    sys.stdout.write(
        f"{count:,} and {2 * count:,} ledgers: {once.reads:,} and {twice.reads:,} reads, "
        f"{once.writes:,} and {twice.writes:,} writes, {once.calls:,} and {twice.calls:,} calls, "
        f"index {once.index_bytes:,} and {twice.index_bytes:,} bytes\n"
    )


def test_a_pass_over_twice_the_ledgers_is_twice_the_work() -> None:
    check_twice(1_000)


@pytest.mark.long
def test_a_pass_over_200_000_ledgers_is_twice_the_work_of_100_000() -> None:
    check_twice(100_000)


@pytest.mark.long
def test_a_pass_over_a_million_ledgers_keeps_what_it_promises() -> None:
    cost = cost_of(1_000_000)
    assert cost.marks == 1_000_000 // 4
    sys.stdout.write(f"1,000,000 ledgers: {cost.reads:,} reads, index {cost.index_bytes:,} bytes\n")
