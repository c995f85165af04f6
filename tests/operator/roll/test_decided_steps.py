"""What one turn of a roll decides, from one moment that is told whole.

The scenarios S187 to S198 of docs/scenarios.md are played in worlds by the other tests of this
folder; here each is one decision.
"""

import dataclasses
from dataclasses import replace

import pytest

from tests.operator.roll import still_cluster
from tests.operator.roll.still_cluster import NEW, NOW_MS, OLD, THIRD, StillCluster
from zonekeeper.metadata.formats.ledger_metadata import Fragment, LedgerMetadata
from zonekeeper.operator.kubernetes.api import DEPLOYMENTS, PODS, STATEFUL_SETS, ZONE_LABEL
from zonekeeper.operator.plan import shaping
from zonekeeper.operator.plan.keeping import roll
from zonekeeper.operator.plan.plans import RemoveObject
from zonekeeper.operator.plan.stages import Act
from zonekeeper.operator.roll import rolling
from zonekeeper.operator.roll.gates import RollGate
from zonekeeper.operator.roll.memory import Halt, RollMemory
from zonekeeper.operator.roll.rolling import AskImage, Declare, Lift, Reach, Renew, TakeAway
from zonekeeper.operator.run import observing
from zonekeeper.operator.run.observing import Earlier
from zonekeeper.operator.sight.ledger_sight import FragmentKinds, LedgerSight
from zonekeeper.operator.sight.pod_trouble import PodTrouble, TroubleKind
from zonekeeper.placement.base.digests import Digest
from zonekeeper.placement.base.ids import BookieId, EntryId, LedgerId, ZoneName
from zonekeeper.placement.zones.maintenance import Ran

A0, A1, B0 = BookieId("log-a-0"), BookieId("log-a-1"), BookieId("log-b-0")
IN_A0 = still_cluster.declared(still_cluster.unit("a", 0))


def reached(**fields: object) -> StillCluster:
    """Give a cluster whose zone a has the new template, and whose pods are all old."""
    found = StillCluster(**fields)  # type: ignore[arg-type] # a test names them
    found.stands["a"] = NEW
    return found


def taken(*, asked_for: str = NEW, **fields: object) -> StillCluster:
    """Give one whose canary was taken away, and runs the new image in another pod.

    ``asked_for``: another image is asked for since.
    """
    found = reached(maintenance=(IN_A0,), **fields)
    found.runs[A0], found.uids[A0], found.boots[A0] = NEW, "uid-anew", 2
    found.notes = RollMemory(step=found.step(A0, is_canary=True))
    found.asked_for = asked_for
    return found


def gates(cluster: StillCluster) -> list[RollGate]:
    return [one.gate for one in cluster.decide().waits]


def templates(cluster: StillCluster) -> dict[str, str]:
    """Give the images of the templates that would be applied, by kind and zone."""
    return {
        f"{kind.name}/{body['metadata']['labels'][ZONE_LABEL]}": str(
            body["spec"]["template"]["spec"]["containers"][0]["image"]
        )
        for kind, body in shaping.objects(cluster.case)
        if kind in (STATEFUL_SETS, DEPLOYMENTS)
    }


def test_s187_the_first_bookie_of_a_roll_goes_alone_and_is_waited_for() -> None:
    first = StillCluster().decide()
    assert first.moves == (Reach(ZoneName("a")),)
    begun = reached().decide()
    assert begun.notes.step is not None
    assert [one.bookie for one in begun.notes.step.taken] == [A0]
    assert begun.notes.step.is_canary
    assert begun.moves == (Declare(still_cluster.unit("a", 0)),)

    waited_for = taken(unready={A0}).decide()
    assert waited_for.moves == ()
    assert waited_for.notes.step is not None
    assert waited_for.stepping == "log-a-0: its pod is not ready"
    assert waited_for.notes.proven is None

    well = taken().decide()
    assert well.moves == (Lift(IN_A0),)
    ended = replace_maintenance(taken()).decide()
    assert (ended.notes.step, ended.notes.ended_ms) == (None, NOW_MS)
    assert ended.notes.proven == taken().brings


