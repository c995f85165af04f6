"""Repair of what is in limbo, by the real repairer and without auditor and zone watch.

A mender marks all members of a ledger that a bookie is in limbo for. So every member is looked at
entry by entry, and a finished mark means that every entry is on every member's disk (``Marks``).
Nothing is held here: what holds repairs is the matter of zone outages.
"""

import asyncio
from collections.abc import Collection, Mapping
from typing import Final

from tests.simulation import history as seen
from tests.simulation.actors import AGAIN_MS, Life, Observer
from tests.simulation.machine import Machine
from tests.simulation.surroundings import ROOT, Surroundings
from zonekeeper.client.api.client import Client
from zonekeeper.metadata.formats import underreplication_format
from zonekeeper.metadata.formats.ledger_metadata import LedgerMetadata
from zonekeeper.metadata.ledgers import underreplication
from zonekeeper.metadata.store.background import alongside
from zonekeeper.metadata.store.errors import StoreError
from zonekeeper.metadata.stores.memory_server import Change
from zonekeeper.placement.base.ids import BookieId, EntryId, LedgerId
from zonekeeper.replication.repair.repairing import Repairer
from zonekeeper.replication.view.rereading import Reread
from zonekeeper.replication.view.view import View

_MARKS: Final = f"{ROOT}/underreplication/ledgers"
_LOCKS: Final = f"{ROOT}/underreplication/locks/"


class _Unheld(View):
    """A view in which nothing holds repairs."""

    def what_holds_anew(self, bookie: BookieId, anew: Reread | None = None) -> None:
        """Say that nothing does."""


def owing(observer: Observer, machines: Mapping[BookieId, Machine]) -> list[LedgerId]:
    """Give the ledgers that name a bookie that is there, and in limbo for them."""
    return sorted(
        {
            ledger_id
            for machine in machines.values()
            if machine.serving is not None
            for ledger_id in machine.in_limbo()
            if (ledger := observer.ledgers.get(ledger_id)) is not None
            and ledger_id not in observer.doomed
            and machine.id in ledger.bookies
        }
    )


class Mending:
    """What menders do in one world."""

    def __init__(self, machines: Mapping[BookieId, Machine]) -> None:
        self._machines = machines

    async def mend(self, life: Life) -> None:
        """Mark and repair what is in limbo, again and again."""
        client = life.the_client
        view = _Unheld(client.cluster)
        async with alongside(view.follow()):
            await view.known()
            name = BookieId(life.process.name)
            repairer = Repairer(client, view, name=name, chance=life.chance)
            while True:
                for ledger_id in owing(life.observer, self._machines):
                    await self._attempt(life.observer, client, repairer, ledger_id)
                await asyncio.sleep(AGAIN_MS / 1_000)

    async def _attempt(
        self, observer: Observer, client: Client, repairer: Repairer, ledger_id: LedgerId
    ) -> None:
        ledger = observer.ledgers.get(ledger_id)
        if ledger is None:
            return
        try:
            await underreplication.mark(client.cluster, ledger_id, ledger.bookies, at_ms=0)
            await repairer.attempt(ledger_id)
        except StoreError as error:
            if not (error.retryable or error.maybe_applied):
                raise


class Marks:
    """Hears of marks and claims, and notes what members lack when a mark is finished."""

    def __init__(
        self, around: Surroundings, observer: Observer, machines: Mapping[BookieId, Machine]
    ) -> None:
        self._around = around
        self._observer = observer
        self._machines = machines
        #: When each claim was made, and how many entries were in finished fragments then. A repair
        #: does not look at entries that come behind them, unless it closes the ledger itself.
        self._claimed: dict[LedgerId, tuple[int, int]] = {}

    def changed(self, change: Change) -> None:
        """Hear of a change in the metadata service."""
        for path, before in change.before.items():
            if path.startswith(_LOCKS):
                ledger_id = underreplication_format.parse_lock_name(path.removeprefix(_LOCKS))
                if before is None and ledger_id is not None and self._is_there(path):
                    ledger = self._observer.ledgers.get(ledger_id)
                    finished = 0 if ledger is None else _finished_entries(ledger)
                    self._claimed[ledger_id] = self._around.now_ms(), finished
            elif path.startswith(_MARKS) and before is not None and not self._is_there(path):
                ledger_id = underreplication_format.parse_ledger_path(path.removeprefix(_MARKS))
                if ledger_id is not None and self._by_its_claim(ledger_id, change):
                    self._finished(ledger_id, underreplication_format.parse(before.value).replicas)

    def _is_there(self, path: str) -> bool:
        server = self._around.server
        return server.node(path, server.last_change_id) is not None

    def _by_its_claim(self, ledger_id: LedgerId, change: Change) -> bool:
        """Did the claim end with it? Others take the lock and give it back in one change."""
        return change.before.get(_LOCKS + underreplication_format.lock_name(ledger_id)) is not None

    def _finished(self, ledger_id: LedgerId, named: Collection[BookieId]) -> None:
        ledger = self._observer.ledgers.get(ledger_id)
        if ledger is None:
            return
        claimed_ms, end = self._claimed.get(ledger_id, (0, _finished_entries(ledger)))
        lacking: dict[BookieId, int] = {}
        for entry in map(EntryId, range(end)):
            ensemble, size = ledger.fragment_of(entry).ensemble, ledger.ensemble_size
            for step in range(ledger.write_quorum):
                bookie = ensemble[(entry + step) % size]
                machine = self._machines[bookie]
                recent = machine.lost_ms >= claimed_ms
                if not (recent and not machine.served) and not machine.has(ledger_id, entry):
                    lacking[bookie] = lacking.get(bookie, 0) + 1
        in_limbo = [
            bookie
            for bookie in sorted(ledger.bookies.intersection(named))
            if self._machines[bookie].serving is not None
            and ledger_id in self._machines[bookie].in_limbo()
        ]
        self._around.did(MENDED)
        if lacking or in_limbo:
            self._around.note(
                seen.Mended(
                    ledger=ledger_id,
                    lacking=tuple(sorted(lacking.items())),
                    in_limbo=tuple(in_limbo),
                )
            )


def _finished_entries(ledger: LedgerMetadata) -> int:
    return ledger.last_entry + 1 if ledger.is_closed else ledger.last_fragment.first_entry


#: Marks that a repair has finished.
MENDED: Final = "marks finished"
