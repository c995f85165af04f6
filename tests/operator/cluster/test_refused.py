"""What the API server refuses in words, the operator refuses in the same: its schema may be older.

``tests/cluster/test_operator_words.py`` asks a real API server about the same resources.
"""

import pytest

from tests.operator.refused import RIGHT, WRONG, WrongSpec
from tests.operator.resources import resource
from zonekeeper.operator.cluster import desired
from zonekeeper.operator.cluster.desired import Desired, RefusedResource
from zonekeeper.operator.kubernetes.api import Json


@pytest.mark.parametrize("wrong", WRONG, ids=[wrong.name for wrong in WRONG])
def test_the_operator_names_the_field_and_says_the_words(wrong: WrongSpec) -> None:
    found = desired.read(resource(**wrong.spec))

    assert isinstance(found, RefusedResource)
    told = "\n".join(found.reasons)
    assert wrong.path in told
    assert wrong.words in told
    assert "^(" not in told
    assert "None" not in told


@pytest.mark.parametrize(("name", "spec"), RIGHT)
def test_the_operator_takes_what_is_right(name: str, spec: Json) -> None:
    found = desired.read(resource(**spec))

    assert isinstance(found, Desired), (name, found)


def test_an_unknown_setting_is_refused_with_the_nearest_name() -> None:
    found = desired.read(resource(config={"gc-intervall": "1m", "whatever": 1}))

    assert isinstance(found, RefusedResource)
    assert found.reasons[0] == (
        'spec.config.gc-intervall: "1m": unknown setting; did you mean gc-interval?'
    )
    assert found.reasons[1].startswith("spec.config.whatever: 1: unknown setting; known here: ")


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"gc-interval": "soon"}, 'spec.config.gc-interval: "soon": must be a duration'),
        ({"drain-timeout": "1m"}, "spec.config.drain-timeout: "),
        ({"capacity": "255MiB"}, "must be at least 256MiB"),
        ({"disk-full": "101%"}, "must be a share from 1% to 100%"),
        ({"disk-full": "80%"}, 'spec.config.disk-warn: "90%": must not exceed disk-full (80%)'),
        ({"disk-low": "96%"}, 'spec.config.disk-low: "96%": must not exceed disk-full (95%)'),
        ({"log-level": "loud"}, "spec.config.log-level: "),
        ({"ledgers": "many"}, "spec.config.ledgers: "),
        (["gc-interval"], "spec.config: "),
    ],
)
def test_a_setting_that_a_bookie_would_not_start_with_is_refused(
    config: object, words: str
) -> None:
    found = desired.read(resource(config=config))

    assert isinstance(found, RefusedResource)
    assert words in "\n".join(found.reasons)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"tolerations": {}}, "spec.tolerations: {}: must be a list of 0 to 16"),
        ({"tolerations": ["x"]}, 'spec.tolerations[0]: "x": must be fields by name'),
        ({"tolerations": [{"kay": "x"}]}, "unknown field; did you mean key?"),
        ({"podLabels": {"a b": "x"}}, 'spec.podLabels: "a b": must be the name of a label'),
        ({"podLabels": {"a": "x" * 64}}, "spec.podLabels.a: "),
        ({"podAnnotations": {"a": "x" * 4_097}}, "must have at most 4096 characters"),
        ({"imagePullSecrets": [{}]}, "spec.imagePullSecrets[0].name: missing: is required"),
        (
            {"imagePullSecrets": [{"name": "a"}, {"name": "a"}]},
            'spec.imagePullSecrets[1].name: "a": duplicates spec.imagePullSecrets[0]',
        ),
        ({"env": [{"name": "A"}] * 33}, "spec.env: "),
        ({"affinity": {"nodeAffinity": {"x": 1}}}, "spec.affinity.nodeAffinity.x: 1: unknown"),
        (
            {"zones": [{"name": "a"}, {"name": "b", "tolerations": [{}]}]},
            "spec.zones[1].tolerations[0]: {}: must name a key",
        ),
        ({"storage": {"size": "1Gi", "journal": {}}}, "spec.storage.journal.size: missing"),
    ],
)
def test_a_structure_that_no_schema_has_checked_is_checked_here(spec: Json, words: str) -> None:
    found = desired.read(resource(**spec))

    assert isinstance(found, RefusedResource)
    assert words in "\n".join(found.reasons)


def test_a_cluster_that_was_built_by_fewer_rules_is_kept_and_warned_of() -> None:
    item = resource(image="zonekeeper:latest", storage={"size": "64Mi"})
    assert isinstance(desired.read(item), RefusedResource)

    found = desired.read(item | {"status": {"instance": "0d6e3a1e"}})

    assert isinstance(found, Desired)
    told = "\n".join(found.warnings)
    assert "spec.image: " in told
    assert "spec.storage.size: " in told


def test_without_an_image_bookies_run_the_operator_s_own() -> None:
    item = resource(image=None)
    refused = desired.read(item)
    assert isinstance(refused, RefusedResource)
    assert refused.reasons[0].startswith("spec.image: missing: is required, because this operator")

    filled = desired.with_own_image(item, "zonekeeper:0.3.0")
    found = desired.read(filled)
    assert isinstance(found, Desired)
    assert found.image == "zonekeeper:0.3.0"
    assert item["spec"]["image"] is None
    assert desired.with_own_image(filled, "other:1") is filled
    assert desired.with_own_image(item, None) is item
