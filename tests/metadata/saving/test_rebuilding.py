"""Metadata from hints: what is sure loses nothing, what is a guess is never written."""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.metadata.hinting import LEDGER, PASSWORDS, QUORUMS, A, B, C, D, E, F, hints, opened
from zonekeeper.metadata.formats import ledger_format, placement_stamp
from zonekeeper.metadata.formats.ledger_metadata import Fragment, LedgerState
from zonekeeper.metadata.saving import rebuilding
from zonekeeper.metadata.saving.rebuilding import RebuildVerdict, Rebuilt
from zonekeeper.metadata.saving.rebuilding_format import LedgerHints
from zonekeeper.placement.base.digests import Digest
from zonekeeper.placement.base.ids import BookieId, EntryId
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.wire.formats import digests


def rebuilt(
    told: dict[BookieId, LedgerHints],
    *,
    silent: Iterable[BookieId] = (),
    known: Iterable[BookieId] = (),
) -> Rebuilt:
    """Rebuild from what some told; ``silent`` gave hints, and know nothing of the ledger."""
    return rebuilding.rebuild(
        LEDGER, told, reporters={*told, *silent}, known=frozenset(known), passwords=PASSWORDS
    )


def fragments_of(found: Rebuilt) -> list[tuple[int, tuple[BookieId, ...]]]:
    assert found.metadata is not None
    return [(part.first_entry, part.ensemble) for part in found.metadata.fragments]


# ── what is certain ──


def test_the_keys_of_passwords_are_those_that_bookies_are_shown() -> None:
    assert rebuilding.keys_of([b"", b"secret"]) == {
        digests.master_key(b""): b"",
        digests.master_key(b"secret"): b"secret",
    }


def test_a_ledger_that_all_tell_alike_is_sure_and_waits_for_recovery() -> None:
    first = opened(0, A, B, C)

    found = rebuilt({A: hints(first, last=9, lac=8), B: hints(first, last=8), C: hints(first)})

    assert found.verdict is RebuildVerdict.SURE
    assert (found.lac, found.highest) == (8, 9)
    metadata = found.metadata
    assert metadata is not None
    assert metadata.state is LedgerState.IN_RECOVERY
    assert metadata.fragments == (Fragment(EntryId(0), (A, B, C)),)
    assert (metadata.password, metadata.digest) == (b"secret", Digest.CRC32C)
    assert placement_stamp.promised(metadata) == QUORUMS
    assert metadata.create_token > 0
    assert ledger_format.parse(ledger_format.render(metadata)) == metadata


def test_a_ledger_keeps_the_create_token_that_bookies_know_it_by() -> None:
    """By another one they would take it for another ledger, and no recovery could fence it."""
    first = opened(0, A, B, C)

    found = rebuilt(
        {
            A: replace(hints(first, last=9), create_token=41),
            B: hints(first, last=8),
            C: hints(first),
        }
    )

    assert found.metadata is not None
    assert found.metadata.create_token == 41


def test_hints_of_several_ledgers_with_one_id_are_no_ledger() -> None:
    first = opened(0, A, B, C)

    found = rebuilt(
        {A: replace(hints(first), create_token=41), B: replace(hints(first), create_token=42)}
    )

    assert found.verdict is RebuildVerdict.BLOCKED
    assert "different create tokens" in found.blocked[0]


def test_a_change_of_the_ensemble_is_known_to_the_newcomer_alone() -> None:
    first, second = opened(0, A, B, C), opened(5, A, B, D)

    found = rebuilt(
        {
            A: hints(first, last=9),
            B: hints(first, last=9),
            C: hints(first, last=4),
            D: hints(second, last=9),
        }
    )

    assert found.verdict is RebuildVerdict.SURE
    assert fragments_of(found) == [(0, (A, B, C)), (5, (A, B, D))]


def test_who_was_replaced_may_have_more_where_nobody_can_have_recovered() -> None:
    first, second = opened(0, A, B, C), opened(5, A, B, D)
    told = {A: hints(first, last=9), C: hints(first, last=6), D: hints(second, last=9)}

    assert rebuilt({**told, B: hints(first, last=9)}).verdict is RebuildVerdict.SURE
    fenced = rebuilt({**told, B: hints(first, last=9, fenced=True)})
    assert fenced.verdict is RebuildVerdict.SURE, "two of three are not fenced"
    told[A] = hints(first, last=9, fenced=True)
    found = rebuilt({**told, B: hints(first, last=9, fenced=True)})
    assert found.verdict is RebuildVerdict.DOUBTFUL
    assert "the ledger may have been recovered" in found.doubts[0]
    assert "bk-c may hold" in found.doubts[0]


