"""Sums over ledgers: what is where, and what losses cost, however ledgers are cut into tasks."""

import dataclasses
import random
from collections import Counter
from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from tests.pipeline.reports.test_fragment_losses import NAMES, topology
from tests.replication.decisions.test_what_if import ledger
from zonekeeper.metadata.formats import placement_stamp
from zonekeeper.metadata.formats.ledger_metadata import Fragment, LedgerMetadata
from zonekeeper.pipeline.reports.zone_sums import Sums, ZoneSums
from zonekeeper.placement.base.ids import BookieId, EntryId, ZoneName
from zonekeeper.placement.base.topology import Topology
from zonekeeper.replication.decisions import preflight, what_if
from zonekeeper.replication.decisions.preflight import Tally
from zonekeeper.replication.decisions.what_if import Harm


def summed(*ledgers: LedgerMetadata, bookies: Topology | None = None) -> dict[str, Sums]:
    sums = ZoneSums(bookies or topology())
    for one in ledgers:
        sums.add(one)
    found = {f"{kind} {name}": each for kind, name, each in sums.rows()}
    assert len(found) == len(list(sums.rows()))
    return found


def long(metadata: LedgerMetadata, length: int = 1_000) -> LedgerMetadata:
    return dataclasses.replace(metadata, length=length)


def test_each_copy_is_counted_at_its_bookie_unit_and_zone() -> None:
    found = summed(long(ledger("a-0", "b-1", "c-0")), long(ledger("a-2", "b-1", "c-0"), 500))
    assert (found["bookie b-1"].bytes, found["bookie b-1"].copies) == (1_500, 2)
    assert (found["bookie a-0"].bytes, found["bookie a-0"].ledgers) == (1_000, 1)
    assert found["upgradeDomain /a/ud-0"].bytes == 1_500
    assert (found["zone a"].bytes, found["zone a"].ledgers) == (1_500, 2)
    cluster = found["cluster "]
    assert (cluster.bytes, cluster.copies, cluster.ledgers) == (1_500, 6, 2)
    assert "zone d" not in found


def test_of_a_striped_ledger_each_bookie_has_its_share() -> None:
    striped = long(ledger("a-0", "b-0", "c-0", "a-1", "b-1", "c-1", last=11), 1_200)
    found = summed(striped)
    assert found["bookie a-0"].bytes == 600
    assert found["zone a"].bytes == 1_200
    assert found["cluster "].bytes == 1_200


def test_open_ledgers_are_counted_without_bytes() -> None:
    found = summed(ledger("a-0", "b-1", "c-0", closed=False))
    assert (found["zone a"].open_ledgers, found["zone a"].bytes) == (1, 0)
    assert (found["cluster "].open_ledgers, found["cluster "].bytes) == (1, 0)


def test_ledgers_that_cannot_be_read_are_counted() -> None:
    sums = ZoneSums(topology())
    sums.unreadable()
    (cluster,) = sums.rows()
    assert cluster[2].unreadable_ledgers == 1


def test_what_is_stored_crosses_zones_as_it_is_spread() -> None:
    spread = summed(long(ledger("a-0", "b-1", "c-0")))["cluster "]
    assert spread.written_crossing_bytes == 2_000
    assert spread.read_crossing_bytes == 0
    assert spread.read_anywhere_crossing_bytes == round(1_000 * 2 / 3)
    narrow = summed(long(ledger("a-0", "a-1", "b-0")))["cluster "]
    assert narrow.read_crossing_bytes == round(1_000 / 3), "clients in zone c"


def test_the_worst_fragment_of_a_ledger_counts_once() -> None:
    one = long(ledger("a-0", "b-0", "c-0"))
    second = Fragment(EntryId(5), (BookieId("a-0"), BookieId("a-1"), BookieId("a-2")))
    found = summed(dataclasses.replace(one, fragments=(*one.fragments, second)))
    assert (found["zone a"].loss_unreadable, found["zone a"].loss_last_copy) == (1, 0)
    assert found["upgradeDomain /a/ud-0"].loss_last_copy == 1
    assert found["bookie b-0"].loss_unreadable == 0


ENSEMBLES = st.lists(st.sampled_from(NAMES), min_size=3, max_size=6, unique=True)


@given(st.lists(st.tuples(ENSEMBLES, st.booleans()), min_size=1, max_size=6), st.integers(0, 9))
def test_sums_are_those_of_preflight_and_what_if_and_of_all_tasks_together(
    drawn: list[tuple[list[str], bool]], seed: int
) -> None:
    away = frozenset(random.Random(seed).sample(NAMES, 2))
    bookies = topology(away)
    ledgers = [
        long(one, 1_000) if (one := ledger(*names, closed=closed)).is_closed else one
        for names, closed in drawn
    ]
    whole = summed(*ledgers, bookies=bookies)

    lost = frozenset(BookieId(name) for name in NAMES if name.startswith("a-"))
    tally, harms = Tally(lost, bookies), Counter[Harm]()

    def zone(bookie: BookieId) -> ZoneName | None:
        where = bookies.location(bookie)
        return None if where is None else where.zone

    for one in ledgers:
        tally.add(one)
        if not lost.isdisjoint(one.bookies):
            taken = lost | away
            harms[what_if.of_ledger(one, zone, taken.__contains__).harm] += 1
    zone_a = whole.get("zone a", Sums())
    assert zone_a.loss_bytes == tally.work.bytes
    assert zone_a.loss_beyond_repair == tally.work.beyond_repair
    assert zone_a.loss_crossing_bytes == round(tally.work.crossing_bytes)
    assert zone_a.loss_unreadable == harms[Harm.UNREADABLE]
    assert zone_a.loss_perhaps_unreadable == harms[Harm.PERHAPS_UNREADABLE]
    assert zone_a.loss_last_copy == harms[Harm.LAST_COPY]

    parts: Counter[tuple[str, str]] = Counter()
    for one in ledgers:
        for key, sums in summed(one, bookies=bookies).items():
            parts.update({(key, name): value for name, value in _exact(sums).items()})
    assert +parts == +Counter(
        {(key, name): value for key, sums in whole.items() for name, value in _exact(sums).items()}
    )


def _exact(sums: Sums) -> Mapping[str, int]:
    """Leave out what is rounded by each task."""
    return {
        name: value for name, value in dataclasses.asdict(sums).items() if "crossing" not in name
    }


def test_a_position_s_share_is_that_of_preflight() -> None:
    one = long(ledger("a-0", "b-0", "c-0", "a-1", last=7), 800)
    quorums = placement_stamp.quorums_of(one)
    for position, name in enumerate(one.last_fragment.ensemble):
        expected = preflight.share_bytes(one, quorums, position, (0, 8))
        assert summed(one)[f"bookie {name}"].bytes == expected == 600
