"""Each guard of the pages catches the offence that it is there for."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.repo import checkout, page_guards

OWNER = "wire/zonekeeper/wire/lanes/lanes.py"
WITHOUT_OWNER = "| W998 | It is so. | nobody | `tests/repo/test_house.py` |\n"
WITHOUT_ID = "| x | It is so. | `wire/lanes/lanes.py` | `tests/repo/test_house.py` |\n"
WITHOUT_TEST = "| W999 | It is so. | `wire/lanes/lanes.py` | see there |\n"
WITH_A_LOST_TEST = "| W999 | It is so. | `wire/lanes/lanes.py` | `tests/repo/test_gone.py` |\n"
WITH_NO_TEST = "| W999 | It is so. | `wire/lanes/lanes.py` | `tests/repo/checkout.py` |\n"
WITH_A_LOST_OWNER = "| W999 | It is so. | `wire/lanes/gone.py` | `tests/repo/test_house.py` |\n"

#: A guard, the page that is spoiled, what is written behind its end, and what the guard says.
OFFENCES: list[tuple[page_guards.Guard, str, str, str]] = [
    (
        page_guards.pages_name_what_is_there,
        "ARCHITECTURE.md",
        "See `wire/lanes/gone.py`.\n",
        "names wire/lanes/gone.py",
    ),
    (
        page_guards.pages_name_what_is_there,
        "docs/storage.md",
        "See `tests/crash/gone/`.\n",
        "names tests/crash/gone/",
    ),
    (
        page_guards.pages_name_what_is_there,
        page_guards.INVARIANTS,
        WITH_A_LOST_OWNER,
        "names wire/lanes/gone.py",
    ),
    (
        page_guards.pages_name_what_is_there,
        page_guards.INVARIANTS,
        WITH_A_LOST_TEST,
        "names tests/repo/test_gone.py",
    ),
    (
        page_guards.links_lead_somewhere,
        "docs/zones.md",
        "[that](gone.md#there)\n",
        "links to gone.md",
    ),
    (
        page_guards.architecture_is_short,
        "ARCHITECTURE.md",
        "x" * page_guards.ARCHITECTURE_BYTES_MAX,
        "the end is",
    ),
    (
        page_guards.architecture_names_every_room,
        "ARCHITECTURE.md",
        "| `wire/` | again | attic, lanes |\n",
        "wire/ has no attic",
    ),
    (
        page_guards.architecture_names_every_room,
        "ARCHITECTURE.md",
        "| `wire/` | again | lanes |\n",
        "wire/ lacks formats",
    ),
    (page_guards.readme_names_every_page, "docs/planted.md", "# New\n", "docs/planted.md"),
    (
        page_guards.invariants_are_owned_and_tested,
        page_guards.INVARIANTS,
        WITHOUT_OWNER,
        "W998 has no owner",
    ),
    (
        page_guards.invariants_are_owned_and_tested,
        page_guards.INVARIANTS,
        WITHOUT_ID,
        "'x' is no id",
    ),
    (
        page_guards.invariants_are_owned_and_tested,
        page_guards.INVARIANTS,
        WITHOUT_TEST * 2,
        "W999 stands twice",
    ),
    *(
        (
            page_guards.invariants_are_owned_and_tested,
            page_guards.INVARIANTS,
            text,
            "W999 has no test",
        )
        for text in (WITHOUT_TEST, WITH_A_LOST_TEST, WITH_NO_TEST)
    ),
    (page_guards.glossary_is_in_order, page_guards.GLOSSARY, "| gate | again |\n", "'gate' stands"),
]


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return checkout.copy_to(tmp_path_factory.mktemp("house"), tests=True)


@pytest.fixture
def mended(house: Path) -> Iterator[Path]:
    """Give a copy of the house, as it was after the test as before it."""
    before = {path: path.read_bytes() for path in [*house.rglob("*.md"), house / OWNER]}
    yield house
    for path in house.rglob("*.md"):
        if path not in before:
            path.unlink()
    for path, data in before.items():
        path.write_bytes(data)


def spoil(house: Path, name: str, before: str, after: str) -> None:
    text = (house / name).read_text()
    assert before in text
    (house / name).write_text(text.replace(before, after))


@pytest.mark.parametrize("guard", page_guards.GUARDS, ids=lambda guard: guard.__name__)
def test_the_copy_itself_is_clean(house: Path, guard: page_guards.Guard) -> None:
    assert guard(house) == []


@pytest.mark.parametrize(
    ("guard", "name", "text", "said"),
    OFFENCES,
    ids=[f"{guard.__name__}-{number}" for number, (guard, *_) in enumerate(OFFENCES)],
)
def test_a_planted_offence_is_caught(
    mended: Path, guard: page_guards.Guard, name: str, text: str, said: str
) -> None:
    path = mended / name
    path.write_text((path.read_text() if path.exists() else "") + text)

    assert any(said in offence for offence in guard(mended))


def test_an_owner_without_a_theory_is_caught(mended: Path) -> None:
    (mended / OWNER).write_text("x = 1\n")

    found = page_guards.invariants_are_owned_and_tested(mended)
    assert found
    assert all("wire/lanes/lanes.py owns" in offence for offence in found)


def test_a_word_that_the_glossary_lost_is_caught(mended: Path) -> None:
    spoil(mended, page_guards.GLOSSARY, "| zone watch |", "| zone watcher |")

    assert page_guards.glossary_is_in_order(mended) == ["docs/glossary.md: lacks zone watch"]


def test_a_module_that_moves_is_missed_by_the_pages(mended: Path) -> None:
    moved = mended / OWNER
    moved.rename(moved.with_name("moved.py"))
    try:
        found = page_guards.pages_name_what_is_there(mended)
    finally:
        moved.with_name("moved.py").rename(moved)

    assert "docs/invariants.md: names wire/lanes/lanes.py, which is not there" in found


def test_every_guard_has_an_offence() -> None:
    assert {guard for guard, *_ in OFFENCES} == set(page_guards.GUARDS)
