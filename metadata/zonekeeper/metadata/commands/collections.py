"""``zonekeeper metadata collections``: bookies that wait for a word before they collect."""

import asyncio
import json
import sys
import time
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

import click

from zonekeeper.metadata.bookies import held_collections
from zonekeeper.metadata.bookies.held_collections import HeldCollection, Permit
from zonekeeper.metadata.cluster import timeline
from zonekeeper.metadata.cluster.timeline import Event
from zonekeeper.metadata.commands import exits, opening, options
from zonekeeper.metadata.formats.malformed import UnreadableError
from zonekeeper.metadata.store import errors
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.placement.zones.gate import Person

_BY: Final = "shell"


@click.command(name="collections", epilog="Example: zonekeeper metadata collections")
@options.METADATA
@options.OUTPUT
@click.option(
    "--permit", "reason", metavar="REASON", help="Permit what waits, and say why it may go."
)
@click.option(
    "--bookie",
    "bookies",
    metavar="BOOKIE",
    multiple=True,
    help="Only this bookie; may be repeated.",
)
@click.option("--yes", is_flag=True, help="Do not ask before it is permitted.")
def collections_command(
    address: str, output: str, reason: str | None, bookies: tuple[str, ...], yes: bool
) -> None:
    """Show which bookies wait for a person before they collect, and let them.

    A bookie waits if more than a tenth of its ledgers, and more than 1,000, are gone from the
    metadata without a record of their deletion. The metadata may have been damaged, or ledgers
    were deleted by another program. What is permitted is deleted by the bookies for good. A
    permission is for exactly the ledgers that are shown. A question that cannot be read is named
    with its node, and hides no other; the exit code is 1.
    """
    if reason is not None and (fault := Person(name=_BY, reason=reason).fault()):
        raise click.BadParameter(fault, param_hint="--permit")
    with exits.reported():
        held, unreadable = asyncio.run(_held(address, tuple(map(BookieId, bookies))))
        as_json = output == "json"
        asked = {bookie: one for bookie, one in held.items() if one.permit is None}
        if not as_json:
            click.echo(_text(held, unreadable), err=reason is not None)
        if reason is not None and asked:
            if not yes:
                count = sum(one.ledgers for one in asked.values())
                click.confirm(
                    f"Bookies will delete their copies of these {count} ledgers for good. "
                    "Permit it?",
                    abort=True,
                    err=True,
                )
            asyncio.run(_permit(address, asked, reason))
    if as_json:
        plain = {bookie: _plain(one) for bookie, one in held.items()}
        permitted = sorted(asked) if reason is not None else []
        whole = {"waiting": plain, "permitted": permitted, "unreadable": unreadable}
        click.echo(json.dumps(whole, indent=2, sort_keys=True))
    elif reason is not None:
        click.echo(f"permitted: {', '.join(sorted(asked)) or 'nothing waited'}")
    sys.exit(exits.answer(yes=not unreadable))


def _text(held: Mapping[BookieId, HeldCollection], unreadable: Mapping[BookieId, str]) -> str:
    if not held and not unreadable:
        return "no bookie waits to collect"
    lines = {
        bookie: f"{one.ledgers} of {one.known} ledgers are gone without a record of their "
        f"deletion, from {one.first} to {one.last}; asked at {_when(one.at_ms)}, "
        + ("not permitted" if one.permit is None else f"permitted: {one.permit.reason}")
        for bookie, one in held.items()
    } | {
        bookie: f"its question cannot be read: {fault}; the bookie collects nothing. Remove that "
        "node with a tool of the store, and the bookie asks anew"
        for bookie, fault in unreadable.items()
    }
    return "\n".join(f"{bookie}: {line}" for bookie, line in sorted(lines.items()))


def _plain(one: HeldCollection) -> dict[str, object]:
    return {
        "ledgers": one.ledgers,
        "known": one.known,
        "first": one.first,
        "last": one.last,
        "when": _when(one.at_ms),
        "permitted": None if one.permit is None else one.permit.reason,
    }


def _when(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="seconds")


async def _held(
    address: str, wanted: tuple[BookieId, ...]
) -> tuple[dict[BookieId, HeldCollection], dict[BookieId, str]]:
    """Give what the wanted bookies ask, and the faults of what cannot be read."""
    async with opening.opened_cluster(address) as cluster:
        found = await held_collections.read_all(cluster)
    for bookie in wanted:
        if bookie not in found:
            raise exits.RefusedCommand(f"{bookie} does not wait to collect; nothing was permitted")
    held, unreadable = dict[BookieId, HeldCollection](), dict[BookieId, str]()
    for bookie, one in found.items():
        if wanted and bookie not in wanted:
            continue
        if isinstance(one, UnreadableError):
            unreadable[bookie] = str(one)
        else:
            held[bookie] = one
    return held, unreadable


async def _permit(address: str, asked: Mapping[BookieId, HeldCollection], reason: str) -> None:
    now_ms = time.time_ns() // 1_000_000
    async with opening.opened_cluster(address) as cluster:
        for bookie, one in sorted(asked.items()):
            word = Permit(at_ms=now_ms, by=_BY, reason=reason)
            await held_collections.permit(cluster, bookie, one.digest, word)
            event = Event(
                at_ms=now_ms,
                kind="permitted",
                subject=f"bookie {bookie}",
                by=_BY,
                reason=reason,
                token=uuid.uuid4().hex,
                details={
                    "collects": f"{one.ledgers} of {one.known} ledgers without a record of their "
                    f"deletion, from {one.first} to {one.last}"
                },
            )
            try:
                await timeline.append(cluster, event)
            except errors.StoreError as error:
                click.echo(
                    f"{bookie} may collect, but the timeline does not say so: {error}", err=True
                )
