"""The auditor and lost bookies: what is published, when, and what is not.

Numbers in comments are those of docs/scenarios.md.
"""

from tests.replication import gate_world
from tests.replication.audit_world import AuditWorld, played
from tests.replication.gate_world import HOUR, MINUTE, SECOND, A, members
from zonekeeper.metadata.cluster import repair_controls
from zonekeeper.metadata.cluster.repair_controls import PeriodicCheck
from zonekeeper.metadata.ledgers import ledgers, underreplication
from zonekeeper.placement.base.ids import BookieId, LedgerId
from zonekeeper.placement.policy.rules import CheckIntervals, Policy, RepairRules

A0 = BookieId("a-0")
ABC0, ABC1 = ("a-0", "b-0", "c-0"), ("a-1", "b-1", "c-1")
#: The recovery delay, and what the auditor and the zone watch need at most to notice.
DELAY, NOTICE = 5 * MINUTE, 2 * MINUTE


def often() -> Policy:
    """Give rules by which all is checked every ten minutes, but replicas every hour."""
    checks = CheckIntervals(bookies_ms=10 * MINUTE, placement_ms=10 * MINUTE, replicas_ms=HOUR)
    return gate_world.policy(repair=RepairRules(checks=checks))


async def mirrored(world: AuditWorld) -> bytes | None:
    """Give the delay that Apache's tools see."""
    path = world.cluster.root.below("underreplication/lostBookieRecoveryDelay")
    node = await world.cluster.store.get(path, sync=True)
    return None if node is None else node.value


@played()
async def test_a_lost_bookies_ledgers_are_published_after_the_delay_and_not_before(
    world: AuditWorld,
) -> None:
    # S71. The mutant "publishes before the delay and the evaluation" dies here.
    await world.add_ledger(1, ABC0)
    await world.add_ledger(2, ABC1)
    await world.add_ledger(3, ABC1, ABC0, closed=False)
    await world.gates.lose([A0])
    await world.gates.wait(DELAY - 10 * SECOND)
    assert await world.marks() == {}
    await world.gates.wait(NOTICE)
    assert await world.marks() == {1: ["a-0"], 3: ["a-0"]}


@played()
async def test_a_bookie_that_is_back_within_the_delay_costs_nothing(world: AuditWorld) -> None:
    await world.add_ledger(1, ABC0)
    for _ in range(3):
        await world.gates.lose([A0])
        await world.gates.wait(DELAY - 30 * SECOND)
        await world.gates.come([A0])
        await world.gates.wait(MINUTE)
    assert await world.marks() == {}


@played(audited=False)
async def test_a_bookie_that_was_lost_before_the_auditor_came_is_found(world: AuditWorld) -> None:
    await world.add_ledger(1, ABC0)
    await world.gates.lose([A0])
    await world.audited_by("late")
    await world.gates.wait(DELAY + NOTICE)
    assert await world.marks() == {1: ["a-0"]}


@played()
async def test_a_zone_that_vanishes_is_not_published_and_ends_in_no_storm(
    world: AuditWorld,
) -> None:
    # S83, S84: held before the first ledger is published.
    await world.add_ledger(1, ABC0)
    await world.add_ledger(2, ABC1)
    await world.gates.lose(members(A))
    await world.gates.wait(20 * MINUTE)
    assert await world.marks() == {}
    metrics = world.auditors[0].metrics
    assert (metrics.lost_bookies, metrics.held_bookies, metrics.held_copies) == (4, 4, 2)
    await world.gates.come(members(A))
    await world.gates.wait(10 * MINUTE)
    assert await world.marks() == {}
    assert (metrics.lost_bookies, metrics.held_copies) == (0, 0)


@played()
async def test_a_loss_in_another_zone_is_published_while_one_is_held(world: AuditWorld) -> None:
    # S87, S92: the part outside the zone, and no more.
    await world.add_ledger(1, ABC0)
    await world.add_ledger(2, ABC1)
    await world.gates.lose(members(A))
    await world.gates.wait(10 * MINUTE)
    await world.gates.lose([BookieId("b-0")])
    await world.gates.wait(DELAY + NOTICE)
    assert await world.marks() == {1: ["b-0"]}


