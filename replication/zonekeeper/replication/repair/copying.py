"""Copying entries of one ledger: from the nearest good copy, to bookies that are to have one.

No byte is passed on unchecked: each entry that is read has passed its digest. Where a ledger has no
digest (DUMMY), all copies that can be read must be the same entry. The packet is passed on as it
was written, so that copies stay equal byte by byte.

``go_on`` is asked before each read and before each frame. It raises if the work may not go on (the
gate holds it, or a bookie came back). A frame is at most one carrier: no more than that still
happens after a hold is known. Sources are asked in the order of reads (own zone first, failing
bookies last), one at a time. A slow source costs its timeout, and not a second copy of the bytes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from zonekeeper.client.bookies.bookies import Bookies
from zonekeeper.client.sessions.read_session import Reading
from zonekeeper.metadata.formats.ledger_metadata import LedgerMetadata
from zonekeeper.metadata.store.background import together
from zonekeeper.placement.base.digests import Digest
from zonekeeper.placement.base.ids import BookieId, EntryId
from zonekeeper.placement.base.troubles import Trouble
from zonekeeper.placement.ensembles import read_order
from zonekeeper.replication.decisions import copy_plan
from zonekeeper.replication.decisions.copy_plan import Cause, Finished, Share, shares
from zonekeeper.replication.repair.delivery import Delivery
from zonekeeper.replication.repair.repair_metrics import (
    RepairMetrics,
    RepairStoppedError,
    RepairTrouble,
    Route,
)
from zonekeeper.replication.view.pace import BytePace
from zonekeeper.replication.view.rereading import Reread
from zonekeeper.wire.formats import digests, errors, frames
from zonekeeper.wire.formats.entries import Entry
from zonekeeper.wire.formats.frames import Flags
from zonekeeper.wire.formats.openings import FragmentOpening

#: At most so many entries are asked for, and sealed, at a time. More would block the event loop.
WINDOW_ENTRIES: Final = 1 << 13


class GoOn(Protocol):
    """Raises ``RepairStoppedError`` if the work may not go on."""

    def __call__(self, anew: Reread | None = None) -> None:
        """Ask; ``anew`` are gates that were read again, just before a commit."""
        ...


class BadCopyError(Trouble):
    """A registered bookie has a copy that cannot be read, or is not what was written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Copier:
    """Copies entries of one ledger."""

    ledger: LedgerMetadata
    reading: Reading
    bookies: Bookies
    #: Limits of bytes a second. Each of them is kept.
    paces: tuple[BytePace, ...]
    metrics: RepairMetrics

    async def copy(
        self,
        part: Finished,
        after: tuple[BookieId, ...],
        leaving: Mapping[int, Cause],
        go_on: GoOn,
    ) -> list[Delivery]:
        """Copy to every newcomer of an ensemble all that its position holds, durably.

        A newcomer may be a member that gets another position. It is told the present ensemble once
        more, and not the one to come. If the swap never happens, it remembers nothing that was
        never true. If the swap happens, the ensemble that it remembers still leads to every entry,
        because members keep what they have.

        Return a ``Delivery`` for each newcomer. Its ``check_start`` raises ``TargetFailedError`` if
        the bookie does not answer, or was started again since it acknowledged the copy.
        """
        now = part.fragment.ensemble
        to = {
            position: Delivery(
                self.bookies,
                after[position],
                self._opening(part, now if after[position] in now else after),
            )
            for position in leaving
        }
        try:
            for owed in copy_plan.owed(self.reading.quorums, part, after, leaving):
                targets = [(to[at], leaving[at]) for at in owed.positions]
                await self._copy(part, owed.share, owed.share.wanted, targets, go_on)
        finally:
            for delivery in to.values():
                delivery.close()
        return list(to.values())

    async def mend(self, part: Finished, position: int, go_on: GoOn) -> int:
        """Look at every entry of a registered member's copy, and put in those that are missing.

        Give how many were put in. Raises ``BadCopyError`` if an entry is bad, or cannot be read.
        """
        put_in = 0
        bookie, ensemble = part.fragment.ensemble[position], part.fragment.ensemble
        delivery = Delivery(self.bookies, bookie, self._opening(part, ensemble))
        try:
            for share in shares(self.reading.quorums, part, (position,)):
                left = share.wanted
                while left:
                    go_on()
                    looked_at, missing = await self._examine(bookie, left[:WINDOW_ENTRIES])
                    for run in missing:
                        targets = [(delivery, Cause.HOLES)]
                        await self._copy(part, share, run, targets, go_on)
                        put_in += len(run)
                    left = left[looked_at:]
        finally:
            delivery.close()
        return put_in

    async def _copy(
        self,
        part: Finished,
        share: Share,
        wanted: range,
        targets: Sequence[tuple[Delivery, Cause]],
        go_on: GoOn,
    ) -> None:
        """Copy some entries of a share, a carrier at a time."""
        sealer = self.reading.sealer
        while wanted:
            go_on()
            source, run = await self._read(part, share, wanted[:WINDOW_ENTRIES])
            packets = [
                sealer.seal(one.entry_id, one.last_add_confirmed, one.length, one.payload)
                for one in run
            ]
            size_bytes = sum(map(len, packets))
            await self._keep_pace(size_bytes * len(targets))
            frame = frames.build(
                sealer.ledger_id, [one.entry_id for one in run], packets, Flags.RECOVERY
            )
            go_on()
            for delivery, cause in targets:
                route = Route(self._zone(source), self._zone(delivery.bookie), cause)
                self.metrics.bytes_moved[route] += size_bytes
            await together(delivery.put(frame) for delivery, _ in targets)
            wanted = wanted[len(run) :]

    async def _read(
        self, part: Finished, share: Share, wanted: range
    ) -> tuple[BookieId, list[Entry]]:
        """Give the first entries of a range from the nearest copy, and the bookie that has it."""
        bookies, troubles = self.bookies, list[str]()
        order = read_order.order(
            share.holders,
            [bookies.replica(one) for one in part.fragment.ensemble],
            bookies.own_zone,
            bookies.policy.reads,
            bookies.now_ms(),
        )
        for position in order.positions:
            bookie = part.fragment.ensemble[position]
            try:
                checked, _ = await self.reading.entries(bookie, wanted)
            except errors.Negative:
                continue
            except errors.ProtocolError as error:
                self.reading.report(bookie, error)
                troubles.append(f"{bookie}: {type(error).__name__}: {error}")
                continue
            if (flaw := checked.bad.get(EntryId(wanted[0]))) is not None:
                troubles.append(f"{bookie}: {flaw}")
                continue
            if run := _run(wanted, checked.good):
                if self.ledger.digest is Digest.DUMMY:
                    await self._compare(part, share, bookie, run)
                return bookie, run
        what = f"entry {wanted[0]}"
        if troubles:
            text = f"{what}: no bookie gave it ({'; '.join(troubles)})"
            raise RepairStoppedError(RepairTrouble.NO_SOURCE, text)
        text = f"{what}: every bookie of its write set says that it never had it"
        raise RepairStoppedError(RepairTrouble.ENTRY_LOST, text)

    async def _compare(
        self, part: Finished, share: Share, source: BookieId, run: Sequence[Entry]
    ) -> None:
        """Raise if another copy that can be read differs from one of these entries."""
        known = {one.entry_id: one for one in run}
        for position in share.holders:
            bookie = part.fragment.ensemble[position]
            left = range(run[0].entry_id, run[-1].entry_id + 1, share.wanted.step)
            while bookie != source and left:
                try:
                    checked, until = await self.reading.entries(bookie, left)
                except errors.ProtocolError:
                    break  # a copy that cannot be read shows no difference
                for entry in checked.good:
                    here = known.get(entry.entry_id)
                    if here and (here.length, here.payload) != (entry.length, entry.payload):
                        raise RepairStoppedError(
                            RepairTrouble.COPIES_DIFFER,
                            f"entry {entry.entry_id}: {source} and {bookie} hold different ones, "
                            "and it has no digest",
                        )
                left = left[len(range(left.start, until, left.step)) :]

    async def _examine(self, bookie: BookieId, wanted: range) -> tuple[int, list[range]]:
        """Look at a bookie's copies: give how many were looked at, and those that are missing."""
        where = f"entries from {wanted[0]} on at {bookie}"
        try:
            checked, until = await self.reading.entries(bookie, wanted)
        except (errors.Negative, errors.LimboLedger):
            # In limbo the first entry is missing. The bookie may have others of them: it accepts
            # the same entry once more.
            return len(wanted), [wanted]
        except errors.IoFailed as error:
            raise BadCopyError(f"{where}: {error}") from error
        except errors.ProtocolError as error:
            text = f"{where}: {type(error).__name__}: {error}"
            raise RepairStoppedError(RepairTrouble.NO_SOURCE, text) from error
        for flaw in checked.bad.values():
            raise BadCopyError(f"{where}: {flaw}")
        looked_at = range(wanted.start, min(until, wanted.stop), wanted.step)
        await self._keep_pace(sum(len(entry.payload) for entry in checked.good))
        there = {entry.entry_id for entry in checked.good}
        return len(looked_at), _runs([at for at in looked_at if at not in there], wanted.step)

    async def _keep_pace(self, size_bytes: int) -> None:
        for pace in self.paces:
            await pace.take(size_bytes)

    def _opening(self, part: Finished, ensemble: tuple[BookieId, ...]) -> FragmentOpening:
        return FragmentOpening(
            ledger_id=self.reading.sealer.ledger_id,
            master_key=digests.master_key(self.ledger.password),
            quorums=self.reading.quorums,
            digest=self.ledger.digest,
            first_entry_id=part.fragment.first_entry,
            ensemble=ensemble,
            create_token=self.ledger.create_token,
        )

    def _zone(self, bookie: BookieId) -> str:
        return self.bookies.zone(bookie) or "unknown"


def _run(wanted: range, good: Sequence[Entry]) -> list[Entry]:
    """Give the good entries from the first wanted one up to the first gap."""
    run: list[Entry] = []
    for number, entry in zip(wanted, good, strict=False):
        if entry.entry_id != number:
            break
        run.append(entry)
    return run


def _runs(numbers: Sequence[int], step: int) -> list[range]:
    """Join ascending numbers into ranges with this step."""
    runs: list[range] = []
    for number in numbers:
        if runs and runs[-1].stop == number:
            runs[-1] = range(runs[-1].start, number + step, step)
        else:
            runs.append(range(number, number + step, step))
    return runs
