"""What holds of every choice, in clusters drawn at random."""

import os
import random
import subprocess
import sys
from collections import Counter

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.placement import clusters, oracle
from tests.support.checkout_root import ROOT
from zonekeeper.placement.base.ids import BookieId, UpgradeDomain, ZoneName
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.base.topology import Bookie, Registration, Topology
from zonekeeper.placement.ensembles import adherence, selector
from zonekeeper.placement.ensembles.adherence import Level
from zonekeeper.placement.ensembles.candidates import Avoid, EnsembleRequest
from zonekeeper.placement.ensembles.failures import NotEnoughBookies
from zonekeeper.placement.ensembles.selector import Concession

NAMES = [BookieId(f"bookie-{number:02}") for number in range(30)]
SHAPES = [(1, 1), (2, 2), (3, 3), (6, 3), (9, 3), (4, 4), (8, 4), (6, 6), (12, 6)]
UNITS = [Location(ZoneName(z), UpgradeDomain(f"ud-{n}")) for z in "abcd" for n in range(4)]
REGISTRATIONS = [*[Registration.WRITABLE] * 10, *Registration]


@st.composite
def topologies(draw: st.DrawFn) -> Topology:
    return Topology(
        Bookie(
            id=name,
            location=draw(st.sampled_from([*UNITS, None])),
            registration=draw(st.sampled_from(REGISTRATIONS)),
            draining=draw(st.sampled_from([False] * 9 + [True])),
            free_bytes=draw(st.sampled_from([None, 0, 1, 10, 10**12])),
        )
        for name in draw(st.lists(st.sampled_from(NAMES), unique=True, min_size=12))
    )


@st.composite
def requests(draw: st.DrawFn) -> EnsembleRequest:
    size, write = draw(st.sampled_from(SHAPES))
    minimum = draw(st.integers(0, min(write - 1, 3)))
    some = st.frozensets(st.sampled_from(NAMES), max_size=5)
    return clusters.request(
        draw(topologies()),
        (size, write),
        clusters.rules(minimum, draw(st.integers(max(1, minimum), 4)), strict=draw(st.booleans())),
        Avoid(
            bookies=draw(some),
            quarantined=draw(some),
            zones=draw(st.frozensets(st.sampled_from(clusters.ZONES[:4]), max_size=2)),
        ),
    )


def assert_sound(asked: EnsembleRequest, choice: selector.Choice, newcomers: set[BookieId]) -> None:
    """Check what must hold of every choice."""
    ensemble, avoid = choice.ensemble, asked.avoid
    assert len(set(ensemble)) == len(ensemble) == asked.quorums.ensemble
    found = adherence.judge(ensemble, asked.quorums, asked.rules, asked.topology)
    assert choice.judgement == found
    for member in newcomers:
        bookie = asked.topology.get(member)
        assert bookie is not None
        assert bookie.accepts_ensembles
        if asked.rules.strict:
            assert bookie.location is not None
    if asked.rules.strict:
        assert found.level is not Level.FAIL
    assert not newcomers & avoid.bookies
    used = {asked.topology.location(member) for member in newcomers}
    in_avoided = any(where is not None and where.zone in avoid.zones for where in used)
    assert (Concession.AVOIDED_ZONE in choice.concessions) == in_avoided
    quarantined = bool(newcomers & avoid.quarantined)
    assert (Concession.QUARANTINED_MEMBER in choice.concessions) == quarantined


@settings(deadline=None, max_examples=120)
@given(requests(), st.integers(0, 2**32))
def test_a_new_ensemble_passes_the_checker_and_names_only_who_may_be_named(
    asked: EnsembleRequest, seed: int
) -> None:
    try:
        choice = selector.choose(asked, random.Random(seed))
    except NotEnoughBookies:
        return
    assert_sound(asked, choice, set(choice.ensemble))
    assert selector.choose(asked, random.Random(seed)) == choice


@settings(deadline=None, max_examples=120)
@given(requests(), st.integers(0, 2**32), st.data())
def test_a_replacement_changes_the_positions_that_it_was_asked_to_and_no_other(
    asked: EnsembleRequest, seed: int, data: st.DataObject
) -> None:
    everybody = [bookie.id for bookie in asked.topology]
    size = asked.quorums.ensemble
    assume(len(everybody) > size)
    before = tuple(data.draw(st.permutations(everybody)))[:size]
    leaving = data.draw(st.sets(st.integers(0, size - 1), min_size=1))
    try:
        choice = selector.replace(asked, before, leaving, random.Random(seed))
    except NotEnoughBookies:
        return
    changed = {at for at in range(size) if choice.ensemble[at] != before[at]}
    assert changed == leaving
    newcomers = {choice.ensemble[at] for at in leaving}
    assert not newcomers & set(before)
    assert_sound(asked, choice, newcomers)
    again = selector.replace(asked, before, sorted(leaving, reverse=True), random.Random(seed))
    assert again == choice


