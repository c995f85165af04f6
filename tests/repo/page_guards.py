"""The rules for the pages of the house: what they name is there, and they are short where they say.

Like those of ``guards``: each is a function from a checkout to its offences. A path in a page is
from the top of the checkout, or below a component's ``zonekeeper/``: ``wire/lanes/lanes.py``.
"""

import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from tests.repo import parsed

ARCHITECTURE_BYTES_MAX = 10_240
#: The pages of which every path is looked for.
PAGES_WITH_PATHS = (
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "docs/glossary.md",
    "docs/invariants.md",
    "docs/storage.md",
)
INVARIANTS = "docs/invariants.md"
GLOSSARY = "docs/glossary.md"
RUNBOOKS = "shell/zonekeeper/shell/runbooks"
#: Words of which the whole house is made.
NEEDED_WORDS = (
    "auditor",
    "gate",
    "incident",
    "limbo",
    "opening",
    "policy",
    "replicator",
    "room (code)",
    "zone watch",
)

#: ``wire/lanes/lanes.py``, ``docs/map.md``, ``tests/crash/``; not ``zone/ud`` or ``index/``.
_PATH = re.compile(r"`([\w.-]+(?:/[\w.-]+)*(?:/|/[\w.-]+\.(?:py|md|svg|toml|txt|yaml|proto)))`")
_LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
_INVARIANT = re.compile(r"\| (\S*) \| (.*) \| (.*) \| (.*) \|")
_PART = re.compile(r"\| `(\w+)/` \| .* \| (.*?) ?\|")
#: Rooms that go without saying: commands, and what protoc makes.
_UNSAID_ROOMS = {"commands", "pb"}
_ID = re.compile(r"[A-Z][1-9][0-9]*")

Guard = Callable[[Path], list[str]]


class InvariantRow(NamedTuple):
    """A row of the table of invariants."""

    number: int
    key: str
    owners: list[str]
    tests: list[str]


def found(root: Path, name: str) -> Path | None:
    """Give the file or folder that a page calls so; None: there is none."""
    short = root / name.partition("/")[0] / "zonekeeper" / name
    return next((path for path in (root / name, short) if path.exists()), None)


def pages_name_what_is_there(root: Path) -> list[str]:
    """A path in a page leads somewhere."""
    return [
        f"{page}: names {name}, which is not there"
        for page in PAGES_WITH_PATHS
        for name in dict.fromkeys(_PATH.findall((root / page).read_text()))
        if name.count("/") + name.endswith("/") > 0
        and not (name.endswith("/") and name.count("/") == 1)
        and found(root, name) is None
    ]


def links_lead_somewhere(root: Path) -> list[str]:
    """A link in a page leads to a file of the house."""
    return [
        f"{page.relative_to(root).as_posix()}: links to {target}, which is not there"
        for page in _pages(root)
        for target in dict.fromkeys(_LINK.findall(page.read_text()))
        if "://" not in target and not (page.parent / target).exists()
    ]


def architecture_is_short(root: Path) -> list[str]:
    """The page that is to be read first is read to its end only if it is short."""
    size = (root / "ARCHITECTURE.md").stat().st_size
    if size <= ARCHITECTURE_BYTES_MAX:
        return []
    return [f"ARCHITECTURE.md: {size} bytes, the end is {ARCHITECTURE_BYTES_MAX}"]


def architecture_names_every_room(root: Path) -> list[str]:
    """The table of the parts has each room of each component, and no other."""
    offences = []
    for line in (root / "ARCHITECTURE.md").read_text().splitlines():
        if not (match := _PART.fullmatch(line)):
            continue
        inner = root / match[1] / "zonekeeper" / match[1]
        there = {path.parent.name for path in inner.glob("*/__init__.py")}
        named = set(match[2].split(", ")) - {""}
        offences += [
            f"ARCHITECTURE.md: {match[1]}/ {what} {room}"
            for what, rooms in (("lacks", there - named - _UNSAID_ROOMS), ("has no", named - there))
            for room in sorted(rooms)
        ]
    return offences


def readme_names_every_page(root: Path) -> list[str]:
    """A reader who begins with README.md finds each page of docs."""
    text = (root / "README.md").read_text()
    return [
        f"README.md: does not name docs/{path.name}"
        for path in sorted((root / "docs").glob("*.md"))
        if f"docs/{path.name}" not in text
    ]


def invariants_are_owned_and_tested(root: Path) -> list[str]:
    """Each invariant has an id of its own, owners that say their theory, and tests."""
    offences = []
    keys: set[str] = set()
    for row in _invariants(root):
        where = f"{INVARIANTS}:{row.number}"
        if not _ID.fullmatch(row.key):
            offences.append(f"{where}: {row.key!r} is no id such as W7")
        if row.key in keys:
            offences.append(f"{where}: {row.key} stands twice")
        keys.add(row.key)
        if not row.owners:
            offences.append(f"{where}: {row.key} has no owner")
        if not any(_is_test(name) and found(root, name) for name in row.tests):
            offences.append(f"{where}: {row.key} has no test that is there")
        offences += [
            f"{where}: {name} is no test of {row.key}" for name in row.tests if not _is_test(name)
        ]
        offences += [
            f"{where}: {name} owns {row.key}, and has no docstring"
            for name in row.owners
            if name.endswith(".py") and (path := found(root, name)) and not _says_something(path)
        ]
    return offences or ([] if keys else [f"{INVARIANTS}: has no invariant"])


def glossary_is_in_order(root: Path) -> list[str]:
    """A word stands in the glossary once, where the alphabet puts it."""
    lines = (root / GLOSSARY).read_text().splitlines()
    rows = [line.split("|")[1].strip() for line in lines if line.startswith("| ")][1:]
    words = [row.casefold() for row in rows]
    offences = [
        f"{GLOSSARY}: {after!r} stands behind {before!r}"
        for before, after in pairwise(words)
        if not before < after
    ]
    return offences + [f"{GLOSSARY}: lacks {word}" for word in NEEDED_WORDS if word not in rows]


def _pages(root: Path) -> Iterator[Path]:
    yield from sorted(root.glob("*.md"))
    yield from sorted((root / "docs").rglob("*.md"))
    yield from sorted((root / RUNBOOKS).glob("*.md"))


def _invariants(root: Path) -> Iterator[InvariantRow]:
    for number, line in enumerate((root / INVARIANTS).read_text().splitlines(), 1):
        if (match := _INVARIANT.fullmatch(line)) and match[2] != "invariant":
            owners, tests = (re.findall(r"`([^`]+)`", match[part]) for part in (3, 4))
            yield InvariantRow(number, match[1], owners, tests)


def _is_test(name: str) -> bool:
    return name.startswith("tests/") and Path(name).name.startswith("test_")


def _says_something(path: Path) -> bool:
    return bool(parsed.docstring(path.read_text()))


GUARDS: tuple[Guard, ...] = (
    pages_name_what_is_there,
    links_lead_somewhere,
    architecture_is_short,
    architecture_names_every_room,
    readme_names_every_page,
    invariants_are_owned_and_tested,
    glossary_is_in_order,
)
