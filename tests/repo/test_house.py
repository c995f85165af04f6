"""The checkout keeps every house rule."""

from pathlib import Path

import pytest

from tests.repo import guards

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("guard", guards.GUARDS, ids=lambda guard: guard.__name__)
def test_the_house_rule_holds(guard: guards.Guard) -> None:
    assert guard(ROOT) == []
