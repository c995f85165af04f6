"""The house rules that no linter knows, each as a function from a checkout to its offences.

A guard reads files only and returns one line an offence, ``path: what is wrong``; an empty list is
a clean house. ``test_guards_bite.py`` plants an offence for each and expects it to be caught.
"""

import os
import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.repo import lane_guards, page_guards, parsed, threat_guards

#: From the top of the house to the bottom; a folder appears with its first code.
COMPONENTS = (
    "shell",
    "operator",
    "pipeline",
    "replication",
    "log",
    "client",
    "bookie",
    "wire",
    "metadata",
    "placement",
)
CODE_FOLDERS = (*COMPONENTS, "tests", "benchmarks")
GENERATED = ("wire/zonekeeper/wire/pb/",)

#: A package that stands beside ``zonekeeper``, because another program finds it by its name.
FOUND_BY_NAME = {"pipeline": "pyspark_zonekeeper"}

MODULE_LINES_MAX = 500
FUNCTION_LINES_MAX = 70
ROOM_MODULES_MAX = 16
VAGUE_NAMES = frozenset(
    {"common", "helper", "helpers", "manager", "misc", "types", "util", "utils"}
)

_NOT_OURS = re.compile(r"(^|/)(\.(?!ci/|gitignore)[^/]+|__pycache__)/|^(build|dist|venv)/")

Guard = Callable[[Path], list[str]]


def components(root: Path) -> list[str]:
    """Give the component folders that exist already."""
    return [name for name in COMPONENTS if (root / name).is_dir()]


def sources(root: Path, folders: tuple[str, ...] = CODE_FOLDERS) -> Iterator[tuple[str, Path]]:
    """Give every Python file that people wrote, with its path in the checkout."""
    for folder in folders:
        for path in sorted((root / folder).rglob("*.py")):
            name = path.relative_to(root).as_posix()
            if not name.startswith(GENERATED):
                yield name, path


def tracked_text(root: Path) -> Iterator[tuple[str, str]]:
    """Give the text of every file that belongs to the project.

    Caches, environments and what was built do not; nor are they walked through: while this reads,
    other tests make folders there and remove them.
    """
    for folder, inside, files in os.walk(root):
        here = Path(folder).relative_to(root)
        inside[:] = sorted(
            name for name in inside if not _NOT_OURS.search(f"{(here / name).as_posix()}/")
        )
        for path in (Path(folder, name) for name in sorted(files)):
            if path.is_file() and path.name != ".git":  # a file in a second work tree
                name = path.relative_to(root).as_posix()
                try:
                    yield name, path.read_bytes().decode("utf-8")
                except UnicodeDecodeError:
                    yield name, "\x00"


def no_stray_init(root: Path) -> list[str]:
    """PEP 420: an ``__init__.py`` above a component's package hides the others; see docs."""
    offences = [
        f"{folder}/{name}: a namespace has no __init__.py"
        for folder in components(root)
        for name in ("__init__.py", "zonekeeper/__init__.py")
        if (root / folder / name).exists()
    ]
    for path in sorted((root / "tests").rglob("__init__.py")):
        offences.append(f"{path.relative_to(root).as_posix()}: tests have no __init__.py")
    return offences


def component_shape(root: Path) -> list[str]:
    """``<component>/zonekeeper/<component>/``, with ``__init__.py``, ``py.typed``, and no more."""
    offences = []
    for folder in components(root):
        inner = root / folder / "zonekeeper" / folder
        for needed in ("__init__.py", "py.typed"):
            if not (inner / needed).is_file():
                offences.append(f"{folder}/zonekeeper/{folder}/{needed}: missing")
        for parent in (root / folder, root / folder / "zonekeeper"):
            expected = "zonekeeper" if parent == root / folder else folder
            allowed = {expected, "__pycache__"}
            if parent == root / folder and folder in FOUND_BY_NAME:
                allowed.add(FOUND_BY_NAME[folder])
            for child in sorted(parent.iterdir()):
                stray = child.is_dir() and child.name not in allowed
                if stray or child.suffix == ".py":
                    offences.append(f"{child.relative_to(root).as_posix()}: does not belong here")
        for package in sorted({path.parent for path in inner.rglob("*.py")}):
            if not (package / "__init__.py").is_file():
                where = package.relative_to(root).as_posix()
                offences.append(f"{where}: a package needs an __init__.py")
    return offences


