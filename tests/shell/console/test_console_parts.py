"""What the console shows, as values: parts of zones, figures, bands, the queue, commands."""

import json
import math
from collections.abc import Mapping
from dataclasses import replace

import click
import pytest

from zonekeeper.placement.base.fields import Plain
from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.placement.policy.rules import RepairRules
from zonekeeper.placement.zones import zone_alerts
from zonekeeper.placement.zones.gate import Gate, Permission
from zonekeeper.placement.zones.losses import Held, HeldBy
from zonekeeper.placement.zones.observation import Observation, ZoneObservation
from zonekeeper.placement.zones.zone_counts import Count
from zonekeeper.placement.zones.zone_effects import Noted
from zonekeeper.placement.zones.zone_records import ZoneRecord
from zonekeeper.shell.console import (
    bands,
    copied_commands,
    figures,
    http_parts,
    queue_pace,
    snapshot,
    zone_parts,
)
from zonekeeper.shell.console.copied_commands import CopiedCommand
from zonekeeper.shell.console.figures import ClusterFigures, MetricsLook
from zonekeeper.shell.console.queue_pace import QueueLook
from zonekeeper.shell.console.snapshot import BandPart, BookieFigures, BookiePart, EventPart
from zonekeeper.shell.console.zone_parts import PlacedBookie, ToldZone
from zonekeeper.shell.main import main
from zonekeeper.shell.reports.top_metrics import Look
from zonekeeper.shell.runbooks import shelf

UP = ToldZone(gate=replace(zone_parts.NO_RECORD, observation="up", permission="open"))


def placed(
    name: str, zone: str | None = "a", domain: str | None = "ud-0", **more: object
) -> PlacedBookie:
    part = replace(BookiePart(id=name, state="writable"), **more)  # type: ignore[arg-type]  # fits by name
    return PlacedBookie(bookie=part, zone=zone, upgrade_domain=domain)


def record(state: Observation, permission: Permission, reason: str = "why") -> ZoneRecord:
    gate = Gate(permission=permission, set_by="zone watch", reason=reason, since_wall_ms=7)
    return ZoneRecord(
        zone=ZoneName("a"),
        evaluation=5,
        evidence=Count(total=3, available=1, draining=2),
        observed=ZoneObservation(state=state, reason="seen", since_wall_ms=6),
        gate=replace(gate, held_ms=90_000),
    )


# ── zones ──


def test_a_record_is_shown_with_its_evidence_and_its_gate() -> None:
    part = zone_parts.gate_part(record(Observation.DOWN, Permission.HELD))
    assert (part.observation, part.permission, part.held_ms) == ("down", "held", 90_000)
    assert (part.available, part.counted, part.not_counted) == (1, 3, "2 draining")
    assert (part.since_ms, part.permission_since_ms, part.set_by) == (6, 7, "zone watch")


def test_a_gate_that_permits_is_not_held_for_any_time() -> None:
    assert zone_parts.gate_part(record(Observation.UP, Permission.OPEN)).held_ms == 0


def test_a_zone_without_a_readable_record_is_held_and_unknown() -> None:
    part = zone_parts.gate_part(None)
    assert (part.observation, part.permission, part.counted) == ("unknown", "held", None)


def test_zones_have_their_units_and_bookies_and_those_without_a_zone_stand_last() -> None:
    some = [placed("z-1", None, None), placed("a-1", domain="ud-1"), placed("a-0")]
    zones = zone_parts.zones(some, {"a": UP, "b": UP}, {("a", "ud-1"): "by anna"}, ClusterFigures())
    assert [zone.zone for zone in zones] == ["a", "b", None]
    assert [[one.id for one in unit.bookies] for unit in zones[0].units] == [["a-0"], ["a-1"]]
    assert [unit.maintenance for unit in zones[0].units] == [None, "by anna"]
    assert zones[1].units == ()
    assert zones[2].gate.permission == "held"


