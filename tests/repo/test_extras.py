"""Each component imports with its own extra alone, and its commands with `shell` added.

The environment holds everything, so what an extra does not bring is hidden from the import system
of a fresh process: then an import that is only there by luck fails as it would for a user.
"""

import json
import subprocess
import sys
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.repo import guards
from tests.support.checkout_root import ROOT

EXTRA_OF = {
    "placement": None,
    "wire": "client",
    "metadata": "client",
    "client": "client",
    "log": "client",
    "replication": "client",
    "bookie": "bookie",
    "operator": "operator",
    "pipeline": "pipeline",
    "shell": "shell",
}

#: Rooms of the shell that need another extra beside the shell's: the client's, or the bookie's.
REACH_CLUSTERS = ("reaching", "reports", "commands", "logs", "local", "demo", "console")

IMPORT_ALL = """
import importlib, importlib.abc, json, sys
hidden, modules = map(json.loads, sys.argv[1:])
class Hide(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if any(name == top or name.startswith(top + ".") for top in hidden):
            raise ModuleNotFoundError(f"No module named {name!r} (not in this extra)", name=name)
sys.meta_path.insert(0, Hide())
for module in modules:
    importlib.import_module(module)
"""


def brought_by(extras: Iterable[str]) -> set[str]:
    """Give the distributions that installing zonekeeper with these extras brings."""
    seen: set[tuple[str, str]] = set()
    todo = [("zonekeeper", extra) for extra in ("", *extras)]
    while todo:
        name, extra = todo.pop()
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        try:
            lines = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue  # for another platform or Python
        for line in lines:
            wanted = Requirement(line)
            if wanted.marker is None or wanted.marker.evaluate({"extra": extra}):
                todo += [(canonical(wanted.name), part) for part in ("", *wanted.extras)]
    return {name for name, _ in seen}


def canonical(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")


def import_names() -> dict[str, set[str]]:
    """Give the importable names of all that is installed, each with its distributions.

    A name that several bring is given with the portion below it (``google.protobuf``), because
    hiding the shared top would hide what the extra does bring.
    """
    brought: dict[str, set[str]] = {}
    for distribution in metadata.distributions():
        owner = canonical(distribution.metadata["Name"])
        for file in distribution.files or ():
            parts = file.parts
            if file.suffix not in (".py", ".so") or parts[0] in ("..", "tests"):
                continue
            depth = 2 if parts[0] == "google" else 1
            name = ".".join(part.split(".")[0] for part in parts[:depth])
            brought.setdefault(name, set()).add(owner)
    return brought


def modules_of(component: str, *, commands: bool) -> list[str]:
    package = ROOT / component / "zonekeeper" / component
    return [
        ".".join(path.relative_to(ROOT / component).with_suffix("").parts).removesuffix(".__init__")
        for path in sorted(package.rglob("*.py"))
        if path.stem != "__main__" and is_published(component, path) == commands
    ]


def is_published(component: str, path: Path) -> bool:
    if component == "shell":
        return path.parent.name in REACH_CLUSTERS
    return "commands" in (path.stem, path.parent.name)


def import_with(extras: list[str], modules: list[str]) -> subprocess.CompletedProcess[str]:
    visible = brought_by(extras)
    hidden = [name for name, owners in import_names().items() if not owners & visible]
    return subprocess.run(
        [sys.executable, "-c", IMPORT_ALL, json.dumps(sorted(hidden)), json.dumps(modules)],
        check=False,
        capture_output=True,
        text=True,
    )


def extras_of(component: str) -> list[str]:
    extra = EXTRA_OF[component]
    return [] if extra is None else [extra]


@pytest.mark.parametrize("component", guards.components(ROOT))
def test_a_component_imports_with_its_own_extra_alone(component: str) -> None:
    done = import_with(extras_of(component), modules_of(component, commands=False))

    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("component", guards.components(ROOT))
def test_commands_import_with_the_shell_extra_added(component: str) -> None:
    extras = ["bookie"] if component == "shell" else extras_of(component)
    done = import_with([*extras, "shell"], modules_of(component, commands=True))

    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("foreign", ["click", "grpc", "yaml", "google.protobuf", "pyspark"])
def test_what_no_extra_brings_is_really_hidden(foreign: str) -> None:
    done = import_with([], [foreign])

    assert done.returncode != 0
    assert "not in this extra" in done.stderr
