"""Zone scenarios as text, and what reads them. ``README.txt`` shows the form.

A transcript is told once and played twice: on the pure machine (``machine_player``) and on a zone
watch that runs (``watch_player``). Times are since its beginning, when all zones are up and open,
unless it begins with the first start.

The reader is strict. Whatever it does not understand is an error that names file and line: a
transcript that says less than it seems to say would pass for ever.
"""

import enum
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.support.checkout_root import ROOT
from tests.zone_scenarios import clauses, settings
from tests.zone_scenarios.clauses import Cast, UnknownError
from tests.zone_scenarios.settings import Given, Setting, TranscriptError, standing_at
from tests.zone_scenarios.steps import Act, Expectation

FOLDER: Final = ROOT / "tests" / "zone_scenarios"

_TITLE: Final = re.compile(r"(S\d\d\d?)  (\S.*)")
_SETTING: Final = re.compile(r"([a-z][a-z ]*): (\S.*)")
_TIMED: Final = re.compile(r"(\d\w*)?\s+(\S.*)")

#: A line of a file, and where it stands.
_Placed = tuple[str, str]


class Side(enum.StrEnum):
    """Where a line is played."""

    MACHINE = "machine"
    WATCH = "watch"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One thing that happens, or is to be seen."""

    place: str
    text: str
    at_ms: int
    #: None: on both.
    side: Side | None
    step: Act | Expectation


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    """One scenario."""

    place: str
    #: The scenario's number in docs/scenarios.md.
    number: str
    title: str
    setting: Setting
    lines: tuple[Line, ...]

    def on(self, side: Side) -> Iterator[Line]:
        """Give the lines that are played on one side."""
        return (line for line in self.lines if line.side in (None, side))

    def __str__(self) -> str:
        return f"{self.number}-{self.title.replace(' ', '-')}"


def all_of(folder: Path = FOLDER) -> list[Transcript]:
    """Read every transcript of a folder; no two have the same title."""
    found = [
        each
        for path in sorted(folder.glob("*.txt"))
        if path.name != "README.txt"
        for each in read(path.read_text("utf-8"), path.name)
    ]
    titles: dict[str, str] = {}
    for each in found:
        if each.title in titles:
            raise TranscriptError(each.place, f"the title of {titles[each.title]}, too")
        titles[each.title] = each.place
    return found


def read(text: str, name: str) -> list[Transcript]:
    """Read a file of transcripts: each begins with a title, and ends before the next one."""
    blocks: list[list[_Placed]] = []
    for number, raw in enumerate(text.splitlines(), 1):
        place, line = f"{name}:{number}", raw.rstrip()
        if not line or line.startswith("#"):
            continue
        if _TITLE.fullmatch(line):
            blocks.append([])
        elif not blocks:
            raise TranscriptError(place, "a transcript begins with its title, like `S83  a zone …`")
        blocks[-1].append((line, place))
    return [_transcript(block) for block in blocks]


def _transcript(block: Sequence[_Placed]) -> Transcript:
    (heading, place), *rest = block
    title = _TITLE.fullmatch(heading)
    assert title is not None, "a block begins with its title"
    given, timed = _parted(rest)
    setting = settings.read(given, place)
    lines = tuple(_lines(timed, Cast(zones={*settings.ZONES}, bookies={*setting.bookies})))
    if not any(isinstance(line.step, Expectation) for line in lines):
        raise TranscriptError(place, "nothing is expected in it")
    return Transcript(place=place, number=title[1], title=title[2], setting=setting, lines=lines)


def _parted(rest: Sequence[_Placed]) -> tuple[dict[str, Given], list[_Placed]]:
    """Give the settings, and the lines behind them."""
    given: dict[str, Given] = {}
    for at, (line, place) in enumerate(rest):
        match = _SETTING.fullmatch(line)
        if match is None:
            return given, list(rest[at:])
        if match[1] in given:
            raise TranscriptError(place, f"{match[1]!r} is given twice")
        given[match[1]] = (match[2], place)
    return given, []


def _lines(timed: Sequence[_Placed], cast: Cast) -> Iterator[Line]:
    at_ms: int | None = None
    for line, place in timed:
        match = _TIMED.fullmatch(line)
        if match is None:
            raise TranscriptError(place, f"no time, and no clause behind it: {line!r}")
        with standing_at(place):
            at_ms = _later(at_ms, match[1])
            side, texts = _split(match[2])
            read = [_step(text, side, cast) for text in texts]
        for text, step in zip(texts, read, strict=True):
            yield Line(place=place, text=text, at_ms=at_ms, side=side, step=step)


def _later(before_ms: int | None, text: str | None) -> int:
    """Give the time of a line: what it says, or that of the line before."""
    if text is None:
        if before_ms is None:
            raise UnknownError("the first line needs a time")
        return before_ms
    at_ms = clauses.duration_ms(text)
    if before_ms is not None and at_ms <= before_ms:
        raise UnknownError(f"the time of a line before: {text}")
    return at_ms


def _step(text: str, side: Side | None, cast: Cast) -> Act | Expectation:
    step = clauses.read(text, cast)
    if side is not None and isinstance(step, Act):
        raise UnknownError(f"what happens, happens on both sides: {text!r}")
    return step


def _split(text: str) -> tuple[Side | None, list[str]]:
    """Give the side that a line is for, and its clauses; a noted text is one, whatever is in it."""
    side = None
    for each in Side:
        if text.startswith(f"{each}: "):
            side, text = each, text.removeprefix(f"{each}: ").lstrip()
    return side, [text] if text.startswith("noted of ") else text.split("; ")
