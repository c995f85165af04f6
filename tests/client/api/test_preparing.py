"""A ledger that is opened at its bookies before its first entry."""

import asyncio

import pytest

from tests.client.api.test_timeouts import hold, late
from tests.client.lab import Door, Lab, played
from tests.client.late_openings import late_openings
from zonekeeper.client.base import errors
from zonekeeper.placement.base.ids import LedgerId

FOUR = {"a": 1, "b": 1, "c": 2}


def opened(lab: Lab, ledger: LedgerId) -> list[str]:
    """Give the bookies at which a ledger was opened, once for each time."""
    doors: list[tuple[str, Door]] = [
        (one, lab.door(one)) for one in sorted(lab.machines) if lab.machines[one].door is not None
    ]
    return [
        bookie for bookie, door in doors for opening in door.openings if opening.ledger_id == ledger
    ]


@played(bookies_in=FOUR)
async def test_a_prepared_ledger_is_open_at_all_its_bookies_once(lab: Lab) -> None:
    async with lab.client() as client, client.create() as writer:
        await asyncio.sleep(1)
        assert opened(lab, writer.ledger_id) == []
        await asyncio.gather(writer.prepare(), writer.prepare())
        assert opened(lab, writer.ledger_id) == sorted(writer.ensemble)
        await writer.append_and_wait(b"0")
        await writer.prepare(timeout=0)
        await asyncio.sleep(1)
        assert opened(lab, writer.ledger_id) == sorted(writer.ensemble), "not a second time"


@played(bookies_in=FOUR)
async def test_it_returns_when_the_last_bookie_has_opened_it(lab: Lab) -> None:
    now_s = asyncio.get_running_loop().time
    async with lab.client() as client, client.create() as writer:
        with late_openings(lab, 2.0, only=writer.ensemble[:1]):
            begun_s = now_s()
            await writer.prepare()
            assert now_s() - begun_s >= 2


@played(bookies_in=FOUR)
async def test_the_first_entry_of_a_prepared_ledger_does_not_wait_for_its_opening(
    lab: Lab,
) -> None:
    now_s = asyncio.get_running_loop().time
    async with lab.client() as client, client.create() as writer, client.create() as other:
        with late_openings(lab, 2.0):
            await writer.prepare()
            begun_s = now_s()
            await writer.append_and_wait(b"0")
            assert now_s() - begun_s < 1
            await other.append_and_wait(b"0")
            assert now_s() - begun_s > 2, "it was not prepared"


@played(bookies_in=FOUR)
async def test_a_bookie_that_cannot_be_prepared_is_replaced_with_the_first_entry(
    lab: Lab,
) -> None:
    async with lab.client() as client:
        writer = await client.create()
        gone = writer.ensemble[2]
        await lab.machines[gone].crash()
        await writer.prepare(timeout=60)
        assert gone in writer.ensemble
        assert await writer.append_and_wait(b"0") == 0
        assert gone not in writer.ensemble
        await writer.close()
        assert (await client.metadata(writer.ledger_id)).last_entry == 0


@played(bookies_in=FOUR)
async def test_a_bookie_that_does_not_answer_in_time_stays_and_the_writer_goes_on(
    lab: Lab,
) -> None:
    async with lab.client() as client, client.create() as writer:
        with late_openings(lab, 3.0, only=writer.ensemble[2:]):
            over = await late(writer.prepare)
            assert "ledger 0: not all of its bookies have opened it yet" in str(over)
            before = writer.ensemble
            await writer.append_and_wait(b"0", timeout=1)
            await writer.prepare(timeout=60)
            assert writer.ensemble == before
            assert opened(lab, writer.ledger_id) == sorted(before)


@played(bookies_in=FOUR)
async def test_a_fence_is_met_by_the_first_entry(lab: Lab) -> None:
    """Bookies open a fenced ledger, and refuse its entries."""
    async with lab.client() as client, lab.client("other") as other:
        writer = await client.create()
        await other.open(writer.ledger_id, recover=True)
        await writer.prepare(timeout=60)
        for call in (lambda: writer.append_and_wait(b"0"), writer.prepare):
            with pytest.raises(errors.Fenced):
                await call()


@pytest.mark.parametrize("halts", [False, True])
@played(bookies_in=FOUR)
async def test_a_writer_that_is_over_prepares_nothing(lab: Lab, *, halts: bool) -> None:
    async with lab.client() as client:
        writer = await client.create()
        if halts:
            writer.halt()
        else:
            await writer.close()
        with pytest.raises(errors.WriterClosed) as refused:
            await writer.prepare(timeout=60)
        assert not refused.value.maybe_applied
        await asyncio.sleep(1)
        assert opened(lab, writer.ledger_id) == []


@played(bookies_in=FOUR)
async def test_a_writer_that_is_closing_prepares_nothing(lab: Lab) -> None:
    async with lab.client() as client:
        writer = await client.create()
        hold(lab, writer)
        await writer.append(b"0")
        closing = asyncio.ensure_future(writer.close())
        await asyncio.sleep(1)
        with pytest.raises(errors.WriterClosed):
            await writer.prepare()
        hold(lab, writer, holding=False)
        await closing


@played(bookies_in=FOUR)
async def test_a_writer_that_ends_while_it_is_prepared_ends_the_call(lab: Lab) -> None:
    async with lab.client() as client:
        writer = await client.create()
        with late_openings(lab, 5.0):
            preparing = asyncio.ensure_future(writer.prepare())
            await asyncio.sleep(1)
            writer.halt()
            with pytest.raises(errors.WriterClosed):
                await asyncio.wait_for(preparing, 1)


@played(bookies_in=FOUR)
async def test_a_prepared_ledger_may_be_closed_without_an_entry(lab: Lab) -> None:
    async with lab.client() as client:
        async with client.create() as writer:
            await writer.prepare()
        metadata = await client.metadata(writer.ledger_id)
        assert (metadata.last_entry, metadata.length) == (-1, 0)


@played(bookies_in={"a": 1, "b": 1, "c": 1})
async def test_bookies_that_started_again_after_it_keep_their_places(lab: Lab) -> None:
    """A lane that was lost before anything was sent in it says nothing against its bookie."""
    async with lab.client() as client, client.create() as writer:
        await writer.prepare()
        before = writer.ensemble
        for bookie in before:
            await lab.machines[bookie].crash()
            await lab.machines[bookie].start()
            await asyncio.sleep(1)
        assert await writer.append_and_wait(b"0") == 0
        assert writer.ensemble == before
        assert client.counters.ensemble_changes == 0
