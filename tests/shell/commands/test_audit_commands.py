"""``zonekeeper audit``: what the live ledgers would show, by name and by number."""

import json
from pathlib import Path

import pytest

from tests.shell.live_world import LiveWorld
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats.ledger_metadata import Fragment, LedgerMetadata, LedgerState
from zonekeeper.metadata.ledgers import ledgers
from zonekeeper.placement.base.digests import Digest
from zonekeeper.placement.base.ids import NO_ENTRY, BookieId, EntryId, LedgerId
from zonekeeper.shell.commands.audit import audit
from zonekeeper.shell.reaching import progressing

STRICT, SOFT = ("a-0", "b-0", "c-0"), ("a-0", "a-1", "b-0")
FAIL = ("a-0", "a-1")


@pytest.fixture
def world(tmp_path: Path) -> LiveWorld:
    return LiveWorld(tmp_path)


def ledger(ensemble: tuple[str, ...], *, closed: bool = True) -> LedgerMetadata:
    members = tuple(BookieId(f"bk-{name}") for name in ensemble)
    return LedgerMetadata(
        ensemble_size=len(members),
        write_quorum=len(members),
        ack_quorum=2,
        fragments=(Fragment(EntryId(0), members),),
        digest=Digest.CRC32C,
        password=b"",
        state=LedgerState.CLOSED if closed else LedgerState.OPEN,
        last_entry=EntryId(9) if closed else NO_ENTRY,
        create_token=1,
    )


def with_ledgers(world: LiveWorld, *every: LedgerMetadata) -> None:
    async def create(cluster: Cluster) -> None:
        for number, metadata in enumerate(every):
            await ledgers.create(cluster, metadata, ledger_id=LedgerId(number))

    world.on(create)


def counts(data: dict[str, object]) -> dict[str, int]:
    found = data["counts"]
    assert isinstance(found, dict)
    return {kind: count for kind, count in found.items() if count}


def found(world: LiveWorld, exit_code: int, *words: str) -> dict[str, object]:
    """Audit for data; the exit code is part of the answer."""
    result = world.call(audit, *words, "--output", "json")
    assert result.exit_code == exit_code, result.output
    data: dict[str, object] = json.loads(result.stdout)
    return data


def test_placement_counts_by_level_and_names_who_could_do_better(world: LiveWorld) -> None:
    world.build()
    with_ledgers(world, ledger(STRICT), ledger(SOFT), ledger(STRICT, closed=False))
    data = found(world, 0, "placement")
    assert counts(data) == {"STRICT": 1, "SOFT": 1, "nothing finished": 1, "could do better now": 1}
    assert data["named"] == {"SOFT": [1], "could do better now": [1]}
    assert data["ledgers"] == 3


def test_a_failing_ledger_has_its_exit_code(world: LiveWorld) -> None:
    world.build()
    with_ledgers(world, ledger(FAIL))
    assert counts(found(world, 1, "placement")) == {"FAIL": 1}
    assert "3 ledgers" not in world.call(audit, "placement").stdout


def test_what_a_zone_would_take_with_it(world: LiveWorld) -> None:
    world.build()
    with_ledgers(world, ledger(STRICT), ledger(SOFT), ledger(FAIL), ledger(SOFT, closed=False))
    data = found(world, 1, "lose", "--zone", "a")
    assert counts(data) == {
        "safe": 1,
        "perhaps unreadable": 2,
        "unreadable": 1,
        "unwritable without another ensemble": 1,
    }
    named = data["named"]
    assert isinstance(named, dict)
    assert named["unreadable"] == [2]
    assert counts(found(world, 1, "lose", "--zone", "c", "--and-one")) == {
        "safe": 2,
        "at its last copy": 1,
        "perhaps unreadable": 1,
    }


def test_what_is_missing_already_counts_as_lost(world: LiveWorld) -> None:
    world.build(lost="a")
    with_ledgers(world, ledger(STRICT))
    assert counts(found(world, 1, "lose", "--zone", "b")) == {"perhaps unreadable": 1}


def test_replicas_that_nobody_can_ask_for_are_unknown_and_not_accused(world: LiveWorld) -> None:
    world.build()
    with_ledgers(world, ledger(STRICT))
    data = found(world, 1, "replicas")
    assert counts(data) == {"copies without an answer from their bookie": 1}
    assert data["named"] == {"copies without an answer from their bookie": [0]}
    assert (data["entries"], data["copiesUnknown"]) == (10, 30)
    assert (
        "copies without an answer from their bookie: 30"
        in world.call(audit, "replicas", "--ledger", "0").stdout
    )


def test_a_ledger_that_cannot_be_read_is_named(world: LiveWorld) -> None:
    world.build()
    with_ledgers(world, ledger(STRICT))

    async def damage(cluster: Cluster) -> None:
        await cluster.store.put(ledgers.path(cluster, LedgerId(0)), b"", version=0)

    world.on(damage)
    for words in (["placement"], ["lose", "--zone", "a"], ["replicas", "--ledger", "0"]):
        assert found(world, 1, *words)["unreadable"] == [0]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["lose"], "Missing option '--zone'"),
        (["lose", "--zone", "d"], "there is no zone d"),
        (["replicas", "--ledger", "7"], "there is no ledger 7"),
        (["replicas", "--bytes-per-second", "fast"], "--bytes-per-second fast"),
        (["placement", "--cluster-id", "other"], "this is another cluster"),
    ],
)
def test_wrong_input_is_refused(world: LiveWorld, words: list[str], reason: str) -> None:
    world.build()
    result = world.call(audit, *words)
    assert result.exit_code == 2
    assert reason in result.stderr


@pytest.mark.parametrize("words", [("placement",), ("lose", "--zone", "a"), ("open",)], ids=str)
def test_s179_an_audit_says_how_far_it_is_and_its_answer_is_unharmed(
    world: LiveWorld, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    world.build()
    with_ledgers(world, ledger(STRICT), ledger(STRICT))
    monkeypatch.setattr(progressing, "FIRST_LINE_S", 0.0)

    loud = world.call(audit, *words, "--output", "json")
    quiet = world.call(audit, *words, "--output", "json", "--quiet")

    assert loud.stderr.splitlines() == ["1 ledgers done", "2 ledgers done"]
    assert quiet.stderr == ""
    assert json.loads(loud.stdout) == json.loads(quiet.stdout)
