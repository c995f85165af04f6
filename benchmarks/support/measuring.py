"""How a benchmark of rounds is run: its arguments, its folder, and the machine before and after."""

import argparse
import asyncio
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TypeVar

from benchmarks.support import accounting

Found = TypeVar("Found")


def run(
    what: str | None,
    measured: Callable[[Path, argparse.Namespace], Coroutine[None, None, Found]],
    report: Callable[[Found], None],
    *,
    rounds: int = 5,
    entries: int = 100_000,
) -> None:
    """Measure, and print; ``what`` says what the benchmark is."""
    parser = argparse.ArgumentParser(description=what)
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--entries", type=int, default=entries, help="of a case with small ones")
    given = parser.parse_args()
    print(f"before: {accounting.conditions()}; {given.rounds} rounds; median (least-most)")
    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
        report(asyncio.run(measured(Path(folder), given)))
    print(f"\nafter: {accounting.conditions()}")
