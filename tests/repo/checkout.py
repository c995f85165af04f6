"""A copy of the checkout that a test may spoil."""

import shutil
from pathlib import Path

from tests.repo import guards
from tests.support.checkout_root import ROOT

_LEFT_OUT = shutil.ignore_patterns(".*", "__pycache__", "build", "dist")


def copy_to(target: Path, *, tests: bool = False) -> Path:
    """Copy what the tools and guards read: the code, its settings and its words."""
    for folder in (*guards.components(ROOT), "docs", "manifests", "tests"):
        if folder != "tests" or tests:
            shutil.copytree(ROOT / folder, target / folder, ignore=_LEFT_OUT)
    for path in ROOT.iterdir():
        if path.is_file() and not path.name.startswith("."):
            shutil.copy(path, target / path.name)
    (target / "tests").mkdir(exist_ok=True)
    return target


def plant(root: Path, name: str, text: str) -> None:
    """Write a file into a copy, with the folders above it."""
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
