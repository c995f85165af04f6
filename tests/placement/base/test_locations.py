"""A location has two levels; whatever does not is unresolved."""

import pytest

from zonekeeper.placement.base import locations
from zonekeeper.placement.base.ids import UpgradeDomain, ZoneName


def test_two_levels_are_a_location() -> None:
    found = locations.parse("/az-1/ud-0")

    assert found == locations.Location(ZoneName("az-1"), UpgradeDomain("ud-0"))
    assert str(found) == "/az-1/ud-0"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/",
        "//",
        "/zone",
        "zone/ud",
        "/zone/",
        "//ud",
        "/zone/ud/rack",
        "/zone/ud/",
        "/./ud",
        "/zone/..",
        "/zo ne/ud",
        "/zone/u\nd",
        "/default-zone\x00/ud",
        f"/{'z' * 256}/ud",
    ],
)
def test_anything_else_is_unresolved(text: str) -> None:
    assert locations.parse(text) is None
