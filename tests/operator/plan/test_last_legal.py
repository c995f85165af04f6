"""The last legal spec: what is kept of it, whose it is, and what is decided from it."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from tests.operator.resources import NOW, kept, kinds_of, resource
from zonekeeper.operator.cluster import desired, kept_spec, owned_objects
from zonekeeper.operator.cluster.desired import Desired
from zonekeeper.operator.cluster.kept_spec import KeptSpec
from zonekeeper.operator.kubernetes.api import CONTROLLER_REVISIONS, Json
from zonekeeper.operator.plan import planning
from zonekeeper.operator.plan.plans import Apply, RemoveObject, TurnPlan
from zonekeeper.operator.roots import roots
from zonekeeper.operator.sight.holdings import Holdings
from zonekeeper.operator.sight.observed import Observed
from zonekeeper.placement.base.ids import BookieId

INSTANCE = "0d6e3a1e-0000-4000-8000-000000000001"
#: A ledger names all of them.
BOOKIES = [BookieId(f"log-{zone}-{ordinal}") for zone in "abc" for ordinal in (0, 1)]


def built(**spec: object) -> Json:
    return resource(**spec) | {"status": {"instance": INSTANCE}}


LEGAL = built()
REFUSED = built(policy={"quorums": {"ack": 9}})
FEWER = built(bookiesPerZone=1)


def wanted(item: Json) -> Desired:
    found = desired.read(item)
    assert isinstance(found, Desired)
    return found


def owned(item: Json) -> dict[tuple[str, str], Json]:
    found = {}
    for kind, body in owned_objects.all_of(wanted(item), item, INSTANCE):
        meta = body["metadata"] | {"uid": f"uid-{body['metadata']['name']}", "generation": 1}
        found[kind.plural, body["metadata"]["name"]] = body | {"metadata": meta}
    return found


def decide(
    item: Json,
    known: tuple[KeptSpec, ...],
    standing: Mapping[tuple[str, str], Json] | None = None,
    more: tuple[str, ...] = (),
) -> TurnPlan:
    named = [*BOOKIES, *map(BookieId, more)]
    policy = replace(wanted(LEGAL).policy, version=1, instance=INSTANCE)
    observed = Observed(
        resource=item,
        owned=owned(LEGAL) if standing is None else standing,
        pods=(),
        claims={},
        root=roots.RootFound(
            instance=INSTANCE,
            policy=policy,
            locations=dict.fromkeys(named),
            registered=frozenset(),
        ),
        kept=known,
        holdings=Holdings(asked=frozenset(named), named=frozenset(named), asked_ms=0),
    )
    return planning.decide(desired.read(item), observed, NOW)


def applied(plan: TurnPlan) -> list[str]:
    return [one.body["metadata"]["name"] for one in plan.actions if isinstance(one, Apply)]


def condition(plan: TurnPlan, kind: str) -> Json:
    found: Json = next(one for one in plan.status["conditions"] if one["type"] == kind)
    return found


def without(name: str) -> dict[tuple[str, str], Json]:
    return {key: item for key, item in owned(LEGAL).items() if key[1] != name}


def test_a_legal_spec_is_kept_before_anything_is_made_of_it() -> None:
    plan = decide(LEGAL, (), {})

    (act,) = plan.actions
    assert isinstance(act, Apply)
    assert act.kind is CONTROLLER_REVISIONS
    assert act.body["data"] == {"spec": LEGAL["spec"]}
    (owner,) = act.body["metadata"]["ownerReferences"]
    assert (owner["uid"], owner["controller"]) == (LEGAL["metadata"]["uid"], True)
    assert len(decide(LEGAL, kept(LEGAL), {}).actions) == 10


@pytest.mark.parametrize("item", [REFUSED, FEWER])
def test_what_is_deleted_while_an_edit_is_refused_or_blocked_is_restored(item: Json) -> None:
    plan = decide(item, kept(LEGAL), without("log-b"))

    assert applied(plan) == ["log-b"]
    assert condition(plan, "Ready")["message"].endswith("zone b: 0 of 2; zone c: 0 of 2")
    assert condition(plan, "Legal")["status"] == "False"
    assert "kept as the last legal spec asked for it" in condition(plan, "Legal")["message"]


def test_without_a_kept_spec_a_refused_resource_changes_nothing() -> None:
    """As an operator finds it that was upgraded while the resource was refused."""
    plan = decide(REFUSED, (), without("log-b"))

    assert plan.actions == ()
    assert plan.waits_for is not None
    assert plan.waits_for.predicate == "Refused"
    assert "last legal spec" not in plan.waits_for.why


def test_a_kept_spec_that_this_operator_refuses_is_as_none() -> None:
    assert decide(REFUSED, kept(REFUSED), without("log-b")).actions == ()


def test_bookies_beyond_the_kept_spec_that_hold_something_stay_and_the_rest_is_kept_up() -> None:
    """The StatefulSets have got more bookies since, by a hand that is not the resource's."""
    more = {
        key: item | {"spec": item["spec"] | {"replicas": 3}} if key[0] == "statefulsets" else item
        for key, item in without("log-b").items()
    }

    plan = decide(REFUSED, kept(LEGAL), more, ("log-a-2", "log-c-2"))

    assert applied(plan) == ["log-b"]
    assert [one.body["spec"]["replicas"] for one in plan.actions if isinstance(one, Apply)] == [2]


