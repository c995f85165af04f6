"""What each story of zones is given."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.zones.world import Ground


@pytest.fixture
def ground(tmp_path: Path, record_property: Callable[[str, object], None]) -> Ground:
    return Ground(tmp_path, record_property)