# ── what is doubtful ──


def test_a_bookie_that_gave_no_hints_makes_a_ledger_doubtful() -> None:
    first = opened(0, A, B, C)
    told = {A: hints(first, last=9), B: hints(first, last=9)}

    named = rebuilt(told)
    assert named.verdict is RebuildVerdict.DOUBTFUL
    assert "bk-c gave no hints" in named.doubts[0]
    assert rebuilt(told, silent=[C]).verdict is RebuildVerdict.SURE
    assert "bk-f gave no hints" in rebuilt(told, silent=[C], known=[F]).doubts[0]


def test_two_ensembles_from_one_entry_are_settled_by_who_holds_something() -> None:
    one, other = opened(0, A, B, C), opened(0, A, B, D)
    told = {A: hints(one, last=4), B: hints(one, last=4), D: hints(other, last=4)}

    settled = rebuilt({**told, C: hints(one)})
    assert settled.verdict is RebuildVerdict.SURE
    assert fragments_of(settled) == [(0, (A, B, D))]
    assert any(
        "not bk-a, bk-b, bk-c, which the hints of bk-a, bk-b, bk-c name" in x
        for x in settled.inferred
    )

    found = rebuilt({**told, C: hints(one, last=0)})
    assert found.verdict is RebuildVerdict.DOUBTFUL
    assert "more than one ensemble was named from entry 0 on" in found.doubts[0]


def test_a_bookie_that_lost_its_disk_may_have_known_of_more() -> None:
    first = opened(0, A, B, C)

    found = rebuilt({A: hints(first), B: hints(first), C: hints(first), D: hints(limbo=True)})

    assert found.verdict is RebuildVerdict.DOUBTFUL
    assert "bk-d lost data of it (limbo)" in found.doubts[0]


# ── what is a guess ──


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        ({A: hints(last=3)}, "no bookie has a hint of a fragment"),
        ({A: hints(opened(5, A, B, C))}, "no hint has its first fragment"),
        ({A: hints(opened(0, A, B, C), key=b"?" * 20)}, "none of the passwords"),
        ({A: hints(opened(0, A, B, C), key=None)}, "none of the passwords"),
        (
            {A: hints(opened(0, A, B, C)), B: hints(opened(0, A, B, C), key=b"?" * 20)},
            "different master keys: bk-a, bk-b",
        ),
        (
            {
                A: hints(opened(0, A, B, C)),
                B: hints(opened(0, A, B, C, digest=Digest.HMAC)),
            },
            "different digests: bk-a CRC32C; bk-b HMAC",
        ),
        (
            {
                A: hints(opened(0, A, B, C)),
                B: hints(opened(0, A, B, C, quorums=Quorums(ensemble=3, write=3, ack=3))),
            },
            "different quorums: bk-a 3/3/2; bk-b 3/3/3",
        ),
        ({A: hints(opened(0, A, A, C))}, "names a bookie twice"),
    ],
    ids=["no fragment", "no first", "password", "no key", "keys", "digests", "quorums", "twice"],
)
def test_what_would_be_a_guess_is_blocked(told: dict[BookieId, LedgerHints], reason: str) -> None:
    found = rebuilt(told, silent=[A, B, C])

    assert found.verdict is RebuildVerdict.BLOCKED
    assert found.metadata is None
    assert reason in " ".join(found.blocked)


def test_the_order_in_which_bookies_are_heard_changes_nothing() -> None:
    one, other = opened(0, A, B, C), opened(0, A, B, D)
    told = {A: hints(one, last=4), B: hints(other, last=4), C: hints(one), D: hints(other)}

    found = {str(rebuilt(dict(order))) for order in (told.items(), reversed(told.items()))}

    assert len(found) == 1


# ── what is sure loses nothing: ledgers' whole lives ──


