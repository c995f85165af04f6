"""The tools that `make check` runs catch what they are there for, in the house's settings."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.repo import checkout, guards
from tests.support.checkout_root import ROOT

PURE = "placement/zonekeeper/placement/base/planted.py"
MODULE = '"""A planted offence."""\n\n'

#: What reads or runs more than it was given, with the number of ruff's rule (of bandit's kind).
BANNED = {
    "import pickle\n\nx = pickle.loads(b'')\n": 301,
    "import marshal\n\nx = marshal.loads(b'')\n": 302,
    "x = eval('1')\n": 307,
    "exec('x = 1')\n": 102,
    "import yaml\n\nx = yaml.load('', yaml.Loader)\n": 506,
    "import subprocess\n\nsubprocess.run('ls', shell=True, check=True)\n": 602,
    "import os\n\nos.system('ls')\n": 605,
    "import tarfile\n\ntarfile.open('x').extractall('y')\n": 202,
    "import hashlib\n\nx = hashlib.md5(b'')\n": 324,
}

# The editable install would show import-linter the real folders beside the copied ones.
LINT_IMPORTS = """
import sys
real, copies = sys.argv[1], sys.argv[2].split(":")
sys.path[:] = copies + [p for p in sys.path if not p.startswith(real) or "site-packages" in p]
from importlinter import cli
sys.exit(cli.lint_imports())
"""


@pytest.fixture
def house(tmp_path: Path) -> Path:
    return checkout.linked_to(tmp_path)


def lint_imports(house: Path) -> subprocess.CompletedProcess[str]:
    copies = ":".join(str(house / folder) for folder in guards.components(house))
    return run(house, "-c", LINT_IMPORTS, str(ROOT), copies)


def run(house: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=house,
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "MYPY_CACHE_DIR": str(house / ".mypy_cache")},
    )


def test_the_copy_itself_is_clean(house: Path) -> None:
    found = lint_imports(house)

    assert found.returncode == 0, found.stdout + found.stderr


@pytest.mark.parametrize(
    ("name", "text", "contract"),
    [
        (PURE, "from zonekeeper import metadata\n", "Components import only downwards"),
        (
            "metadata/zonekeeper/metadata/planted.py",
            "from zonekeeper import wire\n",
            "Components import only downwards",
        ),
        ("sidecar/zonekeeper/sidecar/__init__.py", "", "Components import only downwards"),
        (PURE, "import random\n", "The core is pure"),
        (PURE, "import time\n", "The core is pure"),
        (PURE, "import asyncio\n", "The core is pure"),
        (PURE, "import click\n", "The core is pure"),
        ("wire/zonekeeper/wire/lanes/planted.py", "import asyncio\n", "The core is pure"),
        (
            "replication/zonekeeper/replication/decisions/planted.py",
            "import logging\n",
            "The core is pure",
        ),
        (
            "operator/zonekeeper/operator/plan/planted.py",
            "import asyncio\n",
            "The operator's decisions are pure",
        ),
        *(
            (
                f"{component}/zonekeeper/{component}/{room}/planted.py",
                f"from zonekeeper.{component} import {above}\n",
                f"The rooms of {component} import only downwards",
            )
            for component, room, above in (
                ("placement", "base", "zones"),
                ("wire", "formats", "link"),
                ("metadata", "formats", "store"),
                ("client", "writing", "sessions"),
                ("bookie", "ledgers", "storage"),
                ("replication", "decisions", "audit"),
                ("operator", "plan", "run"),
                ("shell", "reports", "commands"),
            )
        ),
        (
            "operator/zonekeeper/operator/plan/keeping/planted.py",
            "from zonekeeper.operator.plan import planning\n",
            "The operator's planner folds stages",
        ),
        (
            "operator/zonekeeper/operator/plan/keeping/planted.py",
            "",
            "A stage of keeping knows no other",
        ),
        (
            "operator/zonekeeper/operator/plan/removing/planted.py",
            "",
            "A stage of removing knows no other",
        ),
        (
            "replication/zonekeeper/replication/planted.py",
            "",
            "The rooms of replication import only downwards",
        ),
    ],
)
def test_layers_catch(house: Path, name: str, text: str, contract: str) -> None:
    checkout.plant(house, name, MODULE + text)
    if name.startswith("sidecar"):
        copies = [*guards.components(house), "sidecar"]
        found = run(
            house,
            "-c",
            LINT_IMPORTS,
            str(ROOT),
            ":".join(str(house / folder) for folder in copies),
        )
    else:
        found = lint_imports(house)

    assert found.returncode != 0
    assert is_broken(contract, found.stdout), found.stdout


def is_broken(contract: str, told: str) -> bool:
    """Does import-linter's summary call this contract broken? It wraps long names."""
    summary = " ".join(told.split("Contracts: ", maxsplit=1)[0].split())
    return re.search(rf"{re.escape(contract)}(?:(?! KEPT| BROKEN).)* BROKEN", summary) is not None


def test_layers_catch_a_cycle(house: Path) -> None:
    for here, there in (("left", "right"), ("right", "left")):
        text = f"from zonekeeper.placement.base import {there}\n"
        checkout.plant(house, f"placement/zonekeeper/placement/base/{here}.py", MODULE + text)

    found = lint_imports(house)

    assert found.returncode != 0
    assert is_broken("No cycles", found.stdout), found.stdout


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("def f() -> int:\n    import os\n\n    return os.getpid()\n", "PLC0415"),
        ("from .ids import LedgerId\n\nx: LedgerId\n", "TID252"),
        ("import time\n\nnow = time.time()\n", "TID251"),
        ("try:\n    x = 1\nexcept Exception:\n    x = 2\n", "BLE001"),
        ("def f(a, b, c, d, e, g, h):\n    return a\n", "PLR0913"),
        ("print('x')\n", "T201"),
        *((text, f"S{number}") for text, number in BANNED.items()),
    ],
)
def test_ruff_catches(house: Path, text: str, rule: str) -> None:
    checkout.plant(house, PURE, MODULE + text)

    found = run(house, "-m", "ruff", "check", "--no-cache", PURE)

    assert found.returncode != 0
    assert rule in found.stdout


def test_mypy_catches_an_untyped_function_in_code_and_in_tests(house: Path) -> None:
    """One run for both, in strict mode: what is not annotated is not believed."""
    checkout.plant(house, PURE, MODULE + "def f(a):\n    return a\n")
    checkout.plant(house, "tests/test_planted.py", "def test_it():\n    assert True\n")

    found = run(house, "-m", "mypy", PURE, "tests/test_planted.py")

    assert found.returncode != 0
    assert "planted.py:3" in found.stdout
    assert "test_planted.py:1" in found.stdout