def test_the_bookies_of_a_unit_are_listed_also_if_zone_or_domain_is_not_known() -> None:
    some = [placed("z-1", None, None), placed("z-0", None, None), placed("a-1", "a", None)]
    zones = zone_parts.zones(some, {}, {}, ClusterFigures())
    for zone in zones:
        for one in zone.units:
            found = zone_parts.unit(some, zone.zone or "", one.upgrade_domain, ClusterFigures())
            assert found == one.bookies


def test_the_room_of_a_zone_is_unknown_if_that_of_one_bookie_is() -> None:
    some = [placed("a-0", free_bytes=1, total_bytes=3), placed("a-1", total_bytes=4)]
    (zone,) = zone_parts.zones(some, {"a": UP}, {}, ClusterFigures())
    assert (zone.free_bytes, zone.total_bytes) == (None, 7)


def test_a_large_cluster_shows_only_the_bookies_of_which_something_is_said() -> None:
    some = [placed(f"a-{number:04}") for number in range(3_000)]
    some[7] = placed("a-0007", state="absent")
    some[8] = placed("a-0008", draining=True)
    some[9:29] = [placed(f"a-{number:04}", remarks=("slow",)) for number in range(9, 29)]
    (zone,) = zone_parts.zones(some, {"a": UP}, {}, ClusterFigures())
    (unit,) = zone.units
    assert (unit.size, dict(unit.states)) == (3_000, {"absent": 1, "writable": 2_999})
    assert len(unit.bookies) == zone_parts.UNIT_BOOKIES_MAX
    assert [one.id for one in unit.bookies[:2]] == ["a-0007", "a-0008"]
    assert unit.not_shown == 3_000 - zone_parts.UNIT_BOOKIES_MAX
    assert len(json.dumps(snapshot.plain(zone))) < 20_000


def test_figures_stand_with_their_bookie_and_an_absent_one_is_not_called_silent() -> None:
    found = ClusterFigures(
        bookies={BookieId("a-0"): BookieFigures(append_p99_ms=4.0)},
        answers={BookieId("a-0"): True, BookieId("a-1"): False, BookieId("a-2"): False},
        remarks={BookieId("a-1"): ("its page does not answer: x",), BookieId("a-2"): ("x",)},
    )
    some = [placed("a-0"), placed("a-1"), placed("a-2", state="absent")]
    one, silent, absent = zone_parts.unit(some, "a", "ud-0", found)
    assert (one.figures.append_p99_ms, one.answers, one.remarks) == (4.0, True, ())
    assert (silent.answers, silent.remarks) == (False, ("its page does not answer: x",))
    assert absent.remarks == ()


def test_what_holds_names_the_runbook_of_the_predicate() -> None:
    for by in HeldBy:
        hold = zone_parts.hold_part(Held(by=by, text="text"))
        assert hold is not None
        assert hold.runbook in shelf.pages()


def test_plain_data_is_camel_case_and_has_no_infinity() -> None:
    data = snapshot.plain(BookieFigures(append_p99_ms=math.inf, appends_per_second=1.5))
    assert data == {
        "appendsPerSecond": 1.5,
        "appendP99Ms": "over",
        "readsPerSecond": None,
        "readP99Ms": None,
    }


# ── figures ──


def look(count: int, bound_s: float, boot: int = 1) -> Look:
    return Look(
        boot_epoch=boot,
        within={"append": {bound_s: float(count), math.inf: float(count)}},
        outcomes={("append", "ok"): float(count)},
    )


def seen(at_s: float, found: Look | str, unit: figures.Unit = ("a", "ud-0")) -> MetricsLook:
    return MetricsLook(at_s=at_s, unit=unit, look=found)


def test_figures_are_of_the_time_between_two_rounds_and_zones_add_up() -> None:
    before = {BookieId("x"): seen(0, look(100, 0.004)), BookieId("y"): seen(0, look(0, 0.5))}
    after = {BookieId("x"): seen(2, look(300, 0.004)), BookieId("y"): seen(2, look(100, 0.5))}
    found = figures.of_round(before, after)
    assert found.bookies[BookieId("x")].appends_per_second == 100
    assert found.bookies[BookieId("x")].append_p99_ms == 4
    assert found.zones["a"].appends_per_second == 150
    assert found.zones["a"].append_p99_ms == 500
    assert found.units["a", "ud-0"] == found.zones["a"] == found.whole


