"""The link: a client's way to one bookie, over any transport.

Appends have one stream and reads have another. The first operation that needs a stream starts it,
and its first failure ends it (``connecting``). The decisions about appends are in ``lanes``. The
matching of reads and replies is in ``asking``. The limit on reads under way is in ``byte_budget``.
This module has the tasks and deadlines.

A key that is secret is never sent to a bookie that gives a nonce: the link proves it (``proofs``).
A call travels beside the streams, and names the Read stream. To a bookie that gives no nonce, which
is older, only an opening or a fence shows the key.

Every task runs in the task group that is passed in, and a bug in a task is raised there. The link
must be closed before the group ends.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Protocol, TypeVar

from zonekeeper.placement.base.chance import Chance
from zonekeeper.placement.base.ids import BookieId, EntryId, LedgerId
from zonekeeper.wire.contract import messages, service
from zonekeeper.wire.contract.inlets import ClientPipe, Outlet, PipedOutlet
from zonekeeper.wire.contract.links import AppendSink, LinkSettings
from zonekeeper.wire.contract.pipes import Pipe, StreamKind, until_one_ends
from zonekeeper.wire.formats import carriers, errors, proofs, versions
from zonekeeper.wire.formats.digests import MasterKey
from zonekeeper.wire.formats.openings import FragmentOpening
from zonekeeper.wire.formats.proofs import ProofAct, Prover, Shown
from zonekeeper.wire.host import methods
from zonekeeper.wire.lanes.back_off import BackOff
from zonekeeper.wire.lanes.lanes import Lane, Lanes
from zonekeeper.wire.link import patience
from zonekeeper.wire.link.asking import Asking
from zonekeeper.wire.link.byte_budget import ByteBudget
from zonekeeper.wire.link.connecting import Connecting
from zonekeeper.wire.link.transports import Transport

Reply = TypeVar("Reply")


class _Half(Protocol):
    """The client's half of a stream."""

    def next_carrier(self) -> bytes | None: ...

    def received(self, items: Iterable[carriers.Item]) -> None: ...

    def lost(self, error: errors.ProtocolError) -> None: ...


class LinkWatcher(Protocol):
    """Follows what a link does."""

    def used(self) -> None:
        """Note that a fragment is to be opened, or something to be read."""

    def heard(self, boot_epoch: int) -> None:
        """Note which start of the bookie has answered."""


