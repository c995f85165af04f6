"""``zonekeeper local``: a whole cluster on this machine, to try things on.

The processes that an interrupted command had started are stopped.
"""

import contextlib
import json
import logging
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, TypedDict, TypeVar, Unpack, cast

import click
from rich.console import Console

from zonekeeper.metadata.commands import exits, options
from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.placement.base.troubles import Trouble
from zonekeeper.shell.demo import demo, demo_screen, demo_story
from zonekeeper.shell.local import local_running, local_text
from zonekeeper.shell.local.local_cluster import LocalCluster
from zonekeeper.shell.local.local_folder import BadRequestError
from zonekeeper.shell.local.local_shape import Asked, Shape, Timers
from zonekeeper.shell.reaching import progressing

_T = TypeVar("_T")

_STANDARD: Final = Shape()
_DEFAULT: Final = "[default: as it was made; {} for a new cluster]"

_FOLDER: Final = click.option(
    "--folder",
    type=click.Path(path_type=Path),
    envvar="ZONEKEEPER_LOCAL",
    show_envvar=True,
    default=lambda: Path.home() / ".zonekeeper" / "local",
    show_default="~/.zonekeeper/local",
    help="The folder with everything that the cluster keeps.",
)


class _Given(TypedDict):
    """The fields of a shape as options; None: not given."""

    zones: int | None
    bookies_per_zone: int | None
    upgrade_domains: int | None
    autorecovery: int | None
    zookeeper: bool | None
    timers: Timers | None
    tls: bool | None


@click.group()
def local() -> None:
    """Run a whole cluster on this machine, to try things out."""


@local.command(epilog="Example: zonekeeper local up --zones 3 --bookies-per-zone 2")
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
@click.option(
    "--autorecovery",
    type=click.IntRange(min=0),
    help="Processes that judge zones and repair; they stand in the zones by turns.  "
    f"{_DEFAULT.format(_STANDARD.autorecovery)}",
)
@click.option(
    "--zookeeper/--no-zookeeper",
    default=None,
    help="Keep the metadata in a ZooKeeper server (needs Java and pyspark), not in a file.  "
    f"{_DEFAULT.format('--no-zookeeper')}",
)
@click.option(
    "--timers",
    type=click.Choice(Timers, case_sensitive=False),
    help="The durations in the policy: of production, or so short that one can watch.  "
    f"{_DEFAULT.format(_STANDARD.timers)}",
)
@click.option(
    "--tls/--plaintext",
    default=None,
    help="Make certificates: bookies serve over TLS only, and hold callers to their roles. "
    f"Or serve plain text, to whoever reaches them.  {_DEFAULT.format('--tls')}",
)
@options.QUIET
@options.OUTPUT
def up(folder: Path, output: str, quiet: bool, **given: Unpack[_Given]) -> None:
    """Start the cluster: everything that does not run.

    All or nothing: if one process does not come up, those started with it are stopped again.
    """
    # A field that is not None has the type that Asked declares.
    asked = cast("Asked", {name: value for name, value in given.items() if value is not None})
    cluster = _cluster(folder)
    started = _run(_shown(cluster, cluster.up(asked), quiet=quiet))
    found = _run(cluster.status())
    lines = [
        _listed(started, "started", "everything runs already"),
        f"metadata: {found.metadata}",
        f"for all other commands and for clients: {_exported(cluster.environment)}",
        local_text.encryption(found.state),
    ]
    if found.state.shape.timers is Timers.SHORT:
        lines.append(f"{local_text.SHORT_TIMERS}; made with --timers production, they are not")
    _answer(output, "\n".join(lines), {"started": started, "metadata": found.metadata})


@local.command(epilog="Example: zonekeeper local status")
@_FOLDER
@options.OUTPUT
def status(folder: Path, output: str) -> None:
    """Show bookies, zones, autorecovery processes, and how many ledgers wait for repair."""
    found = _run(_cluster(folder).status())
    if output == "json":
        _print_json(local_text.plain(found))
    else:
        local_text.show(found)


@local.command(epilog="Example: zonekeeper local env")
@_FOLDER
@options.OUTPUT
def env(folder: Path, output: str) -> None:
    """Print the line that tells a shell where the cluster is: eval "$(zonekeeper local env)".

    Other commands, and programs that read ZONEKEEPER_METADATA, then need no address. With
    --zookeeper the line also names the certificate of commands, which no file is beside.
    """
    try:
        found = _cluster(folder).environment
    except BadRequestError as error:
        raise exits.of(error) from None
    _answer(output, _exported(found), dict(found))


@local.command("kill-bookie", epilog="Example: zonekeeper local kill-bookie bk-a-0")
@click.argument("bookie")
@_FOLDER
@options.OUTPUT
def kill_bookie(bookie: str, folder: Path, output: str) -> None:
    """Kill BOOKIE at once (kill -9). `up` starts it again."""
    _run(_cluster(folder).kill(BookieId(bookie)))
    _answer(output, f"killed {bookie}", {"killed": [bookie]})


@local.command("kill-autorecovery", epilog="Example: zonekeeper local kill-autorecovery auto-0")
@click.argument("name")
@_FOLDER
@options.OUTPUT
def kill_autorecovery(name: str, folder: Path, output: str) -> None:
    """Kill the autorecovery process NAME at once (kill -9). `up` starts it again.

    If it was auditor or zone watch, another process takes over when its session has run out.
    """
    _run(_cluster(folder).kill_autorecovery(BookieId(name)))
    _answer(output, f"killed {name}", {"killed": [name]})