def known_to_tools(root: Path) -> list[str]:
    """A component that a tool's folder list forgets is silently unchecked or not shipped."""
    config = tomllib.loads((root / "pyproject.toml").read_text())
    hatch, tool = config["tool"]["hatch"]["build"], config["tool"]
    lists = {
        "hatch wheel packages": [
            str(Path(path).parent) for path in hatch["targets"]["wheel"]["packages"]
        ],
        "hatch dev-mode-dirs": hatch["dev-mode-dirs"],
        "hatch sdist include": [path.lstrip("/") for path in hatch["targets"]["sdist"]["include"]],
        "mypy_path": tool["mypy"]["mypy_path"],
        "mypy files": tool["mypy"]["files"],
        "ruff src": tool["ruff"]["src"],
    }
    return [
        f"pyproject.toml: {where} does not name {folder}"
        for where, named in lists.items()
        for folder in components(root)
        if folder not in named
    ]


def sizes(root: Path) -> list[str]:
    """A module is at most 500 lines, a function at most 70."""
    offences = []
    for name, path in sources(root):
        text = path.read_text()
        if (lines := text.count("\n")) > MODULE_LINES_MAX:
            offences.append(f"{name}: {lines} lines, the end is {MODULE_LINES_MAX}")
        offences += [
            f"{name}:{function.line}: {function.name} has {function.lines} lines, "
            f"the end is {FUNCTION_LINES_MAX}"
            for function in parsed.functions(text)
            if function.lines > FUNCTION_LINES_MAX
        ]
    return offences


def rooms_are_small(root: Path) -> list[str]:
    """A room is a thing that one can name; where sixteen modules stand in it, there are two."""
    rooms: dict[str, int] = {}
    for name, path in sources(root, COMPONENTS):
        if path.name != "__init__.py":
            room = name.rpartition("/")[0]
            rooms[room] = rooms.get(room, 0) + 1
    return [
        f"{room}: {modules} modules, the end is {ROOM_MODULES_MAX}"
        for room, modules in sorted(rooms.items())
        if modules > ROOM_MODULES_MAX
    ]


def no_local_imports(root: Path) -> list[str]:
    """An import inside a function hides a dependency, or escapes a cycle that should be untied."""
    return [
        f"{name}:{line}: an import inside a function"
        for name, path in sources(root)
        for line in sorted(
            {at for found in parsed.functions(path.read_text()) for at in found.imports}
        )
    ]


def names_say_something(root: Path) -> list[str]:
    """``utils`` names nothing; a module is named for what it is."""
    return [
        f"{name}: a module is named for what it is"
        for name, path in sources(root)
        if path.stem in VAGUE_NAMES or path.parent.name in VAGUE_NAMES
    ]


def no_mocks(root: Path) -> list[str]:
    """Code that needs a mock to be tested is cut in the wrong place; interfaces have twins."""
    pattern = re.compile(
        r"^\s*(from|import)\s+(unittest\.mock|unittest import mock|mock\b|pytest_mock)", re.M
    )
    return [
        f"{name}: mocks instead of a twin or the real thing"
        for name, path in sources(root, ("tests",))
        if pattern.search(path.read_text())
    ]


def silenced_with_reason(root: Path) -> list[str]:
    """A silenced rule says which rule, and why, on the same line."""
    bare = re.compile(r"#\s*(noqa(?!: [A-Z0-9, ]+\S* +\S)|type: ignore(?!\[[\w, -]+\]\s+#))")
    return [
        f"{name}:{number}: silences a rule without its code and a reason"
        for name, path in sources(root)
        if not name.startswith("tests/repo/")
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if bare.search(line)
    ]


def text_only(root: Path) -> list[str]:
    """Nothing binary is kept: golden bytes are hex text with their provenance."""
    return [f"{name}: not text" for name, text in tracked_text(root) if "\x00" in text]


#: Each pins a part of what requirements.lock pins.
PARTIAL_LOCKS = ("requirements.image.lock", "requirements.demo.lock", "requirements.build.lock")


def lock_is_whole(root: Path) -> list[str]:
    """Every dependency is pinned with a hash, and no lock names a place to fetch from.

    What the image, the demo and the build have are parts of all that is pinned.
    """
    offences = []
    locks = {name: _pins(root / name) for name in ("requirements.lock", *PARTIAL_LOCKS)}
    pins = locks["requirements.lock"]
    for name, found in locks.items():
        if "://" in (root / name).read_text():
            offences.append(f"{name}: holds an address")
        offences += [
            f"{name}: {package} without a hash"
            for package, block in found.items()
            if "--hash=" not in block
        ]
        offences += [
            f"{name}: {package} is not as in requirements.lock (run make lock)"
            for package, block in found.items()
            if pins.get(package) != block
        ]
    config = tomllib.loads((root / "pyproject.toml").read_text())
    groups = config["dependency-groups"].values()
    wanted = [
        *config["build-system"]["requires"],
        *(line for lines in groups for line in lines if isinstance(line, str)),
        *(line for lines in config["project"]["optional-dependencies"].values() for line in lines),
    ]
    for line in wanted:
        name = re.split(r"[^A-Za-z0-9._-]", line)[0].lower().replace("_", "-")
        if name != "zonekeeper" and name not in pins:
            offences.append(f"requirements.lock: {name} is not pinned (run make lock)")
    return offences


