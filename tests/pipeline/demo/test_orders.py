"""What the demonstration compares: each fault of a copy is seen, and SQL and Python agree."""

from collections.abc import Callable

import pytest

from zonekeeper.log.formats.messages import LogMessage
from zonekeeper.pipeline.demo import orders


def test_an_order_that_is_paid_becomes_a_bill_of_twice_its_cents() -> None:
    assert orders.order(5).payload == b"5;35;paid"
    assert orders.billed(orders.order(5)) == LogMessage(
        key=b"customer 5", payload=b"5;70", headers=(("shop", b"2"),)
    )
    assert orders.billed(orders.order(6)) is None
    assert len(list(orders.bills(9))) == 6


def test_no_two_bills_are_equal() -> None:
    bills = list(orders.bills(3_000))
    assert len(set(bills)) == len(bills) == 2_000


def found(change: Callable[[list[LogMessage]], list[LogMessage]]) -> orders.BillsFound:
    came = change(list(orders.bills(30)))
    return orders.compared(orders.bills(30), came, range(len(came)))


def test_the_order_of_partitions_is_free() -> None:
    turned = found(lambda bills: bills[10:] + bills[:10])
    assert turned.same
    assert (turned.expected, turned.found, turned.lost, turned.more) == (20, 20, 0, 0)
    assert turned.expected_sha256 == turned.found_sha256


ONE = orders.billed(orders.order(5))
assert ONE is not None


@pytest.mark.parametrize(
    ("change", "lost", "more"),
    [
        (lambda bills: bills[1:], 1, 0),
        (lambda bills: [*bills, bills[3]], 0, 1),
        (lambda bills: [*bills[1:], bills[3]], 1, 1),
        (lambda bills: [LogMessage(payload=bills[0].payload), *bills[1:]], 1, 1),
        (lambda bills: [LogMessage(payload=b"5;70", key=ONE.key), *bills[1:]], 1, 1),
        (lambda bills: [], 20, 0),
    ],
    ids=["lost", "twice", "one for another", "no key", "no header", "nothing"],
)
def test_a_copy_that_differs_is_seen(
    change: Callable[[list[LogMessage]], list[LogMessage]], lost: int, more: int
) -> None:
    differs = found(change)
    assert not differs.same
    assert (differs.lost, differs.more) == (lost, more)
    assert differs.expected_sha256 != differs.found_sha256


def test_no_key_and_an_empty_key_differ_and_so_do_parts_that_are_cut_elsewhere() -> None:
    pairs = [
        (LogMessage(payload=b"1"), LogMessage(payload=b"1", key=b"")),
        (LogMessage(payload=b"1", key=b"23"), LogMessage(payload=b"12", key=b"3")),
        (
            LogMessage(payload=b"", headers=(("a", b"bc"),)),
            LogMessage(payload=b"", headers=(("ab", b"c"),)),
        ),
    ]
    for one, other in pairs:
        assert orders.compared([one], [one], [0]).same
        assert not orders.compared([one], [other], [0]).same


@pytest.mark.parametrize("sequences", [range(1, 21), [*range(19), 20], [*range(19), 18]])
def test_a_gap_in_the_sequences_is_seen(sequences: range) -> None:
    bills = list(orders.bills(30))
    assert not orders.compared(bills, bills, sequences).same
