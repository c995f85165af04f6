"""Bars as inline SVG: one row a thing, with its parts side by side and a mark at the mean. Pure.

Colours are classes of the page's style, so the chart follows its light or dark scheme. Texts are
escaped. Widths are shares of the largest row, so a chart needs no axis: each row says its value.
"""

import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

#: The measures of a chart, in units of its view box.
WIDTH: Final = 900
LABEL_WIDTH: Final = 190
VALUE_WIDTH: Final = 250
ROW_HEIGHT: Final = 24
BAR_HEIGHT: Final = 14
#: A label with more characters is cut in its middle; its whole text is the row's title.
LABEL_CHARS: Final = 26

_SPAN: Final = WIDTH - LABEL_WIDTH - VALUE_WIDTH


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One row."""

    label: str
    #: The parts from left to right: a value, at least 0, and the class that gives its colour.
    parts: tuple[tuple[int, str], ...]
    #: What stands behind the bar.
    value: str

    @property
    def total(self) -> int:
        """The length of the bar."""
        return sum(value for value, _ in self.parts)


def chart(title: str, bars: Sequence[Bar], *, mean: float | None = None) -> str:
    """Give the SVG; a line stands at ``mean``, which may be that of more than these rows."""
    most = max((bar.total for bar in bars), default=0) or 1
    height = max(1, len(bars)) * ROW_HEIGHT
    rows = "".join(_row(bar, at, most) for at, bar in enumerate(bars))
    line = ""
    if mean is not None and bars:
        x = LABEL_WIDTH + _SPAN * min(1, mean / most)
        line = f'<line class="mean" x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{height}"/>'
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{html.escape(title)}">'
        f"{rows}{line}</svg>"
    )


def _row(bar: Bar, at: int, most: int) -> str:
    top = at * ROW_HEIGHT + (ROW_HEIGHT - BAR_HEIGHT) / 2
    text_y = at * ROW_HEIGHT + ROW_HEIGHT / 2 + 4
    x, parts = float(LABEL_WIDTH), []
    for value, colour in bar.parts:
        width = _SPAN * value / most
        if value:
            # A part that is there is seen, however small it is.
            parts.append(
                f'<rect class="{html.escape(colour)}" x="{x:.1f}" y="{top:.1f}" '
                f'width="{max(width, 1):.1f}" height="{BAR_HEIGHT}"/>'
            )
        x += width
    shown = bar.label
    if len(shown) > LABEL_CHARS:  # names differ at their ends
        half = (LABEL_CHARS - 1) // 2
        shown = f"{shown[:half]}…{shown[-half:]}"
    return (
        f"<g><title>{html.escape(bar.label)}: {html.escape(bar.value)}</title>"
        f'<text class="label" x="{LABEL_WIDTH - 8}" y="{text_y:.1f}">{html.escape(shown)}</text>'
        f"{''.join(parts)}"
        f'<text class="value" x="{LABEL_WIDTH + _SPAN + 8}" y="{text_y:.1f}">'
        f"{html.escape(bar.value)}</text></g>"
    )
