"""Shared by commands on a live cluster: address options, the person, errors, and answers.

An answer goes to standard output; errors and progress go to standard error. The exit codes are
those of ``metadata.commands.exits``.
"""

import asyncio
import errno
import functools
import getpass
import json
import logging
import os
import random
import signal
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from types import FrameType
from typing import Final, TypeVar

import click
from rich.console import Console

from zonekeeper.client.base import errors as client_errors
from zonekeeper.metadata.cluster import policy_store
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.commands import exits, opening, options
from zonekeeper.metadata.commands.exits import INTERRUPTED, RefusedCommand
from zonekeeper.metadata.store.background import alongside
from zonekeeper.metadata.store.errors import StoreUnavailableError
from zonekeeper.placement.base.troubles import Refusal
from zonekeeper.placement.zones.gate import Person
from zonekeeper.replication.view.alerts import Chronicle
from zonekeeper.replication.view.view import View
from zonekeeper.shell.reaching import endpoints

_T = TypeVar("_T")

#: The width of a table without a terminal: longer than any row.
_LINE_CHARS: Final = 4_000
#: Every table can be drawn in this width.
_TABLE_CHARS: Final = 80
#: The records of a cluster that answers are read within this time.
SEEN_TIMEOUT_MS: Final = 20_000


def _user() -> str:
    """Name the user; in a container there may be none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"


_BY: Final = click.option(
    "--by",
    "name",
    default=_user,
    show_default="the user's name",
    metavar="NAME",
    help="The person's name, for the timeline.",
)
_WHY: Final = "The reason, for the timeline and for the next person on call."
#: The reason of a dry run for which none is given.
_NOTHING_IS_DONE: Final = "a dry run"
YES: Final = options.YES
DRY_RUN: Final = options.DRY_RUN


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The cluster that is meant, and the form of the answer."""

    address: str
    cluster_id: str | None
    as_json: bool


