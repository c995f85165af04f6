"""The screens of the demonstration.

On a terminal the screen is one picture that changes. It shows what is done and why, the bookies
of each zone, the zone's state, the writing, the repair, and the latest events. Elsewhere each event
is one line, readable without colour.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.placement.zones.gate import Permission
from zonekeeper.placement.zones.observation import Observation
from zonekeeper.shell.demo.demo_summary import MEDIAN, NEARLY_ALL, Summary, megabytes

_EVENTS_SHOWN: Final = 10
_PULSE_EVERY_S: Final = 2.0
_BAR_WIDTH: Final = 40
_STATE_STYLES: Final = {
    Observation.UP: "green",
    Observation.DEGRADED: "yellow",
    Observation.SUSPECT: "yellow",
    Observation.RETURNING: "cyan",
    Observation.DOWN: "bold red",
    Observation.UNKNOWN: "dim",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BookieNow:
    """A bookie in a picture."""

    name: BookieId
    registered: bool
    #: True: entries are written to the bookie now.
    written: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneNow:
    """A zone in a picture."""

    name: ZoneName
    observation: Observation
    permission: Permission
    bookies: Sequence[BookieNow]


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """The state of the whole cluster at one moment."""

    zones: Sequence[ZoneNow]
    entries: int
    entries_per_second: float
    p50_ms: float
    p99_ms: float
    moved_bytes: int
    #: Ledgers that wait for repair, or are being repaired.
    marked: int
    #: The bytes that the released repair is expected to move, and those it has moved; None: no
    #: repair was released.
    repair: tuple[int, int] | None = None


class Screen(ABC):
    """A screen that shows the story while it is played."""

    def __init__(self, console: Console, clock: Callable[[], float]) -> None:
        self._console = console
        self._clock = clock
        self._begun_s = clock()

    @property
    def seconds(self) -> float:
        """The seconds since the demonstration began."""
        return self._clock() - self._begun_s

    @abstractmethod
    def step(self, title: str, words: str) -> None:
        """Begin a part: say what is done, and what to look for."""

    @abstractmethod
    def happened(self, text: str, style: str = "cyan") -> None:
        """Show an event that has just happened."""

    @abstractmethod
    def show(self, picture: Picture) -> None:
        """Show the state of the cluster."""

    def struck(self, text: str) -> None:
        """Show a blow that was dealt to the cluster."""
        self.happened(text, "bold yellow")

    def summary(self, summary: Summary) -> None:
        """Show the figures, below all else."""
        table = Table(box=box.SIMPLE)
        table.add_column("while", no_wrap=True)
        for title in ("acknowledged", "p50 ms", "p99 ms", "max ms"):
            table.add_column(title, justify="right", no_wrap=True)
        for timing in summary.timings:
            shares = [timing.quantile_ms(share) for share in (MEDIAN, NEARLY_ALL, 1)]
            table.add_row(timing.name, f"{timing.entries:,}", *(f"{each:.1f}" for each in shares))
        self._console.print(table)
        for text, holds in summary.promises:
            mark, style = ("yes", "green") if holds else ("NO ", "bold red")
            self._console.print(Text(f"{mark}  {text}", style=style), soft_wrap=True)
        for problem in summary.problems:
            self._console.print(problem, style="red", markup=False, soft_wrap=True)
        self._console.print(f"Ensemble changes: {summary.ensemble_changes}.")
        self._console.print(f"It took {summary.seconds:.0f} s.")

    def _stamped(self, text: str, style: str) -> Text:
        return Text(f"{self.seconds:5.1f} s  {text}", style=style)


class LineScreen(Screen):
    """A screen with a line for each event."""

    def __init__(self, console: Console, clock: Callable[[], float]) -> None:
        super().__init__(console, clock)
        self._shown_s = 0.0

    def step(self, title: str, words: str) -> None:
        """Begin a part."""
        self._console.print()
        self._line(Text(title, style="bold"))
        self._line(Text(words))

    def happened(self, text: str, style: str = "cyan") -> None:
        """Say what has happened."""
        self._line(self._stamped(text, style))

    def show(self, picture: Picture) -> None:
        """Show the state of the cluster, at most once in ``_PULSE_EVERY_S``."""
        if self.seconds < self._shown_s + _PULSE_EVERY_S:
            return
        self._shown_s = self.seconds
        zones = "  ".join(
            f"{zone.name} {sum(one.registered for one in zone.bookies)}/{len(zone.bookies)} "
            f"{zone.observation}{', held' if zone.permission is Permission.HELD else ''}"
            for zone in picture.zones
        )
        self._line(
            self._stamped(
                f"{picture.entries:>7,} acked {picture.entries_per_second:>5,.0f}/s  "
                f"p99 {picture.p99_ms:>5.1f} ms | {zones} | ledgers to repair: "
                f"{picture.marked}, copied: {megabytes(picture.moved_bytes)}",
                "dim",
            )
        )

    def _line(self, text: Text) -> None:
        self._console.print(text, soft_wrap=True)


class LiveScreen(Screen):
    """A screen with one picture that changes."""

    def __init__(self, console: Console, clock: Callable[[], float], live: Live) -> None:
        super().__init__(console, clock)
        self._live = live
        self._title, self._words = "", ""
        self._events: deque[Text] = deque(maxlen=_EVENTS_SHOWN)
        self._picture: Picture | None = None

    def step(self, title: str, words: str) -> None:
        """Begin a part."""
        self._title, self._words = title, words
        self._add(title, "bold")

    def happened(self, text: str, style: str = "cyan") -> None:
        """Say what has happened."""
        self._add(text, style)

    def show(self, picture: Picture) -> None:
        """Show the state of the cluster."""
        self._picture = picture
        self._draw()

    def _add(self, text: str, style: str) -> None:
        event = self._stamped(text, style)
        event.no_wrap, event.overflow = True, "ellipsis"
        self._events.append(event)
        self._draw()

    def _draw(self) -> None:
        parts: list[RenderableType] = [
            Panel(self._words, title=self._title, title_align="left", border_style="bold")
        ]
        if self._picture is not None:
            parts += [_zones(self._picture), *_figures(self._picture)]
        parts += [Text(), *self._events, *[Text()] * (_EVENTS_SHOWN - len(self._events))]
        self._live.update(Group(*parts), refresh=True)


@contextmanager
def opened(console: Console, clock: Callable[[], float]) -> Iterator[Screen]:
    """Give the screen that fits the console; after the block a terminal's cursor is back."""
    if not console.is_terminal:
        yield LineScreen(console, clock)
        return
    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
        yield LiveScreen(console, clock, live)


