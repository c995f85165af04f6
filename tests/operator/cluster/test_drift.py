"""An object that others added to still holds ours; one that differs does not."""

import pytest

from zonekeeper.operator.cluster import drift
from zonekeeper.operator.kubernetes.api import Json


@pytest.mark.parametrize(
    ("wanted", "found", "answer"),
    [
        ({}, {"a": 1}, True),
        ({"a": 1}, {"a": 1, "b": 2}, True),
        ({"a": 1}, {}, False),
        ({"a": None}, {}, False),
        ({"a": {"b": 1}}, {"a": {"b": 2}}, False),
        ({"a": {"b": 1}}, {"a": 1}, False),
        ({"a": [{"x": 1}]}, {"a": [{"x": 1, "y": 2}]}, True),
        ({"a": [1]}, {"a": [1, 2]}, False),
        ({"a": [1, 2]}, {"a": [2, 1]}, False),
        ({"a": [{"name": "x"}]}, {"a": [{"name": "theirs"}, {"name": "x", "b": 1}]}, True),
        ({"a": [{"name": "x", "b": 1}]}, {"a": [{"name": "x", "b": 2}, {"name": "y"}]}, False),
        ({"a": [{"name": "x"}, {"name": "y"}]}, {"a": [{"name": "x"}]}, False),
        ({"a": [{"x": 1}]}, {"a": [{"x": 1}, {"x": 2}]}, False),
        ({"a": []}, {"a": []}, True),
        ({"cpu": "0.5"}, {"cpu": "500m"}, True),
        ({"memory": "1Gi"}, {"memory": "1024Mi"}, True),
        ({"memory": "1G"}, {"memory": "1Gi"}, False),
        ({"cpu": 1}, {"cpu": "1"}, True),
        ({"cpu": ".5"}, {"cpu": "500m"}, True),
        ({"cpu": "1."}, {"cpu": "1"}, True),
        ({"memory": "1e3"}, {"memory": "1k"}, True),
        ({"memory": "1e10"}, {"memory": "10e9"}, True),
        ({"cpu": "100e-3"}, {"cpu": "100m"}, True),
        ({"memory": "1E"}, {"memory": "1e18"}, True),
        ({"memory": "1024Pi"}, {"memory": "1Ei"}, True),
        ({"memory": "1e3"}, {"memory": "1e4"}, False),
        ({"a": "-1"}, {"a": -1}, False),
    ],
)
def test_ours_is_compared_and_the_rest_is_not(wanted: Json, found: Json, answer: bool) -> None:
    assert drift.holds(wanted, found) is answer