@played()
async def test_a_released_zone_is_published(world: AuditWorld) -> None:
    # S86.
    await world.add_ledger(1, ABC0)
    await world.add_ledger(2, ABC1)
    await world.gates.lose(members(A))
    await world.gates.wait(10 * MINUTE)
    await world.gates.release(A)
    await world.gates.wait(NOTICE)
    assert await world.marks() == {1: ["a-0"], 2: ["a-1"]}


@played()
async def test_a_flapping_zone_is_never_published(world: AuditWorld) -> None:
    # S85.
    await world.add_ledger(1, ABC0)
    for _ in range(8):
        await world.gates.lose(members(A))
        await world.gates.wait(90 * SECOND)
        await world.gates.come(members(A))
        await world.gates.wait(90 * SECOND)
    await world.gates.wait(20 * MINUTE)
    assert await world.marks() == {}


@played()
async def test_nothing_is_published_while_replication_is_switched_off_and_everything_after(
    world: AuditWorld,
) -> None:
    await world.add_ledger(1, ABC0)
    await repair_controls.set_enabled(world.cluster, enabled=False)
    await world.gates.lose([A0])
    await world.gates.wait(20 * MINUTE)
    assert await world.marks() == {}
    await repair_controls.set_enabled(world.cluster, enabled=True)
    await world.gates.wait(NOTICE)
    assert await world.marks() == {1: ["a-0"]}


@played()
async def test_without_a_zone_watch_nothing_is_published(world: AuditWorld) -> None:
    # S91: the watch dies, and what it cannot tell any more holds.
    await world.add_ledger(1, ABC0)
    await world.gates.watches[0].kill()
    await world.gates.wait(5 * MINUTE)
    await world.gates.lose([A0])
    await world.gates.wait(20 * MINUTE)
    assert await world.marks() == {}
    await world.gates.watched_by("watch-2")
    await world.gates.wait(2 * DELAY + 2 * NOTICE)
    assert await world.marks() == {1: ["a-0"]}


@played(rules=often())
async def test_ledgers_that_are_created_or_changed_later_are_found_by_the_next_listing(
    world: AuditWorld,
) -> None:
    await world.gates.lose([A0])
    await world.gates.wait(DELAY + NOTICE)
    assert await world.written_off(["a-0"]) == ["a-0"]
    await world.add_ledger(7, ABC0)  # by a client whose view is old
    await world.gates.wait(12 * MINUTE)
    assert await world.marks() == {7: ["a-0"]}


@played()
async def test_a_write_to_apaches_delay_is_a_wish_for_an_audit_and_nothing_else(
    world: AuditWorld,
) -> None:
    assert await mirrored(world) == b"300"
    metrics = world.auditors[0].metrics
    await world.gates.wait(5 * MINUTE)
    before = metrics.listings_total
    await world.add_ledger(1, ABC0)
    await world.gates.lose([A0])
    await repair_controls.write_delay_s(world.cluster, 0)
    await world.gates.wait(2 * MINUTE)
    assert metrics.listings_total > before
    assert await world.marks() == {}, "the policy decides the delay"


@played()
async def test_a_repaired_bookie_is_written_off_and_counts_again_when_it_is_back(
    world: AuditWorld,
) -> None:
    await world.add_ledger(1, ABC0)
    await world.gates.lose([A0])
    await world.gates.wait(DELAY + NOTICE)
    assert await world.marks() == {1: ["a-0"]}
    await world.gates.wait(20 * MINUTE)
    assert await world.written_off(["a-0"]) == []
    await world.repaired(1, "a-0", "a-2")
    await world.gates.wait(NOTICE)
    assert await world.written_off(["a-0"]) == ["a-0"]
    assert await world.gates.told_of("repaired") == ["lost, and no ledger names it any more"]
    await world.gates.come([A0])
    await world.gates.wait(NOTICE)
    assert await world.written_off(["a-0"]) == []


