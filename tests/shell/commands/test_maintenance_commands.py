"""``zonekeeper maintenance``: declared, shown, ended, and refused where it cannot be meant."""

from pathlib import Path

import pytest

from tests.shell.live_world import LiveWorld
from zonekeeper.shell.commands.maintenance import maintenance

START = ("start", "--zone", "a", "--for", "30m", "--reason", "new kernel", "--by", "anna")
END = ("end", "--zone", "a", "--reason", "done", "--by", "anna")


@pytest.fixture
def world(tmp_path: Path) -> LiveWorld:
    return LiveWorld(tmp_path)


def units(world: LiveWorld) -> list[str]:
    rows = world.data(maintenance, "list")["maintenance"]
    assert isinstance(rows, list)
    return [row["unit"] for row in rows]


def test_a_zone_is_declared_unit_by_unit_and_ended_again(world: LiveWorld) -> None:
    world.build()
    assert world.call(maintenance, *START).stdout.splitlines() == [
        "declared: /a/ud-0, for 30m",
        "declared: /a/ud-1, for 30m",
    ]
    assert units(world) == ["/a/ud-0", "/a/ud-1"]
    assert "/a/ud-0" in world.call(maintenance, "list").stdout

    assert "ended: /a/ud-0" in world.call(maintenance, *END).stdout
    assert units(world) == []
    assert "nothing is declared" in world.call(maintenance, "list").stdout
    assert world.told()[0] == ("ended", "maintenance of /a/ud-1", "anna")


def test_one_upgrade_domain_alone(world: LiveWorld) -> None:
    world.build()
    world.data(maintenance, *START, "--upgrade-domain", "ud-1")
    assert units(world) == ["/a/ud-1"]


def test_a_dry_run_declares_nothing(world: LiveWorld) -> None:
    world.build()
    assert "would be declared: /a/ud-0" in world.call(maintenance, *START, "--dry-run").stdout
    assert units(world) == []
    assert world.told() == []


def test_a_dry_run_answers_with_a_key_like_all_others(world: LiveWorld) -> None:
    world.build()
    assert set(world.data(maintenance, *START, "--dry-run")) == {"wouldBeDeclared", "warnings"}


def test_a_reason_is_shown_as_it_was_written(world: LiveWorld) -> None:
    world.build()
    reason = "[ops-12] rack [a/b], see [wiki] and back [/b]"
    assert world.call(maintenance, *START[:6], reason, *START[7:]).exit_code == 0
    assert reason in world.call(maintenance, "list").stdout


def test_what_else_is_away_is_a_warning(world: LiveWorld) -> None:
    world.build(lost="b")
    assert "careful: zone b is down now" in world.call(maintenance, *START).stderr


def test_a_unit_is_declared_once_and_then_all_or_nothing(world: LiveWorld) -> None:
    world.build()
    world.data(maintenance, *START, "--upgrade-domain", "ud-1")
    result = world.call(maintenance, *START)
    assert result.exit_code == 2
    assert "maintenance of /a/ud-1 is declared already, by anna: new kernel" in result.stderr
    assert units(world) == ["/a/ud-1"]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("start", "--zone", "d", *START[3:]), "no bookie stands in zone d: the zones are a, b, c"),
        (("start", "--zone", "A", *START[3:]), "the zones are a, b, c; did you mean a?"),
        ((*START, "--upgrade-domain", "ud-7"), "no bookie stands in ud-7 of zone a"),
        ((*START[:4], "3h", *START[5:]), "may last up to 2h (zoneWatch.maintenanceMax), not 3h"),
        ((*START[:4], "30", *START[5:]), "write a whole number and ms, s, m, h or d"),
        ((*START[:6], " ", *START[7:]), "the reason must be one line"),
        (END, "no such maintenance is declared: nothing is"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    world: LiveWorld, words: tuple[str, ...], reason: str
) -> None:
    world.build()
    result = world.call(maintenance, *words)
    assert result.exit_code == 2
    assert reason in result.stderr
    assert units(world) == []
