"""``zonekeeper autorecovery``: what is seen, held, let go, and refused."""

import dataclasses
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.shell.live_world import LiveWorld
from zonekeeper.metadata.cluster import repair_controls, zone_store
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.ledgers import underreplication
from zonekeeper.placement.base.ids import BookieId, LedgerId, ZoneName
from zonekeeper.placement.zones.freeze import Switch, SwitchPhase
from zonekeeper.placement.zones.gate import Permission, Token
from zonekeeper.placement.zones.zone_records import ClusterRecord
from zonekeeper.shell.commands.autorecovery import autorecovery

WHO = ("--reason", "it is gone", "--by", "anna")
RELEASE = ("release", "--zone", "a", *WHO)


@pytest.fixture
def world(tmp_path: Path) -> LiveWorld:
    return LiveWorld(tmp_path)


def permission(world: LiveWorld, zone: str) -> Permission:
    async def read(cluster: Cluster) -> Permission:
        record = await zone_store.read_zone(cluster, ZoneName(zone))
        assert record is not None
        return record.gate.permission

    return world.on(read)


def enabled(world: LiveWorld) -> bool:
    return world.on(repair_controls.is_enabled)


def test_the_status_tells_the_switch_who_leads_and_what_waits(world: LiveWorld) -> None:
    world.build(lost="a")
    world.on(lambda c: underreplication.mark(c, LedgerId(7), [BookieId("bk-a-0")], at_ms=1))
    data = world.data(autorecovery, "status")
    alerts = data.pop("alerts")
    assert isinstance(alerts, list)
    assert [one["alert"] for one in alerts] == ["zoneDown"]
    assert data == {
        "switch": "on",
        "auditor": None,
        "zoneWatch": None,
        "processes": 0,
        "ledgersMarked": 1,
        "ledgersUnderRepair": 0,
        "orders": [],
        "zonesHeld": ["a"],
        "clusterHeld": False,
        "bookiesMissing": ["bk-a-0", "bk-a-1"],
    }
    text = world.call(autorecovery, "status").stdout
    assert "bk-a-0, bk-a-1" in text
    assert "none, so everything is held" in text


# ── the switch ──


def test_the_switch_is_thrown_both_ways_and_told(world: LiveWorld) -> None:
    world.build()
    assert world.data(autorecovery, "disable", "--yes", *WHO)["done"] is True
    assert not enabled(world)
    assert world.data(autorecovery, "disable", "--yes", *WHO)["done"] is False
    assert world.data(autorecovery, "enable", "--yes", *WHO)["done"] is True
    assert enabled(world)
    assert [kind for kind, _, _ in world.told()] == ["switched on", "switched off"]


def test_a_dry_run_throws_nothing(world: LiveWorld) -> None:
    world.build()
    assert "would be switched off" in world.call(autorecovery, "disable", "--dry-run", *WHO).stdout
    assert enabled(world)
    assert "would be switched on" in world.call(autorecovery, "enable", "--dry-run", *WHO).stdout


def test_where_nobody_can_be_asked_yes_must_be_said(world: LiveWorld) -> None:
    world.build()
    result = world.call(autorecovery, "disable", *WHO)
    assert result.exit_code == 2
    assert "repeat with --yes, or look with --dry-run" in result.stderr
    assert enabled(world)


def thrown_by_the_watch(world: LiveWorld) -> None:
    """Switch off as a zone watch does with scope cluster, and has seen it done."""

    def with_switch(record: ClusterRecord | None) -> ClusterRecord:
        assert record is not None
        switch = Switch(phase=SwitchPhase.OFF, token=Token("cluster-1"))
        return dataclasses.replace(record, switch=switch)

    async def throw(cluster: Cluster) -> None:
        await zone_store.change_cluster(cluster, with_switch)
        await repair_controls.set_enabled(cluster, enabled=False)

    world.on(throw)


