"""Nothing waits that need not, and what must wait fills the next message."""

import heapq
from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from zonekeeper.wire.lanes.coalescing import IN_FLIGHT_MAX, Coalescer


def coalescer(aim_bytes: int = 100, items_max: int = 1_000) -> Coalescer[str, str]:
    return Coalescer(aim_bytes=aim_bytes, items_max=items_max)


def test_a_single_item_leaves_at_once() -> None:
    pending = coalescer()
    pending.put("ledger", "entry", 10)
    assert pending.take() == ["entry"]
    assert pending.take() == []


def test_items_leave_one_by_one_until_enough_messages_are_under_way_and_then_together() -> None:
    pending = coalescer()
    for number in range(IN_FLIGHT_MAX):
        pending.put("ledger", f"alone {number}", 10)
        assert pending.take() == [f"alone {number}"]
    for number in range(5):
        pending.put("ledger", f"together {number}", 10)
        assert pending.take() == []
    pending.finished()
    assert pending.take() == [f"together {number}" for number in range(5)]


def test_a_flood_fills_messages_to_their_size() -> None:
    pending = coalescer(aim_bytes=100)
    for number in range(25):
        pending.put("ledger", str(number), 10)
    assert [len(pending.take()) for _ in range(IN_FLIGHT_MAX)] == [10, 10, 5]


def test_no_message_has_more_items_than_it_may() -> None:
    pending = coalescer(items_max=4)
    for number in range(6):
        pending.put("ledger", str(number), 1)
    assert [len(pending.take()) for _ in range(2)] == [4, 2]


def test_an_item_above_the_aim_leaves_alone() -> None:
    pending = coalescer(aim_bytes=100)
    for name, size_bytes in (("small", 10), ("huge", 500), ("last", 10)):
        pending.put("ledger", name, size_bytes)
    assert [pending.take() for _ in range(3)] == [["small"], ["huge"], ["last"]]


def test_a_flood_in_one_flow_delays_the_others_by_a_turn() -> None:
    pending = coalescer(aim_bytes=50)
    for number in range(100):
        pending.put("flood", f"flood {number}", 10)
    pending.put("quiet", "quiet", 10)
    assert pending.take() == ["flood 0", "quiet", "flood 1", "flood 2", "flood 3"]


def test_whose_turn_did_not_fit_opens_the_next_message() -> None:
    pending = coalescer(aim_bytes=50)
    for flow in ("a", "b", "c"):
        pending.put(flow, flow, 30)
    assert [pending.take() for _ in range(3)] == [["a"], ["b"], ["c"]]


def test_a_dropped_flow_is_not_sent() -> None:
    pending = coalescer()
    for flow, item in (("a", "a0"), ("b", "b0"), ("a", "a1")):
        pending.put(flow, item, 10)
    assert pending.drop("a") == ["a0", "a1"]
    assert pending.drop("a") == []
    assert pending.take() == ["b0"]


def test_only_the_head_of_a_flow_is_doomed() -> None:
    pending = coalescer()
    for flow, item in (("a", "old"), ("b", "new"), ("a", "new"), ("a", "old"), ("c", "old")):
        pending.put(flow, item, 10)
    assert pending.drop_while(lambda item: item == "old") == ["old", "old"]
    assert pending.take() == ["new", "new", "old"]


class Books(RuleBasedStateMachine):
    """Every item is pending, or taken once, or dropped once; order holds inside each flow."""

    def __init__(self) -> None:
        super().__init__()
        self.pending: Coalescer[int, tuple[int, int, int]] = Coalescer(aim_bytes=64, items_max=5)
        self.put_count: dict[int, int] = defaultdict(int)
        self.waiting: dict[int, list[tuple[int, int, int]]] = defaultdict(list)

    @rule(flow=st.integers(0, 3), size_bytes=st.integers(1, 100))
    def put(self, flow: int, size_bytes: int) -> None:
        item = (flow, self.put_count[flow], size_bytes)
        self.put_count[flow] += 1
        self.waiting[flow].append(item)
        self.pending.put(flow, item, size_bytes)

    @rule()
    def take(self) -> None:
        before = self.pending.in_flight
        batch = self.pending.take()
        for item in batch:
            assert self.waiting[item[0]].pop(0) == item
        assert len(batch) <= 5
        assert len(batch) <= 1 or sum(size for _, _, size in batch) <= 64
        may_send = before < IN_FLIGHT_MAX and any(self.waiting.values())
        assert batch or not may_send, "something could have left"
        assert self.pending.in_flight == before + bool(batch)

    @precondition(lambda self: self.pending.in_flight)
    @rule()
    def finish(self) -> None:
        self.pending.finished()

    @rule(flow=st.integers(0, 3))
    def drop(self, flow: int) -> None:
        assert self.pending.drop(flow) == self.waiting.pop(flow, [])

    @invariant()
    def never_too_many_under_way(self) -> None:
        assert 0 <= self.pending.in_flight <= IN_FLIGHT_MAX


TestBooks = Books.TestCase
TestBooks.settings = settings(deadline=None, max_examples=60)


def messages_needed(arrivals: list[tuple[float, int]], round_trip_ms: float) -> int:
    """Play items of flows arriving at times, and count the messages that carry them."""
    pending: Coalescer[int, float] = Coalescer(aim_bytes=1 << 20, items_max=1_000)
    finishing: list[float] = []
    count = 0
    arrivals = sorted(arrivals)
    while arrivals or finishing:
        if finishing and (not arrivals or finishing[0] <= arrivals[0][0]):
            now = heapq.heappop(finishing)
            pending.finished()
        else:
            now, flow = arrivals.pop(0)
            pending.put(flow, now, 1_000)
        while pending.take():
            count += 1
            heapq.heappush(finishing, now + round_trip_ms)
    return count


@pytest.mark.parametrize("round_trip_ms", [0.5, 2, 10, 60])
@settings(deadline=None, max_examples=20)
@given(phases=st.permutations(range(100)))
def test_a_hundred_slow_ledgers_need_no_more_messages_than_a_fast_one(
    round_trip_ms: float, phases: list[int]
) -> None:
    slow = [(phases[n] + 100.0 * turn, n) for n in range(100) for turn in range(10)]
    fast = [(float(n), 0) for n in range(1_000)]
    needed = messages_needed(slow, round_trip_ms)
    assert needed <= messages_needed(fast, round_trip_ms)
    assert needed <= IN_FLIGHT_MAX * (1 + 1_000 / round_trip_ms)
