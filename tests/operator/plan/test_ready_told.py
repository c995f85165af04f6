"""``Ready`` has the cause as its reason; the status names units and the pods that are not well."""

from dataclasses import replace

import pytest

from tests.operator.plan import small_world
from tests.operator.plan.small_world import BOOKIES, INSTANCE, LEGAL
from tests.operator.resources import NOW, kept, resource
from zonekeeper.operator.cluster import desired
from zonekeeper.operator.cluster.desired import Desired
from zonekeeper.operator.definition import crd
from zonekeeper.operator.kubernetes.api import STATEFUL_SETS, Json
from zonekeeper.operator.plan import planning, standing
from zonekeeper.operator.roots import roots
from zonekeeper.operator.sight.observed import Observed, Pod
from zonekeeper.operator.sight.pod_trouble import PodTrouble, TroubleKind
from zonekeeper.placement.base.ids import BookieId, ZoneName

SINCE = "2026-01-02T03:00:00Z"


def trouble(kind: TroubleKind, words: str = "no", last: str | None = None) -> PodTrouble:
    return PodTrouble(kind=kind, words=words, last_words=last, since=SINCE)


def pods(*unwell: PodTrouble | None) -> tuple[Pod, ...]:
    """Give a pod for each bookie; the first ones are not ready, and have these troubles."""
    found = []
    for place, name in enumerate(BOOKIES):
        made = Pod(
            name=name,
            zone=ZoneName(name.split("-")[1]),
            ready=place >= len(unwell),
            node="node",
            revision="",
            controller=f"uid-{name.rpartition('-')[0]}",
            trouble=unwell[place] if place < len(unwell) else None,
        )
        found.append(made)
    return tuple(found)


def look(*, item: Json = LEGAL, root: roots.Facts | None = None, **more: object) -> Observed:
    """Give a look at a cluster with a bookie in each zone, all ready, but for what a test says."""
    wanted = desired.read(LEGAL)
    assert isinstance(wanted, Desired)
    found = roots.RootFound(
        instance=INSTANCE,
        policy=replace(wanted.policy, version=3, instance=INSTANCE),
        locations=dict.fromkeys(BOOKIES),
        registered=frozenset(BOOKIES),
    )
    base = Observed(
        resource=item,
        owned=small_world.objects(),
        pods=pods(),
        repairers=small_world.repairers(),
        claims={},
        root=root or found,
        kept=kept(LEGAL),
        watched=small_world.watched(),
    )
    return replace(base, **more)  # type: ignore[arg-type] # fields by name


def status(seen: Observed) -> Json:
    return planning.decide(desired.read(seen.resource), seen, NOW).status


def ready(seen: Observed) -> tuple[str, str]:
    """Give reason and message of ``Ready``."""
    said = next(one for one in status(seen)["conditions"] if one["type"] == "Ready")
    return said["reason"], said["message"]


def test_the_counts_are_the_reason_only_where_nothing_explains_them() -> None:
    assert ready(look()) == ("AllReady", "3 bookies in 3 zones")
    assert ready(look(pods=pods(None))) == ("BookiesNotReady", "zone a: 0 of 1")


@pytest.mark.parametrize("kind", list(TroubleKind))
def test_the_trouble_of_a_pod_is_the_reason_with_the_pod_and_its_last_words(
    kind: TroubleKind,
) -> None:
    found = pods(trouble(kind, "too bad", "good bye"), None)

    assert ready(look(pods=found)) == (
        str(kind),
        "log-a-0: too bad; its last words: good bye\nzone a: 0 of 1; zone b: 0 of 1",
    )


def test_pods_with_the_same_trouble_are_named_together_and_other_troubles_after_it() -> None:
    pull, crash = trouble(TroubleKind.IMAGE_PULL), trouble(TroubleKind.CRASH_LOOP)

    reason, message = ready(look(pods=pods(pull, crash, pull)))

    assert reason == "ImagePull"
    assert message.splitlines()[:2] == ["log-a-0, log-c-0: no", "log-b-0: no"]


def test_a_zone_that_the_zone_watch_calls_down_is_the_reason_while_its_bookies_are_away() -> None:
    down = small_world.watched(down="a")

    assert ready(look(watched=down))[0] == "AllReady"
    reason, message = ready(look(watched=down, pods=pods(None)))
    assert reason == "ZoneDown"
    assert message == "the zone watch says: zone a is down\nzone a: 0 of 1"
    assert ready(look(watched=small_world.watched(down="c"), pods=pods(None)))[0] == (
        "BookiesNotReady"
    )


def test_a_store_that_does_not_answer_explains_more_than_a_pod() -> None:
    away = roots.Unreachable("nobody answers")
    found = pods(trouble(TroubleKind.CRASH_LOOP, "ended"))

    assert ready(look(root=away))[0] == "AllReady"
    reason, message = ready(look(root=away, pods=found))
    assert reason == "MetadataUnreachable"
    assert message == "nobody answers\nlog-a-0: ended\nzone a: 0 of 1"


def test_what_was_never_built_has_the_reason_why_it_is_not() -> None:
    refused = resource(policy={"quorums": {"ack": 9}})
    nothing: Json = {"owned": {}, "pods": (), "kept": ()}

    assert ready(look(item=refused, root=roots.Absent(), **nothing)) == (
        "Refused",
        "the resource is not built: see Legal",
    )
    fresh = resource(bookiesPerZone=1)
    used = roots.RootFound(
        instance=INSTANCE,
        policy=None,
        locations={},
        registered=frozenset({BookieId("other-a-0")}),
    )
    assert ready(look(item=fresh, root=used, **nothing))[0] == "RootInUse"


