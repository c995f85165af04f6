"""The guard of the page of threats catches each way in which the page could be untrue."""

from pathlib import Path

import pytest

from tests.repo import checkout, threat_guards

PAGE = threat_guards.THREATS


@pytest.fixture
def house(tmp_path: Path) -> Path:
    return checkout.linked_to(tmp_path, tests=True)


def found(house: Path) -> list[str]:
    return threat_guards.every_threat_has_a_test_or_a_reason(house)


def test_the_copy_itself_is_clean(house: Path) -> None:
    assert found(house) == []


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("| T07 | ", "| T08 | ", "the rows are not T01 to T36"),
        ("| T36 | ", "| T37 | ", "the rows are not T01 to T36"),
        ("| T19 | ", "T19 ", "the rows are not T01 to T36"),
        ("Of the 36 threats", "Of the 35 threats", "tells [('35'"),
        ("no: entries are stored", "never; entries are stored", "T28 names no test"),
        ("no: entries are stored", "no: later |\n| x | ", "T28 has no reason"),
        ("`operator/network/test_reach.py`", "looked at", "T23 names no test"),
        (
            "`operator/network/test_reach.py`",
            "`operator/network/test_gone.py`",
            "T23 names operator/network/test_gone.py, which is no file of tests",
        ),
        (
            "`operator/network/test_reach.py`",
            "`operator/worlds.py`",
            "T23 names operator/worlds.py, which is no file of tests",
        ),
        ("`ruff_catches`", "`ruff_misses`", "T19 names ruff_misses, which is no test there"),
        ("| use encrypted volumes |", "|  |", "T28 has an empty cell"),
    ],
)
def test_a_page_that_is_not_true_is_caught(house: Path, before: str, after: str, said: str) -> None:
    checkout.change(house, PAGE, before, after)
    assert any(said in offence for offence in found(house)), found(house)


def test_a_test_that_is_renamed_is_missed(house: Path) -> None:
    name = "tests/wire/host/test_proving.py"
    checkout.change(house, name, "def test_a_proof_is_used_once", "def test_a_proof_is_used_up")
    assert found(house) == [f"{PAGE}: T29 names a_proof_is_used_once, which is no test there"]
