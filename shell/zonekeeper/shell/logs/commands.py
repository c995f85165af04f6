"""``zonekeeper log``: create, write, read, follow, trim and delete logs from the command line.

A log outlives its writers, and has one writer at a time. So ``append`` takes the log from the
writer that has it, and asks first if the log was not closed. ``read``, ``tail`` and ``show``
disturb no writer.

Exit code 2: the request is wrong, and nothing was changed; 1: the command failed. An error that
ends ``append`` after it took the log gives 1, and the message says how much was acknowledged.
"""

import asyncio
import json
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress

import click
from rich import box
from rich.table import Table

from zonekeeper.log.formats import batches
from zonekeeper.log.formats.messages import LogMessage
from zonekeeper.metadata.commands import exits
from zonekeeper.metadata.commands.exits import RefusedCommand
from zonekeeper.metadata.formats.log_record import LogRecord, LogRules
from zonekeeper.metadata.logs.logs import NoLogError
from zonekeeper.placement.base.ids import LedgerId
from zonekeeper.placement.base.troubles import Refusal, Trouble
from zonekeeper.shell.commands import ledger_options, ledger_waiting
from zonekeeper.shell.logs import (
    cursor_commands,
    log_access,
    log_options,
    log_text,
    log_work,
    noting,
    rebuild_command,
    standby_commands,
)
from zonekeeper.shell.logs.cursor_commands import GivenCursor
from zonekeeper.shell.logs.log_access import LogAccess
from zonekeeper.shell.logs.log_options import NAME, GivenMessages, GivenRules, Shown
from zonekeeper.shell.logs.log_places import LogEdge, LogPlace, PlaceParameter
from zonekeeper.shell.logs.log_text import SeenLog
from zonekeeper.shell.logs.log_work import LogAppended
from zonekeeper.shell.logs.message_io import MessageForm, MessageGiver
from zonekeeper.shell.reaching import reaching
from zonekeeper.shell.reaching.reaching import Place
from zonekeeper.shell.reports import ledger_io


@click.group()
def log() -> None:
    """Write, read, follow, trim and delete logs."""


log.add_command(cursor_commands.cursors)
log.add_command(cursor_commands.cursor)
log.add_command(rebuild_command.rebuild)
log.add_command(standby_commands.candidates)
log.add_command(standby_commands.handover)


@log.command(epilog="Example: zonekeeper log create orders/eu-1 --rotate-bytes 256MiB")
@NAME
@log_options.rules
@reaching.on_cluster
def create(name: str, rules: GivenRules, place: Place) -> None:
    """Make LOG, without messages. A name has parts, as orders/eu-1."""
    reaching.run(_create(place, name, rules))
    with reaching.answering(f"log {name} is made"):
        if place.as_json:
            reaching.print_json({"log": name})
        else:
            click.echo(f"log {name}: created")


@log.command("set", epilog="Example: zonekeeper log set orders/eu-1 --rotate-after 1h")
@NAME
@log_options.rules
@click.option(
    "--default",
    "unset",
    multiple=True,
    type=click.Choice([*log_options.RULE_OPTIONS.values()]),
    help="Set this rule back to its default; may be given several times.",
)
@reaching.on_cluster
def set_command(name: str, rules: GivenRules, unset: tuple[str, ...], place: Place) -> None:
    """Change rules of LOG. Its writer follows them from its next ledger on."""
    cleared = log_options.defaults(unset)
    if both := sorted(cleared.keys() & rules.given.keys()):
        option = log_options.RULE_OPTIONS[both[0]]
        raise RefusedCommand(f"--{option} is given, and --default {option}: give one of them")
    if not cleared and not rules.given:
        raise RefusedCommand("no rule is given: see --help; `zonekeeper log show` shows the rules")
    seen = reaching.run(_set(place, name, GivenRules(given={**rules.given, **cleared})))
    with reaching.answering(f"the rules of log {name} are set"):
        _answer_seen(place, seen)


