"""One turn decides from what it sees alone: a table of what is there and what follows."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from tests.operator.resources import NOW, URI, kept, kinds_of, resource
from zonekeeper.operator.cluster import desired, owned_objects
from zonekeeper.operator.cluster.desired import Desired
from zonekeeper.operator.kubernetes.api import BUDGETS, DEPLOYMENTS, FINALIZER, STATEFUL_SETS, Json
from zonekeeper.operator.plan import planning
from zonekeeper.operator.plan.plans import Apply, TurnPlan
from zonekeeper.operator.roots import roots
from zonekeeper.operator.sight.observed import Observed, Pod, VolumeClaim
from zonekeeper.placement.base.ids import BookieId, ZoneName

INSTANCE = "0d6e3a1e-0000-4000-8000-000000000001"


def wanted(item: Json) -> Desired:
    found = desired.read(item)
    assert isinstance(found, Desired)
    return found


def root(item: Json, *, owner: str | None = None, instance: str = INSTANCE) -> roots.RootFound:
    policy = wanted(item).policy
    return roots.RootFound(
        instance=instance,
        policy=replace(policy, owner=owner or policy.owner, version=3, instance=instance),
        locations={},
        registered=frozenset(),
    )


def owned(item: Json) -> Mapping[tuple[str, str], Json]:
    return {
        (kind.plural, body["metadata"]["name"]): body
        | {"metadata": {**body["metadata"], "uid": f"uid-{kind.plural}-{index}", "generation": 1}}
        for index, (kind, body) in enumerate(owned_objects.all_of(wanted(item), item, INSTANCE))
    }


def without_budget(item: Json) -> Mapping[tuple[str, str], Json]:
    return {key: one for key, one in owned(item).items() if key[0] != BUDGETS.plural}


def seen(item: Json, found: roots.Facts, **changes: object) -> Observed:
    base = Observed(resource=item, owned={}, pods=(), claims={}, root=found, kept=kept(item))
    return replace(base, **changes)  # type: ignore[arg-type] # fields by name


def decide(item: Json, found: roots.Facts, **changes: object) -> TurnPlan:
    return planning.decide(desired.read(item), seen(item, found, **changes), NOW)


def held(**spec: object) -> Json:
    item = resource(onDelete="Delete", **spec)
    item["metadata"]["finalizers"] = [FINALIZER]
    return item


def leaving(**spec: object) -> Json:
    item = held() if not spec else resource(**spec)
    item["metadata"] |= {"finalizers": [FINALIZER], "deletionTimestamp": NOW}
    item["status"] = {"instance": INSTANCE}
    return item


def built(item: Json) -> Json:
    return item | {"status": {"instance": INSTANCE}}


OTHER = INSTANCE[:-1] + "2"
RUNS = Pod(
    name=BookieId("log-a-0"),
    zone=ZoneName("a"),
    ready=True,
    node=None,
    revision="",
    controller=None,
)
UNKNOWN = roots.Unreachable(f"{URI}: nobody answers")


@pytest.mark.parametrize(
    ("item", "found", "acts"),
    [
        (resource(), roots.Absent(), ["InitialiseRoot"]),
        (resource(onDelete="Delete"), roots.Absent(), ["Hold"]),
        (held(), roots.Absent(), ["InitialiseRoot"]),
        (held() | {"spec": resource()["spec"]}, roots.Absent(), ["Release"]),
        (resource(), UNKNOWN, []),
        (resource(onDelete="Delete"), UNKNOWN, []),
        (built(resource(onDelete="Delete")), UNKNOWN, ["Hold"]),
        (resource(), roots.Unusable("a Java cluster"), []),
        (built(resource()), roots.Absent(), []),
        (resource(), root(resource()), ["Apply"] * 10),
        (built(resource()), UNKNOWN, ["Apply"] * 10),
        (resource(), root(resource(), owner="shell"), []),
        (resource(), root(resource(), owner="operator/logs/other"), []),
        (built(resource()), root(resource(), instance=INSTANCE[:-1] + "2"), []),
        (resource(policy={"repair": {"after": "1h"}}), root(resource()), ["PublishPolicy"]),
        (resource(), replace(root(resource()), policy=None), ["PublishPolicy"]),
        (resource(policy={"quorums": {"ack": 9}}), root(resource()), []),
        (resource(policy={"quorums": {"ack": 9}}, onDelete="Delete"), roots.Absent(), []),
    ],
)
def test_the_next_step_follows_from_what_is_there(
    item: Json, found: roots.Facts, acts: list[str]
) -> None:
    assert kinds_of(decide(item, found).actions) == acts


@pytest.mark.parametrize("found", [UNKNOWN, roots.Absent(), root(resource(), instance=OTHER)])
def test_bookies_that_run_get_their_budget_back_whatever_the_store_says(found: roots.Facts) -> None:
    item = built(resource())
    whole = owned(item)
    bare = decide(item, found, owned=without_budget(item), pods=(RUNS,))
    assert [one.body["metadata"]["name"] for one in bare.actions if isinstance(one, Apply)] == [
        "log-bookies"
    ]
    assert kinds_of(decide(item, found, owned=whole, pods=(RUNS,)).actions) == []


def test_no_budget_is_made_before_the_finalizer_is_held() -> None:
    item = built(resource(onDelete="Delete"))
    assert kinds_of(decide(item, UNKNOWN, owned=without_budget(item), pods=(RUNS,)).actions) == [
        "Hold"
    ]
    item["metadata"]["finalizers"] = [FINALIZER]
    assert kinds_of(decide(item, UNKNOWN, owned=without_budget(item), pods=(RUNS,)).actions) == [
        "Apply"
    ]


def test_a_deleted_resource_gets_no_budget() -> None:
    """Its pods are being removed; a budget would be one more thing that stays."""
    item = leaving()
    plan = decide(item, UNKNOWN, owned=without_budget(item), pods=(RUNS,))
    assert not [one for one in plan.actions if isinstance(one, Apply)]


def test_a_whole_cluster_needs_nothing() -> None:
    plan = decide(resource(), root(resource()), owned=owned(resource()))

    assert plan.actions == ()


def test_what_the_api_server_and_others_added_is_not_taken_for_a_change() -> None:
    found = dict(owned(resource()))
    sets = found["statefulsets", "log-a"]
    spec = sets["spec"] | {"minReadySeconds": 0, "revisionHistoryLimit": 10}
    found["statefulsets", "log-a"] = sets | {"spec": spec, "status": {"replicas": 2}}

    assert decide(resource(), root(resource()), owned=found).actions == ()


def test_only_what_differs_is_applied() -> None:
    found = dict(owned(resource()))
    sets = found["statefulsets", "log-b"]
    found["statefulsets", "log-b"] = sets | {"spec": sets["spec"] | {"replicas": 1}}

    plan = decide(resource(), root(resource()), owned=found)

    assert kinds_of(plan.actions) == ["Apply"]


POD = Pod(
    name=BookieId("log-a-0"),
    zone=ZoneName("a"),
    ready=False,
    node="node-a",
    revision="log-a-1",
    controller="uid-statefulsets-3",
)
SERVING = replace(POD, ready=True)
UNMARKED = {"data-log-a-0": VolumeClaim(uid="uid", instance=None)}


@pytest.mark.parametrize(
    ("item", "changes", "found", "acts"),
    [
        (leaving(), {"owned": owned(resource())}, root(held()), ["RemoveObject"] * 3),
        (leaving(), {"pods": (POD,)}, root(held()), []),
        (
            leaving(),
            {"owned": owned(resource()), "pods": (SERVING,), "claims": UNMARKED},
            root(held()),
            ["MarkClaim"],
        ),
        (
            leaving(),
            {"owned": owned(resource()), "pods": (POD,), "claims": UNMARKED},
            root(held()),
            ["RemoveObject"] * 3,
        ),
        (
            leaving(),
            {
                "owned": owned(resource()),
                "pods": (replace(SERVING, controller="uid-of-another"),),
                "claims": UNMARKED,
            },
            root(held()),
            ["RemoveObject"] * 3,
        ),
        (
            leaving(),
            {"owned": owned(resource()), "pods": (SERVING,), "claims": UNMARKED},
            root(held(), instance=INSTANCE[:-1] + "2"),
            ["RemoveObject"] * 3,
        ),
        (
            leaving(),
            {"claims": {"data-log-a-0": VolumeClaim(uid="uid", instance=INSTANCE)}},
            root(held()),
            ["RemoveObject"],
        ),
        (leaving(), {}, root(held()), ["RemoveRoot"]),
        (leaving(), {}, replace(root(held()), registered=frozenset({POD.name})), []),
        (leaving(), {}, root(held(), owner="shell"), ["Release"]),
        (leaving(), {}, root(held(), instance=INSTANCE[:-1] + "2"), ["Release"]),
        (leaving(), {}, replace(root(held()), policy=None), ["Release"]),
        (leaving(), {}, UNKNOWN, []),
        (leaving(), {}, roots.Absent(), ["Release"]),
        (leaving(), {}, roots.Unusable("a Java cluster"), ["Release"]),
        (leaving(onDelete="Retain"), {"pods": (POD,)}, UNKNOWN, ["Release"]),
        (leaving(onDelete="Retain"), {}, root(held()), ["Release"]),
    ],
)
def test_a_removal_goes_in_its_order_and_touches_only_its_own(
    item: Json, changes: dict[str, object], found: roots.Facts, acts: list[str]
) -> None:
    assert kinds_of(decide(item, found, **changes).actions) == acts


def test_another_resources_set_is_never_removed() -> None:
    theirs = dict(owned(resource()))
    for (plural, _), body in theirs.items():
        if plural in (STATEFUL_SETS.plural, DEPLOYMENTS.plural):
            body["metadata"]["ownerReferences"][0]["uid"] = "uid-of-another"

    plan = decide(leaving(), root(held()), owned=theirs)

    assert kinds_of(plan.actions) == ["RemoveRoot"]


def test_a_deleted_resource_that_nobody_holds_is_left_alone() -> None:
    item = leaving()
    item["metadata"]["finalizers"] = []

    plan = decide(item, root(held()), owned=owned(resource()))

    assert (plan.actions, plan.notices) == ((), ())


def test_a_condition_keeps_its_time_until_its_status_changes() -> None:
    item = resource()
    first = planning.decide(desired.read(item), seen(item, UNKNOWN), "2026-01-01T00:00:00Z")
    item["status"] = first.status

    second = planning.decide(desired.read(item), seen(item, roots.Absent()), NOW)
    third = planning.decide(desired.read(item), seen(item, root(item)), NOW)

    def since(plan: TurnPlan) -> str:
        found = plan.status["conditions"]
        return str(next(c["lastTransitionTime"] for c in found if c["type"] == "MetadataReady"))

    assert since(second) == "2026-01-01T00:00:00Z", "False for another reason is still False"
    assert since(third) == NOW


def test_the_same_view_is_told_once() -> None:
    item = resource()
    first = decide(item, UNKNOWN)
    item["status"] = first.status

    assert [notice.reason for notice in first.notices] == ["MetadataUnreachable"]
    assert decide(item, UNKNOWN).notices == ()
    assert decide(item, UNKNOWN).status == first.status


def in_use(item: Json) -> roots.RootFound:
    """Give a root of this owner where a bookie is registered."""
    return replace(root(item), registered=frozenset({POD.name}))


def test_a_root_where_somebody_elses_bookies_run_is_not_taken_up() -> None:
    """One manifest in two Kubernetes clusters that share a ZooKeeper: the owner is the same."""
    plan = decide(resource(), in_use(resource()))
    bare = decide(resource(), replace(in_use(resource()), policy=None))

    assert plan.actions == bare.actions == ()
    assert "instance" not in plan.status
    found = {item["type"]: item for item in plan.status["conditions"]}
    assert found["MetadataReady"]["status"] == "False"
    assert found["MetadataReady"]["reason"] == "RootInUse"
    assert "does not run: log-a-0: if" in found["MetadataReady"]["message"]
    assert found["PolicyPublished"]["status"] == "Unknown"


@pytest.mark.parametrize("instance", [INSTANCE, None])
def test_a_root_with_cookies_is_taken_up_where_one_of_their_volumes_is(
    instance: str | None,
) -> None:
    cookies = {BookieId("log-a-0"): None, BookieId("log-b-0"): None}
    claims = {"data-log-b-0": VolumeClaim(uid="uid", instance=instance)}

    plan = decide(resource(), replace(root(resource()), locations=cookies), claims=claims)

    assert plan.status["instance"] == INSTANCE


@pytest.mark.parametrize("name", ["data-log-a-1", "data-log-a-0"])
def test_a_root_with_cookies_is_not_taken_up_where_all_volumes_are_of_others(name: str) -> None:
    """They may be down in another Kubernetes cluster, where no bookie is registered then."""
    cookies = {BookieId("log-a-0"): None}
    claims = {name: VolumeClaim(uid="uid", instance="another")}

    plan = decide(resource(), replace(root(resource()), locations=cookies), claims=claims)

    assert plan.actions == ()
    assert "instance" not in plan.status
    found = {item["type"]: item for item in plan.status["conditions"]}
    assert found["MetadataReady"]["reason"] == "RootInUse"
    assert "whose volumes are not here: log-a-0: if" in found["MetadataReady"]["message"]


def test_sessions_that_end_one_by_one_are_one_event() -> None:
    item, told = resource(), []
    for left in range(6, 0, -1):
        bookies = frozenset(BookieId(f"log-a-{ordinal}") for ordinal in range(left))
        plan = decide(item, replace(root(resource()), registered=bookies))
        item["status"] = plan.status
        told += [notice.reason for notice in plan.notices]

    assert told.count("RootInUse") == 1


def test_a_long_list_of_volumes_that_were_kept_leaves_room_for_the_reason() -> None:
    claims = {
        f"data-log-a-{ordinal}": VolumeClaim(uid="uid", instance=None) for ordinal in range(100)
    }

    (notice,) = decide(leaving(), roots.Absent(), claims=claims).notices

    assert notice.reason == "VolumesKept"
    assert notice.message.startswith("volumes were not removed (100), because their claims do not")
    assert notice.message.endswith(
        "data-log-a-0, data-log-a-1, data-log-a-10, data-log-a-11, data-log-a-12 and 95 more"
    )


def test_a_root_of_another_owner_is_called_so_whoever_is_registered_there() -> None:
    theirs = replace(root(resource(), owner="shell"), registered=frozenset({POD.name}))

    found = {item["type"]: item for item in decide(resource(), theirs).status["conditions"]}

    assert found["PolicyPublished"]["reason"] == "OwnedByAnother"
    assert found["MetadataReady"]["reason"] == "Found"


def test_a_root_where_somebody_elses_bookies_run_is_not_removed() -> None:
    item = leaving()
    del item["status"]

    plan = decide(item, in_use(held()))

    assert kinds_of(plan.actions) == ["Release"]
    assert [notice.reason for notice in plan.notices] == ["RootKept"]


def test_a_resource_that_goes_or_is_not_legal_takes_nothing_up() -> None:
    """What it once noted as its own, a later turn of its removal would remove."""
    fewer = resource(zones=[{"name": "a"}, {"name": "b"}], policy={"placement": {"minZones": 2}})
    cookies = {BookieId("log-c-0"): None}
    going = leaving()
    del going["status"]

    claims = {"data-log-c-0": VolumeClaim(uid="uid", instance=INSTANCE)}
    for item, pods in ((fewer, ()), (going, (POD,)), (going, ())):
        found = replace(root(held()), locations=cookies)
        plan = decide(item, found, pods=pods, claims=claims)
        assert "instance" not in plan.status


def test_a_root_where_only_its_own_pods_are_registered_is_taken_up() -> None:
    plan = decide(resource(), in_use(resource()), pods=(POD,))

    assert kinds_of(plan.actions) == ["Apply"] * 10
    assert plan.status["instance"] == INSTANCE


def test_a_cluster_that_is_built_stays_so_whoever_registers_in_its_root() -> None:
    assert kinds_of(decide(built(resource()), in_use(resource())).actions) == ["Apply"] * 10
