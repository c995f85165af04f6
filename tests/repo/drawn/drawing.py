"""The map as a drawing: one band a component, its rooms as boxes, imports as arrows. Pure.

In a band each arrow goes to the right: the room that imports no other one of its component is the
last. Arrows between components stand on the left. What other arrows lead to is left out.
"""

import textwrap
from collections.abc import Iterator, Mapping
from typing import NamedTuple
from xml.sax.saxutils import escape

from tests.repo.drawn.rooms import HousePart, HousePlan, Room, RoomKey, depths, reduced

BOX_WIDTH, BOX_HEIGHT = 152, 88
GAP_X, GAP_Y = 34, 12
LABEL_WIDTH, LANE_WIDTH = 132, 13
PAD, BAND_GAP = 14, 18
_BOX_CHARS, _LABEL_CHARS = 25, 19
_LINE_HEIGHT = 12

_STYLE = """\
  text { font-family: "DejaVu Sans", Verdana, sans-serif; font-size: 10px; fill: #333 }
  .name { font-size: 13px; font-weight: bold; fill: #111 }
  .part { font-size: 16px; font-weight: bold; fill: #111 }
  .count { font-size: 9px; fill: #777 }
  .band { fill: #f4f4f1; stroke: #d5d5cf }
  .room { fill: #fff; stroke: #8a8a85 }
  .pure { fill: #e3f2e1; stroke: #4d8a4a }
  .label { fill: #e6e9f0; stroke: #8890a5 }
  .arrow { fill: none; stroke: #66708a; stroke-width: 1.3; marker-end: url(#tip) }
  .hosts { stroke-dasharray: 4 3 }
"""


class Spot(NamedTuple):
    """Where a box stands: its upper left corner and its size."""

    x: float
    y: float
    width: float
    height: float

    @property
    def middle(self) -> float:
        """Half way down."""
        return self.y + self.height / 2

    @property
    def right(self) -> float:
        """Where it ends."""
        return self.x + self.width

    @property
    def bottom(self) -> float:
        """Where it ends below."""
        return self.y + self.height


class MapLayout(NamedTuple):
    """Where everything stands."""

    bands: Mapping[str, Spot]
    labels: Mapping[str, Spot]
    rooms: Mapping[RoomKey, Spot]
    lanes: Mapping[tuple[str, str], float]
    width: float
    height: float


def lay_out(plan: HousePlan) -> MapLayout:
    """Say where everything stands; boxes never overlap."""
    links = _links(plan)
    left = PAD + LANE_WIDTH * (len(links) + 1)
    bands: dict[str, Spot] = {}
    labels: dict[str, Spot] = {}
    rooms: dict[RoomKey, Spot] = {}
    y: float = PAD
    for part in plan.parts:
        columns = _columns(plan, part)
        rows = max(len(column) for column in columns)
        height = rows * (BOX_HEIGHT + GAP_Y) - GAP_Y + 2 * PAD
        labels[part.name] = Spot(left, y, LABEL_WIDTH, height)
        x = left + LABEL_WIDTH + PAD
        for column in columns:
            used = len(column) * (BOX_HEIGHT + GAP_Y) - GAP_Y
            at = y + (height - used) / 2
            for key in column:
                rooms[key] = Spot(x, at, BOX_WIDTH, BOX_HEIGHT)
                at += BOX_HEIGHT + GAP_Y
            x += BOX_WIDTH + GAP_X
        bands[part.name] = Spot(left, y, x - GAP_X + PAD - left, height)
        y += height + BAND_GAP
    width = max(band.right for band in bands.values()) + PAD
    bands = {name: band._replace(width=width - PAD - left) for name, band in bands.items()}
    lanes = {link: left - LANE_WIDTH * number for number, link in enumerate(links, 1)}
    return MapLayout(bands, labels, rooms, lanes, width, y - BAND_GAP + 3 * PAD)


def render(plan: HousePlan) -> str:
    """Give the drawing."""
    layout = lay_out(plan)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {layout.width:g} {layout.height:g}" '
        f'width="{layout.width:g}" height="{layout.height:g}">',
        "<title>The rooms of zonekeeper, and who imports whom</title>",
        "<defs>",
        '  <marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="#66708a"/></marker>',
        f"<style>\n{_STYLE}</style>",
        "</defs>",
        f'<rect width="{layout.width:g}" height="{layout.height:g}" fill="#fff"/>',
    ]
    for part in plan.parts:
        lines.append(_rect(layout.bands[part.name], "band"))
        lines += _label(part, layout.labels[part.name])
    for part in plan.parts:
        for start, ends in sorted(reduced(plan.arrows_inside(part.name)).items()):
            lines += [_curve(layout, start, end) for end in sorted(ends)]
    for (start_name, end_name), lane in sorted(layout.lanes.items()):
        lines.append(_elbow(plan, layout, start_name, end_name, lane))
    for room in plan.rooms.values():
        lines += _room(room, layout.rooms[room.key])
    lines += _legend(layout)
    return "\n".join([*lines, "</svg>", ""])


def _columns(plan: HousePlan, part: HousePart) -> list[list[RoomKey]]:
    """Give a component's rooms from left to right, and each column from top to bottom."""
    arrows = plan.arrows_inside(part.name)
    deep = depths(arrows)
    columns: list[list[RoomKey]] = []
    rows: dict[RoomKey, float] = {}
    for depth in range(max(deep.values()), -1, -1):
        places: list[tuple[float, RoomKey]] = []
        for key in (key for key, at in deep.items() if at == depth):
            above = [rows[start] for start, ends in arrows.items() if key in ends]
            places.append((sum(above) / len(above) if above else 0.0, key))
        column = [key for _, key in sorted(places)]
        rows |= {key: row - (len(column) - 1) / 2 for row, key in enumerate(column)}
        columns.append(column)
    return columns


