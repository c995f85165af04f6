"""Domain values as protobuf messages, and back; only ``host.methods`` uses the messages.

Reading checks what the types cannot express (a quorum larger than its ensemble, a negative ledger
id) and raises ValueError with the field's name.
"""

from dataclasses import dataclass, field
from typing import Final, TypeAlias

from zonekeeper.placement.base.ids import NO_ENTRY, BookieId, EntryId, LedgerId
from zonekeeper.wire.contract import service
from zonekeeper.wire.formats import digests, frames, proofs
from zonekeeper.wire.formats.digests import MasterKey
from zonekeeper.wire.formats.proofs import CallProof, Shown
from zonekeeper.wire.pb import bookie_pb2 as pb

_STATE_NUMBERS: Final = {
    service.BookieState.STARTING: pb.BookieInfo.State.STARTING,
    service.BookieState.WRITABLE: pb.BookieInfo.State.WRITABLE,
    service.BookieState.READ_ONLY: pb.BookieInfo.State.READ_ONLY,
    service.BookieState.DRAINING: pb.BookieInfo.State.DRAINING,
}
_STATES: Final = {number: state for state, number in _STATE_NUMBERS.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceCall:
    """Fence a ledger."""

    ledger_id: LedgerId
    master_key: Shown = field(repr=False)
    #: 0: not known.
    create_token: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerCall:
    """A request that has only a ledger, and perhaps the proof of its key."""

    ledger_id: LedgerId
    key: Shown | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndLimbo:
    """End a bookie's limbo of a ledger, if the bookie is still in the start of this epoch."""

    ledger_id: LedgerId
    boot_epoch: int


def done(_: None) -> pb.Done:
    """Write an answer without content."""
    return pb.Done()


def read_done(_: pb.Done) -> None:
    """Read an answer without content."""


def fence(value: FenceCall) -> pb.FenceRequest:
    """Write a request to fence."""
    shown = value.master_key
    return pb.FenceRequest(
        ledger_id=value.ledger_id,
        master_key=shown if isinstance(shown, bytes) else b"",
        create_token=value.create_token,
        proof=_proof(shown),
    )


def read_fence(message: pb.FenceRequest) -> FenceCall:
    """Read a request to fence."""
    return FenceCall(
        ledger_id=_ledger(message.ledger_id),
        master_key=_read_proof(message) or _key(message.master_key),
        create_token=_token(message.create_token),
    )


def end_limbo(value: EndLimbo) -> pb.EndLimboRequest:
    """Write a request to end limbo."""
    return pb.EndLimboRequest(ledger_id=value.ledger_id, boot_epoch=value.boot_epoch)


def read_end_limbo(message: pb.EndLimboRequest) -> EndLimbo:
    """Read a request to end limbo; ``boot_epoch`` is 0 if the sender gave none."""
    return EndLimbo(ledger_id=_ledger(message.ledger_id), boot_epoch=message.boot_epoch)


def ledger(value: LedgerCall) -> pb.LedgerRequest:
    """Write a request that has only a ledger."""
    return pb.LedgerRequest(ledger_id=value.ledger_id, proof=_proof(value.key))


def read_ledger(message: pb.LedgerRequest) -> LedgerCall:
    """Read a request that has only a ledger."""
    return LedgerCall(ledger_id=_ledger(message.ledger_id), key=_read_proof(message))


def lac_evidence(value: service.LacEvidence) -> pb.LacEvidence:
    """Write the evidence of a LAC."""
    return pb.LacEvidence(explicit_lac=value.explicit_lac, last_entry=value.last_entry)


def read_lac_evidence(message: pb.LacEvidence) -> service.LacEvidence:
    """Read the evidence of a LAC."""
    return service.LacEvidence(
        explicit_lac=message.explicit_lac if message.HasField("explicit_lac") else None,
        last_entry=message.last_entry if message.HasField("last_entry") else None,
    )


def tail(value: service.TailRequest) -> pb.TailRequest:
    """Write a request to follow a ledger."""
    return pb.TailRequest(
        ledger_id=value.ledger_id,
        first_entry_id=value.first_entry_id,
        bytes_max=value.bytes_max,
        quiet_ms=value.quiet_ms,
        proof=_proof(value.key),
    )


def read_tail(message: pb.TailRequest) -> service.TailRequest:
    """Read a request to follow a ledger."""
    return service.TailRequest(
        ledger_id=_ledger(message.ledger_id),
        first_entry_id=_entry(message.first_entry_id),
        bytes_max=_positive("bytes_max", message.bytes_max),
        quiet_ms=_positive("quiet_ms", message.quiet_ms),
        key=_read_proof(message),
    )


def tail_update(value: service.TailUpdate) -> pb.TailUpdate:
    """Write an update of a tail."""
    return pb.TailUpdate(
        last_add_confirmed=value.last_add_confirmed,
        frames=[frame.data() for frame in value.frames],
    )


def read_tail_update(message: pb.TailUpdate) -> service.TailUpdate:
    """Read an update of a tail."""
    return service.TailUpdate(
        last_add_confirmed=_lac(message.last_add_confirmed),
        frames=tuple(frames.parse(data) for data in message.frames),
    )


def list_entries(value: service.ListEntriesRequest) -> pb.ListEntriesRequest:
    """Write a request for a page of a ledger's entries."""
    return pb.ListEntriesRequest(
        ledger_id=value.ledger_id,
        first_entry_id=value.first_entry_id,
        ranges_max=value.ranges_max,
        proof=_proof(value.key),
    )


def read_list_entries(message: pb.ListEntriesRequest) -> service.ListEntriesRequest:
    """Read a request for a page of a ledger's entries."""
    return service.ListEntriesRequest(
        ledger_id=_ledger(message.ledger_id),
        first_entry_id=_entry(message.first_entry_id),
        ranges_max=_positive("ranges_max", message.ranges_max),
        key=_read_proof(message),
    )


def entry_ranges(value: service.EntryRanges) -> pb.EntryRanges:
    """Write a page of a ledger's entries."""
    return pb.EntryRanges(
        ranges=[
            pb.EntryRanges.Range(first_entry_id=first, last_entry_id=last)
            for first, last in value.ranges
        ],
        complete=value.complete,
    )


def read_entry_ranges(message: pb.EntryRanges) -> service.EntryRanges:
    """Read a page of a ledger's entries."""
    ranges = tuple((_entry(r.first_entry_id), _entry(r.last_entry_id)) for r in message.ranges)
    before = NO_ENTRY
    for first, last in ranges:
        if not before < first <= last:
            raise ValueError(f"range {first}..{last} after entry {before}")
        before = last
    if not ranges and not message.complete:
        raise ValueError("a page without ranges that is not the last")
    return service.EntryRanges(ranges=ranges, complete=message.complete)


def info(_: None) -> pb.InfoRequest:
    """Write a request for a bookie's state."""
    return pb.InfoRequest()


def read_info(_: pb.InfoRequest) -> None:
    """Read a request for a bookie's state."""


def bookie_info(value: service.BookieInfo) -> pb.BookieInfo:
    """Write a bookie's state."""
    return pb.BookieInfo(
        bookie_id=value.bookie_id,
        state=_STATE_NUMBERS[value.state],
        boot_epoch=value.boot_epoch,
        version=value.version,
        total_bytes=value.total_bytes,
        free_bytes=value.free_bytes,
    )


def read_bookie_info(message: pb.BookieInfo) -> service.BookieInfo:
    """Read a bookie's state."""
    if message.state not in _STATES:
        raise ValueError(f"state {message.state} is not known")
    return service.BookieInfo(
        bookie_id=BookieId(message.bookie_id),
        state=_STATES[message.state],
        boot_epoch=message.boot_epoch,
        version=message.version,
        total_bytes=message.total_bytes,
        free_bytes=message.free_bytes,
    )


def set_read_only(value: bool) -> pb.SetReadOnlyRequest:
    """Write a request to refuse appends, or to take them again."""
    return pb.SetReadOnlyRequest(read_only=value)


def read_set_read_only(message: pb.SetReadOnlyRequest) -> bool:
    """Read a request to refuse appends, or to take them again."""
    return message.read_only


def compact(major: bool) -> pb.CompactRequest:
    """Write a request to compact."""
    return pb.CompactRequest(major=major)


def read_compact(message: pb.CompactRequest) -> bool:
    """Read a request to compact."""
    return message.major


def _ledger(number: int) -> LedgerId:
    if number < 0:
        raise ValueError(f"ledger_id {number} is negative")
    return LedgerId(number)


def _entry(number: int) -> EntryId:
    if number < 0:
        raise ValueError(f"entry id {number} is negative")
    return EntryId(number)


def _lac(number: int) -> EntryId:
    if number < NO_ENTRY:
        raise ValueError(f"last_add_confirmed {number} is less than {NO_ENTRY}")
    return EntryId(number)


def _key(data: bytes) -> MasterKey:
    if len(data) != digests.MASTER_KEY_BYTES:
        raise ValueError(f"master_key has {len(data)} bytes, not {digests.MASTER_KEY_BYTES}")
    return MasterKey(data)


_MayProve: TypeAlias = pb.FenceRequest | pb.LedgerRequest | pb.TailRequest | pb.ListEntriesRequest


def _proof(shown: Shown | None) -> pb.KeyProof | None:
    """Write what a call proves; a key is written nowhere but in a fence, and by that itself."""
    if not isinstance(shown, CallProof):
        return None
    return pb.KeyProof(nonce=shown.nonce, number=shown.number, proof=shown.proof)


def _read_proof(message: _MayProve) -> CallProof | None:
    """Read what a call proves; None: nothing."""
    if not message.HasField("proof"):
        return None
    said = message.proof
    for name, data, size in (
        ("nonce", said.nonce, proofs.NONCE_BYTES),
        ("proof", said.proof, proofs.PROOF_BYTES),
    ):
        if len(data) != size:
            raise ValueError(f"a {name} has {len(data)} bytes, not {size}")
    return CallProof(
        nonce=said.nonce, number=_positive("number of a proof", said.number), proof=said.proof
    )


def _positive(name: str, number: int) -> int:
    if number < 1:
        raise ValueError(f"{name} is {number}")
    return number


def _token(number: int) -> int:
    if number < 0:
        raise ValueError(f"create_token {number} is negative")
    return number
