"""Progress: one line on a terminal, a line now and then elsewhere, nothing if it is not wanted."""

import io
from itertools import pairwise

import pytest

from zonekeeper.shell.reaching import progressing
from zonekeeper.shell.reaching.progressing import FIRST_LINE_S, LINE_EVERY_S_MAX, Progress

DAY_S = 86_400


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_s179_a_terminal_shows_one_line_and_at_the_end_none() -> None:
    clock, out = Clock(), Terminal()
    progress = Progress(out, clock)

    for number in range(100):
        progress.tell(f"{number} done")
        clock.now_s += 0.01
    progress.end()

    shown = out.getvalue()
    assert "\n" not in shown
    assert shown.startswith("\r\x1b[K0 done")
    assert shown.endswith("\r\x1b[K")
    assert 9 <= shown.count("done") <= 11


def test_s179_elsewhere_a_day_of_work_is_a_few_lines() -> None:
    clock, out = Clock(), io.StringIO()
    progress = Progress(out, clock)

    progress.tell("too early")
    for second in range(DAY_S):
        clock.now_s += 1
        progress.tell(f"after {second + 1} s")
    progress.end()

    lines = out.getvalue().splitlines()
    assert lines[0] == f"after {FIRST_LINE_S:.0f} s"
    assert len(lines) <= DAY_S / LINE_EVERY_S_MAX + 10
    told_s = [int(line.split()[1]) for line in lines]
    pauses_s = [later - before for before, later in pairwise(told_s)]
    assert max(pauses_s) <= LINE_EVERY_S_MAX, "a person who looks sees that it lives"
    assert "\x1b" not in out.getvalue()


@pytest.mark.parametrize("out", [Terminal(), io.StringIO()], ids=["terminal", "pipe"])
def test_what_is_waited_for_is_said_at_once_and_once(out: io.StringIO) -> None:
    progress = Progress(out, Clock())

    for text in ("held: b", "held: b", "held: c", "held: b"):
        progress.tell_at_once(text)

    assert out.getvalue() == "held: b\nheld: c\nheld: b\n"


@pytest.mark.parametrize(("out", "quiet"), [(Terminal(), True), (None, False)])
def test_what_is_not_wanted_is_not_written(out: io.StringIO | None, quiet: bool) -> None:
    clock = Clock()
    progress = Progress(out, clock, quiet=quiet)

    clock.now_s += DAY_S
    progress.tell("x")
    progress.tell_at_once("y")
    progress.end()

    assert out is None or out.getvalue() == ""


@pytest.mark.parametrize(
    ("text", "elapsed_s", "done", "total", "moved"),
    [
        ("3 ledgers done", 0.5, 3, None, 0),
        ("3 ledgers done", 60, 3, None, 0),
        ("3 of 9 ledgers done, about 2m left", 60, 3, 9, 0),
        ("0 of 9 ledgers done", 60, 0, 9, 0),
        ("9 of 9 ledgers done", 60, 9, 9, 0),
        ("3 of 9 ledgers done, 60.0 MiB, 1.0 MiB/s, about 2m left", 60, 3, 9, 60 << 20),
        ("3 ledgers done, 60.0 MiB, 1.0 MiB/s", 60, 3, None, 60 << 20),
    ],
)
def test_how_much_is_done_is_said_with_what_is_known(
    text: str, elapsed_s: float, done: int, total: int | None, moved: int
) -> None:
    assert progressing.work("ledgers", done, elapsed_s, total=total, moved_bytes=moved) == text
