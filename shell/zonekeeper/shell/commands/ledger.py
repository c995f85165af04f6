"""``zonekeeper ledger``: write, read, follow, recover and delete ledgers from the command line.

A ledger has one writer for its whole life, and that writer is a process. So ``append`` makes a new
ledger and closes it at the end of its input. ``create`` makes a closed ledger without entries:
nothing can be appended to it later. ``read``, ``tail`` and ``show`` fence no writer.

Exit code 2: the request is wrong; 1: the command failed. An error that ends ``append`` after it
made its ledger gives 1, and the message says how much was acknowledged.
"""

import asyncio
import sys
from collections.abc import AsyncGenerator, Awaitable, Coroutine, Iterable, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import BinaryIO, Final, TypeVar

import click
from rich import box
from rich.table import Table

from zonekeeper.client.api.client import Client
from zonekeeper.client.api.reader import Reader
from zonekeeper.client.api.writer import Writer
from zonekeeper.client.base import errors
from zonekeeper.metadata.commands.exits import RefusedCommand
from zonekeeper.metadata.formats.ledger_metadata import LedgerMetadata
from zonekeeper.placement.base.digests import Digest
from zonekeeper.placement.base.ids import LedgerId
from zonekeeper.shell.commands import ledger_options, ledger_waiting
from zonekeeper.shell.commands.ledger_options import ENTRY, LEDGER, NUMBER, PASSWORD
from zonekeeper.shell.reaching import connecting, reaching
from zonekeeper.shell.reaching.reaching import Place
from zonekeeper.shell.reports import ledger_io, ledger_text
from zonekeeper.wire.formats.entries import PAYLOAD_BYTES_MAX, Entry
from zonekeeper.wire.grpc.tls import TlsFiles

_WRONG = (
    errors.NoSuchLedger,
    errors.Unauthorized,
    errors.IllegalPlacement,
    errors.TooLarge,
    errors.NoPrincipal,
)
_FIRST = click.option("--first", type=ENTRY, default=0, show_default=True, help="The first entry.")
_RAW = click.option("--raw", is_flag=True, help="Put nothing between entries.  [default: newlines]")
#: A command that ends early waits at most this long to learn what became of the ledger.
_LOOK_S: Final = 2.0
#: The most entries that ``tail`` writes at once; what a tail gives at once has a limit of its own.
_BATCH_MAX: Final = 1 << 20
Options = dict[str, object]
T = TypeVar("T")


@click.group()
def ledger() -> None:
    """Write, read, follow, recover and delete ledgers."""


@ledger.command(epilog="Example: zonekeeper ledger create --custom owner=billing")
@ledger_options.creation
@connecting.over_tls
@reaching.on_cluster
def create(place: Place, tls: TlsFiles | None, **options: object) -> None:
    """Make a closed ledger without entries; it keeps only its custom metadata.

    To write entries use `append`: only the process that made a ledger can write to it.
    """
    written = _run(_append(place, tls, options, None))
    _answer_written(place, written)


@ledger.command(epilog="Example: zonekeeper ledger append app.log")
@click.argument("file", type=ledger_options.InputParameter(), default="-")
@click.option(
    "--entry-bytes",
    type=click.IntRange(1, PAYLOAD_BYTES_MAX),
    help="Cut into entries of this size.  [default: an entry a line]",
)
@ledger_options.creation
@connecting.over_tls
@reaching.on_cluster
def append(
    file: BinaryIO, entry_bytes: int | None, place: Place, tls: TlsFiles | None, **options: object
) -> None:
    """Append FILE (default: standard input) to a new ledger, and close it.

    The number of the ledger is printed on standard error at once, so that it can be followed. If
    the command is interrupted, the ledger stays open: `recover` closes it after its last
    acknowledged entry.
    """
    cutter = ledger_io.Lines() if entry_bytes is None else ledger_io.Pieces(entry_bytes)
    written = _run(_append(place, tls, options, ledger_io.entries_of(file, cutter)))
    _answer_written(place, written)


