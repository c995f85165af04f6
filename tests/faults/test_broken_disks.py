"""What a bookie's process does about a disk that fails, is full, or is gone."""

import asyncio
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.faults.faulty_bookie import NONE
from tests.faults.one_disk import BOOKIE, FLAGS, LIMIT_S, ONE, World, check, command, fill, world
from tests.support import careful_files
from tests.support.mounts import own_mounts
from zonekeeper.client.api import client as clients
from zonekeeper.client.api.client import Client
from zonekeeper.client.base import errors
from zonekeeper.placement.base.ids import NO_ENTRY, EntryId, LedgerId

pytestmark = pytest.mark.processes

LEDGER_BYTES = 8 << 20
DISK_BYTES = 224 << 20
#: A device that is full early, so that the test is short.
SMALL_DISK = {
    **FLAGS,
    "--disk-check-interval": "100ms",
    "--disk-full": "85%",
    "--disk-warn": "75%",
    "--disk-low": "75%",
    "--reserve-bytes": "8MiB",
}
#: Runs what follows with a small file system of its own on the folder that it is given first.
ON_SMALL_DISK = ["sh", "-c", f'mount -t tmpfs -o size={DISK_BYTES} tmpfs "$0" && exec "$@"']


async def start(made: World, bookie: list[str]) -> None:
    made.bookies.launch(BOOKIE, bookie)
    assert await asyncio.to_thread(made.bookies.is_ready, BOOKIE), made.bookies.words(BOOKIE)


@dataclass(frozen=True)
class Written:
    """A ledger, and what was acknowledged of it."""

    ledger_id: LedgerId
    last: EntryId
    closed: bool


async def write_one(client: Client, size_bytes: int = LEDGER_BYTES) -> Written | None:
    """Write a ledger and close it; None: the bookie takes nothing."""
    writer = None
    try:
        async with asyncio.timeout(LIMIT_S / 6):
            writer = await client.create(quorums=ONE)
            await fill(writer, size_bytes, lambda: True)
            await writer.close()
    except (errors.ClientError, TimeoutError):
        # A bookie that refused is avoided for a while, and then no bookie is asked: let time go on.
        await asyncio.sleep(0.1)
        if writer is None:
            return None
        writer.halt()
        if writer.last_confirmed == NO_ENTRY:
            return None
        return Written(writer.ledger_id, writer.last_confirmed, closed=False)
    return Written(writer.ledger_id, writer.last_confirmed, closed=True)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("sync:arrival-:20:eio", "([Errno 5] Input/output error: 'arrival-"),
        ("sync:checkpoint:3:eio", "a segment cannot be rewritten or prepared ([Errno 5]"),
    ],
)
async def test_a_sync_that_fails_ends_the_process_which_says_why(
    tmp_path: Path, fault: str, words: str
) -> None:
    async with world(tmp_path, 1) as made:
        await start(made, command(fault))
        async with asyncio.timeout(LIMIT_S), clients.connect(made.address) as client:
            while not made.bookies.ended():
                await write_one(client)
        said = made.bookies.words(BOOKIE)
        assert words in said
        assert "what was not acknowledged is unknown" in said
        assert "Traceback" not in said
        assert careful_files.CLOSED not in said


@pytest.mark.parametrize("fault", [NONE, "sync:sorted-:1:late"])
async def test_a_full_disk_is_read_refused_and_given_back(tmp_path: Path, fault: str) -> None:
    """However far the rewrite was behind: its segments must not be what fills the disk.

    Where the test may not mount, the rewrite finds no room instead, and is waited for.
    """
    mounts = own_mounts()
    async with world(tmp_path, 1, SMALL_DISK) as made:
        made.bookies.data(BOOKIE).mkdir(parents=True)
        on_disk = [*mounts, *ON_SMALL_DISK, str(made.bookies.data(BOOKIE)), *command(fault)]
        await start(made, on_disk if mounts else command("write:sorted-:1:enospc"))
        written: list[Written] = []
        async with clients.connect(made.address) as client:
            while (one := await write_one(client)) is not None:
                written.append(one)
            assert not made.bookies.ended(), made.bookies.words(BOOKIE)
            assert len(written) * LEDGER_BYTES >= DISK_BYTES / 4
            # What is full still takes what a recovery must write: the last one was not closed.
            for ledger in written:
                await check(client, ledger.ledger_id, ledger.last)
            if not mounts:
                return
            *deleted, kept = written
            for ledger in deleted:
                await client.delete(ledger.ledger_id)
            async with asyncio.timeout(LIMIT_S):
                while await write_one(client) is None:
                    pass  # until its space is given back
            await check(client, kept.ledger_id, kept.last)


async def test_a_start_on_a_disk_without_any_room_says_what_to_do(tmp_path: Path) -> None:
    async with world(tmp_path, 1) as made:
        await start(made, command(NONE))
        async with clients.connect(made.address) as client:
            written = await write_one(client)
        assert written is not None
        made.bookies.kill(BOOKIE)
        for point in ("create:boots:1:enospc", "write:arrival-:1:enospc"):
            made.bookies.launch(BOOKIE, command(point))
            assert not await asyncio.to_thread(made.bookies.is_ready, BOOKIE)
            said = made.bookies.words(BOOKIE)
            assert "No space left on device" in said
            assert "nothing is lost; make room on the bookie's devices" in said
            assert "Traceback" not in said
            made.bookies.kill(BOOKIE)
        await start(made, command(NONE))
        async with clients.connect(made.address) as client:
            await check(client, written.ledger_id, written.last)


async def is_known(client: Client, ledger: Written) -> bool:
    """Read a ledger whole; what cannot be read must be unknown, and not denied."""
    try:
        await check(client, ledger.ledger_id, ledger.last)
    except (errors.ReadFailed, errors.RecoveryFailed):
        return False
    return True


async def test_a_ledger_directory_that_is_gone_makes_its_entries_unknown(tmp_path: Path) -> None:
    first, second = tmp_path / "ledgers-1", tmp_path / "ledgers-2"
    flags = {**FLAGS, "--ledger-dirs": f"{first},{second}", "--disk-check-interval": "100ms"}
    async with world(tmp_path, 1, flags) as made:
        await start(made, command(NONE))
        async with clients.connect(made.address) as client:
            written = []
            while len(list(first.glob("sorted-*"))) < 2:
                written.append(await write_one(client))
            written.append(await write_one(client, 1))
            while first.exists():  # the bookie may begin a segment there meanwhile
                shutil.rmtree(first, ignore_errors=True)
            known = [await is_known(client, one) for one in written if one is not None]
            assert len(known) == len(written)
            assert not all(known)
            assert known[-1], "what is not sorted yet is elsewhere"
            while await write_one(client) is not None:
                pass  # until the bookie has looked at its directories
            # A removed file is read as long as it is open, and a rewrite under way ends in it.
            later = [await is_known(client, one) for one in written if one is not None]
            assert all(was for was, still in zip(known, later, strict=True) if still)
            assert later[-1]
        assert not made.bookies.ended(), made.bookies.words(BOOKIE)
        made.bookies.kill(BOOKIE)
        made.bookies.launch(BOOKIE, command(NONE))
        assert not await asyncio.to_thread(made.bookies.is_ready, BOOKIE)
        assert f"replace-disk --folder {first}" in made.bookies.words(BOOKIE)
