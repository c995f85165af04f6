"""``zonekeeper plan``: each hold by its name, and a page for each name."""

from pathlib import Path

import pytest

from tests.shell.live_world import LiveWorld
from zonekeeper.metadata.cluster import repair_controls
from zonekeeper.placement.zones.losses import HeldBy
from zonekeeper.shell.commands.plan import plan
from zonekeeper.shell.runbooks import shelf


@pytest.fixture
def world(tmp_path: Path) -> LiveWorld:
    return LiveWorld(tmp_path)


def held(world: LiveWorld) -> dict[str, str]:
    rows = world.data(plan, "--no-wait")["held"]
    assert isinstance(rows, list)
    return {row["what"]: row["predicate"] for row in rows}


def test_records_that_are_not_seen_to_move_hold_every_zone(world: LiveWorld) -> None:
    world.build()
    assert held(world) == dict.fromkeys(("zone a", "zone b", "zone c"), HeldBy.NOT_WATCHED)


def test_a_zone_that_its_record_holds_is_named_so_before_what_is_not_seen_yet(
    world: LiveWorld,
) -> None:
    # S149.
    world.build(lost="a")
    assert held(world) == {
        "zone a": HeldBy.ZONE_HELD,
        "zone b": HeldBy.NOT_WATCHED,
        "zone c": HeldBy.NOT_WATCHED,
    }


def test_what_nobody_has_watched_is_named_so(world: LiveWorld) -> None:
    world.build(watched=False)
    assert set(held(world).values()) == {HeldBy.NO_RECORD}


def test_the_switch_goes_before_everything_else(world: LiveWorld) -> None:
    world.build(lost="a")
    world.on(lambda cluster: repair_controls.set_enabled(cluster, enabled=False))
    assert set(held(world).values()) == {HeldBy.REPLICATION_DISABLED}
    text = world.call(plan, "--no-wait").stdout
    assert "what to do: zonekeeper runbook replicationDisabled" in text


def test_zones_with_bookies_that_the_policy_does_not_name_stand_last(world: LiveWorld) -> None:
    # S130.
    world.build()
    assert world.data(plan, "--no-wait")["notNamed"] == {}
    world.name_zones("a", "b")
    unused = world.data(plan, "--no-wait")["notNamed"]
    assert isinstance(unused, dict)
    assert list(unused) == ["c"]
    last = world.call(plan, "--no-wait").stdout.splitlines()[-1]
    assert last.startswith("2 bookies stand where none is used: the policy does not name zone c")


@pytest.mark.parametrize("predicate", list(HeldBy))
def test_each_predicate_has_a_runbook(predicate: HeldBy) -> None:
    assert predicate in shelf.pages()
