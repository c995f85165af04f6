"""Keeps the newest that is known of a cluster, for the page: it follows, reads, and asks.

- The records of zones and bookies are followed by a ``View``, as every process does.
- What else stands in the store is read every few seconds, and processes' pages are read over HTTP.
  Both rest while no page asks, and take at most a tenth of the time each in a large cluster.
- What costs a walk over all ledgers is an errand (``errands``).

While the store is away nothing is forgotten: the page says how old each part is. The processes are
then asked at the endpoints last seen, also if the console is started while the store is away.

The value that the page gets is put together when it is asked for, once for each change.
"""

import asyncio
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

import click

from zonekeeper.client.api.client import Client
from zonekeeper.metadata.cluster import policy_store
from zonekeeper.metadata.commands.exits import RefusedCommand
from zonekeeper.metadata.store.background import alongside
from zonekeeper.metadata.store.errors import StoreError
from zonekeeper.placement.base.ids import BookieId, LedgerId, ZoneName
from zonekeeper.placement.base.troubles import Refusal, Trouble
from zonekeeper.placement.zones import counted_time
from zonekeeper.replication.view.view import View
from zonekeeper.shell.console import (
    ledger_questions,
    snapshots,
    store_looks,
    zone_parts,
)
from zonekeeper.shell.console.errands import ErrandAnswer, Errands, Work
from zonekeeper.shell.console.sampling import Sampler
from zonekeeper.shell.console.snapshot import (
    FIGURES,
    QUEUE,
    TIMELINE,
    ZONES,
    BookiePart,
    Snapshot,
    StorePart,
)
from zonekeeper.shell.console.snapshots import KnownThings
from zonekeeper.shell.reaching import connecting, endpoints, last_seen
from zonekeeper.shell.reaching.last_seen import LastSeen
from zonekeeper.shell.reaching.reaching import Place
from zonekeeper.wire.grpc.tls import TlsFiles

#: The store, the processes' pages, and where they are, are read so often while a page asks.
READ_EVERY_S: Final = 2.0
SAMPLE_EVERY_S: Final = 4.0
ENDPOINTS_EVERY_S: Final = 10.0
#: A round is followed by a rest of at least so many times its length.
REST_SHARE: Final = 9
#: When no page has asked for this long, nothing is read until one asks.
RESTS_AFTER_S: Final = 60.0
RETRY_S: Final = 2.0
#: Until it is known where the processes are, this is asked so often.
_FIRST_S: Final = 0.2
#: So many bookies of one unit are given at a time.
UNIT_BOOKIES_MAX: Final = 200


