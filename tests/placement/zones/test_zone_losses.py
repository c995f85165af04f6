"""What auditor and replicators are answered, and that the hold comes before the first ledger."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.placement.zone_world import (
    HOUR,
    MINUTE,
    SECOND,
    A,
    B,
    World,
    members,
    policy,
    settled,
    where,
)
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.placement.base.topology import Bookie, Registration
from zonekeeper.placement.policy.rules import RepairRules, ZoneWatchRules
from zonekeeper.placement.zones import losses
from zonekeeper.placement.zones.counted_time import longest_step_ms
from zonekeeper.placement.zones.gate import Permission
from zonekeeper.placement.zones.losses import Followed, Held, HeldBy

ONE = members(A, 0)[0]
RULES = ZoneWatchRules()


def holds(world: World, bookie: BookieId = ONE) -> HeldBy | None:
    """By what is the publication of its ledgers held?"""
    held = world.what_holds(bookie)
    assert held is None or held.text
    return held.by if held else None


def holds_now(world: World, bookie: BookieId = ONE) -> HeldBy | None:
    """By what is the repair of its copies held, for every replicator?"""
    now_ms = world.now_ms + world.auditor_clock_ms
    held = losses.what_holds(where(bookie), world.followed, world.policy, now_ms=now_ms)
    return held.by if held else None


def test_a_loss_waits_for_its_delay() -> None:
    world = settled()
    world.lose([ONE])

    assert holds(world) is HeldBy.RECOVERY_DELAY
    assert holds_now(world) is None
    world.wait(5 * MINUTE)
    assert holds(world) is None


def test_a_bookie_that_is_back_is_no_loss_and_the_next_time_is_a_new_one() -> None:
    world = settled()
    world.lose([ONE])
    world.wait(4 * MINUTE)
    world.come([ONE])
    assert ONE not in world.followed.missing
    world.lose([ONE])
    world.wait(4 * MINUTE)

    assert holds(world) is HeldBy.RECOVERY_DELAY


def test_no_record_holds() -> None:
    world = settled()
    world.lose([ONE])
    world.wait(10 * MINUTE)
    world.watching = False
    zones = {zone: record for zone, record in world.health.zones.items() if zone != A}
    world.health = replace(world.health, zones=zones)
    world.look()
    assert holds(world) is HeldBy.NO_RECORD
    assert holds_now(world) is HeldBy.NO_RECORD

    world.health = replace(world.health, cluster=None)
    world.look()
    assert holds(world) is HeldBy.NO_RECORD


def test_a_counter_that_stands_still_holds() -> None:
    world = settled()
    world.lose([ONE])
    world.wait(10 * MINUTE)
    assert holds(world) is None

    world.watching = False
    world.wait(longest_step_ms(RULES))
    assert holds(world) is None
    world.wait(SECOND)
    assert holds(world) is HeldBy.NOT_WATCHED
    assert holds_now(world) is HeldBy.NOT_WATCHED


def test_a_held_zone_is_named_before_what_a_process_has_not_seen_yet() -> None:
    # S149.
    world = settled()
    lost = members(A)
    world.lose(lost)
    world.wait(10 * MINUTE)
    assert holds_now(world, lost[0]) is HeldBy.ZONE_HELD

    world.followed = Followed()
    world.watching = False
    world.look()
    assert holds_now(world, lost[0]) is HeldBy.ZONE_HELD
    assert holds_now(world, members(B)[0]) is HeldBy.NOT_WATCHED


def test_what_holds_a_bookie_is_what_holds_its_place_while_there_is_something_to_repair() -> None:
    # S149.
    world = settled()
    lost = members(A)
    world.lose(lost)
    world.wait(10 * MINUTE)

    def asked(registration: Registration, *, written_off: bool) -> Held | None:
        bookie = Bookie(id=lost[0], location=where(lost[0]), registration=registration)
        return losses.what_holds_bookie(
            bookie, world.followed, world.policy, written_off=written_off, now_ms=world.now_ms
        )

    held = asked(Registration.ABSENT, written_off=False)
    assert held is not None
    assert held.by is HeldBy.ZONE_HELD
    assert asked(Registration.ABSENT, written_off=True) is None
    assert asked(Registration.READ_ONLY, written_off=False) is None


def test_a_process_that_has_just_begun_holds_until_it_sees_the_counter_move() -> None:
    world = settled()
    world.lose([ONE])
    world.wait(10 * MINUTE)
    world.followed = Followed()
    world.watching = False
    world.look()
    assert holds_now(world) is HeldBy.NOT_WATCHED

    world.watching = True
    world.look()
    assert holds_now(world) is None
    assert holds(world) is HeldBy.RECOVERY_DELAY  # and its delays begin anew


def test_the_counter_must_have_moved_since_the_loss_was_seen() -> None:
    world = settled(policy(repair=RepairRules(bookie_recovery_delay_ms=20 * SECOND)))
    world.watching = False
    world.lose([ONE])
    world.wait(30 * SECOND)
    assert holds(world) is HeldBy.NOT_EVALUATED

    world.watching = True
    world.look()
    assert holds(world) is None


def test_what_was_first_seen_without_a_record_is_seen_anew_with_one() -> None:
    world = settled()
    health = world.health
    world.health, world.watching = replace(health, cluster=None), False
    world.lose([ONE])
    world.wait(10 * MINUTE)
    assert holds(world) is HeldBy.NO_RECORD

    world.health, world.watching = health, True
    world.wait(2 * SECOND, every_ms=SECOND)
    assert holds(world) is HeldBy.RECOVERY_DELAY


def test_a_record_that_was_made_again_begins_the_delay_again() -> None:
    world = settled()
    world.lose([ONE])
    world.wait(4 * MINUTE)
    zones = {zone: replace(record, evaluation=0) for zone, record in world.health.zones.items()}
    world.health = replace(world.health, zones=zones)
    world.wait(2 * MINUTE)

    assert holds(world) is HeldBy.RECOVERY_DELAY


def test_a_gap_in_the_auditors_own_time_is_not_counted_as_delay() -> None:
    world = settled()
    world.lose([ONE])
    world.auditor_clock_ms += HOUR
    world.wait(4 * MINUTE)

    assert holds(world) is HeldBy.RECOVERY_DELAY
    world.wait(2 * MINUTE)
    assert holds(world) is None


def test_the_switch_holds_everything() -> None:
    world = settled()
    world.lose([ONE])
    world.wait(10 * MINUTE)
    world.enabled = False
    world.look()

    assert holds(world) is holds_now(world) is HeldBy.REPLICATION_DISABLED


def test_records_that_were_read_anew_go_before_those_of_the_last_look() -> None:
    world = settled()
    world.lose([ONE])
    known = world.followed
    now_ms = world.now_ms + world.auditor_clock_ms

    def held(records: losses.Records) -> HeldBy | None:
        present = losses.at_present(known, records)
        found = losses.what_holds(where(ONE), present, world.policy, now_ms=now_ms)
        return found.by if found else None

    assert held(known.records) is None
    assert held(replace(known.records, cluster=None)) is HeldBy.NO_RECORD
    assert held(replace(known.records, replication_enabled=False)) is HeldBy.REPLICATION_DISABLED
    zone = where(ONE).zone
    gate = replace(known.records.zones[zone].gate, permission=Permission.HELD)
    shut = replace(known.records.zones[zone], gate=gate)
    assert held(replace(known.records, zones={**known.records.zones, zone: shut})) is (
        HeldBy.ZONE_HELD
    )
    first_seen = replace(known, pulses={None: known.pulses[None]})
    present = losses.at_present(first_seen, known.records)
    found = losses.what_holds(where(ONE), present, world.policy, now_ms=now_ms)
    assert found is not None
    assert found.by is HeldBy.NOT_WATCHED, "its counter was not followed before"


def test_a_zones_hold_holds_its_own_losses_only() -> None:
    world = settled()
    world.lose([*members(A), *members(B, 0)])
    world.wait(10 * MINUTE)

    assert holds(world) is holds_now(world) is HeldBy.ZONE_HELD
    assert list(world.published) == members(B, 0)


def test_a_bookie_whose_zone_nobody_knows_is_held_while_any_zone_is() -> None:
    world = settled()
    world.lose(members(A))
    world.wait(10 * MINUTE)
    now_ms = world.now_ms + world.auditor_clock_ms
    held = losses.what_holds(None, world.followed, world.policy, now_ms=now_ms)
    assert held is not None
    assert held.by is HeldBy.ZONE_HELD

    world.come(members(A))
    world.wait(10 * MINUTE)
    now_ms = world.now_ms + world.auditor_clock_ms
    assert losses.what_holds(None, world.followed, world.policy, now_ms=now_ms) is None


def test_a_bookie_whose_zone_nobody_knows_is_held_while_the_record_of_any_zone_is_missing() -> None:
    world = settled()
    records = world.followed.records
    zones = {zone: record for zone, record in records.zones.items() if zone != B}
    unread = replace(world.followed, records=replace(records, zones=zones))
    now_ms = world.now_ms + world.auditor_clock_ms

    held = losses.what_holds(None, unread, world.policy, now_ms=now_ms)

    assert held is not None
    assert held.by is HeldBy.NO_RECORD
    assert "zone b" in held.text


@settings(deadline=None, max_examples=25)
@given(data=st.data())
def test_the_hold_is_in_force_before_the_first_ledger_of_a_zone_is_published(
    data: st.DataObject,
) -> None:
    """A zone dies at one moment; its sessions run out one by one, the watch ticks when it ticks."""
    seconds = st.integers(1, 90).map(lambda number: number * SECOND)
    session_ms, every_ms, suspect_ms = data.draw(seconds), data.draw(seconds), data.draw(seconds)
    watch = ZoneWatchRules(
        session_timeout_ms=session_ms, evaluate_every_ms=every_ms, suspect_for_ms=suspect_ms
    )
    repair = RepairRules(bookie_recovery_delay_ms=session_ms + every_ms + suspect_ms)
    world = settled(policy(watch, repair))
    expiries = sorted(data.draw(st.lists(st.integers(0, session_ms), min_size=10, max_size=10)))
    phase_ms = data.draw(st.integers(0, every_ms - 1))

    start_ms, tick_ms = world.now_ms, world.now_ms + phase_ms
    while world.now_ms < start_ms + 3 * repair.bookie_recovery_delay_ms:
        expiry_ms = start_ms + expiries[0] if expiries else tick_ms
        world.now_ms = min(tick_ms, expiry_ms, world.now_ms + SECOND)
        world.watching = world.now_ms == tick_ms  # no look at changes: the slowest watch allowed
        tick_ms += every_ms if world.watching else 0
        gone = [number for number, at_ms in enumerate(expiries) if start_ms + at_ms <= world.now_ms]
        del expiries[: len(gone)]
        first = 10 - len(expiries) - len(gone)
        world.lose(members(A, *range(first, first + len(gone))) if gone else [])

    assert world.zone(A).gate.permission is Permission.HELD
    assert not world.published
