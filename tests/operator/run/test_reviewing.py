"""Edits of a built cluster are judged by what is there, with nothing but reads."""

import asyncio

import pytest

from tests.operator.admission import questions
from tests.operator.people import ordered
from tests.operator.resources import NAME, SPACE, resource
from tests.operator.worlds import World
from tests.support import virtual_time
from zonekeeper.metadata.store.errors import StoreUnavailableError
from zonekeeper.metadata.store.store import MetadataStore
from zonekeeper.operator.admission.reviews import BadReviewError
from zonekeeper.operator.kubernetes.api import (
    BOOKIE_CLUSTERS,
    SERVICES,
    Json,
    KubernetesError,
    ObjectKind,
)
from zonekeeper.operator.roots.resource_orders import AskedFor
from zonekeeper.operator.roots.roots import Opener
from zonekeeper.operator.run import reviewing
from zonekeeper.operator.run.reviewing import Reviewer
from zonekeeper.placement.base.ids import ZoneName


def only_reads(verb: str, kind: ObjectKind) -> None:
    assert verb in ("get", "list"), f"the webhook wrote: {verb} {kind.plural}"


async def asked(world: World, *, opener: Opener | None = None, **spec: object) -> Json:
    """Ask about an edit of the spec that stands, and change nothing."""
    live = await world.get()
    after = live | {"spec": live["spec"] | spec}
    before = await world.picture(), world.server.last_change_id
    world.kubernetes.disturb = only_reads
    try:
        reviewer = Reviewer(world.kubernetes, opener or world.open_for_operator)
        found = questions.response(await reviewer.answer(questions.body(after, live)))
    finally:
        world.kubernetes.disturb = lambda verb, kind: None
    assert (await world.picture(), world.server.last_change_id) == before
    return found


async def settled(**spec: object) -> World:
    world = World(None, **spec)
    await world.settle()
    return world


async def test_bookies_that_ledgers_name_cannot_be_left_out_in_the_words_of_the_operator() -> None:
    world = await settled()
    await world.write_ledger()

    refused = await asked(world, bookiesPerZone=1)

    assert refused["allowed"] is False
    await world.change(bookiesPerZone=1)
    await world.settle()
    assert await world.message("Legal") == (
        refused["status"]["message"]
        + "\nuntil this is corrected, the cluster is kept as the last legal spec asked for it"
    )


async def test_bookies_that_no_ledger_names_may_be_left_out() -> None:
    assert (await asked(await settled(), bookiesPerZone=1))["allowed"] is True


async def test_while_the_store_is_away_it_is_not_known_what_bookies_hold() -> None:
    world = await settled()
    world.is_cut_off = True

    refused = await asked(world, bookiesPerZone=1)
    assert "whether they hold data is not known" in refused["status"]["message"]
    assert (await asked(world, bookiesPerZone=3))["allowed"] is True


async def test_what_cannot_change_once_built_is_refused() -> None:
    refused = await asked(await settled(), storage={"size": "512Mi"})

    assert "spec.storage.size: 512Mi: cannot become less" in refused["status"]["message"]


async def test_an_object_of_another_owner_is_a_warning_because_it_may_be_going() -> None:
    world = await settled()
    named = {"name": "log-d-autorecovery", "namespace": SPACE}
    world.kubernetes.put(SERVICES, {"metadata": named | {"name": "log-bookies"}})

    found = await asked(world, bookiesPerZone=3)

    assert found["allowed"] is True
    assert "Service log-bookies is there already" in found["warnings"][0]


async def test_a_new_resource_is_judged_without_a_look() -> None:
    world = World()
    world.kubernetes.mark_deleted(BOOKIE_CLUSTERS, SPACE, NAME)

    async def none(address: str) -> MetadataStore:
        raise AssertionError(address)

    def nothing(verb: str, kind: ObjectKind) -> None:
        raise AssertionError(verb, kind)

    world.kubernetes.disturb = nothing
    reviewer = Reviewer(world.kubernetes, none)
    found = questions.response(await reviewer.answer(questions.body(resource())))

    assert found["allowed"] is True


async def test_a_store_that_the_question_names_is_not_opened() -> None:
    """Whoever reaches the webhook must not make the operator connect to where they like."""
    world = await settled(bookiesPerZone=3)

    async def none(address: str) -> MetadataStore:
        raise AssertionError(address)

    found = await asked(world, opener=none, metadata={"uri": "zk://elsewhere:2181/x"})

    assert found == {"uid": "question-1", "allowed": True}