def test_a_refused_spec_is_not_kept_and_removes_none() -> None:
    plan = decide(REFUSED, kept(FEWER, LEGAL))

    assert kinds_of(plan.actions) == []


def test_a_spec_that_comes_back_is_the_newest_again_and_the_others_go() -> None:
    other = built(image="zonekeeper:0.1.1")
    both = kept(LEGAL, other)
    assert [one.spec for one in both] == [other["spec"], LEGAL["spec"]]

    (act,) = decide(LEGAL, both).actions
    assert isinstance(act, Apply)
    assert (act.body["metadata"]["name"], act.body["revision"]) == (both[1].name, 3)

    newest = replace(both[1], number=3)
    (removed,) = decide(LEGAL, (newest, both[0])).actions
    assert isinstance(removed, RemoveObject)
    assert (removed.name, removed.uid) == (both[0].name, both[0].uid)


def test_two_specs_have_two_names_and_so_have_two_resources_of_one_name() -> None:
    again = LEGAL | {"metadata": LEGAL["metadata"] | {"uid": "uid-again"}}

    names = [
        kept_spec.revision(item, number=1)["metadata"]["name"]
        for item in (LEGAL, LEGAL, FEWER, again)
    ]

    assert names[0] == names[1]
    assert len(set(names)) == 3


def test_only_what_the_operator_kept_for_this_very_resource_is_read() -> None:
    made = kept_spec.revision(LEGAL, number=4)
    meta = made["metadata"] | {"uid": "uid-of-kept"}
    others = meta["ownerReferences"][0] | {"uid": "uid-of-another"}
    good = made | {"metadata": meta}
    strange: list[Json] = [
        good | {"metadata": meta | {"ownerReferences": []}},
        good | {"metadata": meta | {"ownerReferences": [others]}},
        good | {"metadata": meta | {"name": "log-spec-by-hand"}},
        good | {"data": {"spec": FEWER["spec"]}},
        good | {"data": {"spec": "text"}},
        good | {"data": None},
        {"metadata": meta},
    ]

    (found,) = kept_spec.read([*strange, good], LEGAL)

    assert (found.number, found.spec) == (4, LEGAL["spec"])


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (
            {"metadata": {"uri": "zk://elsewhere/ledgers"}},
            "spec.metadata.uri: zk://elsewhere/ledgers: cannot change once the cluster is built: "
            "its bookies belong to that root; set it to zk://zookeeper:2181/logs/ledgers",
        ),
        (
            {"storage": {"size": "512Mi"}},
            "spec.storage.size: 512Mi: cannot become less once the cluster is built: no volume "
            "shrinks; set it to what it was or more (1Gi); for other volumes set "
            "spec.storage.newVolumes, and give each bookie one (zonekeeper.io/replace)",
        ),
        (
            {"storage": {"size": "1Gi", "className": "fast"}},
            "spec.storage.className: fast: cannot change once the cluster is built: its volumes "
            "are there; set it to what it was (none: leave it out); for other volumes set "
            "spec.storage.newVolumes, and give each bookie one (zonekeeper.io/replace)",
        ),
        (
            {"policy": {"placement": {"upgradeDomains": 5}}},
            "spec.policy.placement.upgradeDomains: 5: cannot change once the cluster is built: the "
            "cookies of its bookies have their upgrade domains, and would be wrong; set it to 3",
        ),
    ],
)
def test_what_cannot_change_once_built_blocks_and_the_cluster_is_kept(
    spec: Json, words: str
) -> None:
    plan = decide(built(**spec), kept(LEGAL), without("log-b"))

    assert condition(plan, "Legal")["reason"] == "Blocked"
    assert words in condition(plan, "Legal")["message"]
    assert applied(plan) == ["log-b"]


def test_the_policy_of_a_blocked_resource_is_not_about_to_be_published() -> None:
    item = built(bookiesPerZone=1, policy={"repair": {"after": "1h"}})

    plan = decide(item, kept(LEGAL))

    assert plan.actions == ()
    assert condition(plan, "PolicyPublished")["message"] == (
        "version 1 stays in force until the resource is legal"
    )


def test_the_store_is_where_the_kept_spec_says() -> None:
    """Else an edit of the address would leave a cluster that is built without its root."""
    moved = built(metadata={"uri": "zk://elsewhere/ledgers"})

    assert kept_spec.address(kept(LEGAL), moved) == LEGAL["spec"]["metadata"]["uri"]
    assert kept_spec.address((), moved) == "zk://elsewhere/ledgers"
