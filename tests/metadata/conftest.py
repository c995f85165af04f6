"""What the tests of the metadata share."""

from collections.abc import Callable
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def read_hex(path: Path) -> bytes:
    """Read a file of hexadecimal text; lines that start with # are comments."""
    lines = path.read_text().splitlines()
    return bytes.fromhex("".join(line for line in lines if not line.startswith("#")))


@pytest.fixture
def golden() -> Callable[[str], bytes]:
    """Bytes that Apache BookKeeper wrote, by name."""
    return lambda name: read_hex(HERE / "golden" / f"{name}.hex")
