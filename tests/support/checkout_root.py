"""Where the checkout stands, for tests that read its files or start its processes."""

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
