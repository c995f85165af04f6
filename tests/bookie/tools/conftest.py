"""What the tests of the tools share."""

import shutil
from pathlib import Path

import pytest

from tests.bookie.tools.places import Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A cluster, and no bookie yet."""
    made = Place(tmp_path)
    made.initialise()
    return made


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which a bookie keeps three ledgers of 60 entries and stands still."""
    made = Place(tmp_path_factory.mktemp("filled"))
    made.initialise()
    assert made.format().exit_code == 0
    made.fill(then_fence=2)
    return made.folder


@pytest.fixture
def full(filled: Path, tmp_path: Path) -> Place:
    """The same, for one test to spoil."""
    shutil.copytree(filled, tmp_path / "copy")
    return Place(tmp_path / "copy")
