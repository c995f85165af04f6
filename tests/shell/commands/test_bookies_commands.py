"""``zonekeeper bookies``: the list, and orders that are refused before anything is done."""

import json
import re
from pathlib import Path

import click
import pytest

from tests.shell.commands.test_audit_commands import STRICT, ledger, with_ledgers
from tests.shell.live_world import LiveWorld
from zonekeeper.metadata.bookies import bookie_records, order_records
from zonekeeper.metadata.bookies.bookie_records import Mark
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.cluster.evidence import EvidenceKind, StoreEvidence
from zonekeeper.metadata.formats import service_info
from zonekeeper.metadata.formats.service_info import PublishedRoom, ReadOnlyReason
from zonekeeper.metadata.ledgers import set_back
from zonekeeper.placement.base import units
from zonekeeper.placement.base.ids import BookieId, UpgradeDomain, ZoneName
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.zones.losses import HeldBy
from zonekeeper.shell.commands.audit import audit
from zonekeeper.shell.commands.autorecovery import autorecovery
from zonekeeper.shell.commands.bookies import bookies
from zonekeeper.shell.commands.plan import plan
from zonekeeper.shell.commands.zones import zones

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
    # S149.
    world.build(lost="a")
    row = listed(world)["bk-a-0"]["repairHeldBy"]
    shown = world.data(bookies, "show", "bk-a-0")["repairHeldBy"]
    assert isinstance(row, dict)
    assert isinstance(shown, dict)
    assert (row["by"], shown["by"]) == (HeldBy.ZONE_HELD, HeldBy.ZONE_HELD)
    assert "repair held by zoneHeld" in world.call(bookies, "show", "bk-a-0").stdout
    rows = world.data(zones, "status")["zones"]
    assert isinstance(rows, dict)
    assert {zone: one["heldBy"] for zone, one in rows.items()} == {
        "a": HeldBy.ZONE_HELD,
        "b": None,
        "c": None,
    }
    held = world.data(plan, "--no-wait")["held"]
    assert isinstance(held, list)
    assert {"predicate": row["by"], "text": row["text"], "what": "zone a"}.items() <= held[
        0
    ].items()


def test_a_bookie_whose_loss_was_repaired_is_held_by_nothing(world: LiveWorld) -> None:
    # S149.
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


def read_only(world: LiveWorld, name: str, reasons: list[ReadOnlyReason]) -> None:
    """Have a bookie registered as read-only, with what it publishes."""
    where = Location(ZoneName(name[3]), UpgradeDomain("ud-0"))
    info = service_info.of_bookie("h", 1, where, tls=False).with_read_only(reasons)

    async def move(cluster: Cluster) -> None:
        bookie = BookieId(name)
        await cluster.store.delete(cluster.root.writable(bookie), version=None)
        await cluster.store.create(cluster.root.read_only(bookie), service_info.render(info))

    world.on(move)


