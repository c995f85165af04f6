"""What the image is made of is enough to run it: its lock, and the wheel of this checkout.

There is no container here. The installing is the Dockerfile's own, line by line, into a folder; but
the wheel is built with what is pinned here, and not with the newest that there is today.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.repo import checkout
from tests.support.checkout_root import ROOT

pytestmark = pytest.mark.processes

#: What pods run, and what a person runs in one.
COMMANDS = (
    ("operator", "run"),
    ("bookie", "run"),
    ("autorecovery", "run"),
    ("zones", "status"),
)


def build_steps() -> list[str]:
    """Give the commands of the image's first stage, each in one line."""
    text = (ROOT / "Dockerfile").read_text("utf-8").replace("\\\n", "")
    stage = text.split("\nFROM ")[1]
    return [" ".join(step.split()) for step in re.findall(r"^RUN (.+)$", stage, re.MULTILINE)]


def test_what_the_image_installs_runs_its_commands(tmp_path: Path) -> None:
    source, target = checkout.copy_to(tmp_path / "source"), tmp_path / "opt"
    pip = [sys.executable, "-m", "pip"]
    for step in build_steps():
        here = step.replace("/opt/zonekeeper", str(target)).replace("/wheels", str(tmp_path / "w"))
        here = re.sub(r"(^|&& )python ", rf"\1{sys.executable} ", here)
        here = re.sub(r"(^|&& )pip ", rf"\1{' '.join(pip)} ", here).replace("--no-cache-dir ", "")
        here = here.replace(" wheel ", " wheel --no-build-isolation ")
        subprocess.run(["bash", "-euc", here], cwd=source, check=True)
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
    shipped = (ROOT / "manifests" / "deployment.yaml").read_text("utf-8")
    assert f"runAsUser: {user[1]}" in shipped
    assert f"runAsGroup: {user[2]}" in shipped
