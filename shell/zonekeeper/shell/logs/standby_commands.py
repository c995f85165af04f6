"""``zonekeeper log candidates`` and ``handover``: see who stands by, and hand a log over.

A handover changes nothing where it is refused: exit code 2 for a candidate that does not stand, is
in a zone that may not write, or writes already; 1 where no candidate writes, or another handover is
under way. A handover that was begun and not done gives 1, and the message says how far it came.
"""

import click

from zonekeeper.log.standby.handing_over import TIMEOUT_S, HandedOver, SeenCandidate
from zonekeeper.shell.logs import log_access, noting
from zonekeeper.shell.logs.log_options import NAME, DurationParameter
from zonekeeper.shell.reaching import reaching
from zonekeeper.shell.reaching.reaching import Place

_MS = 1_000


@click.command(epilog="Example: zonekeeper log candidates orders/eu-1")
@NAME
@reaching.on_cluster
def candidates(name: str, place: Place) -> None:
    """List the candidates of LOG, the one that should write first."""
    found = reaching.run(_candidates(place, name))
    if place.as_json:
        reaching.print_json([_plain(one) for one in found])
        return
    for one in found:
        writes = ", writes" if one.writes else ""
        address = f", address {one.address}" if one.address else ""
        reaching.console().print(f"{one.name}: zone {one.zone}{writes}{address}", markup=False)


@click.command(epilog="Example: zonekeeper log handover orders/eu-1 --to host-2")
@NAME
@click.option("--to", required=True, metavar="CANDIDATE", help="The candidate that is to write.")
@click.option(
    "--timeout",
    "timeout_ms",
    type=DurationParameter(),
    default=f"{TIMEOUT_S:g}s",
    show_default=True,
    metavar="DURATION",
    help="Take the wish back if it is not done by then.",
)
@reaching.on_cluster
def handover(name: str, to: str, timeout_ms: int, place: Place) -> None:
    """Have the writer of LOG hand it over to CANDIDATE. Nothing is lost.

    The writer closes the log first, so all that it took is stored. The answer says for how long no
    writer took messages.
    """
    done = reaching.run(_handover(place, name, to, timeout_ms / _MS))
    text = _text(name, done)
    with reaching.answering(text):
        if place.as_json:
            reaching.print_json(
                {
                    "log": name,
                    "from": done.giver,
                    "to": done.taker,
                    "pauseMs": done.pause_ms,
                }
            )
        else:
            click.echo(text)


def _text(name: str, done: HandedOver) -> str:
    pause = (
        f"no writer for {done.pause_ms} ms"
        if done.pause_ms is not None
        else f"{done.giver} went away meanwhile, so the pause is not known"
    )
    return f"log {name}: handed over from {done.giver} to {done.taker}; {pause}"


def _plain(one: SeenCandidate) -> dict[str, object]:
    return {
        "candidate": one.name,
        "zone": one.zone,
        "zones": list(one.zones),
        "address": one.address or None,
        "writes": one.writes,
    }


async def _candidates(place: Place, name: str) -> list[SeenCandidate]:
    async with log_access.connected(place) as client, log_access.there(place, client, name):
        found = await client.candidates(name)
        noting.standing(place, client, name, [one.name for one in found])
        return found


async def _handover(place: Place, name: str, to: str, timeout_s: float) -> HandedOver:
    async with (
        log_access.connected(place, lasting=True) as client,
        log_access.there(place, client, name),
    ):
        done = await client.handover(name, to, timeout_s=timeout_s)
        noting.handed_over(place, client, name, done)
        return done
