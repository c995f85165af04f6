"""The tools' commands, for ``zonekeeper bookie`` to hold: all are for a bookie that stands still.

Exit code 0: done, and nothing is wrong; 1: damage, or a difference, was found; 2: it could not be
done, or was asked for wrongly, and the message says why. What changes something says first what it
will do, asks unless ``--yes``, and only says it with ``--dry-run``.
"""

import asyncio
import contextlib
import json
import os
import random
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, TypeVar

import click

from zonekeeper.bookie import identity, settings
from zonekeeper.bookie.files import FileSystem, RealFileSystem
from zonekeeper.bookie.segments import arrivals
from zonekeeper.bookie.segments import checkpoint as checkpoints
from zonekeeper.bookie.segments.arrival_scan import DamagedLogError
from zonekeeper.bookie.settings import BadSettingError
from zonekeeper.bookie.tools import (
    contents,
    folders,
    hints,
    identities,
    indexes,
    replacing,
    scrubbing,
    segments,
    states,
    texts,
)
from zonekeeper.bookie.tools.contents import Contents
from zonekeeper.bookie.tools.folders import ToolError
from zonekeeper.metadata import bookie_records, cookie_store, cookies
from zonekeeper.metadata import cluster as clusters
from zonekeeper.metadata.cluster import Cluster
from zonekeeper.metadata.cookies import Cookie
from zonekeeper.metadata.errors import BadStoreUriError, StoreError
from zonekeeper.metadata.malformed import UnreadableError
from zonekeeper.metadata.records import ForeignRecordError
from zonekeeper.metadata.stores.opening import open_store
from zonekeeper.placement import locations
from zonekeeper.placement.ids import BookieId
from zonekeeper.wire.errors import IoFailed

T = TypeVar("T")

_DATA: Final = click.option(
    "--data",
    envvar="ZONEKEEPER_DATA",
    show_envvar=True,
    required=True,
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="The bookie's data folder; the bookie must not run.",
)
_METADATA: Final = click.option(
    "--metadata",
    envvar="ZONEKEEPER_METADATA",
    show_envvar=True,
    required=True,
    metavar="URI",
    help="The metadata store and the cluster's root in it.",
)
_OUTPUT: Final = click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="The form of the answer; lists in JSON are one object a line.",
)
_DRY_RUN: Final = click.option("--dry-run", is_flag=True, help="Only say what would be done.")
_YES: Final = click.option("--yes", is_flag=True, help="Do not ask.")

#: Of a long file, so many lines are worth a word.
_PROGRESS_LINES: Final = 10_000

#: What may be wrong with the world; anything else is a bug, and shows as one.
_TROUBLES: Final = (
    ToolError,
    BadSettingError,
    BadStoreUriError,
    DamagedLogError,
    IoFailed,
    OSError,
    StoreError,
    UnreadableError,
    ForeignRecordError,
    clusters.NotAClusterError,
    clusters.ForeignRootError,
    cookie_store.NoCookieError,
    cookie_store.CookieExistsError,
    cookies.LocationUnknownError,
    cookies.OtherBookieError,
    identity.WrongDiskError,
)


@click.command(name="format")
@_METADATA
@click.option("--id", envvar="ZONEKEEPER_BOOKIE_ID", show_envvar=True, metavar="NAME")
@click.option("--zone", envvar="ZONEKEEPER_ZONE", show_envvar=True, metavar="NAME")
@click.option(
    "--upgrade-domains", envvar="ZONEKEEPER_UPGRADE_DOMAINS", show_envvar=True, metavar="N"
)
@_DATA
@_DRY_RUN
@_YES
def format_command(*, data: Path, dry_run: bool, yes: bool, **given: str | None) -> None:
    """Prepare the folder of a new bookie, and register its cookie.

    Nothing is ever erased: a folder that is not empty, or a name that has a cookie, is refused.
    The first start of a bookie does the same by itself; done ahead, the start needs no zone.
    """
    with _reported():
        flags = {name.replace("_", "-"): text for name, text in given.items()}
        wanted = settings.parse({**flags, "data": str(data)}, {})

        async def look(cluster: Cluster) -> None:
            mine = identity.of_bookie(wanted.bookie_id, cluster, data)
            await identities.check_new(cluster, mine, wanted.location)

        identities.check_empty(data)
        _with_cluster(wanted.metadata, look)
        click.echo(
            f"{wanted.bookie_id} will be a new bookie at {wanted.location}: its cookie goes into "
            f"{wanted.metadata}, and the same cookie with an empty log into {data}"
        )
        if not _agreed(dry_run=dry_run, yes=yes, question="Prepare it?"):
            return
        with folders.made(data) as files:
            identities.check_empty(data)

            async def make(cluster: Cluster) -> None:
                await identities.make_new(
                    cluster,
                    identity.of_bookie(wanted.bookie_id, cluster, data),
                    wanted.location,
                    files=files,
                    chance=random.SystemRandom(),
                )

            _with_cluster(wanted.metadata, make)
        click.echo("prepared")


