"""A writer on a small real cluster: ids, acknowledgements, bounds, and bookies that fail."""

from tests.client.lab import Lab, play


def test_entries_get_ids_in_order_and_are_acknowledged() -> None:
    async def scenario(lab: Lab) -> None:
        async with lab.client() as client:
            writer = await client.create()
            ids = [await writer.append(b"entry %d" % n) for n in range(100)]
            assert ids == list(range(100))
            await writer.flush()
            assert writer.last_confirmed == 99
            assert writer.used_bytes == 0
            await writer.close()
            ledger = await client.metadata(writer.ledger_id)
            assert (ledger.is_closed, ledger.last_entry) == (True, 99)
            assert ledger.length == sum(len(b"entry %d" % n) for n in range(100))

    play(scenario)
