"""``zonekeeper timeline``: the events of a cluster: time, event, subject, cause and reason."""

from datetime import UTC, datetime
from typing import Final

import click
from rich import box
from rich.table import Table
from rich.text import Text

from zonekeeper.metadata.cluster import timeline as stored
from zonekeeper.metadata.cluster.timeline import EVENTS_MAX, Event
from zonekeeper.shell.reaching import reaching
from zonekeeper.shell.reaching.reaching import Place

#: A console of at least this width has room for whole names beside the reasons.
_WIDE_CHARS: Final = 120
_NAME_CHARS: Final = 11


@click.command(epilog="Example: zonekeeper timeline --about 'zone b' --limit 20")
@click.option(
    "-n",
    "--limit",
    type=click.IntRange(1, EVENTS_MAX),
    default=50,
    show_default=True,
    help="The most events to show.",
)
@click.option("--about", metavar="TEXT", help="Only events whose subject contains it: 'zone a'.")
@reaching.on_cluster
def timeline(limit: int, about: str | None, place: Place) -> None:
    """Show what happened to the cluster, the newest first."""
    events = reaching.run(_read(place, EVENTS_MAX if about else limit))
    wanted = [one for one in events if about is None or about in one.subject][:limit]
    if place.as_json:
        reaching.print_json([_plain(one) for one in wanted])
        return
    if not wanted:
        click.echo("the timeline has no such event")
        return
    table, console = Table(box=box.SIMPLE), reaching.console()
    # On a narrow console the reasons get most of the width.
    named = _NAME_CHARS if console.width < _WIDE_CHARS else None
    for title in ("when", "what", "to", "by", "why"):
        most = named if title in ("to", "by") else None
        table.add_column(title, no_wrap=title in ("when", "what"), max_width=most)
    for one in wanted:
        when = _when(one).replace("T", " ").replace("+00:00", "Z")
        table.add_row(*map(Text, (when, one.kind, one.subject, one.by, one.reason)))
    console.print(table)


async def _read(place: Place, limit: int) -> list[Event]:
    async with reaching.opened(place) as cluster:
        return await stored.newest(cluster, limit=limit)


def _plain(event: Event) -> dict[str, object]:
    return {
        "when": _when(event),
        "kind": event.kind,
        "subject": event.subject,
        "by": event.by,
        "reason": event.reason,
        "details": dict(event.details),
    }


def _when(event: Event) -> str:
    return datetime.fromtimestamp(event.at_ms / 1_000, UTC).isoformat(timespec="seconds")
