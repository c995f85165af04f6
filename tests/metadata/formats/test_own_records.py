"""Policy, zones, maintenance, timeline: what only zonekeeper remembers."""

import asyncio
import dataclasses
from collections.abc import Mapping

import pytest

from tests.metadata import weather
from tests.metadata.parsers import PARSERS, Parser
from tests.placement.zones.test_zone_record_data import records as the_records
from tests.support.stores import MemoryPlace
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.cluster import policy_store, record_store, timeline, zone_store
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.cluster.record_store import Codec
from zonekeeper.metadata.cluster.timeline import Event
from zonekeeper.metadata.formats import records
from zonekeeper.metadata.formats.malformed import (
    Flaw,
    MalformedError,
    UnreadableError,
    UnsupportedError,
)
from zonekeeper.metadata.formats.records import ForeignRecordError
from zonekeeper.metadata.stores.memory import ExchangeLoss
from zonekeeper.placement.base.fields import InvalidFieldsError, Plain
from zonekeeper.placement.base.ids import UpgradeDomain, ZoneName
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.policy.rules import PlacementRules, Policy
from zonekeeper.placement.zones.gate import Person, Token
from zonekeeper.placement.zones.maintenance import Maintenance
from zonekeeper.placement.zones.zone_records import ZoneRecord

INSTANCE = "d58c3de9-d9c6-429e-be20-474dcad4d089"
POLICY = Policy(placement=PlacementRules(zones=(ZoneName("a"), ZoneName("b"), ZoneName("c"))))
UNIT = Location(ZoneName("a"), UpgradeDomain("ud-0"))
WORK = Maintenance(
    unit=UNIT,
    token=Token("t1"),
    declared_by=Person(name="anna", reason="new kernel"),
    lasts_ms=60_000,
)


# ── the envelope ──


def test_a_record_is_sorted_json_that_names_its_cluster() -> None:
    raw = records.render({"b": 1, "a": {"y": None, "x": "ü"}}, INSTANCE)
    assert (
        raw
        == (
            '{"a":{"x":"ü","y":null},"b":1,"format":1,"instance":"%s"}' % INSTANCE  # noqa: UP031 - braces
        ).encode()
    )
    assert records.parse(raw, INSTANCE)["b"] == 1
    with pytest.raises(ForeignRecordError, match="this cluster is 'other'"):
        records.parse(raw, "other")


@pytest.mark.parametrize(
    ("raw", "flaw"),
    [
        (b"", Flaw.BAD_TEXT),
        (b"\xff", Flaw.BAD_TEXT),
        (b"[" * 100_000, Flaw.BAD_TEXT),
        (b"[]", Flaw.WRONG_TYPE),
        (b"{}", Flaw.MISSING),
        (b'{"format":true,"instance":""}', Flaw.MISSING),
        (b'{"format":1,"format":1,"instance":""}', Flaw.DUPLICATE),
        (b'{"format":1,"instance":"","x":NaN}', Flaw.BAD_NUMBER),
        (b'{"format":1,"instance":"","x":"\\ud800"}', Flaw.BAD_TEXT),
        (b'{"format":1,"instance":"","x":{"\\uDfff":1}}', Flaw.BAD_TEXT),
        (b" " * (1 << 21), Flaw.TOO_LARGE),
    ],
)
def test_what_is_no_record_is_refused_by_name(raw: bytes, flaw: Flaw) -> None:
    with pytest.raises(MalformedError) as caught:
        records.parse(raw, "")
    assert caught.value.flaw is flaw


def test_a_character_of_two_code_units_may_be_escaped() -> None:
    data = records.parse(b'{"format":1,"instance":"","x":"\\ud83d\\ude00"}', "")
    assert records.parse(records.render(data, ""), "") == data


HELD: Mapping[str, Plain] = {"atMs": 1, "ledgers": 2, "known": 3, "first": 4, "last": 5}
ACCEPTED: Mapping[str, Plain] = {"starts": {"bk-a-0": 1}, "ids": 2, "policy": 3, "beforeIds": 4}


@pytest.mark.parametrize(
    ("parser", "data"),
    [
        (PARSERS["restored"], {"atMs": 1, "export": "", "high": 7}),
        (PARSERS["accepted"], ACCEPTED),
        (PARSERS["collection"], {**HELD, "digest": "ab"}),
    ],
)
def test_what_a_newer_program_wrote_is_written_back(
    parser: Parser, data: Mapping[str, Plain]
) -> None:
    raw = records.render({**data, "newer": {"a": [1]}}, INSTANCE)
    assert parser.rewrite(raw) == raw


def test_a_record_of_a_later_format_is_unsupported_and_not_corrupt() -> None:
    with pytest.raises(UnsupportedError, match="format 2"):
        records.parse(b'{"format":2,"instance":"x"}', "x")


