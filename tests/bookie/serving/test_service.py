"""What a bookie answers, and when; on files in memory, without a network."""

import asyncio
import errno
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest

from tests.bookie.running import (
    KEY,
    LEDGER,
    OTHER_KEY,
    Outcomes,
    append,
    frame,
    lac_packet,
    open_fragment,
    opening,
    packet,
    payload,
    read_ids,
    running,
    write_lac,
)
from zonekeeper.bookie.disk.memory_files import MemoryFile, MemoryFileSystem
from zonekeeper.bookie.formats.arrival_scan import DamagedLogError
from zonekeeper.bookie.segments import arrivals
from zonekeeper.bookie.segments.arrivals import Sizes
from zonekeeper.bookie.segments.log import DiskFailedError
from zonekeeper.bookie.serving.capacity import BookieLimits
from zonekeeper.placement.base.ids import EntryId, LedgerId
from zonekeeper.wire.contract import service
from zonekeeper.wire.formats import carriers, errors

ABSENT = LedgerId(404)
LIMIT_S = 60


def first_segment(files: MemoryFileSystem) -> MemoryFile:
    return files.open(next(name for name in files.names() if arrivals.number_of(name)))


def written(files: MemoryFileSystem) -> bytes:
    file = first_segment(files)
    return file.read(0, file.size())


def damage(files: MemoryFileSystem, found: bytes) -> None:
    first_segment(files).write(written(files).index(found), [b"?"])


def reading(
    first: int, last: int, *, step: int = 1, bytes_max: int = 1 << 20
) -> service.ReadRequest:
    return service.ReadRequest(
        ledger_id=LEDGER,
        first_entry_id=EntryId(first),
        last_entry_id=EntryId(last),
        step=step,
        bytes_max=bytes_max,
    )


async def test_what_was_acknowledged_is_read() -> None:
    async with running(MemoryFileSystem()) as bookie:
        await open_fragment(bookie, opening())

        assert await append(bookie, frame(0, 1), frame(2)) == [None, None]

        assert await read_ids(bookie) == [0, 1, 2]


async def test_what_was_acknowledged_is_read_after_a_restart() -> None:
    files = MemoryFileSystem()
    async with running(files, crash=True) as bookie:
        await open_fragment(bookie, opening())
        await append(bookie, frame(0, 1), frame(5))
        await write_lac(bookie, lac_packet(1))
    async with running(files) as bookie:
        assert await read_ids(bookie) == [0, 1, 5]
        assert await bookie.read_lac(LEDGER) == service.LacEvidence(
            explicit_lac=lac_packet(1), last_entry=packet(5)
        )


async def test_a_fence_survives_a_restart_even_of_a_ledger_that_was_never_seen() -> None:
    files = MemoryFileSystem()
    async with running(files, crash=True) as bookie:
        evidence = await bookie.fence(LEDGER, KEY)
        assert evidence == service.LacEvidence(explicit_lac=None, last_entry=None)
    async with running(files) as bookie:
        await open_fragment(bookie, opening())
        assert isinstance((await append(bookie, frame(0)))[0], errors.Fenced)
        assert await append(bookie, frame(0, recovery=True)) == [None]


async def test_an_append_that_was_admitted_before_a_fence_is_in_the_fences_answer() -> None:
    async with running(MemoryFileSystem()) as bookie:
        await open_fragment(bookie, opening())
        heard = Outcomes()
        bookie.append([carriers.Append(number=0, frame=frame(0))], heard)

        evidence = await bookie.fence(LEDGER, KEY)

        assert evidence.last_entry == packet(0)
        assert heard.heard == {0: None}


async def test_a_fencing_read_fences_also_where_the_entry_is_missing() -> None:
    async with running(MemoryFileSystem()) as bookie:
        await open_fragment(bookie, opening())

        assert await read_ids(bookie, 0, 3, key=KEY) == []

        assert isinstance((await append(bookie, frame(0)))[0], errors.Fenced)


async def test_a_wrong_key_changes_nothing() -> None:
    async with running(MemoryFileSystem()) as bookie:
        await open_fragment(bookie, opening())
        for refused in (
            bookie.fence(LEDGER, OTHER_KEY),
            open_fragment(bookie, opening(key=OTHER_KEY)),
        ):
            with pytest.raises(errors.UnauthorizedAccess):
                await refused

        assert await append(bookie, frame(0)) == [None]


