"""What the tests of hostile inputs share."""

from collections.abc import Iterator

import pytest

from tests.support import canaries as watching
from tests.support.canaries import Watch


@pytest.fixture
def canaries() -> Iterator[Watch]:
    """Watch over a test; at its end no secret that was made in it may have come out."""
    with watching.watched() as watch:
        yield watch
    assert watch.hits() == []
