"""The reports of a race: a table for docs/performance.md, and a page of HTML with plots. Pure."""

import html
from collections.abc import Sequence
from statistics import median
from typing import Final

from benchmarks.apache import comparing, laps, plots
from benchmarks.apache.cases import EVERY, Cost, OpenLoop
from benchmarks.apache.comparing import Compared
from benchmarks.apache.plots import LatencyCurve, RatioBar
from benchmarks.apache.results import Results

BEGIN: Final = "<!-- race: begin -->"
END: Final = "<!-- race: end -->"
_COLOURS: Final = tuple(f"c{number}" for number in range(8))
_STYLE: Final = """
:root { color-scheme: light dark; --ink: #1c2126; --paper: #fff; --soft: #d5dade; }
@media (prefers-color-scheme: dark) { :root { --ink: #dfe5ea; --paper: #14181c; --soft: #39424a; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 960px; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; font-size: 13px; } td, th { padding: 3px 10px;
  border-bottom: 1px solid var(--soft); text-align: left; }
svg { width: 100%; height: auto; } svg text { font-size: 12px; fill: var(--ink); }
.label { text-anchor: end; } .axis { text-anchor: middle; }
.tick { stroke: var(--soft); } .one { stroke: var(--ink); stroke-width: 1.5; }
.range { stroke: var(--ink); stroke-width: 1.5; }
.better { fill: #3f8f5b; } .worse { fill: #c25b4e; }
.pale { opacity: .35; } .curve { fill: none; stroke-width: 2; } .dashed { stroke-dasharray: 5 4; }
circle.curve { stroke-dasharray: none; }
.c0 { stroke: #2f6fb3; } .c1 { stroke: #3f8f5b; } .c2 { stroke: #c25b4e; } .c3 { stroke: #a8761f; }
.c4 { stroke: #7a55a8; } .c5 { stroke: #2b8a93; } .c6 { stroke: #b2477f; } .c7 { stroke: #707070; }
"""
_NOTE: Final = (
    "A ratio is Apache's cost over ours, round by round: above 1 is better for zonekeeper. "
    "CPU is of the client and all bookies, with the work that a lap left behind. "
    "Median (least-most). A pale bar is of rounds that do not count."
)


def compared(results: Results) -> list[Compared]:
    """Compare all sides of a race."""
    costs = {name: case.costs for name, case in EVERY.items()}
    return comparing.every(results.laps, costs, results.ours)


def table(results: Results) -> str:
    """Give the table for docs/performance.md, between its marks."""
    lines = [
        BEGIN,
        f"{results.date}; {_spelled(results)}",
        "",
        "| case | | ours | Apache | their cost / ours | rounds that count |",
        "|---|---|---|---|---|---|",
    ]
    for one in compared(results):
        mark, counted = ("", one.rounds) if one.counts else (" †", 0)
        lines.append(
            f"| {one.case}, {one.cost.value} | {one.ours} : {one.apache} "
            f"| {one.our_cost.spelled()} | {one.apache_cost.spelled()} "
            f"| {one.ratio.spelled()}{mark} | {counted} of {one.of_rounds} |"
        )
    if any(not one.counts for one in compared(results)):
        lines += ["", "† No round counts; these are the rounds that do not, for their order only."]
    return "\n".join([*lines, END]) + "\n"


def in_page(page: str, results: Results) -> str:
    """Put the table into a page, in the place of the one that is there."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END + "\n")
    if not begin or not end:
        raise ValueError(f"the page has no {BEGIN} with an {END} behind it")
    return before + table(results) + after


def page(results: Results) -> str:
    """Give the page of a race."""
    every = compared(results)
    parts = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>",
        f"<title>The race, {html.escape(results.date)}</title><style>{_STYLE}</style></head><body>",
        "<h1>zonekeeper and Apache BookKeeper, in one run</h1>",
        f"<p>{html.escape(results.date)}; {html.escape(_spelled(results))}. {_NOTE}</p>",
    ]
    for cost in Cost:
        bars = [_bar(one) for one in every if one.cost is cost]
        if bars:
            parts.append(f"<h2>{html.escape(cost.value)}</h2>{plots.ratios(cost.value, bars)}")
    if drawn := _curves(results):
        title = "Latency against rate: p50, and p99 dashed"
        parts.append(f"<h2>{title}</h2>{plots.curves(title, drawn)}")
    parts += ["<h2>Figures</h2>", _figures(every), "<h2>Laps that do not count</h2>"]
    parts += [_refused(results), "</body></html>"]
    return "\n".join(parts) + "\n"


def _spelled(results: Results) -> str:
    every = {**results.conditions, **results.options}
    return "; ".join(f"{name}: {value}" for name, value in every.items())


def _bar(one: Compared) -> RatioBar:
    ours = one.ours.removeprefix("ours, ")
    return RatioBar(
        label=f"{one.case}: {ours}, {one.apache.removeprefix('Apache ')}",
        middle=one.ratio.middle,
        least=one.ratio.least,
        most=one.ratio.most,
        counts=one.counts,
    )


def _curves(results: Results) -> list[LatencyCurve]:
    """Give each side's curves, of laps that count, or of all where none does."""
    rates = {case.name: case.per_second for case in EVERY.values() if isinstance(case, OpenLoop)}
    found = []
    sides = sorted({lap.side for lap in results.laps}, key=lambda side: side not in results.ours)
    for at, side in enumerate(sides):
        for name, dashed in (("p50_ms", False), ("p99_ms", True)):
            points = []
            for case, rate in rates.items():
                here = [
                    lap
                    for lap in results.laps
                    if (lap.case, lap.side) == (case, side) and lap.latencies_ms.get(name)
                ]
                chosen = [lap for lap in here if not laps.faults(lap)] or here
                if chosen:
                    points.append((rate, median(lap.latencies_ms[name] for lap in chosen)))
            label, colour = f"{side}, {name[:3]}", _COLOURS[at % len(_COLOURS)]
            found.append(
                LatencyCurve(label=label, colour=colour, points=tuple(points), dashed=dashed)
            )
    return [curve for curve in found if curve.points]


def _figures(every: Sequence[Compared]) -> str:
    rows = "".join(
        f"<tr><td>{html.escape(one.case)}, {html.escape(one.cost.value)}</td>"
        f"<td>{html.escape(one.ours)}: {one.our_cost.spelled()}</td>"
        f"<td>{html.escape(one.apache)}: {one.apache_cost.spelled()}</td>"
        f"<td>{one.ratio.spelled()}{'' if one.counts else ' †'}</td>"
        f"<td>{one.rounds if one.counts else 0} of {one.of_rounds}</td></tr>"
        for one in every
    )
    return (
        "<table><tr><th>case</th><th>ours</th><th>Apache</th><th>ratio</th>"
        f"<th>rounds that count</th></tr>{rows}</table>"
        "<p>† No round counts; the figures are of rounds that do not.</p>"
    )


def _refused(results: Results) -> str:
    refused = [(lap, laps.faults(lap)) for lap in results.laps]
    rows = "".join(
        f"<tr><td>{lap.round}</td><td>{html.escape(lap.case)}</td><td>{html.escape(lap.side)}</td>"
        f"<td>{html.escape('; '.join(faults))}</td></tr>"
        for lap, faults in refused
        if faults
    )
    if not rows:
        return "<p>All laps count.</p>"
    return f"<table><tr><th>round</th><th>case</th><th>side</th><th>why</th></tr>{rows}</table>"
