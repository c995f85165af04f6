"""The probe of a drill measures what a writer sees, and ends at once when an entry is lost.

Bookies are real, on files in memory; the network and the store are in memory; time is virtual.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.client import lab as labs
from tests.client.lab import Lab
from zonekeeper.bookie.storage import storage
from zonekeeper.metadata.ledgers import ledger_listing
from zonekeeper.operator.probe import probe_figures, probing
from zonekeeper.operator.probe.probe_figures import ProbeFigures
from zonekeeper.operator.probe.probing import LostEntryError, NoZoneError, Probe
from zonekeeper.placement.base.ids import BookieId, LedgerId, ZoneName

B = ZoneName("b")


@asynccontextmanager
async def probed(lab: Lab, zone: ZoneName = B) -> AsyncIterator[tuple[Probe, asyncio.Task[None]]]:
    """Let a probe write that is ready."""
    loop = asyncio.get_running_loop()
    async with lab.client() as client:
        probe = Probe(client, zone, lambda: int(loop.time() * 1_000))
        running = asyncio.ensure_future(probe.run())
        ready = asyncio.ensure_future(probe.writes.wait())
        await asyncio.wait((running, ready), return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        try:
            yield probe, running
        finally:
            running.cancel()
            await asyncio.wait((running,))


async def returned(lab: Lab, zone: str) -> None:
    for machine in lab.machines.values():
        if machine.location.zone == zone:
            await machine.start()


def _another(ledger: LedgerId, entry: int) -> bytes:
    del ledger, entry
    return b"something else"


def lost(error: BaseException) -> str:
    """Give the words of the loss, wherever a task group has put it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, LostEntryError), error
    return str(error)


@labs.played()
async def test_a_zone_goes_and_comes_back_and_its_times_are_measured(lab: Lab) -> None:
    async with probed(lab) as (probe, running):
        await asyncio.sleep(2)
        before = probe.figures
        await lab.crash_zone("b")
        await asyncio.sleep(30)
        assert not running.done(), "the zone is away still"
        await returned(lab, "b")
        await running

    found = probe.figures
    assert (found.lost, found.gone_after is None, found.back_after is None) == (0, False, False)
    assert found.acknowledged > before.acknowledged > 0
    assert 0 < before.before == before.stall <= found.stall
    assert found.gone_after is not None
    assert found.back_after is not None
    assert found.open_after is not None
    assert found.gone_after <= 20_000 <= found.back_after <= found.open_after
    assert found.held_after is None, "no zone watch was there"
    assert probe_figures.read(str(found)) == found
    cluster = await lab.cluster()
    assert [one async for one in ledger_listing.all_of(cluster)] == [], "its ledgers are deleted"


@labs.played()
async def test_a_writer_that_stands_still_is_seen(lab: Lab) -> None:
    async with probed(lab) as (probe, _):
        await asyncio.sleep(2)
        before = probe.figures.before
        await lab.crash_zone("b")
        await lab.crash_zone("c")
        await asyncio.sleep(20)
        await returned(lab, "c")
        await asyncio.sleep(30)

        assert probe.figures.stall >= 19_000
        assert probe.figures.before == before < 1_000
        assert not probe.figures.lost


@labs.played()
async def test_an_entry_that_no_bookie_has_ends_it_at_once(lab: Lab) -> None:
    async with probed(lab) as (probe, running):
        await asyncio.sleep(3)
        for machine in lab.machines.values():
            await machine.crash()
            machine.files = type(machine.files)()
            storage.create(machine.files, lab.chance)
        for zone in "abc":
            await returned(lab, zone)
        probe._read.clear()  # everything is read once more
        await asyncio.wait((running,), timeout=300)
        error = running.exception()

    assert error is not None
    assert "acknowledged entries" in lost(error)


@labs.played()
async def test_an_entry_that_says_something_else_is_lost(lab: Lab) -> None:
    async with probed(lab) as (probe, running):
        ledger = next(iter(probe._acknowledged))
        probe._acknowledged = {ledger: probe._acknowledged[ledger]}
        real, probing.payload = probing.payload, _another
        try:
            await asyncio.wait((running,), timeout=60)
        finally:
            probing.payload = real
        error = running.exception()

    assert error is not None
    assert "gone or changed: 0" in lost(error)
    assert probe.figures.lost > 0


@labs.played()
async def test_what_cannot_be_read_at_the_end_is_lost(lab: Lab) -> None:
    async with probed(lab) as (probe, running):
        (ledger,) = probe._acknowledged
        probe._read[ledger] = 1 << 20  # it is read at the end alone
        await lab.crash_zone("b")
        await asyncio.sleep(12)
        await returned(lab, "b")
        async with lab.client("another") as other:
            await other.delete(ledger)
            await asyncio.wait((running,), timeout=300)
        error = running.exception()

    assert error is not None
    assert "cannot be read 60 s after the zone is back" in lost(error)


@labs.played()
async def test_a_zone_without_bookies_and_a_store_that_refuses_end_it_at_once(lab: Lab) -> None:
    async with probed(lab, ZoneName("x")) as (_, running):
        with pytest.raises(NoZoneError, match="no bookie has a cookie of zone x"):
            await running


@labs.played(bookies_in={"a": 1, "b": 1, "c": 0})
async def test_what_cannot_write_at_all_says_so_at_once(lab: Lab) -> None:
    async with probed(lab) as (probe, running):
        await asyncio.wait((running,), timeout=60)
        error = running.exception()

    assert error is not None
    assert not probe.writes.is_set()
    assert probe.figures.acknowledged == 0


@labs.played()
async def test_one_bookie_of_the_zone_that_blinks_is_not_the_zone_that_goes(lab: Lab) -> None:
    async with probed(lab) as (probe, running):
        machine = lab.machines[BookieId("bk-b-0")]
        await machine.crash()
        await asyncio.sleep(15)
        await machine.start()
        await asyncio.sleep(5)

        assert not running.done()
        assert probe.figures.gone_after is None
        assert probe.figures.open_after is None


@pytest.mark.parametrize("text", ["", "no", "7", "[1]", '{"acknowledged": "x"}', '{"other": 1}'])
def test_words_that_are_no_figures_are_none(text: str) -> None:
    assert probe_figures.read(text) is None


def test_figures_are_told_to_people() -> None:
    found = ProbeFigures(acknowledged=9, stall=700, before=20, gone_after=3, held_after=4)

    told = "\n".join(probe_figures.lines(found))

    assert "9 entries, 0 lost" in told
    assert "700 ms (20 ms before the zone went)" in told
    assert "losses held: after 4 ms" in told
    assert "nothing held any more: not seen" in told