def test_enabling_what_the_zone_watch_switched_off_is_counted_as_a_release_is(
    world: LiveWorld,
) -> None:
    world.build(lost="a")
    thrown_by_the_watch(world)
    result = world.call(autorecovery, "enable", "--yes", *WHO)
    assert result.exit_code == 0
    assert "switching automatic replication on" in result.stdout
    assert "2: bk-a-0, bk-a-1" in result.stdout
    assert enabled(world)


def test_enabling_what_a_person_switched_off_counts_nothing_of_a_zone_that_stays_held(
    world: LiveWorld,
) -> None:
    world.build(lost="a")
    world.data(autorecovery, "disable", "--yes", *WHO)
    data = world.data(autorecovery, "enable", "--yes", *WHO)
    assert (data["bookies"], data["tokens"]) == ([], [])
    assert permission(world, "a") is Permission.HELD


def test_enabling_counts_what_is_missing_where_nothing_is_held(world: LiveWorld) -> None:
    world.build(lost="a")
    world.data(autorecovery, "release", "--zone", "a", "--yes", *WHO)
    world.data(autorecovery, "disable", "--yes", *WHO)
    data = world.data(autorecovery, "enable", "--dry-run", *WHO)
    assert (data["bookies"], data["tokens"]) == (["bk-a-0", "bk-a-1"], [])
    world.data(autorecovery, "hold", "--cluster", *WHO)
    assert world.data(autorecovery, "enable", "--dry-run", *WHO)["bookies"] == []


def test_what_a_person_holds_stays_held_whoever_threw_the_switch(world: LiveWorld) -> None:
    world.build(lost="a")
    world.data(autorecovery, "hold", "--zone", "a", *WHO)
    thrown_by_the_watch(world)
    data = world.data(autorecovery, "enable", "--yes", *WHO)
    assert (data["bookies"], data["tokens"]) == ([], [])


def test_enabling_what_is_on_counts_nothing(world: LiveWorld) -> None:
    world.build(lost="a")
    world.data(autorecovery, "release", "--zone", "a", "--yes", *WHO)
    data = world.data(autorecovery, "enable", "--yes", *WHO)
    assert (data["done"], data["bookies"]) == (False, [])


# ── a gate ──


def test_a_hold_stands_until_it_is_released(world: LiveWorld) -> None:
    world.build()
    assert (
        "zone b is held: held by anna"
        in world.call(autorecovery, "hold", "--zone", "b", *WHO).stdout
    )
    assert permission(world, "b") is Permission.HELD
    world.data(autorecovery, "release", "--zone", "b", "--yes", *WHO)
    assert permission(world, "b") is Permission.OPEN


def test_the_cluster_is_held_and_released_as_a_whole(world: LiveWorld) -> None:
    world.build()
    world.data(autorecovery, "hold", "--cluster", *WHO)
    assert world.data(autorecovery, "status")["clusterHeld"] is True
    world.data(autorecovery, "release", "--cluster", "--yes", *WHO)
    assert world.data(autorecovery, "status")["clusterHeld"] is False


def test_a_release_says_first_what_it_will_do(world: LiveWorld) -> None:
    world.build(lost="a")
    result = world.call(autorecovery, *RELEASE, "--yes")
    assert result.exit_code == 0
    for words in ("bookies lost", "ledgers", "to be copied", "across zones", "time"):
        assert words in result.stdout
    assert "zone a: released, released by anna: it is gone" in result.stdout
    assert permission(world, "a") is Permission.RELEASED
    assert ("changed", "zone a", "anna") in world.told()


def test_a_release_says_what_holds_nevertheless(world: LiveWorld) -> None:
    world.build(lost="a")
    world.data(autorecovery, "disable", "--yes", *WHO)
    result = world.call(autorecovery, *RELEASE, "--yes")
    assert result.exit_code == 0
    assert "zone a: released" in result.stdout
    assert "nothing is repaired yet: automatic replication is switched off" in result.stdout
    world.data(autorecovery, "enable", "--yes", *WHO)
    world.data(autorecovery, "hold", "--zone", "a", *WHO)
    world.data(autorecovery, "hold", "--cluster", *WHO)
    still = world.data(autorecovery, *RELEASE, "--yes")["stillHeld"]
    assert isinstance(still, str)
    assert still.startswith("the cluster is held")
    data = world.data(autorecovery, "release", "--cluster", "--yes", *WHO)
    assert data["stillHeld"] is None


