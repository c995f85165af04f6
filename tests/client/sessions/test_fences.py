"""A fence is for ever: S15 of docs/scenarios.md."""

import pytest

from tests.client.api.test_writer import fill
from tests.client.lab import Lab, played
from zonekeeper.client.base import errors
from zonekeeper.client.reading.survey import Survey
from zonekeeper.placement.base.ids import EntryId
from zonekeeper.wire.formats import digests


@played()
async def test_s15_a_fence_outlives_the_power_of_the_bookies_that_gave_it(lab: Lab) -> None:
    """Metadata knows of nothing here, so that only bookies can stop the writer."""
    async with lab.client("first") as first, lab.client("second") as second:
        writer = await first.create()
        await fill(writer, 3)
        await writer.flush()
        ledger = await second.metadata(writer.ledger_id)
        found = Survey(
            quorums=first.bookies.policy.quorums,
            zones=second.bookies.zones(writer.ensemble),
            last_add_confirmed=EntryId(-1),
        )
        reading = second.reading(writer.ledger_id, ledger)
        await reading.survey(ledger.last_fragment, digests.master_key(b""), found)
        assert found.complete
        for who in writer.ensemble:
            await lab.machines[who].crash()
            await lab.machines[who].start()
        with pytest.raises(errors.Fenced):
            await writer.append_and_wait(b"too late")
        assert writer.last_confirmed == 2
