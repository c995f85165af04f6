"""Bars: their lengths are their shares, and no text can leave its place."""

import re
from xml.etree import ElementTree

from zonekeeper.pipeline.reports import bar_chart
from zonekeeper.pipeline.reports.bar_chart import LABEL_WIDTH, ROW_HEIGHT, VALUE_WIDTH, WIDTH, Bar

SPAN = WIDTH - LABEL_WIDTH - VALUE_WIDTH


def drawn(*bars: Bar, mean: float | None = None) -> ElementTree.Element:
    return ElementTree.fromstring(bar_chart.chart("a <title>", bars, mean=mean))


def bar(label: str, *values: int) -> Bar:
    colours = ("data", "free")
    return Bar(label=label, parts=tuple(zip(values, colours, strict=False)), value=f"<{label}>")


def test_the_longest_bar_has_the_whole_width_and_others_their_share() -> None:
    chart = drawn(bar("a", 30), bar("b", 120), bar("c", 0))
    widths = [float(one.get("width") or 0) for one in chart.iter("rect")]
    assert widths == [SPAN / 4, SPAN], "what is not there is not drawn"
    assert chart.get("viewBox") == f"0 0 {WIDTH} {3 * ROW_HEIGHT}"


def test_parts_stand_side_by_side() -> None:
    first, second = drawn(bar("a", 25, 75)).iter("rect")
    assert (first.get("class"), second.get("class")) == ("data", "free")
    assert float(second.get("x") or 0) == float(first.get("x") or 0) + SPAN / 4
    assert float(first.get("x") or 0) == LABEL_WIDTH


def test_a_small_part_is_still_seen() -> None:
    first, _ = drawn(bar("a", 1, 10**15)).iter("rect")
    assert float(first.get("width") or 0) == 1


def test_the_mean_is_a_line_where_it_belongs() -> None:
    (line,) = drawn(bar("a", 0), bar("b", 100), mean=50).iter("line")
    assert float(line.get("x1") or 0) == LABEL_WIDTH + SPAN / 2
    assert not list(drawn(mean=1).iter("line")), "nothing has no mean"
    assert not list(drawn(bar("a", 1)).iter("line"))


def test_texts_are_escaped_and_long_labels_keep_their_ends() -> None:
    long = f"first-{'x' * 40}-last"
    chart = drawn(bar(long, 1))
    (label,) = (one.text or "" for one in chart.iter("text") if one.get("class") == "label")
    assert len(label) <= bar_chart.LABEL_CHARS
    assert re.fullmatch(r"first-x+…x+-last", label)
    (title,) = chart.iter("title")
    assert title.text == f"{long}: <{long}>"
    assert chart.get("aria-label") == "a <title>"
