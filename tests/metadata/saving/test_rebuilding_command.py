"""``zonekeeper metadata rebuild``: reports, and writes only what it is told to, over nothing."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.metadata.hinting import (
    INSTANCE,
    LEDGER,
    A,
    B,
    C,
    D,
    F,
    hints,
    lines_of,
    opened,
)
from tests.metadata.saving.test_rebuilding import rebuilt
from zonekeeper.metadata.bookies import cookie_store
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.cluster import restored
from zonekeeper.metadata.commands import saving
from zonekeeper.metadata.formats import cookies, ledger_format
from zonekeeper.metadata.ledgers import ledger_ids, ledgers
from zonekeeper.metadata.saving.rebuilding_format import LedgerHints
from zonekeeper.metadata.stores.opening import open_store
from zonekeeper.placement.base.ids import BookieId, LedgerId
from zonekeeper.wire.formats import digests


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
        call = ("rebuild", *self.files, "--metadata", self.address, *words)
        return CliRunner().invoke(saving.metadata, call, input=input, catch_exceptions=False)

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