async def test_the_same_entry_is_accepted_again_whatever_its_lac_and_framing() -> None:
    files = MemoryFileSystem()
    async with running(files) as bookie:
        await open_fragment(bookie, opening())
        await append(bookie, frame(0, 1), frame(2))

        assert await append(bookie, frame(1, 2, 3, lac=0), frame(0, lac=-1)) == [None, None]

        assert await read_ids(bookie) == [0, 1, 2, 3]
    async with running(files) as bookie:
        assert await read_ids(bookie) == [0, 1, 2, 3]


async def test_what_is_here_is_not_written_again() -> None:
    files = MemoryFileSystem()
    async with running(files) as bookie:
        await open_fragment(bookie, opening())
        await append(bookie, frame(0, 1))

        await append(bookie, frame(0, 1, lac=0))
        await append(bookie, frame(0, 1, 2))
        await open_fragment(bookie, opening())

        assert [written(files).count(payload(entry_id)) for entry_id in range(3)] == [1, 1, 1]
        assert written(files).count(KEY) == 1


async def test_the_same_entry_is_accepted_while_the_first_is_on_its_way() -> None:
    async with running(MemoryFileSystem()) as bookie:
        await open_fragment(bookie, opening())

        assert await append(bookie, frame(0, 1), frame(1, 2), frame(0)) == [None] * 3

        assert await read_ids(bookie) == [0, 1, 2]


async def test_the_same_entry_is_accepted_while_its_ledgers_opening_is_on_its_way() -> None:
    async with running(MemoryFileSystem()) as bookie:
        heard = Outcomes()
        bookie.append([carriers.Open(number=0, opening=opening())], heard)
        for _ in range(100):
            if LEDGER in bookie._memory.ledgers:
                break
            await asyncio.sleep(0)
        assert not bookie._memory.ledgers[LEDGER].known
        bookie.append(
            [
                carriers.Append(number=1, frame=frame(0)),
                carriers.Append(number=2, frame=frame(0)),
            ],
            heard,
        )
        assert [await heard.of(number) for number in range(3)] == [None, None, None]
        assert await read_ids(bookie) == [0]


@pytest.mark.parametrize("settled", [True, False])
async def test_another_entry_under_the_same_id_is_refused(settled: bool) -> None:
    async with running(MemoryFileSystem()) as bookie:
        await open_fragment(bookie, opening())
        if settled:
            await append(bookie, frame(0))
            outcome = (await append(bookie, frame(0, data=b"other")))[0]
        else:
            outcome = (await append(bookie, frame(0), frame(0, data=b"other")))[1]

        assert isinstance(outcome, errors.EntryMismatch)
        assert await read_ids(bookie) == [0]


async def test_a_fence_that_comes_while_entries_are_compared_keeps_new_ones_out() -> None:
    async with running(MemoryFileSystem()) as bookie:
        await open_fragment(bookie, opening())
        await append(bookie, frame(0))
        heard = Outcomes()
        bookie.append([carriers.Append(number=0, frame=frame(0, 1))], heard)

        await bookie.fence(LEDGER, KEY)

        assert isinstance(await heard.of(0), errors.Fenced)
        assert await read_ids(bookie) == [0]


async def test_recovery_writes_into_the_gaps() -> None:
    async with running(MemoryFileSystem()) as bookie:
        await open_fragment(bookie, opening())
        await append(bookie, frame(0, 2, 4))
        await bookie.fence(LEDGER, KEY)

        assert await append(bookie, frame(0, 1, 2, 3, 4, 5, recovery=True)) == [None]

        assert await read_ids(bookie) == [0, 1, 2, 3, 4, 5]


async def test_a_frame_of_a_ledger_that_was_not_opened_is_refused() -> None:
    async with running(MemoryFileSystem()) as bookie:
        assert isinstance((await append(bookie, frame(0)))[0], errors.NotOpened)
        assert isinstance(await write_lac(bookie, lac_packet(0)), errors.NotOpened)
        with pytest.raises(errors.NoSuchLedger):
            await read_ids(bookie)


async def test_a_refused_request_leaves_no_ledger_behind() -> None:
    async with running(MemoryFileSystem()) as bookie:
        await append(bookie, frame(0))
        await bookie.read_lac(LEDGER)
        with pytest.raises(errors.NoSuchLedger):
            await bookie.list_entries(
                service.ListEntriesRequest(
                    ledger_id=LEDGER, first_entry_id=EntryId(0), ranges_max=1
                )
            )