def test_a_first_round_has_no_figures_and_a_silent_page_is_said() -> None:
    found = figures.of_round(
        {}, {BookieId("x"): seen(1, look(5, 1)), BookieId("y"): seen(1, "gone")}
    )
    assert found.bookies == {}
    assert found.whole == BookieFigures()
    assert found.answers == {BookieId("x"): True, BookieId("y"): False}
    assert found.remarks == {BookieId("y"): ("its page does not answer: gone",)}


# ── bands ──


def event(at_ms: int, text: str, subject: str = "zone a", kind: str = "changed") -> EventPart:
    return EventPart(at_ms=at_ms, kind=kind, subject=subject, by="watch", reason=text)


def of_zone_a(*events: EventPart, now: tuple[str, str] = ("down", "held")) -> list[BandPart]:
    return list(bands.of_zones(events[::-1], {"a": now}, now_ms=100)["a"])


def band(observation: str, permission: str, begin: int, end: int) -> BandPart:
    return BandPart(observation=observation, permission=permission, from_ms=begin, to_ms=end)


def test_bands_follow_what_the_zone_watch_tells() -> None:
    """The events are made by the zone watch's own words, so neither can change alone."""
    up, down = (
        record(Observation.UP, Permission.OPEN),
        record(Observation.DOWN, Permission.HELD, "gone"),
    )
    told = [one.text for one in zone_alerts.told(up, down, RepairRules()) if isinstance(one, Noted)]
    events = [event(10 + number, text) for number, text in enumerate(told)]
    begin = event(0, "of another", "cluster")
    assert of_zone_a(begin, *events) == [
        band("up", "open", 0, 10),
        band("down", "open", 10, 11),
        band("down", "held", 11, 100),
    ]


def test_a_zone_of_which_no_event_tells_was_as_it_is() -> None:
    assert of_zone_a(event(5, "x", "zone b"), now=("up", "open")) == [band("up", "open", 5, 100)]


@pytest.mark.parametrize(
    "text", ["", "nonsense", "up → elsewhere: x", "repair up → down: x", "→ : ", "x" * 5_000]
)
def test_an_event_that_cannot_be_read_changes_no_band(text: str) -> None:
    assert of_zone_a(event(5, text), now=("up", "open")) == [band("up", "open", 5, 100)]


def test_bands_never_run_backwards_whatever_clocks_say() -> None:
    found = of_zone_a(
        event(500, "up → suspect: x"),
        event(20, "suspect → down: x"),
        event(50, "x", "zone b"),
        now=("up", "open"),
    )
    assert all(one.from_ms <= one.to_ms <= 100 for one in found)
    assert [one.from_ms for one in found[1:]] == [one.to_ms for one in found[:-1]]


def test_bands_of_a_zone_are_bounded() -> None:
    states = ["up", "suspect"]
    events = [event(at, f"{states[at % 2]} → {states[1 - at % 2]}: x") for at in range(900)]
    found = bands.of_zones(events, {"a": ("up", "open")}, now_ms=1_000)["a"]
    assert len(found) == bands.BANDS_MAX


# ── the queue ──


def test_a_queue_that_becomes_shorter_has_a_pace_and_an_end() -> None:
    pace = queue_pace.pace([QueueLook(0, 100), QueueLook(10_000, 80)])
    assert pace is not None
    assert (pace.ledgers_per_second, pace.eta_ms) == (2, 40_000)


@pytest.mark.parametrize(
    "looks",
    [
        [],
        [QueueLook(0, 5)],
        [QueueLook(0, 5), QueueLook(9_000, 5)],
        [QueueLook(0, 9), QueueLook(9, 1)],
    ],
)
def test_a_queue_without_progress_or_hardly_watched_has_no_pace(looks: list[QueueLook]) -> None:
    assert queue_pace.pace(looks) is None


