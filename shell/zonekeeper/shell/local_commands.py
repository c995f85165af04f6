"""``zonekeeper local``: a whole cluster on this machine, to try things on.

Exit code 2: what was asked for cannot be meant; 1: it did not work; 130: it was interrupted, and
what it had started is stopped.
"""

import contextlib
import json
import logging
import shutil
import sys
import tempfile
import time
from collections.abc import Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Final, TypeVar

import click
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from zonekeeper.placement.ids import BookieId, ZoneName
from zonekeeper.shell import demo, local_running
from zonekeeper.shell.demo_screen import Screen
from zonekeeper.shell.local_cluster import LocalCluster, Seen, Status
from zonekeeper.shell.local_folder import BadRequestError, LocalError
from zonekeeper.shell.local_shape import Shape

_T = TypeVar("_T")

_STANDARD: Final = Shape()
_DEFAULT: Final = "[default: as it was made; {} for a new cluster]"
_INTERRUPTED: Final = 130

_FOLDER: Final = click.option(
    "--folder",
    type=click.Path(path_type=Path),
    envvar="ZONEKEEPER_LOCAL",
    show_envvar=True,
    default=lambda: Path.home() / ".zonekeeper" / "local",
    show_default="~/.zonekeeper/local",
    help="Where everything stands that the cluster keeps.",
)
_OUTPUT: Final = click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="The form of the answer.",
)


class _BadRequest(click.ClickException):
    exit_code = 2


@click.group()
def local() -> None:
    """Run a whole cluster on this machine, to try things on."""


@local.command()
@_FOLDER
@click.option(
    "--zones", type=click.IntRange(min=1), help=f"Zones.  {_DEFAULT.format(_STANDARD.zones)}"
)
@click.option(
    "--bookies-per-zone",
    type=click.IntRange(min=1),
    help=f"Bookies in each zone.  {_DEFAULT.format(_STANDARD.bookies_per_zone)}",
)
@click.option(
    "--upgrade-domains",
    type=click.IntRange(min=1),
    help=f"Upgrade domains in each zone.  {_DEFAULT.format(_STANDARD.upgrade_domains)}",
)
@_OUTPUT
def up(
    folder: Path,
    zones: int | None,
    bookies_per_zone: int | None,
    upgrade_domains: int | None,
    output: str,
) -> None:
    """Start the cluster: every bookie that does not run.

    All or nothing: if one does not come up, those started with it are stopped again.
    """
    given = {
        "zones": zones,
        "bookies_per_zone": bookies_per_zone,
        "upgrade_domains": upgrade_domains,
    }
    asked = {name: number for name, number in given.items() if number is not None}
    cluster = _cluster(folder)
    started = _run(cluster.up(asked))
    text = f"{_listed(started, 'started', 'every bookie runs already')}\n"
    text += f"metadata: {cluster.folder.address}"
    _answer(output, text, {"started": started, "metadata": cluster.folder.address})


@local.command()
@_FOLDER
@_OUTPUT
def status(folder: Path, output: str) -> None:
    """Show each bookie: its process, and whether it is registered."""
    cluster = _cluster(folder)
    found = _run(cluster.status())
    if output == "json":
        _print_json(_plain(found, cluster.folder.address))
        return
    _show(found, cluster.folder.address)


@local.command("kill-bookie")
@click.argument("bookie")
@_FOLDER
@_OUTPUT
def kill_bookie(bookie: str, folder: Path, output: str) -> None:
    """Kill BOOKIE at once (kill -9). `up` starts it again."""
    _run(_cluster(folder).kill(BookieId(bookie)))
    _answer(output, f"killed {bookie}", {"killed": [bookie]})


@local.command("kill-zone")
@click.argument("zone")
@_FOLDER
@_OUTPUT
def kill_zone(zone: str, folder: Path, output: str) -> None:
    """Kill every bookie of ZONE at once. `restore-zone` starts them again."""
    killed = _run(_cluster(folder).kill_zone(ZoneName(zone)))
    _answer(output, f"killed {', '.join(killed)}", {"killed": killed})


@local.command("restore-zone")
@click.argument("zone")
@_FOLDER
@_OUTPUT
def restore_zone(zone: str, folder: Path, output: str) -> None:
    """Start every bookie of ZONE that does not run.

    A bookie that was just killed waits until its former session has run out: some ten seconds.
    """
    started = _run(_cluster(folder).restore(ZoneName(zone)))
    text = _listed(started, "started", f"every bookie of zone {zone} runs already")
    _answer(output, text, {"started": started})