@log.command(epilog="Example: zonekeeper log append orders/eu-1 app.log")
@NAME
@log_options.given_messages
@reaching.YES
@reaching.DRY_RUN
@log_access.with_access
@reaching.on_cluster
def append(
    name: str,
    given: GivenMessages,
    yes: bool,
    dry_run: bool,
    place: Place,
    access: LogAccess,
) -> None:
    """Append FILE (default: standard input) to LOG, a message a line.

    The log is taken from the writer that has it, which gets no acknowledgement any more; the
    command asks first if the log was not closed. The end of the command closes the log.
    """
    portions = _portions(given)
    before = reaching.run(_look(place, name, access))
    if before.record.unended and not dry_run:
        reaching.confirm(f"Log {name} is open. Take it from its writer?", yes=yes)
    if dry_run:
        taken = "; it would be taken from its writer" if before.record.unended else ""
        _answer_seen(place, before, note=f"nothing was appended{taken}")
        return
    appended = LogAppended(name=name)
    reaching.run(_append(place, access, appended, portions))
    text = f"log {name}: {log_text.counted(appended.count, 'message')}"
    if appended.last_id is not None:
        text += f" from sequence {appended.first}, the last is {appended.last_id}"
    with reaching.answering(text):
        if place.as_json:
            reaching.print_json(
                {
                    "log": name,
                    "messages": appended.count,
                    "firstSequence": appended.first if appended.count else None,
                    "lastId": None if appended.last_id is None else str(appended.last_id),
                }
            )
        else:
            click.echo(text)


@log.command(epilog="Example: zonekeeper log read orders/eu-1 --from 204 --max 10")
@NAME
@click.option(
    "--from",
    "first",
    type=PlaceParameter(LogEdge.EARLIEST),
    metavar="PLACE",
    help="The first message: an id (17:204:3), a sequence (204) or a time in ISO 8601.  "
    "[default: earliest]",
)
@click.option(
    "--to",
    "last",
    type=PlaceParameter(),
    metavar="PLACE",
    help="The last message, in the same forms.  [default: the end]",
)
@cursor_commands.from_cursor
@log_options.shown
@log_access.with_access
@reaching.on_cluster
def read(  # noqa: PLR0913 each is an option
    *,
    name: str,
    first: LogPlace | None,
    last: LogPlace | None,
    given: GivenCursor | None,
    shown: Shown,
    place: Place,
    access: LogAccess,
) -> None:
    """Write messages of LOG to standard output, up to its end as it is now.

    This does not disturb its writer. As JSON each message is a line, with its payload in base64.
    """
    cursor_commands.check(given, first)
    first = LogEdge.EARLIEST if first is None else first
    wanted = log_work.WantedMessages(first=first, last=last, most=shown.most)
    reaching.run(_give(place, access, name, shown, wanted, given, follow=False))


@log.command(epilog="Example: zonekeeper log tail orders/eu-1 --from earliest")
@NAME
@click.option(
    "--from",
    "first",
    type=PlaceParameter(*LogEdge),
    metavar="PLACE",
    help="The first message: earliest, latest, an id, a sequence or a time.  [default: latest]",
)
@cursor_commands.from_cursor
@log_options.shown
@log_access.with_access
@reaching.on_cluster
def tail(
    name: str,
    first: LogPlace | None,
    given: GivenCursor | None,
    shown: Shown,
    place: Place,
    access: LogAccess,
) -> None:
    """Follow LOG over its writers: messages come as they are confirmed, until interrupted.

    A failed request is made again. Standard error says why no message comes.
    """
    cursor_commands.check(given, first)
    wanted = log_work.WantedMessages(first=first or LogEdge.LATEST, most=shown.most)
    reaching.run(_give(place, access, name, shown, wanted, given, follow=True))


@log.command(epilog="Example: zonekeeper log show orders/eu-1 --all")
@NAME
@click.option("--all", "every", is_flag=True, help="Also the ledgers in pages, which are older.")
@log_access.with_access
@reaching.on_cluster
def show(name: str, every: bool, place: Place, access: LogAccess) -> None:
    """Show LOG: its state, writer, start, end, rules, and its newest ledgers.

    With a wrong password its end is unknown while it is open.
    """
    seen = reaching.run(_look(place, name, access, every=every))
    if seen.wrong_password:
        tried = ledger_options.password_tried(access.password_file)
        reaching.tell(
            f"the open ledger of log {name} has another password, so the log's end is unknown; "
            f"{tried}"
        )
    _answer_seen(place, seen, with_ledgers=True)


@log.command("list", epilog="Example: zonekeeper log list orders --long")
@click.argument("namespace", metavar="[NAMESPACE]", required=False)
@click.option("--long", "-l", "is_long", is_flag=True, help="Read the record of each, too.")
@reaching.on_cluster
def list_command(namespace: str | None, is_long: bool, place: Place) -> None:
    """List the logs of NAMESPACE, or all logs, one a line."""
    reaching.run(_list(place, namespace, is_long=is_long))


