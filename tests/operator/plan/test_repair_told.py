"""``RepairReady`` says whether lost copies are made again now, and if not, why."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from tests.operator.plan import small_world
from tests.operator.plan.small_world import BOOKIES, INSTANCE, LEGAL
from zonekeeper.operator.cluster import desired
from zonekeeper.operator.cluster.desired import Desired
from zonekeeper.operator.kubernetes.api import DEPLOYMENTS, Json
from zonekeeper.operator.plan.conditions import ConditionStatus
from zonekeeper.operator.plan.keeping import repair
from zonekeeper.operator.roots import roots
from zonekeeper.operator.sight import observed, watch_sight
from zonekeeper.operator.sight.observed import Observed
from zonekeeper.operator.sight.watch_sight import WatchSight
from zonekeeper.placement.policy.rules import Policy
from zonekeeper.placement.zones import counted_time
from zonekeeper.placement.zones.losses import Records

TRUE, FALSE, UNKNOWN = ConditionStatus.TRUE, ConditionStatus.FALSE, ConditionStatus.UNKNOWN


def policy() -> Policy:
    found = desired.read(LEGAL)
    assert isinstance(found, Desired)
    return found.policy


def look(
    seen: WatchSight | None = None,
    *,
    ready: bool = True,
    owned: Mapping[tuple[str, str], Json] = {},
) -> Observed:
    """Give a look at a cluster that is as it should be, but for what a test says."""
    return Observed(
        resource=LEGAL,
        owned=owned or small_world.objects(),
        pods=(),
        repairers=small_world.repairers(ready=ready),
        claims={},
        root=roots.RootFound(
            instance=INSTANCE,
            policy=policy(),
            locations=dict.fromkeys(BOOKIES),
            registered=frozenset(BOOKIES),
        ),
        watched=small_world.watched() if seen is None else seen,
    )


def told(found: Observed) -> tuple[ConditionStatus, str, str]:
    said = repair.condition(found)
    return said.status, said.reason, said.message


def test_a_watched_cluster_with_all_processes_is_ready() -> None:
    status, reason, message = told(look())

    assert (status, reason) == (TRUE, "Watched")
    assert message == "3 of 3 autorecovery processes are ready; no zone is held"


def test_without_the_store_nothing_is_known() -> None:
    found = replace(look(), root=roots.Unreachable("nobody answers"))

    assert told(found)[:2] == (UNKNOWN, "NotSeen")


def test_a_hold_of_a_person_is_told_with_zone_reason_and_runbook() -> None:
    status, reason, message = told(look(small_world.watched(held=True)))

    assert (status, reason) == (FALSE, "Held")
    assert message.startswith("zone b: zoneHeld: ")
    assert "a drill" in message
    assert message.endswith("; zonekeeper runbook zoneHeld")


def test_the_switch_is_told_once_for_all_zones() -> None:
    well = small_world.watched()
    records = replace(well.followed.records, replication_enabled=False)
    off = replace(well, followed=replace(well.followed, records=records))

    status, reason, message = told(look(off))

    assert (status, reason) == (FALSE, "Held")
    assert message.startswith("every zone: replicationDisabled: ")
    assert message.count("\n") == 0


def test_a_gate_that_only_waits_for_its_start_grace_is_a_doubt() -> None:
    found = told(look(small_world.watched(evaluations=1)))

    assert found[:2] == (UNKNOWN, "Held")


@pytest.mark.parametrize(
    ("looked_ms", "status"), [(0, UNKNOWN), (140_000, UNKNOWN), (140_001, FALSE)]
)
def test_a_watch_that_is_not_seen_is_told_once_it_has_had_time_to_evaluate(
    looked_ms: int, status: ConditionStatus
) -> None:
    assert counted_time.longest_step_ms(policy().zone_watch) == 70_000
    seen = WatchSight(since_ms=5, now_ms=5 + looked_ms)

    found = told(look(seen, ready=False))

    assert found[:2] == (status, "NotWatched")
    assert "zones a, b, c; 2 of 3 autorecovery processes are ready" in found[2]


def test_a_process_that_is_not_ready_is_told_by_its_deployment() -> None:
    found = told(look(ready=False))

    assert found == (FALSE, "AutorecoveryNotReady", "log-a-autorecovery: 0 of 1")


def test_a_cluster_that_others_repair_is_ready_without_a_process_of_its_own() -> None:
    scaled = {
        key: item | {"spec": item["spec"] | {"replicas": 0}}
        if key[0] == DEPLOYMENTS.plural
        else item
        for key, item in small_world.objects().items()
    }

    assert told(replace(look(owned=scaled), repairers=()))[0] is TRUE


# ── what was seen, from one look to the next ──


def found_root(evaluation: int) -> roots.RootFound:
    """Give a root whose records were all evaluated so often."""
    records = small_world.watched().followed.records
    assert records.cluster is not None
    zones = {zone: replace(record, evaluation=evaluation) for zone, record in records.zones.items()}
    gates = Records(zones=zones, cluster=replace(records.cluster, evaluation=evaluation))
    found = look().root
    assert isinstance(found, roots.RootFound)
    return replace(found, gates=gates)


def test_one_look_sees_no_evaluation_and_two_do() -> None:
    first = watch_sight.follow(WatchSight(), found_root(7), now_ms=1_000)
    same = watch_sight.follow(first, found_root(7), now_ms=2_000)
    moved = watch_sight.follow(same, found_root(8), now_ms=3_000)

    assert [zone for zone, _ in first.holds(policy())] == ["a", "b", "c"]
    assert list(same.holds(policy())) != []
    assert list(moved.holds(policy())) == []
    assert (first.since_ms, moved.since_ms) == (1_000, 1_000)


def test_after_the_store_was_away_the_counters_must_be_seen_to_move_again() -> None:
    seen = watch_sight.follow(WatchSight(), found_root(7), now_ms=1_000)
    seen = watch_sight.follow(seen, found_root(8), now_ms=2_000)
    away = watch_sight.follow(seen, roots.Unreachable("nobody answers"), now_ms=3_000)
    back = watch_sight.follow(away, found_root(9), now_ms=4_000)

    assert list(seen.holds(policy())) == []
    assert away.since_ms is None
    assert not back.is_long_enough(policy())
    assert [zone for zone, _ in back.holds(policy())] == ["a", "b", "c"]


# ── which pods are processes of ours ──


def pod(**changes: object) -> Json:
    owner = {"kind": "ReplicaSet", "name": "log-a-autorecovery-5d8f", "controller": True}
    meta = {
        "name": "log-a-autorecovery-5d8f-x",
        "labels": {"zonekeeper.io/repairs": "log", "zonekeeper.io/zone": "a"},
        "ownerReferences": [owner],
        **changes,
    }
    return {"metadata": meta, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}


def test_a_pod_of_a_deployment_counts_while_it_is_not_deleted() -> None:
    (found,) = observed.repairers([pod()], "log")
    (going,) = observed.repairers([pod(deletionTimestamp="2026-01-01T00:00:00Z")], "log")

    assert (found.deployment, found.ready) == ("log-a-autorecovery", True)
    assert not going.ready


def test_a_copy_of_a_pod_that_a_person_made_is_none_of_ours() -> None:
    assert observed.repairers([pod(ownerReferences=[])], "log") == ()
    stranger = {"kind": "ReplicaSet", "name": "other-5d8f", "controller": True}
    assert observed.repairers([pod(ownerReferences=[stranger])], "log") == ()