@click.command(name="state")
@_DATA
@click.option("--metadata", metavar="URI", help="Also ask the metadata store how often it started.")
@_OUTPUT
def state_command(data: Path, metadata: str | None, output: str) -> None:
    """Show who a bookie is, what it keeps, how far its rewrite is behind, and its disk."""
    with _reported(), _loaded(data) as (files, found):
        cookie = folders.own_cookie(files)

        async def boots(cluster: Cluster) -> int:
            return (await bookie_records.read(cluster, cookie.bookie)).boot_epoch

        epoch = None if metadata is None else _with_cluster(metadata, boots)
        state = states.look(files, cookie, found, epoch)
        _show(states.plain(state), states.text(state), output)


@click.command(name="list-ledgers")
@_DATA
@_OUTPUT
def list_command(data: Path, output: str) -> None:
    """List the ledgers of which anything is here: entries, gaps, LAC, fence, limbo, fragments."""
    with _reported(), _loaded(data) as (_, found):
        if output == "text":
            click.echo(texts.LEDGER_HEAD)
        for summary in contents.ledgers(found):
            if output == "json":
                click.echo(json.dumps(texts.ledger_plain(summary), sort_keys=True))
            else:
                click.echo(texts.ledger(summary))


@click.command(name="read-segment")
@_DATA
@click.argument("name")
@click.option("--entries", "with_entries", is_flag=True, help="List each entry, too.")
@_OUTPUT
def read_command(data: Path, name: str, with_entries: bool, output: str) -> None:
    """Show what is in the file NAME: arrival-00000001, sorted-00000001.

    Checksums are compared, and entries' digests where that needs no password. Damage is named with
    its byte, and what follows it is read. Behind the last batch of an arrival segment anything may
    stand that an earlier use left.
    """
    damaged = False
    with _reported(), folders.held(data) as files:
        for part in _parts_of(files, name):
            damaged = damaged or isinstance(part, segments.Damage)
            if output == "json":
                plain = texts.part_plain(part, with_entries=with_entries)
                click.echo(json.dumps(plain, sort_keys=True))
                continue
            for line in texts.part(part, with_entries=with_entries):
                click.echo(line)
    sys.exit(1 if damaged else 0)


@click.command(name="scrub")
@_DATA
@_OUTPUT
def scrub_command(data: Path, output: str) -> None:
    """Read everything, compare all checksums, hold the index against the frames; repair nothing.

    Exit code 0: all is well, 1: there is damage.
    """
    with _reported(), folders.held(data) as files:
        found = scrubbing.scrub(data, files, _told)
    read = (
        f"{found.files} segments, {found.size_bytes} bytes, {found.frames} frames, "
        f"{found.entries} entries ({found.unchecked} without a digest that can be compared)"
    )
    damage = "\n".join(found.damage) or "no damage"
    _show(scrubbing.plain(found), f"read: {read}\n{damage}", output)
    sys.exit(1 if found.damage else 0)


@click.command(name="rebuild-index")
@_DATA
@_OUTPUT
@click.option("--dry-run", is_flag=True, help="Build and compare it only; keep the live one.")
def rebuild_command(data: Path, output: str, dry_run: bool) -> None:
    """Build the index again from the sorted segments, compare it, put it in the live one's place.

    Nothing can be lost by it: the index holds only what the segments say.
    """
    with _reported(), folders.held(data) as files:
        compared = indexes.rebuild(data, files, keep=not dry_run, told=_told)
        if compared.live_rows is None:
            verdict = f"not compared: {compared.problem}"
        elif compared.equal:
            verdict = f"equal to the live one, {compared.live_rows} extents"
        else:
            verdict = f"different from the live one: {compared.problem}"
        done = "the live index stays" if dry_run else "the new index is in place"
        text = f"{compared.rows} extents; {verdict}; {done}"
        _show(indexes.plain(compared, kept=not dry_run), text, output)
    sys.exit(0 if compared.equal or compared.live_rows is None else 1)


