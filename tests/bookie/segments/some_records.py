"""Records to test with: all that there may be, and one of each kind."""

from collections.abc import Sequence

from hypothesis import strategies as st

from tests.bookie import running
from tests.wire import framing
from zonekeeper.bookie.ledgers import records
from zonekeeper.bookie.ledgers.records import Record
from zonekeeper.placement.base.digests import Digest
from zonekeeper.placement.base.ids import BookieId, EntryId, LedgerId
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.wire.formats import digests, entries
from zonekeeper.wire.formats.openings import FragmentOpening

_ledgers = st.integers(0, entries.ID_END - 1).map(LedgerId)
_keys = st.binary(max_size=4).map(digests.master_key)
_openings = st.builds(
    lambda ledger, key, digest, first, names, ack: FragmentOpening(
        ledger_id=ledger,
        master_key=key,
        quorums=Quorums(ensemble=len(names), write=len(names), ack=min(ack, len(names))),
        digest=digest,
        first_entry_id=EntryId(first),
        ensemble=tuple(map(BookieId, names)),
    ),
    _ledgers,
    _keys,
    st.sampled_from(Digest),
    st.integers(0, entries.ID_END - 1),
    st.lists(st.text(max_size=9), min_size=1, max_size=4),
    st.integers(1, 4),
)
_tokens = st.just(0) | st.integers(1, (1 << 63) - 1)
all_records: st.SearchStrategy[Record] = st.one_of(
    framing.some_frames,
    st.builds(records.FragmentRecord.of, _openings),
    st.builds(records.FenceRecord, ledger_id=_ledgers, master_key=_keys, create_token=_tokens),
    st.builds(records.LacRecord, ledger_id=_ledgers, packet=st.binary(min_size=16, max_size=36)),
    st.builds(records.LimboRecord, ledger_id=_ledgers, in_limbo=st.booleans()),
    st.builds(records.ModeRecord, read_only=st.booleans()),
    st.builds(records.ForgetRecord, ledger_id=_ledgers),
    st.builds(
        records.ForgetRecord,
        ledger_id=_ledgers,
        create_token=_tokens,
        at_ms=st.integers(1, (1 << 64) - 1),
    ),
)

#: One record of each kind that was there at first. Its batch is a golden file: change nothing here.
ONE_OF_EACH: Sequence[Record] = (
    records.FragmentRecord.of(running.opening(first=5)),
    running.frame(0, 1, 2),
    records.FenceRecord(ledger_id=LedgerId(8), master_key=running.KEY),
    records.LacRecord(ledger_id=running.LEDGER, packet=running.lac_packet(2)),
    running.frame(3, 5, recovery=True),
    records.LimboRecord(ledger_id=LedgerId(9), in_limbo=True),
    records.ModeRecord(read_only=True),
)
#: The same, for what came later.
FORGET: Record = records.ForgetRecord(ledger_id=LedgerId(9))
