"""The demonstration: a cluster loses a bookie, a zone for a while, and a zone for good.

It runs the product itself on this machine: bookies and autorecovery as processes, the quorum
client, kill -9. Only timers are scaled down. The demonstration checks what it claims: it reads
every acknowledged entry back and compares it, and every copy as well. The number of copied bytes
comes from the metrics of the processes. However the demonstration ends, it leaves no process
running.
"""

import asyncio
from typing import Final

from zonekeeper.client.api.client import Client, connect
from zonekeeper.client.base import beside_store, errors
from zonekeeper.metadata.store.background import alongside
from zonekeeper.metadata.store.errors import StoreError
from zonekeeper.placement.zones.gate import RefusedError
from zonekeeper.replication.view.view import View
from zonekeeper.shell.demo import demo_load, demo_strangers
from zonekeeper.shell.demo.demo_load import Load
from zonekeeper.shell.demo.demo_screen import Screen
from zonekeeper.shell.demo.demo_story import DemoPace, Story
from zonekeeper.shell.demo.demo_strangers import PlainTries
from zonekeeper.shell.demo.demo_summary import Summary
from zonekeeper.shell.demo.demo_watch import DemoWatch
from zonekeeper.shell.local.local_cluster import LocalCluster
from zonekeeper.shell.local.local_folder import BadRequestError, LocalError
from zonekeeper.shell.local.local_looking import LocalStatus

#: A demonstration that takes longer than this has failed; the limit has room for delays.
LIMIT_S: Final = 240

#: What the first words of the demonstration say of TLS, and without it.
_SERVED: Final = {
    True: "Bookies serve over TLS only, and each caller shows a certificate of this cluster.",
    False: "All connections are plain text.",
}


async def run(
    cluster: LocalCluster, screen: Screen, pace: DemoPace, *, tls: bool = True
) -> Summary:
    """Run the whole demonstration; raises ``LocalError`` if it cannot go on.

    With ``tls`` bookies serve over TLS only; plain text is tried at each of them, and counted.
    All processes are stopped in the end. The demonstration destroys disks, so it refuses a cluster
    that exists already: ``BadRequestError``.
    """
    if cluster.folder.read() is not None:
        raise BadRequestError(
            f"--folder {cluster.folder.path}: there is a cluster already, and the demonstration "
            "destroys what some of its bookies keep: give a new folder; nothing was done"
        )
    try:
        async with asyncio.timeout(LIMIT_S):
            return await _Play(cluster, screen, pace, tls=tls).run()
    except TimeoutError:
        raise LocalError(f"the demonstration was not done after {LIMIT_S} s") from None
    except (errors.ClientError, StoreError, RefusedError) as error:
        raise LocalError(f"the demonstration cannot go on: {error}") from error
    finally:
        if cluster.folder.read() is not None:
            await cluster.down()


class _Play:
    """One run of the demonstration."""

    def __init__(self, cluster: LocalCluster, screen: Screen, pace: DemoPace, *, tls: bool) -> None:
        self._cluster = cluster
        self._screen = screen
        self._pace = pace
        self._tls = tls

    async def run(self) -> Summary:
        """Play all parts of the demonstration, and give the figures."""
        screen = self._screen
        screen.step(
            "1. A cluster on this machine: three zones, three bookies in each",
            "Bookies keep logs. Each entry goes to three bookies, one in each zone, and counts as "
            "acknowledged when two zones have it on disk. Two more processes judge the zones and "
            "repair what is lost. Timers are scaled down: what takes minutes in production takes "
            f"seconds here. {_SERVED[self._tls]} "
            f"Everything stands in {self._cluster.folder.path}.",
        )
        await self._cluster.up({"tls": self._tls})
        screen.happened("nine bookies and two autorecovery processes are ready")
        status = await self._cluster.status()
        pages = [one.http for one in status.autorecovery if one.http is not None]
        async with connect(status.metadata) as client:
            plain_tries = await self._tried(client, status)
            view = View(client.cluster)
            async with alongside(view.follow()):
                await view.known()
                watch = DemoWatch(client, view, pages, screen)
                story = Story(self._cluster, client, view, watch, screen)
                return await self._played(story, plain_tries)

    async def _tried(self, client: Client, status: LocalStatus) -> PlainTries | None:
        """Try plain text at each bookie; None: plain text is what this demonstration has."""
        if not self._tls:
            return None
        files = beside_store.found(status.metadata, beside_store.CLIENT)
        if files is None:
            raise LocalError(f"the certificates of {self._cluster.folder.path} are gone")
        bookies = [one.name for one in status.bookies]
        found = await demo_strangers.tries(client.cluster, bookies, files)
        self._screen.happened(
            f"{found.tried} of {found.ways} ways to {len(bookies)} bookies were tried in plain "
            f"text, and {found.accepted} accepted"
        )
        return found

    async def _played(self, story: Story, plain_tries: PlainTries | None) -> Summary:
        load = Load(story.client, self._screen.happened, "all is well")
        async with alongside(story.watch.tell(), story.watch.show(load)) as group:
            writing = group.create_task(load.run())
            try:
                bookie = await story.lose_bookie(load, self._pace)
                outage = await story.lose_zone_for_a_while(load, self._pace)
                loss = await story.lose_zone(load, self._pace)
                load.end()
                await writing
            finally:
                writing.cancel()
        self._screen.step(
            "6. Is everything there?",
            "A new client reads every acknowledged entry and compares it byte for byte. Then every "
            "copy of every entry is read from its bookie and compared with the others.",
        )
        checked = await self._read_back(load)
        copies = await story.compare_copies()
        return Summary(
            timings=load.timings,
            ensemble_changes=story.client.counters.ensemble_changes,
            bookie=bookie,
            outage=outage,
            loss=loss,
            checked=checked,
            copies=copies,
            plain_tries=plain_tries,
            seconds=self._screen.seconds,
        )

    async def _read_back(self, load: Load) -> list[demo_load.LedgerFate]:
        async with connect(self._cluster.address) as client:
            checked = [
                await demo_load.check(client, ledger_id, last)
                for ledger_id, last in load.acked.items()
            ]
        self._screen.happened(
            f"{sum(one.same for one in checked):,} of {load.entries_acked:,} acknowledged entries "
            "were read back the same"
        )
        return checked