@click.command(name="export-hints")
@_DATA
@click.argument("file", type=click.Path(dir_okay=False, writable=True, allow_dash=True))
def export_command(data: Path, file: str) -> None:
    """Write to FILE (-: standard output) what the bookie knows of ledgers' metadata.

    `zonekeeper metadata rebuild` makes metadata of the hints of all bookies. The file holds master
    keys, with which ledgers can be written: it is made for its owner's eyes only.
    """
    with _reported(), _loaded(data) as (files, found):
        cookie = folders.own_cookie(files)
        if file == "-":
            for line in hints.lines(cookie, found):
                click.echo(line, nl=False)
            return
        count = _write_secret(Path(file), hints.lines(cookie, found))
        click.echo(f"hints of {count - 2} ledgers written to {file}")


@click.group(name="cookie")
def cookie_group() -> None:
    """Who the bookie is: beside its data, and in the metadata store, which is the authority."""


@cookie_group.command(name="show")
@_DATA
@_METADATA
@_OUTPUT
@click.option("--id", "bookie_id", metavar="NAME", help="The bookie, where its disk cannot say.")
def show_command(data: Path, metadata: str, output: str, bookie_id: str | None) -> None:
    """Show both cookies, whether they fit, and what to do if not. Exit code 1: they do not fit."""
    with _reported():
        local = identities.local_cookie(data)
        name = _bookie(bookie_id, local)
        found = _with_cluster(metadata, lambda cluster: identities.compare(cluster, local, name))
        _show(identities.plain(found), identities.text(found), output)
    sys.exit(0 if found.fits else 1)


@cookie_group.command(name="create")
@_DATA
@_METADATA
@_DRY_RUN
@_YES
def create_command(data: Path, metadata: str, dry_run: bool, yes: bool) -> None:
    """Write the cookie that is beside the data into a metadata store that lost it."""
    with _reported(), folders.held(data) as files:
        local = folders.own_cookie(files)
        click.echo(f"the cookie of {local.bookie} at {local.location} goes into {metadata}")
        question = f"Was {local.bookie} never removed from its cluster?"
        if _agreed(dry_run=dry_run, yes=yes, question=question):
            _with_cluster(metadata, lambda cluster: identities.restore_cookie(cluster, local))
            click.echo("written")


@cookie_group.command(name="move-zone")
@_DATA
@_METADATA
@click.option("--to", required=True, metavar="/ZONE/DOMAIN", help="Such as /b/ud-1.")
@_DRY_RUN
@_YES
def move_command(data: Path, metadata: str, to: str, dry_run: bool, yes: bool) -> None:
    """Let a bookie stand in another zone or upgrade domain, with its data."""
    with _reported(), folders.held(data) as files:
        location = locations.parse(to)
        if location is None:
            raise ToolError(f"--to: {to!r} is no location: /ZONE/DOMAIN, such as /b/ud-1")
        name = folders.own_cookie(files).bookie
        stored = _with_cluster(metadata, lambda cluster: identities.check_movable(cluster, name))
        click.echo(
            f"{name} moves from {stored.location} to {location}, with its data: ledgers that count "
            f"on it in {stored.location} may then not be placed as the policy wants, until the "
            "audit finds and repair moves them"
        )
        if _agreed(dry_run=dry_run, yes=yes, question="Move it?"):
            _with_cluster(metadata, lambda cluster: identities.move(cluster, name, location))
            click.echo("moved; start it with the new zone")


@cookie_group.command(name="replace-disk")
@_DATA
@_METADATA
@click.option("--id", "bookie_id", required=True, metavar="NAME", help="The bookie's name.")
@_DRY_RUN
@_YES
def replace_command(data: Path, metadata: str, bookie_id: str, dry_run: bool, yes: bool) -> None:
    """Give a bookie whose disk is lost a new, empty one under its old name.

    All ledgers that name it start in limbo there: it denies nothing of them until they have been
    checked, ledger by ledger, and the copies it lost are made again.
    """
    with _reported():
        replacing.check_unused(data)
        name = _bookie(bookie_id, None)
        found = _with_cluster(metadata, lambda cluster: replacing.look(cluster, name, data))
        click.echo(
            f"{name} loses what it had: {len(found.ledgers)} ledgers name it, and start in limbo "
            f"on the new disk {data}"
        )
        question = f"Is the old disk of {name} lost for good?"
        if _agreed(dry_run=dry_run, yes=yes, question=question):
            with folders.made(data) as files:
                replacing.check_unused(data)
                replacing.replace_disk(files, found, random.SystemRandom())
            click.echo("prepared; start the bookie")


