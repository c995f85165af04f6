"""Admission: which requests a bookie accepts for a ledger. Key, fence, fragments, LAC, limbo. Pure.

``decide`` takes the state of a ledger and a request, and gives effects. A state changes only by the
records among the effects: ``applied`` gives the state after each. So a ledger's state is exactly
the result of its records in the log, while the bookie runs and after a restart.

A ledger has two states. The *admitted* state has every record that was handed to the log; requests
are decided by it. The *durable* state has every record that is on disk; answers are given by it.
The code that performs the effects must obey two rules:

* The events of a ledger are decided one after the other, and their effects enter the log in that
  order. So an append that was admitted before a fence is on disk before the fence is.
* An answer is given only when its effects, and all earlier records of the ledger, are on disk. This
  also holds for an answer without effects. A second fence is not answered before the first is on
  disk, and an entry that was already sent is not answered before it is on disk.

Then five invariants hold. The first master key stays, and a request with another key changes
nothing. After a fence is answered, no plain append is answered; appends of a recovery are. An entry
never gets other content. An explicit LAC never falls. In limbo, an entry that is not here is
unknown, not denied (see ``refuse_limbo``).

A ledger that was deleted and collected is not known any more, and neither is its fence. So an
opening or a fence that may mean that ledger is refused with ``LedgerDeleted``: a tombstone names it
(``buried``), or its writer had it open here before (``was_open``). A ledger that is known under
another create token is another ledger, and is refused in the same way. Otherwise limbo comes first:
there, what is not here is unknown for another reason.

A peer's word makes no ledger. As long as no key of a ledger is known here (the ledger is unknown,
or only its limbo is known), an opening or a fence is decided by its metadata, which the bookie
reads itself (``AskMetadata``): the ledger must be there, with this key and this create token. So a
stranger leaves nothing here for an id, and its key does not stand in the way of the ledger that
gets the id later.

A peer shows the key itself, or a proof that it knows the key (``wire.formats.proofs``). A record
has the key that is known here or in metadata, which is the one that was shown.
"""

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias, assert_never

from zonekeeper.bookie.ledgers import hints, records
from zonekeeper.bookie.ledgers.records import LedgerRecord
from zonekeeper.placement.base.digests import Digest
from zonekeeper.placement.base.ids import NO_ENTRY, EntryId, LedgerId
from zonekeeper.wire.formats import digests, entries, errors, proofs
from zonekeeper.wire.formats.digests import MasterKey
from zonekeeper.wire.formats.openings import FragmentOpening
from zonekeeper.wire.formats.proofs import Shown, ShownProof

# ── state ──


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionState:
    """The state of a ledger without its entries; ``UNKNOWN`` at first."""

    #: None: no request has shown a key yet.
    master_key: MasterKey | None = field(default=None, repr=False)
    #: 0: no request has shown the ledger's create token yet.
    create_token: int = 0
    fenced: bool = False
    in_limbo: bool = False
    explicit_lac: bytes | None = None
    #: The kind of digest of the ledger's packets; None: no fragment was ever opened here.
    digest: Digest | None = None
    #: Of all openings, by their first entries, ascending (``ledgers.hints``).
    hints: tuple[bytes, ...] = ()
    #: The sum of ``hints.size_of``.
    hint_bytes: int = 0

    @property
    def fragments(self) -> tuple[FragmentOpening, ...]:
        """The openings that count, by their first entries, ascending; with the create token."""
        return hints.counting(self.hints, self.create_token)


UNKNOWN: Final = AdmissionState()


# ── what metadata says ──


@dataclass(frozen=True, slots=True, kw_only=True)
class Stands:
    """Metadata has the ledger."""

    master_key: MasterKey = field(repr=False)
    #: 0: not known.
    create_token: int = 0
    #: The principal that the ledger belongs to; "": it has no owner.
    owner: str = ""


@dataclass(frozen=True, slots=True)
class Gone:
    """Metadata has no such ledger: it was deleted, or was never created."""


#: What a synced read of the bookie's own has found, after the request came.
Standing: TypeAlias = Stands | Gone


