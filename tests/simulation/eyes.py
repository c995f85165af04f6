"""Sees every change of a world's metadata service, and notes what it says of ledgers.

What a store that was set back has lost is noted, too, and which of it nobody can know.
"""

from collections.abc import Collection, Mapping
from typing import Final

from tests.simulation import history as seen
from tests.simulation.actors import Observer
from tests.simulation.gates import Gates
from tests.simulation.log_eyes import LogEyes
from tests.simulation.machine import Machine
from tests.simulation.menders import Marks
from tests.simulation.surroundings import ROOT, Surroundings
from zonekeeper.metadata.formats import ledger_format, ledger_paths
from zonekeeper.metadata.formats.ledger_metadata import LedgerMetadata
from zonekeeper.metadata.stores.memory_server import Change
from zonekeeper.metadata.stores.tree import Node
from zonekeeper.placement.base.ids import BookieId, EntryId, LedgerId

#: Where bookies collect, some bookie has looked at the metadata within this time.
_LOOKED_MS: Final = 600
#: A short id is the number of such a node, and such a one is the mark of a set-back.
_DRAWN: Final = f"{ROOT}/idgen/ID-"
_RESTORED: Final = f"{ROOT}.zonekeeper/restored"


class Eyes:
    """Hears of every change in the metadata service, as ``memory_server.Client``."""

    read_lag_ms = 0

    def __init__(
        self,
        around: Surroundings,
        observer: Observer,
        machines: Mapping[BookieId, Machine],
        gates: Gates | None,
        marks: Marks | None,
    ) -> None:
        self._machines = machines
        self._marks = marks
        self._around = around
        #: When the metadata of a ledger was there first.
        self._recorded_ms: dict[LedgerId, int] = {}
        self._observer = observer
        self._gates = gates
        self._log = LogEyes(around) if around.scenario.log_writers else None

    def changed(self, change: Change) -> None:
        """Hear of a change in the metadata service."""
        if self._marks is not None:
            self._marks.changed(change)
        for path in change.before:
            if self._gates is not None:
                self._gates.changed(path)
            if self._log is not None:
                self._log.changed(path, self._node(path))
            if not path.startswith(ROOT + "/"):
                continue
            if path.startswith(_DRAWN) and self._around.from_before:
                self._drawn(LedgerId(int(path.removeprefix(_DRAWN))))
            ledger_id = ledger_paths.parse(path.removeprefix(ROOT))
            if ledger_id is not None:
                self._look(path, ledger_id)

    def session_ended(self) -> None:
        """Hear that its session ended."""
        raise AssertionError("it has none")

    def look_anew(self) -> None:
        """See what the ledgers are, now that the store was set back."""
        server = self._around.server
        found = [
            (path, ledger_id)
            for path in server.paths()
            if path.startswith(ROOT + "/")
            and (ledger_id := ledger_paths.parse(path.removeprefix(ROOT))) is not None
        ]
        known = {*self._observer.ledgers, *self._observer.board.ledgers}
        in_backup = {ledger_id for _, ledger_id in found}
        young = self._young(in_backup)
        self._around.from_before = frozenset(known | in_backup | young)
        self._observer.ledgers.clear()
        self._around.note(
            seen.SetBack(ledgers=tuple(sorted(in_backup)), young=tuple(sorted(young)))
        )
        for path, ledger_id in found:
            self._look(path, ledger_id)

    def _young(self, in_backup: Collection[LedgerId]) -> set[LedgerId]:
        """Give the ledgers of which no number in the store tells that they were lost.

        A bookie knows where the ids ended when it looked last. So it knows nothing of an id that
        was given out since, nor of a ledger whose creation was under way: either when the backup
        was taken, as the backup counts its id, or when the store was set back.
        """
        server, looked_ms = self._around.server, self._around.now_ms() - _LOOKED_MS
        recorded = self._recorded_ms
        since = {ledger_id for ledger_id, at_ms in recorded.items() if at_ms > looked_ms}
        lost = self._observer.ledgers.keys() - set(in_backup)
        counted = {ledger_id for ledger_id in lost if ledger_id < server.ids_given_out()}
        under_way = set(map(LedgerId, range(server.ids_lost))) - recorded.keys()
        return since | counted | under_way

    def _drawn(self, ledger_id: LedgerId) -> None:
        """Note an id that is given out behind a set-back, before its mark stands."""
        if self._node(_RESTORED) is None:
            self._around.note(seen.Redrawn(ledger=ledger_id))

    def _node(self, path: str) -> Node | None:
        return self._around.server.node(path, self._around.server.last_change_id)

    def _look(self, path: str, ledger_id: LedgerId) -> None:
        node = self._node(path)
        metadata = None if node is None or not node.value else ledger_format.parse(node.value)
        copies: tuple[int, ...] = ()
        if metadata is None:
            gone = self._observer.ledgers.pop(ledger_id, None)
            if self._log is not None and gone is not None:
                self._log.gone(ledger_id, gone)
        else:
            self._recorded_ms.setdefault(ledger_id, self._around.now_ms())
            if self._around.scenario.log_writers and ledger_id not in self._observer.ledgers:
                self._observer.board.ledgers.append(ledger_id)
            known = self._observer.ledgers.get(ledger_id)
            if known is not None and known.is_closed and self._gates is not None:
                self._gates.swapped(ledger_id, known, metadata)
            if known is None or known.last_fragment != metadata.last_fragment:
                self._look_at_disks(ledger_id, metadata)
            self._observer.ledgers[ledger_id] = metadata
            begun = EntryId(metadata.last_fragment.first_entry - 1)
            last = metadata.last_entry if metadata.is_closed else begun
            copies = self._observer.copies(ledger_id, EntryId(0), last)
        self._around.note(seen.Recorded(ledger=ledger_id, metadata=metadata, copies=copies))

    def _look_at_disks(self, ledger_id: LedgerId, metadata: LedgerMetadata) -> None:
        """Note whether too many members of the last ensemble owe what was on lost disks.

        Less than an ack quorum of them is what an ensemble survives. A member that came back counts
        as long as it is in limbo for this ledger, of which it was a member before.
        """
        members = metadata.last_fragment.ensemble
        owing = [bookie for bookie in members if self._machines[bookie].owes(ledger_id)]
        if len(owing) < metadata.ack_quorum:
            self._observer.doomed.discard(ledger_id)
        else:
            self._observer.doomed.add(ledger_id)
