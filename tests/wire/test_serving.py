"""The host's half of a stream, with more on it than any client of ours would send."""

import asyncio

from tests.support import virtual_time
from tests.wire.link.reference_bookie import Disk, ReferenceBookie
from tests.wire.link.worlds import BOOKIE, Writer
from zonekeeper.wire import carriers
from zonekeeper.wire.serving import Host


class ByHand:
    """A pipe whose other end is a test."""

    def __init__(self) -> None:
        self.coming: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.sent: asyncio.Queue[bytes] = asyncio.Queue()

    async def send(self, message: bytes) -> None:
        self.sent.put_nowait(message)

    async def receive(self) -> bytes | None:
        return await self.coming.get()


def test_acks_of_more_than_one_item_may_tell_are_told_in_several() -> None:
    count = carriers.ACKED_MAX + 10

    async def scenario() -> None:
        bookie, pipe, writer = ReferenceBookie(BOOKIE, Disk()), ByHand(), Writer(7)
        bookie.held = True
        host = Host(bookie)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(host.serve_appends(pipe))
            (hello,) = carriers.parse(await pipe.sent.get())
            assert isinstance(hello, carriers.Hello)
            await host.open_fragment(hello.stream, writer.opening())
            lac = writer.lac(-1)
            items = [
                carriers.WriteLac(number=n, ledger_id=writer.ledger_id, packet=lac)
                for n in range(count)
            ]
            for start in range(0, count, carriers.ITEMS_MAX):
                pipe.coming.put_nowait(carriers.build(items[start : start + carriers.ITEMS_MAX]))
            await asyncio.sleep(1)
            assert bookie.waiting == count
            bookie.release()
            told = 0
            while told < count:
                for item in carriers.parse(await pipe.sent.get()):
                    assert isinstance(item, carriers.Acked)
                    assert item.number == told
                    told = item.last + 1
            pipe.coming.put_nowait(None)

    virtual_time.run(scenario())
