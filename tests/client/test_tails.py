"""Following a ledger that is still written, where its reader is not alone or the way is rough."""

from collections.abc import AsyncGenerator, Callable

import pytest

from tests.client.lab import Door, Lab, play
from tests.client.recovery_world import written
from zonekeeper.client.config import ClientConfig
from zonekeeper.client.reader import Batch, Reader
from zonekeeper.placement.ids import EntryId
from zonekeeper.wire import errors as wire_errors
from zonekeeper.wire import service

#: A batch is one entry.
ONE_BY_ONE = ClientConfig(read_bytes=1)

Follow = Callable[[Reader], AsyncGenerator[Batch, None]]

FOLLOWING: dict[str, Follow] = {
    "tail": lambda reader: reader.tail(),
    "read_unconfirmed": lambda reader: reader.read_unconfirmed(),
}


def busy_once(door: Door) -> None:
    well = door.spoil

    def refuse(_: service.ReadReply) -> service.ReadReply:
        door.spoil = well
        raise wire_errors.TooManyRequests("busy for a moment")

    door.spoil = refuse


@pytest.mark.parametrize("follow", FOLLOWING.values(), ids=FOLLOWING.keys())
def test_who_hears_of_the_end_while_it_reads_what_it_knew_reads_on_to_that_end(
    follow: Follow,
) -> None:
    """The application asks how far its tail lags, and so the reader learns that it is closed."""

    async def scenario(lab: Lab) -> None:
        async with lab.client() as first, lab.client(config=ONE_BY_ONE) as second:
            writer = await written(first, 5, told=True)
            reader = await second.open(writer.ledger_id, recover=False)
            found: list[EntryId] = []
            async for batch in follow(reader):
                if not found:
                    await writer.append_many([b"more"] * 5)
                    await writer.close()
                    assert await reader.read_last_confirmed() == 9
                found += [entry.entry_id for entry in batch]
            assert found == list(range(10))

    play(scenario)


def test_a_tail_whose_own_retry_finds_the_ledger_closed_reads_on_to_its_end() -> None:
    """All replicas are busy for a moment, in which the ledger is closed: the metadata, read anew,
    tells of an end that is further than what is being read."""

    async def scenario(lab: Lab) -> None:
        async with lab.client() as first, lab.client("reader", config=ONE_BY_ONE) as second:
            writer = await written(first, 5, told=True)
            reader = await second.open(writer.ledger_id, recover=False)
            found: list[EntryId] = []
            async for batch in reader.tail():
                found += [entry.entry_id for entry in batch]
                if found == [0, 1]:
                    await writer.append_many([b"more"] * 5)
                    await writer.close()
                    for who in writer.ensemble:
                        busy_once(lab.door(who))
            assert found == list(range(10))

    play(scenario)
