"""`make kind` and `make test-kind`: a Kubernetes cluster in Docker, and zonekeeper in it.

    python -m tests.cluster.on_kind up       the cluster, the image, the chart, the sample
    python -m tests.cluster.on_kind test     the cluster and the image; then the lab's suite in it

The commands are kind's, helm's and kubectl's own, which the lab's toolchain builds. Where there is
no Docker one line says so, and the exit code is 2.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.cluster import toolchain
from tests.support.checkout_root import ROOT

KIND_FILE = ROOT / "manifests" / "kind.yaml"
CHART = ROOT / "charts" / "zonekeeper"
SAMPLES = ROOT / "manifests" / "samples"
CLUSTER = "zonekeeper"
IMAGE = "zonekeeper:0.1.0"
#: The namespace of the sample.
SPACE = "logs"
SYSTEM = "zonekeeper-system"
MISSING = 2


class MissingError(Exception):
    """This machine lacks what a cluster in Docker needs; the message is one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One command, and what it needs in its environment."""

    words: tuple[str, ...]
    env: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """Where the programs are, and the file that names the cluster."""

    kind: str
    kubectl: str
    helm: str
    kubeconfig: Path


def require_docker() -> str:
    """Give the path of docker; raises ``MissingError`` if it is not there or does not answer."""
    found = shutil.which("docker")
    if found is None:
        raise MissingError("a cluster of kind needs Docker, and there is no `docker` on the PATH")
    asked = subprocess.run([found, "info"], check=False, capture_output=True, text=True)
    if asked.returncode != 0:
        why = (asked.stderr.strip() or asked.stdout.strip()).splitlines()[-1:]
        raise MissingError(
            f"a cluster of kind needs Docker, which does not answer: {' '.join(why)}"
        )
    return found


def cluster(tools: Tools, docker: str, *, there: bool) -> list[Command]:
    """Make the cluster, unless it is there, and let its nodes know the image."""
    made = () if there else (tools.kind, "create", "cluster", "--config", str(KIND_FILE))
    commands = [
        (*made, "--kubeconfig", str(tools.kubeconfig), "--wait", "5m") if made else (),
        (
            tools.kind,
            "export",
            "kubeconfig",
            "--name",
            CLUSTER,
            "--kubeconfig",
            str(tools.kubeconfig),
        ),
        (docker, "build", "--tag", IMAGE, str(ROOT)),
        (tools.kind, "load", "docker-image", IMAGE, "--name", CLUSTER),
    ]
    return [Command(words=words) for words in commands if words]


def installed(tools: Tools) -> list[Command]:
    """Install the chart and the sample, and wait until its bookies are ready."""
    env = {"KUBECONFIG": str(tools.kubeconfig)}
    commands = [
        (
            *(tools.helm, "upgrade", "--install", "zonekeeper", str(CHART), "--create-namespace"),
            *("--namespace", SYSTEM, "--wait", "--timeout", "10m"),
        ),
        (tools.kubectl, "create", "namespace", SPACE),
        (
            *(tools.kubectl, "apply", "-n", SPACE),
            *(
                "-f",
                str(SAMPLES.parent / "zookeeper.yaml"),
                "-f",
                str(SAMPLES / "bookiecluster.yaml"),
            ),
        ),
        (
            *(tools.kubectl, "wait", "-n", SPACE, "bkc/log", "--for=condition=Ready"),
            "--timeout=15m",
        ),
        (tools.kubectl, "get", "-n", SPACE, "bkc,pods", "-o", "wide"),
    ]
    return [Command(words=words, env=env) for words in commands]


def suite(tools: Tools) -> list[Command]:
    """Run the lab's suite in the cluster."""
    env = {"ZONEKEEPER_KUBECONFIG": str(tools.kubeconfig), "CI": "1"}
    words = (sys.executable, "-m", "pytest", "-m", "cluster and not long", "tests/cluster")
    return [Command(words=words, env=env)]


def run(commands: Sequence[Command]) -> None:
    """Run commands, each to its end; raises ``CalledProcessError``."""
    for command in commands:
        sys.stdout.write(f"$ {' '.join(command.words)}\n")
        sys.stdout.flush()
        known = command.words[1:3] == ("create", "namespace")  # it may be there already
        subprocess.run(command.words, check=not known, cwd=ROOT, env=os.environ | command.env)


def main(arguments: Sequence[str]) -> int:
    """Do what the command line says; give the exit code."""
    try:
        docker = require_docker()
        kind = str(toolchain.build(toolchain.KIND_PROGRAM) / "kind")
        tools = Tools(
            kind=kind,
            kubectl=str(toolchain.build(toolchain.KUBERNETES_PROGRAM) / "kubectl"),
            helm=str(toolchain.build(toolchain.HELM_PROGRAM) / "helm"),
            kubeconfig=toolchain.cache_folder() / "kind.kubeconfig",
        )
        listed = subprocess.run(
            [kind, "get", "clusters"], check=True, capture_output=True, text=True
        )
        there = CLUSTER in listed.stdout.split()
        ending = suite(tools) if arguments == ["test"] else installed(tools)
        run([*cluster(tools, docker, there=there), *ending])
    except (MissingError, toolchain.UnavailableError) as error:
        sys.stderr.write(f"{error}\n")
        return MISSING
    except subprocess.CalledProcessError as error:
        sys.stderr.write(f"`{' '.join(map(str, error.cmd))}` ended with {error.returncode}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
