"""What changes ledgers waits for the disk like what fills them, and no more of it."""

import asyncio
import dataclasses

from tests.bookie.running import (
    Outcomes,
    append,
    frame,
    lac_packet,
    open_fragment,
    opening,
    read_ids,
    running,
)
from tests.support import virtual_time
from zonekeeper.bookie.disk.memory_files import MemoryFileSystem
from zonekeeper.bookie.ledgers import admission
from zonekeeper.bookie.serving import store_reads
from zonekeeper.bookie.serving.capacity import BookieLimits
from zonekeeper.placement.base.ids import BookieId, EntryId, LedgerId
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.wire.formats import carriers, errors, openings


async def test_openings_and_lacs_beyond_what_may_wait_are_refused() -> None:
    names = (BookieId("b" * 5_000),) * 3
    large = dataclasses.replace(opening(), ensemble=names)
    most = 4 * openings.size_of(large)
    async with running(MemoryFileSystem(), limits=BookieLimits(waiting_bytes_max=most)) as bookie:
        await open_fragment(bookie, opening())
        heard, count = Outcomes(), 20
        bookie.append(
            [
                carriers.Open(
                    number=number,
                    opening=dataclasses.replace(large, first_entry_id=EntryId(1 + number)),
                )
                for number in range(count)
            ],
            heard,
        )
        packet = lac_packet(0)
        bookie.append(
            [
                carriers.WriteLac(number=count, ledger_id=opening().ledger_id, packet=packet),
                carriers.Append(number=count + 1, frame=frame(0)),
            ],
            heard,
        )
        outcomes = [await heard.of(number) for number in range(count + 2)]
        taken = outcomes.index(next(filter(None, outcomes)))
        assert 3 <= taken <= 5
        for refused in outcomes[taken:]:
            assert isinstance(refused, errors.TooManyRequests)
            assert f"the limit is {most}" in str(refused)
        await open_fragment(bookie, dataclasses.replace(large, first_entry_id=EntryId(1 + count)))
        await open_fragment(bookie, dataclasses.replace(large, ledger_id=LedgerId(100)))


@virtual_time.played
async def test_s138_openings_that_wait_for_metadata_take_no_room_from_appends() -> None:
    """A peer asks for ledgers that are not there, with openings as large as they may be."""
    names = tuple(BookieId(f"{number:05x}") for number in range(8_000))
    large = dataclasses.replace(
        opening(), quorums=Quorums(ensemble=len(names), write=1, ack=1), ensemble=names
    )
    async with running(
        MemoryFileSystem(), limits=BookieLimits(waiting_bytes_max=1 << 20)
    ) as bookie:
        await open_fragment(bookie, opening())

        async def never(ledger_id: LedgerId) -> admission.Standing:
            del ledger_id
            await asyncio.Event().wait()
            raise AssertionError

        bookie.standing = never
        heard, count = Outcomes(), 300
        bookie.append(
            [
                carriers.Open(
                    number=number,
                    opening=dataclasses.replace(large, ledger_id=LedgerId(100 + number)),
                )
                for number in range(count)
            ],
            heard,
        )
        waiting = bookie._store_reads.waiting
        assert waiting == store_reads.WAITING_BYTES_MAX // openings.memory_of(large)
        assert len(heard.heard) == count - waiting - store_reads.AT_ONCE
        assert {type(each) for each in heard.heard.values()} == {errors.TooManyRequests}

        assert await append(bookie, frame(0)) == [None]
        await open_fragment(bookie, opening(first=5))
        outcomes = [await heard.of(number) for number in range(count)]
        assert all(isinstance(each, errors.ProtocolError) and each.retryable for each in outcomes)


async def test_frames_that_are_compared_are_among_what_may_wait() -> None:
    data = b"x" * 10_000
    size = frame(9, data=data).size_bytes
    async with running(
        MemoryFileSystem(), limits=BookieLimits(waiting_bytes_max=4 * size + 1_000)
    ) as bookie:
        await open_fragment(bookie, opening())
        assert await append(bookie, frame(9, data=data)) == [None]

        resent = await append(bookie, *(frame(number % 9, data=data) for number in range(40)))

        assert resent[:4] == [None] * 4
        assert all(isinstance(each, errors.TooManyRequests) for each in resent[4:])
        assert await append(bookie, frame(8, data=data)) == [None], "nothing is compared any more"


async def test_what_a_compared_frame_lacks_is_asked_for_like_any_other() -> None:
    async with running(MemoryFileSystem()) as bookie:
        await open_fragment(bookie, opening())
        assert await append(bookie, frame(0)) == [None]
        heard = Outcomes()
        wanted = [carriers.Append(number=n, frame=f) for n, f in enumerate((frame(0, 1), frame(0)))]
        bookie.append(wanted, heard)
        bookie.set_conditions(["a device is full"])

        assert isinstance(await heard.of(0), errors.ReadOnly)
        assert await heard.of(1) is None, "it is here already"
        assert await read_ids(bookie) == [0]