def test_a_refused_edit_is_not_the_reason_of_a_cluster_that_is_kept_up() -> None:
    refused = LEGAL | {"spec": {**LEGAL["spec"], "policy": {"quorums": {"ack": 9}}}}

    assert ready(look(item=refused))[0] == "AllReady"
    assert ready(look(item=refused, pods=pods(None)))[0] == "BookiesNotReady"


def test_units_count_what_shall_run_what_is_ready_and_what_is_up_to_date() -> None:
    item = resource(bookiesPerZone=4) | {"status": {"instance": INSTANCE}}
    made = small_world.objects()
    of_a = made[STATEFUL_SETS.plural, "log-a"]
    newest = of_a["status"]["updateRevision"]
    behind = of_a | {"metadata": of_a["metadata"] | {"name": "log-b", "generation": 2}}
    made[STATEFUL_SETS.plural, "log-b"] = behind

    def pod(name: str, *, ready: bool = True, revision: str = newest) -> Pod:
        return replace(pods()[0], name=BookieId(name), ready=ready, revision=revision)

    found = (
        pod("log-a-0"),
        pod("log-a-1", ready=False),
        pod("log-a-3", revision="older"),
        pod("log-b-0"),
    )
    told = status(look(item=item, owned=made, pods=found, kept=kept(item)))

    first = {"zone": "a", "domain": "ud-0", "bookies": 2, "ready": 2, "updated": 1}
    second = {"zone": "a", "domain": "ud-1", "bookies": 1, "ready": 0, "updated": 1}
    third = {"zone": "a", "domain": "ud-2", "bookies": 1, "ready": 0, "updated": 0}
    assert told["units"][:3] == [first, second, third]
    assert [one["updated"] for one in told["units"][3:]] == [0] * 6
    assert (told["bookies"], told["updatedBookies"]) == (12, 2)


def test_no_pod_is_up_to_date_while_the_template_that_is_asked_for_does_not_stand() -> None:
    item = LEGAL | {"spec": {**LEGAL["spec"], "image": "zonekeeper:0.2.0"}}
    made = small_world.objects()
    found = tuple(
        replace(
            pod, revision=made[STATEFUL_SETS.plural, f"log-{pod.zone}"]["status"]["updateRevision"]
        )
        for pod in pods()
    )

    before = status(look(pods=found))
    after = status(look(item=item, kept=kept(item), pods=found))

    assert (before["updatedBookies"], after["updatedBookies"]) == (3, 0)


def test_without_any_policy_no_unit_is_known() -> None:
    refused = LEGAL | {"spec": {**LEGAL["spec"], "policy": {"quorums": {"ack": 9}}}}
    unseen = roots.Unreachable("nobody answers")

    assert status(look(item=refused, kept=(), root=unseen))["units"] == []


def test_pods_that_are_not_well_are_named_with_the_reason_and_since_when() -> None:
    found = (pods(None, trouble(TroubleKind.CRASH_LOOP, "ended", "bad disk")))[:2]

    told = status(look(pods=found, repairers=small_world.repairers(ready=False)))

    assert told["unwell"] == [
        {
            "pod": "log-b-0",
            "zone": "b",
            "reason": "CrashLoop",
            "message": "ended; its last words: bad disk",
            "since": SINCE,
        },
        {
            "pod": "log-a-0",
            "zone": "a",
            "reason": "NotReady",
            "message": "it runs, and is not ready yet",
        },
        {
            "pod": "log-c-0",
            "zone": "c",
            "reason": "Missing",
            "message": "no pod of this name is there",
        },
        {
            "pod": "log-a-autorecovery-5d8f-0",
            "zone": "a",
            "reason": "NotReady",
            "message": "it runs, and is not ready yet",
        },
    ]


def test_no_more_than_twenty_pods_are_named_and_those_with_a_trouble_are_among_them() -> None:
    item = resource(bookiesPerZone=30) | {"status": {"instance": INSTANCE}}
    last = replace(pods()[2], name=BookieId("log-c-29"), ready=False)
    last = replace(last, trouble=trouble(TroubleKind.IMAGE_PULL))

    told = status(look(item=item, kept=kept(item), pods=(last,)))["unwell"]

    assert len(told) == standing.UNWELL_MAX == 20
    assert told[0]["pod"] == "log-c-29"
    assert [one["pod"] for one in told[1:4]] == ["log-a-0", "log-a-1", "log-a-2"]


def test_the_status_says_which_operator_wrote_it_and_which_image_is_kept_up() -> None:
    refused = LEGAL | {"spec": {**LEGAL["spec"], "image": "zonekeeper", "bookiesPerZone": 3}}

    told = status(look(item=refused, version="1.2.3"))

    assert told["version"] == "1.2.3"
    assert told["image"] == LEGAL["spec"]["image"]


def test_the_definition_knows_every_field_of_the_status() -> None:
    schema = crd.definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    known = schema["properties"]["status"]["properties"]
    told = status(look(pods=pods(trouble(TroubleKind.CRASH_LOOP)), version="1"))

    assert told.keys() <= known.keys()
    for part in ("units", "unwell", "zones", "conditions"):
        fields = known[part]["items"]["properties"]
        assert all(one.keys() <= fields.keys() for one in told[part])
        assert told[part]


def test_the_columns_are_those_that_a_person_on_call_reads() -> None:
    version = crd.definition()["spec"]["versions"][0]
    shown = [one["name"] for one in version["additionalPrinterColumns"] if not one.get("priority")]

    assert shown == ["Ready", "Bookies", "Of", "Updated", "Reason", "Age"]
