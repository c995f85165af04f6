"""The checkout keeps every house rule."""

import pytest

from tests.repo import guards
from tests.support.checkout_root import ROOT


@pytest.mark.parametrize("guard", guards.GUARDS, ids=lambda guard: guard.__name__)
def test_the_house_rule_holds(guard: guards.Guard) -> None:
    assert guard(ROOT) == []
