"""`make kind` and `make test-kind`, as far as they can be checked without Docker.

kind's own parser reads ``manifests/kind.yaml``; every file that a command names is there; and
without Docker one line says what is missing.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.cluster import on_kind, toolchain
from tests.cluster.installation import ZONES
from tests.cluster.on_kind import KIND_FILE, Tools
from tests.support.checkout_root import ROOT

TOOLS = Tools(kind="kind", kubectl="kubectl", helm="helm", kubeconfig=Path("/x/kubeconfig"))

#: As much of docker as kind asks for before it starts a node: then it fails, and says so.
INFO = {"CgroupDriver": "systemd", "CgroupVersion": "2", "MemoryLimit": True, "PidsLimit": True}
DOCKER = f"""#!/bin/sh
case "$1" in
  info) echo '{json.dumps(INFO | {"CPUShares": True, "SecurityOptions": []})}' ;;
  version) echo 27.0.0 ;;
  ps|network) ;;
  *) echo "docker $1: this is no docker" >&2; exit 3 ;;
esac
"""


@pytest.fixture(scope="module")
def kind() -> Path:
    try:
        return toolchain.build(toolchain.KIND_PROGRAM) / "kind"
    except toolchain.UnavailableError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"no kind on this machine: {error}")


def create(kind: Path, folder: Path, config: Path) -> str:
    """Let kind create a cluster with the stand-in for docker; give its words."""
    docker = folder / "docker"
    docker.write_text(DOCKER)
    docker.chmod(0o755)
    done = subprocess.run(
        [kind, "create", "cluster", "--config", config, "--kubeconfig", folder / "kubeconfig"],
        env={"PATH": f"{folder}:/usr/bin:/bin", "HOME": str(folder)},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0
    return done.stdout + done.stderr


@pytest.mark.cluster
def test_kind_takes_the_file_and_goes_on_to_docker(kind: Path, tmp_path: Path) -> None:
    said = create(kind, tmp_path, KIND_FILE)

    assert 'Creating cluster "zonekeeper"' in said, "its parser and its checks have passed"
    assert "this is no docker" in said


@pytest.mark.cluster
@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("role: worker", "rolle: worker", "rolle"),
        ("role: worker", "role: wroker", "wroker"),
        ("v1alpha4", "v1alpha9", "v1alpha9"),
    ],
)
def test_kind_refuses_a_file_that_is_wrong(
    kind: Path, tmp_path: Path, before: str, after: str, words: str
) -> None:
    wrong = tmp_path / "kind.yaml"
    wrong.write_text(KIND_FILE.read_text().replace(before, after, 1))

    said = create(kind, tmp_path, wrong)

    assert words in said
    assert "Creating cluster" not in said


def test_the_nodes_are_in_the_zones_of_the_sample_and_two_in_the_first() -> None:
    config = yaml.safe_load(KIND_FILE.read_text())
    sample = yaml.safe_load((on_kind.SAMPLES / "bookiecluster.yaml").read_text())
    zones = [
        node["labels"]["topology.kubernetes.io/zone"]
        for node in config["nodes"]
        if node["role"] == "worker"
    ]

    assert config["name"] == on_kind.CLUSTER
    assert zones == ["a", *ZONES]
    assert [zone["name"] for zone in sample["spec"]["zones"]] == [*ZONES]


def test_the_commands_name_files_and_an_image_that_are_there() -> None:
    commands = [
        *on_kind.cluster(TOOLS, "docker", there=False),
        *on_kind.installed(TOOLS),
        *on_kind.suite(TOOLS),
    ]
    values = yaml.safe_load((on_kind.CHART / "values.yaml").read_text())
    chart = yaml.safe_load((on_kind.CHART / "Chart.yaml").read_text())
    sample = yaml.safe_load((on_kind.SAMPLES / "bookiecluster.yaml").read_text())

    named = {word for one in commands for word in one.words if word.startswith(str(ROOT))}
    assert {Path(word).name for word in named} >= {"kind.yaml", "zookeeper.yaml", "zonekeeper"}
    assert [word for word in named if not Path(word).exists()] == []
    assert f"{values['image']['repository']}:{chart['appVersion']}" == on_kind.IMAGE
    assert sample["spec"]["image"] == on_kind.IMAGE
    assert sample["spec"]["metadata"]["uri"].startswith("zk://zookeeper:2181/")


def test_a_cluster_that_is_there_is_not_made_again() -> None:
    words = [one.words[:3] for one in on_kind.cluster(TOOLS, "docker", there=True)]
    assert ("kind", "create", "cluster") not in words
    assert ("kind", "load", "docker-image") in words


@pytest.mark.parametrize("what", ["up", "test"])
@pytest.mark.parametrize(
    ("docker", "words"),
    [
        (None, "there is no `docker` on the PATH"),
        ("#!/bin/sh\necho 'cannot connect to the daemon' >&2; exit 1\n", "cannot connect"),
    ],
)
def test_without_docker_one_line_says_so(
    tmp_path: Path, what: str, docker: str | None, words: str
) -> None:
    if docker is not None:
        (tmp_path / "docker").write_text(docker)
        (tmp_path / "docker").chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-m", "tests.cluster.on_kind", what],
        cwd=ROOT,
        env={"PATH": str(tmp_path), "HOME": str(tmp_path)},
        check=False,
        capture_output=True,
        text=True,
    )

    assert done.returncode == on_kind.MISSING
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert words in done.stderr


def test_what_ci_runs_is_a_target_that_there_is() -> None:
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "kind.yaml").read_text())["jobs"]
    runs = [step["run"] for step in jobs["test-kind"]["steps"] if "run" in step]
    targets = (ROOT / "Makefile").read_text()

    assert runs == ["make test-kind"]
    assert "\ntest-kind: " in targets
    assert "\nkind: " in targets
