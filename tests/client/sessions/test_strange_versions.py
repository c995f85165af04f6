"""A client and bookies without a common version of the wire: it is told, and not tried for ever."""

import asyncio

import pytest

from tests.client.api.test_writer import fill
from tests.client.lab import Lab, played
from zonekeeper.client.base import errors
from zonekeeper.wire.contract.links import LinkSettings
from zonekeeper.wire.formats.versions import WireVersions

LATER = LinkSettings(speaks=WireVersions(3, 4))
NEXT = LinkSettings(speaks=WireVersions(1, 3))


@played()
async def test_a_writer_that_no_bookie_understands_ends_and_names_both_versions(lab: Lab) -> None:
    async with lab.client("later", links=LATER) as later:
        async with asyncio.timeout(600):
            writer = await later.create()
            with pytest.raises(
                errors.ClientError, match=r"wire version 3\.\.4.* speaks 1\.\.2: they"
            ) as e:
                await writer.append_and_wait(b"one")
        assert "upgrade the bookie" in str(e.value)
        writer.halt()


@played()
async def test_a_reader_that_no_bookie_understands_ends_and_names_both_versions(lab: Lab) -> None:
    async with lab.client("now") as now, lab.client("later", links=LATER) as later:
        async with now.create() as writer:
            await fill(writer, 3)
        reader = await later.open(writer.ledger_id)
        async with asyncio.timeout(600):
            with pytest.raises(errors.ClientError, match=r"wire version 3\.\.4") as caught:
                _ = [entry async for entry in reader.read_entries()]
        assert "upgrade the bookie" in str(caught.value)


@played()
async def test_clients_of_two_releases_read_what_the_other_wrote(lab: Lab) -> None:
    async with lab.client("now") as now, lab.client("next", links=NEXT) as following:
        for one, other in ((now, following), (following, now)):
            async with one.create() as writer:
                await fill(writer, 5)
            reader = await other.open(writer.ledger_id)
            assert len([entry async for entry in reader.read_entries()]) == 5
