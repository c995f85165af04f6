"""Every value survives its message, and no bytes do worse than a BadRequest."""

from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.wire.link.worlds import Writer
from zonekeeper.placement.base.ids import BookieId, EntryId, LedgerId
from zonekeeper.wire.contract import messages, service
from zonekeeper.wire.formats import errors
from zonekeeper.wire.formats.digests import MasterKey
from zonekeeper.wire.formats.proofs import CallProof
from zonekeeper.wire.host import methods
from zonekeeper.wire.host.methods import Spelling
from zonekeeper.wire.pb import bookie_pb2 as pb

ids = st.integers(0, (1 << 63) - 1)
ledgers = ids.map(LedgerId)
entries = ids.map(EntryId)
keys = st.binary(min_size=20, max_size=20).map(MasterKey)
call_proofs = st.builds(
    CallProof,
    nonce=st.binary(min_size=16, max_size=16),
    number=st.integers(1, (1 << 64) - 1),
    proof=st.binary(min_size=20, max_size=20),
)
positive = st.integers(1, (1 << 32) - 1)
bookies = st.text(min_size=1, max_size=20).map(BookieId)


@st.composite
def ranges(draw: st.DrawFn) -> service.EntryRanges:
    ends = sorted(draw(st.sets(ids, max_size=8)))
    pairs = zip(ends[0::2], ends[1::2], strict=False)
    found = tuple((EntryId(first), EntryId(last)) for first, last in pairs)
    return service.EntryRanges(ranges=found, complete=draw(st.booleans()) or not found)


optional_bytes = st.none() | st.binary(max_size=100)
VALUES: Final[dict[str, tuple[Spelling[object], st.SearchStrategy[object]]]] = {}


def note(name: str, spelling: Spelling[methods.Q], values: st.SearchStrategy[methods.Q]) -> None:
    VALUES[name] = (spelling, values)  # type: ignore[assignment]  # each pair fits, whatever it is


note("done", methods.FORCE.reply, st.none())
note(
    "fence",
    methods.FENCE.request,
    st.builds(messages.FenceCall, ledger_id=ledgers, master_key=keys | call_proofs),
)
note(
    "ledger",
    methods.FORCE.request,
    st.builds(messages.LedgerCall, ledger_id=ledgers, key=st.none() | call_proofs),
)
note(
    "evidence",
    methods.FENCE.reply,
    st.builds(service.LacEvidence, explicit_lac=optional_bytes, last_entry=optional_bytes),
)
note(
    "tail",
    methods.TAIL.request,
    st.builds(
        service.TailRequest,
        ledger_id=ledgers,
        first_entry_id=entries,
        bytes_max=positive,
        quiet_ms=positive,
        key=st.none() | call_proofs,
    ),
)
note(
    "tail update",
    methods.TAIL.reply,
    st.builds(
        service.TailUpdate,
        last_add_confirmed=st.integers(-1, (1 << 63) - 1).map(EntryId),
        frames=st.just((Writer(7).frame(b"x", b""), Writer(7, first=4).frame(b"y"))),
    ),
)
note(
    "list",
    methods.LIST_ENTRIES.request,
    st.builds(
        service.ListEntriesRequest,
        ledger_id=ledgers,
        first_entry_id=entries,
        ranges_max=positive,
        key=st.none() | call_proofs,
    ),
)
note("ranges", methods.LIST_ENTRIES.reply, ranges())
note("info request", methods.INFO.request, st.none())
note(
    "info",
    methods.INFO.reply,
    st.builds(
        service.BookieInfo,
        bookie_id=bookies,
        state=st.sampled_from(service.BookieState),
        boot_epoch=ids,
        version=st.text(max_size=10),
        total_bytes=ids,
        free_bytes=ids,
    ),
)
note("read only", methods.SET_READ_ONLY.request, st.booleans())
note("compact", methods.COMPACT.request, st.booleans())

each = pytest.mark.parametrize("name", VALUES)


@each
@settings(deadline=None, max_examples=30)
@given(data=st.data())
def test_a_value_comes_back_as_it_was(name: str, data: st.DataObject) -> None:
    spelling, values = VALUES[name]
    value = data.draw(values)
    assert spelling.decode(spelling.encode(value)) == value


@each
@settings(deadline=None, max_examples=50)
@given(data=st.data())
def test_damaged_bytes_are_a_value_or_a_bad_request(name: str, data: st.DataObject) -> None:
    spelling, values = VALUES[name]
    whole = bytearray(spelling.encode(data.draw(values)))
    for _ in range(data.draw(st.integers(0, 3))):
        if whole:
            whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    bytes_ = bytes(whole[: data.draw(st.integers(0, len(whole)))]) or data.draw(st.binary())
    try:
        value = spelling.decode(bytes_)
    except (errors.BadRequest, errors.UnsupportedVersion):
        return
    assert spelling.decode(spelling.encode(value)) == value


@pytest.mark.parametrize(
    ("found", "complete", "words"),
    [
        ([(3, 2)], True, "range 3..2 after entry -1"),
        ([(0, 5), (5, 9)], True, "range 5..9 after entry 5"),
        ([], False, "a page without ranges that is not the last"),
    ],
)
def test_ranges_that_cannot_be_are_no_answer(
    found: list[tuple[int, int]], complete: bool, words: str
) -> None:
    message = pb.EntryRanges(
        ranges=[pb.EntryRanges.Range(first_entry_id=a, last_entry_id=b) for a, b in found],
        complete=complete,
    )
    with pytest.raises(errors.BadRequest, match=words):
        methods.LIST_ENTRIES.reply.decode(message.SerializeToString())


@pytest.mark.parametrize(
    ("proof", "words"),
    [
        (pb.KeyProof(nonce=bytes(15), number=1, proof=bytes(20)), "a nonce has 15 bytes"),
        (pb.KeyProof(nonce=bytes(16), number=1, proof=bytes(21)), "a proof has 21 bytes"),
        (pb.KeyProof(nonce=bytes(16), number=0, proof=bytes(20)), "number of a proof is 0"),
        (pb.KeyProof(), "a nonce has 0 bytes"),
    ],
)
def test_a_proof_that_cannot_be_is_a_bad_request(proof: pb.KeyProof, words: str) -> None:
    message = pb.LedgerRequest(ledger_id=7, proof=proof)
    with pytest.raises(errors.BadRequest, match=words):
        methods.READ_LAC.request.decode(message.SerializeToString())


def test_a_call_that_only_looks_never_spells_the_key_itself() -> None:
    key = MasterKey(b"k" * 20)
    asked = messages.LedgerCall(ledger_id=LedgerId(7), key=key)
    assert methods.READ_LAC.request.encode(asked).find(key) == -1


def test_a_bookie_state_that_is_not_known_is_no_answer() -> None:
    with pytest.raises(errors.BadRequest, match="state 0"):
        methods.INFO.reply.decode(pb.BookieInfo().SerializeToString())
