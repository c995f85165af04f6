"""What the demonstration puts on the screen: plain lines that also read without colour."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from zonekeeper.placement.ids import BookieId
from zonekeeper.shell.demo_load import Checked, Timing

_MEDIAN: Final = 0.5
_NEARLY_ALL: Final = 0.99


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What a run has shown."""

    timings: Sequence[Timing]
    checked: Sequence[Checked]
    #: The ledger whose writer was killed, recovered while a zone was down.
    recovered: Checked
    recovery_ms: float
    killed: Sequence[BookieId]
    ensemble_changes: int
    seconds: float

    @property
    def acked(self) -> int:
        """Entries that were acknowledged, to both writers."""
        return sum(each.acked for each in (*self.checked, self.recovered))

    @property
    def same(self) -> int:
        """Entries of these that were read back byte for byte."""
        return sum(each.same for each in (*self.checked, self.recovered))

    @property
    def whole(self) -> bool:
        """Is nothing missing that was acknowledged, and was there anything?"""
        return 0 < self.acked == self.same and self.recovered.acked > 0

    def plain(self) -> dict[str, object]:
        """Give the figures as plain data."""
        return {
            "acknowledged": self.acked,
            "readBackTheSame": self.same,
            "whole": self.whole,
            "killed": list(self.killed),
            "ensembleChanges": self.ensemble_changes,
            "recovery": {
                "ledger": self.recovered.ledger_id,
                "acknowledged": self.recovered.acked,
                "readBackTheSame": self.recovered.same,
                "milliseconds": round(self.recovery_ms, 1),
            },
            "parts": [
                {
                    "name": timing.name,
                    "acknowledged": timing.entries,
                    "p50Ms": round(timing.quantile_ms(_MEDIAN), 1),
                    "p99Ms": round(timing.quantile_ms(_NEARLY_ALL), 1),
                    "maxMs": round(timing.quantile_ms(1), 1),
                }
                for timing in self.timings
            ],
            "problems": [
                f"ledger {each.ledger_id}: {each.reason}"
                for each in (*self.checked, self.recovered)
                if not each.whole
            ],
            "seconds": round(self.seconds, 1),
        }


class Screen:
    """Writes the story as it goes; each line begins with the seconds since the start."""

    def __init__(self, console: Console, clock: Callable[[], float]) -> None:
        self._console = console
        self._clock = clock
        self._begun_s = clock()

    @property
    def seconds(self) -> float:
        """How long it has taken so far."""
        return self._clock() - self._begun_s

    def title(self, text: str) -> None:
        """Begin a part."""
        self._console.print()
        self._console.print(text, style="bold", markup=False)

    def note(self, text: str) -> None:
        """Explain."""
        self._console.print(text, markup=False)

    def happened(self, text: str) -> None:
        """Say what has happened just now."""
        self._line(text, "cyan")

    def struck(self, text: str) -> None:
        """Say what was done to the cluster."""
        self._line(text, "bold yellow")

    def pulse(self, entries: int, rate: float, timing: Timing, ensemble: Sequence[str]) -> None:
        """Show how the writing goes."""
        self._line(
            f"{entries:>7,} acked  {rate:>5,.0f}/s  p50 {timing.quantile_ms(_MEDIAN):>3.1f}  "
            f"p99 {timing.quantile_ms(_NEARLY_ALL):>4.1f} ms  {' '.join(ensemble)}",
            "dim",
        )

    def summary(self, summary: Summary) -> None:
        """Show the figures."""
        table = Table(box=box.SIMPLE)
        table.add_column("while", no_wrap=True)
        for title in ("acknowledged", "p50 ms", "p99 ms", "max ms"):
            table.add_column(title, justify="right", no_wrap=True)
        for timing in summary.timings:
            shares = [timing.quantile_ms(share) for share in (_MEDIAN, _NEARLY_ALL, 1)]
            table.add_row(timing.name, f"{timing.entries:,}", *(f"{each:.1f}" for each in shares))
        self._console.print(table)
        verdict, style = (
            ("nothing is missing", "bold green")
            if summary.whole
            else ("ACKNOWLEDGED ENTRIES ARE MISSING", "bold red")
        )
        self.note(
            f"Killed: {len(summary.killed)} of 9 bookies, and a writer. "
            f"Ensemble changes of the other one: {summary.ensemble_changes}. "
            f"Recovery with a zone down: {summary.recovery_ms:,.0f} ms."
        )
        counts = f"{summary.same:,} of {summary.acked:,} acknowledged entries read back the same"
        self._console.print(Text(f"{counts}: {verdict}", style=style))
        for each in (*summary.checked, summary.recovered):
            if not each.whole:
                text = f"ledger {each.ledger_id}: {each.same} of {each.acked}: {each.reason}"
                self._console.print(text, style="red", markup=False)

        self.note(
            "Not part of it yet: copies that a dead bookie held are not made again, and what was\n"
            "written while a zone was away is not spread over three zones afterwards."
        )

    def _line(self, text: str, style: str) -> None:
        self._console.print(Text(f"{self.seconds:5.1f} s  {text}", style=style))
