"""What a bookie keeps: one log on one device, and in memory where everything is.

``open_storage`` reads the log and knows then what the bookie knew. ``run`` writes what is put into
``log``, until ``log.close``. Reads go to a disk object of their own and do not wait behind a sync.
All of it belongs to one event loop.
"""

from collections.abc import Sequence
from typing import assert_never

from zonekeeper.bookie import log, reading, records
from zonekeeper.bookie.disks import Disk
from zonekeeper.bookie.files import FileSystem
from zonekeeper.bookie.ledgers import Ledger
from zonekeeper.bookie.log import Log, Opened
from zonekeeper.bookie.log_format import Placed
from zonekeeper.placement.ids import LedgerId
from zonekeeper.wire.frames import Frame


class Memory:
    """What the log says, as far as it was read or written."""

    def __init__(self) -> None:
        self.ledgers: dict[LedgerId, Ledger] = {}
        #: Did a person make this bookie read-only?
        self.read_only = False

    def ledger(self, ledger_id: LedgerId) -> Ledger:
        """Give a ledger, made if it was unknown."""
        ledger = self.ledgers.get(ledger_id)
        if ledger is None:
            ledger = self.ledgers[ledger_id] = Ledger(ledger_id)
        return ledger

    def place(self, placed: Sequence[Placed]) -> None:
        """Take note of what is on disk."""
        for record, offset in placed:
            match record:
                case records.Mode(read_only=read_only):
                    self.read_only = read_only
                case (
                    Frame() | records.Fragment() | records.Fence() | records.Lac() | records.Limbo()
                ):
                    self.ledger(record.ledger_id).placed(record, offset)
                case _:
                    assert_never(record)


class Storage:
    """An open log with its memory."""

    def __init__(
        self, files: FileSystem, writing: Disk, reads: Disk, opened: Opened, memory: Memory
    ) -> None:
        self.memory = memory
        self.log = Log(files, writing, opened, on_placed=memory.place)
        self._file = opened.file
        self._reads = reads

    async def run(self) -> None:
        """Write until the log is closed; raises ``log.DiskFailedError``."""
        await self.log.run()

    async def read(self, ledger: Ledger, wanted: range, bytes_max: int) -> reading.Found:
        """Read entries that are on disk; raises IoFailed if not even the first can be read."""
        extents = ledger.extents.between(wanted[0], wanted[-1])
        plan = reading.plan(ledger.ledger_id, extents, wanted, bytes_max)
        if not plan.pieces:
            return reading.Found(frames=(), next_entry_id=plan.next_entry_id)
        return await self._reads.run(lambda: reading.carry_out(self._file, plan, bytes_max))

    def close(self) -> None:
        """Give the file back, when nobody writes or reads any more."""
        self._file.close()


async def open_storage(files: FileSystem, *, writing: Disk, reads: Disk) -> Storage:
    """Read the log that ``log.create_file`` made; raises ``DamagedLogError`` or ``OSError``."""
    memory = Memory()
    opened = await writing.run(
        lambda: log.open_file(files, lambda batch: memory.place(batch.placed))
    )
    for ledger in memory.ledgers.values():
        ledger.restarted()
    return Storage(files, writing, reads, opened, memory)