def replace_maintenance(cluster: StillCluster) -> StillCluster:
    """Let the declaration be gone."""
    cluster.maintenance = ()
    return cluster


def test_s188_ledgers_are_asked_with_the_bookies_that_are_away_already() -> None:
    ledger = LedgerMetadata(
        ensemble_size=3,
        write_quorum=3,
        ack_quorum=2,
        fragments=(Fragment(EntryId(0), (A0, B0, BookieId("log-c-0"))),),
        digest=Digest.CRC32C,
        password=b"",
        create_token=1,
    )
    cluster = reached()
    cluster.kinds.add(LedgerId(7), ledger)
    assert gates(cluster) == []

    cluster.unregistered = {B0}
    assert RollGate.LEDGER_AT_RISK in gates(cluster)


@pytest.mark.parametrize(("ran_ms", "is_renewed"), [(0, False), (499, False), (500, True)])
def test_s189_maintenance_is_renewed_when_half_of_it_is_over(
    ran_ms: int, *, is_renewed: bool
) -> None:
    cluster = taken(unready={A0})
    followed = cluster.watched.followed
    assert followed.records.cluster is not None
    counted = replace(
        followed.records.cluster, maintenance=(Ran(token=still_cluster.TOKEN, ms=ran_ms),)
    )
    records = dataclasses.replace(followed.records, cluster=counted)
    cluster.watched = replace(cluster.watched, followed=replace(followed, records=records))

    assert cluster.decide().moves == ((Renew(IN_A0),) if is_renewed else ())


def test_s190_maintenance_of_ours_that_no_step_needs_is_ended_and_that_of_others_is_not() -> None:
    theirs = still_cluster.declared(still_cluster.unit("b", 0), owner="ann")
    cluster = StillCluster(asked_for=OLD, maintenance=(IN_A0, theirs))
    assert cluster.decide().moves == (Lift(IN_A0),)

    cluster.unready = {A0}
    assert cluster.decide().moves == (), "its bookie may just start"


def test_s191_only_the_pods_that_were_noted_are_deleted_each_by_its_uid() -> None:
    cluster = reached(maintenance=(IN_A0,))
    cluster.notes = RollMemory(step=cluster.step(A0))
    assert cluster.decide().moves == (TakeAway(A0, "uid-log-a-0"),)
    outcome = roll.stage(cluster.case)
    assert isinstance(outcome, Act)
    assert outcome.actions == (RemoveObject(kind=PODS, name=A0, uid="uid-log-a-0"),)

    cluster.uids[A0] = "uid-of-another"
    assert not any(isinstance(one, TakeAway) for one in cluster.decide().moves)


@pytest.mark.parametrize(
    ("spoil", "lacks"),
    [
        ({"boots": {A0: 1}}, "no new start of it is noted"),
        ({"read_only": {A0}}, "it is read-only"),
        ({"unregistered": {A0}}, "it is not registered"),
        ({"runs": dict.fromkeys(still_cluster.BOOKIES, OLD)}, "is not known to run"),
    ],
)
def test_s192_a_bookie_is_well_only_after_a_whole_new_start_that_takes_writes(
    spoil: dict[str, object], lacks: str
) -> None:
    cluster = taken()
    for name, value in spoil.items():
        setattr(cluster, name, value)

    found = cluster.decide()

    assert found.notes.step is not None
    assert lacks in str(found.stepping)
    assert found.moves == ()


def test_s193_changed_back_only_the_bookies_that_were_touched_are_made_anew() -> None:
    cluster = taken(asked_for=OLD)
    cluster.stands["a"] = OLD
    cluster.maintenance = ()

    found = cluster.decide()

    assert found.notes.step is not None
    assert [one.bookie for one in found.notes.step.taken] == [A0]
    assert found.steps == ()


