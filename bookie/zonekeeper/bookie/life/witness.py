"""The witness: a bookie that looks whether the metadata was set back to an older state.

A look first writes, to a node of the bookie's own (``looks``). Then it reads the counter of ledger
ids, the bookie's record and the policy, in the same session. So none of the three numbers can come
from a server of the store that is behind. A session that ends during a look makes the look worth
nothing, and it raises.

If a number is lower than the one that the bookie keeps, the look marks the root as restored, and
names the evidence (``set_back``). Then it keeps the higher of each number. Otherwise the bookie
keeps what the look found. The bookie looks when it starts, before each registration, from time to
time, and before it collects.

A shortage on the device costs what would have been kept, and not the look: a bookie looks before it
registers as read-only because its device is full. The next look keeps it.

Not promised: a store that is set back to a state that is younger than the last look of every bookie
is not noticed. No number is lower then. Looks are at most ``LOOK_EVERY_MS`` apart.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, TypeVar

from zonekeeper.bookie.disk.disks import Disk
from zonekeeper.bookie.disk.files import SHORTAGES, FileSystem
from zonekeeper.bookie.life import known_metadata
from zonekeeper.metadata.bookies import bookie_records, looks
from zonekeeper.metadata.cluster import evidence, policy_store, restored, timeline
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.cluster.evidence import Knowledge, Proofs
from zonekeeper.metadata.cluster.restored import EVIDENCE_MAX
from zonekeeper.metadata.cluster.timeline import Event
from zonekeeper.metadata.formats.malformed import UnreadableError
from zonekeeper.metadata.ledgers import ledger_ids, set_back
from zonekeeper.metadata.ledgers.ledger_ids import IdsUsedUpError
from zonekeeper.metadata.store.errors import SessionLostError, StoreError
from zonekeeper.metadata.store.store import SessionId
from zonekeeper.placement.base.ids import BookieId

#: What a look without an answer raises.
NO_ANSWER: Final = (StoreError, UnreadableError, IdsUsedUpError)

#: The longest time between two looks of a bookie, if it does not collect more often.
LOOK_EVERY_MS: Final = 60_000
#: A start or a registration waits no longer for a look.
PATIENCE_MS: Final = 5_000

Answer = TypeVar("Answer")

_logger = logging.getLogger(__name__)


class Witness:
    """Looks at the metadata, and keeps what it saw on the bookie's disk."""

    def __init__(
        self,
        cluster: Cluster,
        bookie: BookieId,
        files: FileSystem,
        disk: Disk,
        *,
        wall_ms: Callable[[], int],
    ) -> None:
        self._cluster = cluster
        self._bookie = bookie
        self._files = files
        self._disk = disk
        self._wall_ms = wall_ms
        self._known: Knowledge | None = None
        #: Did the last try end without an answer?
        self._unsure = False
        #: Evidence that this process found and that nobody accepted yet. A mark that names it may
        #: be lost, for example if the store is set back node by node. Then it is set again.
        self._told: Proofs = ()
        self._one_at_a_time = asyncio.Lock()

    async def look(self) -> SessionId:
        """Look once, and mark the root if there is evidence; give the session of the look.

        Raises one of ``NO_ANSWER`` if nothing can be said. Then nothing was kept.
        """
        async with self._one_at_a_time:
            if self._known is None:
                self._known = await self._disk.run(partial(known_metadata.load, self._files))
            session = self._session()
            await looks.write(self._cluster, self._bookie, session)
            found = await self._found()
            accepted = await restored.accepted(self._cluster)
            if self._session() != session:
                raise SessionLostError(
                    "the session ended during a look", store=self._cluster.store.name
                )
            proofs = evidence.proofs(self._bookie, self._known, found, accepted)
            told = (one for one in self._told if not accepted.covers(one, self._known))
            self._told = proofs = evidence.merged(tuple(told), proofs, limit=EVIDENCE_MAX)
            if proofs:
                await self._mark(proofs, token=f"{self._bookie}-{found.ids}")
                await self._keep(evidence.risen(self._known, found))
            else:
                await self._keep(evidence.kept(self._known, found))
            return session

    async def run(self, every_ms: int) -> None:
        """Look from time to time, until cancelled; a look without an answer is left to the next."""
        while True:
            await asyncio.sleep(min(every_ms, LOOK_EVERY_MS) / 1_000)
            await self.try_look()

    async def try_look(self) -> None:
        """Look once; without an answer in time only the log says so."""
        try:
            async with asyncio.timeout(PATIENCE_MS / 1_000):
                await self.look()
        except (TimeoutError, *NO_ANSWER) as error:
            if not self._unsure:
                _logger.warning(
                    "it is unknown whether the metadata was set back: %s",
                    str(error) or "no answer in time",
                )
            self._unsure = True
        else:
            if self._unsure:
                _logger.info("it is known again whether the metadata was set back")
            self._unsure = False

    def _session(self) -> SessionId:
        session = self._cluster.store.session.id
        if session is None:
            raise SessionLostError("there is no session", store=self._cluster.store.name)
        return session

    async def _found(self) -> Knowledge:
        """Read the three numbers; 0: the store has none, or one that cannot be read."""
        ids = await ledger_ids.given_out(self._cluster)
        record = await _readable(bookie_records.read(self._cluster, self._bookie))
        policy = await _readable(policy_store.read(self._cluster))
        return Knowledge(
            starts=record.boot_epoch if record else 0,
            ids=ids,
            policy=policy.version if policy else 0,
        )

    async def _keep(self, known: Knowledge) -> None:
        if known == self._known:
            return
        try:
            await self._disk.run(partial(known_metadata.save, self._files, known))
        except OSError as error:
            if error.errno not in SHORTAGES:
                raise
            _logger.warning("what is known of the metadata is not kept now: %s", error)
        else:
            self._known = known

    async def _mark(self, proofs: Proofs, *, token: str) -> None:
        why = "; ".join(map(str, proofs))
        if not await set_back.mark(self._cluster, proofs, now_ms=self._wall_ms()):
            return
        _logger.error(
            "the metadata was set back to an older state, and is marked as restored: %s. Nothing "
            "is collected until a person clears the mark: see `zonekeeper metadata restored`",
            why,
        )
        event = Event(
            at_ms=self._wall_ms(),
            kind="marked",
            subject="restored",
            by=self._bookie,
            reason=f"the metadata was set back: {why}",
            token=token,
        )
        try:
            await timeline.append(self._cluster, event)
        except StoreError as error:
            _logger.warning("the timeline may lack that the root was marked: %s", error)


async def _readable(reading: Awaitable[Answer]) -> Answer | None:
    """Give the answer; None if what is stored cannot be read, which is no evidence."""
    try:
        return await reading
    except UnreadableError as error:
        _logger.warning("%s", error)
        return None
