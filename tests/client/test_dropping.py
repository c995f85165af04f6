"""What is dropped, and not left, keeps no process from ending: ``dropping`` has the programs."""

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.client.dropping import PROGRAMS
from tests.support.bookie_processes import make_cluster
from zonekeeper.placement.base.ids import ZoneName
from zonekeeper.placement.policy.rules import PlacementRules, Policy

pytestmark = pytest.mark.processes

LIMIT_S: Final = 300


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_that_drops_something_ends(program: str, tmp_path: Path) -> None:
    address = f"sqlite://{tmp_path / 'meta.db'}"
    rules = PlacementRules(zones=(ZoneName("a"), ZoneName("b")))
    asyncio.run(make_cluster(address, Policy(placement=rules)))
    done = subprocess.run(
        [sys.executable, "-m", "tests.client.dropping", program, address],
        timeout=LIMIT_S,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    said = ["this was the last line"]
    if program == "a_client_is_asked_as_the_interpreter_ends":
        said.append("refused")
    assert done.stdout.splitlines() == said
