"""``zonekeeper policy``: shown, compared, set; and what is refused."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from tests.shell.live_world import INSTANCE, POLICY, LiveWorld
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.cluster import policy_store
from zonekeeper.metadata.stores.opening import open_store
from zonekeeper.placement.policy import rules_data
from zonekeeper.placement.policy.rules import Policy
from zonekeeper.shell.commands.policy import policy

RULES = {"placement": {"zones": ["a", "b", "c"]}, "repair": {"bookieRecoveryDelay": "7m"}}
WHO = ("--by", "anna", "--reason", "repairs were too early")


@pytest.fixture
def world(tmp_path: Path) -> LiveWorld:
    world = LiveWorld(tmp_path)
    world.build(watched=False)
    return world


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "policy.yaml"
    path.write_text(yaml.safe_dump(RULES))
    return path


def in_force(world: LiveWorld) -> Policy:
    found = world.on(policy_store.read)
    assert found is not None
    return found


def test_what_is_shown_can_be_set_again(world: LiveWorld, tmp_path: Path) -> None:
    shown = world.call(policy, "show").stdout
    assert shown.startswith("# version 1, set by shell\n")
    path = tmp_path / "again.yaml"
    path.write_text(shown)
    result = world.call(policy, "diff", str(path))
    assert (result.exit_code, result.stdout) == (0, "nothing would change\n")
    assert world.data(policy, "show")["version"] == 1


def test_a_difference_is_said_and_has_its_exit_code(world: LiveWorld, file: Path) -> None:
    result = world.call(policy, "diff", str(file))
    assert (result.exit_code, result.stdout) == (1, "repair.bookieRecoveryDelay: 5m -> 7m\n")
    data = json.loads(world.call(policy, "diff", str(file), "--output", "json").stdout)
    assert data == [{"rule": "repair.bookieRecoveryDelay", "is": "5m", "to": "7m"}]


def test_rules_are_set_and_the_timeline_says_who_did_it(world: LiveWorld, file: Path) -> None:
    result = world.call(policy, "set", str(file), "--yes", *WHO)
    assert result.exit_code == 0, result.output
    assert result.stdout.endswith("version 2 is in force\n")
    assert in_force(world).repair.bookie_recovery_delay_ms == 7 * 60_000
    assert world.told() == [("policy", "version 2", "anna")]
    again = world.call(policy, "set", str(file), "--yes", *WHO)
    assert (again.exit_code, again.stdout) == (0, "nothing would change\n")


def test_a_dry_run_changes_nothing(world: LiveWorld, file: Path) -> None:
    result = world.call(policy, "set", str(file), "--dry-run", *WHO)
    assert (result.exit_code, result.stdout) == (0, "repair.bookieRecoveryDelay: 5m -> 7m\n")
    assert in_force(world).version == 1


def test_nobody_who_cannot_be_asked_has_agreed(world: LiveWorld, file: Path) -> None:
    assert world.call(policy, "set", str(file), *WHO).exit_code == 2
    assert in_force(world).version == 1


def test_a_cluster_without_a_policy_gets_its_first(tmp_path: Path, file: Path) -> None:
    world = LiveWorld(tmp_path)

    async def initialise() -> None:
        store = await open_store(world.address)
        await clusters.initialise(store, INSTANCE)
        await store.close()

    asyncio.run(initialise())
    assert world.call(policy, "show").exit_code == 2
    assert world.call(policy, "set", str(file), "--version", "0", "--yes", *WHO).exit_code == 0
    assert in_force(world).version == 1


def test_the_operators_policy_is_left_to_it(world: LiveWorld, file: Path) -> None:
    owned = replace(POLICY, owner="operator/default/main")
    world.on(lambda cluster: policy_store.write(cluster, owned, replaces=1))
    result = world.call(policy, "set", str(file), "--yes", *WHO)
    assert result.exit_code == 2
    assert "owned by operator/default/main" in result.stderr


@pytest.mark.parametrize(
    ("rules", "reason"),
    [
        ({"placement": {"zones": ["a", "b", "c"], "minZone": 2}}, "minZone"),
        ({"placement": {"zones": ["a", "b", "c"]}, "quorums": {"ensemble": 5}}, "cannot keep"),
        ([], "policy"),
    ],
    ids=["a misspelt name", "an illegal placement", "no mapping"],
)
def test_rules_that_cannot_be_are_refused(
    world: LiveWorld, file: Path, rules: object, reason: str
) -> None:
    file.write_text(yaml.safe_dump(rules))
    for words in (["diff", str(file)], ["set", str(file), "--yes", *WHO]):
        result = world.call(policy, *words)
        assert result.exit_code == 2
        assert reason in result.stderr


@pytest.mark.parametrize("words", [["set", "nowhere.yaml", *WHO], ["show", "--cluster-id", "x"]])
def test_wrong_input_is_refused(world: LiveWorld, words: list[str]) -> None:
    assert world.call(policy, *words).exit_code == 2


def test_a_version_that_is_not_in_force_is_refused(world: LiveWorld, file: Path) -> None:
    result = world.call(policy, "set", str(file), "--version", "9", "--yes", *WHO)
    assert result.exit_code == 2
    assert "version 1 is in force, and not 9" in result.stderr
    assert rules_data.rules(in_force(world)) == rules_data.rules(POLICY)


def test_a_zone_that_the_rules_drop_while_bookies_stand_there_is_warned_of(
    world: LiveWorld, tmp_path: Path
) -> None:
    # S130.
    path = tmp_path / "two.yaml"
    placement = {"zones": ["a", "b"], "minZones": 1, "desiredZones": 2}
    path.write_text(yaml.safe_dump({"placement": placement, "quorums": {"ackZones": 1}}))
    warning = "warning: 2 bookies stand where none is used: the policy does not name zone c"

    assert warning in world.call(policy, "diff", str(path)).stderr
    result = world.call(policy, "set", str(path), "--yes", *WHO)
    assert result.exit_code == 0, result.output
    assert warning in result.stderr
    assert warning in world.call(policy, "show").stderr


def test_zones_that_these_rules_never_hold_are_warned_of_wherever_rules_are_looked_at(
    world: LiveWorld, tmp_path: Path
) -> None:
    # S126.
    path = tmp_path / "three.yaml"
    path.write_text(yaml.safe_dump({**RULES, "zoneWatch": {"minLost": 3}}))
    warning = "warning: zoneWatch.minLost: 3: zone b has 2 bookies, so its loss is never held"

    assert world.call(policy, "show").stderr == ""
    assert warning in world.call(policy, "diff", str(path)).stderr
    result = world.call(policy, "set", str(path), "--yes", *WHO)
    assert result.exit_code == 0, result.output
    assert result.stderr.count("is never held") == 3
    shown = world.call(policy, "show")
    assert warning in shown.stderr
    assert shown.stdout.startswith("# version 2, set by shell\n")
