"""What the image is made of is enough to run it: its lock, and the wheel of this checkout.

There is no container here: ``tests/support/image_root`` says how the folder is made. In the lab
pods run from it (``tests/cluster/test_image_in_pods.py``).
"""

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.support import image_root
from tests.support.checkout_root import ROOT

pytestmark = pytest.mark.processes

#: What pods run, and what a person runs in one.
COMMANDS = (
    ("operator", "run"),
    ("bookie", "run"),
    ("autorecovery", "run"),
    ("zones", "status"),
)


def test_what_the_image_installs_runs_its_commands(tmp_path: Path) -> None:
    target = image_root.made(tmp_path)
    alone = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    for command in COMMANDS:
        said = subprocess.run(
            [target / "bin" / "zonekeeper", *command, "--help"],
            cwd=tmp_path,
            env=alone,
            check=True,
            capture_output=True,
            text=True,
        )
        assert "Usage: zonekeeper" in said.stdout
    page = subprocess.run(
        [target / "bin" / "zonekeeper", "runbook", "zoneHeld"],
        cwd=tmp_path,
        env=alone,
        check=True,
        capture_output=True,
        text=True,
    )
    in_checkout = ROOT / "shell" / "zonekeeper" / "shell" / "runbooks" / "zoneHeld.md"
    assert page.stdout == in_checkout.read_text("utf-8")


def test_pods_run_as_the_user_of_the_image() -> None:
    user = re.search(r"^USER (\d+):(\d+)$", (ROOT / "Dockerfile").read_text(), re.M)
    assert user is not None
    shipped = (ROOT / "manifests" / "operator" / "deployment.yaml").read_text("utf-8")
    assert f"runAsUser: {user[1]}" in shipped
    assert f"runAsGroup: {user[2]}" in shipped


def test_the_last_stage_takes_what_the_first_has_made_and_finds_its_commands() -> None:
    last = image_root.dockerfile().split("\nFROM ")[-1]
    assert f"COPY --from=build {image_root.PLACE} {image_root.PLACE}" in last.splitlines()
    assert image_root.environment()["PATH"] == f"{image_root.PLACE}/bin:$PATH"
    made = {word for step in image_root.build_steps() for word in step.split()}
    assert f"{image_root.PLACE}/bin/pip" in made
    assert "--require-hashes" in made
