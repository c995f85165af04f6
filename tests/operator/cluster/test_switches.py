"""Everything that the operator does by itself has an off switch, and the page has all of them."""

import re
from typing import Final

import pytest

from tests.support.checkout_root import ROOT
from zonekeeper.operator.definition import crd
from zonekeeper.operator.kubernetes.api import Json

PAGE: Final = (ROOT / "docs" / "operator.md").read_text()
TITLE: Final = "## What it does by itself, and how to stop that\n"


def spec() -> Json:
    whole = crd.definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    found: Json = whole["properties"]["spec"]
    return found


def switches() -> dict[str, str]:
    """Give the switches of the page: fields, each with the value that stops something."""
    table = PAGE.partition(TITLE)[2].partition("\n## ")[0]
    rows = [line.split("|")[2].strip() for line in table.splitlines() if line.startswith("| ")][1:]
    found = [re.match(r"`([A-Za-z.]+)(?:: ([A-Za-z0-9]+))?`", row) for row in rows]
    assert all(found), rows
    return {one[1]: one[2] or "" for one in found if one is not None}


def field(name: str) -> Json:
    schema = spec()
    for step in name.split("."):
        schema = schema["properties"][step]
    return schema


def flags(schema: Json, path: str = "") -> list[str]:
    """Name the fields that stop something by their name."""
    found = []
    for name, inner in schema.get("properties", {}).items():
        where = f"{path}.{name}".lstrip(".")
        found += [where] if name == "paused" else flags(inner, where)
    return found


@pytest.mark.parametrize("name", sorted(switches()))
def test_a_switch_of_the_page_is_a_field_that_takes_its_value(name: str) -> None:
    schema, value = field(name), switches()[name]
    match schema["type"]:
        case "boolean":
            assert value in ("true", "false")
        case "integer":
            assert int(value) >= schema.get("minimum", 0)
        case _:
            rules = schema.get("x-kubernetes-validations", [{"rule": ""}])
            assert not value or f"'{value}'" in rules[0]["rule"]


def test_every_switch_stands_in_the_page() -> None:
    assert set(flags(spec())) <= switches().keys()
    choices = {"heal.lostVolume", "onDelete", "storage.onScaleDown", "network.policies"}
    assert choices <= switches().keys()