@local.command("kill-zone", epilog="Example: zonekeeper local kill-zone b")
@click.argument("zone")
@_FOLDER
@options.OUTPUT
def kill_zone(zone: str, folder: Path, output: str) -> None:
    """Kill all that runs in ZONE at once. `restore-zone` starts it again."""
    killed = _run(_cluster(folder).kill_zone(ZoneName(zone)))
    _answer(output, f"killed {', '.join(killed)}", {"killed": killed})


@local.command("restore-zone", epilog="Example: zonekeeper local restore-zone b")
@click.argument("zone")
@_FOLDER
@options.QUIET
@options.OUTPUT
def restore_zone(zone: str, folder: Path, output: str, quiet: bool) -> None:
    """Start all of ZONE that does not run.

    A bookie that was just killed waits until its former session has run out: some seconds.
    """
    cluster = _cluster(folder)
    started = _run(_shown(cluster, cluster.restore(ZoneName(zone)), quiet=quiet))
    text = _listed(started, "started", f"all of zone {zone} runs already")
    _answer(output, text, {"started": started})


@local.command("partition-zone", epilog="Example: zonekeeper local partition-zone b")
@click.argument("zone")
@_FOLDER
@options.OUTPUT
def partition_zone(zone: str, folder: Path, output: str) -> None:
    """Cut ZONE off: its processes live, and no other process hears of them. `heal-zone` ends it.

    The processes are frozen (SIGSTOP), because only root can cut a network. To all other processes
    it looks the same: there are no answers, and sessions run out. The frozen processes notice it
    only when they go on.
    """
    hit = _run(_cluster(folder).partition(ZoneName(zone)))
    _answer(output, f"cut off {', '.join(hit)}", {"cutOff": hit})


@local.command("heal-zone", epilog="Example: zonekeeper local heal-zone b")
@click.argument("zone")
@_FOLDER
@options.OUTPUT
def heal_zone(zone: str, folder: Path, output: str) -> None:
    """Let a ZONE that was cut off go on. Its sessions are over, so its bookies register again."""
    hit = _run(_cluster(folder).heal(ZoneName(zone)))
    _answer(output, f"goes on: {', '.join(hit)}", {"healed": hit})


@local.command(epilog="Example: zonekeeper local down")
@_FOLDER
@click.option("--purge", is_flag=True, help="Also remove all data of the cluster.")
@options.OUTPUT
def down(folder: Path, purge: bool, output: str) -> None:
    """Stop all processes in order. Their data stays, for the next `up`."""
    stopped = _run(_cluster(folder).down(purge=purge))
    text = _listed(stopped, "stopped", "nothing ran")
    if purge:
        text += "; everything is removed"
    _answer(output, text, {"stopped": stopped, "purged": purge})


@local.command("demo", epilog="Example: zonekeeper local demo --folder demo")
@click.option(
    "--folder",
    type=click.Path(path_type=Path),
    help="Keep the cluster there, to look at afterwards: a new folder.  "
    "[default: a temporary folder]",
)
@click.option(
    "--tls/--plaintext",
    default=_STANDARD.tls,
    help="Bookies serve over TLS only, and plain text is tried at each of them. Or all of it is "
    "plain text.  [default: --tls]",
)
@options.OUTPUT
def demo_command(folder: Path | None, tls: bool, output: str) -> None:
    """Show a cluster that loses a bookie, a zone for a while, and a zone for good.

    It takes less than two minutes. The exit code is 0 only if every promise was seen to hold: every
    acknowledged entry is read back byte for byte, nothing was copied while repair was held, and all
    copies are there again in the end. No process is left running, however the command ends.
    """
    logging.getLogger("zonekeeper").setLevel(logging.CRITICAL)  # the story tells what happens
    console = Console(highlight=False, stderr=output == "json")
    with _place(folder) as place:
        with demo_screen.opened(console, time.perf_counter) as screen:
            played = demo.run(_cluster(place), screen, demo_story.DemoPace(), tls=tls)
            summary = _run(played)
        screen.summary(summary)
        if output == "json":
            _print_json(summary.plain())
        if not summary.kept:
            raise click.ClickException(
                "a promise of the demonstration did not hold: the lines above say which"
            )


@contextlib.contextmanager
def _place(folder: Path | None) -> Iterator[Path]:
    """Give the folder, or a temporary one; a temporary one stays only after exit code 1.

    Its logs then show the cause.
    """
    if folder is not None:
        yield folder
        return
    made = Path(tempfile.mkdtemp(prefix="zonekeeper-demo-"))
    failed = False
    try:
        yield made
    except click.ClickException as failure:
        failed = failure.exit_code == exits.NOT
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
        raise exits.of(error) from None


async def _shown(cluster: LocalCluster, start: Coroutine[None, None, _T], *, quiet: bool) -> _T:
    """Start processes, and show how many are ready."""
    async with progressing.shown(quiet=quiet) as progress:
        cluster.tell = progress.tell
        return await start


def _run(work: Coroutine[None, None, _T]) -> _T:
    try:
        return local_running.run(work, lambda: click.echo("stopping what was started", err=True))
    except (Trouble, OSError) as error:
        raise exits.of(error) from None
    except local_running.InterruptedWorkError:
        sys.exit(exits.INTERRUPTED)


def _exported(environment: Mapping[str, str]) -> str:
    """Give the line of a shell that names the cluster to what is started from it."""
    said = " ".join(f"{name}={shlex.quote(value)}" for name, value in environment.items())
    return f"export {said}"


def _listed(names: Sequence[BookieId], done: str, nobody: str) -> str:
    return f"{done} {', '.join(names)}" if names else nobody


def _answer(output: str, text: str, data: dict[str, object]) -> None:
    if output == "json":
        _print_json(data)
    else:
        click.echo(text)


def _print_json(data: dict[str, object]) -> None:
    click.echo(json.dumps(data, indent=2, sort_keys=True))
