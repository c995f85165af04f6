"""The calls of the service: for each the function that serves it and the spelling of its messages.

There is one table for all transports. gRPC uses name, function and spelling; the simulated network
uses name and function. An unreadable or impossible message is a BadRequest. What the caller may not
ask is refused with NotPermitted, once the message is read and before anything is done.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

from google.protobuf.message import DecodeError, Message

from zonekeeper.placement.base.ids import LedgerId
from zonekeeper.wire.contract import messages
from zonekeeper.wire.formats import errors
from zonekeeper.wire.host.access import Guard
from zonekeeper.wire.host.serving import Host
from zonekeeper.wire.identity.rights import Operation
from zonekeeper.wire.pb import bookie_pb2 as pb

Q = TypeVar("Q")
R = TypeVar("R")
M = TypeVar("M", bound=Message)


@dataclass(frozen=True, slots=True)
class Spelling(Generic[Q]):
    """The functions that write a value as a protobuf message, and read it back."""

    encode: Callable[[Q], bytes]
    decode: Callable[[bytes], Q]


def _spelling(
    kind: type[M], to_message: Callable[[Q], M], from_message: Callable[[M], Q]
) -> Spelling[Q]:
    def decode(data: bytes) -> Q:
        message = kind()
        try:
            message.ParseFromString(data)
            return from_message(message)
        except (DecodeError, ValueError) as fault:
            raise errors.BadRequest(f"{kind.DESCRIPTOR.name} cannot be read: {fault}") from fault
        except errors.FormatError as fault:
            raise fault.as_protocol_error() from fault

    return Spelling(lambda value: to_message(value).SerializeToString(), decode)


@dataclass(frozen=True, slots=True)
class Call(Generic[Q, R]):
    """A request with one answer."""

    name: str
    operation: Operation
    request: Spelling[Q]
    reply: Spelling[R]
    serve: Callable[[Host, Q], Awaitable[R]]
    #: Gives the ledger that a request is about, for the audit; None: the call is about none.
    ledger_of: Callable[[Q], LedgerId] | None = None
    #: Gives the create token of the ledger that is meant; None: no request says it.
    token_of: Callable[[Q], int] | None = None

    async def serve_bytes(self, host: Host, guard: Guard, request: bytes) -> bytes:
        """Serve a request in its spelled form, if its caller may ask it."""
        asked = self.request.decode(request)
        ledger_id = None if self.ledger_of is None else self.ledger_of(asked)
        token = 0 if self.token_of is None else self.token_of(asked)
        with guard.asked(self.operation, ledger_id):
            if ledger_id is not None:
                await host.check_owner(guard, self.operation, ledger_id, token)
            answer = await self.serve(host, asked)
        return self.reply.encode(answer)


@dataclass(frozen=True, slots=True)
class Subscription(Generic[Q, R]):
    """A request with answers until the caller has enough."""

    name: str
    operation: Operation
    request: Spelling[Q]
    reply: Spelling[R]
    serve: Callable[[Host, Q, Guard], AsyncGenerator[R, None]]
    #: Gives the ledger that a request is about, for the audit.
    ledger_of: Callable[[Q], LedgerId]

    async def serve_bytes(
        self, host: Host, guard: Guard, request: bytes
    ) -> AsyncGenerator[bytes, None]:
        """Serve a request in its spelled form, for as long as its caller may ask it."""
        asked = self.request.decode(request)
        ledger_id, caller = self.ledger_of(asked), guard.caller
        guard.check(self.operation, ledger_id)
        await host.check_owner(guard, self.operation, ledger_id)
        async with aclosing(self.serve(host, asked, guard)) as answers:
            async for answer in answers:
                if guard.caller is not caller:  # the map of names has changed meanwhile
                    caller = guard.caller
                    guard.check(self.operation, ledger_id)
                    await host.check_owner(guard, self.operation, ledger_id)
                yield self.reply.encode(answer)


_DONE = _spelling(pb.Done, messages.done, messages.read_done)
_LEDGER = _spelling(pb.LedgerRequest, messages.ledger, messages.read_ledger)
_EVIDENCE = _spelling(pb.LacEvidence, messages.lac_evidence, messages.read_lac_evidence)

FENCE: Final = Call(
    "Fence",
    Operation.FENCE,
    _spelling(pb.FenceRequest, messages.fence, messages.read_fence),
    _EVIDENCE,
    lambda host, asked: host.fence(asked),
    lambda asked: asked.ledger_id,
    lambda asked: asked.create_token,
)
READ_LAC: Final = Call(
    "ReadLac",
    Operation.READ_LAC,
    _LEDGER,
    _EVIDENCE,
    lambda host, asked: host.read_lac(asked),
    lambda asked: asked.ledger_id,
)
FORCE: Final = Call(
    "Force",
    Operation.FORCE,
    _LEDGER,
    _DONE,
    lambda host, asked: host.force(asked),
    lambda asked: asked.ledger_id,
)
LIST_ENTRIES: Final = Call(
    "ListEntries",
    Operation.LIST_ENTRIES,
    _spelling(pb.ListEntriesRequest, messages.list_entries, messages.read_list_entries),
    _spelling(pb.EntryRanges, messages.entry_ranges, messages.read_entry_ranges),
    lambda host, asked: host.list_entries(asked),
    lambda asked: asked.ledger_id,
)
INFO: Final = Call(
    "Info",
    Operation.INFO,
    _spelling(pb.InfoRequest, messages.info, messages.read_info),
    _spelling(pb.BookieInfo, messages.bookie_info, messages.read_bookie_info),
    lambda host, _: host.bookie.info(),
)
SET_READ_ONLY: Final = Call(
    "SetReadOnly",
    Operation.SET_READ_ONLY,
    _spelling(pb.SetReadOnlyRequest, messages.set_read_only, messages.read_set_read_only),
    _DONE,
    lambda host, read_only: host.bookie.set_read_only(read_only=read_only),
)
END_LIMBO: Final = Call(
    "EndLimbo",
    Operation.END_LIMBO,
    _spelling(pb.EndLimboRequest, messages.end_limbo, messages.read_end_limbo),
    _DONE,
    lambda host, asked: host.bookie.end_limbo(asked.ledger_id, asked.boot_epoch),
    lambda asked: asked.ledger_id,
)
COMPACT: Final = Call(
    "Compact",
    Operation.COMPACT,
    _spelling(pb.CompactRequest, messages.compact, messages.read_compact),
    _DONE,
    lambda host, major: host.bookie.compact(major=major),
)
TAIL: Final = Subscription(
    "Tail",
    Operation.TAIL,
    _spelling(pb.TailRequest, messages.tail, messages.read_tail),
    _spelling(pb.TailUpdate, messages.tail_update, messages.read_tail_update),
    lambda host, asked, guard: host.tail(asked, guard),
    lambda asked: asked.ledger_id,
)


class SpelledCall(Protocol):
    """A call of any types, for code that only moves bytes."""

    @property
    def name(self) -> str:
        """Its name in the ``.proto``."""
        ...

    @property
    def operation(self) -> Operation:
        """The operation that it asks for."""
        ...

    async def serve_bytes(self, host: Host, guard: Guard, request: bytes) -> bytes:
        """Serve a request in its spelled form, if its caller may ask it."""
        ...


class SpelledSubscription(Protocol):
    """A subscription of any types, for code that only moves bytes."""

    @property
    def name(self) -> str:
        """Its name in the ``.proto``."""
        ...

    @property
    def operation(self) -> Operation:
        """The operation that it asks for."""
        ...

    def serve_bytes(self, host: Host, guard: Guard, request: bytes) -> AsyncGenerator[bytes, None]:
        """Serve a request in its spelled form, if its caller may ask it."""
        ...


CALLS: Final[tuple[SpelledCall, ...]] = (
    FENCE,
    READ_LAC,
    FORCE,
    LIST_ENTRIES,
    INFO,
    SET_READ_ONLY,
    END_LIMBO,
    COMPACT,
)
SUBSCRIPTIONS: Final[tuple[SpelledSubscription, ...]] = (TAIL,)