@local.command()
@_FOLDER
@click.option("--purge", is_flag=True, help="Remove everything that the cluster kept, too.")
@_OUTPUT
def down(folder: Path, purge: bool, output: str) -> None:
    """Stop every bookie in order. What they kept stays, for the next `up`."""
    stopped = _run(_cluster(folder).down(purge=purge))
    text = _listed(stopped, "stopped", "no bookie ran")
    if purge:
        text += "; everything is removed"
    _answer(output, text, {"stopped": stopped, "purged": purge})


@local.command("demo")
@click.option(
    "--folder",
    type=click.Path(path_type=Path),
    help="Keep the cluster there, to look at afterwards.  [default: a temporary folder]",
)
@_OUTPUT
def demo_command(folder: Path | None, output: str) -> None:
    """Show a cluster that loses a bookie and a zone while it is written to. About a minute.

    The exit code is 0 only if everything that was acknowledged was read back byte for byte.
    Nothing is left running, however it ends.
    """
    logging.getLogger("zonekeeper").setLevel(logging.ERROR)  # the story tells what warnings would
    console = Console(highlight=False, soft_wrap=True, stderr=output == "json")
    screen = Screen(console, time.perf_counter)
    with _place(folder) as place:
        summary = _run(demo.run(_cluster(place), screen, demo.Pace()))
        screen.summary(summary)
        if output == "json":
            _print_json(summary.plain())
        if not summary.whole:
            raise click.ClickException("acknowledged entries were not read back")


@contextlib.contextmanager
def _place(folder: Path | None) -> Iterator[Path]:
    """Give the folder, or a temporary one: it stays only if there is something to be found out."""
    if folder is not None:
        yield folder
        return
    made = Path(tempfile.mkdtemp(prefix="zonekeeper-demo-"))
    failed = False
    try:
        yield made
    except click.ClickException as failure:
        failed = failure.exit_code == 1
        raise
    finally:
        if failed:
            click.echo(f"what the cluster kept is in {made}", err=True)
        else:
            shutil.rmtree(made)


def _cluster(folder: Path) -> LocalCluster:
    try:
        return LocalCluster(folder)
    except BadRequestError as error:
        raise _BadRequest(str(error)) from None


def _run(work: Coroutine[None, None, _T]) -> _T:
    try:
        return local_running.run(work, lambda: click.echo("stopping what was started", err=True))
    except BadRequestError as error:
        raise _BadRequest(str(error)) from None
    except (LocalError, OSError) as error:
        raise click.ClickException(str(error)) from None
    except local_running.StoppedError:
        sys.exit(_INTERRUPTED)


def _listed(bookies: Sequence[BookieId], done: str, nobody: str) -> str:
    return f"{done} {', '.join(bookies)}" if bookies else nobody


def _answer(output: str, text: str, data: dict[str, object]) -> None:
    if output == "json":
        _print_json(data)
    else:
        click.echo(text)


def _print_json(data: dict[str, object]) -> None:
    click.echo(json.dumps(data, indent=2, sort_keys=True))


def _plain(found: Status, address: str) -> dict[str, object]:
    return {
        "metadata": address,
        "unknown": found.unknown or None,
        "bookies": [
            {
                "id": seen.id,
                "zone": seen.location.zone,
                "upgradeDomain": seen.location.upgrade_domain,
                "process": _process(seen),
                "pid": seen.pid,
                "registration": _registration(seen),
                "address": seen.address,
            }
            for seen in found.bookies
        ],
    }


def _show(found: Status, address: str) -> None:
    table = Table(box=box.SIMPLE)
    for title in ("bookie", "location", "process", "registered", "address"):
        table.add_column(title, no_wrap=True)
    for seen in found.bookies:
        process = f"pid {seen.pid}" if seen.pid else _process(seen)
        table.add_row(
            seen.id,
            str(seen.location),
            Text(process, style="" if seen.pid else "red"),
            _registration(seen),
            seen.address or "",
        )
    console = Console(highlight=False, soft_wrap=True)
    console.print(table)
    console.print(f"metadata: {address}", markup=False)
    if found.unknown:
        console.print(f"unknown, because {found.unknown}", style="red", markup=False)


def _process(seen: Seen) -> str:
    if seen.pid is not None:
        return "running"
    return "ended by itself" if seen.ended_by_itself else "stopped"


def _registration(seen: Seen) -> str:
    return "unknown" if seen.registration is None else seen.registration.value