def test_s151_a_read_only_bookie_is_shown_with_reason_person_and_time(world: LiveWorld) -> None:
    world.build()
    full = ReadOnlyReason(reason="the device of --data is full: 96.0% used", since_ms=1_000)
    told = ReadOnlyReason(reason="by a person's order", by_person=True)
    read_only(world, "bk-a-0", [full])
    read_only(world, "bk-b-0", [told])
    mark = Mark(at_ms=2_000, by="anna", reason="its disk is old")
    world.on(lambda cluster: bookie_records.order_read_only(cluster, BookieId("bk-b-0"), mark))

    rows = listed(world)
    assert rows["bk-a-0"]["restrictions"] == [
        {"what": "read-only", "reason": full.reason, "by": "bk-a-0", "sinceMs": 1_000}
    ]
    assert rows["bk-b-0"]["restrictions"] == [
        {"what": "read-only", "reason": "its disk is old", "by": "anna", "sinceMs": 2_000}
    ]
    assert rows["bk-c-0"]["restrictions"] == []
    audited = world.data(audit, "placement")["restrictions"]
    assert audited == {name: rows[name]["restrictions"] for name in ("bk-a-0", "bk-b-0")}

    said = {
        "bk-a-0": "read-only (by bk-a-0: the device of --data is full: 96.0% used), "
        "since 1970-01-01T00:00:01+00:00",
        "bk-b-0": "read-only (by anna: its disk is old), since 1970-01-01T00:00:02+00:00",
    }
    for name, line in said.items():
        for command, words in (
            (bookies, ["list"]),
            (bookies, ["show", name]),
            (audit, ["placement"]),
        ):
            assert line in world.call(command, *words).stdout, (words, line)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (zones, ["status"]),
        (bookies, ["list"]),
        (bookies, ["show", "bk-a-0"]),
        (audit, ["placement"]),
        (audit, ["lose", "--zone", "b"]),
        (autorecovery, ["status"]),
    ],
)
def test_s148_alerts_stand_in_the_text_each_in_a_line_with_its_runbook(
    world: LiveWorld, command: click.Command, words: list[str]
) -> None:
    world.build(lost="a")
    set_back_proofs = (
        StoreEvidence(bookie=BookieId("bk-b-0"), kind=EvidenceKind.IDS, known=50, found=9),
    )
    world.on(lambda cluster: set_back.mark(cluster, set_back_proofs, now_ms=1))
    lines = world.call(command, *words).stdout.splitlines()
    (down,) = [line for line in lines if line.startswith("page: zone a: zoneDown: ")]
    assert down.endswith("(what to do: zonekeeper runbook zoneHeld)")
    (restored,) = [line for line in lines if line.startswith("page: cluster: restored: ")]
    assert restored.endswith("(what to do: zonekeeper runbook restored)")


def test_s148_the_alerts_of_text_and_data_are_the_same(world: LiveWorld) -> None:
    world.build(lost="a")
    alerts = world.data(autorecovery, "status")["alerts"]
    assert isinstance(alerts, list)
    assert [(one["about"], one["alert"], one["runbook"]) for one in alerts] == [
        ("zone a", "zoneDown", "zoneHeld")
    ]
    assert world.data(bookies, "show", "bk-a-0")["alerts"] == alerts
    assert world.data(bookies, "show", "bk-b-0")["alerts"] == [], "it is another zone's"
    rows = world.data(zones, "status")["zones"]
    assert isinstance(rows, dict)
    assert rows["a"]["alerts"] == [
        {name: value for name, value in alerts[0].items() if name != "about"}
    ]


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
    result = world.call(bookies, "readonly", "bk-b-0", "--yes", *WHO)
    assert result.exit_code == 1
    assert "bk-b-0" in result.stderr
    assert world.told() == []
    record = world.on(lambda cluster: bookie_records.read(cluster, BookieId("bk-b-0")))
    assert record.read_only is None, "the order did not reach the bookie, so none is noted"


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
        (["show", "bk-a0"], "; did you mean bk-a-0"),
        (["decommission", "bk-a0", "--yes", *WHO], "; did you mean bk-a-0"),
        (["recover", "bk-a0", "--yes", *WHO], "; did you mean bk-a-0"),
        (["readonly", "nobody", "--yes", *WHO], "there is no bookie nobody"),
        (["readonly", "bk-a-0", "--yes", *WHO], "bk-a-0 is not registered"),
        (["decommission", "nobody", "--yes", *WHO], "there is no bookie nobody"),
        (["decommission", "bk-a-0", "--yes", *WHO], "bk-a-0"),
        (["recover", "nobody", "--yes", *WHO], "there is no bookie nobody"),
        (["recover", "bk-b-0", "--yes", *WHO], "bk-b-0"),
        (["recover", "bk-a-0", "--here", *WHO], "repeat with --yes"),
        (["recover", "bk-a-0", "--yes", *WHO], "no autorecovery process is running"),
        (["drain", "bk-b-0", "--yes", *WHO], "no autorecovery process is running"),
        (["drain", "bk-a0", "--yes", *WHO], "; did you mean bk-a-0"),
        (["drain", "bk-a-0", "--yes", *WHO], "bk-a-0 is not registered, and 1 ledgers name it"),
        (["take-back", "bk-b-0", *WHO], "there is no order about bk-b-0"),
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
    assert world.on(order_records.read_all) == {}
