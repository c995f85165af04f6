"""``zonekeeper metadata``: write all metadata of a cluster to a file, and back.

It also rebuilds lost metadata from the hints of bookies.
"""

import asyncio
import contextlib
import json
import sys
import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TextIO

import click

from zonekeeper.metadata.cluster import restored, timeline
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.cluster.restored import Restored
from zonekeeper.metadata.cluster.timeline import Event
from zonekeeper.metadata.commands import collections, exits, opening, options, securing
from zonekeeper.metadata.saving import (
    export_diff,
    export_format,
    exporting,
    idle_changes,
    importing,
    private_file,
    rebuilding,
    rebuilding_report,
    rebuilding_writing,
)
from zonekeeper.metadata.saving.export_format import ExportNode
from zonekeeper.metadata.saving.importing import Imported
from zonekeeper.metadata.saving.rebuilding import RebuildVerdict, Rebuilt
from zonekeeper.metadata.saving.rebuilding_writing import Given, HintsFile
from zonekeeper.metadata.store import errors
from zonekeeper.placement.base.hidden import Secret
from zonekeeper.placement.zones.gate import Person

#: The name in the timeline for what these commands do.
_BY: Final = "shell"


@click.group()
def metadata() -> None:
    """Write a cluster's metadata to a file, read it back, compare it, rebuild it, guard it."""


metadata.add_command(collections.collections_command)
metadata.add_command(securing.secure_command)
metadata.add_command(securing.identity_command)


@metadata.command(name="export", epilog="Example: zonekeeper metadata export saved.jsonl")
@options.METADATA
@click.argument("file", type=click.Path(dir_okay=False, writable=True, allow_dash=True))
def export_command(address: str, file: str) -> None:
    """Write everything that is not ephemeral to FILE (-: standard output).

    The file gets its name only when it is complete. It contains the passwords of ledgers, so only
    its owner may read it.
    """
    with exits.reported():
        if file == "-":
            asyncio.run(_export(address, sys.stdout))
            return
        with private_file.written(Path(file)) as out:
            count = asyncio.run(_export(address, out))
    click.echo(f"{count} nodes written to {file}")


@metadata.command(name="import", epilog="Example: zonekeeper metadata import saved.jsonl")
@options.METADATA
@click.argument("file", type=click.Path(dir_okay=False, exists=True))
def import_command(address: str, file: str) -> None:
    """Write FILE back into an empty root, marked as restored.

    While the mark stands bookies collect nothing. An interrupted import can be run again.
    """
    with exits.reported():
        done = asyncio.run(_import(address, Path(file)))
    click.echo(
        f"{done.written} nodes written and {done.kept} kept in {done.cluster}; "
        f"new ledger ids have the high part {done.high}.\n"
        "The root is marked as restored: bookies collect nothing until the mark is cleared. "
        "See `zonekeeper metadata restored`."
    )


@metadata.command(name="restored", epilog="Example: zonekeeper metadata restored")
@options.METADATA
@options.OUTPUT
@click.option("--clear", "reason", metavar="REASON", help="Clear the mark, and say why.")
@click.option("--yes", is_flag=True, help="Do not ask before the mark is cleared.")
def restored_command(address: str, output: str, reason: str | None, yes: bool) -> None:
    """Show whether the root was restored to an older state, and clear the mark of that.

    An import sets the mark, and so does a bookie with evidence that the store was set back. While
    the mark stands bookies delete nothing. Clear it when the ledgers that the root lost have been
    rebuilt, or are given up. Bookies then delete every ledger that the root does not know. To clear
    the mark is to accept the evidence that is shown, and no other.
    """
    if reason is not None and (fault := Person(name=_BY, reason=reason).fault()):
        raise click.BadParameter(fault, param_hint="--clear")
    with exits.reported():
        found, mark = asyncio.run(_mark(address))
        as_json, to_clear = output == "json", mark is not None and reason is not None
        if not as_json:
            click.echo(_marked_text(found, mark), err=to_clear)
        if mark is not None and reason is not None:
            if not yes:
                click.confirm(
                    "Bookies will delete every ledger that the root does not know. Clear the mark?",
                    abort=True,
                    err=True,
                )
            asyncio.run(_clear(address, mark, reason))
    if as_json:
        _print_json({**_marked_plain(found, mark), "cleared": to_clear})
    elif to_clear:
        click.echo("the mark is cleared")


