"""``make flaky``: run the lanes that use real time again and again beside load, and keep a tally.

The tally is of one tree, kept outside of it, and gone on with where it was stopped. Ctrl-C ends the
turn that is under way, which does not count. Exit code 0: all rounds are done, and nothing failed.
"""

import argparse
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.flaky import running, tally
from tests.flaky.tally import Tally

#: What pytest is told to run a lane, in the order of a round: the shortest first.
LANES: Final[Mapping[str, Sequence[str]]] = {
    "zones": ("-m", "processes and not long", "tests/zones"),
    "cluster": ("-m", "cluster and not long"),
    "processes": (
        "-m",
        "processes and not (long or spark or demo or cluster)",
        "--ignore=tests/zones",
    ),
}
#: Those that `make test` runs in several workers at once.
_AT_ONCE: Final = ("zones", "processes")
CHECKOUT: Final = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Campaign:
    """What is to be done, and where its tally is."""

    checkout: Path
    folder: Path
    lanes: Mapping[str, Sequence[str]]
    rounds: int
    load: int
    #: No turn is begun later than this, in seconds of ``perf_counter``.
    until_s: float = float("inf")

    def go_on(self) -> bool:
        """Play all that is missing, and tell the tally; was it all, and all of it green?"""
        tree = running.tree_of(self.checkout)
        tallied, file = self._known(tree), self._file(tree)
        say(f"tree {tree[:12]}, beside {self.load} busy processes: {file}")
        try:
            with running.beside(self.load):
                while lane := tallied.next_lane([*self.lanes], self.rounds):
                    if time.perf_counter() >= self.until_s:
                        say("the time is over")
                        break
                    came = self._turn(tallied, lane)
                    if running.tree_of(self.checkout) != tree:
                        say("the checkout was changed: the last turn does not count")
                        return False
                    tallied.take(lane, came)
                    _write(file, tally.dump(tallied))
        finally:
            for line in tallied.lines(self.lanes):
                say(line)
        return tallied.is_clean([*self.lanes], self.rounds)

    def _turn(self, tallied: Tally, lane: str) -> dict[str, str | None]:
        name, began_s = f"{lane}, round {tallied.turns.get(lane, 0) + 1}", time.perf_counter()
        ran = running.run(self.lanes[lane], self.checkout)
        came = tally.turn(lane, ran.code, ran.report)
        failed = tally.failed(came)
        say(f"{name}: {len(came)} ran, {len(failed)} failed, {time.perf_counter() - began_s:.0f} s")
        if failed:
            words = self._file(tallied.tree).with_suffix(f".{name.replace(', round ', '-')}.log")
            _write(words, ran.words)
            for test, why in failed.items():
                say(f"  {test}: {why}")
            say(f"  {words}")
        return came

    def _file(self, tree: str) -> Path:
        return self.folder / f"{tree}-beside-{self.load}.json"

    def _known(self, tree: str) -> Tally:
        file = self._file(tree)
        return tally.load(file.read_text()) if file.exists() else Tally(tree=tree, load=self.load)


def _write(file: Path, text: str) -> None:
    """Put a file there whole, or not at all."""
    file.parent.mkdir(parents=True, exist_ok=True)
    making = file.with_name(f"{file.name}.new")
    making.write_text(text)
    making.replace(file)


def main() -> int:
    """Do what the arguments say."""
    asked = _arguments()
    for number in (signal.SIGINT, signal.SIGTERM):  # in the background a shell ignores the first
        signal.signal(number, signal.default_int_handler)
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    workers = ("-n", asked.workers)
    campaign = Campaign(
        checkout=CHECKOUT,
        folder=base / "zonekeeper" / "flaky",
        lanes={
            lane: (*LANES[lane], *(workers if lane in _AT_ONCE else ())) for lane in asked.lanes
        },
        rounds=asked.rounds,
        load=asked.load,
        until_s=time.perf_counter() + 60 * asked.minutes,
    )
    try:
        return 0 if campaign.go_on() else 1
    except KeyboardInterrupt:
        say("interrupted: `make flaky` goes on from here")
        return 128 + signal.SIGINT


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.flaky", description=__doc__)
    parser.add_argument("--rounds", type=int, default=20, help="how many (default: 20)")
    parser.add_argument(
        "--lanes", nargs="+", choices=list(LANES), default=list(LANES), help="(default: all)"
    )
    parser.add_argument("--load", type=int, default=2, help="busy processes (default: 2)")
    parser.add_argument("--workers", default="auto", help="of pytest-xdist (default: auto)")
    parser.add_argument(
        "--minutes", type=float, default=float("inf"), help="begin no turn after this time"
    )
    return parser.parse_args()


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
