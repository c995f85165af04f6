"""Metadata from hints: what is sure loses nothing, what is a guess is never written."""

import asyncio
import hashlib
import json
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st

from zonekeeper.metadata import cluster as clusters
from zonekeeper.metadata import (
    commands,
    cookie_store,
    cookies,
    ledger_format,
    ledger_ids,
    ledgers,
    placement_stamp,
    rebuilding,
    rebuilding_format,
    restored,
)
from zonekeeper.metadata.ledger_metadata import Fragment, LedgerState
from zonekeeper.metadata.malformed import UnreadableError
from zonekeeper.metadata.rebuilding import Rebuilt, Verdict
from zonekeeper.metadata.rebuilding_format import FragmentHint, Header, LedgerHints, Writer
from zonekeeper.metadata.stores.opening import open_store
from zonekeeper.placement.digests import Digest
from zonekeeper.placement.ids import BookieId, EntryId, LedgerId
from zonekeeper.placement.quorums import Quorums
from zonekeeper.wire import digests

INSTANCE = "d58c3de9-d9c6-429e-be20-474dcad4d089"
QUORUMS = Quorums(ensemble=3, write=3, ack=2, ack_zones=2)
PASSWORDS = rebuilding.keys_of((b"", b"secret"))
KEY = next(key for key, password in PASSWORDS.items() if password == b"secret")
A, B, C, D, E, F = (BookieId(f"bk-{name}") for name in "abcdef")
LEDGER = LedgerId(7)


def opened(
    first: int, *ensemble: BookieId, quorums: Quorums = QUORUMS, digest: Digest = Digest.CRC32C
) -> FragmentHint:
    return FragmentHint(
        first_entry=EntryId(first), ensemble=ensemble, quorums=quorums, digest=digest
    )


def hints(
    *fragments: FragmentHint,
    last: int | None = None,
    key: bytes | None = KEY,
    fenced: bool = False,
    limbo: bool = False,
    lac: int = -1,
    ledger_id: LedgerId = LEDGER,
) -> LedgerHints:
    return LedgerHints(
        ledger_id=ledger_id,
        master_key=key,
        fenced=fenced,
        in_limbo=limbo,
        lac=EntryId(lac),
        first_entry=None if last is None else EntryId(0),
        last_entry=None if last is None else EntryId(last),
        entries=0 if last is None else last + 1,
        fragments=fragments,
    )


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

    assert found.verdict is Verdict.SURE
    assert (found.lac, found.highest) == (8, 9)
    metadata = found.metadata
    assert metadata is not None
    assert metadata.state is LedgerState.IN_RECOVERY
    assert metadata.fragments == (Fragment(EntryId(0), (A, B, C)),)
    assert (metadata.password, metadata.digest) == (b"secret", Digest.CRC32C)
    assert placement_stamp.quorums(metadata) == QUORUMS
    assert metadata.create_token > 0
    assert ledger_format.parse(ledger_format.render(metadata)) == metadata


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

    assert found.verdict is Verdict.SURE
    assert fragments_of(found) == [(0, (A, B, C)), (5, (A, B, D))]


def test_who_was_replaced_may_have_more_where_nobody_can_have_recovered() -> None:
    first, second = opened(0, A, B, C), opened(5, A, B, D)
    told = {A: hints(first, last=9), C: hints(first, last=6), D: hints(second, last=9)}

    assert rebuilt({**told, B: hints(first, last=9)}).verdict is Verdict.SURE
    fenced = rebuilt({**told, B: hints(first, last=9, fenced=True)})
    assert fenced.verdict is Verdict.SURE, "two of three are not fenced"
    told[A] = hints(first, last=9, fenced=True)
    found = rebuilt({**told, B: hints(first, last=9, fenced=True)})
    assert found.verdict is Verdict.DOUBTFUL
    assert "the ledger may have been recovered" in found.doubts[0]
    assert "bk-c may hold" in found.doubts[0]


# ── what is doubtful ──


