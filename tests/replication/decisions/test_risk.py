"""S124. What is at risk is compared ledger by ledger: an old risk hides no new one."""

import pytest

from zonekeeper.placement.base.ids import LedgerId
from zonekeeper.replication.decisions import risk
from zonekeeper.replication.decisions.risk import Risk


def found(*fragments: tuple[int, int]) -> Risk:
    """Give a look that found these (ledger, copies left)."""
    seen = Risk()
    for ledger, left in fragments:
        seen.add(LedgerId(ledger), left)
    return seen


def test_another_ledger_is_worse_though_as_many_are_at_risk() -> None:
    before = found((1, 1))

    assert not found((1, 1)).worse_than(before)
    assert found((2, 1)).worse_than(before)
    assert found((1, 1), (2, 1)).worse_than(before)
    assert not found().worse_than(before)


def test_out_of_reach_is_worse_than_a_last_copy_and_not_the_other_way() -> None:
    assert found((1, 0)).worse_than(found((1, 1)))
    assert not found((1, 1)).worse_than(found((1, 0)))


def test_another_fragment_of_a_ledger_at_risk_is_worse() -> None:
    assert found((1, 1), (1, 1)).worse_than(found((1, 1)))
    assert not found((1, 1)).worse_than(found((1, 1), (1, 1)))


def test_a_fragment_with_two_copies_is_not_at_risk() -> None:
    assert found((1, 2), (2, 3)).fragments == 0
    assert not found((1, 2)).worse_than(found())


def test_the_text_has_the_numbers_of_now_and_names_what_is_new() -> None:
    before = found((7, 1))
    now = found((7, 1), *((ledger, 1) for ledger in range(10, 50)), (3, 0))

    assert now.text(before) == (
        "41 fragments hold entries with one copy left that can be reached, and 1 fragments entries "
        "with none; 41 ledgers are newly so: 3, 10, 11, 12, 13 and others"
    )
    assert found().text(now) == "every fragment has more than one copy that can be reached"


def test_beyond_what_is_remembered_growth_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(risk, "LEDGERS_KEPT", 2)
    before = found((1, 1), (2, 1), (3, 1))

    assert not found((2, 1), (3, 1), (1, 1)).worse_than(before)
    assert found((1, 1), (2, 1), (3, 1), (4, 1)).worse_than(before)
    assert found((1, 0), (2, 1), (3, 1)).worse_than(before)
