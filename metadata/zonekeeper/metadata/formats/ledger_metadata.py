"""The metadata of a ledger, and the only ways in which it may change.

A ledger is a list of *fragments*. The entries of a fragment, from its first entry to the next
fragment, are on the bookies of its ensemble. Invariants of every value:

* There is at least one fragment. The first one starts at entry 0, and their first entries ascend.
* Each ensemble has exactly ``ensemble_size`` distinct bookies, and ``1 <= ack_quorum <=
  write_quorum <= ensemble_size``.
* Only a closed ledger has an end. Its last fragment has ``first_entry <= last_entry + 1``.

The state changes in one direction: OPEN, IN_RECOVERY (a reader takes the ledger from its writer),
CLOSED. The end of a closed ledger never changes again. Its fragments change in one way only: one
replica replaces another. ``check_update`` refuses any other change, whatever code computed it.

Apache drops the create token when it rewrites a ledger. Here the token stays. It tells a creator
that did not get an answer that the ledger is its own, even after another client has changed it.
"""

import dataclasses
import enum
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from zonekeeper.placement.base.digests import Digest
from zonekeeper.placement.base.hidden import Secret
from zonekeeper.placement.base.ids import NO_ENTRY, BookieId, EntryId
from zonekeeper.placement.base.troubles import Trouble

#: The key of custom metadata that names the ledger's owner. A release that does not know it keeps
#: it, because it keeps all custom metadata.
OWNER_KEY: Final = "zonekeeper.owner"
#: What an owner that is no text of a principal is read as: nobody is that.
_UNREADABLE: Final = "?"


class LedgerState(enum.Enum):
    """The state of a ledger: its end may be changed by its writer, by a recovery, or not at all."""

    OPEN = "OPEN"
    IN_RECOVERY = "IN_RECOVERY"
    CLOSED = "CLOSED"


class IllegalChangeError(Trouble):
    """A change that the rules of a ledger's life forbid; nothing was written."""


@dataclass(frozen=True, slots=True)
class Fragment:
    """The entries from ``first_entry`` to the next fragment, and the bookies that hold them."""

    first_entry: EntryId
    ensemble: tuple[BookieId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerMetadata:
    """The metadata of one ledger, as it is in the metadata store."""

    ensemble_size: int
    write_quorum: int
    ack_quorum: int
    fragments: tuple[Fragment, ...]
    digest: Digest
    #: A ``Secret``, whatever it is given as: a log line or an error may hold a ledger's metadata.
    password: bytes = dataclasses.field(repr=False)
    state: LedgerState = LedgerState.OPEN
    #: The last entry and the number of payload bytes of a closed ledger; no other has them.
    last_entry: EntryId = NO_ENTRY
    length: int = 0
    #: Wall time of the creation; None if the creator did not give it.
    created_ms: int | None = None
    #: Keys and values in their stored order; no key occurs twice.
    custom: tuple[tuple[str, bytes], ...] = ()
    #: A random number by which the creator recognises its ledger; 0 if there is none.
    create_token: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "password", Secret(self.password))
        if problem := _problem(self):
            raise ValueError(problem)

    @property
    def is_closed(self) -> bool:
        """Is the ledger's end known for good?"""
        return self.state is LedgerState.CLOSED

    @property
    def last_fragment(self) -> Fragment:
        """Give the fragment in which the ledger ends, or grows."""
        return self.fragments[-1]

    @property
    def bookies(self) -> frozenset[BookieId]:
        """Every bookie that is named by at least one fragment."""
        return frozenset(b for fragment in self.fragments for b in fragment.ensemble)

    def fragment_of(self, entry_id: EntryId) -> Fragment:
        """Give the fragment that holds an entry."""
        return next(f for f in reversed(self.fragments) if f.first_entry <= entry_id)

    @property
    def owner(self) -> str:
        """The principal that the ledger belongs to, as role/name; "": it has no owner.

        A value that is no plain text names nobody, and the ledger is nobody's: it is not open.
        """
        raw = self.custom_value(OWNER_KEY)
        if raw is None:
            return ""
        text = raw.decode("ascii", errors="replace")
        return text if text.isascii() and text.isprintable() and text else _UNREADABLE

    def custom_value(self, key: str) -> bytes | None:
        """Give the value that an application stored with the ledger under a key."""
        return dict(self.custom).get(key)


def _problem(ledger: LedgerMetadata) -> str | None:
    """Say which invariant a value breaks; None if it breaks none."""
    sizes = (ledger.ensemble_size, ledger.write_quorum, ledger.ack_quorum)
    firsts = [fragment.first_entry for fragment in ledger.fragments]
    checks = {
        f"quorums {sizes} are not ensemble >= write >= ack >= 1": sizes[0] >= sizes[1] >= sizes[2]
        and sizes[2] >= 1,
        "there is no fragment": bool(firsts),
        "the first fragment does not start at entry 0": firsts[:1] == [0],
        "fragments do not ascend": all(a < b for a, b in pairwise(firsts)),
        f"an ensemble does not have {sizes[0]} distinct bookies": all(
            len(set(f.ensemble)) == len(f.ensemble) == sizes[0] for f in ledger.fragments
        ),
        "a custom key stands twice": len(dict(ledger.custom)) == len(ledger.custom),
        "a number is negative": ledger.length >= 0 and ledger.create_token >= 0,
        "the end lies before -1": ledger.last_entry >= NO_ENTRY,
        "only a closed ledger has an end": ledger.is_closed
        or (ledger.last_entry == NO_ENTRY and ledger.length == 0),
        "the last fragment starts past the end": not ledger.is_closed
        or all(first <= ledger.last_entry + 1 for first in firsts),
    }
    return next((problem for problem, holds in checks.items() if not holds), None)


