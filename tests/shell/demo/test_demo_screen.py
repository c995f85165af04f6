"""What the demonstration says of itself: no promise holds by chance, and all of it can be read."""

import dataclasses
import io

import pytest
from rich.console import Console
from rich.text import Text

from zonekeeper.placement.base.ids import BookieId, LedgerId, ZoneName
from zonekeeper.placement.zones.gate import Permission
from zonekeeper.placement.zones.observation import Observation
from zonekeeper.shell.demo import demo_screen
from zonekeeper.shell.demo.demo_load import AckTiming, LedgerFate
from zonekeeper.shell.demo.demo_screen import BookieNow, LineScreen, LiveScreen, Picture, ZoneNow
from zonekeeper.shell.demo.demo_strangers import PlainTries
from zonekeeper.shell.demo.demo_summary import BookieLoss, Copies, Outage, Summary, ZoneLoss

C = ZoneName("c")
WHOLE = LedgerFate(ledger_id=LedgerId(1), acked=3, same=3)
EMPTY = LedgerFate(ledger_id=LedgerId(2), acked=0, same=0)
MISSING = LedgerFate(ledger_id=LedgerId(3), acked=3, same=2, reason="it ends at entry 1")
BOOKIE = BookieLoss(bookie=BookieId("bk-a-0"), moved_bytes=10_000_000, seconds=12)
OUTAGE = Outage(zone=C, states=[Observation.DOWN, Observation.UP], held_seconds=20, moved_bytes=0)
LOSS = ZoneLoss(zone=C, moved_held_bytes=0, preflight={}, moved_bytes=20_000_000, seconds=4)
GOOD = Summary(
    timings=[AckTiming("all is well", entries=3, latencies_ms=[2.0])],
    ensemble_changes=1,
    bookie=BOOKIE,
    outage=OUTAGE,
    loss=LOSS,
    checked=[WHOLE, EMPTY],
    copies=Copies(entries=3, problems=[]),
    plain_tries=PlainTries(ways=18, tried=18, accepted=0),
    seconds=80,
)
BAD = (
    dataclasses.replace(GOOD, checked=[WHOLE, MISSING], copies=Copies(entries=6, problems=[])),
    dataclasses.replace(GOOD, checked=[EMPTY], copies=Copies(entries=0, problems=[])),
    dataclasses.replace(GOOD, bookie=dataclasses.replace(BOOKIE, moved_bytes=0)),
    dataclasses.replace(GOOD, outage=dataclasses.replace(OUTAGE, moved_bytes=1)),
    dataclasses.replace(GOOD, outage=dataclasses.replace(OUTAGE, held_seconds=0)),
    dataclasses.replace(GOOD, loss=dataclasses.replace(LOSS, moved_held_bytes=1)),
    dataclasses.replace(GOOD, loss=dataclasses.replace(LOSS, moved_bytes=0)),
    dataclasses.replace(GOOD, copies=Copies(entries=2, problems=[])),
    dataclasses.replace(GOOD, copies=Copies(entries=3, problems=["a copy is gone"])),
    dataclasses.replace(GOOD, plain_tries=PlainTries(ways=18, tried=18, accepted=1)),
    dataclasses.replace(GOOD, plain_tries=PlainTries(ways=0, tried=0, accepted=0)),
    dataclasses.replace(GOOD, plain_tries=PlainTries(ways=18, tried=17, accepted=0)),
)
PICTURE = Picture(
    zones=[
        ZoneNow(
            name=C,
            observation=Observation.DOWN,
            permission=Permission.HELD,
            bookies=[
                BookieNow(name=BookieId("bk-c-0"), registered=True, written=True),
                BookieNow(name=BookieId("bk-c-1"), registered=False, written=False),
            ],
        )
    ],
    entries=1_234,
    entries_per_second=1_000,
    p50_ms=2.5,
    p99_ms=9.5,
    moved_bytes=3_300_000,
    marked=7,
    repair=(10_000_000, 3_300_000),
)


def test_a_good_run_keeps_all_promises() -> None:
    assert GOOD.kept
    assert GOOD.problems == []


@pytest.mark.parametrize("summary", BAD)
def test_one_promise_that_does_not_hold_is_enough(summary: Summary) -> None:
    assert not summary.kept
    assert [holds for _, holds in summary.promises].count(False) == 1
    assert summary.plain()["kept"] is False


def test_tls_is_claimed_with_what_was_tried_and_never_of_a_cluster_in_plain_text() -> None:
    said = (
        "all connections to bookies were TLS: 18 of 18 ways to them were tried in plain text, "
        "and 0 accepted"
    )
    assert (said, True) in GOOD.promises
    assert GOOD.plain()["plainText"] == {"ways": 18, "tried": 18, "accepted": 0}
    leaky = dataclasses.replace(GOOD, plain_tries=PlainTries(ways=18, tried=17, accepted=2))
    counts = "17 of 18 ways to them were tried in plain text, and 2 accepted"
    assert [holds for text, holds in leaky.promises if text.endswith(counts)] == [False]
    plain = dataclasses.replace(GOOD, plain_tries=None)
    assert plain.kept
    assert plain.plain()["plainText"] is None
    assert [text for text, _ in plain.promises if "TLS" in text] == []
    assert len(plain.promises) == len(GOOD.promises) - 1


def test_the_figures_name_what_is_missing() -> None:
    plain = BAD[0].plain()

    assert (plain["acknowledged"], plain["readBackTheSame"]) == (6, 5)
    assert plain["problems"] == ["ledger 3: 2 of 3: it ends at entry 1"]


def told(terminal: bool) -> str:
    """Tell a short story at one moment, and give all that stood on the screen."""
    out = io.StringIO()
    console = Console(
        file=out, force_terminal=terminal, width=110, height=40, highlight=False, no_color=True
    )
    seconds = iter(range(0, 1_000, 10))
    with demo_screen.opened(console, lambda: float(next(seconds))) as screen:
        assert isinstance(screen, LiveScreen if terminal else LineScreen)
        screen.step("4. A zone goes away", "Nothing is copied. " * 10)
        screen.struck("kill -9: bk-c-1")
        screen.show(PICTURE)
        screen.happened("zone c is down")
    screen.summary(GOOD)
    return out.getvalue()


def test_without_a_terminal_each_thing_is_a_line_without_colour() -> None:
    lines = told(terminal=False).splitlines()

    assert "\x1b" not in "".join(lines)
    assert lines[1:3] == ["4. A zone goes away", "Nothing is copied. " * 10]
    assert any(line.endswith("kill -9: bk-c-1") for line in lines)
    (pulse,) = [line for line in lines if "acked" in line]
    assert "c 1/2 down, held | ledgers to repair: 7, copied: 3.3 MB" in pulse
    assert lines[-1] == "It took 80 s."


def test_on_a_terminal_one_picture_has_all_of_it() -> None:
    last = Text.from_ansi(told(terminal=True).rpartition("4. A zone goes away ")[2]).plain

    for text in (
        "Nothing is copied.",
        "● bk-c-0 ✎",
        "✗ bk-c-1",
        "down",
        "held",
        "1,234 entries acknowledged, 1,000/s, median 2.5 ms, p99 9.5 ms",
        "3.3 MB copied so far; ledgers that wait for it: 7",
        "3.3 MB of about 10.0 MB",
        "kill -9: bk-c-1",
        "zone c is down",
        "yes  3 of 3 acknowledged entries were read back the same",
    ):
        assert text in last
