"""The command ``zonekeeper operator plan``: its files, its answers, its exit codes."""

import asyncio
import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from tests.operator.resources import resource
from tests.operator.worlds import World
from zonekeeper.operator import commands
from zonekeeper.operator.kubernetes.api import Json
from zonekeeper.operator.kubernetes.api_server import ApiServer


async def settled() -> World:
    world = World()
    await world.settle()
    return world


@pytest.fixture
def live(monkeypatch: pytest.MonkeyPatch) -> World:
    """A cluster that stands in the twin of Kubernetes; its store is not reached from here."""
    world = asyncio.run(settled())
    monkeypatch.setattr(ApiServer, "from_surroundings", lambda: world.kubernetes)
    return world


def run(folder: Path, item: Json, *more: str) -> Result:
    file = folder / "cluster.yaml"
    file.write_text(yaml.safe_dump(item))
    return CliRunner().invoke(commands.commands, ["plan", "-f", str(file), *more])


@pytest.mark.usefixtures("live")
def test_what_would_be_done_is_printed_with_zero(tmp_path: Path) -> None:
    done = run(tmp_path, resource(image="zonekeeper:0.2.0"))

    assert done.exit_code == 0, done.output
    assert "roll: 6 steps" in done.stdout
    assert "the metadata store was not reached from here" in done.stdout
    assert done.stdout.endswith("nothing was changed\n")


@pytest.mark.usefixtures("live")
def test_what_is_refused_is_printed_with_one(tmp_path: Path) -> None:
    done = run(tmp_path, resource(policy={"quorums": {"ack": 4}}), "-o", "json")

    assert done.exit_code == 1
    assert json.loads(done.stdout)["legal"] is False


@pytest.mark.usefixtures("live")
def test_a_file_without_such_a_resource_ends_with_two(tmp_path: Path) -> None:
    for item in (resource() | {"kind": "Pod"}, {"kind": "BookieCluster"}):
        done = run(tmp_path, item)
        assert done.exit_code == 2
        assert done.stdout == ""
    assert CliRunner().invoke(commands.commands, ["plan", "-f", "/nowhere.yaml"]).exit_code == 2
    assert run(tmp_path, resource(), "-n", "other").exit_code == 2


def test_without_kubernetes_it_ends_with_one_and_says_what_to_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "nothing"))
    monkeypatch.setenv("HOME", str(tmp_path))

    done = run(tmp_path, resource())

    assert done.exit_code == 1
    assert "KUBECONFIG" in done.stderr
