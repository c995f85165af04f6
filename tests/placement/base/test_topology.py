"""A topology is a snapshot: equal content behaves alike, and a change shares what it can."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.placement import clusters
from zonekeeper.placement.base.ids import BookieId, UpgradeDomain, ZoneName
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.base.topology import Bookie, Registration, Topology
from zonekeeper.placement.ensembles import selector

HERE = Location(ZoneName("a"), UpgradeDomain("1"))
THERE = Location(ZoneName("b"), UpgradeDomain("1"))
X = BookieId("x")

BOOKIES = st.builds(
    Bookie,
    id=st.sampled_from([BookieId(name) for name in "pqrstuvw"]),
    location=st.sampled_from([None, HERE, THERE, Location(ZoneName("a"), UpgradeDomain("2"))]),
    registration=st.sampled_from(Registration),
    draining=st.booleans(),
    free_bytes=st.sampled_from([None, 0, 1, 5, 5_000]),
)


def test_a_change_gives_a_new_view_and_leaves_the_old_one() -> None:
    before = Topology([Bookie(id=X, location=HERE)])

    after = before.updated(put=[Bookie(id=X, location=THERE)])

    assert (before.location(X), after.location(X)) == (HERE, THERE)
    assert (before.zones, after.zones) == (("a",), ("b",))
    assert (list(before.pools), list(after.pools)) == ([HERE], [THERE])


def test_a_bookie_that_is_gone_keeps_its_location_until_its_cookie_goes() -> None:
    up = Topology([Bookie(id=X, location=HERE)])
    down = up.updated(put=[Bookie(id=X, location=HERE, registration=Registration.ABSENT)])
    removed = down.updated(remove=[X])

    assert (down.location(X), down.zones, len(down.pools)) == (HERE, ("a",), 0)
    assert (removed.location(X), removed.zones, len(removed)) == (None, (), 0)
    assert X in down
    assert X not in removed


def test_unresolved_and_unknown_are_one_answer() -> None:
    topology = Topology([Bookie(id=X, location=None)])

    assert topology.location(X) is None
    assert topology.location(BookieId("nobody")) is None
    assert topology.zones == ()
    assert not topology.pools
    assert len(topology.unresolved) == 1


def test_what_is_removed_and_put_is_put() -> None:
    topology = Topology([Bookie(id=X, location=HERE)])

    assert topology.updated(put=[Bookie(id=X, location=THERE)], remove=[X]).location(X) == THERE


def test_removing_what_is_not_there_changes_nothing() -> None:
    assert len(Topology().updated(remove=[X])) == 0


def test_only_writable_bookies_that_do_not_drain_accept_ensembles() -> None:
    states = [
        Bookie(id=BookieId(f"{registration.value}-{draining}"), location=HERE,
               registration=registration, draining=draining)
        for registration in Registration
        for draining in (False, True)
    ]  # fmt: skip

    assert [bookie.id for bookie in states if bookie.accepts_ensembles] == ["writable-False"]
    assert len(Topology(states).pools[HERE]) == 1


def test_bookies_come_sorted_by_id_and_units_by_location() -> None:
    topology = clusters.cluster({"b": {"2": 1, "1": 1}, "a": {"1": 2}})

    assert [bookie.id for bookie in topology] == ["a-1-0", "a-1-1", "b-1-0", "b-2-0"]
    assert [str(location) for location in topology.pools] == ["/a/1", "/b/1", "/b/2"]


def test_a_change_of_one_bookie_rebuilds_one_pool_and_shares_the_rest() -> None:
    before = clusters.even("abc", domains=3, each=10)

    after = before.updated(put=[Bookie(id=BookieId("a-1-0"), location=HERE, free_bytes=7)])

    shared = [where for where in before.pools if before.pools[where] is after.pools[where]]
    assert len(shared) == 8
    assert HERE not in shared


@settings(deadline=None)
@given(st.lists(st.lists(BOOKIES, max_size=4), max_size=6), st.lists(st.sampled_from("pqrstuvw")))
def test_a_view_is_what_its_bookies_make_it_not_how_it_came_about(
    changes: list[list[Bookie]], removed: list[str]
) -> None:
    model: dict[BookieId, Bookie] = {}
    topology = Topology()
    for change in changes:
        topology = topology.updated(put=change)
        model.update({bookie.id: bookie for bookie in change})
    gone = [BookieId(name) for name in removed]
    topology = topology.updated(remove=gone)
    for bookie_id in gone:
        model.pop(bookie_id, None)
    fresh = Topology(model.values())

    assert list(topology) == sorted(model.values(), key=lambda bookie: bookie.id)
    assert topology.zones == fresh.zones
    assert list(topology.pools) == list(fresh.pools)
    everywhere = tuple(ZoneName(zone) for zone in "ab")
    assert topology.weighting(3, everywhere) == fresh.weighting(3, everywhere)
    accepting = [bookie for bookie in model.values() if bookie.accepts_ensembles]
    assert sum(map(len, topology.pools.values())) == sum(b.location is not None for b in accepting)
    assert len(topology.unresolved) == sum(b.location is None for b in accepting)
    asked = [
        clusters.request(view, (2, 2), clusters.rules(minimum=1, strict=False))
        for view in (topology, fresh)
    ]
    if len(accepting) >= 2:
        first, second = (selector.choose(one, random.Random(1)) for one in asked)
        assert first == second
