"""Second-hand answers: while the store is away, what the processes say over HTTP.

A looking command is given here with the way to answer without the store. If the store does not
answer, or stops answering while the command reads it, all processes that are remembered are asked.
What they say may be old: each says it as it knew it. A command that ends so has an exit code of its
own (``exits.SECOND_HAND``).
"""

import asyncio
import os
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeVar

from zonekeeper.client.base import errors as client_errors
from zonekeeper.metadata.commands import exits
from zonekeeper.metadata.commands.exits import RefusedCommand
from zonekeeper.metadata.commands.opening import StoreAwayError
from zonekeeper.metadata.store.errors import SessionLostError, StoreUnavailableError
from zonekeeper.shell.reaching import last_seen, over_http, reaching
from zonekeeper.shell.reaching.last_seen import LastSeen, NothingSeen
from zonekeeper.shell.reaching.reaching import Place
from zonekeeper.shell.reaching.sights import ClusterSight
from zonekeeper.wire.running import page_asking
from zonekeeper.wire.running.page_asking import PageFiles

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondHand:
    """What the processes of a cluster say while its store is away."""

    #: Why the store counts as away.
    why: str
    last: LastSeen
    sight: ClusterSight
    #: When the processes had been asked, by the clock that no person can set.
    at_s: float

    def plain(self) -> dict[str, object]:
        """Give what stands under ``storeAway`` in the data of an answer."""
        return {
            "why": self.why,
            "endpointsSeen": when(self.last.seen_ms),
            "endpointsSeenMs": self.last.seen_ms,
        }


def when(wall_ms: int) -> str:
    """Spell a wall-clock time in UTC."""
    return datetime.fromtimestamp(wall_ms / 1000, UTC).isoformat(timespec="seconds")


def run(
    place: Place,
    work: Coroutine[None, None, _T],
    instead: Callable[[SecondHand], None],
    *,
    metrics: bool = False,
    files: PageFiles | None = None,
) -> _T:
    """Run a looking command's work; with the store away, answer ``instead``, and end.

    ``metrics``: ask the processes for their metrics, too. ``files``: the certificate to show to
    processes whose pages are by certificate; None: that of the variables of the TLS options.
    """
    found = reaching.run(_looked(place, work, metrics=metrics, files=files))
    if not isinstance(found, SecondHand):
        return found
    instead(found)
    raise SystemExit(exits.SECOND_HAND)


async def _looked(
    place: Place, work: Coroutine[None, None, _T], *, metrics: bool, files: PageFiles | None
) -> _T | SecondHand:
    try:
        return await work
    except StoreAwayError as error:
        why = error.why
    except (StoreUnavailableError, SessionLostError) as error:
        why = f"it was there, and stopped answering: {error}"
    except client_errors.MetadataFailed as error:
        if not isinstance(error.__cause__, StoreUnavailableError | SessionLostError):
            raise
        why = f"it was there, and stopped answering: {error.__cause__}"
    return await asked(place, why, metrics=metrics, files=files)


async def asked(
    place: Place, why: str, *, metrics: bool = False, files: PageFiles | None = None
) -> SecondHand:
    """Ask the processes that are remembered; raises ``StoreAwayError`` if none is."""
    last = recalled(place.address)
    if isinstance(last, NothingSeen) or not last.processes:
        nothing = last.why if isinstance(last, NothingSeen) else "no process was there"
        whole = f"{why}; and nothing is remembered of its processes: {nothing}"
        raise StoreAwayError(whole, remembered=False)
    if place.cluster_id not in (None, last.instance):
        raise RefusedCommand(
            f"the metadata store is away ({why}), and the endpoints that were last seen at its "
            f"address are of another cluster: {last.instance}, and not {place.cluster_id}"
        )
    shown = files or page_asking.of_environment(os.environ)
    sight = await over_http.ask(
        last.processes, instance=last.instance, metrics=metrics, files=shown
    )
    return SecondHand(why=why, last=last, sight=sight, at_s=asyncio.get_running_loop().time())


def recalled(address: str) -> LastSeen | NothingSeen:
    """Give what is remembered of the cluster at a metadata address."""
    return last_seen.recall(last_seen.cache_folder(os.environ), last_seen.store_name(address))
