"""Plots of a race as inline SVG: bars of ratios with their ranges, and latency against rate. Pure.

Both axes of figures are logarithmic: twice as good and half as good are equally far from 1.
Colours are classes of the page's style. Texts are escaped.
"""

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

WIDTH: Final = 900
LABEL_WIDTH: Final = 330
VALUE_WIDTH: Final = 150
ROW_HEIGHT: Final = 22
BAR_HEIGHT: Final = 12
CURVE_HEIGHT: Final = 380
MARGIN: Final = 60
LEGEND_WIDTH: Final = 230
TICKS: Final = (1, 2, 5)


@dataclass(frozen=True, slots=True, kw_only=True)
class RatioBar:
    """A ratio with its range; above 0."""

    label: str
    middle: float
    least: float
    most: float
    #: False: it is of rounds that do not count, and is drawn pale.
    counts: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyCurve:
    """Latencies in ms by rate; both above 0."""

    label: str
    colour: str
    points: tuple[tuple[float, float], ...]
    dashed: bool = False


class _Scale:
    """Places of figures on a logarithmic axis."""

    def __init__(self, values: Sequence[float], begin: float, end: float) -> None:
        least, most = min(values), max(values)
        if least <= 0:
            raise ValueError(f"{least} has no place on a logarithmic axis")
        # A range of one value has a width, too.
        self.least, self.most = (least, most) if most > least * 1.01 else (least / 2, most * 2)
        self._begin, self._end = begin, end

    def at(self, value: float) -> float:
        share = math.log(value / self.least) / math.log(self.most / self.least)
        return self._begin + share * (self._end - self._begin)

    def ticks(self) -> list[float]:
        first = math.floor(math.log10(self.least))
        last = math.ceil(math.log10(self.most))
        every = [digit * 10.0**power for power in range(first, last + 1) for digit in TICKS]
        return [tick for tick in every if self.least <= tick <= self.most]


def ratios(title: str, bars: Sequence[RatioBar]) -> str:
    """Give the SVG of ratios: a bar from 1 to the middle, and a line from the least to the most."""
    if not bars:
        return ""
    values = [1.0, *(value for bar in bars for value in (bar.least, bar.most))]
    scale = _Scale(values, LABEL_WIDTH, WIDTH - VALUE_WIDTH)
    height = (len(bars) + 1) * ROW_HEIGHT
    ticks = "".join(
        f'<line class="tick" x1="{scale.at(tick):.1f}" x2="{scale.at(tick):.1f}" y1="0" '
        f'y2="{height - ROW_HEIGHT}"/><text class="axis" x="{scale.at(tick):.1f}" '
        f'y="{height - 6}">{tick:g}</text>'
        for tick in scale.ticks()
    )
    one = scale.at(1.0)
    line = f'<line class="one" x1="{one:.1f}" x2="{one:.1f}" y1="0" y2="{height - ROW_HEIGHT}"/>'
    rows = "".join(_row(bar, at, scale) for at, bar in enumerate(bars))
    return _svg(title, height, f"{ticks}{rows}{line}")


def _row(bar: RatioBar, at: int, scale: _Scale) -> str:
    top, middle_y = at * ROW_HEIGHT + (ROW_HEIGHT - BAR_HEIGHT) / 2, (at + 0.5) * ROW_HEIGHT
    one, end = scale.at(1.0), scale.at(bar.middle)
    colour = "better" if bar.middle >= 1 else "worse"
    pale = "" if bar.counts else " pale"
    value = f"{bar.middle:.2f} ({bar.least:.2f}-{bar.most:.2f})"
    return (
        f"<g><title>{html.escape(bar.label)}: {value}</title>"
        f'<text class="label" x="{LABEL_WIDTH - 8}" y="{middle_y + 4:.1f}">'
        f"{html.escape(bar.label)}</text>"
        f'<rect class="{colour}{pale}" x="{min(one, end):.1f}" y="{top:.1f}" '
        f'width="{max(1.0, abs(end - one)):.1f}" height="{BAR_HEIGHT}"/>'
        f'<line class="range" x1="{scale.at(bar.least):.1f}" x2="{scale.at(bar.most):.1f}" '
        f'y1="{middle_y:.1f}" y2="{middle_y:.1f}"/>'
        f'<text class="value" x="{WIDTH - VALUE_WIDTH + 8}" y="{middle_y + 4:.1f}">{value}</text>'
        "</g>"
    )


def curves(title: str, drawn: Sequence[LatencyCurve]) -> str:
    """Give the SVG of latencies against rate."""
    drawn = [curve for curve in drawn if curve.points]
    if not drawn:
        return ""
    right = WIDTH - LEGEND_WIDTH
    across = _Scale([x for curve in drawn for x, _ in curve.points], MARGIN, right)
    up = _Scale(
        [y for curve in drawn for _, y in curve.points], CURVE_HEIGHT - MARGIN / 2, MARGIN / 4
    )
    parts = [
        f'<line class="tick" x1="{MARGIN}" x2="{right}" y1="{up.at(tick):.1f}" '
        f'y2="{up.at(tick):.1f}"/><text class="label" x="{MARGIN - 6}" '
        f'y="{up.at(tick) + 4:.1f}">{tick:g} ms</text>'
        for tick in up.ticks()
    ]
    parts += [
        f'<text class="axis" x="{across.at(rate):.1f}" y="{CURVE_HEIGHT - 4}">{rate:g}/s</text>'
        for rate in sorted({x for curve in drawn for x, _ in curve.points})
    ]
    for at, curve in enumerate(drawn):
        places = [(across.at(x), up.at(y)) for x, y in curve.points]
        spelled = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        kind = f"curve {html.escape(curve.colour)}{' dashed' if curve.dashed else ''}"
        y = MARGIN / 4 + 18 * at + 10
        parts.append(
            f'<polyline class="{kind}" points="{spelled}"/>'
            + "".join(
                f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="3"/>' for x, y in places
            )
            + f'<line class="{kind}" x1="{right + 16}" x2="{right + 40}" y1="{y}" y2="{y}"/>'
            f'<text class="value" x="{right + 46}" y="{y + 4}">{html.escape(curve.label)}</text>'
        )
    return _svg(title, CURVE_HEIGHT, "".join(parts))


def _svg(title: str, height: float, inner: str) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{html.escape(title)}">'
        f"{inner}</svg>"
    )
