"""The bookie's service: it joins admission and storage, and says why the bookie is read-only.

Two rules hold for all code here:

* There is no ``await`` between a decision about a ledger and handing its effects to the log. So the
  log's order is the order of the decisions, and a fence and an append never race.
* Nothing is shown before it is on disk: no entry, no LAC, no fence. So an entry that was read is
  never lost, and a LAC never falls. An entry on its way was never acknowledged, and may be denied.

A frame costs no task and no future. Only a frame that may overlap entries that are here is compared
in a task of its own. It is decided again afterwards, because a fence may have come meanwhile.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Coroutine, Sequence
from dataclasses import replace

from zonekeeper.bookie.disk import waiting
from zonekeeper.bookie.ledgers import admission, extents, records
from zonekeeper.bookie.ledgers.admission import Here
from zonekeeper.bookie.ledgers.records import LedgerRecord
from zonekeeper.bookie.segments.log import LogPut
from zonekeeper.bookie.serving import capacity, comparing, evidence, listing, vouching
from zonekeeper.bookie.serving.capacity import BookieLimits, Capacity
from zonekeeper.bookie.serving.key_gate import KeyGate
from zonekeeper.bookie.serving.modes import Modes
from zonekeeper.bookie.serving.openings import ItemAnswer, Openings
from zonekeeper.bookie.serving.store_reads import Peer, StoreReads
from zonekeeper.bookie.serving.vouching import Standings, Vouched, no_standings, no_vouchers
from zonekeeper.bookie.storage import reading
from zonekeeper.bookie.storage.ledgers import Ledger
from zonekeeper.bookie.storage.storage import Storage
from zonekeeper.placement.base.ids import BookieId, EntryId, LedgerId
from zonekeeper.wire.contract import service
from zonekeeper.wire.formats import carriers, errors
from zonekeeper.wire.formats.frames import Flags, Frame
from zonekeeper.wire.formats.proofs import Shown

_logger = logging.getLogger(__name__)


class BookieServer:
    """A ``wire.contract.service.BookieService`` over a storage; the caller runs the storage."""

    def __init__(
        self,
        bookie_id: BookieId,
        storage: Storage,
        *,
        boot_epoch: int,
        version: str,
        tasks: asyncio.TaskGroup,
        limits: BookieLimits | None = None,
    ) -> None:
        self.bookie_id = bookie_id
        self._storage = storage
        self._log = storage.log
        self._memory = storage.memory
        self._boot_epoch = boot_epoch
        self._version = version
        self._tasks = tasks
        self._capacity = Capacity(bookie_id, storage, limits or BookieLimits(), tasks)
        self._compacting: asyncio.Task[int] | None = None
        self._draining = False
        self.modes = Modes(self._memory)
        self.keys = KeyGate(bookie_id)
        #: Set before the bookie serves; until then no limbo ends, and no ledger is taken in.
        self.vouched: Vouched = no_vouchers
        self.standing: Standings = no_standings
        self._store_reads = StoreReads(bookie_id)
        self._fencing, self._ending_limbo = Peer(), Peer()
        self._openings = Openings(
            storage.memory,
            self._capacity,
            self._store_reads,
            change=self._change,
            begin=self._begin,
            standing=self._metadata_says,
        )
        #: The acks of the present batch: for each stream the numbers of its items.
        self._acked: dict[int, tuple[service.Replies, list[int]]] = {}
        self._log.on_batch = self._tell_acked

    @property
    def boot_epoch(self) -> int:
        """The number of this start; it grows with each start."""
        return self._boot_epoch

    @property
    def read_only(self) -> bool:
        """Does the bookie take no plain appends, for any reason?"""
        return bool(self.read_only_reasons)

    @property
    def read_only_reasons(self) -> tuple[str, ...]:
        """The reasons for taking no plain appends; empty: the bookie takes them."""
        return self.modes.texts

    @property
    def state(self) -> service.BookieState:
        """The state that the bookie shows."""
        if self._draining:
            return service.BookieState.DRAINING
        return service.BookieState.READ_ONLY if self.read_only else service.BookieState.WRITABLE

    def set_conditions(self, reasons: Sequence[str]) -> None:
        """Replace the conditions: the bookie is read-only for these reasons, too."""
        self.modes.set_conditions(reasons)

    async def mode_changed(self, read_only: bool) -> None:
        """Wait until ``self.read_only != read_only``."""
        await self.modes.until(lambda: self.read_only != read_only)

    def drain(self) -> None:
        """Take no more appends, and end tails and a compaction; all other work goes on."""
        self._draining = True
        self._store_reads.end()
        if self._compacting is not None:
            self._compacting.cancel()
        for ledger in self._memory.ledgers.values():
            ledger.tell()

    # ── appends ──

    def append(self, items: Sequence[carriers.Request], replies: service.Replies) -> None:
        """Take openings, frames and LACs, in order; each outcome is given when it is known."""
        for item in items:
            answer = ItemAnswer(replies, item.number)
            match item:
                case carriers.Append(frame=frame):
                    self._append(frame, answer)
                case carriers.Open(opening=opening, was_open=was_open, shown=proof, judge=judge):
                    buried = self._memory.buried(opening.ledger_id, opening.create_token)
                    event = admission.OpenWanted(
                        opening=opening, proof=proof, was_open=was_open, buried=buried
                    )
                    self._openings.decide(event, answer, judge)
                case carriers.WriteLac(ledger_id=ledger_id, packet=packet):
                    self._change(ledger_id, admission.ExplicitLacWanted(packet=packet), answer)

    def _append(self, frame: Frame, answer: ItemAnswer) -> None:
        if (refusal := self._refusal(frame)) is not None:
            answer.refuse(refusal)
            return
        ledger = self._ledger(frame.ledger_id)
        # Entries above ``highest`` are surely not here; a writer's next ones are such. For others
        # the index is asked, outside the event loop.
        here = Here.NONE if frame.first > ledger.highest else Here.UNCOMPARED
        event = admission.AppendWanted(recovery=Flags.RECOVERY in frame.flags, here=here)
        for effect in ledger.decide(event):
            match effect:
                case admission.Take():
                    self._hand_over(ledger, frame, answer)
                case admission.Compare():
                    self._capacity.held_bytes += frame.size_bytes
                    token = ledger.admitted.create_token
                    self._begin(self._append_again(ledger, token, frame, answer), answer)
                case admission.Refuse(error=error):
                    answer.refuse(error)
                case admission.WriteRecord() | admission.AskMetadata():
                    raise AssertionError("an append writes nothing but its frame")

    async def _append_again(
        self, ledger: Ledger, create_token: int, frame: Frame, answer: ItemAnswer
    ) -> None:
        """Append a frame some of whose entries may be here or on their way.

        The ledger may be forgotten during the comparison, and another one opened under its id: that
        one has another create token, and takes none of this ledger's entries.
        """
        try:
            here, compared = await comparing.compare(self._storage, ledger, frame)
        except errors.ProtocolError as error:
            answer.refuse(error)
            return
        finally:
            self._capacity.held_bytes -= frame.size_bytes
        # Do not ask for ``known`` here: the opening may still be on its way to the disk.
        is_known = self._memory.ledgers.get(ledger.ledger_id) is ledger
        if not is_known or ledger.admitted.create_token != create_token:
            answer.refuse(errors.NotOpened(f"ledger {ledger.ledger_id} was deleted meanwhile"))
            return
        event = admission.AppendWanted(recovery=Flags.RECOVERY in frame.flags, here=here)
        for effect in ledger.decide(event):
            if isinstance(effect, admission.Take):
                missing = frame.subset(frozenset(frame.entry_ids) - compared)
                # Other frames may have taken the room meanwhile.
                if missing is not None and (refusal := self._refusal(missing)) is not None:
                    answer.refuse(refusal)
                else:
                    self._hand_over(ledger, missing, answer)
            else:
                assert isinstance(effect, admission.Refuse), "it has been compared"
                answer.refuse(effect.error)

    def _begin(self, work: Coroutine[object, None, None], answer: ItemAnswer) -> None:
        """Do the rest of a request in a task of its own; refuse it if the bookie ends."""
        if not capacity.begin(self._tasks, work):
            answer.refuse(self._shutting_down())

    def _hand_over(
        self, ledger: Ledger, record: Frame | LedgerRecord | None, answer: ItemAnswer
    ) -> None:
        """Hand a record to the log, and answer when it is safe.

        None: no record, only an answer after all earlier records.
        """
        if record is not None:
            ledger.sent(record)
        self._log.put(
            LogPut(record=record, written=lambda: self._ack(answer), failed=answer.refuse)
        )

    def _change(self, ledger_id: LedgerId, event: admission.Event, answer: ItemAnswer) -> None:
        """Decide a change of a ledger's state, and answer when the outcome is safe.

        A fenced ledger can be opened, for its recovery. On a full device openings are refused while
        there is still room for fences, and for records that forget a ledger, which make room. A
        request that changes nothing needs no room.
        """
        refusal = self._shutting_down() if self._draining else self._capacity.flooded(0)
        if refusal is not None:
            answer.refuse(refusal)
            return
        ledger = self._ledger(ledger_id)
        match ledger.decided(event):
            case [admission.Refuse(error=error)]:
                answer.refuse(error)
            case [admission.AskMetadata()]:
                assert isinstance(event, admission.OpenWanted), "only openings ask for it"
                self._openings.ask(event, answer)
            case [admission.WriteRecord(record=record)]:
                refusal = (
                    self._capacity.crowded(ledger_id)
                    or self._capacity.talkative(ledger, record)
                    or self._capacity.cramped(record, urgent=True)
                    or self._capacity.outgrowing(ledger, record)
                )
                if refusal is not None:
                    answer.refuse(refusal)
                    return
                # A ledger is remembered with its first record. A refused request leaves no ledger.
                self._memory.admit(ledger, record)
                self._hand_over(ledger, record, answer)
            case done:
                assert not done, "one record says all that such a request changes"
                self._hand_over(ledger, None, answer)

    def _ack(self, answer: ItemAnswer) -> None:
        _, numbers = self._acked.setdefault(id(answer.replies), (answer.replies, []))
        numbers.append(answer.number)

    def _tell_acked(self) -> None:
        acked, self._acked = self._acked, {}
        for replies, numbers in acked.values():
            replies.acked(numbers)

    def _refusal(self, frame: Frame) -> errors.ProtocolError | None:
        """Say why the bookie cannot take a frame, for reasons outside the frame's ledger.

        Frames of a recovery are taken as long as possible. The entries of an open ledger can only
        be read safely after a recovery has written, and there may be no other bookies to write to.
        """
        if self._draining:
            return self._shutting_down()
        recovery = Flags.RECOVERY in frame.flags
        if self.read_only and not recovery:
            return errors.ReadOnly(
                f"{self.bookie_id} is read-only ({'; '.join(self.read_only_reasons)}); write to "
                "another bookie"
            )
        if (flooded := self._capacity.flooded(frame.size_bytes)) is not None:
            return flooded
        return self._capacity.cramped(frame, urgent=recovery)

    # ── ledger state ──

    async def owner(self, ledger_id: LedgerId, *, also_unknown: bool, create_token: int = 0) -> str:
        """Give the principal that a ledger belongs to; "": it has no owner."""
        if also_unknown and admission.is_other(self._ledger(ledger_id).admitted, create_token):
            return ""  # the fence that follows at once is refused, and disputes the ledger
        peer = self._fencing if also_unknown else self._openings
        return await self._openings.owner(ledger_id, peer, also_unknown=also_unknown)

    async def fence(
        self, ledger_id: LedgerId, master_key: Shown, create_token: int = 0
    ) -> service.LacEvidence:
        """Fence a ledger, which may be unknown here; the fence is durable before the answer."""
        ledger = await self._fence(ledger_id, master_key, create_token)
        await self._log.settle()
        found = await evidence.of(self._storage, ledger, self.bookie_id)
        ledger.refuse_collected()
        return found

    async def _fence(self, ledger_id: LedgerId, key: Shown, create_token: int) -> Ledger:
        """Fence a ledger, and give it; raises LedgerDeleted if it was collected meanwhile."""
        buried = self._memory.buried(ledger_id, create_token)
        event = admission.FenceWanted(master_key=key, create_token=create_token, buried=buried)
        if admission.AskMetadata() in self._ledger(ledger_id).decided(event):
            if (crowded := self._capacity.crowded(ledger_id)) is not None:
                raise crowded
            standing = await self._store_reads.read(
                self._fencing, lambda: self.standing(ledger_id), found=vouching.stands
            )
            buried = self._memory.buried(ledger_id, create_token)
            event = replace(event, buried=buried, standing=standing)
        await self._settle(ledger_id, event)
        ledger = self._ledger(ledger_id)
        ledger.refuse_collected()
        return ledger

    async def force(self, ledger_id: LedgerId, key: Shown | None = None) -> None:
        """Return when all that was acknowledged, deferred or not, is on disk."""
        self.keys.check("force", self._ledger(ledger_id), key)
        await self._log.written(None)  # all ledgers share one log

    async def set_read_only(self, *, read_only: bool) -> None:
        """Take no more plain appends, or take them again; a restart keeps the mode."""
        was_read_only = self._memory.read_only
        await self._log.written(records.ModeRecord(read_only=read_only))
        self.modes.person_told(was_read_only=was_read_only)

    async def end_limbo(self, ledger_id: LedgerId, boot_epoch: int) -> None:
        """End a ledger's limbo, durably, if a repair has vouched for this start of the bookie.

        The caller is not believed: the bookie itself reads the voucher in the metadata store.
        """
        if boot_epoch != self._boot_epoch:
            raise errors.StartedAgain(
                f"{self.bookie_id} was looked at in its start {boot_epoch} and is in "
                f"{self._boot_epoch} now; its disk may be another one: look at it again"
            )
        if self._known(ledger_id).durable.in_limbo and not await self._store_reads.read(
            self._ending_limbo, lambda: self.vouched(ledger_id, boot_epoch), found=bool
        ):
            raise errors.NotVouched(
                f"no repair vouches for ledger {ledger_id} on {self.bookie_id} in its start "
                f"{boot_epoch}: the ledger stays in limbo until one has looked at every entry"
            )
        await self._settle(ledger_id, admission.LimboWanted(in_limbo=False))

    async def compact(self, *, major: bool) -> None:
        """Begin a compaction, unless an earlier call's is still under way."""
        if self._compacting is None or self._compacting.done():
            self._compacting = self._tasks.create_task(self._storage.compact(major=major))

    async def _settle(self, ledger_id: LedgerId, event: admission.Event) -> None:
        """Decide an event, and return when the outcome is safe; raises the error of a refusal."""
        if (crowded := self._capacity.crowded(ledger_id)) is not None:
            raise crowded
        ledger = self._ledger(ledger_id)
        for effect in ledger.decided(event):
            if isinstance(effect, admission.Refuse):
                raise effect.error
            assert isinstance(effect, admission.WriteRecord), "the state changes by records alone"
            if (outgrowing := self._capacity.outgrowing(ledger, effect.record)) is not None:
                raise outgrowing
            if isinstance(effect.record, records.FenceRecord):
                _logger.info("ledger %d is fenced", ledger_id, extra={"ledger": ledger_id})
            self._memory.admit(ledger, effect.record)
            ledger.sent(effect.record)
            self._log.put(LogPut(record=effect.record, written=_nothing, failed=_unheard))
        if ledger.on_the_way:
            await self._log.written(None)

    # ── reads ──

    async def read(self, request: service.ReadRequest) -> service.ReadReply:
        """Give the entries of a range that are here; with a key, fence first."""
        key, token = request.fence_key, request.create_token
        fenced = None if key is None else await self._fence(request.ledger_id, key, token)
        await self._log.settle()
        ledger = fenced or self._known(request.ledger_id, token)
        if fenced is None:
            self.keys.check("read", ledger, request.key)
        wanted = range(request.first_entry_id, request.last_entry_id + 1, request.step)
        # The state of now decides for the whole answer: limbo may end during the look-up.
        state = ledger.durable
        if state.in_limbo:
            known = await self._storage.look_up(ledger, wanted[0], wanted[-1], request.bytes_max)
            wanted = reading.up_to(wanted, known.last)
            missing = extents.first_missing(known.extents, wanted)
            if missing is not None:
                wanted = range(wanted.start, missing, wanted.step)
            if not wanted:
                admission.refuse_limbo(ledger.ledger_id, state)
        quiet = state.in_limbo or request.fence_key is not None
        confirmed = None if quiet else ledger.confirmed
        found = await self._storage.read(ledger, wanted, request.bytes_max)
        ledger.refuse_collected()
        return service.ReadReply(
            frames=found.frames,
            next_entry_id=found.next_entry_id,
            last_add_confirmed=confirmed,
        )

    async def read_lac(self, ledger_id: LedgerId, key: Shown | None = None) -> service.LacEvidence:
        """Give the evidence for the LAC; change nothing."""
        await self._log.settle()
        ledger = self._ledger(ledger_id)
        self.keys.check("read-lac", ledger, key)
        return await evidence.of(self._storage, ledger, self.bookie_id)

    async def tail(self, request: service.TailRequest) -> AsyncGenerator[service.TailUpdate, None]:
        """Send the LAC and the entries that it confirms: on news, and at least every quiet_ms."""
        await self._log.settle()
        ledger = self._known(request.ledger_id)
        self.keys.check("tail", ledger, request.key)
        following, told = request.first_entry_id, None
        quiet = False
        while not self._draining:
            ledger.refuse_collected()
            admission.refuse_limbo(ledger.ledger_id, ledger.durable)
            news, confirmed = ledger.news(), ledger.confirmed
            frames: tuple[Frame, ...] = ()
            more = False
            if confirmed >= following:
                wanted = range(following, confirmed + 1)
                found = await self._storage.read(ledger, wanted, request.bytes_max)
                frames, more = found.frames, found.next_entry_id <= confirmed
            if frames or confirmed != told or quiet:
                yield service.TailUpdate(last_add_confirmed=confirmed, frames=frames)
                told = confirmed
            if frames:
                following = EntryId(frames[-1].last + 1)
            quiet = not more and not await waiting.comes(news, request.quiet_ms)
        raise self._shutting_down()

    async def list_entries(self, request: service.ListEntriesRequest) -> service.EntryRanges:
        """List the entries that are here; raise if that is not known for sure."""
        await self._log.settle()
        ledger = self._known(request.ledger_id)
        self.keys.check("list", ledger, request.key)
        admission.refuse_limbo(ledger.ledger_id, ledger.durable)
        return await listing.page(self._storage, ledger, request)

    async def info(self) -> service.BookieInfo:
        """Give the bookie's id, state, start, version and room."""
        space = await self._storage.room()
        return service.BookieInfo(
            bookie_id=self.bookie_id,
            state=self.state,
            boot_epoch=self._boot_epoch,
            version=self._version,
            total_bytes=space.total_bytes,
            free_bytes=space.free_bytes,
        )

    async def _metadata_says(self, ledger_id: LedgerId) -> admission.Standing:
        return await self.standing(ledger_id)

    def _ledger(self, ledger_id: LedgerId) -> Ledger:
        """Give a ledger; an unknown one is made, but not remembered."""
        return self._memory.find(ledger_id)

    def _known(self, ledger_id: LedgerId, create_token: int = 0) -> Ledger:
        ledger = self._memory.ledgers.get(ledger_id)
        if ledger is None or not ledger.known:
            raise errors.NoSuchLedger(f"ledger {ledger_id} is not on {self.bookie_id}")
        if admission.is_other(ledger.durable, create_token):
            raise errors.LedgerDeleted(f"ledger {ledger_id} is another one on {self.bookie_id}")
        return ledger

    def _shutting_down(self) -> errors.ShuttingDown:
        return errors.ShuttingDown(f"{self.bookie_id} is stopping; go to another bookie")


def _nothing() -> None:
    """Do nothing: the caller waits for a later put."""


def _unheard(error: errors.ProtocolError) -> None:
    """Do nothing: the later put that the caller waits for fails, too."""
