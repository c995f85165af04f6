"""What crosses zones: the known formulas and examples, as exact fractions."""

from fractions import Fraction

import pytest

from zonekeeper.placement.base.ids import ZoneName
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.placement.promises import cost
from zonekeeper.placement.promises.cost import Crossings, Flow, Prices, Traffic

A, B, C = ZONES = [ZoneName("a"), ZoneName("b"), ZoneName("c")]
TB = 10**12
AWS = Prices(per_gb=Fraction(2, 100), currency="USD", as_of="2020-01-01", source="an example")
GCP = Prices(per_gb=Fraction(1, 100), currency="USD", as_of="2020-01-01", source="an example")


def of(write: int, *, ensemble: int = 0, client: ZoneName | None = None) -> Crossings:
    """An even ensemble over three zones."""
    quorums = Quorums(ensemble=ensemble or write, write=write, ack=1)
    members = [ZONES[i % 3] for i in range(quorums.ensemble)]
    return cost.of_ensemble(quorums, members, ZONES, client=client)


@pytest.mark.parametrize("write", [1, 2, 3, 4, 6, 9])
def test_balanced_writing_crosses_for_each_copy_that_is_not_local(write: int) -> None:
    assert of(write, ensemble=3 * write).written == write * (1 - Fraction(1, 3))


@pytest.mark.parametrize(("write", "ensemble", "local"), [(3, 3, 1), (6, 6, 2), (3, 6, 1)])
def test_writing_from_a_zone_crosses_for_the_copies_elsewhere(
    write: int, ensemble: int, local: int
) -> None:
    assert of(write, ensemble=ensemble, client=B).written == write - local


@pytest.mark.parametrize("write", [1, 2, 3, 6])
def test_reading_without_regard_to_zones_crosses_two_times_in_three(write: int) -> None:
    assert of(write, ensemble=3 * write).read_anywhere == Fraction(2, 3)


@pytest.mark.parametrize(("write", "crossing"), [(1, Fraction(2, 3)), (2, Fraction(1, 3)), (3, 0)])
def test_reading_nearby_crosses_where_a_write_set_has_no_local_copy(
    write: int, crossing: Fraction
) -> None:
    assert of(write, ensemble=3 * write).read_near == crossing


def test_a_hedge_crosses_unless_a_second_copy_is_local() -> None:
    assert of(3).hedged == 1
    assert of(6).hedged == 0
    assert of(4, ensemble=4).hedged == Fraction(2, 3)


def test_a_hop_between_strangers_crosses_two_times_in_three() -> None:
    assert of(3).hop == Fraction(2, 3)


@pytest.mark.parametrize(
    ("copies", "targets", "workers", "crossing"),
    [
        pytest.param([B, C], [A], ZONES, Fraction(1), id="a bookie"),
        pytest.param([A, B, B, C, C], [A], [A], Fraction(0), id="a copy and worker there"),
        pytest.param([B, C], [B, C], [B, C], Fraction(1, 2), id="in an outage"),
        pytest.param([B, C, B], [A], ZONES, Fraction(1), id="back again"),
    ],
)
def test_a_repair_pays_for_the_read_and_the_write(
    copies: list[ZoneName],
    targets: list[ZoneName],
    workers: list[ZoneName],
    crossing: Fraction,
) -> None:
    assert cost.repaired(copies, targets, workers) == crossing


def test_the_repairs_of_three_copies_over_three_zones() -> None:
    three = of(3)

    assert three.repair_bookie == three.respread == 1
    assert three.repair_zone == Fraction(1, 2)


def amounts(
    crossings: Crossings, traffic: Traffic, prices: Prices | None = AWS, copies: int = 1
) -> dict[Flow, Fraction | None]:
    lines = cost.bill(crossings, traffic, Fraction(copies), prices)
    return {line.flow: line.money for line in lines}


def test_writing_a_terabyte_three_times_costs_forty_dollars_or_twenty() -> None:
    traffic = Traffic(written_bytes=TB)

    assert amounts(of(3), traffic)[Flow.WRITE] == 40
    assert amounts(of(3), traffic, GCP)[Flow.WRITE] == 20
    assert amounts(of(6), traffic)[Flow.WRITE] == 80


def test_reading_a_terabyte_costs_thirteen_dollars_or_nothing() -> None:
    found = amounts(of(3), Traffic(read_bytes=TB))

    assert found[Flow.READ_ANYWHERE] == Fraction(40, 3)
    assert found[Flow.READ] == 0


def test_a_busy_month() -> None:
    found = amounts(of(3), Traffic(written_bytes=2_592 * TB, read_bytes=7_776 * TB))

    assert found[Flow.WRITE] == 103_680
    assert found[Flow.READ_ANYWHERE] == 103_680
    assert found[Flow.READ] == 0


def test_not_waiting_for_a_zone_costs_its_repair_and_the_way_back() -> None:
    found = amounts(of(3), Traffic(stored_bytes=300 * TB))

    assert found[Flow.REPAIR_ZONE] == 3_000
    assert found[Flow.RESPREAD] == 6_000


def test_what_spills_and_what_is_hedged_crosses_too() -> None:
    traffic = Traffic(read_bytes=100, spilled=Fraction(1, 10), hedged=Fraction(1, 20))
    lines = {line.flow: line for line in cost.bill(of(3), traffic, Fraction(1), None)}

    assert lines[Flow.READ].crossing_bytes == 10 + 5
    assert lines[Flow.READ].money is None


def test_what_had_no_near_copy_does_not_cross_twice_when_it_spills() -> None:
    traffic = Traffic(read_bytes=300, spilled=Fraction(1, 2))
    lines = {line.flow: line for line in cost.bill(of(2, ensemble=6), traffic, Fraction(1), None)}

    assert lines[Flow.READ].crossing_bytes == 150 + 50


def test_an_unresolved_member_counts_as_elsewhere() -> None:
    quorums = Quorums(ensemble=3, write=3, ack=2)

    assert cost.of_ensemble(quorums, [A, None, None], [A, B], client=A).written == 2


def test_one_zone_crosses_nothing() -> None:
    quorums = Quorums(ensemble=3, write=3, ack=2)

    found = cost.of_ensemble(quorums, [A, A, A], [A])

    assert {found.written, found.read_near, found.hop, found.repair_zone} == {Fraction(0)}
