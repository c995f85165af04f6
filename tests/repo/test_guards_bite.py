"""Each guard of the house catches the offence that it is there for."""

import functools
from pathlib import Path

import pytest

from tests.repo import checkout, guards, lane_guards, page_guards, threat_guards

LONG_FUNCTION = "def f() -> None:\n" + "    print()\n" * guards.FUNCTION_LINES_MAX
LONG_MODULE = "\n" * (guards.MODULE_LINES_MAX + 1)
# Spelled in two halves, or this file would be an offence itself.
SOMEBODYS_PATH = "see /ho" + "me/somebody/notes\n"
BARE_NOQA = "x = 1  # no" + "qa\n"
NOQA_WITHOUT_REASON = "x = 1  # no" + "qa: E501\n"
NO_SUCH_PAGE = "as planned.m" + "d says\n"
NO_SUCH_SCENARIO = "def test_s99" + "9_the_sky_falls() -> None: ...\n"
BARE_IGNORE = "x = 1  # type: ig" + "nore[misc]\n"

OFFENCES: list[tuple[guards.Guard, str, str]] = [
    (guards.no_stray_init, "placement/__init__.py", ""),
    (guards.no_stray_init, "placement/zonekeeper/__init__.py", ""),
    (guards.no_stray_init, "tests/placement/__init__.py", ""),
    (guards.component_shape, "placement/setup.py", ""),
    (guards.component_shape, "placement/zonekeeper/stray.py", ""),
    (guards.component_shape, "placement/tests/conftest.txt", ""),
    (guards.component_shape, "placement/zonekeeper/placement/inner/module.py", ""),
    (guards.sizes, "placement/zonekeeper/placement/long.py", LONG_MODULE),
    (guards.sizes, "tests/test_long.py", LONG_FUNCTION),
    (
        guards.no_local_imports,
        "placement/zonekeeper/placement/late.py",
        "def f() -> None:\n    if True:\n        import os\n",
    ),
    (
        guards.no_local_imports,
        "placement/zonekeeper/placement/late.py",
        "async def f() -> None:\n    from zonekeeper.placement.base import ids\n",
    ),
    (guards.names_say_something, "placement/zonekeeper/placement/utils.py", ""),
    (guards.names_say_something, "placement/zonekeeper/placement/common/__init__.py", ""),
    (guards.no_mocks, "tests/test_mocked.py", "from unittest.mock import Mock\n"),
    (guards.no_mocks, "tests/test_mocked.py", "from unittest import mock\n"),
    (guards.silenced_with_reason, "placement/zonekeeper/placement/quiet.py", BARE_NOQA),
    (guards.silenced_with_reason, "placement/zonekeeper/placement/quiet.py", NOQA_WITHOUT_REASON),
    (guards.silenced_with_reason, "placement/zonekeeper/placement/quiet.py", BARE_IGNORE),
    (guards.text_only, "docs/picture.txt", "\x00"),
    (guards.no_private_paths, "docs/notes.txt", SOMEBODYS_PATH),
    (guards.architecture_names_every_component, "ARCHITECTURE.md", "# Architecture\n"),
    (guards.class_names_are_unique, "wire/zonekeeper/wire/link/again.py", "class Gate: ...\n"),
    (
        guards.class_names_are_unique,
        "client/zonekeeper/client/api/blocking.py",
        "class Reader: ...\n",
    ),
    (
        guards.troubles_have_one_base,
        "wire/zonekeeper/wire/link/stray.py",
        "class StrayError(ValueError): ...\n",
    ),
    (
        guards.command_lines_have_rooms,
        "metadata/zonekeeper/metadata/stores/asks.py",
        "import click\n",
    ),
    (
        guards.command_lines_have_rooms,
        "operator/zonekeeper/operator/run/draws.py",
        "from rich.console import Console\n",
    ),
    (guards.pages_exist, "docs/notes.txt", NO_SUCH_PAGE),
    (guards.pages_exist, "placement/zonekeeper/placement/cited.py", f"# {NO_SUCH_PAGE}"),
    (guards.scenarios_have_one_numbering, "tests/client/test_planted.py", NO_SUCH_SCENARIO),
    (guards.scenarios_have_one_numbering, "tests/test_planted.py", '"""See S99' + '8."""\n'),
    (guards.pure_is_held, "client/zonekeeper/client/proud.py", '"""Decides all. Pure."""\n'),
]


