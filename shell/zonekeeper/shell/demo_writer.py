"""The demonstration's second writer: a process of its own, made to be killed.

It says which ledger it writes and how far that is acknowledged, a line each, so that whoever reads
the lines knows afterwards what must be there. It ends when nobody reads them any more.
"""

import asyncio
import logging
import sys

from zonekeeper.client.client import connect
from zonekeeper.placement.ids import EntryId, LedgerId
from zonekeeper.shell import demo_load
from zonekeeper.shell.local_folder import LocalError

_ENTRIES_EACH = 10


class SecondWriter:
    """The process, as the demonstration holds it."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.ledger_id: LedgerId | None = None
        self.acked = EntryId(-1)

    @classmethod
    async def start(cls, address: str) -> "SecondWriter":
        """Start it; it writes at once, and until it is killed."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-P", "-m", __name__, address),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        return cls(process)

    async def has_acked(self, entries: int) -> None:
        """Wait until so many entries are acknowledged; raises ``LocalError`` if it ends before."""
        while self.acked + 1 < entries:
            if not await self._hear():
                raise LocalError(f"the second writer ended with {await self._process.wait()}")

    async def kill(self) -> None:
        """Kill it, take in what it said until then, and wait for its end."""
        if self._process.returncode is None:
            self._process.kill()
        while await self._hear():
            pass
        await self._process.wait()

    async def _hear(self) -> bool:
        """Take in a line; False: there are no more. A line that was cut off says nothing."""
        assert self._process.stdout is not None, "it was started with a pipe"
        line = await self._process.stdout.readline()
        if not line.endswith(b"\n"):
            return False
        word, number = line.split()
        if word == b"ledger":
            self.ledger_id = LedgerId(int(number))
        else:
            self.acked = EntryId(int(number))
        return True


async def _write(address: str) -> None:
    async with connect(address) as client:
        writer = await client.create()
        _say(f"ledger {writer.ledger_id}")
        while True:
            for _ in range(_ENTRIES_EACH):
                entry_id = writer.last_appended + 1
                await writer.append(demo_load.payload(writer.ledger_id, entry_id))
            await writer.flush()
            _say(f"acked {writer.last_confirmed}")
            await asyncio.sleep(demo_load.EVERY_MS / 1_000)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    logging.getLogger("zonekeeper").setLevel(logging.ERROR)
    asyncio.run(_write(sys.argv[1]))
