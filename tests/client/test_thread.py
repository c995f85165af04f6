"""One resource to one readable log: written, closed, read; left open, recovered, read."""

import pytest

from tests.client.lab import Lab, play
from zonekeeper.client import errors
from zonekeeper.placement.quorums import Quorums


def data(number: int) -> bytes:
    return b"entry %d" % number


@pytest.mark.parametrize(
    "quorums",
    [
        Quorums(ensemble=3, write=3, ack=2, ack_zones=2),
        Quorums(ensemble=6, write=3, ack=2, ack_zones=2),
    ],
    ids=str,
)
def test_what_was_written_is_read_back(quorums: Quorums) -> None:
    async def scenario(lab: Lab) -> None:
        async with lab.client() as client:
            async with await client.create(quorums=quorums) as writer:
                for number in range(2_000):
                    await writer.append(data(number))
            reader = await client.open(writer.ledger_id, recover=False)
            found = [entry async for entry in reader.read_entries()]
            assert [entry.entry_id for entry in found] == list(range(2_000))
            assert all(entry.payload == data(entry.entry_id) for entry in found)

    play(scenario)


@pytest.mark.parametrize(
    "quorums",
    [
        Quorums(ensemble=3, write=3, ack=2, ack_zones=2),
        Quorums(ensemble=6, write=3, ack=2, ack_zones=2),
    ],
    ids=str,
)
def test_an_abandoned_ledger_is_recovered_with_all_that_was_acknowledged(quorums: Quorums) -> None:
    async def scenario(lab: Lab) -> None:
        async with lab.client("first") as first, lab.client("second") as second:
            writer = await first.create(quorums=quorums)
            for number in range(500):
                await writer.append(data(number))
            await writer.flush()
            reader = await second.open(writer.ledger_id)
            assert reader.last_confirmed == 499
            assert reader.metadata.length == sum(len(data(n)) for n in range(500))
            found = [entry.payload async for entry in reader.read_entries()]
            assert found == [data(number) for number in range(500)]
            with pytest.raises(errors.Fenced):
                await writer.append_and_wait(b"too late")

    play(scenario)