async def test_of_many_records_only_one_that_changed_is_parsed_again(cluster: Cluster) -> None:
    parsed: list[str] = []

    def parse(data: dict[str, Plain]) -> str:
        parsed.append(records.text(data, "says"))
        return parsed[-1]

    codec: Codec[str] = Codec(render=lambda said: {"says": said}, parse=parse)
    directory = cluster.root.beside("zones")
    for name in ("one", "two", "three"):
        await record_store.change(cluster, f"{directory}/{name}", codec, lambda _: "old")
    async with record_store.watch_all(cluster, directory, codec) as states:
        parsed.clear()
        assert await anext(states) == {"one": "old", "two": "old", "three": "old"}
        assert parsed == ["old"] * 3
        raw = records.render({"says": "new"}, cluster.instance)
        await cluster.store.put(f"{directory}/two", raw, version=0)
        assert await anext(states) == {"one": "old", "two": "new", "three": "old"}
        assert parsed == ["old"] * 3 + ["new"]


# ── policy ──


async def test_the_policy_is_set_read_and_followed(cluster: Cluster, other: Cluster) -> None:
    assert await policy_store.read(cluster) is None
    async with policy_store.watch(other) as states:
        assert await anext(states) is None
        first = await policy_store.write(cluster, POLICY, replaces=0)
        assert (first.version, first.instance) == (1, cluster.instance)
        assert await anext(states) == first
        second = await policy_store.write(cluster, POLICY, replaces=1)
        assert second.version == 2
        assert await anext(states) == second
    assert await policy_store.read(other) == second


async def test_of_two_writers_only_one_replaces_a_version(cluster: Cluster, other: Cluster) -> None:
    await policy_store.write(cluster, POLICY, replaces=0)
    changed = dataclasses.replace(POLICY, owner="operator/default/demo")
    await policy_store.write(other, changed, replaces=1)
    with pytest.raises(policy_store.PolicyChangedError, match="at version 2, not 1"):
        await policy_store.write(cluster, POLICY, replaces=1)


@pytest.mark.parametrize("loss", [ExchangeLoss.ANSWER, ExchangeLoss.REQUEST])
async def test_a_policy_whose_write_was_in_doubt_is_written_once(
    memory: MemoryPlace, loss: ExchangeLoss
) -> None:
    store = await memory.open()
    cluster = await clusters.initialise(store, INSTANCE)
    weather.lose(store, 0, loss)
    written = await policy_store.write(cluster, POLICY, replaces=0)
    assert await policy_store.read(cluster) == written
    assert written.version == 1


async def test_a_policy_that_nobody_could_read_again_is_not_stored(cluster: Cluster) -> None:
    await policy_store.write(cluster, POLICY, replaces=0)
    too_often = dataclasses.replace(POLICY.zone_watch, evaluate_every_ms=500)
    wanted = dataclasses.replace(POLICY, zone_watch=too_often)
    with pytest.raises(InvalidFieldsError, match=r"zoneWatch\.evaluateEvery"):
        await policy_store.write(cluster, wanted, replaces=1)
    stored = await policy_store.read(cluster)
    assert stored is not None
    assert (stored.version, stored.zone_watch) == (1, POLICY.zone_watch)


async def test_what_a_newer_program_wrote_in_the_policy_is_kept(cluster: Cluster) -> None:
    await policy_store.write(cluster, POLICY, replaces=0)
    path = cluster.root.beside("policy")
    node = await cluster.store.get(path)
    assert node is not None
    newer = node.value.replace(b'{"digest"', b'{"colour":"blue","digest"').replace(
        b'{"ack"', b'{"colour":"blue","ack"'
    )
    assert newer != node.value
    await cluster.store.put(path, newer, version=node.version)
    await policy_store.write(cluster, POLICY, replaces=1)
    after = await cluster.store.get(path)
    assert after is not None
    assert b"blue" in after.value


async def test_a_damaged_policy_is_shown_as_damage_and_not_as_none(cluster: Cluster) -> None:
    await policy_store.write(cluster, POLICY, replaces=0)
    async with policy_store.watch(cluster) as states:
        good = await anext(states)
        await cluster.store.put(cluster.root.beside("policy"), b"{}", version=0)
        bad = await anext(states)
    assert isinstance(good, Policy)
    assert isinstance(bad, UnreadableError)
    with pytest.raises(UnreadableError):
        await policy_store.read(cluster)


# ── zones and maintenance ──


async def test_maintenance_is_declared_followed_and_lifted(
    cluster: Cluster, other: Cluster
) -> None:
    async with zone_store.watch_maintenance(other) as states:
        assert await anext(states) == {}
        await zone_store.declare(cluster, WORK)
        await zone_store.declare(cluster, WORK)
        assert await anext(states) == {"a.ud-0": WORK}
        again = dataclasses.replace(WORK, token=Token("t2"))
        with pytest.raises(zone_store.UnderMaintenanceError, match="declared already"):
            await zone_store.declare(cluster, again)
        await zone_store.lift(cluster, again)
        await zone_store.lift(cluster, WORK)
        assert await anext(states) == {}


