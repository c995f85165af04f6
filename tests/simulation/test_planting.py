"""Each bug has a place in the product where it is planted, whatever was renamed since.

The lanes that plant bugs take long. So the fast lane says it at once when a bug lost its place.
"""

import pytest

from tests.simulation.campaign import BUGS


@pytest.mark.parametrize("number", BUGS)
def test_a_bug_is_planted_where_something_stands(number: int) -> None:
    lost = [
        f"{owner}.{name}" for owner, name, _ in BUGS[number].patches() if not hasattr(owner, name)
    ]
    assert not lost, f"bug {number} has no place any more"