async def test_a_read_stops_at_its_bytes_but_never_before_one_entry() -> None:
    async with running(MemoryFileSystem()) as bookie:
        await open_fragment(bookie, opening())
        await append(bookie, frame(0, 1, 2, 3), frame(4, 5))
        size = len(packet(0))

        one = await bookie.read(reading(0, 9, bytes_max=1))
        three = await bookie.read(reading(0, 9, bytes_max=3 * size))
        rest = await bookie.read(reading(3, 9, bytes_max=3 * size))
        nothing = await bookie.read(reading(6, 9))

        assert ([len(f) for f in one.frames], one.next_entry_id) == ([1], 1)
        assert ([len(f) for f in three.frames], three.next_entry_id) == ([3], 3)
        assert ([len(f) for f in rest.frames], rest.next_entry_id) == ([1, 2], 10)
        assert (nothing.frames, nothing.next_entry_id) == ((), 10)


async def test_a_read_by_steps_gives_a_bookies_share() -> None:
    async with running(MemoryFileSystem()) as bookie:
        await open_fragment(bookie, opening())
        await append(bookie, frame(0, 1, 3, 4), frame(6, 7, 9))

        reply = await bookie.read(reading(0, 9, step=3))

        assert [list(part.entry_ids) for part in reply.frames] == [[0, 3], [6, 9]]
        assert reply.next_entry_id == 10


async def test_a_damaged_frame_is_unknown_and_never_denied() -> None:
    files = MemoryFileSystem()
    async with running(files) as bookie:
        await open_fragment(bookie, opening())
        await append(bookie, frame(0))
        await append(bookie, frame(1))
        damage(files, payload(1))

        reply = await bookie.read(reading(0, 9))

        assert ([list(f.entry_ids) for f in reply.frames], reply.next_entry_id) == ([[0]], 1)
        with pytest.raises(errors.IoFailed, match="entry 1"):
            await bookie.read(reading(1, 9))
        with pytest.raises(errors.IoFailed):
            await bookie.read_lac(LEDGER)


async def test_entries_are_listed_in_pages_of_runs() -> None:
    async with running(MemoryFileSystem()) as bookie:
        await open_fragment(bookie, opening())
        await append(bookie, frame(0, 1), frame(2), frame(5, 7))

        page = await bookie.list_entries(
            service.ListEntriesRequest(ledger_id=LEDGER, first_entry_id=EntryId(1), ranges_max=2)
        )
        rest = await bookie.list_entries(
            service.ListEntriesRequest(ledger_id=LEDGER, first_entry_id=EntryId(6), ranges_max=2)
        )

        assert page == service.EntryRanges(
            ranges=((EntryId(1), EntryId(2)), (EntryId(5), EntryId(5))), complete=False
        )
        assert rest == service.EntryRanges(ranges=((EntryId(7), EntryId(7)),), complete=True)


async def test_a_tail_is_sent_what_is_confirmed_and_nothing_else() -> None:
    async with running(MemoryFileSystem()) as bookie:
        await open_fragment(bookie, opening())
        await append(bookie, frame(0, 1, lac=-1))
        request = service.TailRequest(
            ledger_id=LEDGER, first_entry_id=EntryId(0), bytes_max=1 << 20, quiet_ms=60_000
        )
        async with aclosing(bookie.tail(request)) as updates:
            first = await anext(updates)
            assert (first.last_add_confirmed, first.frames) == (-1, ())

            await append(bookie, frame(2, lac=1))
            second = await anext(updates)
            assert second.last_add_confirmed == 1
            assert [list(part.entry_ids) for part in second.frames] == [[0, 1]]

            await write_lac(bookie, lac_packet(2))
            third = await anext(updates)
            assert third.last_add_confirmed == 2
            assert [list(part.entry_ids) for part in third.frames] == [[2]]


async def test_a_quiet_tail_is_told_so_and_one_that_waits_ends_with_the_bookie() -> None:
    async with running(MemoryFileSystem()) as bookie:
        await open_fragment(bookie, opening())
        request = service.TailRequest(
            ledger_id=LEDGER, first_entry_id=EntryId(0), bytes_max=1 << 20, quiet_ms=1
        )
        async with aclosing(bookie.tail(request)) as updates:
            for _ in range(3):
                assert (await anext(updates)).frames == ()
            bookie.drain()
            with pytest.raises(errors.ShuttingDown):
                await to_its_end(updates)


async def to_its_end(updates: AsyncGenerator[service.TailUpdate, None]) -> None:
    async for _ in updates:
        pass