def test_looks_before_the_queue_grew_and_old_ones_are_left_out() -> None:
    assert queue_pace.kept([QueueLook(0, 5)], QueueLook(1, 9)) == (QueueLook(1, 9),)
    looks: tuple[QueueLook, ...] = ()
    for at in range(200):
        looks = queue_pace.kept(looks, QueueLook(at * 1_000, 500 - at))
    assert len(looks) == queue_pace.WINDOW_MS / 1_000 + 1


# ── over HTTP ──


def test_s184_without_the_store_a_bookie_says_itself_how_it_is() -> None:
    states: dict[BookieId, Mapping[str, Plain] | None] = {
        BookieId("a-0"): {
            "state": "read-only",
            "freeBytes": 5,
            "restrictions": [{"what": "read-only", "by": "anna", "reason": "slow"}, 7],
        },
        BookieId("a-1"): None,
        BookieId("a-2"): {
            "state": ["<b>"],
            "restrictions": "x",
            "freeBytes": True,
            "totalBytes": -7,
        },
    }
    one, silent, odd, other = (
        found.bookie
        for found in http_parts.over([placed(f"a-{number}") for number in range(4)], states)
    )
    assert (one.state, one.free_bytes, one.remarks) == (
        "read-only",
        5,
        ("read-only (by anna: slow)",),
    )
    assert (silent.state, silent.answers) == (http_parts.NO_ANSWER, False)
    assert (odd.state, odd.free_bytes, odd.total_bytes) == ("unknown", None, None)
    assert odd.remarks == ()
    assert other.state == "writable"


def test_s185_zones_are_read_from_the_page_of_a_process_whatever_it_says() -> None:
    zones, whole = http_parts.told(
        {
            "records": {
                "a": {"observation": "down", "permission": "held", "heldMs": 5, "available": 0},
                "b": "nonsense",
                "c": {"heldMs": -1, "reason": 7, "observation": None},
                "": {"observation": "calm", "permission": "open", "heldMs": 9},
            },
            "heldBy": {"a": {"predicate": "zoneHeld", "text": "x"}, "c": []},
        }
    )
    assert set(zones) == {"a", "c"}
    assert (zones["a"].gate.permission, zones["a"].gate.held_ms) == ("held", 5)
    assert zones["a"].held == zone_parts.hold_part(Held(by=HeldBy.ZONE_HELD, text="x"))
    assert zones["c"].gate.permission == "held"
    assert whole is not None
    assert (whole.observation, whole.held_ms) == ("calm", 0)
    assert http_parts.told({}) == ({}, None)


# ── commands ──

NAMES = {
    copied_commands.ZONE: ["b"],
    copied_commands.DOMAIN: ["ud-0"],
    copied_commands.BOOKIE: ["bk-b-0"],
    copied_commands.LEDGER: ["17"],
    copied_commands.RUNBOOK: ["zoneHeld"],
    copied_commands.REASON: ["it burnt down; really's"],
    copied_commands.PLACE: ["--metadata", "sqlite:///nowhere/meta.db", "--cluster-id", "x"],
    copied_commands.TLS: [],
}


@pytest.mark.parametrize(
    "command", [one for some in copied_commands.COMMANDS.values() for one in some], ids=str
)
def test_a_command_to_copy_is_one_that_the_shell_takes(command: CopiedCommand) -> None:
    words = [word for name in command.words for word in NAMES.get(name, [name])]
    assert not any("{" in word for word in words)
    assert words.pop(0) == "zonekeeper"
    here: click.Command = main
    context = click.Context(main, **main.context_settings)
    while isinstance(here, click.Group):
        name, found, words = here.resolve_command(context, words)
        assert found is not None
        context, here = click.Context(found, parent=context, info_name=name), found
    here.make_context(here.name, words)  # raises what the shell would say


def test_a_command_that_changes_something_asks_for_a_reason() -> None:
    for some in copied_commands.COMMANDS.values():
        for one in some:
            assert one.changes is (copied_commands.REASON in one.words), one