@ledger.command(epilog="Example: zonekeeper ledger read 17 --first 100 --last 199")
@LEDGER
@_FIRST
@click.option("--last", type=ENTRY, help="The last entry.  [default: all]")
@click.option(
    "--unconfirmed", is_flag=True, help="UNSAFE: also read entries that a recovery may remove."
)
@_RAW
@PASSWORD
@connecting.over_tls
@reaching.on_cluster
def read(place: Place, tls: TlsFiles | None, raw: bool, **options: object) -> None:
    """Write the confirmed entries of LEDGER to standard output.

    This does not disturb its writer. As JSON each entry is a line, with its payload in base64.
    """
    _run(_give(place, tls, options, raw=raw, follow=False))


@ledger.command(epilog="Example: zonekeeper ledger tail 17")
@LEDGER
@_FIRST
@_RAW
@PASSWORD
@connecting.over_tls
@reaching.on_cluster
def tail(place: Place, tls: TlsFiles | None, raw: bool, **options: object) -> None:
    """Follow LEDGER until it is closed: entries come as they are confirmed.

    A failed request is made again. Standard error says why no entry comes.
    """
    _run(_give(place, tls, options, raw=raw, follow=True))


@ledger.command(epilog="Example: zonekeeper ledger recover 17 --dry-run")
@LEDGER
@PASSWORD
@ledger_options.FORCE
@reaching.YES
@reaching.DRY_RUN
@connecting.over_tls
@reaching.on_cluster
def recover(  # noqa: PLR0913 each is an option
    *,
    ledger_id: int,
    password_file: Path | None,
    force: bool,
    yes: bool,
    dry_run: bool,
    place: Place,
    tls: TlsFiles | None,
) -> None:
    """Close LEDGER after its last acknowledged entry.

    Its writer, if there is one, is fenced: it gets no more acknowledgements, and stops. A writer of
    a log goes on in another ledger. If the command is interrupted, give it again.
    """
    found, number = _run(_metadata(place, LedgerId(ledger_id))), LedgerId(ledger_id)
    if not found.is_closed and not dry_run:
        _keep_of_logs({number: found}, "recovered", force=force)
        reaching.confirm(f"Ledger {number} is open. Take it from its writer?", yes=yes)
        found = _run(_recover(place, tls, number, password_file))
    text = ledger_text.line(number, found) + ("" if found.is_closed else "; it would be recovered")
    with reaching.answering(text):
        if place.as_json:
            reaching.print_json(ledger_text.plain(number, found))
        else:
            click.echo(text)


@ledger.command(epilog="Example: zonekeeper ledger delete 17 18 --dry-run")
@click.argument("numbers", metavar="LEDGER...", nargs=-1, required=True, type=NUMBER)
@ledger_options.FORCE
@reaching.YES
@reaching.DRY_RUN
@reaching.on_cluster
def delete(numbers: tuple[int, ...], force: bool, yes: bool, dry_run: bool, place: Place) -> None:
    """Delete each LEDGER with all of its entries, also if it has a writer.

    If one of them does not exist, or is of a log, none is deleted. A command that ends half-way
    says which ledgers are left.
    """
    wanted = [LedgerId(number) for number in dict.fromkeys(numbers)]
    known = _run(_look(place, wanted))
    deleted = {number: found for number, found in known.items() if found is not None}
    missing = [number for number, found in known.items() if found is None]
    if missing:
        raise RefusedCommand(
            f"there is no ledger {', '.join(map(str, missing))}; nothing was deleted"
            + (f"; without: {ledger_text.delete_command(deleted)}" if deleted else "")
        )
    _keep_of_logs(deleted, "deleted", force=force)
    if not dry_run:
        for number, found in deleted.items():
            reaching.tell(ledger_text.line(number, found))
        reaching.confirm("Deleted ledgers cannot be restored. Delete them?", yes=yes)
        _run(_delete(place, list(deleted)))
    with reaching.answering("nothing was deleted" if dry_run else "all of them are deleted"):
        _answer_deleted(place, deleted, dry_run=dry_run)


