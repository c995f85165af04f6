"""Items of carriers to test with."""

from hypothesis import strategies as st

from tests.wire import framing
from zonekeeper.placement.base.digests import Digest
from zonekeeper.placement.base.ids import BookieId, EntryId, LedgerId
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.wire.formats import carriers, digests, entries, frames
from zonekeeper.wire.formats.openings import FragmentOpening

RUN = framing.run(5, b"a", b"bb")
LISTED = framing.listed([7, 9])

#: One item of each kind, and of each spelling of a kind. Their carrier is a golden file: append
#: here, change nothing.
ONE_OF_EACH: dict[str, carriers.Item] = {
    "Append": carriers.Append(number=1, frame=RUN),
    "WriteLac": carriers.WriteLac(
        number=2, ledger_id=framing.LEDGER, packet=framing.SEALER.seal_lac(EntryId(6))
    ),
    "Hello": carriers.Hello(boot_epoch=4),
    "Acked": carriers.Acked(number=5, last=6),
    "Refused": carriers.Refused(number=7, code=2, detail="fenced by a récovery"),
    "Read": carriers.Read(
        number=8,
        ledger_id=framing.LEDGER,
        first=EntryId(5),
        last=EntryId(17),
        step=3,
        max_bytes=1 << 20,
    ),
    "Read that fences": carriers.Read(
        number=9,
        ledger_id=framing.LEDGER,
        first=EntryId(5),
        last=EntryId(5),
        max_bytes=0,
        fence_key=digests.master_key(b"passwd"),
    ),
    "ReadReply": carriers.ReadAnswer(
        number=10,
        next_entry=EntryId(12),
        last_add_confirmed=EntryId(-1),
        frames=(RUN, LISTED),
    ),
    "ReadReply without a LAC": carriers.ReadAnswer(
        number=11, next_entry=EntryId(1 << 63), last_add_confirmed=None
    ),
    "Open": carriers.Open(
        number=12,
        opening=FragmentOpening(
            ledger_id=framing.LEDGER,
            master_key=digests.master_key(b"passwd"),
            quorums=Quorums(ensemble=3, write=3, ack=2, ack_zones=2),
            digest=Digest.CRC32C,
            first_entry_id=EntryId(5),
            ensemble=(BookieId("bk-a-0"), BookieId("bk-b-0"), BookieId("bk-ç-0")),
        ),
    ),
    "Open of a ledger that was open": carriers.Open(
        number=13,
        opening=FragmentOpening(
            ledger_id=framing.LEDGER,
            master_key=digests.master_key(b"passwd"),
            quorums=Quorums(ensemble=1, write=1, ack=1),
            digest=Digest.CRC32C,
            first_entry_id=EntryId(5),
            ensemble=(BookieId("bk-a-0"),),
            create_token=0x0102030405060708,
        ),
        was_open=True,
    ),
    "Read of a ledger with a token": carriers.Read(
        number=15,
        ledger_id=framing.LEDGER,
        first=EntryId(5),
        last=EntryId(5),
        max_bytes=0,
        create_token=0x0102030405060708,
    ),
    "Read that fences a ledger with a token": carriers.Read(
        number=14,
        ledger_id=framing.LEDGER,
        first=EntryId(5),
        last=EntryId(5),
        max_bytes=0,
        fence_key=digests.master_key(b"passwd"),
        create_token=0x0102030405060708,
    ),
}

#: A proof, where a proof may be anything.
PROOF = bytes(range(20))

#: What only version 2 of the wire has. Each is a golden file: append here, change nothing.
PROVING: dict[str, carriers.Item] = {
    "Hello with a nonce": carriers.Hello(boot_epoch=4, nonce=bytes(range(16))),
    "Open that proves": carriers.Open(
        number=12,
        opening=FragmentOpening(
            ledger_id=framing.LEDGER,
            master_key=digests.MasterKey(PROOF),
            quorums=Quorums(ensemble=1, write=1, ack=1),
            digest=Digest.CRC32C,
            first_entry_id=EntryId(5),
            ensemble=(BookieId("bk-a-0"),),
            create_token=0x0102030405060708,
        ),
        proven=True,
    ),
    "Read that proves": carriers.Read(
        number=8,
        ledger_id=framing.LEDGER,
        first=EntryId(5),
        last=EntryId(17),
        step=3,
        max_bytes=1 << 20,
        proof=PROOF,
    ),
    "Read that proves and fences": carriers.Read(
        number=9,
        ledger_id=framing.LEDGER,
        first=EntryId(5),
        last=EntryId(5),
        max_bytes=0,
        create_token=0x0102030405060708,
        proof=PROOF,
        fences=True,
    ),
}

