"""Sees what the metadata store says of the log, of its cursor, and of ledgers made for it."""

from typing import Final

from tests.simulation import history as seen
from tests.simulation import log_sights
from tests.simulation.log_cast import CURSOR, NAME
from tests.simulation.log_sights import LogSight
from tests.simulation.surroundings import INSTANCE, ROOT, Surroundings
from zonekeeper.metadata.formats import log_names, log_record_format
from zonekeeper.metadata.formats.ledger_metadata import LedgerMetadata
from zonekeeper.metadata.formats.log_record import LogRecord
from zonekeeper.metadata.logs import log_cursor, log_stamp
from zonekeeper.metadata.logs.log_cursor import CursorMark
from zonekeeper.metadata.stores.tree import Node
from zonekeeper.placement.base.ids import LedgerId

#: What a run with logs counts.
TRIMMED: Final = "times that a log was trimmed"
DELETED: Final = "logs deleted"
RECLAIMED: Final = "ledgers of logs deleted"
MOVED: Final = "times that a cursor moved"

_RECORD: Final = f"{ROOT}.zonekeeper/logs{log_names.path(NAME)}"
_CURSOR: Final = _RECORD + log_cursor.node(CURSOR)


class LogEyes:
    """Hears of the changes of nodes and ledgers."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._record: LogRecord | None = None
        self._mark: CursorMark | None = None

    def changed(self, path: str, node: Node | None) -> None:
        """Hear that a node has changed; None: it is not there any more."""
        if path == _RECORD:
            self._take_record(node)
        elif path == _CURSOR:
            self._take_mark(node)

    def gone(self, ledger_id: LedgerId, metadata: LedgerMetadata) -> None:
        """Hear that a ledger was deleted, of which this was the metadata."""
        stamp = log_stamp.of(metadata)
        if stamp is not None:
            self._around.did(RECLAIMED)
            self._note(
                log_sights.LogLedgerGone(ledger=ledger_id, log=stamp.log_id, epoch=stamp.epoch)
            )

    def _take_record(self, node: Node | None) -> None:
        record = None if node is None else log_record_format.parse(node.value, INSTANCE)
        if record == self._record:
            return
        self._around.did(DELETED, record is None)
        if record is not None and self._record is not None:
            self._around.did(TRIMMED, record.start != self._record.start)
        self._record = record
        self._note(log_sights.LogRecorded(record=record))

    def _take_mark(self, node: Node | None) -> None:
        mark = None if node is None else log_cursor.parse(node.value, INSTANCE)
        if mark is not None and self._mark is not None:
            self._around.did(MOVED, mark.position != self._mark.position)
        self._mark = mark
        self._note(log_sights.CursorRecorded(mark=mark))

    def _note(self, sight: LogSight) -> None:
        self._around.note(seen.OfLog(sight=sight))
