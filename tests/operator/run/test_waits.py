"""Turns come to rest: a cluster is settled, gone, or waits for what has a name and an end.

Each trouble keeps a cluster from being settled, alone and beside each other trouble.
"""

import logging

import pytest

from tests.operator.resources import NAME, SPACE
from tests.operator.run import troubles
from tests.operator.run.troubles import KEEPING, OF_PODS, REMOVING, P, WorldTrouble
from tests.operator.worlds import World
from zonekeeper.operator.kubernetes.api import BOOKIE_CLUSTERS
from zonekeeper.operator.plan import planning
from zonekeeper.operator.plan.predicates import Predicate
from zonekeeper.operator.roll.gates import RollGate


def named(trouble: WorldTrouble) -> str:
    return f"{trouble.predicate}-{trouble.leaving}"


async def rest(world: World) -> None:
    """Let all work until nothing changes, and what failed in the last turn is told, too."""
    await world.settle()
    await world.turn()
    await world.settle()


async def waited_for(world: World) -> Predicate | RollGate | None:
    """Give what the cluster waits for; None: it is settled, or gone."""
    if world.kubernetes.peek(BOOKIE_CLUSTERS, SPACE, NAME) is None:
        return None
    plan = await world.plan()
    if plan.waits_for is not None:
        return plan.waits_for.predicate
    assert plan.actions == (), "turns have come to rest, and there is something to do"
    assert plan.recheck_ms == planning.RESTING_MS
    return None


@pytest.mark.parametrize("trouble", [*KEEPING, *OF_PODS, *REMOVING], ids=named)
async def test_a_cluster_in_trouble_waits_by_name_until_what_it_waits_for_has_happened(
    trouble: WorldTrouble,
) -> None:
    world = World(onDelete="Delete" if trouble.leaving else "Retain")
    await rest(world)
    assert await waited_for(world) is None

    await trouble.begin(world)
    if trouble.leaving:
        world.delete()
    await rest(world)
    assert await waited_for(world) == trouble.predicate

    await trouble.end(world)
    await rest(world)
    assert await waited_for(world) is None
    is_gone = world.kubernetes.peek(BOOKIE_CLUSTERS, SPACE, NAME) is None
    assert is_gone == trouble.leaving


@pytest.mark.parametrize("first", KEEPING, ids=named)
async def test_two_troubles_at_once_still_come_to_a_rest_that_has_a_name(
    first: WorldTrouble,
) -> None:
    for second in (*KEEPING[KEEPING.index(first) + 1 :], *REMOVING):
        world = World(onDelete="Delete" if second.leaving else "Retain")
        await world.settle()

        await first.begin(world)
        await world.turn()
        await second.begin(world)
        if second.leaving:
            world.delete()
        await rest(world)

        found = await waited_for(world)
        assert found is not None or second.leaving, f"{first.predicate}, {second.predicate}"


def test_every_predicate_that_a_cluster_comes_to_rest_with_is_tried() -> None:
    tried = {trouble.predicate for trouble in (*KEEPING, *OF_PODS, *REMOVING)}
    passing = {P.NOT_OBSERVED, P.OLD_PODS, P.ROOT_LEFT}
    # A cluster has certificates from its first day, or none: tests/operator/certificates has these.
    of_certificates = {P.NO_CERT_MANAGER, P.SECRETS_NOT_PERMITTED}
    of_scaling = {P.REMOVING, P.REMOVAL_STUCK, P.REMOVAL_WAITS}  # as tests/operator/scaling
    of_volumes = {P.REPLACING, P.REPLACE_WAITS}  # as tests/operator/volumes
    assert tried | passing | of_certificates | of_scaling | of_volumes == set(P), (
        "what passes by itself is in the small world of scenes"
    )


async def test_what_is_waited_for_is_logged_once_with_its_runbook(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    world = World()
    await world.settle()
    await troubles.cut_off(world)

    for _ in range(3):
        await world.turn()

    named = "waits for MetadataUnreachable"
    told = [record.message for record in caplog.records if named in record.message]
    assert len(told) == 1
    assert "nobody answers (what to do: zonekeeper runbook MetadataUnreachable)" in told[0]