def _links(plan: HousePlan) -> list[tuple[str, str]]:
    """Give the arrows between components, those that span least first."""
    order = {part.name: number for number, part in enumerate(plan.parts)}
    drawn = {
        (start, end) for start, ends in reduced(plan.arrows_between()).items() for end in ends
    } | {("shell", end) for end in plan.hosted}
    return sorted(drawn, key=lambda link: (order[link[1]] - order[link[0]], order[link[0]], link))


def _rect(spot: Spot, kind: str) -> str:
    return (
        f'<rect class="{kind}" x="{spot.x:g}" y="{spot.y:g}" width="{spot.width:g}" '
        f'height="{spot.height:g}" rx="5"/>'
    )


def _text(x: float, y: float, kind: str, text: str) -> str:
    named = f' class="{kind}"' if kind else ""
    return f'<text{named} x="{x:g}" y="{y:g}">{escape(text)}</text>'


def _label(part: HousePart, spot: Spot) -> Iterator[str]:
    modules = sum(len(room.modules) for room in part.rooms)
    yield _rect(spot, "label")
    yield _text(spot.x + 9, spot.y + 24, "part", part.name)
    yield _text(spot.x + 9, spot.y + 38, "count", f"{modules} modules")
    yield from _wrapped(spot.x + 9, spot.y + 54, part.says, _LABEL_CHARS, spot.bottom)


def _room(room: Room, spot: Spot) -> Iterator[str]:
    modules = len(room.modules)
    yield _rect(spot, "room pure" if room.is_pure else "room")
    for number, name in enumerate(room.label.split()):
        yield _text(spot.x + 8, spot.y + 17 + 14 * number, "name", name)
    if room.key.room:
        yield _text(spot.right - 20, spot.y + 16, "count", f"{modules:2}")
        yield from _wrapped(spot.x + 8, spot.y + 32, room.says, _BOX_CHARS, spot.bottom)


def _wrapped(x: float, y: float, text: str, chars: int, bottom: float) -> Iterator[str]:
    """Give a text in lines, as many as there is room for."""
    most = max(1, int((bottom - y) // _LINE_HEIGHT) + 1)
    lines = textwrap.wrap(text.replace("`", ""), chars, max_lines=most, placeholder=" …")
    for number, line in enumerate(lines):
        yield _text(x, y + _LINE_HEIGHT * number, "", line)


def _curve(layout: MapLayout, start: RoomKey, end: RoomKey) -> str:
    """Give an arrow between two rooms of a component; it goes past the boxes between them."""
    from_spot, to_spot = layout.rooms[start], layout.rooms[end]
    x, y = from_spot.right, from_spot.middle
    path = f"M{x:g},{y:g}"
    for column, to_y in [*_passes(layout, start, end), (to_spot.x, to_spot.middle)]:
        bend = GAP_X * 0.8
        path += f" C{x + bend:g},{y:g} {column - bend:g},{to_y:g} {column:g},{to_y:g}"
        x, y = column, to_y
        if column != to_spot.x:
            x += BOX_WIDTH
            path += f" H{x:g}"
    return f'<path class="arrow" d="{path}"/>'


def _passes(layout: MapLayout, start: RoomKey, end: RoomKey) -> list[tuple[float, float]]:
    """Give for each column between two rooms where an arrow goes through it: between its boxes."""
    from_spot, to_spot = layout.rooms[start], layout.rooms[end]
    between: dict[float, list[Spot]] = {}
    for key, spot in layout.rooms.items():
        if key.component == start.component and from_spot.x < spot.x < to_spot.x:
            between.setdefault(spot.x, []).append(spot)
    found = []
    for x, spots in sorted(between.items()):
        share = (x - from_spot.x) / (to_spot.x - from_spot.x)
        straight = from_spot.middle + share * (to_spot.middle - from_spot.middle)
        edges = {spot.y - GAP_Y / 2 for spot in spots} | {spot.bottom + GAP_Y / 2 for spot in spots}
        found.append((x, min(sorted(edges), key=lambda edge: abs(edge - straight))))
    return found


def _elbow(plan: HousePlan, layout: MapLayout, start: str, end: str, lane: float) -> str:
    """Give an arrow between two components; each has a lane, and a height at its ends."""
    links = list(layout.lanes)
    imported = end in reduced(plan.arrows_between())[start]
    from_spot, to_spot = layout.labels[start], layout.labels[end]
    outward = [link for link in links if link[0] == start]
    inward = [link for link in links if link[1] == end]
    y = from_spot.y + from_spot.height - 10 - 9 * outward.index((start, end))
    to_y = to_spot.y + 12 + 9 * inward.index((start, end))
    kind = "arrow" if imported else "arrow hosts"
    return f'<path class="{kind}" d="M{from_spot.x:g},{y:g} H{lane:g} V{to_y:g} H{to_spot.x:g}"/>'


def _legend(layout: MapLayout) -> Iterator[str]:
    y = layout.height - PAD - 4
    x = PAD
    yield f'<path class="arrow" d="M{x},{y - 4:g} H{x + 30}"/>'
    yield _text(x + 38, y, "", "imports")
    yield f'<path class="arrow hosts" d="M{x + 100},{y - 4:g} H{x + 130}"/>'
    yield _text(x + 138, y, "", "hosts its commands")
    yield _rect(Spot(x + 262, y - 13, 22, 14), "room pure")
    yield _text(x + 292, y, "", "decides: no clock, dice, thread, loop, disk or network")
    yield _rect(Spot(x + 572, y - 13, 22, 14), "room")
    yield _text(x + 602, y, "", "does; the number is that of its modules")