def planted(chance: random.Random) -> tuple[oracle.Pattern, int, int]:
    """Lay out a legal ensemble of up to twelve: its pattern, write quorum and required zones."""
    while True:
        size = chance.choice((6, 8, 9, 10, 12))
        write = chance.choice([n for n in range(2, size + 1) if size % n == 0])
        zones = chance.randint(1, min(write - 1, 4))
        names, domains = chance.randint(zones, zones + 4), chance.randint(2, 6)
        favour = [chance.random() + 0.1 for _ in range(names)]
        pattern = [
            (zone, min(chance.randrange(domains), chance.randrange(domains)))
            for zone in chance.choices(range(names), favour, k=size)
        ]
        if oracle.spread(tuple(pattern), write) >= zones:
            return tuple(pattern), write, zones


def test_the_bound_of_the_search_never_cuts_off_the_only_bookies_there_are() -> None:
    # Exactly the bookies of a legal ensemble are there, so nothing can be wasted on the way.
    chance = random.Random(1)
    for _ in range(1_000):
        pattern, write, zones = planted(chance)
        topology = Topology(
            Bookie(id=BookieId(f"{number}"), location=place(*unit))
            for number, unit in enumerate(pattern)
        )
        asked = clusters.request(
            topology, (len(pattern), write), clusters.rules(zones, max(3, zones))
        )

        assert set(selector.choose(asked, chance).ensemble) == {b.id for b in topology}


def test_the_bound_never_cuts_off_the_only_replacements_there_are() -> None:
    chance = random.Random(2)
    for _ in range(1_000):
        pattern, write, zones = planted(chance)
        leaving = chance.sample(range(len(pattern)), chance.randint(1, len(pattern)))
        before = [
            Bookie(
                id=BookieId(f"old-{at}"),
                location=place(*unit),
                registration=Registration.ABSENT if at in leaving else Registration.WRITABLE,
            )
            for at, unit in enumerate(pattern)
        ]
        spare = Counter(pattern[at] for at in leaving)
        topology = Topology(before).updated(
            put=[
                Bookie(id=BookieId(f"new-{unit}-{number}"), location=place(*unit))
                for unit, count in spare.items()
                for number in range(count)
            ]
        )
        asked = clusters.request(
            topology, (len(pattern), write), clusters.rules(zones, max(3, zones))
        )

        choice = selector.replace(asked, [bookie.id for bookie in before], leaving, chance)

        assert choice.judgement.level is not Level.FAIL


def place(zone: int, domain: int) -> Location:
    return Location(clusters.ZONES[zone], UpgradeDomain(f"ud-{domain}"))


SAME_INPUT = """
import random
from tests.placement import clusters
from zonekeeper.placement.ensembles import adhere, selector
from zonekeeper.placement.ensembles.candidates import Avoid

topology = clusters.with_noise(clusters.even("abcd", 3, 3))
names = [bookie.id for bookie in topology]
for seed in range(30):
    chance = random.Random(seed)
    avoid = Avoid(
        bookies=frozenset(chance.sample(names, 5)),
        quarantined=frozenset(chance.sample(names, 20)),
        zones=frozenset(chance.sample(clusters.ZONES[:4], 2)),
    )
    asked = clusters.request(topology, (6, 3), avoid=avoid)
    first = selector.choose(asked, chance)
    second = selector.replace(asked, first.ensemble, {1, 4}, chance)
    print(first.ensemble, sorted(map(str, first.concessions)), first.touched)
    print(second.ensemble, second.judgement, second.touched)
    print(adhere.plan(clusters.request(topology, (6, 3)), second.ensemble, chance))
"""


def test_the_same_input_gives_the_same_output_whatever_the_hash_seed() -> None:
    outputs = {
        subprocess.run(
            [sys.executable, "-c", SAME_INPUT],
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=ROOT,
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("0", "1", "4711")
    }

    assert len(outputs) == 1
    assert outputs.pop().count("\n") == 90


@pytest.mark.parametrize("shape", [(3, 3), (6, 3), (6, 6), (8, 4)], ids=str)
def test_the_work_does_not_grow_with_the_number_of_bookies(shape: tuple[int, int]) -> None:
    touched: dict[int, tuple[float, float]] = {}
    for bookies in (30, 300, 3_000, 10_000):
        topology = Topology(
            Bookie(
                id=BookieId(f"bookie-{number:05}"),
                location=place(number % 3, number // 3 % 3),
                free_bytes=1 + number % 7,
            )
            for number in range(bookies)
        )
        avoid = Avoid(
            bookies=frozenset(BookieId(f"bookie-{number:05}") for number in range(4)),
            quarantined=frozenset(BookieId(f"bookie-{number:05}") for number in range(4, 8)),
        )
        asked = clusters.request(topology, shape, avoid=avoid)
        chance = random.Random(7)
        new = [selector.choose(asked, chance) for _ in range(50)]
        replaced = [selector.replace(asked, choice.ensemble, [0, 2], chance) for choice in new]
        touched[bookies] = (
            sum(choice.touched for choice in new) / len(new),
            sum(choice.touched for choice in replaced) / len(replaced),
        )
    few = touched.pop(30)
    for many in touched.values():
        assert many[0] <= few[0]
        assert many[1] <= few[1]
    units = 3 * 3 + 1
    assert touched[10_000][0] <= units + shape[0] + 1
