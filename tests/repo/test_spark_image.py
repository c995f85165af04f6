"""The image for Spark: its recipe, its lock and the pods' templates say the same.

What the recipe makes is made in a folder, as for the other image (``tests/repo/test_image.py``).
"""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.support import image_root, java_runtime
from tests.support.checkout_root import ROOT

TEMPLATES = ("driver.yaml", "executor.yaml")


def last_stage() -> list[str]:
    return image_root.dockerfile(image_root.SPARK).split("\nFROM ")[-1].splitlines()


def pinned(lock: str) -> dict[str, str]:
    text = (ROOT / lock).read_text("utf-8")
    return dict(re.findall(r"^([\w.-]+)==(\S+)", text, re.M))


def test_all_of_python_is_pinned_with_hashes_as_everywhere() -> None:
    steps = image_root.build_steps(image_root.SPARK)
    spark, build, wheel = (
        step for step in " && ".join(steps).split(" && ") if step.startswith("pip ")
    )
    assert "--require-hashes --only-binary :all: --no-binary pyspark" in spark
    assert "--requirement requirements.spark.lock" in spark
    assert "--require-hashes --only-binary :all:" in build
    assert "--no-index --no-deps /wheels/" in wheel

    ours, every = pinned("requirements.spark.lock"), pinned("requirements.lock")
    assert {"pyspark", "pyarrow", "grpcio", "kazoo"} <= ours.keys()
    assert {name: every.get(name) for name in ours} == ours
    for one in (ROOT / "requirements.spark.lock").read_text("utf-8").split("\n\n"):
        assert one.count("==") <= one.count("--hash=sha256:")


def test_pods_run_as_the_user_of_the_image_and_name_its_entry_point() -> None:
    (user,) = (line for line in last_stage() if line.startswith("USER "))
    (entry,) = (line for line in last_stage() if line.startswith("ENTRYPOINT "))
    for name in TEMPLATES:
        spec = yaml.safe_load((ROOT / "manifests" / "spark" / name).read_text("utf-8"))["spec"]
        about = spec["securityContext"]
        assert user == f"USER {about['runAsUser']}:{about['runAsGroup']}"
        (container,) = spec["containers"]
        assert container["command"] == json.loads(entry.removeprefix("ENTRYPOINT "))


def test_the_last_stage_takes_what_the_first_has_made_and_has_java() -> None:
    lines = last_stage()
    assert f"COPY --from=build {image_root.PLACE} {image_root.PLACE}" in lines
    assert image_root.environment(image_root.SPARK)["PATH"] == f"{image_root.PLACE}/bin:$PATH"
    assert any("openjdk-17-jre-headless" in line for line in lines)


@pytest.mark.processes
@pytest.mark.long
def test_what_the_image_installs_runs_jobs(tmp_path: Path) -> None:
    """Spark is the whole of the cost: it is unpacked and copied, 850 MB."""
    java = java_runtime.require("Spark")
    target = image_root.made(tmp_path, image_root.SPARK)
    path = f"{target / 'bin'}:{java.parent}:{os.environ['PATH']}"
    alone = {"PATH": path, "HOME": str(tmp_path)}

    def said(*words: str | Path) -> str:
        entry = (target / "bin" / "python", "-m", "zonekeeper.pipeline.commands.container")
        ended = subprocess.run(
            [*entry, *words], cwd=tmp_path, env=alone, check=False, capture_output=True, text=True
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout + ended.stderr

    assert "zone-report" in said("python", "-m", "zonekeeper.pipeline", "--help")
    assert "zone-report" in said("python", target / "jobs" / "job.py", "--help")
    assert "version 4." in said("spark-submit", "--version")
