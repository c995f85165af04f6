"""What the auditor does about each look, and about each listing: the decisions, without a store.

A bookie is *lost* when it has a cookie and is not registered. It is *forgetful* when it is
registered, and its disk lacks entries that it once acknowledged. The gate says what may be
published of both (``losses.what_holds_publishing``); this machine never waits for the gate. For
each bookie that may be published::

    uncovered ── a listing that began since ends ──► covered ── no ledger named it ──► written off
        ▲                                               │
        └──────────── none of its marks is left ────────┘

- A listing *covers* a bookie if the bookie could be published from the listing's begin to its end,
  and none of its ledgers was passed over. Publishing is the listing's work. Covering proves that no
  ledger was left out, and is the only ground for writing off. A ledger that cannot be read may name
  any bookie: then no bookie is written off.
- A forgetful bookie keeps its place in ensembles: replicators restore its copies where they are.
  When none of its marks is left, or no ledger named it, it has all entries again, and is told so.
  It is forgetful again if it says so at another start.
- A bookie that is held again, or is back, loses its cover, and begins again as uncovered.
- When a bookie is back, its written-off mark is taken back, and the marks made for its loss are
  looked at. Marks that an earlier auditor made are left to the replicators: such a mark may also
  mean that the copy was found bad. Replicators look at every copy of a registered bookie.

One listing runs at a time, and serves all jobs that asked for one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias, assert_never

from zonekeeper.placement.base.ids import BookieId

# ── what happens ──


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """The bookies as they are now."""

    present: frozenset[BookieId]
    lost: frozenset[BookieId]
    #: Those of the lost and of the forgetful whose ledgers may be published now.
    publishable: frozenset[BookieId]
    written_off: frozenset[BookieId]
    #: Those of the present that lost data, and the boot epoch in which they said so.
    forgetful: Mapping[BookieId, int] = field(default_factory=dict)

    @property
    def lacking(self) -> frozenset[BookieId]:
        """The bookies whose copies cannot be counted on."""
        return self.lost | self.forgetful.keys()


@dataclass(frozen=True, slots=True)
class ListingAsked:
    """A listing is due, or was asked for."""


@dataclass(frozen=True, slots=True)
class ListingBegan:
    """A listing began; only after ``BeginListing``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListingEnded:
    """The listing that began is at its end."""

    #: How many ledgers named each bookie.
    named: Mapping[BookieId, int]
    #: Bookies of which a ledger was passed over, as they were held just then.
    passed_over: frozenset[BookieId] = frozenset()
    #: Some ledger could not be read, and may name any bookie.
    unreadable: bool = False


@dataclass(frozen=True, slots=True)
class MarksGone:
    """None of the ledgers that were published for a bookie is marked any more."""

    bookie: BookieId


Event: TypeAlias = Looked | ListingAsked | ListingBegan | ListingEnded | MarksGone


# ── what is done about it ──


@dataclass(frozen=True, slots=True)
class BeginListing:
    """List all ledgers, and publish those of every bookie that may be published."""


@dataclass(frozen=True, slots=True)
class WriteOff:
    """Say that all that a lost bookie held is elsewhere."""

    bookie: BookieId


@dataclass(frozen=True, slots=True)
class TakeBack:
    """Say that a written-off bookie counts again."""

    bookie: BookieId


@dataclass(frozen=True, slots=True)
class Unmark:
    """Take bookies that came back off the marks of ledgers that they have whole."""

    bookies: frozenset[BookieId]


@dataclass(frozen=True, slots=True)
class Remembers:
    """Say that a bookie that lost data, as it said in this boot epoch, has all again."""

    bookie: BookieId
    boot_epoch: int


Effect: TypeAlias = BeginListing | WriteOff | TakeBack | Unmark | Remembers


