"""A slip is undone: bookies that hold nothing are taken back, and those that hold data stay."""

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any, TypeVar

import pytest

from tests.operator.resources import KEY, NAME, SPACE, URI
from tests.operator.worlds import World
from zonekeeper.metadata.formats import ledger_paths
from zonekeeper.operator.kubernetes.api import CLAIMS, DEPLOYMENTS, STATEFUL_SETS, Json
from zonekeeper.operator.run.reconciling import Reconciler
from zonekeeper.operator.sight.holdings import ASKED_EVERY_MS, PROOF_MS, Holdings
from zonekeeper.placement.base.ids import BookieId

T = TypeVar("T")

LEGAL, BLOCKED = ("True", "LegalWithWarnings"), ("False", "Blocked")
WITH_D = [{"name": zone} for zone in "abcd"]
WITHOUT_D = WITH_D[:3]


async def replicas(world: World) -> dict[str, int]:
    found = await world.kubernetes.list(STATEFUL_SETS, SPACE)
    return {item["metadata"]["name"]: item["spec"]["replicas"] for item in found}


async def scale_by_hand(world: World, name: str, count: int) -> None:
    found = await world.kubernetes.get(STATEFUL_SETS, SPACE, name)
    assert found is not None
    world.kubernetes.put(STATEFUL_SETS, found | {"spec": found["spec"] | {"replicas": count}})
    await world.controllers()


async def grown(**spec: object) -> World:
    """Give a cluster of two bookies a zone whose edit to ``spec`` has taken effect."""
    world = World()
    await world.settle()
    await world.change(**spec)
    await world.settle()
    return world


async def wait_for_a_listing(world: World) -> None:
    world.now_ms += ASKED_EVERY_MS
    await world.settle()


def each(count: int, zones: str = "abc") -> dict[str, int]:
    return {f"{NAME}-{zone}": count for zone in zones}


async def test_bookies_that_never_had_a_cookie_are_taken_back() -> None:
    world = World()
    await world.settle()
    await world.change(bookiesPerZone=3)
    while await replicas(world) != each(3):
        await world.turn()  # no pod runs meanwhile

    await world.change(bookiesPerZone=2)
    await world.settle()

    assert await replicas(world) == each(2)
    assert (await world.conditions())["Legal"] == LEGAL


async def test_bookies_that_no_ledger_names_are_taken_back_and_may_come_again() -> None:
    world = await grown(bookiesPerZone=3)
    assert (await world.conditions())["Ready"] == ("True", "AllReady")
    await world.write_ledger("log-a-0", "log-b-1", "log-c-0")

    await world.change(bookiesPerZone=2)
    await world.settle()

    conditions = await world.conditions()
    assert (conditions["Legal"], conditions["Ready"]) == (LEGAL, ("True", "AllReady"))
    assert await replicas(world) == each(2)
    await wait_for_a_listing(world)
    assert (await world.conditions())["Legal"] == LEGAL, "their cookies block nothing"
    claims = [item["metadata"]["name"] for item in await world.kubernetes.list(CLAIMS, SPACE)]
    assert "data-log-a-2" in claims

    await world.change(bookiesPerZone=3)
    await world.settle()
    assert (await world.conditions())["Ready"] == ("True", "AllReady")
    assert await replicas(world) == each(3)


async def test_a_bookie_that_a_ledger_names_stays_until_none_does_and_the_rest_is_kept_up() -> None:
    world = World()
    await world.settle()
    await scale_by_hand(world, "log-b", 3)
    ledger = await world.write_ledger("log-a-0", "log-b-2", "log-c-0")
    await world.settle()

    assert (await world.conditions())["Legal"] == BLOCKED
    said = await world.message("Legal")
    assert "StatefulSet log-b has 3 bookies, log-b-2 beyond that" in said
    assert "ledgers name log-b-2" in said
    assert "set it to 3 or more, or empty and forget each" in said
    assert "decommission log-b-2" in said
    assert "log-a" not in said
    assert (await world.conditions())["Scaled"] == ("False", "MoreRun")
    assert await replicas(world) == each(2) | {"log-b": 3}
    world.kubernetes.mark_deleted(STATEFUL_SETS, SPACE, "log-a")
    await world.settle()
    assert await replicas(world) == each(2) | {"log-b": 3}

    await world.delete_ledger(ledger)
    await wait_for_a_listing(world)
    assert (await world.conditions())["Legal"] == LEGAL
    assert await replicas(world) == each(2)


