"""Asks a bookie for each operation, on the bare transport; and a bookie that notes what reached it.

On a link a caller could not append before it has opened the ledger. Here it can: what a caller may
not do is refused, in whatever order it asks.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing

from tests.wire.link.reference_bookie import Disk, ReferenceBookie
from tests.wire.link.worlds import BOOKIE, KEY, Writer
from zonekeeper.placement.base.ids import EntryId, LedgerId
from zonekeeper.wire.contract import messages, service
from zonekeeper.wire.contract.pipes import StreamKind
from zonekeeper.wire.formats import carriers, errors
from zonekeeper.wire.formats.digests import MasterKey
from zonekeeper.wire.formats.frames import Flags
from zonekeeper.wire.formats.proofs import Shown
from zonekeeper.wire.formats.versions import SPOKEN
from zonekeeper.wire.host import methods
from zonekeeper.wire.identity import operations
from zonekeeper.wire.identity.rights import Operation
from zonekeeper.wire.link.transports import Transport

LIMIT_MS = 60_000


class WitnessBookie(ReferenceBookie):
    """Notes each operation before it is done."""

    def __init__(self) -> None:
        super().__init__(BOOKIE, Disk())
        self.reached: set[Operation] = set()

    def append(self, items: Sequence[carriers.Request], replies: service.Replies) -> None:
        self.reached |= {operations.of_item(item) for item in items}
        super().append(items, replies)

    async def read(self, request: service.ReadRequest) -> service.ReadReply:
        fences = request.fence_key is not None
        self.reached.add(Operation.FENCING_READ if fences else Operation.READ)
        return await super().read(request)

    async def fence(
        self, ledger_id: LedgerId, master_key: Shown, create_token: int = 0
    ) -> service.LacEvidence:
        if ledger_id == _ledger(Operation.FENCE):
            self.reached.add(Operation.FENCE)
        return await super().fence(ledger_id, master_key, create_token)

    async def read_lac(self, ledger_id: LedgerId, key: Shown | None = None) -> service.LacEvidence:
        if ledger_id == _ledger(Operation.READ_LAC):
            self.reached.add(Operation.READ_LAC)
        return await super().read_lac(ledger_id, key)

    async def force(self, ledger_id: LedgerId, key: Shown | None = None) -> None:
        self.reached.add(Operation.FORCE)
        await super().force(ledger_id, key)

    async def tail(self, request: service.TailRequest) -> AsyncGenerator[service.TailUpdate, None]:
        self.reached.add(Operation.TAIL)
        async with aclosing(super().tail(request)) as updates:
            async for update in updates:
                yield update

    async def list_entries(self, request: service.ListEntriesRequest) -> service.EntryRanges:
        self.reached.add(Operation.LIST_ENTRIES)
        return await super().list_entries(request)

    async def info(self) -> service.BookieInfo:
        self.reached.add(Operation.INFO)
        return await super().info()

    async def set_read_only(self, *, read_only: bool) -> None:
        self.reached.add(Operation.SET_READ_ONLY)
        await super().set_read_only(read_only=read_only)

    async def end_limbo(self, ledger_id: LedgerId, boot_epoch: int) -> None:
        self.reached.add(Operation.END_LIMBO)
        await super().end_limbo(ledger_id, boot_epoch)

    async def compact(self, *, major: bool) -> None:
        self.reached.add(Operation.COMPACT)
        await super().compact(major=major)


def _ledger(operation: Operation) -> LedgerId:
    """Each operation has a ledger of its own: what one does is not seen by another."""
    return LedgerId(100 + list(Operation).index(operation))


def _writer(operation: Operation) -> Writer:
    return Writer(_ledger(operation))


async def _outcome(
    over: Transport, kind: StreamKind, *items: carriers.Open | carriers.Append | carriers.Item
) -> None:
    """Send items one after the other; return or raise as the last one is answered."""
    pipe = over.stream(kind)
    try:
        await pipe.receive()  # the Hello
        for item in items:
            await pipe.send(carriers.build([item], SPOKEN.highest))
            message = await pipe.receive()
            assert message is not None
            (answer,) = carriers.parse(message, SPOKEN.highest)
            if item is items[-1] and isinstance(answer, carriers.Refused):
                raise errors.from_number(answer.code, answer.detail)
    finally:
        pipe.cancel()


async def _written(over: Transport, item: Callable[[Writer], carriers.Item], of: Operation) -> None:
    writer = _writer(of)
    opening = carriers.Open(number=0, opening=writer.opening())
    await _outcome(over, StreamKind.APPEND, opening, item(writer))


async def _open(over: Transport) -> None:
    opening = carriers.Open(number=0, opening=_writer(Operation.OPEN).opening())
    await _outcome(over, StreamKind.APPEND, opening)


async def _append(over: Transport) -> None:
    def item(writer: Writer) -> carriers.Item:
        return carriers.Append(number=1, frame=writer.frame(b"x"))

    await _written(over, item, Operation.APPEND)


async def _recovery_append(over: Transport) -> None:
    def item(writer: Writer) -> carriers.Item:
        return carriers.Append(number=1, frame=writer.frame(b"x", flags=Flags.RECOVERY))

    await _written(over, item, Operation.RECOVERY_APPEND)


async def _write_lac(over: Transport) -> None:
    def item(writer: Writer) -> carriers.Item:
        return carriers.WriteLac(number=1, ledger_id=writer.ledger_id, packet=writer.lac(0))

    await _written(over, item, Operation.WRITE_LAC)


async def _read(over: Transport, of: Operation, key: MasterKey | None) -> None:
    read = carriers.Read(
        number=0,
        ledger_id=_ledger(of),
        first=EntryId(0),
        last=EntryId(0),
        max_bytes=1 << 10,
        fence_key=key,
    )
    await _outcome(over, StreamKind.READ, read)


async def _tail(over: Transport) -> None:
    asked = service.TailRequest(
        ledger_id=_ledger(Operation.TAIL),
        first_entry_id=EntryId(0),
        bytes_max=1 << 10,
        quiet_ms=1_000,
    )
    async with aclosing(over.subscribe(methods.TAIL, asked)) as updates:
        async for _ in updates:
            return


async def _list(over: Transport) -> None:
    asked = service.ListEntriesRequest(
        ledger_id=_ledger(Operation.LIST_ENTRIES), first_entry_id=EntryId(0), ranges_max=10
    )
    await over.call(methods.LIST_ENTRIES, asked, LIMIT_MS)


async def _fence(over: Transport) -> None:
    asked = messages.FenceCall(ledger_id=_ledger(Operation.FENCE), master_key=KEY)
    await over.call(methods.FENCE, asked, LIMIT_MS)


async def _end_limbo(over: Transport) -> None:
    asked = messages.EndLimbo(ledger_id=_ledger(Operation.END_LIMBO), boot_epoch=1)
    await over.call(methods.END_LIMBO, asked, LIMIT_MS)


async def _info(over: Transport) -> None:
    await over.call(methods.INFO, None, LIMIT_MS)


async def _read_lac(over: Transport) -> None:
    asked = messages.LedgerCall(ledger_id=_ledger(Operation.READ_LAC))
    await over.call(methods.READ_LAC, asked, LIMIT_MS)


async def _force(over: Transport) -> None:
    asked = messages.LedgerCall(ledger_id=_ledger(Operation.FORCE))
    await over.call(methods.FORCE, asked, LIMIT_MS)


ASKS: dict[Operation, Callable[[Transport], Awaitable[None]]] = {
    Operation.INFO: _info,
    Operation.OPEN: _open,
    Operation.APPEND: _append,
    Operation.RECOVERY_APPEND: _recovery_append,
    Operation.WRITE_LAC: _write_lac,
    Operation.FORCE: _force,
    Operation.READ: lambda over: _read(over, Operation.READ, None),
    Operation.FENCING_READ: lambda over: _read(over, Operation.FENCING_READ, KEY),
    Operation.READ_LAC: _read_lac,
    Operation.TAIL: _tail,
    Operation.LIST_ENTRIES: _list,
    Operation.FENCE: _fence,
    Operation.SET_READ_ONLY: lambda over: over.call(methods.SET_READ_ONLY, False, LIMIT_MS),
    Operation.END_LIMBO: _end_limbo,
    Operation.COMPACT: lambda over: over.call(methods.COMPACT, False, LIMIT_MS),
}


async def refusal(over: Transport, operation: Operation) -> errors.NotPermitted | None:
    """Ask; give the error if it was refused for want of a role. Any other outcome is none."""
    try:
        await ASKS[operation](over)
    except errors.NotPermitted as error:
        return error
    except errors.NoSuchLedger:
        pass  # it was asked for, and the bookie has nothing
    return None
