"""``zonekeeper metadata collections`` and ``restored``: what a person sees, and says."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest
from click.testing import CliRunner, Result

from zonekeeper.metadata.bookies import held_collections
from zonekeeper.metadata.bookies.held_collections import HeldCollection
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.cluster import restored, timeline
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.cluster.evidence import EvidenceKind, StoreEvidence
from zonekeeper.metadata.commands.cluster import cluster as cluster_group
from zonekeeper.metadata.commands.saving import metadata as metadata_group
from zonekeeper.metadata.ledgers import set_back
from zonekeeper.metadata.stores.opening import open_store
from zonekeeper.placement.base.ids import BookieId, LedgerId

INSTANCE = "d58c3de9-d9c6-429e-be20-474dcad4d089"
A, B = BookieId("bk-a-0"), BookieId("bk-b-0")
Answer = TypeVar("Answer")


@pytest.fixture
def address(tmp_path: Path) -> str:
    address = f"sqlite://{tmp_path / 'meta.db'}"

    async def make() -> None:
        store = await open_store(address)
        await clusters.initialise(store, INSTANCE)
        await store.close()

    asyncio.run(make())
    return address


def within(address: str, work: Callable[[Cluster], Awaitable[Answer]]) -> Answer:
    async def run() -> Answer:
        store = await open_store(address)
        try:
            return await work(await clusters.open_cluster(store))
        finally:
            await store.close()

    return asyncio.run(run())


def asked(count: int) -> HeldCollection:
    return HeldCollection(
        at_ms=1_780_000_000_000,
        ledgers=count,
        known=3_000,
        first=LedgerId(7),
        last=LedgerId(9_000),
        digest=held_collections.digest_of(map(LedgerId, range(count))),
    )


def call(*words: str, answer: str | None = None) -> Result:
    return CliRunner().invoke(metadata_group, words, input=answer, catch_exceptions=False)


def ask_both(address: str) -> None:
    within(address, lambda cluster: held_collections.ask(cluster, A, asked(1_200)))
    within(address, lambda cluster: held_collections.ask(cluster, B, asked(1_500)))


def test_nothing_waits_in_a_cluster_that_is_well(address: str) -> None:
    done = call("collections", "--metadata", address)
    assert (done.exit_code, done.stdout) == (0, "no bookie waits to collect\n")
    done = call("collections", "--metadata", address, "--permit", "x", "--yes")
    assert (done.exit_code, done.stdout) == (0, "permitted: nothing waited\n")


def test_a_person_sees_what_waits_and_permits_it_with_a_reason(address: str) -> None:
    ask_both(address)
    shown = call("collections", "--metadata", address).stdout
    assert (
        "bk-a-0: 1200 of 3000 ledgers are gone without a record of their deletion, from 7 to 9000"
        in shown
    )
    info = CliRunner().invoke(cluster_group, ["info", "--metadata", address])
    assert "bk-a-0, bk-b-0 would collect many ledgers without a record" in info.stdout
    no = call("collections", "--metadata", address, "--permit", "by hand", answer="n\n")
    assert no.exit_code == 1
    assert within(address, held_collections.read_all) == {A: asked(1_200), B: asked(1_500)}

    one = call("collections", "--metadata", address, "--permit", "by hand", "--bookie", A, "--yes")

    assert (one.exit_code, one.stdout) == (0, "permitted: bk-a-0\n")
    held = within(address, held_collections.read_all)
    of_a = held[A]
    assert isinstance(of_a, HeldCollection)
    permit = of_a.permit
    assert permit is not None
    assert permit.reason == "by hand"
    assert held[B] == asked(1_500)
    (event,) = within(address, timeline.newest)
    assert (event.kind, event.subject, event.reason) == ("permitted", "bookie bk-a-0", "by hand")
    data = json.loads(call("collections", "--metadata", address, "-o", "json").stdout)
    assert data["waiting"]["bk-a-0"]["permitted"] == "by hand"
    assert data["waiting"]["bk-b-0"]["permitted"] is None


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--permit", "two\nlines"], "one line of 1 to 512 characters"),
        (["--permit", "x", "--bookie", "bk-z-0"], "bk-z-0 does not wait to collect"),
    ],
)
def test_a_word_that_cannot_be_taken_changes_nothing(
    address: str, words: list[str], said: str
) -> None:
    ask_both(address)
    done = call("collections", "--metadata", address, "--yes", *words)
    assert done.exit_code == 2
    assert said in done.stderr
    assert within(address, held_collections.read_all) == {A: asked(1_200), B: asked(1_500)}


def test_a_question_that_cannot_be_read_is_named_and_hides_no_other(address: str) -> None:
    ask_both(address)

    async def damage(cluster: Cluster) -> None:
        node = cluster.root.beside("collecting/bk-a-0")
        await cluster.store.put(node, b"{", version=0)

    within(address, damage)
    shown = call("collections", "--metadata", address)
    assert shown.exit_code == 1
    first, second = shown.stdout.splitlines()
    assert first.startswith("bk-a-0: its question cannot be read: ")
    assert "/ledgers.zonekeeper/collecting/bk-a-0 in sqlite:" in first
    assert "the bookie collects nothing" in first
    assert second.startswith("bk-b-0: 1500 of 3000 ledgers are gone")
    data = json.loads(call("collections", "--metadata", address, "-o", "json").stdout)
    assert (list(data["waiting"]), list(data["unreadable"])) == (["bk-b-0"], ["bk-a-0"])
    info = CliRunner().invoke(cluster_group, ["info", "--metadata", address])
    assert info.exit_code == 0
    assert "bk-a-0, bk-b-0 would collect many ledgers" in info.stdout

    done = call("collections", "--metadata", address, "--permit", "by hand", "--yes")

    assert done.exit_code == 1
    assert done.stdout == "permitted: bk-b-0\n"
    only = call("collections", "--metadata", address, "--bookie", B)
    assert only.exit_code == 0


def test_the_evidence_of_a_set_back_store_is_shown_and_accepted(address: str) -> None:
    proofs = (
        StoreEvidence(bookie=A, kind=EvidenceKind.IDS, known=50, found=9),
        StoreEvidence(bookie=B, kind=EvidenceKind.STARTS, known=3, found=2),
    )
    within(address, lambda cluster: set_back.mark(cluster, proofs, now_ms=1_780_000_000_000))
    shown = call("restored", "--metadata", address).stdout
    assert "bookies have evidence since 2026-05-28T20:26:40+00:00" in shown
    assert "bk-a-0 knew of ledger ids below 50, and the store gave out those below 9" in shown
    assert "bk-b-0 knew of 3 starts of the bookie, and the store knows of 2" in shown
    assert "checksum" not in shown
    data = json.loads(call("restored", "--metadata", address, "-o", "json").stdout)
    assert data["export"] is None
    assert data["evidence"][0] == {"bookie": A, "kind": "ids", "known": 50, "found": 9}
    info = CliRunner().invoke(cluster_group, ["info", "--metadata", address])
    assert "marked as restored to an older state" in info.stdout

    done = call("restored", "--metadata", address, "--clear", "given up", "--yes")

    assert done.exit_code == 0
    accepted = within(address, restored.accepted)
    assert (accepted.ids, dict(accepted.starts)) == (50, {B: 3})
