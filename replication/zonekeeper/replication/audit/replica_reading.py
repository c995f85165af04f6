"""Reading every copy of a ledger's finished fragments, through the links that clients use.

Digests are checked, and the copies are compared as *the same entry* (``copies``). One window of
entries is read from all its bookies at a time, and only fingerprints are kept of it. The bytes that
are read a second are limited (``BytePace``).
"""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final, TypeAlias

from zonekeeper.client.bookies.link_pool import LinkPool
from zonekeeper.client.reading import checking
from zonekeeper.metadata.formats import placement_stamp
from zonekeeper.metadata.ledgers.ledgers import StoredLedger
from zonekeeper.metadata.store.background import together
from zonekeeper.placement.base.ids import BookieId, EntryId, LedgerId
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.replication.audit.auditor_metrics import AuditorMetrics
from zonekeeper.replication.decisions import copies, copy_plan
from zonekeeper.replication.decisions.copies import Copy, Lack
from zonekeeper.replication.view.pace import BytePace
from zonekeeper.replication.view.view import View
from zonekeeper.wire.contract import service
from zonekeeper.wire.formats import digests, entries, errors
from zonekeeper.wire.formats.digests import MasterKey

WINDOW_ENTRIES: Final = 1_024
READ_BYTES: Final = 1 << 20
#: So many entries of a window are skipped singly because their bookie cannot read them. After more,
#: nothing is known of the rest of the window: a bookie that can read nothing is not asked for all.
UNREADABLE_MAX: Final = 64
#: A line of the log names at most so many entries.
_NAMED_MAX: Final = 5

_Copies: TypeAlias = dict[EntryId, Copy]

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedWindow:
    """Some entries of a finished fragment that have one write set, and what is wrong with them."""

    #: The first entry of the fragment.
    fragment: EntryId
    wanted: range
    verdict: copies.CopiesVerdict


class ReplicaReader:
    """Reads and compares the copies of ledgers."""

    def __init__(self, view: View, pool: LinkPool, metrics: AuditorMetrics, pace: BytePace) -> None:
        """``pace`` limits what is read from all bookies together."""
        self._view = view
        self._pool = pool
        self._metrics = metrics
        self._pace = pace

    async def verify(
        self, ledger: StoredLedger, ready: Callable[[], Awaitable[None]]
    ) -> Mapping[BookieId, tuple[EntryId, Lack]]:
        """Read the finished fragments of a ledger; give the bookies whose copies are doubted.

        Each of them comes with the first such entry that was found, and why its copy is doubted.
        ``ready`` is waited for before each window. A bookie that is not registered is skipped.
        """
        doubted: dict[BookieId, tuple[EntryId, Lack]] = {}
        async with aclosing(self.judged(ledger, ready)) as windows_:
            async for window in windows_:
                self._report(ledger.id, window.verdict)
                for bookie, found in window.verdict.doubted.items():
                    doubted.setdefault(bookie, found)
        return doubted

    async def judged(
        self, ledger: StoredLedger, ready: Callable[[], Awaitable[None]]
    ) -> AsyncGenerator[JudgedWindow, None]:
        """Read the finished fragments of a ledger; give each window with its verdict.

        ``ready`` is waited for before each window. A bookie that is not registered is skipped: its
        copies are unknown.
        """
        metadata, quorums = ledger.metadata, placement_stamp.quorums_of(ledger.metadata)
        sealer = entries.Sealer(ledger.id, metadata.digest, metadata.password)
        key = digests.master_key(metadata.password)
        for part in copy_plan.finished(metadata):
            ensemble = part.fragment.ensemble
            for wanted in windows(quorums, part.entries):
                await ready()
                positions = quorums.write_set(EntryId(wanted[0]))
                asked = [one for at in positions if self.registered(one := ensemble[at])]
                said = await together(self._read(sealer, key, one, wanted) for one in asked)
                verdict = copies.judge(
                    quorums,
                    ensemble,
                    map(EntryId, wanted),
                    dict(zip(asked, said, strict=True)),
                )
                self._count(verdict, len(wanted))
                first = part.fragment.first_entry
                yield JudgedWindow(fragment=first, wanted=wanted, verdict=verdict)

    async def _read(
        self, sealer: entries.Sealer, key: MasterKey, bookie: BookieId, wanted: range
    ) -> _Copies:
        """Give what a bookie has of some entries; those it says nothing about are left out."""
        found: _Copies = {}
        unreadable = 0
        while rest := wanted[len(found) :]:
            request = service.ReadRequest(
                ledger_id=sealer.ledger_id,
                first_entry_id=EntryId(rest[0]),
                last_entry_id=EntryId(rest[-1]),
                step=rest.step,
                bytes_max=READ_BYTES,
                key=key,
            )
            try:
                reply = await (await self._pool.link(bookie)).read(request)
            except errors.NoSuchLedger:
                found.update(dict.fromkeys(map(EntryId, rest), Lack.ABSENT))
            except (errors.IoFailed, errors.LimboLedger):
                # The answer is about the first entry only: behind it there may be good copies.
                found[EntryId(rest[0])] = Lack.UNREADABLE
                unreadable += 1
                if unreadable == UNREADABLE_MAX:
                    break
            except errors.ProtocolError as error:
                _logger.info("ledger %d on %s: %s", sealer.ledger_id, bookie, error)
                break
            else:
                await self._take_in(sealer, reply, rest, found)
        return found

    async def _take_in(
        self, sealer: entries.Sealer, reply: service.ReadReply, rest: range, found: _Copies
    ) -> None:
        checked = checking.check(sealer, reply.frames)
        good = {entry.entry_id: entry for entry in checked.good}
        for entry_id in map(EntryId, rest):
            if entry_id >= reply.next_entry_id:
                break
            if entry_id in good:
                found[entry_id] = copies.fingerprint(good[entry_id])
            else:
                found[entry_id] = Lack.BAD if entry_id in checked.bad else Lack.ABSENT
        size_bytes = sum(len(entry.payload) + sealer.overhead_bytes for entry in checked.good)
        self._metrics.bytes_checked_total += size_bytes
        await self._pace.take(size_bytes)

    def _count(self, verdict: copies.CopiesVerdict, count: int) -> None:
        self._metrics.entries_checked_total += count
        self._metrics.copies_unknown_total += verdict.unknown
        self._metrics.entries_without_copy_total += len(verdict.lost)
        self._metrics.entries_in_conflict_total += len(verdict.conflicts)

    def _report(self, ledger_id: LedgerId, verdict: copies.CopiesVerdict) -> None:
        if verdict.lost:
            _logger.error(
                "ledger %d: no bookie has a good copy of %d entries: %s",
                ledger_id,
                len(verdict.lost),
                verdict.lost[:_NAMED_MAX],
            )
        if verdict.conflicts:
            _logger.error(
                "ledger %d: good copies of %d entries differ, and have no digest to tell which is "
                "right: %s",
                ledger_id,
                len(verdict.conflicts),
                verdict.conflicts[:_NAMED_MAX],
            )

    def registered(self, bookie: BookieId) -> bool:
        """Is a bookie registered, so that it can be asked?"""
        known = self._view.topology.get(bookie)
        return known is not None and known.readable


def windows(quorums: Quorums, wanted: range) -> Iterator[range]:
    """Cut a fragment's entries into windows whose entries have one write set each."""
    for stripe in copy_plan.stripes(quorums, wanted):
        for start in range(0, len(stripe), WINDOW_ENTRIES):
            yield stripe[start : start + WINDOW_ENTRIES]
