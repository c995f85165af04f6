"""``zonekeeper metadata secure`` and ``identity``: who may do what with the nodes of a root."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Final

import click

from zonekeeper.metadata.access import identities
from zonekeeper.metadata.access.identities import BadIdentityError, Identities, StoreIdentity
from zonekeeper.metadata.commands import exits, opening, options
from zonekeeper.metadata.saving import securing
from zonekeeper.metadata.saving.securing import SecuringReport
from zonekeeper.metadata.stores import credentials

#: A file of identities has few lines.
_FILE_BYTES_MAX: Final = 64 * 1024

IDENTITIES: Final = click.option(
    "--identities",
    "file",
    metavar="FILE",
    help="Lines ROLE SCHEME:NAME: which identity of ZooKeeper's has which role.",
)


@click.command(name="secure", epilog="Example: zonekeeper metadata secure --dry-run")
@options.METADATA
@IDENTITIES
@click.option("--open", "undo", is_flag=True, help="The way back: open every node to the world.")
@options.DRY_RUN
@options.OUTPUT
@options.QUIET
def secure_command(
    address: str, file: str | None, undo: bool, dry_run: bool, output: str, quiet: bool
) -> None:
    """Give every node of a root the ACL of its kind, and say how many had another one.

    Without --identities those count that the root has. Every process must show its identity before
    this is run. An interrupted run is begun again. Nodes of no kind of ours are named, and stay as
    they are. The exit code is 1 if there are such nodes, or if the root did not settle.
    """
    if undo and file is not None:
        raise click.UsageError("--open takes no --identities: it removes them")
    with exits.reported():
        told = _Told(is_quiet=quiet)
        report = asyncio.run(_secure(address, read(file), undo, dry_run, told))
    if output == "json":
        click.echo(json.dumps(_plain(report, dry_run=dry_run)))
    else:
        click.echo(_text(report, dry_run=dry_run))
    is_done = (report.is_settled or dry_run) and not report.strange
    sys.exit(exits.answer(yes=is_done))


@click.command(
    name="identity", epilog="Example: zonekeeper metadata identity --auth-file /etc/zk/bookie"
)
@click.option("--auth-file", metavar="FILE", help="A file whose first line is user:password.")
@click.option("--certificate", metavar="FILE", help="A certificate, in PEM.")
def identity_command(auth_file: str | None, certificate: str | None) -> None:
    """Say by which name ZooKeeper knows a password or a certificate; no password is shown.

    The name goes into the file of `zonekeeper metadata secure --identities`.
    """
    if (auth_file is None) == (certificate is None):
        raise click.UsageError("give one of --auth-file and --certificate")
    with exits.reported():
        click.echo(str(_identity(auth_file, certificate)))


def _identity(auth_file: str | None, certificate: str | None) -> StoreIdentity:
    if auth_file is not None:
        return credentials.of_file(Path(auth_file))
    try:
        return credentials.of_certificate(Path(certificate or "").read_bytes())
    except ValueError as error:
        raise BadIdentityError(f"{certificate}: no certificate in PEM: {error}") from error


def read(file: str | None) -> Identities | None:
    """Read the file of an option; raises ``BadIdentityError``."""
    if file is None:
        return None
    with Path(file).open(encoding="utf-8", errors="replace") as lines:
        text = lines.read(_FILE_BYTES_MAX + 1)
    if len(text) > _FILE_BYTES_MAX:
        raise BadIdentityError(f"{file}: more than {_FILE_BYTES_MAX} bytes")
    try:
        return identities.parse_lines(text)
    except BadIdentityError as error:
        raise BadIdentityError(f"{file}: {error}") from error


class _Told:
    """Says now and then how far a run is."""

    def __init__(self, *, is_quiet: bool) -> None:
        self._is_quiet = is_quiet
        self._next = 10_000

    def __call__(self, report: SecuringReport) -> None:
        if not self._is_quiet and report.nodes >= self._next:
            self._next = report.nodes + 10_000
            click.echo(f"walk {report.walks}: {report.nodes} nodes seen", err=True)


async def _secure(
    address: str, wanted: Identities | None, undo: bool, dry_run: bool, told: _Told
) -> SecuringReport:
    async with opening.opened_cluster(address, opening.lasting()) as cluster:
        if undo:
            return await securing.open_again(cluster, dry_run=dry_run, progress=told)
        return await securing.secure(cluster, wanted, dry_run=dry_run, progress=told)


def _text(report: SecuringReport, *, dry_run: bool) -> str:
    changed = f"{report.changed} {'would get' if dry_run else 'got'} another ACL"
    made = f", {report.made} directories {'would be' if dry_run else 'were'} made"
    lines = [f"{report.nodes} nodes seen, {changed}{made if report.made else ''}"]
    if not report.is_settled and not dry_run:
        lines.append(
            f"after {report.walks} walks there were still nodes with another ACL: a process of an "
            "older release runs, or one whose address has another identity; run this again"
        )
    if report.strange:
        lines.append(f"{report.strange} nodes are of no kind of ours, and stay as they are:")
        lines += [
            f"  {path}{' (open to the world)' if is_open else ''}"
            for path, is_open in report.strange_paths
        ]
    return "\n".join(lines)


def _plain(report: SecuringReport, *, dry_run: bool) -> dict[str, object]:
    return {
        "dryRun": dry_run,
        "nodes": report.nodes,
        "changed": report.changed,
        "made": report.made,
        "walks": report.walks,
        "settled": report.is_settled,
        "strange": report.strange,
        "strangePaths": [{"path": path, "open": is_open} for path, is_open in report.strange_paths],
    }
