"""A setting's text has a source; what is wrong is said with it."""

import pytest

from zonekeeper.placement.base import settings
from zonekeeper.placement.base.settings import BadSettingError, GivenSettings, Setting

TABLE = (
    Setting(name="a-name", shown_as="TEXT", help="One.", required=True),
    Setting(name="rate", shown_as="N", help="Two.", default="4"),
    Setting(name="left", shown_as="FILE", help="Three.", variable="OF_ITS_OWN"),
    Setting(name="right", shown_as="FILE", help="Four.", otherwise="what is found"),
)


def given(
    flags: dict[str, str | None] | None = None,
    environment: dict[str, str] | None = None,
    file: dict[str, object] | None = None,
) -> GivenSettings:
    return GivenSettings(TABLE, flags or {}, environment or {}, file, "x.yaml")


def test_a_table_says_the_variable_and_what_it_is_otherwise() -> None:
    assert [setting.environment for setting in TABLE] == [
        *("ZONEKEEPER_A_NAME", "ZONEKEEPER_RATE", "OF_ITS_OWN", "ZONEKEEPER_RIGHT")
    ]
    assert [setting.what_else for setting in TABLE] == ["required", "4", None, "what is found"]


def test_an_empty_variable_is_none() -> None:
    assert given(environment={"ZONEKEEPER_RATE": ""}).read("rate", settings.count) == 4


def test_what_is_not_given_is_read_from_where_it_is_found_out() -> None:
    assert given().read("right", str, "found") == "found"
    assert given().optional("left", str) is None
    assert given(environment={"OF_ITS_OWN": "x"}).optional("left", str) == "x"


def test_what_must_be_given_is_asked_for_by_all_its_names() -> None:
    wanted = (
        r"^--a-name: must be given \(or ZONEKEEPER_A_NAME, or a-name: in the file of --config\)"
    )
    with pytest.raises(BadSettingError, match=wanted):
        given().read("a-name", str)


@pytest.mark.parametrize(
    ("told", "source"),
    [
        ({"flags": {"rate": "no"}}, "--rate"),
        ({"environment": {"ZONEKEEPER_RATE": "no"}}, "ZONEKEEPER_RATE"),
        ({"file": {"rate": "no"}}, r"rate in x\.yaml"),
    ],
)
def test_a_refusal_begins_with_the_source(told: dict[str, dict[str, str]], source: str) -> None:
    with pytest.raises(BadSettingError, match=f"^{source}: 'no': must be a whole number"):
        given(**told).read("rate", settings.count)  # type: ignore[arg-type] # one of three kinds


def test_what_goes_together_is_given_together_or_not_at_all() -> None:
    both = ("left", "right")
    assert not given().together(both, "they are two")
    assert given({"left": "x"}, {"ZONEKEEPER_RIGHT": "y"}).together(both, "they are two")
    with pytest.raises(BadSettingError, match=r"^--right: must be given, because they are two"):
        given({"left": "x"}).together(both, "they are two")