def _zones(picture: Picture) -> Table:
    table = Table(box=box.SIMPLE)
    for title in ("zone", "bookies", "is", "its repair is"):
        table.add_column(title, no_wrap=True)
    for zone in picture.zones:
        bookies = Text()
        for bookie in zone.bookies:
            sign, style = ("●", "green") if bookie.registered else ("✗", "bold red")
            name = f"{bookie.name}{' ✎' if bookie.written else '  '}   "
            bookies.append(f"{sign} ", style=style).append(name)
        held = zone.permission is Permission.HELD
        table.add_row(
            zone.name,
            bookies,
            Text(zone.observation, style=_STATE_STYLES[zone.observation]),
            Text(zone.permission, style="bold yellow" if held else "green"),
        )
    return table


def _figures(picture: Picture) -> Iterator[RenderableType]:
    yield Text(
        f" written ✎ {picture.entries:,} entries acknowledged, "
        f"{picture.entries_per_second:,.0f}/s, median {picture.p50_ms:.1f} ms, "
        f"p99 {picture.p99_ms:.1f} ms"
    )
    yield Text(
        f" repair    {megabytes(picture.moved_bytes)} copied so far; ledgers that wait for it: "
        f"{picture.marked}"
    )
    if picture.repair is not None:
        whole, done = picture.repair
        bar = ProgressBar(total=max(whole, done, 1), completed=done, width=_BAR_WIDTH)
        row = Table.grid(padding=(0, 1))
        row.add_row("          ", bar, f"{megabytes(done)} of about {megabytes(whole)}")
        yield row