def on_cluster(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that name a cluster; the command gets them as ``place``."""

    @functools.wraps(command)
    def called(*, address: str, cluster_id: str | None, output: str, **rest: object) -> None:
        place = Place(address=address, cluster_id=cluster_id, as_json=output == "json")
        command(place=place, **rest)

    return options.METADATA(options.CLUSTER_ID(options.OUTPUT(called)))


def by_person(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options for the person and the reason; the command gets them as ``who``."""

    @functools.wraps(command)
    def called(*, name: str, reason: str, **rest: object) -> None:
        command(who=_person(name, reason), **rest)

    return click.option("--reason", required=True, metavar="TEXT", help=_WHY)(_BY(called))


def by_person_or_dry_run(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options for the person and the reason, and ``--dry-run``, which needs no reason.

    A dry run writes nothing, so its reason stands nowhere.
    """

    @functools.wraps(command)
    def called(*, name: str, reason: str | None, dry_run: bool, **rest: object) -> None:
        if reason is None and not dry_run:
            raise click.MissingParameter(param_type="option", param_hint="'--reason'")
        reason = _NOTHING_IS_DONE if reason is None else reason
        command(who=_person(name, reason), dry_run=dry_run, **rest)

    why = f"{_WHY}  [required; not with --dry-run]"
    return click.option("--reason", metavar="TEXT", help=why)(_BY(options.DRY_RUN(called)))


def _person(name: str, reason: str) -> Person:
    who = Person(name=name, reason=reason)
    if fault := who.fault():
        raise RefusedCommand(fault)
    return who


@contextmanager
def answering(done: str) -> Iterator[None]:
    """Write an answer in the block; if that fails, the error says that the work is done."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise click.ClickException(f"{done}; the answer cannot be written: {error}") from None


@contextmanager
def reported() -> Iterator[None]:
    """Turn the expected errors of the block into a message and an exit code."""
    with exits.reported():
        try:
            yield
        except client_errors.ClientError as error:
            # The store's own error says more than what the client says of it.
            raise (error.__cause__ if isinstance(error.__cause__, Refusal) else error) from None


def run(work: Coroutine[None, None, _T]) -> _T:
    """Run a command's work."""
    # A person reads the error message. What libraries log is shown only where logging is set up.
    if not logging.getLogger().handlers:
        logging.getLogger().addHandler(logging.NullHandler())
    try:
        with reported():
            return asyncio.run(_interruptible(work))
    except KeyboardInterrupt:
        click.echo("interrupted", err=True)
        sys.exit(INTERRUPTED)


async def _interruptible(work: Coroutine[None, None, _T]) -> _T:
    """Let a first interruption end the work in order, and a second one the process at once.

    Otherwise a second interruption would stop the loop while it shuts down, and asyncio would print
    pages of complaints about the tasks that are left.
    """
    first = signal.getsignal(signal.SIGINT)
    if not callable(first) or threading.current_thread() is not threading.main_thread():
        return await work  # SIGINT is ignored, or this thread may not handle it

    def heard(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
        first(number, frame)

    signal.signal(signal.SIGINT, heard)
    try:
        return await work
    finally:
        if signal.getsignal(signal.SIGINT) is heard:
            signal.signal(signal.SIGINT, first)


@asynccontextmanager
async def opened(place: Place) -> AsyncIterator[Cluster]:
    """Open the cluster at an address; refuse another cluster than the one that is meant."""
    async with opening.opened_cluster(place.address) as cluster:
        check(cluster, place)
        await endpoints.note(cluster, place.address, wall_ms())
        yield cluster


@asynccontextmanager
async def seen(cluster: Cluster) -> AsyncIterator[View]:
    """Give a view of a cluster's records and bookies; it is kept up to date in the block."""
    if await policy_store.read(cluster) is None:
        raise RefusedCommand(
            f"{cluster} has no policy: set one with `zonekeeper policy set`, or apply its "
            "BookieCluster resource"
        )
    view = View(cluster)
    async with alongside(view.follow()):
        try:
            async with asyncio.timeout(SEEN_TIMEOUT_MS / 1000), opening.attended(cluster.store):
                await view.known()
        except StoreUnavailableError as error:
            why = f"it was there, and stopped answering: {error}"
            raise opening.StoreAwayError(why) from error
        except TimeoutError:
            raise click.ClickException(
                f"the records of {cluster} were not read in {SEEN_TIMEOUT_MS // 1000} s"
            ) from None
        yield view


def chronicle(cluster: Cluster, by: str) -> Chronicle:
    """Give the timeline, to write in it under the name ``by``."""
    return Chronicle(cluster, by=by, chance=random.SystemRandom(), wall_ms=wall_ms)


def wall_ms() -> int:
    """Give the wall-clock time."""
    return time.time_ns() // 1_000_000


def tell(text: str) -> None:
    """Write a line to standard error; a failure to write it is ignored."""
    with suppress(OSError):
        click.echo(text, err=True)


def print_json(data: object) -> None:
    """Print an answer as JSON."""
    click.echo(json.dumps(data, indent=2, sort_keys=True))


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Raise ``BrokenPipeError``, so that callers can tell it from a failure."""
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


def console(*, stderr: bool = False) -> Console:
    """Give the console for tables; without a terminal a row is one line, however long.

    On a terminal that is too narrow for a table, lines are wrapped: no column is left out.
    """
    out = sys.stderr if stderr else sys.stdout
    if not (out is not None and out.isatty()) and "COLUMNS" not in os.environ:
        return _Console(highlight=False, stderr=stderr, width=_LINE_CHARS)
    drawn = _Console(highlight=False, stderr=stderr)
    drawn.width = max(drawn.width, _TABLE_CHARS)
    return drawn


def confirm(question: str, *, yes: bool) -> None:
    """Ask before a change that cannot be undone; without a terminal ``yes`` is required."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise RefusedCommand(
            "no terminal, so no question can be asked: repeat with --yes, or look with --dry-run"
        )
    with _interruptions_heard_at_once():
        click.confirm(question, abort=True, err=True)


@contextmanager
def _interruptions_heard_at_once() -> Iterator[None]:
    """Let an interruption end a question at once; an event loop would see it after the answer."""
    former = signal.getsignal(signal.SIGINT)
    if not callable(former) or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, former)


def check(cluster: Cluster, place: Place) -> None:
    """Refuse another cluster than the one that is meant."""
    if place.cluster_id is not None and place.cluster_id != cluster.instance:
        raise RefusedCommand(f"this is another cluster: {cluster}, and not {place.cluster_id}")