async def test_a_turn_does_not_wait_for_the_listing_and_nothing_is_taken_back_before_its_end() -> (
    None
):
    world = await grown(bookiesPerZone=3)
    may_end = asyncio.Event()

    def slow(work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        async def later() -> T:
            await may_end.wait()
            return await work

        return asyncio.ensure_future(later())

    await world.reconciler.close()
    world.reconciler = Reconciler(replace(world.surroundings(), spawn=slow), KEY)
    await world.change(bookiesPerZone=2)
    for _ in range(3):
        world.now_ms += ASKED_EVERY_MS
        await world.reconciler.turn()

    assert (await world.conditions())["Legal"] == BLOCKED
    assert "not proven that no ledger names them" in await world.message("Legal")
    assert await replicas(world) == each(3)

    may_end.set()
    await world.settle()
    assert await replicas(world) == each(2)


async def test_a_set_that_is_scaled_by_hand_is_put_back_while_its_new_bookies_hold_nothing() -> (
    None
):
    world = World()
    await world.settle()
    await world.write_ledger()

    await scale_by_hand(world, "log-a", 5)
    await world.settle()

    assert await replicas(world) == each(2)
    assert (await world.conditions())["Legal"] == LEGAL
    await wait_for_a_listing(world)
    assert (await world.conditions())["Legal"] == LEGAL


async def test_ten_seconds_of_a_scale_by_hand_do_not_stop_healing_for_good() -> None:
    world = World()
    await world.settle()
    await scale_by_hand(world, "log-a", 5)
    await world.write_ledger("log-a-4")

    await world.settle()
    assert (await world.conditions())["Legal"] == BLOCKED
    assert await replicas(world) == each(2) | {"log-a": 5}
    world.kubernetes.mark_deleted(STATEFUL_SETS, SPACE, "log-b")
    await world.settle()

    assert await replicas(world) == each(2) | {"log-a": 5}
    assert (await world.get())["status"]["readyBookies"] >= 6
    await world.change(bookiesPerZone=5)
    await world.settle()
    assert (await world.conditions())["Legal"] == ("True", "Legal")
    assert await replicas(world) == each(5)


async def test_a_ledger_that_names_a_bookie_just_when_it_is_taken_back_is_found_and_told() -> None:
    world = await grown(bookiesPerZone=3)
    await world.change(bookiesPerZone=2)
    await world.turn()
    await world.write_ledger("log-c-2")
    await world.settle()
    assert await replicas(world) == each(2)

    await wait_for_a_listing(world)

    assert (await world.conditions())["Legal"] == BLOCKED
    assert "the root has cookies of log-c-2, and no pod would run them" in (
        await world.message("Legal")
    )
    await world.change(bookiesPerZone=3)
    await world.settle()
    assert (await world.conditions())["Ready"] == ("True", "AllReady")


async def test_a_zone_that_holds_nothing_is_taken_back_with_all_that_was_made_for_it() -> None:
    world = await grown(zones=WITH_D)
    assert "log-d" in await replicas(world)
    await world.write_ledger("log-a-0")

    await world.change(zones=WITHOUT_D)
    await world.settle()

    assert await replicas(world) == each(2)
    found = await world.kubernetes.list(DEPLOYMENTS, SPACE)
    assert [item["metadata"]["name"][:5] for item in found] == ["log-a", "log-b", "log-c"]
    conditions = await world.conditions()
    assert {conditions[kind][0] for kind in ("Legal", "Ready", "PolicyPublished")} == {"True"}
    assert [zone["name"] for zone in (await world.get())["status"]["zones"]] == ["a", "b", "c"]


async def test_a_zone_with_a_bookie_that_a_ledger_names_stays() -> None:
    world = await grown(zones=WITH_D)
    await world.write_ledger("log-a-0", "log-d-1")

    await world.change(zones=WITHOUT_D)
    await world.settle()

    assert (await world.conditions())["Scaled"][0] == "False"
    assert "log-d-1" in await world.message("Scaled"), "it is emptied first"
    assert await replicas(world) == each(2, "abcd")


async def test_while_the_root_is_not_read_nothing_is_taken_back() -> None:
    world = await grown(bookiesPerZone=3)
    world.is_cut_off = True
    world.reconciler = world.new_operator()

    await world.change(bookiesPerZone=2)
    await world.settle()

    assert "the root was not read" in await world.message("Legal")
    assert await replicas(world) == each(3)
    world.is_cut_off = False
    await world.settle()
    assert await replicas(world) == each(2)


async def test_a_ledger_that_cannot_be_read_keeps_the_proof_from_being_had() -> None:
    world = await grown(bookiesPerZone=3)
    ledger = await world.write_ledger("log-a-0")
    store = await world.open(URI)
    path = f"{store.root}{ledger_paths.path(ledger)}"
    found = await store.get(path, sync=True)
    assert found is not None
    await store.put(path, b"torn", version=found.version)
    await store.close()

    await world.change(bookiesPerZone=2)
    await world.settle()

    assert "it is not proven that no ledger names them" in await world.message("Legal")
    assert await replicas(world) == each(3)


A, B = (frozenset({BookieId(name)}) for name in ("log-a-2", "log-b-2"))


@pytest.mark.parametrize(
    ("known", "now_ms", "is_due"),
    [
        ({}, 0, True),
        ({"asked": A, "empty": A, "asked_ms": 0}, 10**9, False),
        ({"asked": A, "empty": A, "served": A, "asked_ms": 0}, ASKED_EVERY_MS - 1, False),
        ({"asked": A, "empty": A, "served": A, "asked_ms": 0}, ASKED_EVERY_MS, True),
        ({"asked": A, "named": A, "asked_ms": 0}, ASKED_EVERY_MS - 1, False),
        ({"asked": A, "named": A, "asked_ms": 0}, ASKED_EVERY_MS, True),
        ({"asked": B, "empty": B, "asked_ms": 0}, 1, True),
    ],
)
def test_ledgers_are_listed_where_a_proof_is_missing_and_not_again_and_again(
    known: Json, now_ms: int, *, is_due: bool
) -> None:
    assert Holdings(**known).is_due(A, now_ms) is is_due


def test_a_proof_ends_when_the_bookie_may_serve_again() -> None:
    known = Holdings(asked=A | B, empty=A | B, served=A, asked_ms=1, proven_ms=1)

    assert known.still(A | B, A, PROOF_MS).empty == A | B
    assert known.still(A | B, A, PROOF_MS + 1).empty == B
    assert known.still(A | B, A, 0).empty == B, "a clock that went back proves nothing"
    assert known.still(A, frozenset(), 10**9) == Holdings(
        asked=A, empty=A, served=A, asked_ms=1, proven_ms=1
    )
    assert replace(known, proven_ms=None).still(A | B, A, 1).empty == B, "it did not end yet"
    assert not Holdings().is_due(frozenset(), 0)