async def test_a_tail_of_many_entries_comes_in_bounded_updates() -> None:
    async with running(MemoryFileSystem()) as bookie:
        await open_fragment(bookie, opening())
        await append(bookie, *[frame(number) for number in range(10)], frame(10, lac=9))
        request = service.TailRequest(
            ledger_id=LEDGER, first_entry_id=EntryId(0), bytes_max=1, quiet_ms=60_000
        )
        async with aclosing(bookie.tail(request)) as updates:
            got = [(await anext(updates)).frames for _ in range(10)]

        assert [[list(part.entry_ids) for part in frames] for frames in got] == [
            [[number]] for number in range(10)
        ]


async def test_a_read_only_bookie_takes_no_entries_and_remembers_it() -> None:
    files = MemoryFileSystem()
    async with running(files, crash=True) as bookie:
        await open_fragment(bookie, opening())
        await append(bookie, frame(0))
        await bookie.set_read_only(read_only=True)
    async with running(files) as bookie:
        assert (await bookie.info()).state is service.BookieState.READ_ONLY
        assert isinstance((await append(bookie, frame(1)))[0], errors.ReadOnly)
        await bookie.fence(LEDGER, KEY)
        assert await read_ids(bookie) == [0]
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(bookie.mode_changed(read_only=True))
            await bookie.set_read_only(read_only=False)
        assert (await bookie.info()).state is service.BookieState.WRITABLE


async def test_a_draining_bookie_takes_nothing_new_and_answers_what_it_took() -> None:
    async with running(MemoryFileSystem()) as bookie:
        await open_fragment(bookie, opening())
        heard = Outcomes()
        bookie.append([carriers.Append(number=0, frame=frame(0))], heard)
        bookie.drain()

        assert isinstance((await append(bookie, frame(1)))[0], errors.ShuttingDown)
        assert isinstance(await write_lac(bookie, lac_packet(0)), errors.ShuttingDown)
        with pytest.raises(errors.ShuttingDown):
            await open_fragment(bookie, opening(first=9))
        assert await heard.of(0) is None
        assert (await bookie.info()).state is service.BookieState.DRAINING


async def test_more_than_may_wait_for_the_disk_is_refused() -> None:
    size = frame(0).size_bytes
    async with running(
        MemoryFileSystem(), limits=BookieLimits(waiting_bytes_max=2 * size + 30)
    ) as bookie:
        await open_fragment(bookie, opening())

        outcomes = await append(bookie, frame(0), frame(1), frame(2))

        assert outcomes[:2] == [None, None]
        assert isinstance(outcomes[2], errors.TooManyRequests)
        assert await append(bookie, frame(2)) == [None]


async def test_a_disk_without_room_refuses_entries_and_goes_on_with_the_rest() -> None:
    files = MemoryFileSystem(total_bytes=4_600)  # the checkpoint of one ledger has its room, too
    sizes = Sizes(segment_bytes=1 << 16, reserve_bytes=3_000)
    async with running(files, sizes=sizes) as bookie:
        await open_fragment(bookie, opening())
        await append(bookie, frame(0))

        outcome = (await append(bookie, frame(1, data=bytes(2_000))))[0]

        assert isinstance(outcome, errors.InsufficientSpace)
        await bookie.fence(LEDGER, KEY)
        assert await read_ids(bookie) == [0]


@pytest.mark.parametrize("kind", ["write", "sync"])
async def test_an_error_of_the_disk_stops_the_bookie_and_acknowledges_nothing(kind: str) -> None:
    files = MemoryFileSystem()
    heard = Outcomes()

    def fail(asked: str, name: str) -> None:
        if asked == kind:
            raise OSError(errno.EIO, "input/output error", name)

    async def write_on_a_failing_disk() -> None:
        async with running(files) as bookie:
            await open_fragment(bookie, opening())
            files.troubles = fail
            bookie.append([carriers.Append(number=0, frame=frame(0))], heard)
            async with asyncio.timeout(LIMIT_S):
                await asyncio.Event().wait()

    with pytest.raises(ExceptionGroup) as stopped:
        await write_on_a_failing_disk()

    assert stopped.group_contains(DiskFailedError)
    failure = heard.heard[0]
    assert isinstance(failure, errors.IoFailed)
    assert failure.maybe_applied


async def test_an_idle_log_is_covered_and_damage_of_its_last_entry_is_then_noticed() -> None:
    files = MemoryFileSystem()
    synced = asyncio.Event()

    def note(asked: str, name: str) -> None:
        if asked == "sync":
            synced.set()

    async with running(files, crash=True) as bookie:
        await open_fragment(bookie, opening())
        await append(bookie, frame(0))
        files.troubles = note
        async with asyncio.timeout(LIMIT_S):
            await synced.wait()
    damage(files, payload(0))

    with pytest.raises(DamagedLogError):
        async with running(files):
            pass
