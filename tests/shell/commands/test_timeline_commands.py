"""``zonekeeper timeline``: what happened, the newest first."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.shell.live_world import WALL_MS, LiveWorld
from zonekeeper.metadata.cluster import timeline as stored
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.cluster.timeline import Event
from zonekeeper.shell.commands.timeline import timeline


@pytest.fixture
def world(tmp_path: Path) -> LiveWorld:
    world = LiveWorld(tmp_path)
    world.build()
    return world


def happened(world: LiveWorld, *subjects: str) -> None:
    async def write(cluster: Cluster) -> None:
        for number, subject in enumerate(subjects):
            event = Event(
                at_ms=WALL_MS + number * 1_000,
                kind="held",
                subject=subject,
                by="anna",
                reason=f"reason {number}",
                token=str(number),
            )
            await stored.append(cluster, event)

    world.on(write)


def test_the_newest_comes_first(world: LiveWorld) -> None:
    happened(world, "zone a", "zone b")
    lines = world.call(timeline).stdout.splitlines()
    told = [line.split() for line in lines if "held" in line]
    assert [line[1] for line in told] == ["22:13:21Z", "22:13:20Z"]
    assert "reason 1" in " ".join(told[0])


def test_in_a_narrow_window_no_reason_is_cut_off(world: LiveWorld) -> None:
    happened(world, "automatic replication")
    env = {"COLUMNS": "80", "ZONEKEEPER_METADATA": world.address}
    lines = CliRunner(env=env).invoke(timeline, []).stdout.splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert "reason 0" in lines[3]
    assert "…" not in "".join(lines)


def test_some_of_it_as_data(world: LiveWorld) -> None:
    happened(world, "zone a", "zone b", "bookie a-0")
    result = world.call(timeline, "--output", "json", "--about", "zone", "--limit", "1")
    (found,) = json.loads(result.stdout)
    assert (found["subject"], found["by"], found["reason"]) == ("zone b", "anna", "reason 1")


def test_an_empty_one_says_so(world: LiveWorld) -> None:
    assert world.call(timeline).stdout == "the timeline has no such event\n"


@pytest.mark.parametrize("words", [["--limit", "0"], ["--cluster-id", "other"]])
def test_wrong_input_is_refused(world: LiveWorld, words: list[str]) -> None:
    assert world.call(timeline, *words).exit_code == 2