@played()
async def test_a_mark_that_vanishes_without_a_repair_is_made_again(world: AuditWorld) -> None:
    await world.add_ledger(1, ABC0)
    await world.gates.lose([A0])
    await world.gates.wait(DELAY + NOTICE)
    assert await underreplication.unmark(world.cluster, LedgerId(1), [A0])
    await world.gates.wait(NOTICE)
    assert await world.marks() == {1: ["a-0"]}
    assert await world.written_off(["a-0"]) == []


@played()
async def test_a_returned_bookie_that_cannot_be_asked_stays_marked(world: AuditWorld) -> None:
    await world.add_ledger(1, ABC0)
    await world.add_ledger(2, ABC1, ABC0, closed=False)
    await world.gates.lose([A0])
    await world.gates.wait(DELAY + NOTICE)
    assert await world.marks() == {1: ["a-0"], 2: ["a-0"]}
    await world.gates.come([A0])
    await world.gates.wait(NOTICE)
    # The second's fragment is its writer's, but the bookie may have forgotten all of it.
    assert await world.marks() == {1: ["a-0"], 2: ["a-0"]}


@played()
async def test_another_auditor_goes_on_and_two_do_no_harm(world: AuditWorld) -> None:
    first = world.auditors[0]
    second = await world.audited_by("auditor-2")
    await world.add_ledger(1, ABC0)
    await world.gates.lose([A0])
    await world.gates.wait(2 * MINUTE)
    assert (first.metrics.leading, second.metrics.leading) == (1, 0)
    await first.kill()
    await world.gates.wait(DELAY + NOTICE)
    assert second.metrics.leading == 1
    assert (first.metrics.leading, first.metrics.ledgers) == (0, 0)
    assert await world.marks() == {1: ["a-0"]}


@played()
async def test_an_auditor_that_is_cut_off_writes_nothing_and_stands_again(
    world: AuditWorld,
) -> None:
    process = world.auditors[0]
    await world.add_ledger(1, ABC0)
    await world.gates.lose([A0])
    await world.gates.wait(2 * MINUTE)
    process.store.cut()
    await world.gates.wait(20 * MINUTE)
    assert process.metrics.leading == 0
    assert await world.marks() == {}
    process.store.mend()
    await world.gates.wait(2 * DELAY + NOTICE)
    assert await world.marks() == {1: ["a-0"]}


@played()
async def test_a_ledger_that_cannot_be_read_is_reported_and_stops_no_other(
    world: AuditWorld,
) -> None:
    # S67. It may name any bookie: so none is written off.
    broken = await world.add_ledger(1, ABC1)
    await world.add_ledger(2, ABC0)
    await world.cluster.store.put(ledgers.path(world.cluster, broken), b"", version=0)
    await world.gates.lose([A0])
    await world.gates.wait(DELAY + NOTICE)
    assert await world.marks() == {2: ["a-0"]}
    await world.repaired(2, "a-0", "a-2")
    await world.gates.wait(20 * MINUTE)
    assert world.auditors[0].metrics.unreadable_ledgers == 1
    assert await world.written_off(["a-0"]) == []


@played()
async def test_a_mark_that_cannot_be_read_stops_no_other(world: AuditWorld) -> None:
    await world.add_ledger(1, ABC0)
    await world.add_ledger(2, ABC0)
    await underreplication.mark(world.cluster, LedgerId(1), [BookieId("b-0")], at_ms=1)
    path = world.cluster.root.below("underreplication/ledgers/0000/0000/0000/0001")
    await world.cluster.store.put(f"{path}/urL0000000001", b"\xff", version=0)
    await world.gates.lose([A0])
    await world.gates.wait(DELAY + NOTICE)
    mark = await underreplication.read(world.cluster, LedgerId(2))
    assert mark is not None
    assert mark.replicas == (A0,)
    assert world.auditors[0].metrics.unreadable_marks_total > 0