@log.command(epilog="Example: zonekeeper log trim orders/eu-1 --to 204 --dry-run")
@NAME
@click.option(
    "--to",
    "to",
    type=PlaceParameter(),
    required=True,
    metavar="PLACE",
    help="The first message that stays: an id, a sequence or a time.",
)
@reaching.YES
@reaching.DRY_RUN
@log_access.with_access
@reaching.on_cluster
def trim(
    name: str, to: LogPlace, yes: bool, dry_run: bool, place: Place, access: LogAccess
) -> None:
    """Forget the messages of LOG before one, and delete the ledgers that have only such messages.

    If the command is interrupted, give it again.
    """
    start, sequence, ledgers = reaching.run(_look_at_trim(place, access, name, to))
    many = log_text.counted(sequence - start, "message")
    text = f"{many} of log {name} and {log_text.counted(len(ledgers), 'ledger')}"
    if not dry_run:
        if sequence > start:
            reaching.tell(text)
            reaching.confirm("Trimmed messages cannot be restored. Trim them?", yes=yes)
        reaching.run(_trim(place, access, name, sequence))
    with reaching.answering("nothing was trimmed" if dry_run else f"trimmed {text}"):
        if place.as_json:
            reaching.print_json(
                {
                    "log": name,
                    "startSequence": start if dry_run else sequence,
                    "messages": sequence - start,
                    "ledgers": ledgers,
                    "dryRun": dry_run,
                }
            )
        else:
            click.echo(f"{'would trim' if dry_run else 'trimmed'} {text}")


@log.command(epilog="Example: zonekeeper log delete orders/eu-1 --dry-run")
@NAME
@reaching.YES
@reaching.DRY_RUN
@reaching.on_cluster
def delete(name: str, yes: bool, dry_run: bool, place: Place) -> None:
    """Delete LOG with all of its messages, also if it has a writer.

    If the command is interrupted, give it again.
    """
    record, ledgers = reaching.run(_look_at_deletion(place, name))
    text = f"log {name} ({log_text.state(record)}) with {log_text.counted(len(ledgers), 'ledger')}"
    if not dry_run:
        reaching.tell(text)
        reaching.confirm("A deleted log cannot be restored. Delete it?", yes=yes)
        reaching.run(_delete(place, name))
    with reaching.answering("nothing was deleted" if dry_run else f"deleted {text}"):
        if place.as_json:
            reaching.print_json({"log": name, "ledgers": ledgers, "dryRun": dry_run})
        else:
            click.echo(f"{'would delete' if dry_run else 'deleted'} {text}")


def _portions(given: GivenMessages) -> AsyncGenerator[list[LogMessage], None]:
    """Give the messages that are to be appended; refuse one that is too large at once."""
    with exits.reported():
        batches.size_bytes(given.template)
    if given.is_one:
        return log_work.one(given.template)
    return log_work.messages(
        ledger_io.entries_of(given.source(), ledger_io.Lines()), given.template
    )


async def _create(place: Place, name: str, rules: GivenRules) -> None:
    async with log_access.connected(place) as client:
        policy = client.client.bookies.policy.quorums
        await client.create(name, rules.on(LogRules(), policy))
        noting.used(place, client, name)


async def _set(place: Place, name: str, rules: GivenRules) -> SeenLog:
    async with log_access.connected(place) as client, log_access.there(place, client, name):
        policy = client.client.bookies.policy.quorums
        await client.change_rules(name, lambda before: rules.on(before, policy))
        return await log_work.look(client, name, reaching.wall_ms(), every=False)


async def _look(
    place: Place, name: str, access: LogAccess | None = None, *, every: bool = False
) -> SeenLog:
    async with log_access.connected(place, access) as client, log_access.there(place, client, name):
        seen = await log_work.look(client, name, reaching.wall_ms(), every=every)
        noting.used(place, client, name, seen.cursors)
        return seen


