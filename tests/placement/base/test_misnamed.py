"""The sentence about a wrong name: what there is, what may be meant, and never a page of names."""

import pytest

from zonekeeper.placement.base import misnamed


@pytest.mark.parametrize(
    ("name", "known", "said"),
    [
        ("d", ["a", "b"], "there is no zone d; there are a, b"),
        ("x", [], "there is no zone x; there are none"),
        ("eas", ["west", "east"], "there is no zone eas; there are east, west; did you mean east?"),
        ("EAST", ["east"], "there is no zone EAST; there are east; did you mean east?"),
    ],
)
def test_s174_a_wrong_name_is_answered_with_the_name_that_is_like_it(
    name: str, known: list[str], said: str
) -> None:
    assert misnamed.there_is_no("zone", name, known) == said


def test_a_long_list_is_cut_off_and_still_searched() -> None:
    known = [f"bk-a-{number:03}" for number in range(300)]

    said = misnamed.there_is_no("bookie", "bk-a-2999", known)

    assert "bk-a-019 and 280 more" in said
    assert "bk-a-020" not in said
    assert said.endswith("?")
    assert "bk-a-299" in said.partition("did you mean")[2]
    assert len(said) < 400
