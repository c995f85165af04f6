"""What each loss does to a fragment: the answers are those of ``what_if`` for the whole ledger."""

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from tests.replication.decisions.test_what_if import ledger
from zonekeeper.metadata.formats import placement_stamp
from zonekeeper.metadata.formats.ledger_metadata import LedgerMetadata
from zonekeeper.pipeline.reports import fragment_losses
from zonekeeper.pipeline.reports.fragment_losses import Losses, LossScope, NamedLoss
from zonekeeper.placement.base.ids import BookieId, UpgradeDomain, ZoneName
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.base.topology import Bookie, Registration, Topology
from zonekeeper.replication.decisions import what_if
from zonekeeper.replication.decisions.what_if import Harm, LedgerOutcome


def topology(away: frozenset[str] = frozenset(), nowhere: frozenset[str] = frozenset()) -> Topology:
    """Give bookies ``a-0`` to ``c-5``; their upgrade domains are their numbers modulo two."""
    return Topology(
        Bookie(
            id=BookieId(name := f"{zone}-{number}"),
            location=None
            if name in nowhere
            else Location(ZoneName(zone), UpgradeDomain(f"ud-{number % 2}")),
            registration=Registration.ABSENT if name in away else Registration.WRITABLE,
        )
        for zone in "abc"
        for number in range(6)
    )


def judged(metadata: LedgerMetadata, bookies: Topology) -> Losses:
    ensemble = metadata.last_fragment.ensemble
    return fragment_losses.of_fragment(
        placement_stamp.quorums_of(metadata),
        ensemble,
        fragment_losses.members_of(ensemble, bookies),
        grows=not metadata.is_closed,
        empty=metadata.is_closed and metadata.last_entry < 0,
    )


def test_a_spread_fragment_survives_each_loss() -> None:
    found = judged(ledger("a-0", "b-1", "c-0"), topology())
    assert found.now == LedgerOutcome(harm=Harm.NONE, unwritable=False)
    assert [loss for loss, _ in found.by_loss] == [
        NamedLoss(LossScope.ZONE, "a"),
        NamedLoss(LossScope.ZONE, "b"),
        NamedLoss(LossScope.ZONE, "c"),
        NamedLoss(LossScope.UPGRADE_DOMAIN, "/a/ud-0"),
        NamedLoss(LossScope.UPGRADE_DOMAIN, "/b/ud-1"),
        NamedLoss(LossScope.UPGRADE_DOMAIN, "/c/ud-0"),
        NamedLoss(LossScope.BOOKIE, "a-0"),
        NamedLoss(LossScope.BOOKIE, "b-1"),
        NamedLoss(LossScope.BOOKIE, "c-0"),
    ]
    assert {outcome.harm for _, outcome in found.by_loss} == {Harm.NONE}


def test_what_is_missing_now_counts_in_every_answer() -> None:
    found = dict(judged(ledger("a-0", "b-1", "c-0"), topology(frozenset({"a-0"}))).by_loss)
    assert found[NamedLoss(LossScope.ZONE, "a")].harm is Harm.NONE
    assert found[NamedLoss(LossScope.ZONE, "b")].harm is Harm.PERHAPS_UNREADABLE


def test_a_bookie_without_a_cookie_is_missing() -> None:
    found = judged(ledger("a-9", "b-9", "c-0"), topology())
    assert found.now.harm is Harm.PERHAPS_UNREADABLE
    assert NamedLoss(LossScope.BOOKIE, "a-9") in dict(found.by_loss)


NAMES = [f"{zone}-{number}" for zone in "abc" for number in range(6)]


@given(
    st.lists(st.sampled_from(NAMES), min_size=3, max_size=6, unique=True),
    st.frozensets(st.sampled_from(NAMES), max_size=6),
    st.frozensets(st.sampled_from(NAMES), max_size=3),
    st.booleans(),
    st.integers(2, 3),
)
def test_each_answer_is_that_of_the_whole_ledger(
    ensemble: list[str], away: frozenset[str], nowhere: frozenset[str], closed: bool, write: int
) -> None:
    bookies = topology(away, nowhere)
    metadata = ledger(*ensemble, write=write, closed=closed)
    found = judged(metadata, bookies)

    def place(bookie: BookieId) -> Location | None:
        return bookies.location(bookie)

    def zone(bookie: BookieId) -> ZoneName | None:
        where = place(bookie)
        return None if where is None else where.zone

    def taken_by(loss: NamedLoss) -> Callable[[BookieId], bool]:
        def takes(bookie: BookieId) -> bool:
            where = place(bookie)
            named = {LossScope.ZONE: zone(bookie), LossScope.UPGRADE_DOMAIN: where and str(where)}
            return bookie in away or named.get(loss.kind, bookie) == loss.name

        return takes

    assert found.now == what_if.of_ledger(metadata, zone, away.__contains__)
    for loss, outcome in found.by_loss:
        assert outcome == what_if.of_ledger(metadata, zone, taken_by(loss))