@dataclass
class Life:
    """One ledger on some bookies: its writer, then recoveries, some of which die."""

    chance: random.Random
    entries: int = 0
    acked: int = -1
    #: What is published: first entries and ensembles.
    published: list[tuple[int, tuple[BookieId, ...]]] = field(
        default_factory=lambda: [(0, (A, B, C))]
    )
    held: dict[BookieId, set[int]] = field(default_factory=dict)
    told: dict[BookieId, dict[int, tuple[BookieId, ...]]] = field(default_factory=dict)
    fenced: set[BookieId] = field(default_factory=set)

    def open(self, first: int, ensemble: tuple[BookieId, ...], who: Iterable[BookieId]) -> None:
        for bookie in who:
            self.told.setdefault(bookie, {})[first] = ensemble

    def keep(self, bookies: Sequence[BookieId], entry: int) -> int:
        """Some of them get it onto their disks; say how many."""
        got = [b for b in bookies if self.chance.random() < 0.8]
        for bookie in got:
            self.held.setdefault(bookie, set()).add(entry)
        return len(got)

    def write(self, count: int) -> None:
        _, ensemble = self.published[-1]
        free = [b for b in ensemble if b not in self.fenced]
        for _ in range(count):
            self.keep(free, self.entries)
            self.entries += 1
            self.confirm(ensemble)

    def confirm(self, ensemble: tuple[BookieId, ...]) -> None:
        while self.acked + 1 < self.entries:
            holders = sum(self.acked + 1 in self.held.get(b, ()) for b in ensemble)
            if holders < QUORUMS.ack:
                return
            self.acked += 1

    def change(self) -> None:
        """The writer replaces a member; the newcomer gets what is not confirmed."""
        ensemble = list(self.published[-1][1])
        newcomer = self.newcomer(ensemble)
        ensemble[self.chance.randrange(3)] = newcomer
        first = self.acked + 1
        if first <= self.published[-1][0]:
            self.published.pop()
            first = max(first, self.published[-1][0] + 1) if self.published else 0
        self.published.append((first, tuple(ensemble)))
        self.open(first, tuple(ensemble), [newcomer])
        for entry in range(first, self.entries):
            self.keep([newcomer], entry)
        self.confirm(tuple(ensemble))

    def newcomer(self, ensemble: Sequence[BookieId]) -> BookieId:
        others = [b for b in (A, B, C, D, E, F) if b not in ensemble and b not in self.fenced]
        return self.chance.choice(others or [BookieId(f"bk-{len(self.told)}")])

    def dying_recovery(self) -> None:
        """Fence two of three, write some of the tail back with newcomers, and die."""
        ensemble = list(self.published[-1][1])
        start = max(self.published[-1][0], self.acked + 1 - self.chance.randrange(3))
        self.fenced.update(self.chance.sample(ensemble, 2))
        if self.chance.random() < 0.7:
            newcomer = self.newcomer(ensemble)
            ensemble[self.chance.randrange(3)] = newcomer
            self.open(start, tuple(ensemble), [newcomer])
            for entry in range(start, min(self.entries, start + self.chance.randrange(4))):
                if any(entry in self.held.get(b, ()) for b in ensemble):
                    self.keep(ensemble, entry)

    def hints(self) -> dict[BookieId, LedgerHints]:
        return {
            bookie: hints(
                *(opened(first, *ensemble) for first, ensemble in sorted(fragments.items())),
                last=max(self.held.get(bookie, ()), default=None),
                fenced=bookie in self.fenced,
            )
            for bookie, fragments in self.told.items()
        }


@settings(max_examples=1_500, deadline=None)
@given(st.integers(0, 1 << 40), st.integers(0, 4), st.integers(0, 2))
def test_recovering_what_is_sure_finds_every_acknowledged_entry(
    seed: int, changes: int, recoveries: int
) -> None:
    life = Life(random.Random(seed))
    life.open(0, (A, B, C), (A, B, C))
    life.write(life.chance.randrange(5))
    for _ in range(changes):
        life.change()
        life.write(life.chance.randrange(4))
    for _ in range(recoveries):
        life.dying_recovery()

    found = rebuilt(life.hints(), silent=(A, B, C, D, E, F))

    assert found.metadata is not None, "nothing was hidden"
    if found.verdict is not RebuildVerdict.SURE:
        return
    last = found.metadata.last_fragment
    for entry in range(last.first_entry, life.acked + 1):
        holders = sum(entry in life.held.get(b, ()) for b in last.ensemble)
        assert holders >= QUORUMS.ack, f"entry {entry} may be denied: {life}"