# ── the ways in which a ledger changes ──


def taken_for_recovery(ledger: LedgerMetadata) -> LedgerMetadata:
    """Take an open ledger from its writer; a second recovery may join one under way."""
    if ledger.is_closed:
        raise IllegalChangeError("a closed ledger cannot go back into recovery")
    return dataclasses.replace(ledger, state=LedgerState.IN_RECOVERY)


def closed(
    ledger: LedgerMetadata,
    *,
    last_entry: EntryId,
    length: int,
    fragments: tuple[Fragment, ...] | None = None,
) -> LedgerMetadata:
    """Close a ledger, with the fragments that a recovery has not published until now."""
    after = dataclasses.replace(
        ledger,
        state=LedgerState.CLOSED,
        last_entry=last_entry,
        length=length,
        fragments=ledger.fragments if fragments is None else fragments,
    )
    check_update(ledger, after)
    return after


def ensemble_changed(
    ledger: LedgerMetadata, first_entry: EntryId, ensemble: tuple[BookieId, ...]
) -> LedgerMetadata:
    """Continue an open ledger with another ensemble, from an entry on.

    If the last fragment starts at this entry too, it is replaced: no entry of it was confirmed.
    """
    if ledger.state is not LedgerState.OPEN:
        raise IllegalChangeError(f"a ledger that is {ledger.state.value} gets no new ensemble")
    after = dataclasses.replace(
        ledger, fragments=grown(ledger.fragments, Fragment(first_entry, ensemble))
    )
    check_update(ledger, after)
    return after


def grown(fragments: tuple[Fragment, ...], newest: Fragment) -> tuple[Fragment, ...]:
    """Append a fragment, or replace the last one if it would start at the same entry."""
    if newest.first_entry < fragments[-1].first_entry:
        raise IllegalChangeError(
            f"a fragment from {newest.first_entry} would start before "
            f"the last one, from {fragments[-1].first_entry}"
        )
    kept = fragments[:-1] if newest.first_entry == fragments[-1].first_entry else fragments
    return (*kept, newest)


def replicas_replaced(
    ledger: LedgerMetadata, first_entry: EntryId, new_by_old: Mapping[BookieId, BookieId]
) -> LedgerMetadata:
    """Replace lost replicas in one fragment by repaired ones.

    A bookie that the fragment no longer names was already replaced, and is ignored. Only a fragment
    that cannot grow any more may be repaired: any fragment of a closed ledger, and all fragments
    but the last of another ledger.
    """
    index = next((i for i, f in enumerate(ledger.fragments) if f.first_entry == first_entry), None)
    if index is None:
        raise IllegalChangeError(f"no fragment starts at entry {first_entry}")
    if not ledger.is_closed and index == len(ledger.fragments) - 1:
        raise IllegalChangeError(f"the fragment from entry {first_entry} can still grow")
    old = ledger.fragments[index]
    new = Fragment(first_entry, tuple(new_by_old.get(b, b) for b in old.ensemble))
    fragments = (*ledger.fragments[:index], new, *ledger.fragments[index + 1 :])
    try:
        after = dataclasses.replace(ledger, fragments=fragments)
    except ValueError as error:
        raise IllegalChangeError(str(error)) from error
    check_update(ledger, after)
    return after


_FIXED = ("ensemble_size", "write_quorum", "ack_quorum", "digest", "password", "create_token")
_NEXT_STATES = {
    LedgerState.OPEN: frozenset(LedgerState),
    LedgerState.IN_RECOVERY: frozenset({LedgerState.IN_RECOVERY, LedgerState.CLOSED}),
    LedgerState.CLOSED: frozenset({LedgerState.CLOSED}),
}


def check_update(before: LedgerMetadata, after: LedgerMetadata) -> None:
    """Refuse a change that is not one of the allowed ways."""
    for name in _FIXED:
        if getattr(before, name) != getattr(after, name):
            raise IllegalChangeError(f"{name} of a ledger never changes")
    if before.custom_value(OWNER_KEY) != after.custom_value(OWNER_KEY):
        raise IllegalChangeError("the owner of a ledger never changes")
    if after.state not in _NEXT_STATES[before.state]:
        raise IllegalChangeError(f"{before.state.value} does not become {after.state.value}")
    firsts_before = [f.first_entry for f in before.fragments]
    firsts_after = [f.first_entry for f in after.fragments]
    if firsts_after[: len(firsts_before)] != firsts_before:
        raise IllegalChangeError("fragments were removed or moved")
    if before.is_closed:
        if (before.last_entry, before.length) != (after.last_entry, after.length):
            raise IllegalChangeError("the end of a closed ledger never changes")
        if firsts_after != firsts_before:
            raise IllegalChangeError("a closed ledger gets no new fragment")
    stays_in_recovery = before.state is after.state is LedgerState.IN_RECOVERY
    if stays_in_recovery and (
        firsts_after != firsts_before or before.last_fragment != after.last_fragment
    ):
        raise IllegalChangeError(
            "a recovery publishes new ensembles only when it closes the ledger"
        )