def _marked_text(found: Cluster, mark: Restored | None) -> str:
    if mark is None:
        return f"not marked as restored: {found}"
    lines = [f"marked as restored: {found}"]
    if mark.export:
        lines.append(f"imported at {_when(mark)} from the export with the checksum {mark.export}")
    if mark.evidence:
        lines.append(f"bookies have evidence since {_when(mark)} that the store was set back:")
        lines += [f"  {one}" for one in mark.evidence]
    lines.append(f"ledgers that are created since have ids from {mark.high << 32} on")
    return "\n".join(lines)


def _marked_plain(found: Cluster, mark: Restored | None) -> dict[str, object]:
    """Give the mark as plain data."""
    return {
        "instance": found.instance,
        "restored": mark is not None,
        "when": None if mark is None else _when(mark),
        "export": None if mark is None else mark.export or None,
        "evidence": [
            {"bookie": one.bookie, "kind": one.kind, "known": one.known, "found": one.found}
            for one in (() if mark is None else mark.evidence)
        ],
        "newLedgersFrom": None if mark is None else mark.high << 32,
    }


def _when(mark: Restored) -> str:
    return datetime.fromtimestamp(mark.at_ms / 1000, UTC).isoformat(timespec="seconds")


@metadata.command(
    name="diff", epilog="Example: zonekeeper metadata diff saved.jsonl zk://zk/ledgers"
)
@click.argument("first")
@click.argument("second")
@click.option(
    "--all", "everything", is_flag=True, help="Show also what a running cluster changes by itself."
)
def diff_command(first: str, second: str, everything: bool) -> None:
    """Compare two exports, or an export and a store: each is a file or an address.

    What a running cluster changes while nothing happens in it is left out: the times and
    evaluations that a zone watch counts, the auditor's notes of its checks, and the directories of
    ephemeral nodes. Exit code 0: the same, 1: they differ, or one of them cannot be read.
    """
    with exits.reported(), contextlib.ExitStack() as opened:
        sources = _source(first, opened), _source(second, opened)
        found, idle = asyncio.run(_diff(*sources, everything=everything))
    verdict = "the same" if not found else _nodes_in(found)
    left_out = f" ({_nodes_in(idle)} only in what a running cluster changes by itself; see --all)"
    click.echo(verdict + (left_out if idle else ""), err=True)
    sys.exit(exits.answer(yes=not found))


@metadata.command(
    name="rebuild", epilog="Example: zonekeeper metadata rebuild bk-a-0.hints bk-b-0.hints"
)
@options.METADATA
@options.OUTPUT
@click.argument("hints", nargs=-1, required=True, type=click.Path(dir_okay=False, exists=True))
@click.option(
    "--passwords",
    type=click.Path(dir_okay=False, exists=True),
    help="A file with ledgers' passwords to try, one a line; the empty one is always tried.",
)
@click.option("--write", "do_write", is_flag=True, help="Write the ledgers that are sure.")
@click.option("--doubtful", is_flag=True, help="With --write: write the doubtful ones, too.")
@click.option("--yes", is_flag=True, help="Do not ask whether the hints are of all bookies.")
def rebuild_command(  # noqa: PLR0913 each is an option of the command
    *,
    address: str,
    output: str,
    hints: tuple[str, ...],
    passwords: str | None,
    do_write: bool,
    doubtful: bool,
    yes: bool,
) -> None:
    """Rebuild ledgers' metadata from the hints of bookies: HINTS are files of `export-hints`.

    Give the hints of every bookie that the cluster ever had. Without --write nothing is changed,
    and the report says for each ledger whether its metadata is sure, doubtful or cannot be rebuilt,
    and why. A ledger that is in the root already is not changed. If there is no root, it is made.
    The root is marked as restored: bookies collect nothing until that mark is cleared. A ledger
    that was deleted, and that bookies had not collected yet, comes back.

    Exit code 0: all ledgers are sure, 1: some are not, or it did not work.
    """
    with exits.reported():
        lines = Path(passwords).read_bytes().splitlines() if passwords else ()
        tried = tuple(map(Secret, (b"", *lines)))
        with importing.refused_unless_whole():
            given = rebuilding_writing.check([_hints_in(Path(file)) for file in hints])
        if do_write and not yes:
            click.confirm(
                f"Hints are here of {', '.join(sorted(given.files))}.\nA bookie that is missing "
                "can make a ledger lose acknowledged entries. Are these all that there ever were?",
                abort=True,
                err=True,
            )
        verdicts = (
            (RebuildVerdict.SURE, RebuildVerdict.DOUBTFUL) if doubtful else (RebuildVerdict.SURE,)
        )
        report = rebuilding_report.Report(as_json=output == "json", echo=click.echo)
        asyncio.run(_rebuild(address, given, tried, verdicts if do_write else (), report))
        click.echo(report.summary(given, wrote=do_write), err=True)
    sys.exit(exits.answer(yes=report.all_sure))


