"""The pages of an autorecovery process: what nobody may miss is shown in every state of it."""

import asyncio
import dataclasses
import json
import random
import socket

from tests.replication import recovery_lab
from tests.replication.recovery_lab import Recovering
from zonekeeper.metadata.cluster.evidence import EvidenceKind, StoreEvidence
from zonekeeper.metadata.ledgers import set_back
from zonekeeper.metadata.store.background import alongside
from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.placement.zones.bookie_orders import (
    BookieOrder,
    OrderKind,
    OrderPhase,
    OrderProgress,
    OrderWord,
)
from zonekeeper.replication.run import pages, settings
from zonekeeper.replication.run.autorecovery import Autorecovery, Worker
from zonekeeper.wire.running import page_identity
from zonekeeper.wire.running.page_identity import ProcessIdentity, ProcessKind

PROOFS = (StoreEvidence(bookie=BookieId("bk-a-0"), kind=EvidenceKind.IDS, known=50, found=9),)


@recovery_lab.played()
async def test_metadata_that_was_set_back_is_a_page_also_before_the_first_look(
    it: Recovering,
) -> None:
    """A store that was set back far enough has no policy, and then there is no look."""
    worker = Worker(name=BookieId("auto-1"), chance=random.Random(1), wall_ms=it.wall_ms)
    process = Autorecovery(it.client, worker)
    async with alongside(process.held_back.follow()):
        await set_back.mark(it.cluster, PROOFS, now_ms=1)
        async with asyncio.timeout(60):
            while not process.held_back.alerts:  # noqa: ASYNC110 in virtual time
                await asyncio.sleep(0.1)
    assert not process.view.looks
    assert '{alert="restored",severity="page",zone=""} 1' in pages.metrics(process).text


@recovery_lab.played()
async def test_a_page_says_which_process_it_is_also_before_the_store_is_reached(
    it: Recovering,
) -> None:
    given = settings.parse({"metadata": "zk://h/x", "name": "auto-1", "zone": "a"}, {})
    mine = ProcessIdentity(
        kind=ProcessKind.AUTORECOVERY, name=BookieId("auto-1"), zone=ZoneName("a")
    )
    early = pages.begun(given, "1")
    assert page_identity.of_state(json.loads(json.dumps(early))) == mine
    assert early["unready"] == pages.UNREACHED

    worker = Worker(name=given.name, chance=random.Random(1), wall_ms=it.wall_ms)
    process = Autorecovery(it.client, worker)
    shown = json.loads(pages.state(process, given, "1").text)
    found = page_identity.of_state(shown)
    assert found == dataclasses.replace(mine, instance=it.cluster.instance)
    assert shown["version"] == "1"


@recovery_lab.played()
async def test_a_lane_that_is_out_of_reach_is_counted_by_bookie(it: Recovering) -> None:
    worker = Worker(name=BookieId("auto-1"), chance=random.Random(1), wall_ms=it.wall_ms)
    process = Autorecovery(it.client, worker)
    name = "zonekeeper_autorecovery_lanes_blocked_total"
    assert f"{name}{{" not in pages.metrics(process).text
    it.client.counters.lanes_blocked[BookieId("bk-a-0")] += 2
    assert f'{name}{{bookie="bk-a-0"}} 2\n' in pages.metrics(process).text


@recovery_lab.played()
async def test_an_order_is_shown_with_what_is_left_and_for_how_long_nothing_moved(
    it: Recovering,
) -> None:
    given = settings.parse({"metadata": "zk://h/x", "name": "auto-1", "zone": "a"}, {})
    worker = Worker(name=BookieId("auto-1"), chance=random.Random(1), wall_ms=lambda: 9_000)
    process = Autorecovery(it.client, worker)
    progress = OrderProgress(
        at_ms=8_000,
        worker="auto-0",
        since_ms=1_000,
        phase=OrderPhase.COPYING,
        moved_ms=2_000,
        bytes_left=70,
    )
    word = OrderWord(at_ms=4_000, by="anna", reason="its disk is old")
    begun = BookieOrder(
        kind=OrderKind.REMOVE, token="t", given=word, incarnation=1, progress=progress
    )
    fresh = BookieOrder(kind=OrderKind.DRAIN, token="u", given=word, incarnation=2)
    process.order_keeper.orders = {BookieId("bk-a-0"): begun, BookieId("bk-b-0"): fresh}
    process.order_keeper.unreadable = (BookieId("bk-c-0"),)
    text = pages.metrics(process).text
    assert 'zonekeeper_order_still_seconds{bookie="bk-a-0",order="remove"} 7\n' in text
    assert 'zonekeeper_order_still_seconds{bookie="bk-b-0",order="drain"} 5\n' in text
    assert 'zonekeeper_order_left_bytes{bookie="bk-a-0"} 70\n' in text
    assert json.loads(pages.state(process, given, "1").text)["orders"] == {
        "bk-a-0": "copying",
        "bk-b-0": None,
        "bk-c-0": "cannot be read",
    }


def test_its_pages_are_reached_at_the_advertised_host() -> None:
    def advertised(**flags: str) -> str:
        return settings.parse({"metadata": "zk://h/x", "name": "a", **flags}, {}).advertise

    assert advertised(http="10.0.0.1:80", advertise="pod") == "pod"
    assert advertised(http="[::1]:80") == "[::1]"
    assert advertised(http="0.0.0.0:80") == socket.gethostname()
