"""A batch is written and published once, whichever exchange with the store is lost on the way."""

import asyncio
from typing import Final

import pytest

from tests.client.lab import Lab, played
from tests.log.logging_lab import NEW, WallClock, message, reader_of
from tests.log.publishing.query_lab import LARGE, large, written
from zonekeeper.log.publishing.partitions import QueryBatch
from zonekeeper.log.publishing.query_logs import QueryLogs
from zonekeeper.metadata.logs import logs
from zonekeeper.metadata.logs.log_queries import QueryRun
from zonekeeper.metadata.stores.memory import ExchangeLoss, Passage, RequestKind, calm

pytestmark = pytest.mark.simulation

#: There are fewer requests than this in any play, and at least so many.
STEPS_MAX: Final = 200
STEPS_MIN: Final = 12


@pytest.mark.parametrize("loss", [ExchangeLoss.REQUEST, ExchangeLoss.ANSWER])
@played()
async def test_an_exchange_with_the_store_is_lost_at_any_step(lab: Lab, loss: ExchangeLoss) -> None:
    cluster = await lab.cluster()
    async with lab.client("query") as client:
        store, queries = lab.stores[-1], QueryLogs(client, WallClock())
        for lost_at in range(1, STEPS_MAX):
            name, seen = f"log{lost_at}", 0
            await logs.create(cluster, name, NEW)

            def weather(kind: RequestKind, lost_at: int = lost_at) -> Passage:
                nonlocal seen
                del kind
                seen += 1
                return Passage(loss=loss if seen == lost_at else ExchangeLoss.NOTHING)

            store.weather = weather
            of = QueryBatch(log=name, run=QueryRun(query="q", run="r"), batch=0)
            parts = [
                await written(queries, of, 0, [message(1)]),
                await written(queries, of, 1, map(large, range(2))),
            ]
            done = await queries.publish(parts)
            store.weather = calm
            assert (done.messages, done.was_known) == (3, False), lost_at
            reader = reader_of(client, name)
            found = [bytes(one.message.payload) async for many in reader.read() for one in many]
            assert [one.removesuffix(LARGE) for one in found] == [b"0/", b"1/", b"message 1"]
            if seen < lost_at:
                assert lost_at > STEPS_MIN
                return
            await asyncio.sleep(0)
    raise AssertionError("there are more steps")
