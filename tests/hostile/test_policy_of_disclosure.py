"""Whoever finds a weakness finds in SECURITY.md whom to tell, how, and what happens then."""

import re

from tests.support.checkout_root import ROOT

PAGE = (ROOT / "SECURITY.md").read_text("utf-8")


def section(title: str) -> str:
    found = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S)
    assert found is not None, f"SECURITY.md has no section {title}"
    return found[1]


def test_it_says_which_versions_are_supported() -> None:
    assert "supported" in section("Supported versions")


def test_it_names_a_private_way_and_the_times() -> None:
    said = " ".join(section("How to report a weakness").split())
    assert "private" in said
    assert "open no public issue" in said
    assert re.search(r"within \w+ working days", said)
    assert re.search(r"\d+ days before you publish", said)


def test_it_leads_to_what_is_defended_and_what_is_not() -> None:
    assert "docs/security.md" in PAGE
    page = (ROOT / "docs" / "security.md").read_text("utf-8")
    assert "## What is not defended" in page
    assert "threats.md" in page
