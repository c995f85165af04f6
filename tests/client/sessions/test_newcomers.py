"""A newcomer that only an unfinished recovery names, and whose disk is replaced (S127)."""

import asyncio

import pytest

from tests.client.lab import Lab, played
from tests.client.recovery_world import data, entries_at, forget_held, left_with_a_tail, payloads
from tests.client.sessions.test_recovery_races import copies, played_narrow
from zonekeeper.client.api.client import Client
from zonekeeper.client.api.reader import Reader
from zonekeeper.client.api.writer import Writer
from zonekeeper.client.base import errors
from zonekeeper.client.sessions import newcomers, recovery
from zonekeeper.metadata.ledgers import underreplication
from zonekeeper.metadata.stores.memory import ExchangeLoss, MemoryStore, Passage, RequestKind
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.wire.formats import errors as wire_errors

TAIL = 3


async def refused_by_its_members(lab: Lab, client: Client) -> Writer:
    """Leave a tail at one bookie; of its fellows one is full, and the other hangs."""
    writer = await left_with_a_tail(lab, client, TAIL)
    full, hangs = map(lab.door, writer.ensemble[1:])
    full.append_error = wire_errors.ReadOnly("full")
    hangs.hold_reads = asyncio.Event()  # or two might deny the tail
    hangs.holding = True
    return writer


def well_again(lab: Lab, writer: Writer) -> None:
    full, hangs = map(lab.door, writer.ensemble[1:])
    full.append_error = None
    hangs.hold_reads = None
    forget_held(lab)


async def newcomer_with(lab: Lab, writer: Writer, entries: int) -> BookieId:
    """Wait until a bookie that the ledger does not name has so many entries of the tail."""
    for _ in range(10_000):
        for who in sorted(set(lab.machines) - set(writer.ensemble)):
            if len(await entries_at(lab, who, writer.ledger_id, 3)) >= entries:
                return who
        await asyncio.sleep(0.0001)
    pytest.fail("the recovery put no bookie in")


async def gets_an_empty_disk(lab: Lab, who: BookieId) -> None:
    machine = lab.machines[who]
    await machine.crash()
    await machine.replace_disk()
    await machine.start()


async def is_whole(lab: Lab, writer: Writer, reader: Reader) -> None:
    assert await payloads(reader) == [data(n) for n in range(3 + TAIL)]
    assert min(await copies(lab, writer.ledger_id, reader.metadata)) >= 2


@played_narrow()
async def test_s127_a_newcomer_that_lost_its_disk_counts_no_more(lab: Lab) -> None:
    """Its entries are on an ack quorum again, wherever in the recovery it happens."""
    for taken in range(1, TAIL + 1):
        async with lab.client(f"first-{taken}") as first:
            writer = await refused_by_its_members(lab, first)
        async with lab.client(f"second-{taken}") as second:
            source = lab.door(writer.ensemble[0])
            recovering = asyncio.ensure_future(second.open(writer.ledger_id, recover=True))
            who = await newcomer_with(lab, writer, taken)
            source.hold_reads = asyncio.Event()
            await asyncio.sleep(0.1)
            assert not recovering.done()
            await gets_an_empty_disk(lab, who)
            source.hold_reads.set()
            await is_whole(lab, writer, await recovering)
            assert await underreplication.read(second.cluster, writer.ledger_id) is None
        well_again(lab, writer)


@played_narrow()
async def test_a_newcomer_that_does_not_answer_at_the_end_is_replaced(lab: Lab) -> None:
    async with lab.client("first") as first, lab.client("second") as second:
        writer = await refused_by_its_members(lab, first)
        source = lab.door(writer.ensemble[0])
        recovering = asyncio.ensure_future(second.open(writer.ledger_id, recover=True))
        who = await newcomer_with(lab, writer, TAIL)
        source.hold_reads = asyncio.Event()
        await asyncio.sleep(0.1)
        assert not recovering.done()
        await lab.machines[who].crash()
        source.hold_reads.set()
        reader = await recovering
        assert who not in reader.metadata.last_fragment.ensemble
        await is_whole(lab, writer, reader)


@played_narrow()
async def test_a_recovery_whose_newcomers_never_last_fails_and_can_be_tried_again(lab: Lab) -> None:
    async with lab.client("first") as first, lab.client("second") as second:
        writer = await refused_by_its_members(lab, first)
        attempts = 0

        async def restless(*_: object) -> dict[BookieId, str]:
            nonlocal attempts
            attempts += 1
            return {BookieId("bk-x"): "bk-x took entries in its start 1 and is in 2 now"}

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(newcomers, "started_again", restless)
            with pytest.raises(errors.RecoveryFailed, match=r"is in 2 now.*try again") as failed:
                await second.open(writer.ledger_id, recover=True)
        assert attempts == recovery.ATTEMPTS_MAX
        assert failed.value.retryable
        await is_whole(lab, writer, await second.open(writer.ledger_id, recover=True))