# ── deciding ──


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """What the auditor remembers. It begins with nothing."""

    #: The last look; None: there was none.
    looked: Looked | None = None
    #: The lost bookies that could be published at some time since they are lost.
    published: frozenset[BookieId] = frozenset()
    #: By how many ledgers each covered bookie was named.
    covered: Mapping[BookieId, int] = field(default_factory=dict)
    #: The covered bookies that an unreadable ledger may name, too.
    doubtful: frozenset[BookieId] = frozenset()
    #: The bookies that the running listing may cover; None: no listing runs.
    covering: frozenset[BookieId] | None = None
    #: A listing was asked for since the last one began.
    asked: bool = False
    #: ``BeginListing`` was given, and it has not begun.
    beginning: bool = False

    @property
    def awaited(self) -> frozenset[BookieId]:
        """The bookies whose marks are waited for: ``MarksGone`` ends it."""
        return frozenset(bookie for bookie, named in self.covered.items() if named)


def handle(audit: Audit, event: Event) -> tuple[Audit, tuple[Effect, ...]]:
    """Give what is remembered after an event, and what to do about it."""
    effects: tuple[Effect, ...] = ()
    match event:
        case Looked():
            effects = _returned(audit, event)
            audit = _looked(audit, event)
        case ListingAsked():
            audit = replace(audit, asked=True)
        case ListingBegan():
            assert audit.looked is not None, "a listing begins after a look"
            audit = replace(audit, covering=audit.looked.publishable, asked=False, beginning=False)
        case ListingEnded():
            audit, effects = _listed(audit, event)
        case MarksGone(bookie):
            audit, effects = _without_marks(audit, bookie)
        case _:
            assert_never(event)
    if _wants_listing(audit):
        return replace(audit, beginning=True), (*effects, BeginListing())
    return audit, effects


def _looked(audit: Audit, look: Looked) -> Audit:
    before = {} if audit.looked is None else audit.looked.forgetful
    steady = frozenset(
        one for one in look.publishable if before.get(one) == look.forgetful.get(one)
    )
    covered = {name: count for name, count in audit.covered.items() if name in steady}
    covering = None if audit.covering is None else audit.covering & steady
    published = (audit.published | look.publishable) & look.lost
    return replace(audit, looked=look, published=published, covered=covered, covering=covering)


def _without_marks(audit: Audit, bookie: BookieId) -> tuple[Audit, tuple[Effect, ...]]:
    assert audit.looked is not None
    covered = dict(audit.covered)
    covered.pop(bookie, None)
    boot_epoch = audit.looked.forgetful.get(bookie)
    if boot_epoch is None or bookie not in audit.covered:
        return replace(audit, covered=covered), ()
    # Its ledgers go on to name it: another listing would find them all again.
    audit = replace(audit, covered={**covered, bookie: 0})
    return audit, () if bookie in audit.doubtful else (Remembers(bookie, boot_epoch),)


def _returned(audit: Audit, look: Looked) -> tuple[Effect, ...]:
    returned = audit.published & look.present
    takes_back = tuple(TakeBack(bookie) for bookie in sorted(look.written_off & look.present))
    return (*takes_back, Unmark(returned)) if returned else takes_back


def _listed(audit: Audit, ended: ListingEnded) -> tuple[Audit, tuple[Effect, ...]]:
    assert audit.covering is not None, "a listing ends once"
    assert audit.looked is not None
    fresh = {one: ended.named.get(one, 0) for one in sorted(audit.covering - ended.passed_over)}
    dealt_with = [] if ended.unreadable else [one for one, named in fresh.items() if not named]
    written_off, forgetful = audit.looked.written_off, audit.looked.forgetful
    doubtful = audit.doubtful - fresh.keys() | (fresh.keys() if ended.unreadable else frozenset())
    audit = replace(audit, covered={**audit.covered, **fresh}, covering=None, doubtful=doubtful)
    effects: list[Effect] = []
    for one in dealt_with:
        if one in forgetful:
            effects.append(Remembers(one, forgetful[one]))
        elif one not in written_off:
            effects.append(WriteOff(one))
    return audit, tuple(effects)


def _wants_listing(audit: Audit) -> bool:
    if audit.looked is None or audit.covering is not None or audit.beginning:
        return False
    return audit.asked or not audit.looked.publishable <= audit.covered.keys()
