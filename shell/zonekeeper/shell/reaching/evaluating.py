"""Waiting until a command may say what holds a repair: it must see the zone watch evaluate.

A command knows no more than what it saw since it began. Its first look has the records, and no
counter has been seen to move. So everything that no gate holds looks as if no zone watch were at
work. A command waits until it has seen an evaluation, for as long as a living zone watch may need.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress

import click

from zonekeeper.placement.base.ids import ZoneName
from zonekeeper.placement.zones import counted_time
from zonekeeper.placement.zones.losses import HeldBy
from zonekeeper.replication.view.view import View
from zonekeeper.shell.reaching import reaching

WAIT = click.option(
    "--wait/--no-wait",
    default=True,
    show_default=True,
    help="Watch until the zone watch is seen to evaluate; without it, it counts as not seen.",
)


async def every_record(view: View) -> None:
    """Wait until the counter of every record has moved, at most for a watch's longest step."""
    before = _counters(view)
    await _until(
        view,
        lambda: bool(before) and all(_counters(view).get(key) != n for key, n in before.items()),
    )


async def what_holds_bookies(view: View) -> None:
    """Wait while some bookie is held only because no evaluation was seen, at most as above."""

    def known() -> bool:
        held = (view.what_holds_bookie(one.id) for one in view.topology)
        return not any(one is not None and one.by is HeldBy.NOT_WATCHED for one in held)

    if not known():
        reaching.tell("waiting until the zone watch is seen to evaluate; --no-wait does not wait")
        await _until(view, known)


async def _until(view: View, known: Callable[[], bool]) -> None:
    most_ms = counted_time.longest_step_ms(view.policy.zone_watch)
    looks = view.looks
    with suppress(TimeoutError):
        async with asyncio.timeout(most_ms / 1000):
            while not known():
                looks = await view.changed(looks)


def _counters(view: View) -> dict[ZoneName | None, int]:
    """Give the evaluation counters; that of the cluster stands under None."""
    counters: dict[ZoneName | None, int] = {
        zone: record.evaluation for zone, record in view.zones.items()
    }
    if view.cluster_record is not None:
        counters[None] = view.cluster_record.evaluation
    return counters