def _source(name: str, opened: contextlib.ExitStack) -> str | TextIO:
    """Open a file, and check that it is whole; any other name is a store's address."""
    path = Path(name)
    if not path.is_file():
        if ":" not in name:
            raise errors.BadStoreUriError(f"{name} is neither a file nor the address of a store")
        return name
    text = opened.enter_context(path.open(encoding="utf-8", newline="\n"))
    with importing.refused_unless_whole():
        importing.check(export_format.lines_of(text))
    text.seek(0)
    return text


async def _mark(address: str) -> tuple[Cluster, Restored | None]:
    async with opening.opened_cluster(address) as found:
        return found, await restored.read(found)


async def _clear(address: str, mark: Restored, reason: str) -> None:
    event = Event(
        at_ms=time.time_ns() // 1_000_000,
        kind="cleared",
        subject="restored",
        by=_BY,
        reason=reason,
        token=uuid.uuid4().hex,
        details={"export": mark.export, "evidence": str(len(mark.evidence))},
    )
    async with opening.opened_cluster(address) as found:
        await restored.clear(found, mark)
        try:
            await timeline.append(found, event)
        except errors.StoreError as error:
            click.echo(f"the mark is cleared, but the timeline does not say so: {error}", err=True)


def _print_json(data: dict[str, object]) -> None:
    click.echo(json.dumps(data, indent=2, sort_keys=True))


async def _export(address: str, out: TextIO) -> int:
    lines = 0
    async with opening.opened_cluster(address) as cluster:
        async for line in exporting.lines(cluster):
            out.write(line)
            lines += 1
    return lines - 2  # without the first and the last line


async def _import(address: str, file: Path) -> Imported:
    def lines() -> Iterator[str]:
        with file.open(encoding="utf-8", newline="\n") as text:
            yield from export_format.lines_of(text)

    async with opening.opened_store(address, must_exist=False) as store:
        return await importing.run(store, lines, now_ms=time.time_ns() // 1_000_000)


def _hints_in(file: Path) -> HintsFile:
    def lines() -> Iterator[str]:
        with file.open(encoding="utf-8", newline="\n") as text:
            yield from export_format.lines_of(text)

    return HintsFile(name=str(file), lines=lines)


async def _rebuild(
    address: str,
    given: Given,
    passwords: Iterable[bytes],
    verdicts: Collection[RebuildVerdict],
    report: rebuilding_report.Report,
) -> None:
    """Rebuild all ledgers, and write those with one of these verdicts."""
    keys = rebuilding.keys_of(passwords)

    def wanted(all_of_them: Iterable[Rebuilt]) -> Iterator[Rebuilt]:
        for each in all_of_them:
            if each.verdict in verdicts:
                yield each
            else:
                report.left(each)

    async with opening.opened_store(address, must_exist=False) as store:
        known = await rebuilding_writing.bookies_of(store, given)
        rebuilt = rebuilding_writing.rebuilt(given, known=known, passwords=keys)
        if verdicts:
            now_ms = time.time_ns() // 1_000_000
            found = await rebuilding_writing.prepare(store, given, now_ms=now_ms)
            async for done in rebuilding_writing.write(found, wanted(rebuilt)):
                report.written(done)
        else:
            for each in rebuilt:
                report.left(each)


def _nodes_in(count: int) -> str:
    return "1 node differs" if count == 1 else f"{count} nodes differ"


async def _diff(first: str | TextIO, second: str | TextIO, *, everything: bool) -> tuple[int, int]:
    """Print the differences; give their number, and the number of those left out."""
    count = idle = 0
    async with _nodes(first) as one, _nodes(second) as other:
        async for difference in export_diff.differences(one, other):
            if not everything and idle_changes.only_idle(difference):
                idle += 1
                continue
            click.echo(f"{difference.side.value} {difference.suffix or '/'}")
            count += 1
    return count, idle


@contextlib.asynccontextmanager
async def _nodes(source: str | TextIO) -> AsyncIterator[AsyncIterator[ExportNode]]:
    if isinstance(source, str):
        async with opening.opened_cluster(source) as cluster:
            yield exporting.nodes(cluster)
    else:
        yield _nodes_of(source)


async def _nodes_of(text: TextIO) -> AsyncGenerator[ExportNode, None]:
    for part in export_format.read(export_format.lines_of(text)):
        if isinstance(part, ExportNode):
            yield part