@cookie_group.command(name="delete")
@click.option("--id", "bookie_id", required=True, metavar="NAME", help="The bookie to forget.")
@_METADATA
@_DRY_RUN
@_YES
def delete_command(bookie_id: str, metadata: str, dry_run: bool, yes: bool) -> None:
    """Forget a bookie that is gone for good. Refused while it runs or a ledger names it."""
    with _reported():
        name = _bookie(bookie_id, None)
        _with_cluster(metadata, lambda cluster: identities.check_removable(cluster, name))
        click.echo(f"no ledger names {name}; its cookie, and what is said of it, go")
        if _agreed(dry_run=dry_run, yes=yes, question=f"Forget {name} for good?"):
            had = _with_cluster(metadata, lambda cluster: identities.remove(cluster, name))
            click.echo("forgotten" if had else "it had no cookie; forgotten")


COMMANDS: Final[Sequence[click.Command]] = (
    format_command,
    state_command,
    list_command,
    read_command,
    rebuild_command,
    export_command,
    scrub_command,
    cookie_group,
)


@contextlib.contextmanager
def _reported() -> Iterator[None]:
    """Make a message, and exit code 2, of what can go wrong."""
    try:
        yield
    except _TROUBLES as error:
        click.echo(f"zonekeeper bookie: {error}", err=True)
        sys.exit(2)


@contextlib.contextmanager
def _loaded(data: Path) -> Iterator[tuple[RealFileSystem, Contents]]:
    """Read all that is on the disks, as the next start would."""
    with folders.held(data) as files, indexes.live(data) as index:
        last = checkpoints.load(files)
        indexes.settle(files, index, last)
        yield files, contents.load(files, index)


def _parts_of(files: FileSystem, name: str) -> Iterator[segments.Part]:
    last = checkpoints.load(files)
    digests = scrubbing.digests_of(last)
    number = segments.sorted_number(name)
    if number is None and not name.startswith(arrivals.PREFIX):
        raise ToolError(f"{name} is no segment: arrival-00000001, sorted-00000001")
    try:
        file = files.open(name)
    except FileNotFoundError as error:
        there = [each for each in files.names() if segments.is_segment(each)]
        raise ToolError(f"there is no {name}; there are {', '.join(there) or 'none'}") from error
    try:
        if number is None:
            yield from segments.arrival(file, last.log_id, digests)
        else:
            yield from segments.ordered(file, last.log_id, number, digests)
    finally:
        file.close()


def _write_secret(target: Path, lines: Iterator[str]) -> int:
    """Write a file that only its owner may read, whole or not at all; give its lines' number."""
    part = target.with_name(f"{target.name}.part")
    count = 0
    part.unlink(missing_ok=True)
    try:
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as out:
            for line in lines:
                out.write(line)
                count += 1
                if count % _PROGRESS_LINES == 0:
                    _told(f"{count} ledgers")
            out.flush()
            os.fsync(out.fileno())
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
    return count


def _bookie(given: str | None, local: Cookie | None) -> BookieId:
    if given is None and local is None:
        raise ToolError("there is no cookie beside the data: say which bookie it is with --id")
    if given is not None and not cookies.is_bookie_id(given):
        raise ToolError(
            f"--id: {given!r} cannot be a bookie's id: letters, digits and : . _ - only"
        )
    return BookieId(given) if given is not None else _known(local)


def _known(local: Cookie | None) -> BookieId:
    assert local is not None, "one of the two is there"
    return local.bookie


def _with_cluster(address: str, work: Callable[[Cluster], Awaitable[T]]) -> T:
    @contextlib.asynccontextmanager
    async def opened() -> AsyncIterator[Cluster]:
        store = await open_store(address)
        try:
            yield await clusters.open_cluster(store)
        finally:
            await store.close()

    async def run() -> T:
        async with opened() as cluster:
            return await work(cluster)

    return asyncio.run(run())


def _agreed(*, dry_run: bool, yes: bool, question: str) -> bool:
    """Ask, unless nothing is to be done, or nobody wants to be asked."""
    if dry_run:
        click.echo("nothing was done (--dry-run)")
        return False
    if not yes:
        click.confirm(question, abort=True)
    return True


def _show(plain: dict[str, object], text: str, output: str) -> None:
    click.echo(json.dumps(plain, indent=2, sort_keys=True) if output == "json" else text)


def _told(line: str) -> None:
    click.echo(line, err=True)
