"""The commands of ``zonekeeper bookie`` for a stopped bookie.

Exit code 1 is also damage, or a difference, that was found. A command that changes something first
says what it will do. Then it asks, unless ``--yes``. With ``--dry-run`` it only says it.
"""

import contextlib
import json
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import click

from zonekeeper.bookie.commands import asking, cookies
from zonekeeper.bookie.life import data_folder, identity, settings
from zonekeeper.bookie.life.data_folder import HeldFolders
from zonekeeper.bookie.segments import checkpoint as checkpoints
from zonekeeper.bookie.segments import directories, log_ends
from zonekeeper.bookie.storage import storage
from zonekeeper.bookie.tools import (
    contents,
    folders,
    hints,
    identities,
    indexes,
    scrubbing,
    segments,
    states,
    texts,
)
from zonekeeper.bookie.tools.contents import Contents
from zonekeeper.bookie.tools.folders import ToolError
from zonekeeper.metadata.bookies import bookie_records
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.commands import exits, options
from zonekeeper.metadata.formats.cookies import Cookie
from zonekeeper.metadata.saving import private_file

#: The settings that a new bookie's cookie is made of.
_MAKES_COOKIES: Final = frozenset(
    {"metadata", "id", "zone", "upgrade-domains", "journal", "ledger-dirs", "data"}
)
#: After each so many lines of a file, progress is reported.
_PROGRESS_LINES: Final = 10_000


def _asked_for_by_format(command: Callable[..., None]) -> Callable[..., None]:
    for setting in reversed(settings.SETTINGS):
        if setting.name in _MAKES_COOKIES:
            command = options.option(setting)(command)
    return command


@click.command(
    name="format",
    epilog="Example: zonekeeper bookie format --id bk-a-0 --zone a --upgrade-domains 3 "
    "--data /data --metadata zk://zk/ledgers",
)
@_asked_for_by_format
@options.DRY_RUN
@options.YES
def format_command(*, dry_run: bool, yes: bool, **given: str | None) -> None:
    """Prepare the folders of a new bookie, and store its cookie.

    Nothing is ever erased: a folder that is not empty, or an id that has a cookie, is refused.
    The first start of a bookie does the same by itself. After this command that start needs no
    --zone and no --upgrade-domains.
    """
    with exits.reported():
        flags = {name.replace("_", "-"): text for name, text in given.items()}
        wanted = settings.parse(flags, {})
        data = wanted.data
        mine = (data, wanted.journal, wanted.ledger_dirs)
        paths = sorted({path for path in (data, wanted.journal, *wanted.ledger_dirs) if path})

        def cookie(cluster: Cluster) -> Cookie:
            journal, ledgers = wanted.journal, wanted.ledger_dirs
            return identity.of_bookie(
                wanted.bookie_id, cluster, data, journal=journal, ledgers=ledgers
            )

        async def look(cluster: Cluster) -> None:
            await identities.check_new(cluster, cookie(cluster), wanted.location)

        for path in paths:
            identities.check_empty(path)
        asking.with_cluster(wanted.metadata, look)
        click.echo(
            f"{wanted.bookie_id} will be a new bookie at {wanted.location}: its cookie goes into "
            f"{wanted.metadata}, and the same cookie with an empty log into "
            f"{', '.join(map(str, paths))}"
        )
        if not asking.agreed(dry_run=dry_run, yes=yes, question="Prepare it?"):
            return
        with data_folder.all_held(*mine) as held:
            for path in paths:
                identities.check_empty(path)

            async def make(cluster: Cluster) -> None:
                await identities.make_new(
                    cluster,
                    cookie(cluster),
                    wanted.location,
                    held=held,
                    chance=random.SystemRandom(),
                )

            asking.with_cluster(wanted.metadata, make)
        click.echo("prepared")


@click.command(name="state", epilog="Example: zonekeeper bookie state --data /data")
@asking.DATA
@click.option(
    "--metadata", metavar="URI", help="Also ask the metadata store for the bookie's start number."
)
@asking.OUTPUT
def state_command(data: Path, metadata: str | None, output: str) -> None:
    """Show a bookie's cookie, ledgers, segments, the rewrite's backlog, and the disks."""
    with exits.reported(), _loaded(data) as (held, found):
        cookie = folders.own_cookie(held.data)

        async def boots(cluster: Cluster) -> int:
            return (await bookie_records.read(cluster, cookie.bookie)).boot_epoch

        epoch = None if metadata is None else asking.with_cluster(metadata, boots)
        state = states.look(held, cookie, found, epoch)
        asking.show(states.plain(state), states.text(state), output)


@click.command(name="list-ledgers", epilog="Example: zonekeeper bookie list-ledgers --data /data")
@asking.DATA
@asking.OUTPUT
def list_command(data: Path, output: str) -> None:
    """List the ledgers that are here: entries, gaps, LAC, fence, limbo, fragments."""
    with exits.reported(), _loaded(data) as (_, found):
        if output == "text":
            click.echo(texts.LEDGER_HEAD)
        for summary in contents.ledgers(found):
            if output == "json":
                click.echo(json.dumps(texts.ledger_plain(summary), sort_keys=True))
            else:
                click.echo(texts.ledger(summary))