def test_a_bookie_that_gave_no_hints_makes_a_ledger_doubtful() -> None:
    first = opened(0, A, B, C)
    told = {A: hints(first, last=9), B: hints(first, last=9)}

    named = rebuilt(told)
    assert named.verdict is Verdict.DOUBTFUL
    assert "bk-c gave no hints" in named.doubts[0]
    assert rebuilt(told, silent=[C]).verdict is Verdict.SURE
    assert "bk-f gave no hints" in rebuilt(told, silent=[C], known=[F]).doubts[0]


def test_two_ensembles_from_one_entry_are_settled_by_who_holds_something() -> None:
    one, other = opened(0, A, B, C), opened(0, A, B, D)
    told = {A: hints(one, last=4), B: hints(one, last=4), D: hints(other, last=4)}

    settled = rebuilt({**told, C: hints(one)})
    assert settled.verdict is Verdict.SURE
    assert fragments_of(settled) == [(0, (A, B, D))]
    assert any("not bk-a, bk-b, bk-c, as bk-a, bk-b, bk-c was told" in x for x in settled.inferred)

    found = rebuilt({**told, C: hints(one, last=0)})
    assert found.verdict is Verdict.DOUBTFUL
    assert "more than one ensemble was named from entry 0 on" in found.doubts[0]


def test_a_bookie_that_lost_its_disk_may_have_known_of_more() -> None:
    first = opened(0, A, B, C)

    found = rebuilt({A: hints(first), B: hints(first), C: hints(first), D: hints(limbo=True)})

    assert found.verdict is Verdict.DOUBTFUL
    assert "bk-d lost data of it (limbo)" in found.doubts[0]


# ── what is a guess ──


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        ({A: hints(last=3)}, "no bookie was told of a fragment"),
        ({A: hints(opened(5, A, B, C))}, "nobody knows its first fragment"),
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

    assert found.verdict is Verdict.BLOCKED
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
    if found.verdict is not Verdict.SURE:
        return
    last = found.metadata.last_fragment
    for entry in range(last.first_entry, life.acked + 1):
        holders = sum(entry in life.held.get(b, ()) for b in last.ensemble)
        assert holders >= QUORUMS.ack, f"entry {entry} may be denied: {life}"


# ── the file ──


def lines_of(bookie: BookieId, *known: LedgerHints, instance: str = INSTANCE) -> list[str]:
    writer = Writer()
    header = Header(instance=instance, bookie=bookie, generation=3)
    return [writer.header(header), *map(writer.ledger, known), writer.footer()]


def test_hints_are_read_as_they_were_written() -> None:
    known = (
        hints(opened(0, A, B, C), opened(5, A, B, D), last=9, lac=8, fenced=True),
        hints(limbo=True, key=None, ledger_id=LedgerId((1 << 63) - 1)),
    )

    header, *parts, footer = rebuilding_format.read(lines_of(A, *known))

    assert header == Header(instance=INSTANCE, bookie=A, generation=3)
    assert tuple(parts) == known
    assert isinstance(footer, rebuilding_format.Footer)
    assert footer.ledgers == 2


def test_the_bytes_of_hints_stay_what_they_are() -> None:
    text = "".join(lines_of(A, hints(opened(0, A, B, C), last=9, lac=8)))

    assert text.splitlines()[1] == (
        '{"entries":10,"fenced":false,"firstEntry":0,"fragments":[{"ackZones":2,"digest":"CRC32C",'
        '"ensemble":["bk-a","bk-b","bk-c"],"firstEntry":0,"quorums":[3,3,2]}],"lac":8,'
        '"lastEntry":9,"ledger":7,"limbo":false,"masterKey":"' + KEY.hex() + '"}'
    )
    before, last = text.rsplit("{", 1)
    assert json.loads("{" + last) == {
        "ledgers": 1,
        "sha256": hashlib.sha256(before.encode()).hexdigest(),
    }


LINES = lines_of(A, hints(opened(0, A, B, C), last=9))


