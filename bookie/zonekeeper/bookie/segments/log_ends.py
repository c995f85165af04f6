"""How far the log is known to be on the disk: the file is read by a start, and kept up to date.

A start compares the log with the file (``formats.log_end``). A log that ends earlier is damage: an
arrival segment is missing, or cut short, or its last batches are bad. Without the file such damage
looks like the torn end that a power loss leaves.

The ack path pays nothing for the file. It is written

* by a start, when the first batch of the start's generation is on the disk;
* with each checkpoint of the rewrite;
* when the log was idle for ``QUIET_MS`` behind its covering batch;
* by a stop in order, behind the last batch.

So what was acknowledged since the last of these is not *covered*. If it is damaged at rest, and no
later batch says that it was synced, then the damage is taken for a torn end. The other way round
never happens: the file names only batches that were synced, so nothing that a power loss may leave
is called damage.

A checkpoint from version 3 on says that there is such a file, so a missing one is damage. A disk of
an earlier version may have none.
"""

import asyncio
from functools import partial
from typing import Final

from zonekeeper.bookie.disk import whole_files
from zonekeeper.bookie.disk.disks import Disk
from zonekeeper.bookie.disk.files import SHORTAGES, FileSystem
from zonekeeper.bookie.formats import log_end
from zonekeeper.bookie.formats.arrival_scan import DamagedLogError
from zonekeeper.bookie.formats.checkpoint_format import Checkpoint
from zonekeeper.bookie.formats.log_end import LogEnd
from zonekeeper.bookie.segments.log import Log
from zonekeeper.wire.formats.errors import Fault, FormatError

#: A log that is idle for this long behind its covering batch has its end noted.
QUIET_MS: Final = 1_000
_REMEDY: Final = (
    "without it nothing shows whether the log is whole: restore it, or replace the disk "
    "(`zonekeeper bookie cookie replace-disk`)"
)


class EndKeeper:
    """Keeps the file up to date while the log runs; on an event loop."""

    def __init__(self, files: FileSystem, disk: Disk, log: Log) -> None:
        """``disk`` does the work in order, and is not the log's own."""
        self._files = files
        self._disk = disk
        self._log = log
        self._saved: LogEnd | None = None
        self._covered = asyncio.Event()
        log.on_covered = self._covered.set

    async def run(self) -> None:
        """Note the end of a log that is idle, until cancelled; raises ``OSError``."""
        while True:
            await self._covered.wait()
            self._covered.clear()
            end = self._log.end
            await asyncio.sleep(QUIET_MS / 1_000)
            if self._log.end == end:
                await self.save()

    async def save(self) -> None:
        """Note the log's end as it is now; without room for that, the last note stays."""
        await self._disk.run(partial(self._try_to_note, self.end))

    @property
    def end(self) -> LogEnd:
        """The log's end as it is now."""
        return self._log.end

    def note(self, end: LogEnd) -> None:
        """Note an end that ``end`` gave; raises ``OSError``. Blocks, on the disk."""
        if end != self._saved:
            save(self._files, end)
            self._saved = end

    def _try_to_note(self, end: LogEnd) -> None:
        try:
            self.note(end)
        except OSError as error:
            if error.errno not in SHORTAGES:
                raise


def save(files: FileSystem, end: LogEnd) -> None:
    """Replace the file durably. Blocks."""
    whole_files.replace(files, log_end.NAME, log_end.render(end))


def load(files: FileSystem, last: Checkpoint) -> LogEnd:
    """Read the file beside a checkpoint; raises ``DamagedLogError`` or ``OSError``. Blocks."""
    try:
        file = files.open(log_end.NAME)
    except FileNotFoundError:
        if last.has_log_end:
            raise DamagedLogError(f"the file {log_end.NAME!r} is missing: {_REMEDY}") from None
        return log_end.none_of(last.log_id)
    try:
        end = log_end.parse(file.read(0, log_end.SIZE + 1))
    except FormatError as fault:
        if fault.fault is Fault.VERSION:
            raise DamagedLogError(
                f"the file {log_end.NAME!r} was written by a newer zonekeeper ({fault}): start "
                "that version; nothing is lost"
            ) from fault
        raise DamagedLogError(
            f"the file {log_end.NAME!r} is damaged ({fault}): {_REMEDY}"
        ) from fault
    finally:
        file.close()
    if end.log_id != last.log_id:
        raise DamagedLogError(
            f"the file {log_end.NAME!r} is of another log than the checkpoint: files of two "
            f"bookies were mixed; {_REMEDY}"
        )
    return end