@click.command(
    name="read-segment",
    epilog="Example: zonekeeper bookie read-segment --data /data sorted-00000001 --entries",
)
@asking.DATA
@click.argument("name")
@click.option("--entries", "with_entries", is_flag=True, help="List each entry, too.")
@asking.OUTPUT
def read_command(data: Path, name: str, with_entries: bool, output: str) -> None:
    """Show the parts of the segment NAME: arrival-00000001, sorted-00000001.

    Checksums are compared, and digests of entries if that needs no password. Damage is reported
    with its offset, and the parts after it are still read. After the last batch of an arrival
    segment there may be any bytes from an earlier use of the file.
    """
    damaged = False
    with exits.reported(), folders.held(data) as held:
        for part in _parts_of(held, name):
            damaged = damaged or isinstance(part, segments.Damage)
            if output == "json":
                plain = texts.part_plain(part, with_entries=with_entries)
                click.echo(json.dumps(plain, sort_keys=True))
                continue
            for line in texts.part(part, with_entries=with_entries):
                click.echo(line)
    sys.exit(exits.answer(yes=not damaged))


@click.command(name="scrub", epilog="Example: zonekeeper bookie scrub --data /data")
@asking.DATA
@asking.OUTPUT
def scrub_command(data: Path, output: str) -> None:
    """Read everything, compare all checksums, and the index with the frames; repair nothing.

    Exit code 0: there is no damage, 1: there is damage.
    """
    with exits.reported(), folders.held(data) as held:
        found = scrubbing.scrub(data, held, asking.told)
    read = (
        f"{found.files} segments, {found.size_bytes} bytes, {found.frames} frames, "
        f"{found.entries} entries ({found.unchecked} without a digest that can be compared)"
    )
    damage = "\n".join(found.damage) or "no damage"
    asking.show(scrubbing.plain(found), f"read: {read}\n{damage}", output)
    sys.exit(exits.answer(yes=not found.damage))


@click.command(
    name="rebuild-index",
    epilog="Example: zonekeeper bookie rebuild-index --data /data --dry-run",
)
@asking.DATA
@asking.OUTPUT
@click.option("--dry-run", is_flag=True, help="Only build and compare; keep the live index.")
def rebuild_command(data: Path, output: str, dry_run: bool) -> None:
    """Build the index again from the sorted segments, compare it, and replace the live one.

    Nothing can be lost by this: the index follows from the checkpoint and the segments.
    """
    with exits.reported(), folders.held(data) as held:
        compared = indexes.rebuild(data, held, keep=not dry_run, told=asking.told)
        if compared.live_rows is None:
            verdict = f"not compared: {compared.problem}"
        elif compared.equal:
            verdict = f"equal to the live one, {compared.live_rows} extents"
        else:
            verdict = f"different from the live one: {compared.problem}"
        done = "the live index stays" if dry_run else "the new index is in place"
        text = f"{compared.rows} extents; {verdict}; {done}"
        asking.show(indexes.plain(compared, kept=not dry_run), text, output)
    sys.exit(exits.answer(yes=compared.equal or compared.live_rows is None))


@click.command(
    name="export-hints",
    epilog="Example: zonekeeper bookie export-hints --data /data bk-a-0.hints",
)
@asking.DATA
@click.argument("file", type=click.Path(dir_okay=False, writable=True, allow_dash=True))
def export_command(data: Path, file: str) -> None:
    """Write the bookie's hints of ledgers' metadata to FILE (-: standard output).

    `zonekeeper metadata rebuild` makes metadata from the hints of all bookies. The file holds
    master keys, with which ledgers can be written, so only its owner can read it.
    """
    with exits.reported(), _loaded(data) as (held, found):
        cookie = folders.own_cookie(held.data)
        if file == "-":
            for line in hints.lines(cookie, found):
                click.echo(line, nl=False)
            return
        count = _write_secret(Path(file), hints.lines(cookie, found))
        click.echo(f"hints of {count - 2} ledgers written to {file}")


COMMANDS: Final[Sequence[click.Command]] = (
    format_command,
    state_command,
    list_command,
    read_command,
    rebuild_command,
    export_command,
    scrub_command,
    cookies.cookie_group,
)


@contextlib.contextmanager
def _loaded(data: Path) -> Iterator[tuple[HeldFolders, Contents]]:
    """Read the content of the disks like the next start would."""
    with folders.held(data) as held, indexes.live(data) as index:
        last = checkpoints.load(held.data)
        storage.settle(index, last, held.ledgers)
        yield held, contents.load(last, log_ends.load(held.data, last), held.journal, index)


def _parts_of(held: HeldFolders, name: str) -> Iterator[segments.Part]:
    last = checkpoints.load(held.data)
    digests = scrubbing.digests_of(last)
    number = directories.number_of(name)
    if not segments.is_segment(name):
        raise ToolError(f"{name} is no segment: arrival-00000001, sorted-00000001")
    try:
        if number is None:
            file = held.journal.open(name)
        else:
            file = folders.open_sorted(held, last, number)
    except FileNotFoundError as error:
        names = {each for files in held.folders.values() for each in files.names()}
        there = sorted(filter(segments.is_segment, names))
        if name in there:
            raise ToolError(
                f"{name} is not in the ledger directory that the checkpoint names; a file of that "
                "name is in another folder: if it was moved there, move it back"
            ) from error
        raise ToolError(f"there is no {name}; there are {', '.join(there) or 'none'}") from error
    try:
        if number is None:
            yield from segments.arrival(file, last.log_id, digests)
        else:
            yield from segments.ordered(file, last.log_id, number, digests)
    finally:
        file.close()


def _write_secret(target: Path, lines: Iterator[str]) -> int:
    """Write a file that only its owner may read, as a whole or not at all; count its lines."""
    count = 0
    with private_file.written(target) as out:
        for line in lines:
            out.write(line)
            count += 1
            if count % _PROGRESS_LINES == 0:
                asking.told(f"{count} ledgers")
    return count
