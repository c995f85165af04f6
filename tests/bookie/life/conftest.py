"""The cluster that a bookie's process is started in."""

from pathlib import Path

import pytest

from tests.bookie.life.process_world import World


@pytest.fixture
async def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    await made.make()
    return made
