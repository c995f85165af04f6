"""In which order replicas are asked: the nearest that will answer soon comes first."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zonekeeper.placement.base.ids import ZoneName
from zonekeeper.placement.base.topology import Registration
from zonekeeper.placement.ensembles import read_order
from zonekeeper.placement.ensembles.read_order import Reason, Replica
from zonekeeper.placement.policy.rules import ReadRules

Z1, Z2, Z3 = ZoneName("z1"), ZoneName("z2"), ZoneName("z3")
TEN = ReadRules(pending_limit=10)
NO_LIMIT = ReadRules(pending_limit=0)
NOW_MS = 1_000_000


def replica(zone: ZoneName | None, pending: int = 0, rules: ReadRules = TEN) -> Replica:
    return Replica(zone=zone).with_pending(pending, rules)


def gone(zone: ZoneName | None) -> Replica:
    return Replica(zone=zone, registration=Registration.ABSENT)


def read_only(zone: ZoneName | None) -> Replica:
    return Replica(zone=zone, registration=Registration.READ_ONLY)


def ordered(
    replicas: Sequence[Replica], own_zone: ZoneName | None = Z2, rules: ReadRules = TEN
) -> read_order.ReadOrder:
    return read_order.order(range(len(replicas)), replicas, own_zone, rules, NOW_MS)


def against(one: Replica, rules: ReadRules, now_ms: int = NOW_MS) -> Reason | None:
    """Say why one of another zone would be asked before this one, were it in the own zone."""
    replicas = [replace(one, zone=Z2), Replica(zone=Z1)]
    rules = replace(rules, hedge_remote_at=1)
    return read_order.order((0, 1), replicas, Z2, rules, now_ms).why_remote


# ── the worked table: A in z1, B in z2, C in z3; the reader in z2; the limit 10 ──

B_FAILED = Replica(zone=Z2).failed(TEN, NOW_MS)


@pytest.mark.parametrize(
    ("replicas", "own_zone", "expected"),
    [
        pytest.param([replica(Z1), replica(Z2), replica(Z3)], Z2, "BAC", id="all idle"),
        pytest.param([replica(Z1), replica(Z2, 10), replica(Z3)], Z2, "ACB", id="B busy"),
        pytest.param([replica(Z1, 10), replica(Z2, 10), replica(Z3)], Z2, "CBA", id="A and B busy"),
        pytest.param(
            [replica(Z1, 12), B_FAILED, replica(Z3, 12)], Z2, "BAC", id="B failed, A and C busy"
        ),
        pytest.param([replica(Z1), gone(Z2), replica(Z3)], Z2, "ACB", id="B unregistered"),
        pytest.param(
            [replica(Z1, 50), gone(Z2), gone(Z3)], Z2, "ABC", id="B and C unregistered, A busy"
        ),
        pytest.param([replica(Z1), replica(Z2), replica(Z3)], None, "ABC", id="own zone unknown"),
    ],
)
def test_the_worked_table(
    replicas: list[Replica], own_zone: ZoneName | None, expected: str
) -> None:
    positions = ordered(replicas, own_zone).positions

    assert "".join("ABC"[position] for position in positions) == expected


# ── classes ──


def test_all_classes_in_their_order() -> None:
    rules = ReadRules(pending_limit=0, demote_read_only=True)
    replicas = [
        gone(Z2),
        Replica(zone=Z2).slow(NOW_MS),
        read_only(Z2),
        Replica(zone=Z1).failed(rules, NOW_MS),
        Replica(zone=Z2).failed(rules, NOW_MS),
        Replica(zone=Z1),
        Replica(zone=Z2),
    ]

    found = ordered(replicas, rules=rules)

    assert found.positions == (6, 5, 4, 3, 2, 1, 0)
    assert [against(replicas[position], rules) for position in found.positions] == [
        None,
        None,
        Reason.FAILED,
        Reason.FAILED,
        Reason.READ_ONLY,
        Reason.SLOW,
        Reason.UNREGISTERED,
    ]


def test_healthy_replicas_keep_the_order_of_the_write_set_whatever_is_outstanding() -> None:
    replicas = [replica(Z2, 9), replica(Z2, 3), replica(Z2), replica(Z1, 7), replica(Z1)]

    found = read_order.order((3, 4, 0, 1, 2), replicas, Z2, ReadRules(hedge_remote_at=9), NOW_MS)

    assert found.positions == (0, 1, 2, 3, 4)


def test_the_troubled_go_by_failures_then_by_requests_outstanding() -> None:
    replicas = [
        replica(Z1, 20).failed(TEN, NOW_MS).failed(TEN, NOW_MS),
        replica(Z1, 20).failed(TEN, NOW_MS),
        replica(Z1, 3).failed(TEN, NOW_MS),
        replica(Z1, 40),
    ]

    assert ordered(replicas).positions == (3, 2, 1, 0)


def test_a_replica_that_failed_and_is_slow_counts_as_failed() -> None:
    both = Replica(zone=Z2).failed(NO_LIMIT, NOW_MS).slow(NOW_MS)

    assert against(both, NO_LIMIT) is Reason.FAILED


def test_slow_is_only_believed_where_requests_outstanding_are_not_looked_at() -> None:
    slow = Replica(zone=Z2).slow(NOW_MS)

    assert against(slow, TEN) is None
    assert against(slow, NO_LIMIT) is Reason.SLOW


def test_read_only_bookies_are_full_readers_unless_the_policy_demotes_them() -> None:
    replicas = [replica(Z1), read_only(Z2)]

    assert ordered(replicas).positions == (1, 0)
    assert ordered(replicas, rules=replace(TEN, demote_read_only=True)).positions == (0, 1)


def test_a_demoted_read_only_bookie_in_trouble_comes_after_one_that_is_well() -> None:
    rules = replace(TEN, demote_read_only=True)
    replicas = [
        read_only(Z2).failed(rules, NOW_MS),
        read_only(Z2).with_pending(10, rules),
        read_only(Z2).with_pending(9, rules),
        read_only(Z2),
    ]

    assert ordered(replicas, rules=rules).positions == (2, 3, 1, 0)


def test_an_unresolved_replica_is_of_another_zone_also_for_a_reader_without_one() -> None:
    assert ordered([replica(None), replica(Z2)]).positions == (1, 0)
    assert ordered([replica(None), replica(Z2)], own_zone=None).positions == (0, 1)


# ── memory ──


def test_failures_are_forgotten_a_while_after_the_last_one() -> None:
    rules = ReadRules(failure_memory_ms=60_000)
    once = Replica(zone=Z2).failed(rules, 0)
    twice = once.failed(rules, 50_000)

    assert against(once, rules, 59_999) is Reason.FAILED
    assert against(once, rules, 60_000) is None
    assert against(twice, rules, 109_999) is Reason.FAILED
    assert against(twice, rules, 110_000) is None
    assert (twice.failures, twice.failed(rules, 110_000).failures) == (2, 1)


def test_slowness_is_forgotten_as_failures_are() -> None:
    slow = Replica(zone=Z2).slow(0)

    assert against(slow, NO_LIMIT, 59_999) is Reason.SLOW
    assert against(slow, NO_LIMIT, 60_000) is None


def test_busy_begins_at_the_limit_and_ends_under_half_of_it() -> None:
    seen: list[bool] = []
    bookie = Replica(zone=Z2)
    for pending in (9, 10, 9, 5, 4, 5, 9, 10):
        bookie = bookie.with_pending(pending, TEN)
        seen.append(bookie.busy)

    assert seen == [False, True, True, True, False, False, False, True]


def test_without_a_limit_nobody_is_busy_not_even_who_was() -> None:
    busy = replica(Z2, 10)

    assert against(busy, NO_LIMIT) is None
    assert not busy.with_pending(10, NO_LIMIT).busy


@given(st.integers(1, 100), st.lists(st.integers(0, 250)))
def test_hysteresis_does_not_flap(limit: int, counts: list[int]) -> None:
    """Between two changes the count crosses the whole span from half the limit to the limit."""
    rules = ReadRules(pending_limit=limit)
    bookie = Replica(zone=Z2)
    for pending in counts:
        before, bookie = bookie.busy, bookie.with_pending(pending, rules)
        if bookie.busy and not before:
            assert pending >= limit
        elif before and not bookie.busy:
            assert pending < limit / 2
        if limit / 2 <= pending < limit:
            assert bookie.busy is before


# ── the hedge ──


def test_the_best_remote_stands_no_later_than_the_hedge_position() -> None:
    replicas = [replica(Z2), replica(Z2), replica(Z2), replica(Z2), replica(Z1), replica(Z3)]

    assert ordered(replicas).positions == (0, 1, 4, 2, 3, 5)
    assert ordered(replicas, rules=replace(TEN, hedge_remote_at=4)).positions == (0, 1, 2, 3, 4, 5)


def test_an_unregistered_remote_is_no_hedge() -> None:
    replicas = [replica(Z2), replica(Z2), replica(Z2), gone(Z1), replica(Z3, 10)]

    assert ordered(replicas).positions == (0, 1, 4, 2, 3)
    assert ordered(replicas[:4]).positions == (0, 1, 2, 3)


# ── why a read crosses zones ──


@pytest.mark.parametrize(
    ("replicas", "own_zone", "why"),
    [
        ([replica(Z1), replica(Z2)], Z2, None),
        ([replica(Z1), replica(Z2)], None, Reason.OWN_ZONE_UNKNOWN),
        ([replica(Z1), replica(Z3)], Z2, Reason.NO_LOCAL_REPLICA),
        ([replica(Z1), replica(Z2, 10)], Z2, Reason.BUSY),
        ([replica(Z1), B_FAILED], Z2, Reason.FAILED),
        ([replica(Z1), gone(Z2)], Z2, Reason.UNREGISTERED),
        ([replica(Z1), gone(Z2), replica(Z2, 10)], Z2, Reason.BUSY),  # of the best one
        ([replica(Z1, 10), replica(Z2, 10)], Z2, None),
    ],
)
def test_it_says_why_the_first_read_crosses_zones(
    replicas: list[Replica], own_zone: ZoneName | None, why: Reason | None
) -> None:
    assert ordered(replicas, own_zone).why_remote is why


def test_a_hedge_position_of_nought_is_the_reason_itself() -> None:
    found = ordered([replica(Z1), replica(Z2)], rules=replace(TEN, hedge_remote_at=0))

    assert found.positions == (0, 1)
    assert found.why_remote is Reason.HEDGED


# ── for any state ──

ZONES = st.sampled_from([Z1, Z2, Z3, None])
REPLICAS = st.builds(
    Replica,
    zone=ZONES,
    registration=st.sampled_from(Registration),
    pending=st.integers(0, 100),
    busy=st.booleans(),
    failures=st.integers(0, 3),
    failed_at_ms=st.integers(NOW_MS - 100_000, NOW_MS),
    slow_at_ms=st.none() | st.integers(NOW_MS - 100_000, NOW_MS),
)
RULES = st.builds(
    ReadRules,
    pending_limit=st.sampled_from([0, 1, 64]),
    hedge_remote_at=st.integers(0, 6),
    demote_read_only=st.booleans(),
)


@settings(max_examples=500)
@given(
    st.lists(REPLICAS, min_size=1, max_size=7).flatmap(
        lambda replicas: st.tuples(
            st.just(replicas), st.permutations(range(len(replicas))), st.integers(1, len(replicas))
        )
    ),
    ZONES,
    RULES,
)
def test_always_a_permutation_and_no_remote_before_a_healthy_local_but_the_hedge(
    drawn: tuple[list[Replica], list[int], int], own_zone: ZoneName | None, rules: ReadRules
) -> None:
    replicas, positions, size = drawn
    write_set = positions[:size]

    found = read_order.order(write_set, replicas, own_zone, rules, NOW_MS)

    assert sorted(found.positions) == sorted(write_set)
    local = [
        own_zone is not None and replicas[position].zone == own_zone for position in found.positions
    ]
    reasons = [against(replicas[position], rules) for position in found.positions]
    healthy_local = [near and reason is None for near, reason in zip(local, reasons, strict=True)]
    for place, near in enumerate(local):
        if not near and place != rules.hedge_remote_at:
            assert not any(healthy_local[place:])
    remotes = [
        place
        for place, near in enumerate(local)
        if not near and reasons[place] is not Reason.UNREGISTERED
    ]
    assert not remotes or remotes[0] <= rules.hedge_remote_at
    assert (found.why_remote is None) is local[0]


@given(st.lists(REPLICAS, min_size=1, max_size=7), ZONES, RULES)
def test_nobody_well_stands_behind_a_troubled_one_of_its_own_side(
    replicas: list[Replica], own_zone: ZoneName | None, rules: ReadRules
) -> None:
    found = read_order.order(range(len(replicas)), replicas, own_zone, rules, NOW_MS)
    for local in (True, False):
        well = [
            against(replicas[position], rules) is None
            for position in found.positions
            if (own_zone is not None and replicas[position].zone == own_zone) is local
        ]
        assert well == sorted(well, reverse=True)
