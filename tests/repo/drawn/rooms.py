"""The house as it is in the code: components, their rooms, their modules, and the imports.

A *room* is an inner package of a component; what stands in a folder of its own in a room belongs to
it. Modules that stand in the component's folder itself (``commands.py``, ``main.py``) make one more
room, which has no name. An arrow from one room to
another says that a module of the first imports one of the second. ``read`` looks at a checkout;
everything else here is pure.
"""

import ast
import functools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeVar

from tests.repo import guards

T = TypeVar("T")


class RoomKey(NamedTuple):
    """Which room of which component; the room of a component's own modules is called ``""``."""

    component: str
    room: str


class HouseModule(NamedTuple):
    """A module of a room, and the first line of its docstring."""

    #: Below the room, with a slash where it stands in a folder of its own.
    name: str
    says: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """A room, the first line of its docstring, and its modules by name."""

    key: RoomKey
    says: str
    modules: tuple[HouseModule, ...]
    #: Does import-linter hold the whole room to be pure?
    is_pure: bool

    @property
    def label(self) -> str:
        """Give the name to show."""
        return self.key.room or " ".join(f"{module.name}.py" for module in self.modules)


@dataclass(frozen=True, slots=True, kw_only=True)
class HousePart:
    """A component, the first line of its docstring, and its rooms by name."""

    name: str
    says: str
    rooms: tuple[Room, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HousePlan:
    """All components from the top to the bottom, and the arrows."""

    parts: tuple[HousePart, ...]
    #: The rooms that each room imports, itself left out.
    arrows: Mapping[RoomKey, frozenset[RoomKey]]
    #: The components whose commands the shell hosts by entry point, without an import.
    hosted: tuple[str, ...]

    @property
    def rooms(self) -> dict[RoomKey, Room]:
        """Give all rooms by their keys."""
        return {room.key: room for part in self.parts for room in part.rooms}

    def arrows_inside(self, component: str) -> dict[RoomKey, frozenset[RoomKey]]:
        """Give the arrows between the rooms of one component."""
        return {
            start: frozenset(end for end in ends if end.component == component)
            for start, ends in self.arrows.items()
            if start.component == component
        }

    def arrows_between(self) -> dict[str, frozenset[str]]:
        """Give which component imports which."""
        found: dict[str, set[str]] = {part.name: set() for part in self.parts}
        for start, ends in self.arrows.items():
            found[start.component] |= {end.component for end in ends} - {start.component}
        return {component: frozenset(ends) for component, ends in found.items()}


def read(root: Path) -> HousePlan:
    """Read the house of a checkout."""
    config = tomllib.loads((root / "pyproject.toml").read_text())
    pure = {
        module
        for contract in config["tool"]["importlinter"]["contracts"]
        for module in contract.get("source_modules", [])
        if contract["type"] == "forbidden"
    }
    arrows: dict[RoomKey, set[RoomKey]] = {}
    parts = []
    for component in guards.components(root):
        inner = root / component / "zonekeeper" / component
        rooms = []
        for folder in sorted({inner, *(path.parent for path in inner.glob("*/__init__.py"))}):
            key = RoomKey(component, "" if folder == inner else folder.name)
            files = sorted(folder.rglob("*.py") if key.room else folder.glob("*.py"))
            names = (path.relative_to(folder).with_suffix("").as_posix() for path in files)
            seen = {name: _seen(path.read_text()) for name, path in zip(names, files, strict=True)}
            modules = tuple(
                HouseModule(name, module.says)
                for name, module in seen.items()
                if name != "__init__" or (not key.room and module.imports)  # a front door
            )
            if not modules and not key.room:
                continue
            ends = (_room_of(root, name) for each in seen.values() for name in each.imports)
            arrows[key] = {end for end in ends if end is not None and end != key}
            said = seen["__init__"].says if key.room else ""
            package = ".".join(("zonekeeper", component, *filter(None, [key.room])))
            is_pure = package in pure or f"zonekeeper.{component}" in pure
            rooms.append(Room(key=key, says=said, modules=modules, is_pure=is_pure))
        said = _seen((inner / "__init__.py").read_text()).says
        parts.append(HousePart(name=component, says=said, rooms=tuple(rooms)))
    hosted = {
        target.split(".")[1]
        for target in config["project"]["entry-points"]["zonekeeper.commands"].values()
    }
    return HousePlan(
        parts=tuple(parts),
        arrows={key: frozenset(ends) for key, ends in arrows.items()},
        hosted=tuple(sorted(hosted - {"shell"})),
    )


def reach(arrows: Mapping[T, frozenset[T]]) -> dict[T, frozenset[T]]:
    """Give everything that each one imports, directly or not; there are no cycles."""
    found: dict[T, frozenset[T]] = {}

    def of(start: T) -> frozenset[T]:
        if start not in found:
            ends = arrows.get(start, frozenset())
            found[start] = ends.union(*(of(end) for end in ends))
        return found[start]

    for start in arrows:
        of(start)
    return found


def reduced(arrows: Mapping[T, frozenset[T]]) -> dict[T, frozenset[T]]:
    """Leave out each arrow that goes where others lead as well; ``reach`` stays the same."""
    far = reach(arrows)
    return {
        start: frozenset(
            end for end in ends if not any(end in far.get(other, ()) for other in ends)
        )
        for start, ends in arrows.items()
    }


def depths(arrows: Mapping[T, frozenset[T]]) -> dict[T, int]:
    """Give for each one the longest way down: 0 imports nothing."""
    far = reach(arrows)
    ordered = sorted(arrows, key=lambda each: len(far[each]))
    found: dict[T, int] = {}
    for each in ordered:
        found[each] = 1 + max((found[end] for end in arrows[each]), default=-1)
    return found


def _room_of(root: Path, name: str) -> RoomKey | None:
    """Say in which room of the house an imported name stands; None: it is a whole component."""
    _, component, *rest = name.split(".")
    inner = root / component / "zonekeeper" / component
    if rest and (inner / rest[0] / "__init__.py").is_file():
        return RoomKey(component, rest[0])
    if rest and (inner / f"{rest[0]}.py").is_file():
        return RoomKey(component, "")
    return None


class _Seen(NamedTuple):
    """The first line of a module's docstring, and the full names of what it imports of ours."""

    says: str
    imports: tuple[str, ...]


@functools.cache
def _seen(text: str) -> _Seen:
    """Look at a module; each text is parsed once, however many copies there are."""
    tree = ast.parse(text)
    imports: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imports += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            imports += [f"{node.module}.{alias.name}" for alias in node.names]
    return _Seen(
        says=(ast.get_docstring(tree) or "").partition("\n")[0],
        imports=tuple(name for name in imports if name.startswith("zonekeeper.")),
    )
