"""``zonekeeper bookies``: the list, and orders that are refused before anything is done."""

import json
import re
from pathlib import Path

import pytest

from tests.shell.commands.test_audit_commands import STRICT, ledger, with_ledgers
from tests.shell.live_world import LiveWorld
from zonekeeper.metadata.bookies import bookie_records
from zonekeeper.metadata.bookies.bookie_records import Mark
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats import service_info
from zonekeeper.metadata.formats.service_info import PublishedRoom
from zonekeeper.placement.base import units
from zonekeeper.placement.base.ids import BookieId, UpgradeDomain, ZoneName
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.zones.losses import HeldBy
from zonekeeper.shell.commands.bookies import bookies
from zonekeeper.shell.commands.plan import plan

WHO = ("--by", "anna", "--reason", "its disk is old")


@pytest.fixture
def world(tmp_path: Path) -> LiveWorld:
    return LiveWorld(tmp_path)


def listed(world: LiveWorld) -> dict[str, dict[str, object]]:
    result = world.call(bookies, "list", "--output", "json")
    assert result.exit_code == 0, result.output
    return {row["bookie"]: row for row in json.loads(result.stdout)}


def test_every_bookie_is_listed_with_where_it_stands_and_whether_it_is_there(
    world: LiveWorld,
) -> None:
    world.build(lost="a")
    rows = listed(world)
    assert list(rows) == ["bk-a-0", "bk-a-1", "bk-b-0", "bk-b-1", "bk-c-0", "bk-c-1"]
    assert (rows["bk-b-1"]["zone"], rows["bk-b-1"]["upgradeDomain"]) == ("b", "ud-1")
    assert (rows["bk-a-0"]["state"], rows["bk-b-0"]["state"]) == ("absent", "writable")
    assert isinstance(rows["bk-a-0"]["repairHeldBy"], dict)
    assert rows["bk-b-0"]["repairHeldBy"] is None
    text = world.call(bookies, "list").stdout
    assert "repair held by" in next(line for line in text.splitlines() if "bk-a-0" in line)


def test_a_bookie_of_a_held_zone_is_held_by_what_holds_its_zone(world: LiveWorld) -> None:
    # S144.
    world.build(lost="a")
    row = listed(world)["bk-a-0"]["repairHeldBy"]
    shown = world.data(bookies, "show", "bk-a-0")["repairHeldBy"]
    assert isinstance(row, dict)
    assert isinstance(shown, dict)
    assert (row["by"], shown["by"]) == (HeldBy.ZONE_HELD, HeldBy.ZONE_HELD)
    assert "repair held by zoneHeld" in world.call(bookies, "show", "bk-a-0").stdout
    held = world.data(plan, "--no-wait")["held"]
    assert isinstance(held, list)
    assert {"predicate": row["by"], "text": row["text"], "what": "zone a"}.items() <= held[
        0
    ].items()


def test_a_bookie_whose_loss_was_repaired_is_held_by_nothing(world: LiveWorld) -> None:
    # S144.
    world.build(lost="a")
    mark = Mark(at_ms=1, by="auditor", reason="repaired")
    world.on(lambda cluster: bookie_records.write_off(cluster, BookieId("bk-a-0"), mark))
    rows = listed(world)
    assert rows["bk-a-0"]["repairHeldBy"] is None
    assert rows["bk-a-1"]["repairHeldBy"] is not None


def test_what_is_said_of_a_bookie_is_shown(world: LiveWorld) -> None:
    world.build()
    mark = Mark(at_ms=1, by="anna", reason="its disk is old")
    world.on(lambda cluster: bookie_records.drain(cluster, BookieId("bk-a-0"), mark))
    assert listed(world)["bk-a-0"]["draining"] == {
        "by": "anna",
        "reason": "its disk is old",
        "atMs": 1,
    }
    for words in (["list"], ["show", "bk-a-0"]):
        assert "draining (by anna: its disk is old)" in world.call(bookies, *words).stdout


def test_a_bookie_in_a_zone_that_the_policy_does_not_name_says_so(world: LiveWorld) -> None:
    # S130.
    world.build()
    assert {row["zoneNamed"] for row in listed(world).values()} == {True}
    world.name_zones("a", "b")
    unused = {name for name, row in listed(world).items() if not row["zoneNamed"]}
    assert unused == {"bk-c-0", "bk-c-1"}
    for words in (["list"], ["show", "bk-c-0"]):
        said = world.call(bookies, *words).stdout
        assert "gets no ledgers: the policy does not name zone c" in said


