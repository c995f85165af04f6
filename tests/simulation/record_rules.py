"""The promises about a ledger's metadata: what one change of it may not say.

I5 what lies before the last fragment is confirmed, and an ack quorum has it where metadata shows
it, I6 what a ledger was created with never changes, its state never goes back, its end is for good,
and behind acknowledged entries no ensemble is exchanged, I8 of a closed ledger an ack quorum has
every entry, before and after each repair, I10 fragments are well-formed.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from tests.simulation import history as seen
from zonekeeper.metadata.formats.ledger_metadata import LedgerMetadata, LedgerState
from zonekeeper.placement.base.ids import EntryId, LedgerId

_ORDER: Final = (LedgerState.OPEN, LedgerState.IN_RECOVERY, LedgerState.CLOSED)


def broken(
    event: seen.Recorded, before: LedgerMetadata | None, acked: EntryId, *, deleted: bool
) -> Iterator[tuple[str, str]]:
    """Give the rules that a ledger's new metadata breaks, and how.

    ``deleted``: a person has ordered its deletion, or its creator gave it up before it had it.
    """
    ledger, after = event.ledger, event.metadata
    if after is None:
        if before is not None and not deleted:
            yield "I6", f"ledger {ledger} was deleted, and nobody wanted that"
        return
    if not _well_formed(after):
        yield "I10", f"ledger {ledger}: {after.fragments}"
    rule, why = ("I8", "committed") if after.is_closed else ("I5", "confirmed")
    yield from lacking(rule, why, ledger, after, EntryId(0), event.copies)
    if before is None:
        return
    if _fixed(before) != _fixed(after):
        yield "I6", f"ledger {ledger} was {_fixed(before)}, then {_fixed(after)}"
    if _ORDER.index(after.state) < _ORDER.index(before.state):
        yield "I6", f"ledger {ledger} was {before.state.value}, then {after.state.value}"
    if before.is_closed:
        if _end(before) != _end(after):
            yield "I6", f"ledger {ledger} is closed: it was {_end(before)}, then {_end(after)}"
    elif not after.is_closed:
        # Of what lies before them, finished fragments may be repaired: copies are counted above.
        for entry in map(EntryId, range(after.last_fragment.first_entry, acked + 1)):
            was, now = before.fragment_of(entry).ensemble, after.fragment_of(entry).ensemble
            if was != now:
                yield "I6", f"ledger {ledger}: {entry} was acked by {was}, and now {now} has it"
                return


def lacking(
    rule: str,
    what: str,
    ledger: LedgerId,
    metadata: LedgerMetadata,
    first: EntryId,
    copies: Sequence[int],
) -> Iterator[tuple[str, str]]:
    """Say of which entries an ack quorum has no copy where metadata shows them."""
    for entry, number in enumerate(copies, first):
        if number < metadata.ack_quorum:
            yield (
                rule,
                f"ledger {ledger}: entry {entry} was {what} with {number} copies where "
                f"metadata shows it, {metadata.ack_quorum} are needed",
            )


def _well_formed(metadata: LedgerMetadata) -> bool:
    firsts = [fragment.first_entry for fragment in metadata.fragments]
    return (
        firsts[0] == 0
        and all(a < b for a, b in pairwise(firsts))
        and all(
            len(set(fragment.ensemble)) == metadata.ensemble_size for fragment in metadata.fragments
        )
        and (not metadata.is_closed or firsts[-1] <= metadata.last_entry + 1)
    )


def _fixed(metadata: LedgerMetadata) -> tuple[object, ...]:
    """Give what never changes of a ledger."""
    return (
        metadata.ensemble_size,
        metadata.write_quorum,
        metadata.ack_quorum,
        metadata.digest,
        metadata.password,
        metadata.custom,
        metadata.created_ms,
        metadata.create_token,
    )


def _end(metadata: LedgerMetadata) -> tuple[object, ...]:
    """Give what never changes of a closed ledger, beside that."""
    return (
        metadata.state.value,
        metadata.last_entry,
        metadata.length,
        [fragment.first_entry for fragment in metadata.fragments],
    )
