"""Copies of the checkout that a test may spoil."""

import functools
import os
import shutil
import tempfile
from pathlib import Path

from tests.repo import guards
from tests.support.checkout_root import ROOT

_LEFT_OUT = shutil.ignore_patterns(".*", "__pycache__", "build", "dist")


def copy_to(target: Path, *, tests: bool = False) -> Path:
    """Copy what the tools and guards read: the code, its settings and its words."""
    for folder in (*guards.components(ROOT), "docs", "manifests", "tests"):
        if folder != "tests" or tests:
            shutil.copytree(ROOT / folder, target / folder, ignore=_LEFT_OUT)
    target.mkdir(exist_ok=True)
    for path in ROOT.iterdir():
        if path.is_file() and not path.name.startswith("."):
            shutil.copy(path, target / path.name)
    (target / "tests").mkdir(exist_ok=True)
    return target


@functools.cache
def _folder_of_the_process() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="house-")


def clean(*, tests: bool = False) -> Path:
    """Give this process's copy that nobody spoils."""
    target = Path(_folder_of_the_process().name, "with-tests" if tests else "without-tests")
    return target if target.exists() else copy_to(target, tests=tests)


def linked_to(target: Path, *, tests: bool = False) -> Path:
    """Give a copy whose files are those of the clean one; only ``plant`` may write to it."""
    return Path(shutil.copytree(clean(tests=tests), target / "house", copy_function=_link))


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copy(source, target)


def plant(root: Path, name: str, text: str) -> None:
    """Write a file into a copy, with the folders above it; the clean copy keeps its own."""
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.write_text(text)


def change(root: Path, name: str, before: str, after: str) -> None:
    """Replace a text, wherever it stands in a file of a copy."""
    text = (root / name).read_text()
    assert before in text
    plant(root, name, text.replace(before, after))