def test_the_room_that_a_bookie_published_is_shown(world: LiveWorld) -> None:
    # S128.
    world.build()
    where = Location(ZoneName("a"), UpgradeDomain("ud-0"))
    room = PublishedRoom(free_bytes=3 * units.GIB, total_bytes=8 * units.GIB)
    info = service_info.of_bookie("h", 1, where, tls=False).with_room(room)

    async def publish(cluster: Cluster) -> None:
        path = cluster.root.writable(BookieId("bk-a-0"))
        await cluster.store.put(path, service_info.render(info), version=0)

    world.on(publish)

    rows = listed(world)
    assert (rows["bk-a-0"]["freeBytes"], rows["bk-a-0"]["totalBytes"]) == (3 << 30, 8 << 30)
    assert (rows["bk-b-0"]["freeBytes"], rows["bk-b-0"]["totalBytes"]) == (None, None)
    lines = world.call(bookies, "list").stdout.splitlines()
    assert "3.0 GiB of 8.0 GiB" in next(line for line in lines if "bk-a-0" in line)


def test_a_bookie_that_lost_its_disk_says_so(world: LiveWorld) -> None:
    world.build()
    world.on(lambda cluster: bookie_records.lost_data(cluster, BookieId("bk-a-0"), 2))
    assert [name for name, row in listed(world).items() if row["lostData"]] == ["bk-a-0"]
    assert "lost data, and is being filled in" in world.call(bookies, "show", "bk-a-0").stdout


def test_a_bookie_that_does_not_answer_is_shown_all_the_same(world: LiveWorld) -> None:
    world.build(lost="a")
    data = world.data(bookies, "show", "bk-a-0")
    assert (data["state"], data["zone"], data["says"], data["address"]) == (
        "absent",
        "a",
        None,
        None,
    )
    assert "not registered" in str(data["doesNotAnswer"])
    text = world.call(bookies, "show", "bk-a-0").stdout
    assert re.search(r"^directories: +/d$", text, re.MULTILINE)
    assert re.search(r"^stands in: +zone a, upgrade domain ud-0$", text, re.MULTILINE)
    assert re.search(r"^answers: +no: .*not registered", text, re.MULTILINE)


def test_a_dry_run_tells_a_bookie_nothing(world: LiveWorld) -> None:
    world.build()
    result = world.call(bookies, "readonly", "bk-b-0", "--dry-run")
    assert (result.exit_code, result.stdout) == (
        0,
        "bk-b-0 would refuse new data, and serve reads\n",
    )


def test_a_bookie_that_cannot_be_reached_was_not_told(world: LiveWorld) -> None:
    world.build()
    result = world.call(bookies, "readonly", "bk-b-0", "--yes")
    assert result.exit_code == 1
    assert "bk-b-0" in result.stderr


def test_a_dry_run_of_a_recovery_counts_and_changes_nothing(world: LiveWorld) -> None:
    world.build(lost="a")
    with_ledgers(world, ledger(STRICT))
    result = world.call(bookies, "recover", "bk-a-0", "--dry-run", *WHO)
    assert result.exit_code == 0, result.output
    assert result.stdout == "1 ledgers name bk-a-0; it would be recovered elsewhere\n"
    assert world.told() == []


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["show", "nobody"], "there is no bookie nobody; there are bk-a-0, "),
        (["readonly", "nobody", "--yes"], "there is no bookie nobody"),
        (["readonly", "bk-a-0", "--yes"], "bk-a-0 is not registered"),
        (["decommission", "nobody", "--yes", *WHO], "there is no bookie nobody"),
        (["decommission", "bk-a-0", "--yes", *WHO], "bk-a-0"),
        (["recover", "nobody", "--yes", *WHO], "there is no bookie nobody"),
        (["recover", "bk-b-0", "--yes", *WHO], "bk-b-0"),
        (["recover", "bk-a-0", *WHO], "repeat with --yes"),
        (["list", "--cluster-id", "other"], "this is another cluster"),
    ],
)
def test_what_makes_no_sense_is_refused_and_nothing_is_done(
    world: LiveWorld, words: list[str], reason: str
) -> None:
    world.build(lost="a")
    with_ledgers(world, ledger(STRICT))
    result = world.call(bookies, *words)
    assert result.exit_code == 2, result.output
    assert reason in result.stderr
    assert world.told() == []
