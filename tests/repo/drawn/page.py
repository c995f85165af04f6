"""The map as a page: each component's rooms, their arrows, every module's first line. Pure."""

from tests.repo.drawn.rooms import HousePart, HousePlan, Room, RoomKey, reduced

_HEAD = """\
# The map

Made by `make map` from the code; a test says when it is stale. A *room* is an inner package of a
component, one thing that can be named. `commands.py` and what else stands in a component's folder
itself is its front. Below: what each room is, whom it imports, and the first line of each module.
[ARCHITECTURE.md](../ARCHITECTURE.md) says why it is so, [invariants.md](invariants.md) what each
part must keep true.

![Components as bands, their rooms as boxes, imports as arrows](map.svg)

In the drawing, and in the column "imports here", an import is left out where others lead to the
same room. A **pure** room knows no clock, dice, thread, loop, disk or network: it decides, and
others do.
"""


def render(plan: HousePlan) -> str:
    """Give the page."""
    text = "\n".join([_HEAD, *(_component(plan, part) for part in plan.parts)])
    return text.replace("``", "`")


def _component(plan: HousePlan, part: HousePart) -> str:
    modules = sum(len(room.modules) for room in part.rooms)
    lines = [
        f"## {part.name}",
        "",
        f"`{part.name}/zonekeeper/{part.name}/` · {_counted(modules, 'module')} · {part.says}",
        "",
        "| room | modules | is | imports here | imports of others |",
        "|---|---|---|---|---|",
    ]
    inside = reduced(plan.arrows_inside(part.name))
    for room in part.rooms:
        own = ", ".join(f"`{plan.rooms[end].label}`" for end in sorted(inside[room.key]))
        others = ", ".join(f"`{end}`" for end in _others(plan, room.key))
        says = room.says + (" **Pure.**" if room.is_pure and "pure" not in room.says else "")
        lines.append(
            f"| `{room.label}` | {len(room.modules)} | {says or 'its front'} | {own} | {others} |"
        )
    for room in part.rooms:
        lines += ["", *_modules(room)]
    return "\n".join([*lines, ""])


def _modules(room: Room) -> list[str]:
    folder = "/".join(filter(None, [room.key.component, "zonekeeper", *room.key]))
    return [
        f"**`{folder}/`**",
        "",
        *(f"- `{module.name}.py`: {module.says}" for module in room.modules),
    ]


def _others(plan: HousePlan, key: RoomKey) -> list[str]:
    """Give the rooms of other components that a room imports, as one name a component."""
    found: dict[str, list[str]] = {}
    for end in sorted(plan.arrows[key]):
        if end.component != key.component:
            found.setdefault(end.component, []).append(end.room)
    return [f"{component}: {' '.join(rooms)}" for component, rooms in sorted(found.items())]


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")
