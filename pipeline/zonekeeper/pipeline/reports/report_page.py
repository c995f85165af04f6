"""The zone report as one page of HTML: no script, nothing from elsewhere, light and dark. Pure.

The page has the rows of the report as charts and tables, and all of them as CSV behind a link. A
chart shows at most ``BARS_MAX`` rows, those with the largest values.
"""

import base64
import csv
import html
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from zonekeeper.pipeline.reports import bar_chart
from zonekeeper.pipeline.reports.bar_chart import Bar
from zonekeeper.pipeline.reports.fragment_losses import LossScope
from zonekeeper.placement.promises.cost import GB, Prices

Row = Mapping[str, object]

BARS_MAX: Final = 40
#: The kind of the row about the cluster, as ``zone_sums`` has it.
_CLUSTER: Final = "cluster"
_KINDS: Final = {
    LossScope.ZONE: "zone",
    LossScope.UPGRADE_DOMAIN: "upgrade domain",
    LossScope.BOOKIE: "bookie",
}
#: The columns that count ledgers which a loss would harm, and the words for them.
_HARMS: Final = {
    "loss_unreadable": "unreadable",
    "loss_perhaps_unreadable": "perhaps unreadable",
    "loss_last_copy": "at the last copy",
    "loss_unwritable": "unwritable",
}
#: Those that say that entries would be gone.
_GONE: Final = ("loss_unreadable", "loss_perhaps_unreadable")
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_UNIT: Final = 1024

_STYLE: Final = """
:root { color-scheme: light dark; --ink: #1c2430; --soft: #5b6675; --paper: #ffffff;
  --line: #d9dee5; --data: #2f6fb2; --more: #9ec3e6; --free: #e6eaef; --bad: #b3372e;
  --warn: #c27d12; --good: #2d7d46; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e8ee; --soft: #9aa5b4; --paper: #14181e;
  --line: #313945; --data: #6aa5dd; --more: #2f5a84; --free: #262d37; --bad: #e57368;
  --warn: #e0a94a; --good: #6cbf85; } }
body { font: 15px/1.45 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 960px; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin-bottom: 0; } h2 { font-size: 1.15rem; margin: 2rem 0 .4rem; }
p { margin: .3rem 0; } .soft { color: var(--soft); }
svg { width: 100%; height: auto; display: block; } svg text { font-size: 12px; fill: var(--ink); }
svg .label { text-anchor: end; } svg .value { fill: var(--soft); }
.data { fill: var(--data); } .more { fill: var(--more); } .free { fill: var(--free); }
.harm { fill: var(--bad); } .mean { stroke: var(--ink); stroke-dasharray: 3 3; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; font-size: .87rem; width: 100%; }
th, td { text-align: right; padding: .25rem .5rem; border-bottom: 1px solid var(--line);
  white-space: nowrap; } th { white-space: normal; vertical-align: bottom; }
th:first-child, td:first-child, .text { text-align: left; }
.text { white-space: normal; } .bad { color: var(--bad); } .warn { color: var(--warn); }
.good { color: var(--good); } .key { display: inline-block; width: .8em; height: .8em;
  margin: 0 .3em 0 .9em; border-radius: 2px; } a { color: var(--data); }
"""


def page(rows: Sequence[Row], *, made_at: str, prices: Prices | None) -> str:
    """Give the page; ``made_at`` says when the rows were made."""
    cluster = next((row for row in rows if row["kind"] == _CLUSTER), {})
    by_kind = {kind: [row for row in rows if row["kind"] == kind] for kind in _KINDS}
    parts = [
        _head(cluster, made_at),
        *(_stored(kind, some) for kind, some in by_kind.items()),
        _disks(by_kind[LossScope.BOOKIE]),
        _room(by_kind[LossScope.ZONE]),
        *(_losses(kind, some, prices) for kind, some in by_kind.items()),
        _crossing(cluster, prices),
        _download(rows),
    ]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Zone report</title><style>{_STYLE}</style></head><body>"
        f"{''.join(parts)}</body></html>\n"
    )