# ── events ──


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenWanted:
    """A writer, or a recovery, opens a fragment."""

    opening: FragmentOpening
    #: The proof of the key, if one came in place of the opening's key.
    proof: ShownProof | None = None
    #: Had the sender the ledger open on this bookie before?
    was_open: bool = False
    #: Does a tombstone name the ledger?
    buried: bool = False
    #: None: metadata was not read.
    standing: Standing | None = None


class Here(enum.Enum):
    """Which entries of a frame this bookie already has, on disk or on their way there."""

    #: The bookie has none of them.
    NONE = "none"
    #: The bookie has some, and they were not compared with the frame's yet.
    UNCOMPARED = "uncompared"
    #: The bookie has some, and all of these are the same (``entries.same``).
    SAME = "same"
    #: The bookie has some, and at least one differs.
    DIFFERENT = "different"


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendWanted:
    """A frame arrives, on a stream on which the ledger was opened."""

    recovery: bool
    here: Here


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplicitLacWanted:
    """A LAC packet arrives, on a stream on which the ledger was opened."""

    packet: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceWanted:
    """A recovery fences the ledger, which may be unknown here."""

    #: The key, or a proof of it.
    master_key: Shown = field(repr=False)
    #: 0: not known.
    create_token: int = 0
    #: Does a tombstone name the ledger?
    buried: bool = False
    #: None: metadata was not read.
    standing: Standing | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LimboWanted:
    """The ledger enters or leaves limbo.

    ``in_limbo``: this bookie lost data, perhaps of this ledger; the ledger is fenced, too. Else:
    every entry that belongs here is here again; the ledger stays fenced.
    """

    in_limbo: bool


Event: TypeAlias = OpenWanted | AppendWanted | ExplicitLacWanted | FenceWanted | LimboWanted


