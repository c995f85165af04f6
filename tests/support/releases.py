"""Installations of releases of zonekeeper: programs to be run beside those of this checkout.

The release before is the commit before versions of the wire were agreed on. A clone that lacks its
history gets the nearest thing: this tree under an earlier version number, which says nothing of its
versions and does not know ``zonekeeper bookie formats``. Which of the two it is stands in
``Release.made_of``; a test prints it.
"""

import re
import shutil
import site
import subprocess
import sys
import tarfile
import venv
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.repo import checkout
from tests.support.checkout_root import ROOT

#: The subject of the commit before this change. An id would be another one after a rebase.
SUBJECT_BEFORE: Final = "repo: the files to publish are those that the guards list"
#: The version number that the release before gets here, so that it can be told from this one.
VERSION_BEFORE: Final = "0.0.9"

_VERSION: Final = re.compile(r'^version = "[^"]+"$', re.MULTILINE)
#: What the release before did not have: in this tree, and without it.
_WITHOUT: Final = (
    (
        "wire/zonekeeper/wire/contract/links.py",
        "speaks: WireVersions | None = versions.SPOKEN",
        "speaks: WireVersions | None = None",
    ),
    (
        "wire/zonekeeper/wire/host/serving.py",
        "speaks: WireVersions | None = versions.SPOKEN",
        "speaks: WireVersions | None = None",
    ),
    (
        "bookie/zonekeeper/bookie/commands/bookie.py",
        '@bookie.command(epilog="Example: zonekeeper bookie formats',
        '@click.command(epilog="Example: zonekeeper bookie formats',
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """An installation: a virtual environment with a wheel in it."""

    folder: Path
    version: str
    #: What it was built from, in words.
    made_of: str


def before(folder: Path) -> Release:
    """Install the release before into this folder."""
    source = folder / "source"
    commit = _commit_before()
    if commit:
        made_of = f"commit {commit[:8]}"
        _unpack(commit, source)
    else:
        made_of = "this tree, without what says and asks versions: the clone has no history"
        checkout.copy_to(source)
        for path, ours, theirs in _WITHOUT:
            _replace(source / path, ours, theirs)
    text = (source / "pyproject.toml").read_text()
    _replace(source / "pyproject.toml", _VERSION.findall(text)[0], f'version = "{VERSION_BEFORE}"')
    _install(source, folder)
    shutil.rmtree(source)
    return Release(folder=folder, version=VERSION_BEFORE, made_of=made_of)


def _commit_before() -> str:
    """Give the id of the commit; ``""``: the clone does not have it."""
    git = ["git", "-C", str(ROOT), "log", "--format=%H %s"]
    # A copy of the tree may lie outside of any repository.
    said = subprocess.run(git, check=False, capture_output=True, text=True).stdout
    for line in said.splitlines():
        commit, _, subject = line.partition(" ")
        if subject == SUBJECT_BEFORE:
            return commit
    return ""


def _unpack(commit: str, source: Path) -> None:
    packed = source.with_suffix(".tar")
    subprocess.run(["git", "-C", str(ROOT), "archive", "--output", packed, commit], check=True)
    with tarfile.open(packed) as archive:
        archive.extractall(source, filter="data")
    packed.unlink()


def _replace(file: Path, ours: str, theirs: str) -> None:
    text = file.read_text()
    assert text.count(ours) == 1, f"{file} has not {ours!r} once"
    file.write_text(text.replace(ours, theirs))


def _install(source: Path, folder: Path) -> None:
    """Make an environment of this wheel; it has its libraries from the one that runs the tests."""
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    wheels = folder / "wheels"
    subprocess.run(
        [*pip, "wheel", "--no-build-isolation", "--no-deps", "--wheel-dir", wheels, source],
        check=True,
    )
    venv.create(folder, with_pip=False, symlinks=True)
    (wheel,) = wheels.glob("*.whl")
    python = folder / "bin" / "python"
    install = ["--python", str(python), "install", "--no-index", "--no-deps", str(wheel)]
    subprocess.run([*pip, *install], check=True)
    (libraries,) = site.getsitepackages([sys.prefix])
    (own,) = (folder / "lib").glob("python*/site-packages")
    # A path alone: what is installed for editing there is not followed.
    (own / "libraries.pth").write_text(f"{libraries}\n")
