"""Find the ledgers of a log whose record was lost, from what their openings say. Pure.

Each chained ledger that has an entry was in the record once, because a writer adds a ledger before
its first write. It either is still a part of the log, or it was dropped. Its opening names the
ledger before it, with the entry at which that one ends. From that follows:

- A ledger whose predecessor ended elsewhere was dropped, and so was each ledger behind it. The same
  holds where the predecessor is there and has no entry.
- Two ledgers may continue one predecessor at the same entry. Then the one of the later epoch, and
  of the same epoch the one of the higher id, came later. Its writer had dropped the other one,
  which was empty for it. So the log ends at the ledger with the highest epoch and id of all that
  hang together.
- A predecessor that is not there any more was trimmed, if nothing is left from before it. The log
  then begins behind it. If something is left, a ledger was lost, or ledgers that were dropped were
  deleted in part. That cannot be told from openings, so nothing is guessed: a person decides.

A *manifest* is a chained ledger like any other, and is added to the record before its first entry,
too. So a manifest whose compare-and-set never landed has no entry, and does not count. A manifest
that has its opening counts, if it continues the ledger before it, whatever answer its writer got.
Attempts count by the manifests that name them, and never by themselves.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from zonekeeper.log.base.errors import LogDamaged
from zonekeeper.log.formats.openings import ChainedOpening
from zonekeeper.placement.base.ids import EntryId, LedgerId


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundLedger:
    """A closed ledger with an entry, whose opening names the log."""

    id: LedgerId
    last_entry: EntryId
    opening: ChainedOpening


def chain(found: Iterable[FoundLedger], absent: Collection[LedgerId]) -> tuple[FoundLedger, ...]:
    """Give the ledgers of the log in order; raises ``LogDamaged`` if that needs a guess.

    ``absent`` are those of the predecessors that the root has no more.
    """
    by_id = {one.id: one for one in found}
    begins: dict[LedgerId, LedgerId | None] = {}
    for ledger_id in sorted(by_id):
        one = by_id[ledger_id]
        before = one.opening.before
        if before is None:
            begins[ledger_id] = None
        elif before.ledger in begins:
            if _continues(by_id[before.ledger], one):
                begins[ledger_id] = begins[before.ledger]
        elif before.ledger in absent:
            begins[ledger_id] = before.ledger
    lost = {missing for missing in begins.values() if missing is not None}
    if len(set(begins.values())) > 1:
        raise LogDamaged(_in_words(by_id, begins, lost))
    if not begins:
        return ()
    at: FoundLedger | None = max(
        (by_id[ledger_id] for ledger_id in begins), key=lambda one: (one.opening.epoch, one.id)
    )
    ledgers: list[FoundLedger] = []
    while at is not None:
        ledgers.append(at)
        before = at.opening.before
        at = None if before is None else by_id.get(before.ledger)
    return tuple(reversed(ledgers))


def _continues(before: FoundLedger, one: FoundLedger) -> bool:
    assert one.opening.before is not None
    return (
        one.opening.before.last_entry == before.last_entry
        and one.opening.epoch >= before.opening.epoch
    )


def _in_words(
    by_id: Mapping[LedgerId, FoundLedger],
    begins: Mapping[LedgerId, LedgerId | None],
    lost: Collection[LedgerId],
) -> str:
    parts = []
    for missing in sorted(lost):
        behind = sorted(one for one, begin in begins.items() if begin == missing)
        named = ", ".join(f"{one} (from message {by_id[one].opening.sequence})" for one in behind)
        parts.append(f"ledger {missing} is gone, and behind it come ledgers {named}")
    whole = sorted(one for one, begin in begins.items() if begin is None)
    if whole:
        parts.append(f"ledgers {', '.join(map(str, whole))} hang together from the beginning on")
    return (
        f"{'; '.join(parts)}: whether a ledger was lost, or some were dropped, cannot be told; "
        "nothing was changed; bring the lost ledger back, or rebuild without those that are no "
        "part of the log"
    )