def size(value: object) -> str:
    """Give bytes in the largest unit that leaves a whole number before the point."""
    number = _number(value)
    unit = 0
    shown = float(number)
    while abs(shown) >= _UNIT and unit < len(_UNITS) - 1:
        shown, unit = shown / _UNIT, unit + 1
    return f"{number} B" if unit == 0 else f"{shown:.1f} {_UNITS[unit]}"


def harmful(row: Row) -> str:
    """Say how many ledgers a loss would make unreadable, for certain or perhaps; empty: none."""
    return ", ".join(f"{row[name]} ledgers {_HARMS[name]}" for name in _GONE if _number(row[name]))


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


def _head(cluster: Row, made_at: str) -> str:
    unreadable = _number(cluster.get("unreadable_ledgers"))
    warning = (
        f'<p class="bad">The metadata of {unreadable} ledgers cannot be read: what they hold is '
        "not in this report.</p>"
        if unreadable
        else ""
    )
    return (
        f"<h1>Zone report</h1><p class='soft'>cluster {_text(cluster.get('name'))}, "
        f"{html.escape(made_at)}</p><p>{_number(cluster.get('ledgers'))} ledgers, "
        f"{_number(cluster.get('open_ledgers'))} of them open; {size(cluster.get('bytes'))} of "
        "payload, each counted once. What open ledgers hold is unknown, and in no figure below."
        f"</p>{warning}"
    )


def _largest(rows: Iterable[Row], name: str) -> tuple[list[Row], str]:
    """Give the rows of a chart, and a note if some are left out."""
    ordered = sorted(rows, key=lambda row: (-_number(row[name]), str(row["name"])))
    left_out = len(ordered) - BARS_MAX
    note = f"<p class='soft'>{left_out} smaller ones are left out.</p>" if left_out > 0 else ""
    return sorted(ordered[:BARS_MAX], key=lambda row: str(row["name"])), note


def _stored(kind: LossScope, rows: Sequence[Row]) -> str:
    some, note = _largest(rows, "bytes")
    bars = [
        Bar(
            label=str(row["name"]),
            parts=((_number(row["bytes"]), "data"),),
            value=f"{size(row['bytes'])}{_of_mean(row)}",
        )
        for row in some
    ]
    title = f"Bytes of copies by {_KINDS[kind]}"
    mean = sum(_number(row["bytes"]) for row in rows) / len(rows) if rows else None
    return (
        f"<h2>{title}</h2><p class='soft'>Payload of closed ledgers; the line is the mean.</p>"
        f"{bar_chart.chart(title, bars, mean=mean)}{note}"
    )


def _of_mean(row: Row) -> str:
    share = row.get("of_mean")
    return f", {share:.2f} of the mean" if isinstance(share, float) else ""


def _disks(rows: Sequence[Row]) -> str:
    known = [row for row in rows if row["capacity_bytes"] is not None]
    silent = sorted(str(row["name"]) for row in rows if row["capacity_bytes"] is None)
    some, note = _largest(known, "used_bytes")
    bars = [_disk(row) for row in some]
    title = "Disks by bookie"
    unheard = f"<p class='warn'>Not heard: {html.escape(', '.join(silent))}.</p>" if silent else ""
    return (
        f"<h2>{title}</h2><p class='soft'><span class='key' style='background:var(--data)'></span>"
        "used, by whatever is on the disk<span class='key' style='background:var(--free)'></span>"
        f"free</p>{bar_chart.chart(title, bars)}{note}{unheard}"
    )


def _disk(row: Row) -> Bar:
    capacity, used = _number(row["capacity_bytes"]), _number(row["used_bytes"])
    percent = 100 * used // capacity if capacity else 0
    return Bar(
        label=str(row["name"]),
        parts=((used, "data"), (max(0, capacity - used), "free")),
        value=f"{size(used)} of {size(capacity)}, {percent} %",
    )