# ── effects ──


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteRecord:
    """Hand a record to the log."""

    record: LedgerRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Take:
    """Hand the frame's entries that are not here to the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compare:
    """Compare the frame's entries with those that are here, then decide the append again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskMetadata:
    """Read the ledger's metadata, then decide the event again, with its standing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refuse:
    """Answer at once with an error; nothing was changed."""

    error: errors.ProtocolError


Effect: TypeAlias = WriteRecord | Take | Compare | AskMetadata | Refuse


# ── the rules ──


def decide(ledger_id: LedgerId, state: AdmissionState, event: Event) -> Sequence[Effect]:
    """Give the effects of an event; no effects: the request was already done before."""
    match event:
        case OpenWanted():
            return _open(state, event)
        case AppendWanted():
            return _append(ledger_id, state, event)
        case ExplicitLacWanted(packet=packet):
            return _write_lac(ledger_id, state, packet)
        case FenceWanted():
            return _fence(ledger_id, state, event)
        case LimboWanted(in_limbo=in_limbo):
            if state.in_limbo == in_limbo:
                return ()
            return (
                WriteRecord(record=records.LimboRecord(ledger_id=ledger_id, in_limbo=in_limbo)),
            )
        case _:
            assert_never(event)


def applied(state: AdmissionState, record: LedgerRecord) -> AdmissionState:
    """Give the state after a record; a state changes in no other way."""
    match record:
        case records.FragmentRecord():
            return _opened(state, record)
        case records.FenceRecord():
            return _fenced(state, record)
        case records.LacRecord(packet=packet):
            return _with_lac(state, packet)
        case records.LimboRecord(in_limbo=in_limbo):
            return replace(state, in_limbo=in_limbo, fenced=state.fenced or in_limbo)
        case _:
            assert_never(record)


# A start applies millions of records, and ``dataclasses.replace`` takes three times as long.


def _opened(state: AdmissionState, record: records.FragmentRecord) -> AdmissionState:
    """Give the state after an opening; the key and the create token that were first known stay."""
    said, hint = record.said, record.hint
    is_new = not hints.has(state.hints, hint)
    return AdmissionState(
        master_key=state.master_key or said.master_key,
        create_token=state.create_token or said.create_token,
        fenced=state.fenced,
        in_limbo=state.in_limbo,
        explicit_lac=state.explicit_lac,
        digest=state.digest or said.digest,
        hints=hints.added(state.hints, hint) if is_new else state.hints,
        hint_bytes=state.hint_bytes + (hints.size_of(hint) if is_new else 0),
    )


def _fenced(state: AdmissionState, record: records.FenceRecord) -> AdmissionState:
    return AdmissionState(
        master_key=state.master_key or record.master_key,
        create_token=state.create_token or record.create_token,
        fenced=True,
        in_limbo=state.in_limbo,
        explicit_lac=state.explicit_lac,
        digest=state.digest,
        hints=state.hints,
        hint_bytes=state.hint_bytes,
    )


def _with_lac(state: AdmissionState, packet: bytes) -> AdmissionState:
    return AdmissionState(
        master_key=state.master_key,
        create_token=state.create_token,
        fenced=state.fenced,
        in_limbo=state.in_limbo,
        explicit_lac=packet,
        digest=state.digest,
        hints=state.hints,
        hint_bytes=state.hint_bytes,
    )


def refuse_limbo(ledger_id: LedgerId, state: AdmissionState) -> None:
    """Raise if the ledger is in limbo.

    To be called before an answer that would deny an entry or name the last entry.
    """
    if state.in_limbo:
        raise errors.LimboLedger(
            f"this bookie lost data of ledger {ledger_id} and has not been repaired yet; "
            "ask the others"
        )


def lac_of(packet: bytes | None) -> EntryId:
    """Give the LAC in a packet, whose digest is not checked; without a packet ``NO_ENTRY``."""
    if packet is None:
        return NO_ENTRY
    return EntryId(int.from_bytes(packet[8:16], "big", signed=True))


def _open(state: AdmissionState, event: OpenWanted) -> Sequence[Effect]:
    opening = event.opening
    ledger_id = opening.ledger_id
    refused = _no_longer_here(state, event)
    shown = event.proof or opening.master_key
    refused = refused or _wrong_key(ledger_id, state.master_key, shown)
    if refused is not None:
        return refused
    token = opening.create_token
    if state.master_key is None:
        unproven = _unproven(ledger_id, event.standing, shown, token)
        if unproven is not None:
            return unproven
        token = _token_of(event.standing, token)
    key = _key_of(state, event.standing)
    if state.digest not in (None, opening.digest):
        return _refuse_request(
            f"ledger {ledger_id} has the digest {state.digest}, and the fragment {opening.digest}"
        )
    token = token or state.create_token
    proven = replace(opening, master_key=key, create_token=token)
    record = records.FragmentRecord.of(proven)
    hint = record.hint
    if not hints.has(state.hints, hint):
        if state.hint_bytes + hints.size_of(hint) > hints.LEDGER_BYTES_MAX:
            return _refuse_request(
                f"ledger {ledger_id}: what writers told of its fragments takes {state.hint_bytes} "
                f"bytes here, the limit is {hints.LEDGER_BYTES_MAX}: write to a new ledger"
            )
    elif token == state.create_token:
        return ()
    return (WriteRecord(record=record),)


def _append(ledger_id: LedgerId, state: AdmissionState, event: AppendWanted) -> Sequence[Effect]:
    if state.digest is None:
        return (Refuse(error=errors.NotOpened(f"ledger {ledger_id}: no fragment was opened here")),)
    if state.fenced and not event.recovery:
        return (
            Refuse(
                error=errors.Fenced(f"ledger {ledger_id} is fenced: its writer must stop writing")
            ),
        )
    match event.here:
        case Here.NONE | Here.SAME:
            return (Take(),)
        case Here.UNCOMPARED:
            return (Compare(),)
        case Here.DIFFERENT:
            return (
                Refuse(
                    error=errors.EntryMismatch(
                        f"ledger {ledger_id}: another entry is here under an id of the frame; "
                        "two writers, or one that forgot what it sent"
                    )
                ),
            )
        case _:
            assert_never(event.here)


def _write_lac(ledger_id: LedgerId, state: AdmissionState, packet: bytes) -> Sequence[Effect]:
    """Decide on an explicit LAC. A fenced ledger accepts it: confirmed entries stay confirmed."""
    if state.digest is None:
        return (Refuse(error=errors.NotOpened(f"ledger {ledger_id}: no fragment was opened here")),)
    size = entries.LAC_PACKET_BYTES_MIN + digests.digest_bytes(state.digest)
    if len(packet) != size or lac_of(packet) < NO_ENTRY:
        return _refuse_request(
            f"ledger {ledger_id}: a LAC packet of {len(packet)} bytes, {size} are needed, "
            f"and LAC {lac_of(packet)}"
        )
    if lac_of(packet) <= lac_of(state.explicit_lac):
        return ()
    return (WriteRecord(record=records.LacRecord(ledger_id=ledger_id, packet=packet)),)


def _fence(ledger_id: LedgerId, state: AdmissionState, event: FenceWanted) -> Sequence[Effect]:
    shown, token = event.master_key, event.create_token
    if is_other(state, token):
        return _refuse_deleted(ledger_id, "another ledger has this id here")
    if event.buried and state == UNKNOWN:
        return _refuse_deleted(ledger_id, "it was deleted, and collected here")
    if (refused := _wrong_key(ledger_id, state.master_key, shown)) is not None:
        return refused
    if state.master_key is None:
        if (unproven := _unproven(ledger_id, event.standing, shown, token)) is not None:
            return unproven
        token = _token_of(event.standing, token)
    elif state.fenced:
        return ()
    key = _key_of(state, event.standing)
    fence = records.FenceRecord(ledger_id=ledger_id, master_key=key, create_token=token)
    return (WriteRecord(record=fence),)


def _no_longer_here(state: AdmissionState, event: OpenWanted) -> Sequence[Effect] | None:
    """Refuse to open a ledger that this bookie does not know any more, if it ever did."""
    ledger_id = event.opening.ledger_id
    if is_other(state, event.opening.create_token):
        return _refuse_deleted(ledger_id, "another ledger has this id here")
    if state.hints or state.in_limbo:
        return None
    if event.buried:
        return _refuse_deleted(ledger_id, "it was deleted, and collected here")
    # A fence without a fragment may be here since a limbo. Then that fence stops the writer.
    if event.was_open and not state.fenced:
        return _refuse_deleted(ledger_id, "it was open here, and is not known any more")
    return None


def _unproven(
    ledger_id: LedgerId, standing: Standing | None, shown: Shown, create_token: int
) -> Sequence[Effect] | None:
    """Give the effects if metadata does not say that this is a ledger, and that this is its key."""
    match standing:
        case None:
            return (AskMetadata(),)
        case Gone():
            return _refuse_deleted(ledger_id, "it is not in the metadata that this bookie has read")
        case Stands(master_key=known, create_token=token):
            if _differ(token, create_token):
                return _refuse_deleted(ledger_id, "another ledger has this id in the metadata")
            return _wrong_key(ledger_id, known, shown)
        case _:
            assert_never(standing)


def _key_of(state: AdmissionState, standing: Standing | None) -> MasterKey:
    """Give the key of a ledger of which it was shown: it is known here, or metadata says it."""
    if state.master_key is not None:
        return state.master_key
    assert isinstance(standing, Stands), "a key that is not known was compared with metadata's"
    return standing.master_key


def _token_of(standing: Standing | None, create_token: int) -> int:
    """Give a ledger's create token: metadata knows it, if it has one."""
    return create_token or (standing.create_token if isinstance(standing, Stands) else 0)


def is_other(state: AdmissionState, create_token: int) -> bool:
    """Is the ledger that is here another one than that with this create token?

    This holds in limbo, too: what is left there of an old ledger must not be read as the new one's.
    """
    return _differ(state.create_token, create_token)


def _differ(one: int, other: int) -> bool:
    """Are these the create tokens of two ledgers? A token that is not known may be any."""
    return bool(one and other) and one != other


def _refuse_deleted(ledger_id: LedgerId, why: str) -> Sequence[Effect]:
    detail = f"ledger {ledger_id}: {why}; metadata says whether the ledger is still there"
    return (Refuse(error=errors.LedgerDeleted(detail)),)


def _wrong_key(
    ledger_id: LedgerId, known: MasterKey | None, shown: Shown
) -> Sequence[Effect] | None:
    if known is None or proofs.fits(shown, known):
        return None
    return (
        Refuse(
            error=errors.UnauthorizedAccess(
                f"ledger {ledger_id} has another master key here: is the password right?"
            )
        ),
    )


def _refuse_request(detail: str) -> Sequence[Effect]:
    return (Refuse(error=errors.BadRequest(detail)),)