@ledger.command("list", epilog="Example: zonekeeper ledger list --long")
@click.option("--long", "-l", "is_long", is_flag=True, help="Read the metadata of each, too.")
@reaching.on_cluster
def list_command(is_long: bool, place: Place) -> None:
    """List all ledgers in the order of their numbers, one a line."""
    _run(_list(place, is_long=is_long))


@ledger.command(epilog="Example: zonekeeper ledger show 17")
@LEDGER
@reaching.on_cluster
def show(ledger_id: int, place: Place) -> None:
    """Show the metadata of LEDGER: its state, quorums, fragments, and what else is kept with it."""
    number = LedgerId(ledger_id)
    found = _run(_metadata(place, number))
    if place.as_json:
        reaching.print_json(ledger_text.plain(number, found))
        return
    console = reaching.console()
    for name, value in ledger_text.rows(number, found):
        console.print(f"{name + ':':<10} {value}", markup=False)
    table = Table(box=box.SIMPLE)
    for title in ("from entry", "bookies"):
        table.add_column(title)
    for fragment in found.fragments:
        table.add_row(str(fragment.first_entry), ", ".join(fragment.ensemble))
    console.print(table)


def _keep_of_logs(ledgers: Mapping[LedgerId, LedgerMetadata], done: str, *, force: bool) -> None:
    """Refuse ledgers of logs: a log whose ledger is gone is damaged, and no reader passes it."""
    if not force and (said := ledger_text.of_logs(ledgers)) is not None:
        raise RefusedCommand(
            f"{said}; nothing was {done}. `zonekeeper log trim` and `log delete` delete ledgers of "
            "a log, and its next writer recovers them; --force goes on here"
        )


async def _append(
    place: Place,
    tls: TlsFiles | None,
    options: Options,
    entries: AsyncGenerator[list[bytes], None] | None,
) -> Writer:
    async with connecting.connected(place, tls, lasting=True) as client:
        writer = await _created(client, options)
        try:
            async with writer:
                if entries is not None:
                    await _fill(writer, entries)
        except asyncio.CancelledError:
            lost = await _lost(client, writer)
            sure = f"ledger {writer.ledger_id} stays open; {_how_far(writer)}"
            reaching.tell(lost or sure)
            raise
        except (errors.ClientError, OSError) as error:
            sure = f"{error}\nledger {writer.ledger_id}: {_how_far(writer)} if it is open"
            raise click.ClickException(await _lost(client, writer) or sure) from error
        return writer


async def _fill(writer: Writer, entries: AsyncGenerator[list[bytes], None]) -> None:
    reaching.tell(f"ledger {writer.ledger_id}")
    progress = ledger_io.ProgressLine(sys.stderr, asyncio.get_running_loop().time)
    try:
        async with aclosing(entries) as portions:
            while (portion := await _unless_stopped(writer, anext(portions, None))) is not None:
                await writer.append_many(portion)
                progress.show(f"{writer.last_confirmed + 1} entries are acknowledged")
        await writer.flush()
    finally:
        progress.end()


async def _unless_stopped(writer: Writer, more: Awaitable[T]) -> T:
    """Wait for more input, which may never come; raises at once what has stopped the writer.

    The writer learns of its end from the outcome of the entries that it has sent. So a flush of
    these entries is awaited beside the input.
    """
    coming, sure = asyncio.ensure_future(more), asyncio.ensure_future(writer.flush())
    try:
        await asyncio.wait({coming, sure}, return_when=asyncio.FIRST_COMPLETED)
        if sure.done():
            sure.result()
        return await coming
    finally:
        coming.cancel()
        sure.cancel()
        await asyncio.wait({coming, sure})


