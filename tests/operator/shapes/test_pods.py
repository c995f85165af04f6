"""A zone's fields over the cluster's: one rule, and nothing is lost or doubled by it."""

from hypothesis import given
from hypothesis import strategies as st

from zonekeeper.operator.kubernetes.api import Json
from zonekeeper.operator.shapes import pods
from zonekeeper.operator.shapes.pods import TABLE, PodFields
from zonekeeper.placement.base.fields import Problem

NAMES = st.sampled_from(["a", "b", "c"])
TEXTS = st.dictionaries(NAMES, st.sampled_from(["1", "2"]))


def _variables(values: dict[str, str]) -> tuple[Json, ...]:
    return tuple({"name": name, "value": value} for name, value in values.items())


FIELDS = st.builds(
    PodFields,
    pull_secrets=st.lists(NAMES, unique=True).map(tuple),
    pull_policy=st.sampled_from([None, "Always", "Never"]),
    labels=TEXTS,
    annotations=TEXTS,
    tolerations=st.lists(NAMES, unique=True).map(
        lambda keys: tuple({"key": key, "operator": "Exists"} for key in keys)
    ),
    affinity=st.sampled_from([None, {}, {"nodeAffinity": {}}]),
    priority_class=st.sampled_from([None, "high", "low"]),
    variables=TEXTS.map(_variables),
)


@given(FIELDS, FIELDS)
def test_a_zone_adds_and_its_values_count(common: PodFields, zone: PodFields) -> None:
    found = pods.merged(common, zone)

    assert found.labels == {**common.labels, **zone.labels}
    assert found.annotations == {**common.annotations, **zone.annotations}
    assert set(found.pull_secrets) == {*common.pull_secrets, *zone.pull_secrets}
    assert len(set(found.pull_secrets)) == len(found.pull_secrets)
    keys = [one["key"] for one in found.tolerations]
    assert sorted(keys) == sorted({one["key"] for one in (*common.tolerations, *zone.tolerations)})
    values = {one["name"]: one["value"] for one in found.variables}
    said = [{one["name"]: one["value"] for one in each.variables} for each in (common, zone)]
    assert values == {**said[0], **said[1]}
    assert len(values) == len(found.variables)
    assert found.pull_policy == (zone.pull_policy or common.pull_policy)
    assert found.priority_class == (zone.priority_class or common.priority_class)
    assert found.affinity == (common.affinity if zone.affinity is None else zone.affinity)


@given(FIELDS)
def test_a_zone_that_says_nothing_changes_nothing_and_one_that_says_the_same_neither(
    common: PodFields,
) -> None:
    assert pods.merged(common, PodFields()) == common
    assert pods.merged(common, common) == common


def test_each_field_of_the_cluster_can_be_said_of_a_zone() -> None:
    assert pods.of_a_zone().keys() == TABLE.keys()
    for name, shape in pods.of_a_zone().items():
        assert shape.about.startswith("In this zone: "), name


def test_what_the_api_server_does_not_store_is_not_wanted() -> None:
    """Otherwise the object would differ for ever, and be applied again in every turn."""
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {}, "matchExpressions": []},
        "namespaces": [],
    }
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    given: Json = {
        "env": [{"name": "A", "value": ""}, {"name": "B", "value": "1", "valueFrom": None}],
        "tolerations": [{"operator": "Exists", "value": "", "tolerationSeconds": None}],
        "podAnnotations": {"empty": ""},
        "affinity": {"nodeAffinity": {}, "podAffinity": {required: [term]}},
    }
    problems: list[Problem] = []

    found = pods.read(given, "spec", problems)

    assert problems == []
    assert found.variables == ({"name": "A"}, {"name": "B", "value": "1"})
    assert found.tolerations == ({"operator": "Exists"},)
    assert found.annotations == {"empty": ""}
    stored = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {}}
    assert found.affinity == {"nodeAffinity": {}, "podAffinity": {required: [stored]}}
