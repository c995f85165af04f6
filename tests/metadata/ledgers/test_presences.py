"""The presence of a process that writes, on the store in memory."""

import asyncio
import random

from tests.support import virtual_time
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats.ledger_metadata import Fragment, LedgerMetadata
from zonekeeper.metadata.ledgers import presences
from zonekeeper.metadata.stores.memory import MemoryStore
from zonekeeper.metadata.stores.memory_server import MemoryServer
from zonekeeper.metadata.stores.timeouts import Timeouts
from zonekeeper.placement.base.digests import Digest
from zonekeeper.placement.base.ids import BookieId, EntryId

TIMEOUTS = Timeouts(session_ms=10_000, request_ms=5_000)
INSTANCE = "6f2ee3ee-52a8-4b5c-8f0e-4a3c8d5f0c11"


async def opened(server: MemoryServer) -> Cluster:
    store = MemoryStore(server, root="/ledgers", timeouts=TIMEOUTS)
    return await clusters.initialise(store, INSTANCE)


def named(value: bytes | None) -> LedgerMetadata:
    return LedgerMetadata(
        ensemble_size=1,
        write_quorum=1,
        ack_quorum=1,
        fragments=(Fragment(EntryId(0), (BookieId("bk-a-0"),)),),
        digest=Digest.CRC32C,
        password=b"",
        custom=() if value is None else ((presences.KEY, value),),
    )


def test_a_ledger_names_a_presence_or_none() -> None:
    name = presences.draw(random.Random(1))
    assert presences.name_in(named(name.encode())) == name
    for other in (None, b"", b"../../available/bk-a-0", name.upper().encode() + b"/", b"\xff" * 16):
        assert presences.name_in(named(other)) is None


def test_a_presence_lasts_as_long_as_the_session_and_is_made_again_in_the_next() -> None:
    async def scenario() -> None:
        server = MemoryServer()
        ours, theirs = await opened(server), await opened(server)
        name = presences.draw(random.Random(1))
        wanted = {name, "0" * 16}
        assert await presences.missing(theirs, wanted) == wanted
        first = ours.store.session.id
        assert first is not None
        for _ in range(2):
            await presences.show(ours, name, first)
            assert await presences.missing(theirs, wanted) == {"0" * 16}
        await ours.store.close()
        assert await presences.missing(theirs, wanted) == wanted

    virtual_time.run(scenario())


def test_the_presence_of_an_earlier_session_is_replaced() -> None:
    async def scenario() -> None:
        server = MemoryServer()
        former, ours = await opened(server), await opened(server)
        name = presences.draw(random.Random(1))
        for cluster in (former, ours):
            session = cluster.store.session.id
            assert session is not None
            await presences.show(cluster, name, session)
        await former.store.close()
        await asyncio.sleep(1)
        assert await presences.missing(ours, {name}) == frozenset()

    virtual_time.run(scenario())