@played()
async def test_a_bookie_without_a_cookie_is_published_once_nothing_is_held(
    world: AuditWorld,
) -> None:
    await world.add_ledger(1, ("a-9", "b-0", "c-0"))
    await repair_controls.write_delay_s(world.cluster, 1)  # asks for a listing
    await world.gates.wait(DELAY - MINUTE)
    assert world.auditors[0].metrics.unknown_bookies == 1
    assert await world.marks() == {}
    await world.gates.wait(MINUTE + NOTICE)
    assert await world.marks() == {1: ["a-9"]}
    assert await world.written_off(["a-9"]) == []


@played()
async def test_what_is_at_its_last_copy_is_an_alert_and_no_exemption(world: AuditWorld) -> None:
    # S88, S89, S124: a ledger that is at risk already does not hide another.
    await world.add_ledger(1, ABC0)
    await world.add_ledger(2, ABC0)
    await world.add_ledger(3, ("a-0", "a-1", "a-2"))
    await repair_controls.write_delay_s(world.cluster, 1)
    await world.gates.lose(members(A))
    await world.gates.wait(10 * MINUTE)
    metrics = world.auditors[0].metrics
    assert (metrics.fragments_at_last_copy, metrics.fragments_out_of_reach) == (0, 1)
    await world.gates.lose([BookieId("b-0")])
    await world.gates.wait(2 * MINUTE)
    assert (metrics.fragments_at_last_copy, metrics.fragments_out_of_reach) == (2, 1)
    older, newest = await world.gates.told_of("at risk")
    assert older.startswith("0 fragments hold entries with one copy left")
    assert older.endswith("and 1 fragments entries with none; 1 ledger is newly so: 3")
    assert newest.startswith("2 fragments hold entries with one copy left")
    assert newest.endswith("and 1 fragments entries with none; 2 ledgers are newly so: 1, 2")
    assert await world.marks() == {}
    await world.gates.come([*members(A), BookieId("b-0")])
    await world.gates.wait(2 * MINUTE)
    assert (metrics.fragments_at_last_copy, metrics.fragments_out_of_reach) == (0, 0)
    assert len(await world.gates.told_of("safe")) == 1


@played(rules=often())
async def test_checks_are_made_when_they_are_due_whoever_made_the_last(world: AuditWorld) -> None:
    async def read(world: AuditWorld, check: PeriodicCheck) -> int | None:
        return await repair_controls.read_check_time_ms(world.cluster, check)

    await world.gates.wait(MINUTE)
    last = {check: await read(world, check) for check in PeriodicCheck}
    assert all(at is not None for at in last.values()), "a new cluster is checked at once"
    await world.gates.wait(5 * MINUTE)
    await world.auditors[0].kill()
    second = await world.audited_by("auditor-2")
    await world.gates.wait(2 * MINUTE)
    assert second.metrics.leading == 1
    assert await read(world, PeriodicCheck.PLACEMENT) == last[PeriodicCheck.PLACEMENT]
    await world.gates.wait(4 * MINUTE)
    assert (await read(world, PeriodicCheck.PLACEMENT) or 0) > (last[PeriodicCheck.PLACEMENT] or 0)
    assert await read(world, PeriodicCheck.REPLICAS) == last[PeriodicCheck.REPLICAS]
    assert second.metrics.listings_total >= 2


@played(audited=False)
async def test_a_check_time_of_the_future_means_that_a_check_is_due(world: AuditWorld) -> None:
    # S65.
    far = world.gates.wall_ms() + 1_000 * HOUR
    await repair_controls.write_check_time_ms(world.cluster, PeriodicCheck.PLACEMENT, far)
    await world.audited_by("late")
    await world.gates.wait(2 * MINUTE)
    at = await repair_controls.read_check_time_ms(world.cluster, PeriodicCheck.PLACEMENT)
    assert at is not None
    assert at < far


@played()
async def test_a_changed_policy_is_mirrored(world: AuditWorld) -> None:
    assert await mirrored(world) == b"300"
    await repair_controls.write_delay_s(world.cluster, 7)
    await world.gates.wait(MINUTE)
    assert await mirrored(world) == b"300"
