"""``zonekeeper cluster``: a root is made once, and shown as it is."""

import asyncio
import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from zonekeeper.metadata.cluster import cluster, policy_store
from zonekeeper.metadata.commands.cluster import cluster as cluster_group
from zonekeeper.metadata.commands.saving import metadata as metadata_group
from zonekeeper.metadata.stores.opening import open_store
from zonekeeper.placement.base.ids import ZoneName
from zonekeeper.placement.policy.rules import PlacementRules, Policy


@pytest.fixture
def address(tmp_path: Path) -> str:
    return f"sqlite://{tmp_path / 'meta.db'}"


def call(*words: str) -> Result:
    return CliRunner().invoke(cluster_group, words, catch_exceptions=False)


def test_a_root_is_made_once_and_found_made_after_that(address: str) -> None:
    first = json.loads(call("init", "--metadata", address, "--output", "json").stdout)
    second = json.loads(call("init", "--metadata", address, "--output", "json").stdout)

    assert (first["made"], second["made"]) == (True, False)
    assert first["instance"] == second["instance"]
    assert "was there already: /ledgers in" in call("init", "--metadata", address).stdout


def test_a_cluster_without_a_policy_says_what_that_means(address: str) -> None:
    assert call("init", "--metadata", address).stdout.startswith("made: /ledgers in sqlite://")

    text = call("info", "--metadata", address).stdout

    assert "bookies:   0 with a cookie; 0 writable and 0 read-only now" in text
    assert "policy:    none yet: no ledger can be created" in text
    assert "restored" not in text


def test_the_policy_is_shown_with_its_owner(address: str) -> None:
    call("init", "--metadata", address)
    asyncio.run(set_policy(address))

    text = call("info", "--metadata", address).stdout
    data = json.loads(call("info", "--metadata", address, "--output", "json").stdout)

    assert "policy:    version 1, set by shell: zones a, b, c, quorums 3/3/2" in text
    assert data["policy"]["placement"]["zones"] == ["a", "b", "c"]
    assert data["bookies"] == {"cookies": 0, "writable": 0, "readOnly": 0}
    assert data["restored"] is False


async def set_policy(address: str) -> None:
    store = await open_store(address)
    try:
        zones = (ZoneName("a"), ZoneName("b"), ZoneName("c"))
        policy = Policy(placement=PlacementRules(zones=zones))
        await policy_store.write(await cluster.open_cluster(store), policy, replaces=0)
    finally:
        await store.close()


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--metadata", "nowhere"), "Error: store address 'nowhere': one of zk://"),
        (("--metadata", "memory:"), "there is no cluster at /ledgers in memory"),
        ((), "Missing option '--metadata'"),
    ],
    ids=["no address", "no cluster", "not told"],
)
def test_what_cannot_be_shown_is_refused(words: tuple[str, ...], reason: str) -> None:
    result = call("info", *words)

    assert result.exit_code == 2
    assert reason in result.stderr


@pytest.mark.parametrize(
    ("group", "words"),
    [
        (cluster_group, ["info", "--metadata", "STORE"]),
        (metadata_group, ["export", "-", "--metadata", "STORE"]),
        (metadata_group, ["restored", "--metadata", "STORE"]),
        (metadata_group, ["diff", "STORE", "STORE"]),
    ],
)
def test_whoever_only_looks_leaves_no_empty_store_behind(
    tmp_path: Path, group: click.Group, words: list[str]
) -> None:
    missing = tmp_path / "slip.db"
    given = [f"sqlite://{missing}" if word == "STORE" else word for word in words]

    result = CliRunner().invoke(group, given)

    assert result.exit_code == 2
    assert "there is no such file" in result.stderr
    assert not missing.exists()
