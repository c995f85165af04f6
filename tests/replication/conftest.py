"""The worlds of these tests are hundreds of MiB each, and are given back as soon as they ended."""

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def _what_stays_is_not_looked_at() -> None:
    """Take what every test shares out of the collector's sight, so that a look is quick."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _worlds_are_given_back() -> Iterator[None]:
    """Collect: disks in memory hang on a few cycles, too few for the collector to come itself."""
    yield
    gc.collect()
