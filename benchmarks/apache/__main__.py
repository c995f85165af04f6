"""The race against Apache BookKeeper: both systems in one run, round by round.

make race                                            # all usual cases, five rounds: hours
python -m benchmarks.apache --cases append-1024 --rounds 3 --settings tuned
python -m benchmarks.apache --from race/results.json --table docs/performance.md
"""

import argparse
import os
import platform
import random
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks.apache import artifacts, racing, report, results, sides
from benchmarks.apache.artifacts import ArtifactError
from benchmarks.apache.bench import Bench
from benchmarks.apache.cases import EVERY, USUAL, RaceCase, Saturation, Sustained
from benchmarks.apache.java_processes import ApacheFailedError
from benchmarks.apache.laps import Lap
from benchmarks.apache.property_files import ApacheSetting, Upkeep
from benchmarks.apache.results import Results, ResultsError
from benchmarks.support import accounting
from zonekeeper.client.base.ways import BookieWay

#: With the case of minutes, disks are looked after within them.
TIDY: Final = Upkeep(collect_s=60, minor_s=120, major_s=240)
_WAYS: Final = {"lane": BookieWay.SOCKET, "grpc": BookieWay.GRPC}


def parser() -> argparse.ArgumentParser:
    """Give the command line."""
    found = argparse.ArgumentParser(prog="python -m benchmarks.apache", description=__doc__)
    found.add_argument("--cases", nargs="+", default=[case.name for case in USUAL], choices=EVERY)
    found.add_argument("--rounds", type=int, default=5)
    found.add_argument("--versions", nargs="*", default=artifacts.versions()[:1])
    found.add_argument(
        "--settings",
        nargs="+",
        default=[setting.value for setting in ApacheSetting],
        choices=[setting.value for setting in ApacheSetting],
    )
    found.add_argument("--ways", nargs="*", default=["lane"], choices=_WAYS)
    found.add_argument("--bookies", type=int, default=3, choices=range(3, 9))
    found.add_argument("--tls", action="store_true", help="TLS between clients and bookies")
    found.add_argument("--seconds", type=float, default=5.0, help="the window of a lap")
    found.add_argument("--settle", type=float, default=11.0, help="the least wait behind a lap")
    found.add_argument("--warm", type=float, default=15.0, help="a window of the warming up")
    found.add_argument("--sustain", type=float, default=600.0, help="the case `sustained`")
    found.add_argument("--window-bytes", type=int, default=8 << 20, help="most that is not acked")
    found.add_argument("--seed", type=int, default=1)
    found.add_argument("--to", type=Path, default=Path("race"), help="the folder of the results")
    found.add_argument("--folder", type=Path, help="where bookies keep their data")
    found.add_argument("--from", dest="read", type=Path, help="report results; run nothing")
    found.add_argument("--table", type=Path, help="put the table into this page")
    found.add_argument("--pin", metavar="VERSION", help="pin another version's jars; run nothing")
    return found


def chosen(given: argparse.Namespace) -> list[RaceCase]:
    """Give the cases of a command line; raises ValueError for what cannot be run."""
    cases = [EVERY[name] for name in given.cases]
    for case in cases:
        if isinstance(case, Saturation) and case.ensemble > given.bookies:
            raise ValueError(f"{case.name} needs --bookies {case.ensemble}")
    if given.rounds < 1:
        raise ValueError("--rounds must be at least 1")
    if not given.versions and not given.ways:
        raise ValueError("nobody runs: name --versions or --ways")
    return cases


def race(given: argparse.Namespace) -> Results:
    """Run it, and write what there is after each lap."""
    cases = chosen(given)
    tidy = any(isinstance(case, Sustained) for case in cases)
    field = sides.Field(
        versions=given.versions,
        settings=[ApacheSetting(name) for name in given.settings],
        ways=[_WAYS[name] for name in given.ways],
        bookies=given.bookies,
        upkeep=TIDY if tidy else Upkeep(),
        tls=given.tls,
    )
    ours = [sides.name_of(way) for way in field.ways]
    conditions = {
        "before": accounting.conditions(),
        "machine": f"{platform.system()} {platform.release()}, {os.cpu_count()} CPUs",
    }
    options = {
        "windows": f"{given.seconds:g} s, {given.window_bytes} bytes",
        "settled": f"{given.settle:g} s or more",
        "bookies": str(given.bookies),
        "TLS": "yes" if given.tls else "no",
    }

    def gathered(found: Sequence[Lap]) -> Results:
        return Results(
            date=time.strftime("%Y-%m-%d %H:%M"),
            ours=ours,
            laps=list(found),
            conditions={**conditions, "after": accounting.conditions()},
            options=options,
        )

    with (
        tempfile.TemporaryDirectory(prefix="race-", dir=given.folder) as folder,
        sides.started(field, Path(folder)) as started,
    ):
        bench = Bench(
            zookeeper_pid=started.zookeeper_pid,
            seconds=given.seconds,
            settle_s=given.settle,
            warm_s=given.warm,
            window_bytes=given.window_bytes,
            sustain_s=given.sustain,
        )
        found = racing.run(
            bench,
            cases,
            started.sides,
            given.rounds,
            random.Random(given.seed),
            racing.Told(
                say=lambda text: print(text, flush=True),
                keep=lambda found: write(gathered(found), given.to),
            ),
        )
    return gathered(found)


def write(found: Results, folder: Path) -> None:
    """Write the results, the page and the table."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.json").write_text(results.text(found))
    (folder / "race.html").write_text(report.page(found))
    (folder / "table.txt").write_text(report.table(found))


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line; 2: it was wrong, or what it needs is not here."""
    given = parser().parse_args(words)
    # What was started ends with the race, also when the race is ended from outside.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        if given.pin:
            print(f"pinned in {artifacts.pin(given.pin)}")
            return 0
        found = race(given) if given.read is None else results.parse(given.read.read_text())
        write(found, given.to)
        if given.table:
            given.table.write_text(report.in_page(given.table.read_text(), found))
    except (ArtifactError, ApacheFailedError, ResultsError, ValueError) as error:
        print(f"the race was not run to its end: {error}", file=sys.stderr)
        return 2
    print(report.table(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
