"""What an import checks before it writes, and which messages go into which ledger."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonekeeper.log.formats.manifests import ATTEMPTS_MAX
from zonekeeper.pipeline.reports import import_plan, message_hash
from zonekeeper.pipeline.reports.export_manifest import ExportManifest
from zonekeeper.pipeline.reports.import_plan import (
    ExportDamaged,
    ExportedLedger,
    SequenceRange,
    TooManyLedgersError,
)
from zonekeeper.pipeline.reports.message_hash import MessageSums


def ledger(
    number: int, first: int, end: int, *, size: int = 10, first_ms: int = 0, last_ms: int = 0
) -> ExportedLedger:
    made = bytes([number % 256] * message_hash.HASH_BYTES)
    sums = MessageSums(messages=end - first, first=first, end=end, hash=made)
    return ExportedLedger(
        ledger=number, sums=sums, size_bytes=size, first_ms=first_ms, last_ms=last_ms
    )


THREE = [ledger(1, 5, 10), ledger(2, 10, 11), ledger(4, 11, 20)]


def manifest(ledgers: list[ExportedLedger]) -> ExportManifest:
    sums = import_plan.total(ledgers, 5)
    return ExportManifest(export="0" * 32, log="a/b", log_id="0" * 32, sums=sums)


def test_what_is_whole_is_given_in_order() -> None:
    assert import_plan.total(THREE, 5) == MessageSums(
        messages=15, first=5, end=20, hash=bytes([1 ^ 2 ^ 4] * message_hash.HASH_BYTES)
    )
    assert import_plan.check(manifest(THREE), reversed(THREE)) == THREE
    assert import_plan.check(manifest([]), []) == []


def with_sums(number: int, **fields: object) -> list[ExportedLedger]:
    other = list(THREE)
    other[number] = replace(
        other[number],
        sums=replace(other[number].sums, **fields),  # type: ignore[arg-type]  # drawn fields
    )
    return other


@pytest.mark.parametrize(
    "found",
    [
        [],
        THREE[:2],
        THREE[1:],
        [THREE[0], THREE[2]],
        [*THREE, ledger(9, 20, 21)],
        [*THREE, THREE[1]],
        with_sums(1, hash=bytes(message_hash.HASH_BYTES)),
        with_sums(0, messages=4),
        with_sums(0, end=11),
        with_sums(1, first=9, end=10),
    ],
)
def test_what_is_not_what_the_manifest_says_is_refused(found: list[ExportedLedger]) -> None:
    with pytest.raises(ExportDamaged, match="nothing was written"):
        import_plan.check(manifest(THREE), found)


def test_a_gap_that_the_sums_do_not_show_is_refused() -> None:
    """As if one message was lost, and another one was there twice."""
    odd = [ledger(1, 5, 10), ledger(2, 9, 10), ledger(4, 11, 20)]
    assert import_plan.total(odd, 5) == import_plan.total(THREE, 5)
    with pytest.raises(ExportDamaged, match="message 9 of ledger 1, and then message 9 of ledger"):
        import_plan.check(manifest(THREE), odd)
    uneven = [
        replace(THREE[0], sums=replace(THREE[0].sums, messages=4)),
        replace(THREE[1], sums=replace(THREE[1].sums, messages=2)),
        THREE[2],
    ]
    assert import_plan.total(uneven, 5) == import_plan.total(THREE, 5)
    with pytest.raises(ExportDamaged):
        import_plan.check(manifest(THREE), uneven)


def test_small_ledgers_go_together_and_large_ones_are_cut() -> None:
    assert import_plan.planned([]) == []
    assert import_plan.planned(THREE, aim=20) == [SequenceRange(5, 11), SequenceRange(11, 20)]
    assert import_plan.planned(THREE, aim=30) == [SequenceRange(5, 20)]
    assert import_plan.planned([ledger(1, 0, 10, size=100)], aim=40) == [
        SequenceRange(0, 3),
        SequenceRange(3, 6),
        SequenceRange(6, 10),
    ]
    assert import_plan.planned([ledger(1, 0, 2, size=100)], aim=10) == [
        SequenceRange(0, 1),
        SequenceRange(1, 2),
    ]


def test_a_ledger_ends_where_times_fall() -> None:
    some = [
        ledger(1, 0, 2, first_ms=10, last_ms=20),
        ledger(2, 2, 4, first_ms=20, last_ms=30),
        ledger(3, 4, 6, first_ms=29, last_ms=31),
        ledger(4, 6, 8, first_ms=31, last_ms=31),
    ]
    assert import_plan.planned(some) == [SequenceRange(0, 4), SequenceRange(4, 8)]


def test_size_alone_makes_no_more_ledgers_than_a_batch_has_and_falling_times_are_refused() -> None:
    wide = [ledger(one, 10 * one, 10 * one + 10, size=10) for one in range(5_000)]
    assert len(import_plan.planned(wide, aim=1)) <= ATTEMPTS_MAX
    falling = [replace(one, first_ms=1, last_ms=2) for one in wide]
    with pytest.raises(TooManyLedgersError, match="5000 ledgers"):
        import_plan.planned(falling)


@given(
    st.lists(
        st.tuples(st.integers(1, 9), st.integers(0, 99), st.integers(0, 5), st.integers(0, 5)),
        max_size=12,
    ),
    st.integers(1, 60),
)
def test_each_message_is_in_one_ledger_and_no_time_falls_in_it(
    drawn: list[tuple[int, int, int, int]], aim: int
) -> None:
    some: list[ExportedLedger] = []
    for number, (count, size, begins, lasts) in enumerate(drawn):
        first = some[-1].sums.end if some else 3
        times = {"first_ms": begins, "last_ms": begins + lasts}
        some.append(ledger(number, first, first + count, size=size, **times))
    found = import_plan.planned(some, aim)
    assert [one for part in found for one in range(part.first, part.end)] == [
        one for part in some for one in range(part.sums.first, part.sums.end)
    ]
    for part in found:
        inside = [one for one in some if part.first < one.sums.end and one.sums.first < part.end]
        assert all(one.last_ms <= other.first_ms for one, other in pairwise(inside))