class Looker:
    """What is known of one cluster; ``wall_ms`` gives the wall time."""

    def __init__(self, place: Place, tls: TlsFiles | None, wall_ms: Callable[[], int]) -> None:
        self._place = place
        self._tls = tls
        self._wall_ms = wall_ms
        self._known = KnownThings(place=place, tls=tls)
        self._client: Client | None = None
        self._sampler = Sampler(connecting.page_files(tls))
        self._errands = Errands(wall_ms)
        #: Lists of ledgers: they cost little, and must not wait behind a price.
        self._lists = Errands(wall_ms)
        self._asked_s = 0.0
        self._asked = asyncio.Event()
        #: When each part was read last, as wall time.
        self.as_of: dict[str, int] = {}
        #: Grows with each change of what is known.
        self.version = 0

    # ── what the page asks ──

    def asked(self) -> None:
        """Note that a page asks, so that reading goes on."""
        self._asked_s = asyncio.get_running_loop().time()
        self._asked.set()

    def snapshot(self) -> Snapshot:
        """Give what is known now."""
        return snapshots.of(self._known, now_ms=self._wall_ms())

    def knows_zone(self, zone: str) -> bool:
        """Is there such a zone?"""
        view, seen = self._known.view, self._known.seen
        if view is not None:
            return ZoneName(zone) in snapshots.told(view, evaluations_seen=True)
        return isinstance(seen, LastSeen) and any(one.zone == zone for one in seen.processes)

    def knows_bookie(self, bookie: str) -> bool:
        """Is there such a bookie?"""
        view, seen = self._known.view, self._known.seen
        if view is not None:
            return BookieId(bookie) in view.topology
        return isinstance(seen, LastSeen) and any(one.name == bookie for one in seen.processes)

    def unit(self, zone: str, domain: str) -> tuple[tuple[BookiePart, ...], int]:
        """Give the bookies of a unit, and how many more it has."""
        placed, figures = snapshots.placed(self._known), self._known.round.figures
        found = zone_parts.unit(placed, zone, domain, figures)
        return found[:UNIT_BOOKIES_MAX], max(0, len(found) - UNIT_BOOKIES_MAX)

    def price(self, zone: str) -> ErrandAnswer:
        """Give the price of a release of a zone (empty: of the cluster)."""

        async def work(counted: Callable[[int], None]) -> Mapping[str, object]:
            client, view = self._reached()
            return await ledger_questions.price(
                client, view, ZoneName(zone) if zone else None, counted
            )

        return self._errands.ask(("price", zone), self._if_there(work))

    def loss_of_zone(self, zone: str) -> ErrandAnswer:
        """Say what the loss of a zone would do."""

        async def work(counted: Callable[[int], None]) -> Mapping[str, object]:
            client, view = self._reached()

            def is_chosen(bookie: BookieId) -> bool:
                return snapshots.zone_of(view, bookie) == zone

            return await ledger_questions.loss(client.cluster, view, is_chosen, counted)

        return self._errands.ask(("zone", zone), self._if_there(work))

    def loss_of_bookie(self, bookie: str) -> ErrandAnswer:
        """Say what the loss of a bookie would do."""

        async def work(counted: Callable[[int], None]) -> Mapping[str, object]:
            client, view = self._reached()
            return await ledger_questions.loss(
                client.cluster, view, lambda one: one == bookie, counted
            )

        return self._errands.ask(("bookie", bookie), self._if_there(work))

    def ledgers(self, first: int) -> ErrandAnswer:
        """List some ledgers."""

        async def work(_: Callable[[int], None]) -> Mapping[str, object]:
            client, _view = self._reached()
            return await ledger_questions.ledgers_from(client.cluster, LedgerId(first))

        return self._lists.ask(("ledgers", str(first)), self._if_there(work))

    def _if_there(self, work: Work) -> Work | None:
        """Give the work; None while the store is away, as it would wait."""
        return None if self._client is None or self._known.store.away else work

    def _reached(self) -> tuple[Client, View]:
        if self._client is None or self._known.view is None:
            raise NotReachedError("the store is away: ask again when it is back")
        return self._client, self._known.view

    # ── looking ──

    async def run(self) -> None:
        """Look until cancelled; raises if the cluster is another one than the one meant."""
        self._recall()
        async with alongside(self._sample()):
            while True:
                try:
                    await self._follow()
                except (Trouble, OSError, click.ClickException) as error:
                    refused = _refused(error)
                    if refused is not None and not self._was_there():
                        # A wrong address, or another cluster than the one that is meant.
                        raise refused from error
                    self._away(str(error) or type(error).__name__)
                finally:
                    self._client = None
                await asyncio.sleep(RETRY_S)

    def _was_there(self) -> bool:
        """Was this cluster seen at this address, by this process or an earlier command?"""
        seen, wanted = self._known.seen, self._place.cluster_id
        if self._known.view is not None:
            return True
        return isinstance(seen, LastSeen) and wanted in (None, seen.instance)

    async def _follow(self) -> None:
        async with connecting.connected(self._place, self._tls, lasting=True) as client:
            cluster = client.cluster
            while await policy_store.read(cluster) is None:
                trouble = f"{cluster} has no policy: set one with `zonekeeper policy set`"
                self._change(store=StorePart(trouble=trouble))
                await asyncio.sleep(RETRY_S)
            view = View(cluster)
            async with alongside(view.follow(), self._follow_session(client)):
                await view.known()
                self._client = client
                self._change(view=view, instance=cluster.instance, cluster=str(cluster))
                others = (self._errands.run(), self._lists.run(), self._read(), self._find())
                async with alongside(*others):
                    await self._look(view)

    async def _look(self, view: View) -> None:
        begun_s, looks = asyncio.get_running_loop().time(), 0
        while True:
            looks = await view.changed(looks)
            self.as_of[ZONES] = self._wall_ms()
            known_s = counted_time.longest_step_ms(view.policy.zone_watch) / 1000
            seen = asyncio.get_running_loop().time() - begun_s > known_s
            self._change(evaluations_seen=seen)

    async def _follow_session(self, client: Client) -> None:
        async with client.cluster.store.watch_session() as sessions:
            async for session in sessions:
                if session.connected:
                    self._change(store=StorePart())
                else:
                    self._away("")

    def _away(self, trouble: str) -> None:
        before = self._known.store
        since_ms = before.since_ms if before.away else self._wall_ms()
        self._change(store=StorePart(away=True, since_ms=since_ms, trouble=trouble or None))

    def _change(self, **changes: object) -> None:
        for name, value in changes.items():
            setattr(self._known, name, value)
        self.version += 1

    # ── rounds ──

    async def _rest(self, took_s: float, every_s: float) -> None:
        """Wait for the next round, and until a page asks."""
        await asyncio.sleep(max(every_s, REST_SHARE * took_s))
        while asyncio.get_running_loop().time() - self._asked_s > RESTS_AFTER_S:
            self._asked.clear()
            await self._asked.wait()

    async def _read(self) -> None:
        """Read what else the store has, round by round."""
        loop = asyncio.get_running_loop()
        while True:
            begun_s = loop.time()
            client, view = self._reached()
            with suppress(StoreError):
                before = self._known.look
                look = await store_looks.look(client.cluster, view, before, int(begun_s * 1000))
                self.as_of[QUEUE] = self.as_of[TIMELINE] = self._wall_ms()
                if look != before:
                    self._change(look=look)
            await self._rest(loop.time() - begun_s, READ_EVERY_S)

    async def _find(self) -> None:
        """Read where the processes are, and note it for the time when the store is away."""
        loop = asyncio.get_running_loop()
        while True:
            begun_s = loop.time()
            client, _ = self._reached()
            with suppress(StoreError):
                self._known.seen = await endpoints.read_and_note(
                    client.cluster, self._place.address, self._wall_ms(), self._known.seen
                )
            await self._rest(loop.time() - begun_s, ENDPOINTS_EVERY_S)

    async def _sample(self) -> None:
        """Ask the processes over HTTP, round by round."""
        loop = asyncio.get_running_loop()
        while True:
            begun_s = loop.time()
            seen = self._known.seen
            if isinstance(seen, LastSeen):
                found = await self._sampler.sample(seen.processes, seen.instance)
                self.as_of[FIGURES] = self._wall_ms()
                self._change(round=found)
            await self._rest(
                loop.time() - begun_s, SAMPLE_EVERY_S if isinstance(seen, LastSeen) else _FIRST_S
            )

    def _recall(self) -> None:
        """Take what an earlier command has noted of this cluster, if the store cannot say it."""
        with suppress(Trouble):
            store = last_seen.store_name(self._place.address)
            self._known.seen = last_seen.recall(last_seen.cache_folder(os.environ), store)


def _refused(error: Exception) -> Exception | None:
    """Give what would be refused again, however often it is tried: the error, or its cause."""
    if isinstance(error, Refusal | RefusedCommand):
        return error
    return error.__cause__ if isinstance(error.__cause__, Refusal) else None


class NotReachedError(Trouble):
    """The store is away, so that this cannot be asked."""