class StreamLink:
    """A ``links.BookieLink`` over a transport, which it owns."""

    def __init__(
        self,
        bookie_id: BookieId,
        transport: Transport,
        *,
        tasks: asyncio.TaskGroup,
        chance: Chance,
        settings: LinkSettings | None = None,
        watcher: LinkWatcher | None = None,
    ) -> None:
        self._bookie_id = bookie_id
        self._watcher = watcher
        self._transport = transport
        self._settings = settings or LinkSettings()
        self._loop = asyncio.get_running_loop()
        #: Limits the bytes that the replies to the reads under way may bring.
        self._read_budget = ByteBudget(self._settings.read_budget_bytes)

        back_off = [
            BackOff(
                first_ms=self._settings.back_off_first_ms,
                max_ms=self._settings.back_off_max_ms,
                chance=chance,
            )
            for _ in StreamKind
        ]
        #: How often the streams were left.
        self._renewals = 0
        self._lanes = Connecting(bookie_id, self._append, back_off=back_off[0], tasks=tasks)
        self._asking = Connecting(bookie_id, self._ask, back_off=back_off[1], tasks=tasks)

    @property
    def bookie_id(self) -> BookieId:
        """The bookie at the other end."""
        return self._bookie_id

    async def open_fragment(
        self, opening: FragmentOpening, sink: AppendSink, *, was_open: bool = False
    ) -> Lane:
        """Open a fragment on the present connection; without one, connect first."""
        self._note_use()
        lanes = await self._lanes.current()
        if not lanes.alive:  # it was left before this task could use it
            lanes = await self._lanes.current()
        answer: asyncio.Future[errors.ProtocolError | None] = self._loop.create_future()

        def told(error: errors.ProtocolError | None) -> None:
            if not answer.done():
                answer.set_result(error)

        lane = lanes.open(opening, sink, told, was_open=was_open)
        try:
            refused = await answer
        except asyncio.CancelledError:
            lane.close()  # its caller never gets it
            raise
        if refused is not None:
            raise refused
        if not lane.alive:
            raise errors.ConnectionLost(
                f"ledger {opening.ledger_id}: the connection was lost while the fragment was "
                "opened; open it again"
            )
        return lane

    async def read(self, request: service.ReadRequest) -> service.ReadReply:
        """Read a range; with a key, fence first."""
        may_bring = min(request.bytes_max, carriers.CARRIER_BYTES_MAX)
        # This ends after close() too: each read under way fails, and so lets the next one in.
        await self._read_budget.take(may_bring)
        try:
            async with patience.timeout(self._settings.read_timeout_ms):
                self._note_use()
                asking = await self._asking.current()
                if not asking.alive:  # it was left before this task could use it
                    asking = await self._asking.current()
                return await asking.ask(request)
        except TimeoutError as late:
            raise errors.Timeout(
                f"{self._bookie_id}: no reply to a read of ledger {request.ledger_id} "
                f"in {self._settings.read_timeout_ms} ms"
            ) from late
        finally:
            self._read_budget.give_back(may_bring)

    async def fence(
        self, ledger_id: LedgerId, master_key: MasterKey, create_token: int = 0
    ) -> service.LacEvidence:
        """Fence a ledger, and give what the bookie knows of its end."""

        def ask(shown: Shown | None) -> Awaitable[service.LacEvidence]:
            asked = messages.FenceCall(
                ledger_id=ledger_id, master_key=shown or master_key, create_token=create_token
            )
            return self._call(methods.FENCE, asked)

        return await self._proven(ProofAct.FENCE, ledger_id, master_key, ask)

    async def read_lac(
        self, ledger_id: LedgerId, key: MasterKey | None = None
    ) -> service.LacEvidence:
        """Give what the bookie knows of a ledger's end, without fencing."""

        def ask(shown: Shown | None) -> Awaitable[service.LacEvidence]:
            asked = messages.LedgerCall(ledger_id=ledger_id, key=shown)
            return self._call(methods.READ_LAC, asked)

        return await self._proven(ProofAct.READ_LAC, ledger_id, key, ask)

    async def force(self, ledger_id: LedgerId, key: MasterKey | None = None) -> None:
        """Make every acknowledged entry of a ledger durable."""

        def ask(shown: Shown | None) -> Awaitable[None]:
            return self._call(methods.FORCE, messages.LedgerCall(ledger_id=ledger_id, key=shown))

        await self._proven(ProofAct.FORCE, ledger_id, key, ask)

    async def tail(self, request: service.TailRequest) -> AsyncGenerator[service.TailUpdate, None]:
        """Follow a ledger."""
        shown, asking = await self._shown(ProofAct.TAIL, request.ledger_id, request.key)
        try:
            async with aclosing(self._updates(replace(request, key=shown))) as updates:
                async for update in updates:
                    yield update
        except errors.NotProven:  # as ``_proven``; it comes before all updates
            self._leave_asking(asking)
        else:
            return
        shown, _ = await self._shown(ProofAct.TAIL, request.ledger_id, request.key)
        async with aclosing(self._updates(replace(request, key=shown))) as updates:
            async for update in updates:
                yield update

    async def _updates(
        self, request: service.TailRequest
    ) -> AsyncGenerator[service.TailUpdate, None]:
        silence_ms = request.quiet_ms + self._settings.call_timeout_ms
        next_entry_id = request.first_entry_id
        async with aclosing(self._transport.subscribe(methods.TAIL, request)) as updates:
            while True:
                try:
                    async with patience.timeout(silence_ms):
                        update = await anext(updates)
                except StopAsyncIteration as end:
                    raise errors.ConnectionLost(f"{self._bookie_id} ended the tail") from end
                except TimeoutError as late:
                    raise errors.Timeout(f"{self._bookie_id}: silent for {silence_ms} ms") from late
                for frame in update.frames:
                    if frame.ledger_id != request.ledger_id or not (
                        next_entry_id <= frame.first <= frame.last <= update.last_add_confirmed
                    ):
                        raise errors.BadRequest(
                            f"{self._bookie_id} sent entries {frame.first}..{frame.last} of ledger "
                            f"{frame.ledger_id} to a tail of {request.ledger_id} at {next_entry_id}"
                        )
                    next_entry_id = EntryId(frame.last + 1)
                yield update

    async def list_entries(self, request: service.ListEntriesRequest) -> service.EntryRanges:
        """List a page of the entries that the bookie has of a ledger."""

        def ask(shown: Shown | None) -> Awaitable[service.EntryRanges]:
            return self._call(methods.LIST_ENTRIES, replace(request, key=shown))

        return await self._proven(ProofAct.LIST, request.ledger_id, request.key, ask)

    async def info(self) -> service.BookieInfo:
        """Give the bookie's state."""
        return await self._call(methods.INFO, None)

    async def set_read_only(self, *, read_only: bool) -> None:
        """Make the bookie refuse appends, or take them again."""
        await self._call(methods.SET_READ_ONLY, read_only)

    async def end_limbo(self, ledger_id: LedgerId, boot_epoch: int) -> None:
        """End the bookie's limbo of a ledger, once the bookie holds all that it should hold."""
        asked = messages.EndLimbo(ledger_id=ledger_id, boot_epoch=boot_epoch)
        await self._call(methods.END_LIMBO, asked)

    async def compact(self, *, major: bool) -> None:
        """Start a compaction."""
        await self._call(methods.COMPACT, major)

    def renew(self) -> None:
        """Make new streams for what comes; the present ones end when nothing is left in them.

        A stream that is being made is left once it is there.
        """
        self._renewals += 1
        _leave(self._lanes)
        _leave(self._asking)

    async def close(self) -> None:
        """End the connection; everything without an outcome fails with ConnectionLost."""
        await self._lanes.close()
        await self._asking.close()
        await self._transport.close()

    def _note_use(self) -> None:
        if self._watcher is not None:
            self._watcher.used()

    async def _call(
        self, method: methods.Call[methods.Q, methods.R], asked: methods.Q
    ) -> methods.R:
        return await self._transport.call(method, asked, self._settings.call_timeout_ms)

    async def _proven(
        self,
        act: ProofAct,
        ledger_id: LedgerId,
        key: Shown | None,
        ask: Callable[[Shown | None], Awaitable[Reply]],
    ) -> Reply:
        """Ask with a proof of the key, if the key is secret and the bookie takes proofs.

        The bookie may know before this side that the stream of a proof has ended. So a proof that
        the bookie has no use for is made anew once, on another stream.
        """
        shown, asking = await self._shown(act, ledger_id, key)
        try:
            return await ask(shown)
        except errors.NotProven:
            self._leave_asking(asking)
        shown, _ = await self._shown(act, ledger_id, key)
        return await ask(shown)

    def _leave_asking(self, asking: Asking | None) -> None:
        """Leave a Read stream of which the bookie takes no proofs; its reads still get answers."""
        if asking is not None and self._asking.leave(asking):
            asking.leave()

    async def _shown(
        self, act: ProofAct, ledger_id: LedgerId, key: Shown | None
    ) -> tuple[Shown | None, Asking | None]:
        """Give what a call shows of a key, and the Read stream that a proof names."""
        if key is None:
            return None, None
        assert isinstance(key, bytes), "a caller of a link shows the key itself"
        if not proofs.needed(key):
            return key, None
        limit_ms = self._settings.call_timeout_ms
        try:
            async with patience.timeout(limit_ms):
                asking = await self._asking.current()
        except TimeoutError as late:
            raise errors.NotConnected(
                f"{self._bookie_id}: in {limit_ms} ms no stream to prove the key of ledger "
                f"{ledger_id}; nothing was done"
            ) from late
        if asking.prover is None:
            return None, asking
        return asking.prover.of_call(act, key, ledger_id), asking

    async def _append(self, ready: Callable[[Lanes], None]) -> None:
        """Run one Append stream from its beginning to its end."""
        pipe, renewals = self._transport.stream(StreamKind.APPEND), self._renewals
        try:
            hello, version, prover = await self._greeting(pipe)
            exchange, left = _Exchange(version), asyncio.Event()
            lanes = Lanes(
                hello,
                budget_bytes=self._settings.budget_bytes,
                timeout_s=self._settings.append_timeout_ms / 1_000,
                clock=self._loop.time,
                on_pending=exchange.wake,
                wire_version=version,
                prover=prover,
            )
            lanes.on_left = left.set
            ready(lanes)
            if self._renewals != renewals:
                _leave(self._lanes)
            await exchange.run(pipe, lanes, partial(self._expire, lanes), partial(_until, left))
        finally:
            pipe.cancel()

    async def _ask(self, ready: Callable[[Asking], None]) -> None:
        """Run one Read stream from its beginning to its end."""
        pipe, renewals = self._transport.stream(StreamKind.READ), self._renewals
        try:
            _, version, prover = await self._greeting(pipe)
            exchange, left = _Exchange(version), asyncio.Event()
            asking = Asking(exchange.wake, wire_version=version, prover=prover)
            asking.on_left = left.set
            ready(asking)
            if self._renewals != renewals:
                _leave(self._asking)
            await exchange.run(pipe, asking, partial(_until, left))
        finally:
            pipe.cancel()

    async def _greeting(self, pipe: ClientPipe) -> tuple[carriers.Hello, int, Prover | None]:
        """Wait for the bookie's first message on a stream; give it, the version, and the prover."""
        limit_ms = self._settings.connect_timeout_ms
        try:
            async with patience.timeout(limit_ms):
                message = await _message(pipe)
                speaks = await pipe.answered_by()
                version = versions.common(self._settings.speaks, speaks, self._bookie_id)
                match _items(message, version):
                    case (carriers.Hello() as hello,):
                        if self._watcher is not None:
                            self._watcher.heard(hello.boot_epoch)
                        nonce = hello.nonce
                        prover = None if nonce is None else Prover(self._bookie_id, nonce)
                        return hello, version, prover
                    case _:
                        raise errors.BadRequest("the bookie did not begin with a Hello")
        except TimeoutError as late:
            raise errors.NotConnected(
                f"{self._transport.place}: no answer in {limit_ms} ms"
            ) from late

    async def _expire(self, lanes: Lanes) -> None:
        period_s = self._settings.append_timeout_ms / 4_000
        late = False
        while True:
            looked_s = self._loop.time()
            await asyncio.sleep(period_s)
            was_late, late = late, self._loop.time() - looked_s > 2 * period_s
            if late and not was_late:  # not twice in a row: a loop may always be late
                lanes.wait_anew()
            else:
                lanes.expire()