def _pins(lock: Path) -> dict[str, str]:
    """Give what a lock pins, by the names of the packages."""
    pins: dict[str, str] = {}
    for block in re.split(r"\n(?=\S)", lock.read_text().rstrip()):
        if match := re.match(r"([A-Za-z0-9._-]+)==", block):
            pins[match[1].lower().replace("_", "-")] = block
    return pins


def no_private_paths(root: Path) -> list[str]:
    """A text for all readers names no machine of one person."""
    private = re.compile("/(?:home|root|wo" + r"rk|Users)/[a-z.]")
    return [
        f"{name}: names a path of somebody's machine: {match[0]}..."
        for name, text in tracked_text(root)
        if (match := private.search(text))
    ]


def architecture_names_every_component(root: Path) -> list[str]:
    """The map shows every folder that exists."""
    text = (root / "ARCHITECTURE.md").read_text()
    return [
        f"ARCHITECTURE.md: does not name {folder}/"
        for folder in components(root)
        if f"`{folder}/`" not in text
    ]


def pure_is_held(root: Path) -> list[str]:
    """A module that calls itself pure is one that import-linter holds to it."""
    contracts = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["importlinter"]
    held = {module for each in contracts["contracts"] for module in each.get("source_modules", [])}
    offences = []
    for name, path in sources(root, COMPONENTS):
        said = parsed.docstring(path.read_text())
        module = name.removesuffix(".py").partition("/")[2].replace("/", ".")
        parts = module.split(".")
        above = {".".join(parts[:number]) for number in range(1, len(parts) + 1)}
        if re.search(r"\bPure\.", said) and not above & held:
            offences.append(f"{name}: says that it is pure, and pyproject.toml does not hold it")
    return offences


#: Public class names that may stand in several modules, and why.
SHARED_CLASS_NAMES = {
    "Client": "the blocking form has the names of what it wraps",
    "Reader": "the blocking form has the names of what it wraps",
    "Tail": "the blocking form has the names of what it wraps",
    "Writer": "the blocking form has the names of what it wraps",
    "Fenced": "what a bookie says, and what an application hears of it",
    "NotPermitted": "what a bookie says, and what an application hears of it",
    "NoSuchLedger": "what a bookie says, and what an application hears of it",
    "IllegalPlacement": "what placement finds, and what an application hears of it",
    "NotEnoughBookies": "what placement finds, and what an application hears of it",
}


def class_names_are_unique(root: Path) -> list[str]:
    """A public class has a name of its own in the whole house, so that a name says what it is."""
    found: dict[str, list[str]] = {}
    for name, path in sources(root, COMPONENTS):
        for each in parsed.public_classes(path.read_text()):
            found.setdefault(each.name, []).append(name)
    return [
        f"{names[-1]}: the class name {each} stands in {names[0]}, too"
        for each, names in sorted(found.items())
        if len(names) > 1 and each not in SHARED_CLASS_NAMES
    ] + [
        f"tests/repo/guards.py: {each} is no exception any more"
        for each in sorted(SHARED_CLASS_NAMES)
        if len(found.get(each, [])) == 1
    ]


#: Public exceptions that are no troubles of the world, and why.
OTHER_EXCEPTIONS = {
    "Trouble": "the base itself",
    "InterruptedWorkError": "a person's Ctrl-C, on its way to the exit code",
}
_BARE_BASES = frozenset({"BaseException", "Exception", "RuntimeError", "ValueError"})


def troubles_have_one_base(root: Path) -> list[str]:
    """What is wrong with the world derives from ``Trouble``; a private exception is caught near."""
    return [
        f"{name}:{each.line}: {each.name} derives from no Trouble (placement/base/troubles.py)"
        for name, path in sources(root, COMPONENTS)
        for each in parsed.public_classes(path.read_text())
        if each.name not in OTHER_EXCEPTIONS and each.bases and each.bases <= _BARE_BASES
    ]


#: What only a command line needs; its room is ``commands``, and the shell is one.
OF_COMMAND_LINES = frozenset({"click", "rich", "yaml"})


