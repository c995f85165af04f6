"""A bookie that has a journal volume gets two other volumes, and starts on no mixture of both."""

import pytest

from tests.operator.resources import NAME, SPACE
from tests.operator.volumes.losing_world import LosingWorld
from tests.operator.volumes.test_replacing import (
    ONE,
    ReplaceWatch,
    built,
    is_well,
    name,
    noted,
    until_ordered,
)
from zonekeeper.operator.kubernetes.api import CLAIMS, PODS, REFILLS_LABEL, Json

JOURNAL = f"journal-{ONE}"
PROTECTED = "kubernetes.io/pvc-protection"
WITH_JOURNAL: Json = {"size": "1Gi", "journal": {"size": "512Mi"}}


async def test_a_journal_volume_is_another_one_too() -> None:
    world = await built(LosingWorld(storage=WITH_JOURNAL))
    before, watch = await world.claims(), ReplaceWatch(world)
    await watch.look()
    name(world, ONE)
    await world.settle(after_turn=watch.look)

    assert watch.gone == [ONE, JOURNAL]
    after = await world.claims()
    assert after.keys() == before.keys()
    uids = {one: item["metadata"]["uid"] for one, item in before.items()}
    changed = {one for one, item in after.items() if item["metadata"]["uid"] != uids[one]}
    assert changed == {ONE, JOURNAL}
    assert (await noted(world))["journal"] == uids[JOURNAL]
    await is_well(world)


async def test_a_bookie_whose_journal_has_no_claim_is_not_begun_with() -> None:
    world = await built(LosingWorld(storage=WITH_JOURNAL))
    world.kubernetes.mark_deleted(CLAIMS, SPACE, JOURNAL)
    name(world, ONE)
    await world.turn()
    assert "its pod or a claim is not there" in await world.message("VolumesReady")
    assert await world.orders() == {}


class ProtectedWorld(LosingWorld):
    """A claim of the bookie that is deleted stays as long as a pod has it, as on Kubernetes."""

    def __init__(self) -> None:
        super().__init__(storage=WITH_JOURNAL)
        #: The uids of the bookie's pods.
        self.pods: dict[str, None] = {}

    async def controllers(self) -> None:
        for claim in (f"data-{ONE}", JOURNAL):
            found = self.kubernetes.peek(CLAIMS, SPACE, claim)
            if found is None:
                continue
            is_going = "deletionTimestamp" in found["metadata"]
            if not is_going:
                self._protect(found, PROTECTED)
            elif not await self._is_used():
                self._protect(found)
                self.kubernetes.mark_deleted(CLAIMS, SPACE, claim)
        await super().controllers()
        if (pod := self.kubernetes.peek(PODS, SPACE, ONE)) is not None:
            self.pods[pod["metadata"]["uid"]] = None

    def _protect(self, claim: Json, *finalizers: str) -> None:
        if claim["metadata"].get("finalizers", []) != [*finalizers]:
            meta = claim["metadata"] | {"finalizers": [*finalizers]}
            self.kubernetes.put(CLAIMS, claim | {"metadata": meta})

    async def _is_used(self) -> bool:
        refills = await self.kubernetes.list(PODS, SPACE, labels=f"{REFILLS_LABEL}={NAME}")
        return self.kubernetes.peek(PODS, SPACE, ONE) is not None or bool(refills)


async def is_whole(world: ProtectedWorld, journal: str) -> None:
    assert (await noted(world))["phase"] == "Done"
    assert (await world.claims())[JOURNAL]["metadata"]["uid"] != journal
    await is_well(world)


async def test_both_claims_go_with_one_pod() -> None:
    world = ProtectedWorld()
    await built(world)
    watch = ReplaceWatch(world)
    world.pods.clear()
    journal = (await world.claims())[JOURNAL]["metadata"]["uid"]
    name(world, ONE)
    await world.settle(after_turn=watch.look)
    await is_whole(world, journal)
    # The one that was emptied, one that refuses the empty disk, and one that serves on it.
    assert len(world.pods) == 3


@pytest.mark.parametrize("turns", range(4))
async def test_a_data_volume_that_somebody_deletes_meanwhile_takes_the_journal_with_it(
    turns: int,
) -> None:
    world = ProtectedWorld()
    await built(world)
    journal = (await world.claims())[JOURNAL]["metadata"]["uid"]
    name(world, ONE)
    await until_ordered(world, ReplaceWatch(world))
    for _ in range(turns):
        await world.controllers()
        await world.turn()
    if (await world.claims()).get(ONE, {}).get("metadata", {}).get("uid") is not None:
        await world.lose(ONE)

    async def look() -> None:
        refills = await world.kubernetes.list(PODS, SPACE, labels=f"{REFILLS_LABEL}={NAME}")
        found = world.kubernetes.peek(CLAIMS, SPACE, JOURNAL)
        is_old = found is not None and found["metadata"]["uid"] == journal
        assert not (refills and is_old), "no disk is given that is half the old one"

    await world.settle(after_turn=look)
    await is_whole(world, journal)


async def test_a_journal_stays_until_the_bookie_is_emptied_whatever_has_gone() -> None:
    world = await built(LosingWorld(storage=WITH_JOURNAL))
    name(world, ONE)
    await until_ordered(world, ReplaceWatch(world))
    assert (await world.orders())[ONE].emptied_ms is None
    world.kubernetes.mark_deleted(CLAIMS, SPACE, f"data-{ONE}")
    world.kubernetes.mark_deleted(PODS, SPACE, ONE)
    await world.turn()
    assert world.kubernetes.peek(CLAIMS, SPACE, JOURNAL) is not None
