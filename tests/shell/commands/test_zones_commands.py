"""``zonekeeper zones``: what is known, in words and as data."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from tests.shell.live_world import INSTANCE, LiveWorld
from zonekeeper.metadata.bookies import bookie_records, cookie_store
from zonekeeper.metadata.bookies.bookie_records import Mark
from zonekeeper.metadata.cluster import zone_store
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.cluster.evidence import EvidenceKind, StoreEvidence
from zonekeeper.metadata.ledgers import set_back
from zonekeeper.metadata.stores.opening import open_store
from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.placement.zones.zone_counts import Count
from zonekeeper.placement.zones.zone_effects import Alert
from zonekeeper.placement.zones.zone_records import ZoneRecord
from zonekeeper.shell.commands.zones import zones


@pytest.fixture
def world(tmp_path: Path) -> LiveWorld:
    return LiveWorld(tmp_path)


def test_each_zone_is_shown_with_its_state_its_bookies_and_what_holds_it(world: LiveWorld) -> None:
    world.build(lost="a")
    text = world.call(zones, "status").stdout
    lines = {line.split()[0]: line for line in text.splitlines() if line.strip()}
    assert "down" in lines["a"]
    assert "0/2" in lines["a"]
    assert "held" in lines["a"]
    assert "up" in lines["b"]
    assert "open" in lines["b"]
    assert "zone watch: none, so everything is held" in text


def test_the_same_as_data(world: LiveWorld) -> None:
    world.build(lost="a")
    data = world.data(zones, "status")
    found = data["zones"]
    assert isinstance(found, dict)
    assert list(found) == ["a", "b", "c"]
    assert found["a"]["observation"] == "down"
    assert found["a"]["permission"] == "held"
    (alert,) = found["a"]["alerts"]
    assert (alert["alert"], alert["severity"]) == ("zoneDown", "page")
    assert alert["text"].startswith("0 of 2 bookies available")
    assert data["warnings"] == []
    assert data["replicationEnabled"] is True
    assert data["instance"] == INSTANCE


def test_metadata_that_was_set_back_is_shown_where_a_person_looks_first(world: LiveWorld) -> None:
    world.build()
    assert "restored" not in world.call(zones, "status").stdout
    proofs = (StoreEvidence(bookie=BookieId("bk-a-0"), kind=EvidenceKind.IDS, known=50, found=9),)
    world.on(lambda cluster: set_back.mark(cluster, proofs, now_ms=1))
    text = " ".join(world.call(zones, "status").stdout.split())
    assert "restored: the metadata was restored to an older state, and no bookie collects" in text
    assert "bk-a-0 knew of ledger ids below 50" in text
    collecting = world.data(zones, "status")["collecting"]
    assert isinstance(collecting, dict)
    assert list(collecting) == ["restored"]


def test_only_the_zones_that_were_asked_for(world: LiveWorld) -> None:
    world.build()
    assert list(world.data(zones, "status", "b")["zones"]) == ["b"]  # type: ignore[call-overload]  # parsed JSON


def test_what_nobody_has_watched_is_held_and_says_so(world: LiveWorld) -> None:
    world.build(watched=False)
    text = world.call(zones, "status").stdout
    assert text.count("no zone watch has evaluated it yet") == 4


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["status", "d"], "there is no zone d; there are a, b, c"),
        (["status", "--cluster-id", "other"], "this is another cluster"),
    ],
)
def test_what_there_is_not_is_refused(world: LiveWorld, words: list[str], reason: str) -> None:
    world.build()
    result = world.call(zones, *words)
    assert result.exit_code == 2
    assert reason in result.stderr


def test_a_store_without_a_cluster_is_refused(world: LiveWorld) -> None:
    missing = world.call(zones, "status")
    assert missing.exit_code == 2
    assert "there is no such file" in missing.stderr

    async def leave_empty() -> None:
        await (await open_store(world.address)).close()

    asyncio.run(leave_empty())
    empty = world.call(zones, "status")
    assert empty.exit_code == 2
    assert "there is no cluster" in empty.stderr


def test_a_zone_that_can_never_be_held_and_one_that_cannot_be_now_are_warned_of(
    world: LiveWorld,
) -> None:
    # S126.
    world.build()
    mark = Mark(at_ms=1, by="anna", reason="a smaller cluster")
    world.on(lambda cluster: bookie_records.drain(cluster, BookieId("bk-a-1"), mark))
    world.on(lambda cluster: cookie_store.delete(cluster, BookieId("bk-c-1"), version=0))

    warnings = world.data(zones, "status")["warnings"]
    assert isinstance(warnings, list)
    now, never = warnings
    assert "only 1 of the 2 bookies of zone a are counted now" in now
    assert "zone c has 1 bookie, so its loss is never held" in never
    assert f"warning: {never}" in world.call(zones, "status").stdout


def test_bookies_in_a_zone_that_the_policy_does_not_name_are_warned_of(world: LiveWorld) -> None:
    # S130.
    world.build()
    assert world.data(zones, "status")["notNamed"] == []
    world.name_zones("a", "b")

    data = world.data(zones, "status")
    assert data["notNamed"] == ["c"]
    assert isinstance(data["zones"], dict)
    assert "c" in data["zones"]
    text = world.call(zones, "status").stdout
    assert "warning: 2 bookies stand where none is used: the policy does not name zone c" in text


def test_alerts_are_shown_with_the_numbers_of_now(world: LiveWorld) -> None:
    # S124.
    world.build(lost="a")
    text = world.call(zones, "status").stdout
    assert "a: zoneDown: 0 of 2 bookies available, down for" in text
    assert "failing for" not in text


def test_what_is_planned_away_is_shown_as_reduced_sight(world: LiveWorld) -> None:
    # S125.
    world.build()

    async def planned_away(cluster: Cluster) -> None:
        def change(record: ZoneRecord | None) -> ZoneRecord:
            assert record is not None
            count = Count(total=1, available=1, draining=9)
            return replace(record, evidence=count, alerts=(Alert.REDUCED_SIGHT,))

        await zone_store.change_zone(cluster, ZoneName("a"), change)

    world.on(planned_away)
    text = world.call(zones, "status").stdout
    assert "1/1 (+9 planned away)" in text
    assert "a: reducedSight: 9 of 10 bookies are planned away, and the zone is judged by" in text


def test_what_was_written_off_belongs_to_the_size_of_its_zone(world: LiveWorld) -> None:
    # S126.
    world.build(lost="a")
    mark = Mark(at_ms=1, by="auditor", reason="every ledger is repaired")
    world.on(lambda cluster: bookie_records.write_off(cluster, BookieId("bk-a-1"), mark))

    warnings = world.data(zones, "status")["warnings"]
    assert isinstance(warnings, list)
    (warning,) = warnings
    assert "only 1 of the 2 bookies of zone a are counted now" in warning