async def test_where_kubernetes_does_not_answer_the_edit_is_allowed_with_a_warning() -> None:
    world = await settled()
    live = await world.get()

    def fail(verb: str, kind: ObjectKind) -> None:
        raise KubernetesError(503, "try again")

    world.kubernetes.disturb = fail
    after = live | {"spec": live["spec"] | {"bookiesPerZone": 1}}
    reviewer = Reviewer(world.kubernetes, world.open_for_operator)
    found = questions.response(await reviewer.answer(questions.body(after, live)))

    assert found["allowed"] is True
    assert "try again" in found["warnings"][0]


async def test_what_takes_too_long_is_allowed_with_a_warning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reviewing, "LOOK_SECONDS_MAX", 0.05)

    async def never(address: str) -> MetadataStore:
        await asyncio.Event().wait()
        raise AssertionError(address)

    found = await asked(await settled(), opener=never, bookiesPerZone=1)

    assert found["allowed"] is True
    assert "that took too long" in found["warnings"][0]


@virtual_time.played
async def test_a_store_that_is_gone_delays_no_question_about_another_cluster() -> None:
    world = await settled()
    live = await world.get()
    other = resource(metadata={"uri": "zk://other:2181/ledgers"})
    other["metadata"] |= {"name": "other", "uid": "uid-other"}
    world.kubernetes.put(BOOKIE_CLUSTERS, other)

    async def opens(address: str) -> MetadataStore:
        if "other" not in address:
            await asyncio.Event().wait()
        raise StoreUnavailableError("nobody answers", store=address)

    reviewer = Reviewer(world.kubernetes, opens)

    async def ask(item: Json) -> list[str]:
        after = item | {"spec": item["spec"] | {"bookiesPerZone": 3}}
        found = questions.response(await reviewer.answer(questions.body(after, item)))
        return list(found.get("warnings", ()))

    async with asyncio.TaskGroup() as group:
        stuck = [group.create_task(ask(live)) for _ in range(50)]
        await asyncio.sleep(0.1)
        began_s = asyncio.get_running_loop().time()
        await ask(other)
        assert asyncio.get_running_loop().time() - began_s < 0.1
    for one in stuck:
        assert "that took too long" in one.result()[0]


async def test_a_refusal_is_logged_with_its_resource(caplog: pytest.LogCaptureFixture) -> None:
    world = await settled()
    caplog.set_level("INFO")

    await asked(world, storage={"size": "512Mi"})

    assert f"refused: {SPACE}/{NAME}: spec.storage" in caplog.text


async def test_what_is_no_question_is_refused() -> None:
    world = World()
    with pytest.raises(BadReviewError):
        await Reviewer(world.kubernetes, world.open_for_operator).answer(b"{}")


async def ended(world: World, body: bytes, *namespaces: str) -> Json:
    reviewer = Reviewer(world.kubernetes, world.open_for_operator, namespaces=namespaces)
    return questions.response(await reviewer.answer(body))


async def test_the_definition_is_not_deleted_while_there_is_a_cluster() -> None:
    world = await settled()
    refused = await ended(world, questions.end_of_definition())
    assert refused["allowed"] is False
    assert f"{SPACE}/{NAME}" in refused["status"]["message"]
    assert "kubectl delete bkc" in refused["status"]["message"]

    elsewhere = await ended(world, questions.end_of_definition(), "another-space")
    assert elsewhere["allowed"] is True
    assert (await ended(world, questions.end_of_definition(), "another-space", SPACE))[
        "allowed"
    ] is False

    world.delete()
    await world.settle()
    assert await ended(world, questions.end_of_definition()) == {
        "uid": "question-1",
        "allowed": True,
    }


async def test_other_definitions_and_edits_of_this_one_are_not_refused() -> None:
    world = await settled()
    for body in (
        questions.end_of_definition("others.example.com"),
        questions.end_of_definition(operation="UPDATE"),
    ):
        assert (await ended(world, body))["allowed"] is True


async def test_a_definition_goes_with_a_warning_where_clusters_cannot_be_seen() -> None:
    world = await settled()

    def refuse(verb: str, kind: ObjectKind) -> None:
        raise KubernetesError(503, "the API server is busy")

    world.kubernetes.disturb = refuse
    told = await ended(world, questions.end_of_definition())
    assert told["allowed"] is True
    assert "were not seen" in told["warnings"][0]
    assert "busy" in told["warnings"][0]


async def test_an_edit_that_ends_a_drill_is_warned_of() -> None:
    world = await settled()
    about = ordered.OrderParts(zone=ZoneName("b"), for_ms=60_000)
    before = (await asked(world, update={"bake": "7m"}))["warnings"]
    await ordered.write(world, await ordered.made(world, AskedFor.DRILL, **about))
    for _ in range(4):
        await world.turn()
        await world.controllers()
    assert (await world.get())["status"]["drill"]["phase"] == "Probing"

    found = await asked(world, update={"bake": "7m"})

    assert found["allowed"] is True
    assert found["warnings"] == ["a drill is on: this edit ends it", *before]