def test_a_dry_run_of_a_release_is_the_preflight_alone(world: LiveWorld) -> None:
    world.build(lost="a")
    data = world.data(autorecovery, *RELEASE, "--dry-run")
    assert data["done"] is False
    assert data["bookies"] == ["bk-a-0", "bk-a-1"]
    assert data["refusal"] is None
    assert permission(world, "a") is Permission.HELD


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("release", "--zone", "d", *WHO), "there is no zone d; there are a, b, c"),
        (("release", "--zone", "b", *WHO), "nothing of zone b is held: open since zone watch"),
        (("release", *WHO), "either --zone ZONE or --cluster"),
        (("hold", "--zone", "a", "--cluster", *WHO), "either --zone ZONE or --cluster"),
        (("hold", "--zone", "d", *WHO), "there is no zone d"),
        (("hold", "--zone", "a", "--reason", " ", "--by", "anna"), "the reason must be one line"),
        (("status", "--cluster-id", "other"), "this is another cluster"),
        (("release", "--zone", "a", "--by", "anna"), "Missing option '--reason'"),
    ],
)
def test_what_cannot_be_meant_is_refused_and_changes_nothing(
    world: LiveWorld, words: tuple[str, ...], reason: str
) -> None:
    world.build(lost="a")
    result = world.call(autorecovery, *words)
    assert result.exit_code == 2
    assert reason in result.stderr
    assert permission(world, "a") is Permission.HELD
    assert world.told() == []


def test_what_nobody_has_watched_cannot_be_released(world: LiveWorld) -> None:
    world.build(lost="a", watched=False)
    result = world.call(autorecovery, *RELEASE, "--yes")
    assert result.exit_code == 2
    assert "no readable record of zone a" in result.stderr


# ── run ──


def run(*words: str) -> tuple[int, str]:
    # A person who tries things out beside the tests has set it.
    runner = CliRunner(env={"ZONEKEEPER_METADATA": None})
    result = runner.invoke(autorecovery, ["run", *words], catch_exceptions=False)
    return result.exit_code, result.stderr


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--metadata", "ftp://x"), "--metadata: "),
        (("--metadata", "sqlite:///x", "--name", "a b"), "--name: 'a b' cannot stand in a vote"),
        (("--metadata", "sqlite:///x", "--http", "8080"), "--http: '8080': must be HOST:PORT"),
        (
            ("--metadata", "sqlite:///x", "--workers", "0"),
            "--workers: '0': must be a whole number from 1 to 64",
        ),
        (("--metadata", "sqlite:///x", "--zone", "a/b"), "--zone: 'a/b' cannot be a zone's name"),
        (("--metadata", "sqlite:///x", "--tls-key", "k"), "--tls-authority: must be given"),
    ],
)
def test_a_wrong_setting_is_named(words: tuple[str, ...], reason: str) -> None:
    code, text = run(*words)
    assert code == 2
    assert reason in text


def test_a_file_gives_what_neither_flag_nor_environment_does(tmp_path: Path) -> None:
    file = tmp_path / "autorecovery.yaml"
    file.write_text(json.dumps({"metadata": "ftp://from-the-file", "tls-key": "k"}))
    code, text = run("--config", str(file))
    assert code == 2
    assert f"metadata in {file}: " in text
    code, text = run("--config", str(file), "--metadata", "sqlite:///x")
    assert code == 2
    assert "--tls-authority: must be given" in text
    file.write_text("store: zk://x:1/l\n")
    code, text = run("--config", str(file))
    assert code == 2
    assert f"'store' in {file}: there is no such setting; there are: metadata, name, zone" in text


def test_without_a_cluster_it_ends_with_one_clear_line(tmp_path: Path) -> None:
    code, text = run("--metadata", f"sqlite://{tmp_path / 'meta.db'}", "--http", "127.0.0.1:0")
    assert code == 2
    assert "there is no such file" in text