def _room(rows: Sequence[Row]) -> str:
    classes = {"fits": "good", "tight": "warn", "unknown": "warn", "no": "bad"}
    lines = "".join(
        f"<tr><td>{_text(row['name'])}</td>"
        f"<td class='text {classes.get(str(row['room']), '')}'>{_text(row['room'])}</td>"
        f"<td class='text'>{_text(row['why'])}</td></tr>"
        for row in rows
        if row["room"] is not None
    )
    return (
        "<h2>Is there room for a lost zone?</h2><div class='scroll'><table><tr><th>zone</th>"
        f"<th class='text'>room</th><th class='text'>why</th></tr>{lines}</table></div>"
    )


def _losses(kind: LossScope, rows: Sequence[Row], prices: Prices | None) -> str:
    some, note = _largest(rows, "loss_bytes")
    title = f"What the loss of each {_KINDS[kind]} costs"
    bars = [
        Bar(
            label=str(row["name"]),
            parts=((_number(row["loss_bytes"]), "harm" if harmful(row) else "data"),),
            value=f"{size(row['loss_bytes'])} to copy",
        )
        for row in some
    ]
    money = f"<th>{html.escape(prices.currency)}</th>" if prices is not None else ""
    heads = "".join(f"<th>{word}</th>" for word in _HARMS.values())
    lines = "".join(_loss(row, prices) for row in some)
    return (
        f"<h2>{title}</h2>{bar_chart.chart(title, bars)}"
        f"<div class='scroll'><table><tr><th>{_KINDS[kind]}</th><th>ledgers</th><th>to copy</th>"
        f"<th>crosses zones</th>{money}{heads}<th>beyond repair</th></tr>{lines}</table></div>"
        f"{note}"
    )


def _loss(row: Row, prices: Prices | None) -> str:
    crossing = _number(row["loss_crossing_bytes"])
    cells = [str(_number(row["ledgers"])), size(row["loss_bytes"]), size(crossing)]
    if prices is not None:
        cells.append(f"{float(prices.money(crossing)):.2f}")
    shown = "".join(f"<td>{cell}</td>" for cell in cells)
    harms = "".join(_count(row[name], "bad" if name in _GONE else "warn") for name in _HARMS)
    beyond = _count(row["loss_beyond_repair"], "bad")
    return f"<tr><td>{_text(row['name'])}</td>{shown}{harms}{beyond}</tr>"


def _count(value: object, colour: str) -> str:
    number = _number(value)
    return f"<td class='{colour}'>{number}</td>" if number else "<td class='soft'>0</td>"


def _crossing(cluster: Row, prices: Prices | None) -> str:
    flows = {
        "writing what is stored": "written_crossing_bytes",
        "reading it once, nearest copy first": "read_crossing_bytes",
        "reading it once, if order ignored zones": "read_anywhere_crossing_bytes",
    }
    money = f"<th>{html.escape(prices.currency)}</th>" if prices is not None else ""
    lines = []
    for words, name in flows.items():
        crossing = _number(cluster.get(name))
        price = f"<td>{float(prices.money(crossing)):.2f}</td>" if prices is not None else ""
        lines.append(f"<tr><td>{words}</td><td>{size(crossing)}</td>{price}</tr>")
    source = (
        f"<p class='soft'>{float(prices.per_gb):g} {html.escape(prices.currency)} for {GB:,} bytes "
        f"from one zone to another, as of {html.escape(prices.as_of)}, "
        f"{html.escape(prices.source)}.</p>"
        if prices is not None
        else "<p class='soft'>No prices were given.</p>"
    )
    return (
        "<h2>What crosses zones</h2><p class='soft'>Payload bytes, with clients spread evenly over "
        "the zones.</p><div class='scroll'><table><tr><th>flow</th><th>crosses zones</th>"
        f"{money}</tr>{''.join(lines)}</table></div>{source}"
    )


def _download(rows: Sequence[Row]) -> str:
    out = io.StringIO()
    if rows:
        writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    data = base64.b64encode(out.getvalue().encode()).decode()
    return (
        f"<h2>All rows</h2><p><a download='zone-report.csv' href='data:text/csv;base64,{data}'>"
        f"zone-report.csv</a>, {len(rows)} rows</p>"
    )


def _text(value: object) -> str:
    return "" if value is None else html.escape(str(value))