def test_a_crowded_room_is_caught(house: Path) -> None:
    for number in range(guards.ROOM_MODULES_MAX):
        name = f"placement/zonekeeper/placement/zones/planted_{number}.py"
        checkout.plant(house, name, "")

    assert [offence.partition(":")[0] for offence in guards.rooms_are_small(house)] == [
        "placement/zonekeeper/placement/zones"
    ]


@functools.cache
def offences_of_the_clean(guard: guards.Guard) -> list[str]:
    """Give what a guard finds in a copy before anything is planted: tests are missing there."""
    return guard(checkout.clean())


@pytest.fixture
def house(tmp_path: Path) -> Path:
    return checkout.linked_to(tmp_path)


@pytest.mark.parametrize(
    ("guard", "name", "text"),
    OFFENCES,
    ids=[f"{guard.__name__}-{number}" for number, (guard, _, _) in enumerate(OFFENCES)],
)
def test_a_planted_offence_is_caught(
    house: Path, guard: guards.Guard, name: str, text: str
) -> None:
    checkout.plant(house, name, text)

    assert set(guard(house)) > set(offences_of_the_clean(guard))


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ("| S83 |", "| S99" + "9 |", "nothing plays S99" + "9"),
        ("api/test_lac.py", "api/test_lak.py", "S35 names client/api/test_lak.py, which is not"),
        ("`s36…`", "`s37…`", "S36 names s37…, which is no test there"),
        ("lost_zones.txt", "people.txt", "zone_scenarios/people.txt does not tell S83"),
    ],
)
def test_a_page_of_scenarios_that_is_not_true_is_caught(
    tmp_path: Path, before: str, after: str, says: str
) -> None:
    house = checkout.linked_to(tmp_path, tests=True)
    assert guards.scenarios_have_one_numbering(house) == []

    checkout.change(house, guards.SCENARIOS, before, after)

    assert any(says in offence for offence in guards.scenarios_have_one_numbering(house))


def test_a_transcript_that_the_page_of_scenarios_does_not_name_is_caught(tmp_path: Path) -> None:
    house = checkout.linked_to(tmp_path, tests=True)
    checkout.plant(house, "tests/zone_scenarios/new.txt", "S83  it goes\n")

    assert guards.scenarios_have_one_numbering(house) == [
        "tests/zone_scenarios/new.txt: tells S83, and docs/scenarios.md does not name it there"
    ]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("--hash=sha256:", "--hashless:"),
        ("click==", "clack=="),
        ("click==", "click @ https://example.invalid/click#"),
    ],
)
def test_a_spoiled_lock_is_caught(house: Path, before: str, after: str) -> None:
    assert guards.lock_is_whole(house) == []

    checkout.change(house, "requirements.lock", before, after)

    assert guards.lock_is_whole(house) != []


@pytest.mark.parametrize("name", guards.PARTIAL_LOCKS)
def test_a_part_of_other_versions_is_caught(house: Path, name: str) -> None:
    first = (house / name).read_text().partition("==")[0]
    checkout.change(house, name, f"{first}==", f"{first}==1")

    expected = f"{name}: {first} is not as in requirements.lock (run make lock)"
    assert guards.lock_is_whole(house) == [expected]


def test_what_was_built_is_not_the_houses(house: Path) -> None:
    checkout.plant(house, "dist/zonekeeper.whl", "\x00")

    assert guards.text_only(house) == []


def test_a_component_that_a_tool_forgets_is_caught(house: Path) -> None:
    checkout.change(house, "pyproject.toml", 'mypy_path = ["placement", ', "mypy_path = [")

    assert guards.known_to_tools(house) == ["pyproject.toml: mypy_path does not name placement"]


def test_a_component_that_does_not_say_that_it_is_typed_is_caught(house: Path) -> None:
    (house / "placement/zonekeeper/placement/py.typed").unlink()

    missing = "placement/zonekeeper/placement/py.typed: missing"
    assert guards.component_shape(house) == [missing]


def test_every_guard_has_an_offence() -> None:
    elsewhere: set[guards.Guard] = {
        guards.lock_is_whole,
        guards.known_to_tools,
        guards.rooms_are_small,
    }
    elsewhere |= set(page_guards.GUARDS)  # test_page_guards_bite
    elsewhere |= set(lane_guards.GUARDS)  # test_lane_guards_bite
    elsewhere |= set(threat_guards.GUARDS)  # test_threat_guards_bite
    planted = {guard for guard, _, _ in OFFENCES} | elsewhere

    assert planted == set(guards.GUARDS)