def command_lines_have_rooms(root: Path) -> list[str]:
    """A component is imported by programs, too: what it asks of a terminal stands apart."""
    return [
        f"{name}: {imported} is imported in rooms named commands, and in the shell"
        for name, path in sources(root, COMPONENTS)
        if not name.startswith("shell/") and "commands" not in (path.stem, path.parent.name)
        for imported in parsed.imports(path.read_text())
        if imported.partition(".")[0] in OF_COMMAND_LINES
    ]


_PAGE = re.compile(r"(?<![\w/.}*-])((?:\.{0,2}/)?[\w-][\w./-]*\.md)\b")


def pages_exist(root: Path) -> list[str]:
    """A page that a text names is there: in the checkout, in docs, or beside the text.

    The tests of the guards plant pages that are not there.
    """
    return [
        f"{name}: names {page}, and there is no such page"
        for name, text in tracked_text(root)
        if not name.startswith("tests/repo/")
        for page in sorted(set(_PAGE.findall(text)))
        if not any(
            (above / page.lstrip("/")).is_file()
            for above in (root, root / "docs", (root / name).parent)
        )
    ]


SCENARIOS = "docs/scenarios.md"
_TOLD = "tests/zone_scenarios"
_ROW = re.compile(r"^\| (S\d{2,3}) \|.*\| ([^|]*) \|$", re.M)
_PLAYS = re.compile(r"^(?:async )?def (?:test_)?((?:s\d+[a-z]?_(?:and_)?)+)", re.M)
_IN_WORDS = re.compile(r"\bS\d{2,3}\b")
_SILENCED = re.compile(r"# noqa: [A-Z0-9, ]+")
_TITLE = re.compile(r"^(S\d+)  ", re.M)


def scenarios_have_one_numbering(root: Path) -> list[str]:
    """A scenario's number is that of the page, which names the tests that play it."""
    rows = dict(_ROW.findall((root / SCENARIOS).read_text()))
    named: dict[str, set[str]] = {}
    for name, path in sources(root, ("tests",)):
        text = _SILENCED.sub("", path.read_text())
        plays = {each.upper() for match in _PLAYS.findall(text) for each in _numbers(match)}
        for number in sorted(plays | set(_IN_WORDS.findall(text))):
            named.setdefault(number, set()).add(name)
    for path in sorted((root / _TOLD).glob("*.txt")):
        for number in sorted(set(_TITLE.findall(path.read_text()))):
            named.setdefault(number, set()).add(f"{_TOLD}/{path.name}")
    return (
        [
            f"{name}: {number} is no scenario of {SCENARIOS}"
            for number, names in sorted(named.items())
            for name in sorted(names)
            if number not in rows
        ]
        + [f"{SCENARIOS}: nothing plays {number}" for number in rows if number not in named]
        + [
            f"{name}: tells {number}, and {SCENARIOS} does not name it there"
            for number, names in sorted(named.items())
            for name in sorted(names)
            if name.endswith(".txt") and name.removeprefix("tests/") not in rows.get(number, "")
        ]
        + [offence for number, tests in rows.items() for offence in _missing(root, number, tests)]
    )


def _numbers(prefix: str) -> list[str]:
    return re.findall(r"s\d+[a-z]?", prefix)


def _missing(root: Path, number: str, tests: str) -> Iterator[str]:
    """Say what of a row's tests is not there: a file, and behind it parts of its tests' names."""
    text = ""
    for word in re.findall(r"`([^`]+)`", tests):
        if "/" in word:
            path = root / "tests" / word
            text = path.read_text() if path.is_file() else ""
            if not path.is_file():
                yield f"{SCENARIOS}: {number} names {word}, which is not there"
            elif path.suffix == ".txt" and number not in _TITLE.findall(text):
                yield f"{SCENARIOS}: {word} does not tell {number}"
        elif not re.search(rf"def \w*{re.escape(word.strip('…'))}", text):
            yield f"{SCENARIOS}: {number} names {word}, which is no test there"


GUARDS: tuple[Guard, ...] = (
    no_stray_init,
    component_shape,
    known_to_tools,
    sizes,
    rooms_are_small,
    no_local_imports,
    names_say_something,
    no_mocks,
    silenced_with_reason,
    text_only,
    lock_is_whole,
    no_private_paths,
    architecture_names_every_component,
    pure_is_held,
    class_names_are_unique,
    troubles_have_one_base,
    command_lines_have_rooms,
    *page_guards.GUARDS,
    *lane_guards.GUARDS,
    *threat_guards.GUARDS,
    pages_exist,
    scenarios_have_one_numbering,
)