class _Exchange:
    """The ``inlets.Inlet`` of one half: it hands over what comes, and sends what is pending.

    What becomes pending in one turn of the loop is sent at its end, together.
    """

    def __init__(self, version: int) -> None:
        self._version = version
        self._loop = asyncio.get_running_loop()
        self._half: _Half | None = None
        self._outlet: Outlet | None = None
        self._is_woken = False

    def wake(self) -> None:
        """Note that something is pending."""
        if not self._is_woken:
            self._is_woken = True
            self._loop.call_soon(self._send)

    def taken(self, message: bytes | bytearray) -> None:
        assert self._half is not None
        self._half.received(_items(message, self._version))

    def has_room_again(self) -> None:
        self._send()

    async def run(
        self, pipe: ClientPipe, half: _Half, *others: Callable[[], Coroutine[None, None, None]]
    ) -> None:
        """Send and hear until either fails; then everything in this half gets its outcome."""
        self._half = half
        error: errors.ProtocolError = errors.ConnectionLost("the link was closed")
        try:
            if (way := pipe.attach(self)) is not None:
                self._outlet = way
                self._send()
                await until_one_ends(way.over, *others)
            else:
                self._outlet = outlet = PipedOutlet()
                self._send()
                await outlet.exchange(pipe, self, *others)
            raise errors.ConnectionLost("the bookie ended the stream")
        except errors.ProtocolError as failure:
            error = failure
            raise
        finally:
            self._outlet = None
            half.lost(error)

    def _send(self) -> None:
        self._is_woken = False
        if (outlet := self._outlet) is None:
            return
        assert self._half is not None
        while outlet.has_room and (carrier := self._half.next_carrier()) is not None:
            outlet.put(carrier)


def _leave(of: Connecting[Lanes] | Connecting[Asking]) -> None:
    if (stream := of.renew()) is not None:
        stream.leave()


async def _until(event: asyncio.Event) -> None:
    await event.wait()


async def _message(pipe: Pipe) -> bytes | bytearray:
    message = await pipe.receive()
    if message is None:
        raise errors.ConnectionLost("the bookie ended the stream")
    return message


def _items(message: bytes | bytearray, version: int) -> tuple[carriers.Item, ...]:
    try:
        return carriers.parse(message, version)
    except errors.FormatError as fault:
        raise fault.as_protocol_error() from fault
