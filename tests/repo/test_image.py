"""What the image is made of is enough to run it: its lock, and the wheel of this checkout.

There is no container here: ``tests/support/image_root`` says how the folder is made. In the lab
pods run from it (``tests/cluster/test_image_in_pods.py``).
"""

import json
import os
import re
import stat
import subprocess
from importlib import metadata
from pathlib import Path

import pytest

from tests.supply import bills, make
from tests.support import image_root
from tests.support.checkout_root import ROOT

pytestmark = pytest.mark.processes

OURS = {"zonekeeper": "0.1.0"}
#: What pods run, and what a person runs in one.
COMMANDS = (
    ("operator", "run"),
    ("bookie", "run"),
    ("autorecovery", "run"),
    ("zones", "status"),
)


def test_what_the_image_installs_runs_its_commands(tmp_path: Path) -> None:
    target = image_root.made(tmp_path)
    assert_nothing_but_what_runs_is_in(target)
    bill, wrong = make.of_image(target)
    assert wrong == []
    really = {
        one.metadata["Name"]: one.version
        for one in metadata.distributions(path=[str(site_packages(target))])
    }
    assert {one["name"]: one["version"] for one in parts_of(bill)} | OURS == really
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


def site_packages(target: Path) -> Path:
    (found,) = target.glob("lib/python3*/site-packages")
    return found


def parts_of(bill: bills.Bill) -> list[dict[str, str]]:
    found: list[dict[str, str]] = json.loads(bills.spelled(bill))["components"]
    return found


def assert_nothing_but_what_runs_is_in(target: Path) -> None:
    names = {path.name for path in (target / "bin").iterdir()}
    assert {name for name in names if re.match(r"pip|wheel|hatch|easy_install", name)} == set()
    assert {path.name for path in site_packages(target).glob("pip*")} == set()
    modes = [path.stat().st_mode for path in target.rglob("*") if not path.is_symlink()]
    assert not any(mode & (stat.S_ISUID | stat.S_ISGID) for mode in modes)


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


def test_every_install_is_checked_by_hashes_and_runs_no_code_of_a_package() -> None:
    steps = [each for step in image_root.build_steps() for each in step.split(" && ")]
    installs = [step for step in steps if re.match(r"(\S*/)?pip |\S*python -m pip ", step)]
    assert len(installs) == 3
    for step in installs:
        if "/wheels/" in step:  # our own, which was built in this stage
            assert "--no-index --no-deps" in step
        else:
            assert "--require-hashes --only-binary :all:" in step
    (built,) = [step for step in steps if "hatchling" in step]
    assert built.startswith(f"{image_root.BUILD_PLACE}/bin/python ")
    assert [step for step in steps if "pip wheel" in step or "git+" in step] == []


def test_the_last_stage_runs_no_shell_and_has_no_installer() -> None:
    last = image_root.dockerfile().split("\nFROM ")[-1]
    for kind, rest in re.findall(r"^(RUN|CMD|ENTRYPOINT|SHELL|ADD) (.+)$", last, re.MULTILINE):
        assert rest.startswith("["), f"{kind} {rest} needs a shell"
    uninstalled = re.findall(r"^RUN (\[.+\])$", last, re.MULTILINE)
    assert [json.loads(words)[-3:] for words in uninstalled] == [["setuptools", "wheel", "pip"]]
    assert "COPY --from=build /opt/zonekeeper " in last
    assert image_root.BUILD_PLACE not in last


def test_both_stages_have_the_base_that_a_release_names() -> None:
    text = image_root.dockerfile()
    assert re.findall(r"^FROM (\S+)", text, re.MULTILINE) == ["${BASE}", "${BASE}"]
    assert len(re.findall(r"^ARG BASE=", text, re.MULTILINE)) == 1