@pytest.mark.parametrize(
    "spoiled",
    [
        LINES[:-1],
        [*LINES[:-1], LINES[-1][:-5]],
        [LINES[0], LINES[1].replace('"lac":-1', '"lac":9'), LINES[2]],
        [*LINES[:2], LINES[1], LINES[2]],
        [*LINES, LINES[1]],
        ["{}\n"],
        [],
    ],
    ids=["cut short", "half a line", "changed", "twice", "more behind", "something else", "empty"],
)
def test_hints_that_are_not_whole_are_refused(spoiled: list[str]) -> None:
    with pytest.raises(UnreadableError):
        list(rebuilding_format.read(spoiled))


@pytest.mark.fuzz
@settings(max_examples=1_000, deadline=None)
@given(st.data())
def test_changed_hints_raise_what_they_should_or_are_read(data: st.DataObject) -> None:
    line = list(lines_of(A, hints(opened(0, A, B, C), opened(5, A, B, D), last=9, lac=8))[1])
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(line) - 2))
        line[at] = data.draw(st.characters())

    read = rebuilding_format.read([lines_of(A)[0], "".join(line)])

    with pytest.raises(UnreadableError):
        list(read)


# ── the command ──


class Folder:
    """A store on a file that holds nothing yet, and hints beside it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.address = f"sqlite://{folder}/meta.db"
        self.files: list[str] = []

    def add(self, bookie: BookieId, *known: LedgerHints, instance: str = INSTANCE) -> str:
        path = self.folder / f"{bookie}-{len(self.files)}.hints"
        path.write_text("".join(lines_of(bookie, *known, instance=instance)))
        self.files.append(str(path))
        return str(path)

    def rebuild(self, *words: str, input: str | None = None) -> Result:  # noqa: A002 click's name
        call = ("rebuild", *self.files, "--store", self.address, *words)
        return CliRunner().invoke(commands.commands, call, input=input, catch_exceptions=False)

    async def rebuild_beside(self, *words: str, input: str | None = None) -> Result:  # noqa: A002 click's
        """Call it from a test that has an event loop."""
        return await asyncio.to_thread(self.rebuild, *words, input=input)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    (tmp_path / "passwords").write_text("guess\nsecret\n")
    return Folder(tmp_path)


def tell_of_three(folder: Folder) -> None:
    """Ledger 7 is sure, 8 doubtful (two ensembles), 9 blocked (its password)."""
    for bookie, ensembles in ((A, (A, B, C)), (B, (A, B, C)), (C, (A, B, C)), (D, (A, B, D))):
        folder.add(
            bookie,
            *([hints(opened(0, A, B, C), last=9)] if bookie != D else []),
            hints(opened(0, *ensembles), last=4, ledger_id=LedgerId(8)),
            *([hints(opened(0, A, B, C), key=b"?" * 20, ledger_id=LedgerId(9))] * (bookie == A)),
        )


def test_without_write_the_report_changes_nothing(folder: Folder) -> None:
    tell_of_three(folder)

    answer = folder.rebuild("--passwords", str(folder.folder / "passwords"))

    assert answer.exit_code == 1
    assert "ledger 7: sure, not written\n  certain:  quorums 3/3/2, CRC32C" in answer.stdout
    assert "ledger 8: doubtful, not written" in answer.stdout
    assert "  blocked:  none of the passwords that were given is its password" in answer.stdout
    assert "1 sure, 1 doubtful, 1 blocked; nothing was written" in answer.stderr
    found = folder.rebuild("--output", "json", "--passwords", str(folder.folder / "passwords"))
    verdicts = {said["ledger"]: said for said in map(json.loads, found.stdout.splitlines())}
    assert {n: said["verdict"] for n, said in verdicts.items()} == {
        7: "sure",
        8: "doubtful",
        9: "blocked",
    }
    assert verdicts[7]["certain"]["fragments"] == {"0": ["bk-a", "bk-b", "bk-c"]}
    assert verdicts[7]["endsBetween"] == [-1, 9]


async def read_root(folder: Folder) -> tuple[clusters.Cluster, list[LedgerId], int]:
    store = await open_store(folder.address)
    try:
        cluster = await clusters.open_cluster(store)
        there = [n for n in range(6, 11) if await ledgers.read(cluster, LedgerId(n)) is not None]
        mark = await restored.read(cluster)
        assert mark is not None
        assert await ledger_ids.allocate(cluster) >> 32 == mark.high
        return cluster, [LedgerId(n) for n in there], mark.at_ms
    finally:
        await store.close()


async def test_an_empty_root_is_made_marked_as_restored_and_holds_what_is_sure(
    folder: Folder,
) -> None:
    tell_of_three(folder)
    passwords = ("--passwords", str(folder.folder / "passwords"))

    answer = await folder.rebuild_beside("--write", *passwords, input="y\n")

    assert answer.exit_code == 1
    assert "Hints are here of bk-a, bk-b, bk-c, bk-d." in answer.stderr
    assert "1 written, 0 there already, 2 not written" in answer.stderr
    cluster, there, marked = await read_root(folder)
    assert (cluster.instance, there) == (INSTANCE, [7])
    again = await folder.rebuild_beside("--write", "--doubtful", "--yes", *passwords)
    assert "2 written, 0 there already, 1 not written" in again.stderr  # the same token: ours
    assert (await read_root(folder))[1:] == ([7, 8], marked)


async def test_who_does_not_vouch_for_the_hints_writes_nothing(folder: Folder) -> None:
    tell_of_three(folder)

    assert (await folder.rebuild_beside("--write", input="n\n")).exit_code == 1

    store = await open_store(folder.address)
    with pytest.raises(clusters.NotAClusterError):
        await clusters.open_cluster(store)
    await store.close()


async def test_a_ledger_that_is_there_is_never_overwritten_and_cookies_are_counted(
    folder: Folder,
) -> None:
    first = opened(0, A, B, C)
    for bookie in (A, B, C):
        folder.add(bookie, hints(first, last=9, key=digests.master_key(b"")))
    store = await open_store(folder.address)
    cluster = await clusters.initialise(store, INSTANCE)
    other = rebuilt({A: hints(first, last=3, key=digests.master_key(b""))}, silent=[B, C]).metadata
    assert other is not None
    mine = ledger_format.parse(ledger_format.render(other).replace(b"bk-c", b"bk-f"))
    await ledgers.create(cluster, replace(mine, create_token=5), ledger_id=LEDGER)

    answer = await folder.rebuild_beside("--write", "--yes")

    assert answer.exit_code == 0
    assert "ledger 7: sure, there already, and kept" in answer.stdout
    standing = await ledgers.read(cluster, LEDGER, sync=True)
    assert standing is not None
    assert standing.metadata.last_fragment.ensemble == (A, B, F)
    assert await restored.read(cluster) is not None

    await cookie_store.create(
        cluster, cookies.Cookie(bookie=F, journal_dirs=("/f",), ledger_dirs=("/f",))
    )
    assert "bk-f gave no hints" in (await folder.rebuild_beside()).stdout
    await store.close()


def test_hints_that_do_not_belong_together_are_refused(folder: Folder) -> None:
    folder.add(A, hints(opened(0, A, B, C)))
    again = folder.add(A)
    twice = folder.rebuild()
    assert twice.exit_code == 2
    assert f"{again} are both of bk-a" in twice.stderr

    folder.files.pop()
    folder.add(B, instance="another")
    mixed = folder.rebuild()
    assert mixed.exit_code == 2
    assert "the hints are of different clusters" in mixed.stderr

    folder.files.pop()
    path = Path(folder.files[0])
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
    short = folder.rebuild()
    assert short.exit_code == 2
    assert f"{path}: truncated: the hints have no end" in short.stderr


async def test_a_root_of_another_cluster_is_refused(folder: Folder) -> None:
    folder.add(A, hints(opened(0, A, B, C)))
    store = await open_store(folder.address)
    await clusters.initialise(store, "6f2ee3ee-52a8-4b5c-8f0e-4a3c8d5f0c11")
    await store.close()

    answer = await folder.rebuild_beside("--write", "--yes")

    assert answer.exit_code == 2
    assert "is another cluster than that of the hints" in answer.stderr
