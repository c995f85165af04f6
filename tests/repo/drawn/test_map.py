"""The map is what the code says, and shows all of it."""

from collections.abc import Mapping
from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.repo import checkout, guards
from tests.repo.drawn import drawing, make, page, rooms
from tests.repo.drawn.rooms import HousePlan, RoomKey
from tests.support.checkout_root import ROOT

Arrows = Mapping[int, frozenset[int]]


@st.composite
def drawn_arrows(draw: st.DrawFn) -> Arrows:
    """Draw the imports of some rooms; higher numbers import lower ones, without cycles."""
    count = draw(st.integers(1, 9))
    return {
        start: draw(st.frozensets(st.integers(0, start - 1))) if start else frozenset()
        for start in range(count)
    }


@pytest.fixture(scope="module")
def plan() -> HousePlan:
    return rooms.read(ROOT)


def test_the_map_is_fresh() -> None:
    assert make.stale(ROOT) == [], "run `make map`"


def test_a_new_module_and_a_new_import_make_it_stale(tmp_path: Path) -> None:
    house = checkout.linked_to(tmp_path)
    assert make.stale(house) == []
    room = "placement/zonekeeper/placement/zones"

    checkout.plant(house, f"{room}/planted.py", '"""Is new."""\n')
    assert make.stale(house) == ["docs/map.md", "docs/map.svg"]
    assert "- `planted.py`: Is new.\n" in make.pages(house)["docs/map.md"]

    before = make.pages(house)
    checkout.plant(
        house,
        f"{room}/planted.py",
        '"""Is new."""\n\nfrom zonekeeper.placement.ensembles import selector\n',
    )
    assert make.pages(house)["docs/map.svg"] != before["docs/map.svg"]


def test_the_page_names_every_room_and_every_module(plan: HousePlan) -> None:
    text = page.render(plan)
    for room in plan.rooms.values():
        assert f"| `{room.label}` | {len(room.modules)} |" in text
        for module in room.modules:
            assert f"- `{module.name}.py`: " in text


def test_every_module_of_the_house_is_in_a_room(plan: HousePlan) -> None:
    shown = {
        "/".join(filter(None, [room.key.component, "zonekeeper", *room.key, f"{module.name}.py"]))
        for room in plan.rooms.values()
        for module in room.modules
        if room.key.room != "pb"  # stubs are made, and no source of ours
    }
    components = tuple(guards.components(ROOT))
    there = {name for name, _ in guards.sources(ROOT, components) if "/zonekeeper/" in name}
    assert {name for name in there if not name.endswith("__init__.py")} <= shown <= there


def test_the_drawing_shows_every_room_and_no_two_boxes_overlap(plan: HousePlan) -> None:
    root = ElementTree.fromstring(drawing.render(plan))
    words = {text.text for text in root.iter("{http://www.w3.org/2000/svg}text")}
    assert words >= {name for room in plan.rooms.values() for name in room.label.split()}
    assert words >= {part.name for part in plan.parts}

    layout = drawing.lay_out(plan)
    assert set(layout.rooms) == set(plan.rooms)
    for one, other in combinations(layout.rooms.values(), 2):
        beside = one.right < other.x or other.right < one.x
        assert beside or one.bottom < other.y or other.bottom < one.y


def test_arrows_in_a_band_go_to_the_right(plan: HousePlan) -> None:
    layout = drawing.lay_out(plan)
    for part in plan.parts:
        for start, ends in plan.arrows_inside(part.name).items():
            assert all(layout.rooms[start].right < layout.rooms[end].x for end in ends)


def test_the_map_knows_what_is_known_of_the_house(plan: HousePlan) -> None:
    repair = plan.arrows[RoomKey("replication", "repair")]
    assert RoomKey("replication", "decisions") in repair
    assert RoomKey("replication", "repair") not in repair
    assert not any(end.component == "bookie" for end in repair)
    assert plan.rooms[RoomKey("placement", "zones")].is_pure
    assert not plan.rooms[RoomKey("bookie", "disk")].is_pure
    assert plan.arrows_between()["placement"] == frozenset()
    assert "bookie" in plan.hosted


@given(drawn_arrows())
def test_what_is_left_out_is_led_to_by_others(arrows: Arrows) -> None:
    less = rooms.reduced(arrows)

    assert rooms.reach(less) == rooms.reach(arrows)
    assert all(less[start] <= arrows[start] for start in arrows)
    for start, ends in less.items():
        for end in ends:
            without = {**less, start: ends - {end}}
            assert end not in rooms.reach(without)[start]


@given(drawn_arrows())
def test_whoever_imports_stands_above(arrows: Arrows) -> None:
    deep = rooms.depths(arrows)

    assert all(deep[start] > deep[end] for start, ends in arrows.items() for end in ends)
    assert all(not deep[each] for each, ends in arrows.items() if not ends)
