"""Find the ledgers of a log whose record was lost, from what their openings say. Pure.

Each chained ledger that has an entry was in the record once, because a writer adds a ledger before
its first write. (A manifest ledger is the exception: see below.) It either is still a part of the
log, or it was dropped. Its opening names the ledger before it, with the entry at which that one
ends. From that follows:

- A ledger whose predecessor ended elsewhere was dropped, and so was each ledger behind it. The same
  holds where the predecessor is there and has no entry.
- Two ledgers may continue one predecessor at the same entry. Then the one of the later epoch, and
  of the same epoch the one of the higher id, came later. Its writer had dropped the other one,
  which was empty for it. So the log ends at the ledger with the highest epoch and id of all that
  hang together.
- A predecessor that is not there any more was trimmed, if nothing is left from before it. The log
  then begins behind it. If something is left, a ledger was lost, or ledgers that were dropped were
  deleted in part. That cannot be told from openings, so nothing is guessed: a person decides.

A *manifest* ledger is chained like others, and is added when it is whole: one compare-and-set
brings in the ledger and its attempts. So there may be one that is whole, and was never in the
record, because its publisher died or lost the log. Nothing tells it from the last batch of the log,
which was told to a query as published, and perhaps read. So it counts like any other chained
ledger: if it continues the log, and nothing of a later epoch or a higher id does. What was told is
kept so. Then the rebuilt record has the batch as published, and the query's repetition of it is
discarded: the batch is in the log once all the same. A manifest ledger without its manifest as the
last entry was never in a record, and never counts. Of two whole ones of one batch and one epoch,
the later counts.

Attempts count by the manifest that names them, with the end that it names, and never by themselves.
If the log begins in their batch, the first of them may be trimmed. Any other that is missing, or
ends otherwise, is damage.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from zonekeeper.log.base.errors import LogDamaged
from zonekeeper.log.formats.manifests import Manifest
from zonekeeper.log.formats.openings import AttemptOpening, ChainedOpening, ManifestOpening
from zonekeeper.placement.base.ids import EntryId, LedgerId


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundLedger:
    """A closed ledger with an entry, whose opening names the log, and that may count."""

    id: LedgerId
    last_entry: EntryId
    opening: ChainedOpening | ManifestOpening
    #: What the last entry says, in a manifest ledger; None in others.
    manifest: Manifest | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundAttempt:
    """A closed attempt of a batch, whose opening names the log."""

    id: LedgerId
    last_entry: EntryId
    opening: AttemptOpening


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


def attempts(
    one: FoundLedger, found: Mapping[LedgerId, FoundAttempt], *, is_first: bool
) -> tuple[FoundAttempt, ...]:
    """Give the attempts of a ledger that are left, in order; raises ``LogDamaged``.

    ``is_first``: is the ledger the first chained one that is left of the log?
    """
    if one.manifest is None:
        return ()
    left: list[FoundAttempt] = []
    for named in one.manifest.attempts:
        attempt = found.get(named.ledger)
        if attempt is None:
            if left or not is_first:
                raise LogDamaged(
                    f"ledger {named.ledger} is an attempt that the manifest in ledger {one.id} "
                    "names, and is gone: its messages are lost; nothing was changed; bring it "
                    "back, or rebuild without ledgers that are no part of the log"
                )
            continue
        of = (one.manifest.query, one.manifest.batch)
        if attempt.last_entry != named.last_entry or of != (
            attempt.opening.query,
            attempt.opening.batch,
        ):
            raise LogDamaged(
                f"ledger {named.ledger} ends at entry {attempt.last_entry}, for batch "
                f"{attempt.opening.batch} of query {attempt.opening.query}; the manifest in ledger "
                f"{one.id} names entry {named.last_entry}, for batch {of[1]} of query {of[0]}; "
                "nothing was changed; look at both"
            )
        left.append(attempt)
    return tuple(left)


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