@pytest.mark.parametrize(("rested_ms", "rests"), [(0, True), (59_999, True), (60_000, False)])
def test_s194_after_a_step_no_other_begins_before_the_time_of_bake(
    rested_ms: int, *, rests: bool
) -> None:
    cluster = replace_maintenance(taken())
    cluster.notes = RollMemory(ended_ms=NOW_MS - rested_ms, proven=cluster.brings)

    assert (gates(cluster) == [RollGate.BAKING]) is rests
    assert (cluster.decide().notes.step is None) is rests


def test_s195_a_halted_roll_touches_nothing_more_not_even_the_rest_of_its_step() -> None:
    cluster = taken(unready={A0})
    halted = cluster.step(A0, A1, halt=Halt(pod=A0, words="CrashLoop: it ends"))
    cluster.notes = RollMemory(step=halted)

    assert cluster.decide().moves == (Lift(IN_A0),)
    found = replace_maintenance(cluster).decide()
    assert found.moves == ()
    assert found.halt is not None


@pytest.mark.parametrize("is_late", [True, False])
def test_s195_a_step_halts_at_its_deadline_or_when_its_pod_is_in_trouble(is_late: bool) -> None:
    cluster = taken(unready={A0})
    assert cluster.decide().halt is None
    if is_late:
        cluster.notes = RollMemory(step=cluster.step(A0, begun_ms=NOW_MS - 600_000))
    seen = cluster.seen
    trouble = PodTrouble(kind=TroubleKind.CRASH_LOOP, words="!", last_words=None, since="")
    pods = tuple(
        replace(one, trouble=trouble) if one.name == A0 and not is_late else one
        for one in seen.pods
    )

    found = rolling.decide(cluster.wanted, replace(seen, pods=pods))

    assert found.halt is not None
    assert found.halt.pod == A0


def test_s196_a_template_stands_only_where_the_roll_is_and_autorecovery_comes_last() -> None:
    cluster = replace_maintenance(taken())
    cluster.notes = RollMemory(proven=cluster.brings)

    assert templates(cluster) == {
        "StatefulSet/a": NEW,
        "StatefulSet/b": OLD,
        "StatefulSet/c": OLD,
        **dict.fromkeys(("Deployment/a", "Deployment/b", "Deployment/c"), OLD),
    }
    for zone in "abc":
        cluster.stands[zone] = NEW
    cluster.runs = dict.fromkeys(still_cluster.BOOKIES, NEW)
    assert set(templates(cluster).values()) == {NEW}


def test_s197_a_listing_that_began_before_the_last_change_is_not_trusted() -> None:
    cluster = StillCluster()
    now = observing.basis_of(cluster.seen.root)
    known = LedgerSight(basis=now, kinds=FragmentKinds())

    kept = observing._with_root(
        cluster.seen, cluster.seen.root, Earlier(basis=now, ledgers=known), now_ms=5
    )
    assert (kept.ledgers, kept.changed_ms) == (known, None)

    cluster.boots[A0] = 2
    found = observing._with_root(
        cluster.seen, cluster.seen.root, Earlier(basis=now, ledgers=known), now_ms=5
    )
    assert (found.ledgers, found.changed_ms) == (None, 5)
    assert found.root is not None
    waits = rolling.decide(cluster.wanted, found).waits
    assert RollGate.LEDGER_AT_RISK in [one.gate for one in waits]
    assert RollGate.NOT_EVALUATED in [one.gate for one in waits]


def test_s198_a_third_image_in_the_midst_waits_for_its_formats_and_an_old_one_does_not() -> None:
    cluster = replace_maintenance(taken(asked_for=THIRD, vetted={NEW}))
    assert templates(cluster)["StatefulSet/a"] == NEW
    found = cluster.decide()
    assert found.moves == (AskImage(ZoneName("a")),)
    assert gates(cluster)[0] is RollGate.IMAGE_NOT_VETTED

    cluster.vetted = {THIRD}
    assert templates(cluster)["StatefulSet/a"] == THIRD
    cluster.vetted, cluster.asked_for = set(), OLD
    assert templates(cluster)["StatefulSet/a"] == OLD, "a pod of the zone runs it still"
    assert templates(cluster)["StatefulSet/b"] == OLD
