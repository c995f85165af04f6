"""``zonekeeper log rebuild``: the record of a log that was lost, made anew from its ledgers."""

import click

from zonekeeper.log.sessions import rebuilding
from zonekeeper.log.sessions.rebuilding import RebuiltLog
from zonekeeper.placement.base.ids import LedgerId
from zonekeeper.shell.commands import ledger_options
from zonekeeper.shell.logs import log_access, log_text
from zonekeeper.shell.logs.log_access import LogAccess
from zonekeeper.shell.logs.log_options import NAME
from zonekeeper.shell.reaching import reaching
from zonekeeper.shell.reaching.reaching import Place


@click.command(epilog="Example: zonekeeper log rebuild orders/eu-1 --dry-run")
@NAME
@click.option("--id", "log_id", metavar="ID", help="Which of several logs of the name is meant.")
@click.option(
    "--without",
    multiple=True,
    type=ledger_options.NUMBER,
    metavar="LEDGER",
    help="A ledger that is no part of the log; may be given several times.",
)
@reaching.YES
@reaching.DRY_RUN
@log_access.with_access
@reaching.on_cluster
def rebuild(  # noqa: PLR0913 each is an option
    *,
    name: str,
    log_id: str | None,
    without: tuple[int, ...],
    yes: bool,
    dry_run: bool,
    place: Place,
    access: LogAccess,
) -> None:
    """Make the record of LOG anew, which was lost, or is older than the log's ledgers.

    All ledgers that were made for LOG are recovered, so its writer ends. Nothing acknowledged is
    lost. Rules and cursors went with a record that was lost: see `zonekeeper log set`.
    """
    found = reaching.run(_look(place, access, name))
    if dry_run or not yes:
        _tell_found(name, found, place, dry_run=dry_run)
    if dry_run:
        return
    reaching.confirm("Its writer ends, if it has one. Rebuild the log?", yes=yes)
    rebuilt = reaching.run(_rebuild(place, access, name, log_id, without))
    record = rebuilt.record
    text = f"log {name} ({record.id}) has {log_text.ledgers_text(record)}"
    with reaching.answering(f"rebuilt: {text}"):
        if place.as_json:
            reaching.print_json(
                {
                    **log_text.listed_plain(name, record),
                    "leftOut": list(rebuilt.left_out),
                    "dryRun": False,
                }
            )
            return
        click.echo(f"rebuilt: {text}")
        if rebuilt.left_out:
            ids = ", ".join(map(str, rebuilt.left_out))
            click.echo(f"made for the log, and no part of it: ledgers {ids}")


def _tell_found(
    name: str, found: dict[str, list[LedgerId]], place: Place, *, dry_run: bool
) -> None:
    if place.as_json and dry_run:
        logs = [{"id": one, "ledgers": ids} for one, ids in found.items()]
        reaching.print_json({"log": name, "found": logs, "dryRun": True})
        return
    for one, ids in found.items():
        text = f"made for log {name} with the id {one}: ledgers {', '.join(map(str, ids))}"
        if dry_run:
            click.echo(text)
        else:
            reaching.tell(text)
    if not found:
        reaching.tell(f"no ledger was made for log {name}: there is nothing to rebuild it from")


async def _look(place: Place, access: LogAccess, name: str) -> dict[str, list[LedgerId]]:
    async with (
        log_access.connected(place, access, lasting=True) as client,
        log_access.there(place, client, name),
    ):
        return await rebuilding.rebuildable(client.client, name)


async def _rebuild(
    place: Place, access: LogAccess, name: str, log_id: str | None, without: tuple[int, ...]
) -> RebuiltLog:
    async with (
        log_access.connected(place, access, lasting=True) as client,
        log_access.there(place, client, name),
    ):
        return await client.rebuild(name, log_id=log_id, without=without)