_u64 = st.integers(0, (1 << 64) - 1)
_u32 = st.integers(0, (1 << 32) - 1)
_ids = st.integers(0, entries.ID_END - 1)


openings: st.SearchStrategy[FragmentOpening] = st.builds(
    lambda ledger, key, digest, first, names, quorums, token: FragmentOpening(
        ledger_id=LedgerId(ledger),
        master_key=key,
        quorums=Quorums(
            ensemble=len(names),
            write=1 + quorums[0] % len(names),
            ack=1 + quorums[1] % (1 + quorums[0] % len(names)),
        ),
        digest=digest,
        first_entry_id=EntryId(first),
        ensemble=tuple(map(BookieId, names)),
        create_token=token,
    ),
    _ids,
    st.binary(max_size=4).map(digests.master_key),
    st.sampled_from(Digest),
    _ids,
    st.lists(st.text(max_size=9), min_size=1, max_size=4),
    st.tuples(st.integers(0, 9), st.integers(0, 9)),
    st.just(0) | _ids,
)


def _reply(parts: list[tuple[int, int]], number: int, more: int, lac: int | None) -> carriers.Item:
    """A reply with frames of ``count`` entries after gaps of ``gap``."""
    at, found = 0, list[frames.Frame]()
    for gap, count in parts:
        found.append(framing.listed(range(at + gap, at + gap + count)))
        at += gap + count
    return carriers.ReadAnswer(
        number=number,
        next_entry=EntryId(at + more),
        last_add_confirmed=None if lac is None else EntryId(lac),
        frames=tuple(found),
    )


items: st.SearchStrategy[carriers.Item] = st.one_of(
    st.builds(carriers.Append, number=_u64, frame=framing.some_frames),
    st.builds(
        lambda number, ledger, rest: carriers.WriteLac(
            number=number, ledger_id=LedgerId(ledger), packet=ledger.to_bytes(8, "big") + rest
        ),
        _u64,
        _ids,
        st.binary(min_size=8, max_size=28),
    ),
    st.builds(carriers.Hello, boot_epoch=_u64),
    st.builds(carriers.Open, number=_u64, opening=openings, was_open=st.booleans()),
    st.builds(
        lambda number, more: carriers.Acked(number=number, last=number + more),
        st.integers(0, 1 << 50),
        st.integers(0, carriers.ACKED_MAX - 1),
    ),
    st.builds(
        carriers.Refused,
        number=_u64,
        code=st.integers(1, (1 << 32) - 1),
        detail=st.text(max_size=60),
    ),
    st.builds(
        lambda number, ledger, ends, step, most, key, token: carriers.Read(
            number=number,
            ledger_id=LedgerId(ledger),
            first=EntryId(min(ends)),
            last=EntryId(max(ends)),
            step=step,
            max_bytes=most,
            fence_key=key,
            create_token=token,
        ),
        _u64,
        _ids,
        st.tuples(_ids, _ids),
        st.integers(1, entries.ID_END),
        _u32,
        st.none() | st.binary(max_size=9).map(digests.master_key),
        st.just(0) | _ids,
    ),
    st.builds(
        _reply,
        st.lists(st.tuples(st.integers(1, 3), st.integers(1, 3)), max_size=3),
        _u64,
        st.integers(0, 5),
        st.none() | st.integers(-1, entries.ID_END - 1),
    ),
)

_proofs = st.binary(min_size=20, max_size=20)

proving_items: st.SearchStrategy[carriers.Item] = st.one_of(
    st.builds(carriers.Hello, boot_epoch=_u64, nonce=st.binary(min_size=16, max_size=16)),
    st.builds(
        carriers.Open,
        number=_u64,
        opening=openings,
        was_open=st.booleans(),
        proven=st.just(True),
    ),
    st.builds(
        lambda number, ledger, ends, proof, fences, token: carriers.Read(
            number=number,
            ledger_id=LedgerId(ledger),
            first=EntryId(min(ends)),
            last=EntryId(max(ends)),
            max_bytes=1,
            create_token=token,
            proof=proof,
            fences=fences,
        ),
        _u64,
        _ids,
        st.tuples(_ids, _ids),
        _proofs,
        st.booleans(),
        st.just(0) | _ids,
    ),
)
