"""Frames to test with."""

from collections.abc import Sequence

from hypothesis import strategies as st

from zonekeeper.placement.base.digests import Digest
from zonekeeper.placement.base.ids import EntryId, LedgerId
from zonekeeper.wire.formats import entries, frames

LEDGER = LedgerId(7)
DIGEST = Digest.CRC32C
SEALER = entries.Sealer(LEDGER, DIGEST, b"passwd")


def ledgers(count: int) -> list[LedgerId]:
    """The ids of the first so many ledgers."""
    return [LedgerId(number) for number in range(count)]


def run(first: int, *payloads: bytes, flags: frames.Flags = frames.Flags.PLAIN) -> frames.Frame:
    """A frame of consecutive entries, sealed by a writer that had no acknowledgement yet."""
    confirmed = EntryId(-1)
    return frames.seal(SEALER, EntryId(first), confirmed, 1000, payloads, flags)


def listed(ids: Sequence[int], flags: frames.Flags = frames.Flags.PLAIN) -> frames.Frame:
    """A frame of the entries with these ids; what they hold follows from the id."""
    wanted = [EntryId(entry) for entry in ids]
    packets = [SEALER.seal(entry, EntryId(-1), 1 << 40, b"e%d" % entry) for entry in wanted]
    return frames.build(LEDGER, wanted, packets, flags)


#: Ids of a frame, consecutive or not, anywhere in their range.
id_sets = st.builds(
    lambda first, steps: sorted({min(first + step, entries.ID_END - 1) for step in (0, *steps)}),
    st.integers(0, entries.ID_END - 1),
    st.one_of(
        st.integers(0, 8).map(range),
        st.lists(st.integers(0, 12), max_size=8),
        st.lists(st.integers(0, (1 << 32) - 1), max_size=4),
    ),
)

all_flags = st.sampled_from([frames.Flags(bits) for bits in (0, 2, 4, 6)])

some_frames = st.one_of(
    st.builds(listed, id_sets, all_flags),
    st.builds(
        lambda first, payloads, flags: run(first, *payloads, flags=flags),
        st.integers(0, 1 << 50),
        st.lists(st.binary(max_size=40), min_size=1, max_size=6),
        all_flags,
    ),
)
