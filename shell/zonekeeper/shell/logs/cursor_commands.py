"""``zonekeeper log cursors`` and ``log cursor``: consumers' positions in a log.

``cursors``, and ``read`` or ``tail`` with ``--cursor``, look at a cursor and disturb no consumer.
``--move``, ``seek`` and ``delete`` take the cursor from the consumer that has it.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass

import click
from rich import box
from rich.table import Table

from zonekeeper.log.api.log_client import LogClient
from zonekeeper.log.api.log_cursor import LogCursor
from zonekeeper.log.api.log_reader import LogReader
from zonekeeper.metadata.commands.exits import RefusedCommand
from zonekeeper.metadata.formats.message_ids import MessageId
from zonekeeper.metadata.logs import log_cursor
from zonekeeper.metadata.logs.log_cursors import NoCursorError
from zonekeeper.placement.base.troubles import Trouble
from zonekeeper.shell.logs import log_access, log_places, log_text, noting
from zonekeeper.shell.logs.log_access import LogAccess
from zonekeeper.shell.logs.log_options import NAME
from zonekeeper.shell.logs.log_places import LogEdge, LogPlace, PlaceParameter
from zonekeeper.shell.logs.log_text import SeenCursors
from zonekeeper.shell.reaching import reaching
from zonekeeper.shell.reaching.reaching import Place

_CURSOR = click.argument("cursor_name", metavar="CURSOR")


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenCursor:
    """The cursor that a command reads from; ``moves``: it is moved behind what was written."""

    name: str
    moves: bool


def from_cursor(command: Callable[..., None]) -> Callable[..., None]:
    """Add ``--cursor`` and ``--move``; the command gets them as ``given``."""

    @functools.wraps(command)
    def called(*, cursor_name: str | None, moves: bool, **rest: object) -> None:
        if moves and cursor_name is None:
            raise RefusedCommand("--move moves a cursor: name it with --cursor")
        given = None if cursor_name is None else GivenCursor(name=cursor_name, moves=moves)
        command(given=given, **rest)

    at = "Begin where this cursor stands; its consumer is not disturbed."
    move = "Take the cursor, or make it, and move it behind what was written."
    with_cursor: Callable[..., None] = called
    for option in (
        click.option("--move", "moves", is_flag=True, help=move),
        click.option("--cursor", "cursor_name", metavar="CURSOR", help=at),
    ):
        with_cursor = option(with_cursor)
    return with_cursor


def check(given: GivenCursor | None, first: LogPlace | None) -> None:
    """Refuse a cursor together with another place to begin at."""
    if given is not None and first is not None:
        raise RefusedCommand("--cursor and --from are given: give one of them")


async def held(client: LogClient, name: str, given: GivenCursor) -> LogCursor:
    """Give a cursor to read from; one that is to be moved is taken, and made if there is none."""
    log_cursor.check_name(given.name)
    if given.moves:
        return await client.cursor(name, given.name, address=log_access.address("log read --move"))
    mark = (await client.cursors(name)).get(given.name)
    if mark is None:
        raise NoCursorError(
            f"log {name} has no cursor {given.name}: see `zonekeeper log cursors`; --move makes one"
        )
    return LogCursor(
        client.client, name, given.name, mark, reaching.wall_ms, client.figures.readers
    )


@click.command(epilog="Example: zonekeeper log cursors orders/eu-1")
@NAME
@log_access.with_access
@reaching.on_cluster
def cursors(name: str, place: Place, access: LogAccess) -> None:
    """List the cursors of LOG: where each stands, how far behind, and whose it is."""
    seen = reaching.run(_look(place, access, name))
    if place.as_json:
        reaching.print_json(log_text.plain_cursors(seen))
        return
    if not seen.marks:
        click.echo(f"log {name} has no cursor")
        return
    table = Table(box=box.SIMPLE)
    for title in log_text.CURSOR_TITLES:
        table.add_column(title)
    for row in log_text.cursor_rows(seen):
        table.add_row(*row)
    reaching.console().print(table)


@click.group()
def cursor() -> None:
    """Set and delete cursors of logs."""


@cursor.command(epilog="Example: zonekeeper log cursor seek orders/eu-1 billing --to 204")
@NAME
@_CURSOR
@click.option(
    "--to",
    "to",
    type=PlaceParameter(*LogEdge),
    required=True,
    metavar="PLACE",
    help="The message that is read next: earliest, latest, an id, a sequence or a time.",
)
@reaching.YES
@reaching.DRY_RUN
@log_access.with_access
@reaching.on_cluster
def seek(  # noqa: PLR0913 each is an option
    name: str,
    cursor_name: str,
    *,
    to: LogPlace,
    yes: bool,
    dry_run: bool,
    place: Place,
    access: LogAccess,
) -> None:
    """Set CURSOR of LOG to a message. Its consumer hears so, and has to open it again."""
    before = reaching.run(_stands(place, access, name, cursor_name))
    if dry_run:
        sequence = reaching.run(_sequence_of(place, access, name, to))
    else:
        reaching.confirm(
            f"Cursor {cursor_name} is at message {before}. Take it from its consumer?", yes=yes
        )
        sequence = reaching.run(_seek(place, access, name, cursor_name, to))
    with reaching.answering("nothing was changed" if dry_run else f"it is at message {sequence}"):
        if place.as_json:
            reaching.print_json(
                {"log": name, "cursor": cursor_name, "sequence": sequence, "dryRun": dry_run}
            )
        else:
            is_there = f"would go from message {before} to" if dry_run else "is at message"
            click.echo(f"log {name}: cursor {cursor_name} {is_there} {sequence}")


@cursor.command(epilog="Example: zonekeeper log cursor delete orders/eu-1 billing --dry-run")
@NAME
@_CURSOR
@reaching.YES
@reaching.DRY_RUN
@log_access.with_access
@reaching.on_cluster
def delete(
    name: str, cursor_name: str, yes: bool, dry_run: bool, place: Place, access: LogAccess
) -> None:
    """Delete CURSOR of LOG, also if a consumer has it. Retention waits for it no more."""
    at = reaching.run(_stands(place, access, name, cursor_name))
    text = f"cursor {cursor_name} of log {name}, at message {at}"
    if not dry_run:
        reaching.confirm(f"Delete {text}?", yes=yes)
        reaching.run(_delete(place, access, name, cursor_name))
    with reaching.answering("nothing was deleted" if dry_run else f"deleted {text}"):
        if place.as_json:
            reaching.print_json(
                {"log": name, "cursor": cursor_name, "sequence": at, "dryRun": dry_run}
            )
        else:
            click.echo(f"{'would delete' if dry_run else 'deleted'} {text}")


async def _look(place: Place, access: LogAccess, name: str) -> SeenCursors:
    async with log_access.connected(place, access) as client, log_access.there(place, client, name):
        marks = await client.cursors(name)
        noting.used(place, client, name, marks)
        try:
            end = await client.reader(name).end() if marks else None
        except Trouble as error:  # positions are known all the same
            reaching.tell(f"the end of log {name} is unknown: {error}")
            end = None
        return SeenCursors(name=name, end=end, marks=marks, now_ms=reaching.wall_ms())


async def _stands(place: Place, access: LogAccess, name: str, cursor_name: str) -> int:
    async with log_access.connected(place, access) as client, log_access.there(place, client, name):
        given = GivenCursor(name=cursor_name, moves=False)
        return (await held(client, name, given)).sequence


async def _sequence_of(place: Place, access: LogAccess, name: str, to: LogPlace) -> int:
    async with log_access.connected(place, access) as client, log_access.there(place, client, name):
        reader = client.reader(name)
        match found := await log_places.found_at(reader, to):
            case LogEdge.EARLIEST:
                return (await client.record(name)).start_sequence
            case LogEdge.LATEST:
                return await reader.end()
            case MessageId():
                return await reader.sequence_of(found)


async def _seek(place: Place, access: LogAccess, name: str, cursor_name: str, to: LogPlace) -> int:
    async with log_access.connected(place, access) as client, log_access.there(place, client, name):
        # The place is looked up before the cursor is taken: a wrong one changes nothing.
        found = await log_places.found_at(client.reader(name), to)
        address = log_access.address("log cursor seek")
        opened = await client.cursor(name, cursor_name, address=address)
        await set_to(opened, client.reader(name), to, found)
        return opened.sequence


async def set_to(
    opened: LogCursor, reader: LogReader, to: LogPlace, found: LogEdge | MessageId
) -> None:
    """Set a cursor to a place that was found.

    The end of the log may have gone on since a time or a sequence was found to be behind it. Then
    the place is a message by now, and is looked up once more.
    """
    match found:
        case LogEdge.EARLIEST:
            await opened.seek_earliest()
        case MessageId():
            await opened.seek(found)
        case LogEdge.LATEST:
            await opened.seek_end()
            if to is LogEdge.LATEST:
                return
            again = await log_places.found_at(reader, to)
            if again is not LogEdge.LATEST:
                await set_to(opened, reader, to, again)


async def _delete(place: Place, access: LogAccess, name: str, cursor_name: str) -> None:
    async with (
        log_access.connected(place, access, lasting=True) as client,
        log_access.there(place, client, name),
    ):
        await client.delete_cursor(name, cursor_name)
        noting.cursor_gone(place, client, name, cursor_name)