def of_client(client: Client) -> MemoryStore:
    store = client.cluster.store
    assert isinstance(store, MemoryStore)
    return store


async def disk_lost_while_it_closes(
    lab: Lab, second: Client, writer: Writer, loss: ExchangeLoss, *, starts: bool
) -> tuple[BookieId, asyncio.Task[Reader]]:
    """Let a newcomer lose its disk while the closing is on its way; give the recovery's end.

    The newcomer gets an empty disk before the closing comes to the store, and ``starts`` on it.
    """
    slow = [Passage(there_ms=20_000, loss=loss)]

    def weather(kind: RequestKind) -> Passage:
        return slow.pop() if kind is RequestKind.WRITE and slow else Passage()

    recovering = asyncio.ensure_future(second.open(writer.ledger_id, recover=True))
    who = await newcomer_with(lab, writer, TAIL)
    of_client(second).weather = weather
    await asyncio.sleep(0.1)
    assert not recovering.done()
    machine = lab.machines[who]
    await machine.crash()
    await machine.replace_disk()
    if starts:
        await machine.start()
    await asyncio.wait([recovering])
    assert not slow
    if not starts:
        await machine.start()
    return who, recovering


@played()
async def test_s127_a_newcomer_that_starts_while_the_closing_is_on_its_way_counts_no_more(
    lab: Lab,
) -> None:
    """The closing is not applied: it checks the newcomers' records, which count their starts."""
    for loss in ExchangeLoss:
        async with lab.client(f"first-{loss}") as first, lab.client(f"second-{loss}") as second:
            writer = await refused_by_its_members(lab, first)
            _, recovering = await disk_lost_while_it_closes(lab, second, writer, loss, starts=True)
            await is_whole(lab, writer, recovering.result())
        well_again(lab, writer)


@played()
async def test_s127_a_newcomer_that_starts_on_an_empty_disk_behind_the_closing_is_marked(
    lab: Lab,
) -> None:
    """It is too late for the recovery to choose anew; repair looks at the copy entry by entry."""
    for loss in (ExchangeLoss.NOTHING, ExchangeLoss.ANSWER):
        async with lab.client(f"first-{loss}") as first, lab.client(f"second-{loss}") as second:
            writer = await refused_by_its_members(lab, first)
            who, recovering = await disk_lost_while_it_closes(
                lab, second, writer, loss, starts=False
            )
            assert who in recovering.result().metadata.last_fragment.ensemble
            mark = await underreplication.read(first.cluster, writer.ledger_id)
            assert mark is not None
            assert (mark.replicas, mark.marked_ms) == ((who,), 0)
        well_again(lab, writer)


@played()
async def test_a_recovery_that_is_cancelled_does_not_wait_for_a_store_that_is_away(
    lab: Lab,
) -> None:
    async with lab.client("first") as first, lab.client("second") as second:
        writer = await refused_by_its_members(lab, first)
        recovering = asyncio.ensure_future(second.open(writer.ledger_id, recover=True))
        who = await newcomer_with(lab, writer, TAIL)
        of_client(second).weather = lambda kind: (
            Passage(there_ms=60_000) if kind is RequestKind.WRITE else Passage()
        )
        await asyncio.sleep(0.1)
        assert not recovering.done()
        await gets_an_empty_disk(lab, who)
        of_client(second).cut()
        recovering.cancel()
        async with asyncio.timeout(10):
            await asyncio.wait([recovering])
        assert recovering.cancelled()


@played()
async def test_a_recovery_whose_closing_failed_tells_it_before_long(lab: Lab) -> None:
    async with lab.client("first") as first, lab.client("second") as second:
        writer = await refused_by_its_members(lab, first)
        recovering = asyncio.ensure_future(second.open(writer.ledger_id, recover=True))
        who = await newcomer_with(lab, writer, TAIL)
        of_client(second).cut()
        await asyncio.sleep(0.1)
        assert not recovering.done()
        await gets_an_empty_disk(lab, who)
        async with asyncio.timeout(120):
            await asyncio.wait([recovering])
        assert isinstance(recovering.exception(), errors.ClientError)