async def _lost(client: Client, writer: Writer) -> str | None:
    """Say that the ledger was deleted meanwhile; None: it exists, or this is not known."""
    try:
        async with asyncio.timeout(_LOOK_S):
            await client.metadata(writer.ledger_id)
    except errors.NoSuchLedger:
        return f"ledger {writer.ledger_id} was deleted: what was written to it is lost"
    except (errors.ClientError, TimeoutError):
        pass
    return None


def _how_far(writer: Writer) -> str:
    """Say how many entries are acknowledged, and which command closes the ledger."""
    sure = f"acknowledged: {ledger_text.entries(writer.last_confirmed + 1)}"
    return f"{sure}; `zonekeeper ledger recover {writer.ledger_id}` closes it"


async def _created(client: Client, options: Options) -> Writer:
    file, sizes, digest = options["password_file"], options["quorums"], options["digest"]
    pairs, owner = options["custom"], options["owner"]
    assert file is None or isinstance(file, Path)
    assert sizes is None or isinstance(sizes, tuple)
    assert isinstance(pairs, tuple)
    assert owner is None or isinstance(owner, str)
    return await client.create(
        password=ledger_options.password(file),
        quorums=ledger_options.quorums(sizes, client.bookies.policy.quorums),
        digest=None if digest is None else Digest(str(digest)),
        custom=ledger_options.custom(pairs),
        owner=ledger_options.owner(owner),
    )


async def _give(
    place: Place, tls: TlsFiles | None, options: Options, *, raw: bool, follow: bool
) -> None:
    number, file = options["ledger_id"], options["password_file"]
    assert isinstance(number, int)
    assert file is None or isinstance(file, Path)
    if sys.stdout is None:
        raise click.ClickException(
            "standard output is closed, so entries cannot be written: give it a file or a pipe"
        )
    giver = ledger_io.Giver(sys.stdout.buffer, as_json=place.as_json, raw=raw)
    clock = asyncio.get_running_loop().time
    async with connecting.connected(place, tls, lasting=True) as client:
        reader = await _opened(client, LedgerId(number), file, recover=False)
        try:
            with ledger_waiting.heard(reaching.tell, clock) as trouble:
                async with aclosing(_batches(reader, options, follow=follow)) as batches:
                    async for batch in batches:
                        trouble.over()
                        await giver.give(batch)
        except errors.BeyondEnd:
            count = ledger_text.entries(reader.last_confirmed + 1)
            raise RefusedCommand(
                f"ledger {number} has {count} that are confirmed, and --last is {options['last']}"
            ) from None
        except errors.NoSuchLedger as error:  # deleted since it was opened: the request was right
            raise click.ClickException(str(error)) from None


async def _opened(
    client: Client, number: LedgerId, password_file: Path | None, *, recover: bool
) -> Reader:
    secret = ledger_options.password(password_file)
    try:
        return await client.open(number, password=secret, recover=recover)
    except errors.Unauthorized as error:
        tried = ledger_options.password_tried(password_file)
        raise RefusedCommand(f"{error}; {tried}") from None


def _batches(
    reader: Reader, options: Options, *, follow: bool
) -> AsyncGenerator[Iterable[Entry], None]:
    first, last = options["first"], options.get("last")
    assert isinstance(first, int)
    assert last is None or isinstance(last, int)
    if last is not None and last < first:
        raise RefusedCommand(f"no entries from {first} to {last}: --last is before --first")
    if follow:
        return _followed(reader, first)
    if options["unconfirmed"]:
        return reader.read_unconfirmed(first, last)
    return reader.read(first, last)


async def _followed(reader: Reader, first: int) -> AsyncGenerator[list[Entry], None]:
    async with reader.follow(first) as tail:
        while entries := await tail.read_many(_BATCH_MAX):
            yield entries


