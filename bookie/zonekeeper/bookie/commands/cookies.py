"""The commands for a bookie's cookie; ``offline`` says how all commands answer."""

import random
import sys
from pathlib import Path

import click

from zonekeeper.bookie.commands import asking
from zonekeeper.bookie.tools import folders, identities, indexes, replacing
from zonekeeper.bookie.tools.folders import ToolError
from zonekeeper.metadata.commands import exits, options
from zonekeeper.metadata.formats import cookies
from zonekeeper.metadata.formats.cookies import Cookie
from zonekeeper.placement.base import locations
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.placement.policy import unnamed


@click.group(name="cookie")
def cookie_group() -> None:
    """Show or change a bookie's cookie: in its data folder, and in the metadata store."""


@cookie_group.command(
    name="show",
    epilog="Example: zonekeeper bookie cookie show --data /data --metadata zk://zk/ledgers",
)
@asking.DATA
@options.METADATA
@asking.OUTPUT
@click.option(
    "--id", "bookie_id", metavar="NAME", help="The bookie's id, if its data folder has no cookie."
)
def show_command(data: Path, address: str, output: str, bookie_id: str | None) -> None:
    """Show both cookies, whether they fit, and what to do if not. Exit code 1: they do not fit.

    The cookie in the metadata store is the authority.
    """
    with exits.reported():
        local = identities.local_cookie(data)
        name = _bookie(bookie_id, local)
        found = asking.with_cluster(
            address, lambda cluster: identities.compare(cluster, local, name)
        )
        asking.show(identities.plain(found), identities.text(found), output)
    sys.exit(exits.answer(yes=found.fits))


@cookie_group.command(
    name="create",
    epilog="Example: zonekeeper bookie cookie create --data /data --metadata zk://zk/ledgers",
)
@asking.DATA
@options.METADATA
@options.DRY_RUN
@options.YES
def create_command(data: Path, address: str, dry_run: bool, yes: bool) -> None:
    """Write the cookie of the data folder into a metadata store that lost it."""
    with exits.reported(), folders.held(data) as held:
        local = folders.own_cookie(held.data)
        click.echo(f"the cookie of {local.bookie} at {local.location} goes into {address}")
        question = f"Was {local.bookie} never removed from its cluster?"
        if asking.agreed(dry_run=dry_run, yes=yes, question=question):
            asking.with_cluster(address, lambda cluster: identities.restore_cookie(cluster, local))
            click.echo("written")


@cookie_group.command(
    name="move-zone",
    epilog="Example: zonekeeper bookie cookie move-zone --data /data --metadata zk://zk/ledgers "
    "--to /b/ud-1",
)
@asking.DATA
@options.METADATA
@click.option("--to", required=True, metavar="/ZONE/DOMAIN", help="Such as /b/ud-1.")
@options.DRY_RUN
@options.YES
def move_command(data: Path, address: str, to: str, dry_run: bool, yes: bool) -> None:
    """Move a bookie to another zone or upgrade domain, with its data."""
    with exits.reported(), folders.held(data) as held:
        location = locations.parse(to)
        if location is None:
            raise ToolError(f"--to: {to!r} is no location: /ZONE/DOMAIN, such as /b/ud-1")
        unnamed.refuse_never_named(location.zone, "--to")
        name = folders.own_cookie(held.data).bookie
        stored = asking.with_cluster(
            address, lambda cluster: identities.check_movable(cluster, name)
        )
        click.echo(
            f"{name} moves from {stored.location} to {location}, with its data: its ledgers may "
            "then not be placed as the policy wants, until the auditor finds them and a replicator "
            "moves them"
        )
        if asking.agreed(dry_run=dry_run, yes=yes, question="Move it?"):
            asking.with_cluster(address, lambda cluster: identities.move(cluster, name, location))
            click.echo("moved; start it with the new zone")


@cookie_group.command(
    name="replace-disk",
    epilog="Example: zonekeeper bookie cookie replace-disk --data /data --metadata zk://zk/ledgers "
    "--id bk-a-0",
)
@asking.DATA
@options.METADATA
@click.option("--id", "bookie_id", required=True, metavar="NAME", help="The bookie's id.")
@click.option(
    "--folder",
    "given",
    type=click.Path(path_type=Path),
    callback=asking.absolute,
    metavar="DIR",
    help="The lost folder, if only the journal or one ledger directory is lost. Without this "
    "option all folders are lost.",
)
@options.DRY_RUN
@options.YES
def replace_command(
    *, data: Path, address: str, bookie_id: str, given: Path | None, dry_run: bool, yes: bool
) -> None:
    """Give a bookie whose disk is lost a new, empty one; the bookie keeps its id.

    Each ledger that the lost disk may have held starts in limbo: the bookie denies no entry of it.
    Its limbo ends when the ledger was checked and the lost copies were made again.
    """
    with exits.reported():
        name = _bookie(bookie_id, None)
        found = asking.with_cluster(address, lambda cluster: replacing.look(cluster, name, data))
        data = replacing.data_of(found.cookie, data)
        folder = None if given is None else replacing.folder_of(found.cookie, given)
        replacing.check_unused(data, found.cookie, folder)
        if folder is None:
            limbo = f"{len(found.ledgers)} ledgers name it, and start"
        elif folder in found.cookie.journal_dirs:
            limbo = "all its ledgers start"
        else:
            limbo = "the ledgers with entries there start"
        click.echo(
            f"{name} loses the entries of the old disk: {limbo} in limbo on the new disk "
            f"{folder or data}"
        )
        question = f"Is the old disk of {name} lost for good?"
        if not asking.agreed(dry_run=dry_run, yes=yes, question=question):
            return
        if folder is None:
            with folders.open_all(data, found.cookie) as held:
                replacing.check_unused(data, found.cookie, folder)
                replacing.replace_disk(held, found, random.SystemRandom())
        else:
            with folders.held(data, lost=folder) as held, indexes.live(data) as index:
                replacing.check_unused(data, found.cookie, folder)
                count = replacing.replace_folder(held, folder, found, index)
            click.echo(f"{count} ledgers are in limbo")
        click.echo("prepared; start the bookie")


@cookie_group.command(
    name="delete",
    epilog="Example: zonekeeper bookie cookie delete --id bk-a-0 --metadata zk://zk/ledgers",
)
@click.option("--id", "bookie_id", required=True, metavar="NAME", help="The bookie to forget.")
@options.METADATA
@options.DRY_RUN
@options.YES
def delete_command(bookie_id: str, address: str, dry_run: bool, yes: bool) -> None:
    """Forget a bookie that is gone for good. Refused while it runs or a ledger names it."""
    with exits.reported():
        name = _bookie(bookie_id, None)
        asking.with_cluster(address, lambda cluster: identities.check_removable(cluster, name))
        click.echo(f"no ledger names {name}; its cookie and its records will be deleted")
        if asking.agreed(dry_run=dry_run, yes=yes, question=f"Forget {name} for good?"):
            had = asking.with_cluster(address, lambda cluster: identities.remove(cluster, name))
            click.echo("forgotten" if had else "it had no cookie; forgotten")


def _bookie(given: str | None, local: Cookie | None) -> BookieId:
    if given is None and local is None:
        raise ToolError("there is no cookie in the data folder: name the bookie with --id")
    if given is not None and not cookies.is_bookie_id(given):
        raise ToolError(
            f"--id: {given!r} cannot be a bookie's id: letters, digits and : . _ - only"
        )
    return BookieId(given) if given is not None else _known(local)


def _known(local: Cookie | None) -> BookieId:
    assert local is not None, "one of the two is there"
    return local.bookie
