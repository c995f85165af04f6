"""Each guard of the lanes catches the offence that it is there for."""

from pathlib import Path

import pytest

from tests.repo import lane_guards
from tests.support.checkout_root import ROOT


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ('  "crash: 900",\n', "", "the lane crash has no limit"),
        ('  "fast: 300",\n', "", "the lane fast has no limit"),
        ('  "demo: 900",\n', '  "demo: 900",\n  "demos: 9",\n', "a limit names demos"),
        ('"cluster: 1140"', '"cluster: 1141"', "the limit of cluster is above"),
        ("faulthandler_timeout = 1200", "faulthandler_timeout = 900", "the limit of spark is"),
        ('"-p", "tests.support.limits"', '"-p", "tests.support"', "addopts does not load"),
    ],
)
def test_a_planted_offence_is_caught(tmp_path: Path, before: str, after: str, says: str) -> None:
    settings = (ROOT / "pyproject.toml").read_text()
    assert settings.count(before) == 1
    (tmp_path / "pyproject.toml").write_text(settings.replace(before, after))

    assert any(says in offence for offence in lane_guards.lanes_have_limits(tmp_path))


def test_every_guard_has_an_offence() -> None:
    assert (lane_guards.lanes_have_limits,) == lane_guards.GUARDS
