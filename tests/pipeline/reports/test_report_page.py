"""The page of the zone report: whole in itself, and true to its rows."""

import base64
import csv
import html.parser
import re
from fractions import Fraction

import pytest

from zonekeeper.pipeline.reports import bar_chart, report_page, zone_sums
from zonekeeper.pipeline.reports.fragment_losses import LossScope
from zonekeeper.pipeline.reports.report_page import BARS_MAX
from zonekeeper.placement.promises.cost import Prices

PRICES = Prices(per_gb=Fraction("0.02"), currency="EUR", as_of="2026-11-27", source="<the list>")


def row(kind: str, name: str, **given: object) -> dict[str, object]:
    others = dict.fromkeys(("capacity_bytes", "used_bytes", "room", "why", "of_mean"))
    return {"kind": kind, "name": name, **dict.fromkeys(zone_sums.NAMES, 0), **others, **given}


ROWS = [
    row(
        "cluster", "e4d9", ledgers=21, open_ledgers=2, bytes=3 << 30, written_crossing_bytes=10**12
    ),
    row(LossScope.ZONE, "a", bytes=3 << 30, room="no", why="zones b, c cannot take what it holds"),
    row(LossScope.UPGRADE_DOMAIN, "/a/ud-0", bytes=5 << 20, of_mean=1.25),
    row(
        LossScope.BOOKIE,
        "bk-<a>-0",
        bytes=7 << 10,
        capacity_bytes=4 << 40,
        used_bytes=1 << 40,
        loss_bytes=10**9,
        loss_crossing_bytes=2 * 10**9,
        loss_unreadable=3,
        loss_last_copy=4,
    ),
    row(LossScope.BOOKIE, "bk-a-1"),
]


class Seen(html.parser.HTMLParser):
    """Keeps texts and addresses, and checks that elements are closed in order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []
        self.addresses: list[str] = []
        self.tags: set[str] = set()
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def page(rows: list[dict[str, object]], prices: Prices | None = PRICES) -> tuple[str, Seen]:
    text = report_page.page(rows, made_at="2026-11-27 12:00 UTC", prices=prices)
    seen = Seen(text)
    assert seen.open == []
    return text, seen


def test_the_page_is_whole_in_itself() -> None:
    text, seen = page(ROWS)
    assert "script" not in seen.tags
    assert all(one.startswith("data:") for one in seen.addresses)
    assert "url(" not in text
    assert "prefers-color-scheme: dark" in text
    assert "default-src 'none'" in text


def test_names_cannot_become_elements() -> None:
    text, seen = page(ROWS)
    assert "<a>-0" not in text
    assert "bk-<a>-0" in seen.texts
    assert any("<the list>" in one for one in seen.texts)


def test_the_figures_of_the_rows_are_shown() -> None:
    _, seen = page(ROWS)
    texts = " | ".join(seen.texts)
    for part in (
        "21 ledgers, 2 of them open; 3.0 GiB of payload",
        "5.0 MiB, 1.25 of the mean",
        "1.0 TiB of 4.0 TiB, 25 %",
        "Not heard: bk-a-1.",
        "zones b, c cannot take what it holds",
        "953.7 MiB | 1.9 GiB | 0.04",  # to copy, crosses zones, its price
        "931.3 GiB | 20.00",
        "0.02 EUR for 1,000,000,000 bytes from one zone to another, as of 2026-11-27",
    ):
        assert part in texts
    assert "class='bad'>3</td>" in page(ROWS)[0]
    assert 'class="harm"' in page(ROWS)[0], "the bar of a harmful loss has another colour"


def test_without_prices_there_are_no_amounts() -> None:
    text, seen = page(ROWS, None)
    assert "No prices were given." in seen.texts
    assert "EUR" not in text


def test_all_rows_are_in_the_csv_behind_the_link() -> None:
    _, seen = page(ROWS)
    (address,) = seen.addresses
    data = base64.b64decode(address.partition("base64,")[2]).decode()
    back = list(csv.DictReader(data.splitlines()))
    assert [one["name"] for one in back] == [one["name"] for one in ROWS]
    assert back[3]["loss_bytes"] == "1000000000"


def test_a_chart_has_the_largest_and_says_how_many_are_left_out() -> None:
    many = [row(LossScope.BOOKIE, f"bk-{number:03d}", bytes=number) for number in range(100)]
    text, _ = page([ROWS[0], *many])
    chart = re.search(r'aria-label="Bytes of copies by bookie">.*?</svg>', text)
    assert chart is not None
    assert chart[0].count("<g>") == BARS_MAX
    assert "bk-099" in chart[0]
    assert "bk-059" not in chart[0]
    assert f"{100 - BARS_MAX} smaller ones are left out." in text
    line = re.search(r'class="mean" x1="([0-9.]+)"', chart[0])
    assert line is not None
    span = bar_chart.WIDTH - bar_chart.LABEL_WIDTH - bar_chart.VALUE_WIDTH
    place = (float(line[1]) - bar_chart.LABEL_WIDTH) / span
    assert place == pytest.approx(49.5 / 99, abs=0.001), "the mean is that of all"


def test_ledgers_that_cannot_be_read_are_said_at_the_top() -> None:
    text, _ = page([row("cluster", "x", unreadable_ledgers=7)])
    assert "The metadata of 7 ledgers cannot be read" in text


def test_a_page_of_nothing_is_a_page() -> None:
    page([])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536 << 30, "1.5 TiB"),
        (9 << 60, "9216.0 PiB"),
        (None, "0 B"),
    ],
)
def test_sizes_are_short(value: int | None, text: str) -> None:
    assert report_page.size(value) == text


def test_a_loss_is_harmful_if_entries_may_be_gone() -> None:
    assert report_page.harmful(ROWS[3]) == "3 ledgers unreadable"
    assert report_page.harmful(row(LossScope.BOOKIE, "x", loss_last_copy=9)) == ""
    both = row(LossScope.BOOKIE, "x", loss_unreadable=1, loss_perhaps_unreadable=2)
    assert report_page.harmful(both) == "1 ledgers unreadable, 2 ledgers perhaps unreadable"
