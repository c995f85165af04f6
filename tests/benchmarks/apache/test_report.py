"""The table and the page say what counts, what does not, and why; and they are well-formed."""

from dataclasses import replace
from html.parser import HTMLParser

import pytest

from benchmarks.apache import plots, report, results
from benchmarks.apache.cases import OpenLoop
from benchmarks.apache.plots import LatencyCurve, RatioBar
from benchmarks.apache.results import ResultsError
from tests.benchmarks.apache.results import GOOD, OURS, TUNED, pair
from tests.benchmarks.apache.results import results as some

RATES = [
    replace(
        GOOD,
        case=OpenLoop(rate).name,
        side=side,
        latencies_ms={"p50_ms": 1.0, "p99_ms": 9.0, "p999_ms": 9.0, "most_ms": 9.0},
    )
    for rate in (1_000, 20_000)
    for side in (OURS, TUNED)
]


class Tags(HTMLParser):
    """Tags that are open; fails where one closes that is not the last."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.seen.append(tag)
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_table_stands_between_its_marks_and_has_every_comparison() -> None:
    table = report.table(some([*pair(1, 1.0, 2.0), *pair(2, 1.0, 3.0)]))
    lines = table.splitlines()
    assert (lines[0], lines[-1]) == (report.BEGIN, report.END)
    (row,) = [line for line in lines if "CPU-µs" in line]
    assert "2.50 (2.00-3.00) | 2 of 2 |" in row
    assert "†" not in table


def test_the_table_marks_what_does_not_count() -> None:
    table = report.table(some([replace(lap, quiet=False) for lap in pair(1, 1.0, 2.0)]))
    assert "2.00 † | 0 of 1 |" in table
    assert "No round counts" in table


def test_a_table_replaces_the_one_of_the_page() -> None:
    page = f"<!-- quorum: begin -->\nbefore\n{report.BEGIN}\nold\n{report.END}\nbehind\n"
    found = report.in_page(page, some(pair(1, 1.0, 2.0)))
    assert found.startswith("<!-- quorum: begin -->\nbefore\n" + report.BEGIN)
    assert found.endswith(report.END + "\nbehind\n")
    assert "old" not in found
    assert report.in_page(found, some(pair(1, 1.0, 2.0))) == found
    with pytest.raises(ValueError, match="race: begin"):
        report.in_page("nothing here\n", some([]))


def test_the_page_is_whole_and_has_bars_curves_and_refused_laps() -> None:
    loud = replace(GOOD, case="tail", side="<b>", others_cpus=1.0)
    gone = replace(GOOD, case="tail", failure="no <i> answer")
    page = report.page(some([*pair(1, 1.0, 2.0), *RATES, loud, gone]))
    tags = Tags()
    tags.feed(page)
    assert tags.open == []
    assert {"svg", "rect", "polyline", "table"} <= set(tags.seen)
    assert "other work took 1.00 CPUs" in page
    assert "<b>" not in page
    assert "no &lt;i&gt; answer" in page


def test_a_page_of_nothing_is_a_page() -> None:
    assert "All laps count" in report.page(some([]))


def test_a_pale_bar_does_not_count_and_a_bad_one_goes_the_other_way() -> None:
    good = RatioBar(label="a", middle=2.0, least=1.5, most=3.0, counts=True)
    bad = RatioBar(label="b", middle=0.5, least=0.4, most=0.9, counts=False)
    drawn = plots.ratios("both", [good, bad])
    assert 'class="better"' in drawn
    assert 'class="worse pale"' in drawn
    assert plots.ratios("none", []) == ""


def test_a_curve_of_one_point_or_of_equal_latencies_is_drawn() -> None:
    one = LatencyCurve(label="a", colour="c0", points=((1_000, 2.0),))
    flat = LatencyCurve(label="b", colour="c1", points=((1_000, 2.0), (5_000, 2.0)))
    for drawn in ([one], [flat], [one, flat]):
        assert "nan" not in plots.curves("title", drawn)
    assert plots.curves("title", []) == ""


def test_what_has_no_place_on_the_axis_is_refused() -> None:
    bar = RatioBar(label="a", middle=1.0, least=0.0, most=1.0, counts=True)
    with pytest.raises(ValueError, match="logarithmic"):
        plots.ratios("title", [bar])


def test_results_are_read_back_and_newer_ones_refused() -> None:
    written = results.text(some(pair(1, 1.0, 2.0)))
    assert results.parse(written) == some(pair(1, 1.0, 2.0))
    with pytest.raises(ResultsError, match="format 2"):
        results.parse(written.replace('"format": 1', '"format": 2'))
    for wrong in ("", "[]", "{}"):
        with pytest.raises(ResultsError):
            results.parse(wrong)
