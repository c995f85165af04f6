"""What a Dockerfile makes, made without Docker: its first stage, line by line, in a folder.

The installing is the Dockerfile's own. Only the folders differ: they stand in the places of
``/opt/zonekeeper``, of ``/opt/build`` and of ``/wheels``. pip is that of this environment.
"""

import re
import subprocess
import sys
from pathlib import Path

from tests.repo import checkout
from tests.support.checkout_root import ROOT

#: What the image has where this makes a folder.
PLACE = "/opt/zonekeeper"
#: The image of all but Spark, and that of Spark.
ONE, SPARK = "Dockerfile", "Dockerfile.spark"
#: Where the image's first stage has what builds the wheel.
BUILD_PLACE = "/opt/build"


def dockerfile(name: str = ONE) -> str:
    """Give a Dockerfile, each instruction in one line."""
    return (ROOT / name).read_text("utf-8").replace("\\\n", "")


def build_steps(name: str = ONE) -> list[str]:
    """Give the commands of the image's first stage, each in one line."""
    stage = dockerfile(name).split("\nFROM ")[1]
    return [" ".join(step.split()) for step in re.findall(r"^RUN (.+)$", stage, re.MULTILINE)]


def environment(name: str = ONE) -> dict[str, str]:
    """Give the variables that the image sets, as the Dockerfile spells them."""
    last = dockerfile(name).split("\nFROM ")[-1]
    pairs = [
        pair for line in re.findall(r"^ENV (.+)$", last, re.MULTILINE) for pair in line.split()
    ]
    return dict(pair.split("=", 1) for pair in pairs)


def made(folder: Path, name: str = ONE) -> Path:
    """Do what the first stage does; give what stands for ``/opt/zonekeeper``."""
    source, target, wheels = checkout.copy_to(folder / "source"), folder / "opt", folder / "w"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    for step in build_steps(name):
        here = step.replace(PLACE, str(target)).replace(BUILD_PLACE, str(folder / "build"))
        here = here.replace("/wheels", str(wheels))
        here = re.sub(r"(^|&& )python ", rf"\1{sys.executable} ", here)
        here = re.sub(r"(^|&& )pip ", rf"\1{' '.join(pip)} ", here).replace("--no-cache-dir ", "")
        subprocess.run(["bash", "-euc", here], cwd=source, check=True)
    return target