async def _append(
    place: Place,
    access: LogAccess,
    appended: LogAppended,
    portions: AsyncGenerator[list[LogMessage], None],
) -> None:
    progress = ledger_io.ProgressLine(sys.stderr, asyncio.get_running_loop().time)
    async with log_access.connected(place, access, lasting=True) as client:
        try:
            await log_work.append(client, appended, portions, progress.show)
        except asyncio.CancelledError:
            reaching.tell(f"log {appended.name}: {appended.text()}")
            raise
        except (Trouble, OSError) as error:
            if appended.first is None:  # the log was not taken
                raise
            raise click.ClickException(
                f"{error}\nlog {appended.name}: {appended.text()}"
            ) from error
        finally:
            progress.end()


async def _give(  # noqa: PLR0913 each is one fact of the command line
    place: Place,
    access: LogAccess,
    name: str,
    shown: Shown,
    wanted: log_work.WantedMessages,
    given: GivenCursor | None,
    *,
    follow: bool,
) -> None:
    if sys.stdout is None:
        raise click.ClickException(
            "standard output is closed, so messages cannot be written: give it a file or a pipe"
        )
    form = MessageForm(as_json=place.as_json, is_long=shown.is_long, raw=shown.raw)
    giver = MessageGiver(sys.stdout.buffer, form)
    clock = asyncio.get_running_loop().time
    async with log_access.connected(place, access, lasting=True) as client:
        reader, passed = client.reader(name), None
        async with log_access.there(place, client, name):
            start, end = await log_work.bounds(reader, wanted)
            if given is None:
                many = reader.follow(start) if follow else reader.read(start)
            else:
                cursor = await cursor_commands.held(client, name, given)
                noting.cursor_used(place, client, name, given.name)
                many = cursor.follow() if follow else cursor.read()
                passed = cursor.move if given.moves else None
        limits = log_work.Limits(end=end, most=wanted.most)
        try:
            with ledger_waiting.heard(reaching.tell, clock) as trouble:
                await log_work.give(many, giver, limits, gave=trouble.over, passed=passed)
        except Refusal as error:  # the request was right: the log was changed meanwhile
            raise click.ClickException(str(error)) from None


async def _list(place: Place, namespace: str | None, *, is_long: bool) -> None:
    """Write each log as soon as it is found: there may be very many."""
    progress = ledger_io.ProgressLine(sys.stderr, asyncio.get_running_loop().time)
    shown = 0
    async with (
        log_access.connected(place) as client,
        aclosing(log_work.listed(client, namespace, is_long=is_long)) as every,
    ):
        noted = noting.NotedListing(place, client, namespace)
        async for name, record in every:
            noted.see(name)
            if place.as_json:
                plain = {"log": name} if record is None else log_text.listed_plain(name, record)
                click.echo(json.dumps(plain, sort_keys=True))
            else:
                click.echo(name if record is None else log_text.listed(name, record))
            shown += 1
            if sys.stdout is not None and not sys.stdout.isatty():
                progress.show(f"{shown} logs")
        noted.end()
    progress.end()


async def _look_at_trim(
    place: Place, access: LogAccess, name: str, to: LogPlace
) -> tuple[int, int, list[LedgerId]]:
    async with log_access.connected(place, access) as client, log_access.there(place, client, name):
        return await log_work.trimmed(client, name, to)


async def _trim(place: Place, access: LogAccess, name: str, sequence: int) -> None:
    async with (
        log_access.connected(place, access, lasting=True) as client,
        log_access.there(place, client, name),
    ):
        await client.trim(name, sequence)


async def _look_at_deletion(place: Place, name: str) -> tuple[LogRecord, list[LedgerId]]:
    async with log_access.connected(place) as client, log_access.there(place, client, name):
        record = await client.record(name)
        return record, await log_work.all_ledgers(client, name, record)


async def _delete(place: Place, name: str) -> None:
    async with log_access.connected(place, lasting=True) as client:
        with suppress(NoLogError):  # another command was faster
            await client.delete(name)
        noting.gone(place, client, name)


def _answer_seen(
    place: Place, seen: SeenLog, *, with_ledgers: bool = False, note: str | None = None
) -> None:
    if place.as_json:
        reaching.print_json(log_text.plain(seen))
        return
    console = reaching.console()
    for name, value in log_text.rows(seen):
        console.print(f"{name + ':':<10} {value}", markup=False)
    if with_ledgers and seen.ledgers:
        table = Table(box=box.SIMPLE)
        for title in log_text.LEDGER_TITLES:
            table.add_column(title)
        for ledger in seen.ledgers:
            table.add_row(*log_text.ledger_row(seen, ledger))
        console.print(table)
    if note is not None:
        click.echo(note)