async def _metadata(place: Place, number: LedgerId) -> LedgerMetadata:
    async with connecting.connected(place, None) as client:
        return await client.metadata(number)


async def _recover(
    place: Place, tls: TlsFiles | None, number: LedgerId, password_file: Path | None
) -> LedgerMetadata:
    async with connecting.connected(place, tls, lasting=True) as client:
        try:
            return (await _opened(client, number, password_file, recover=True)).metadata
        except asyncio.CancelledError:
            reaching.tell(
                f"ledger {number} may be in recovery now, and its writer fenced; "
                "the same command goes on, and is safe to give again"
            )
            raise


async def _look(place: Place, numbers: list[LedgerId]) -> dict[LedgerId, LedgerMetadata | None]:
    async with connecting.connected(place, None) as client:
        found: dict[LedgerId, LedgerMetadata | None] = {}
        for number in numbers:
            try:
                found[number] = await client.metadata(number)
            except errors.NoSuchLedger:
                found[number] = None
        return found


async def _delete(place: Place, numbers: list[LedgerId]) -> None:
    async with connecting.connected(place, None, lasting=True) as client:
        for before, number in enumerate(numbers):
            deleting = asyncio.ensure_future(client.delete(number, by="shell"))
            try:
                await asyncio.shield(deleting)
            except (asyncio.CancelledError, errors.ClientError):
                reaching.tell(await _deleted_so_far(numbers, before, deleting))
                raise


async def _deleted_so_far(
    numbers: list[LedgerId], before: int, deleting: "asyncio.Future[None]"
) -> str:
    """Say what is deleted: ``before`` ledgers, and one more if ``deleting`` ends soon and well."""
    await asyncio.wait({deleting}, timeout=_LOOK_S)
    if not deleting.done():
        return ledger_text.deleted_so_far(numbers, before, unknown=True)
    error = deleting.exception()
    if error is None:
        return ledger_text.deleted_so_far(numbers, before + 1, unknown=False)
    unknown = not isinstance(error, errors.ClientError) or error.maybe_applied
    return ledger_text.deleted_so_far(numbers, before, unknown=unknown)


async def _list(place: Place, *, is_long: bool) -> None:
    """Write each ledger as soon as it is found: there may be millions."""
    progress = ledger_io.ProgressLine(sys.stderr, asyncio.get_running_loop().time)
    shown = 0
    async with connecting.connected(place, None) as client, aclosing(client.ledgers()) as numbers:
        async for number in numbers:
            found = None
            if is_long:
                try:
                    found = await client.metadata(number)
                except errors.NoSuchLedger:
                    continue  # deleted meanwhile
            click.echo(ledger_text.listed(number, found, as_json=place.as_json))
            shown += 1
            if sys.stdout is not None and not sys.stdout.isatty():
                progress.show(f"{shown} ledgers")
    progress.end()


def _run(work: Coroutine[None, None, T]) -> T:
    """Run a command's work."""

    async def done() -> T:
        try:
            return await work
        except _WRONG as error:
            raise RefusedCommand(str(error)) from None

    return reaching.run(done())


def _answer_deleted(
    place: Place, deleted: Mapping[LedgerId, LedgerMetadata], *, dry_run: bool
) -> None:
    if place.as_json:
        reaching.print_json({"deleted": [] if dry_run else list(deleted), "found": list(deleted)})
        return
    for number, found in deleted.items():
        said = f"would delete {ledger_text.line(number, found)}" if dry_run else None
        click.echo(said or f"deleted ledger {number}")


def _answer_written(place: Place, writer: Writer) -> None:
    count = writer.last_confirmed + 1
    text = f"ledger {writer.ledger_id}: {ledger_text.entries(count)}, closed"
    with reaching.answering(text):
        if place.as_json:
            reaching.print_json(
                {"ledger": writer.ledger_id, "entries": count, "ensemble": list(writer.ensemble)}
            )
        else:
            click.echo(text)