async def test_a_watchs_records_are_kept_followed_and_changed_in_turn(
    cluster: Cluster, other: Cluster
) -> None:
    zone, whole = the_records()

    def count_on(record: ZoneRecord | None) -> ZoneRecord:
        assert record is not None
        return dataclasses.replace(record, evaluation=record.evaluation + 1)

    async with zone_store.watch_zones(other) as states:
        assert await anext(states) == {}
        await zone_store.change_zone(cluster, zone.zone, lambda record: record or zone)
        assert await anext(states) == {zone.zone: zone}
        await asyncio.gather(
            *(zone_store.change_zone(one, zone.zone, count_on) for one in (cluster, other) * 3)
        )
    after = await zone_store.read_zone(cluster, zone.zone)
    assert after is not None
    assert after.evaluation == zone.evaluation + 6
    await zone_store.change_cluster(cluster, lambda _: whole)
    assert await zone_store.read_cluster(other) == whole


async def test_a_zone_record_that_cannot_be_read_is_neither_there_nor_absent(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    zone = ZoneName("a")
    assert await zone_store.read_zone(cluster, zone) is None
    await cluster.store.create(cluster.root.gate(zone), records.render({"zone": 7}, INSTANCE))
    async with zone_store.watch_zones(cluster) as states:
        seen = await anext(states)
    assert isinstance(seen["a"], UnreadableError)
    with pytest.raises(UnreadableError):
        await zone_store.change_zone(cluster, zone, lambda record: record)
    assert "zones/a" in caplog.text


async def test_records_of_another_cluster_are_ignored_and_reported(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    await cluster.store.create(cluster.root.beside("cluster"), records.render({}, "another"))
    assert await zone_store.read_cluster(cluster) is None
    async with zone_store.watch_cluster(cluster) as states:
        assert await anext(states) is None
    assert "is ignored" in caplog.text


# ── timeline ──


def event(number: int, reason: str = "zone a is down") -> Event:
    return Event(
        at_ms=number,
        kind="held",
        subject="zone a",
        by="zone watch",
        reason=reason,
        token=f"t{number}",
        details={"available": "3 of 9"},
    )


async def test_events_come_newest_first(cluster: Cluster) -> None:
    for number in range(5):
        await timeline.append(cluster, event(number))
    assert await timeline.newest(cluster, limit=3) == [event(4), event(3), event(2)]


async def test_only_so_many_events_are_kept(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timeline, "EVENTS_MAX", 3)
    for number in range(7):
        await timeline.append(cluster, event(number))
    assert [one.at_ms for one in await timeline.newest(cluster)] == [6, 5, 4]
    assert len(await cluster.store.children(cluster.root.beside("timeline")) or ()) == 3


@pytest.mark.parametrize("loss", [ExchangeLoss.ANSWER, ExchangeLoss.REQUEST])
async def test_an_event_in_doubt_is_there_once(memory: MemoryPlace, loss: ExchangeLoss) -> None:
    store = await memory.open()
    cluster = await clusters.initialise(store, INSTANCE)
    weather.lose(store, 0, loss)
    await timeline.append(cluster, event(1))
    assert await timeline.newest(cluster) == [event(1)]


@pytest.mark.parametrize("loss", [ExchangeLoss.ANSWER, ExchangeLoss.REQUEST])
async def test_an_event_is_told_though_the_oldest_could_not_go(
    memory: MemoryPlace, loss: ExchangeLoss, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error would have its writer tell it again."""
    monkeypatch.setattr(timeline, "EVENTS_MAX", 1)
    store = await memory.open()
    cluster = await clusters.initialise(store, INSTANCE)
    await timeline.append(cluster, event(1))
    weather.lose(store, 1, loss)
    await timeline.append(cluster, event(2))
    assert (await timeline.newest(cluster))[0] == event(2)
    await timeline.append(cluster, event(3))
    assert len(await store.children(cluster.root.beside("timeline")) or ()) == 1


async def test_an_event_that_says_too_much_is_refused(cluster: Cluster) -> None:
    with pytest.raises(ValueError, match="say less"):
        await timeline.append(cluster, event(1, reason="x" * 5_000))


async def test_an_event_that_cannot_be_read_hides_no_other(cluster: Cluster) -> None:
    await timeline.append(cluster, event(1))
    await cluster.store.create(cluster.root.beside("timeline/e-"), b"garbage", sequential=True)
    await timeline.append(cluster, event(2))
    assert await timeline.newest(cluster) == [event(2), event(1)]
