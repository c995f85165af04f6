"""A text of a resource that tries to be more is refused, or stays a text in what is made of it.

Every text of every field that the schema has is put into that field. What is taken is rendered, and
compared with what a harmless resource renders to.
"""

import json
import re
from collections.abc import Iterator

import pytest
import yaml

from tests.hostile import injections
from tests.hostile.injections import MARK, TEXTS, Way
from tests.operator.resources import resource
from zonekeeper.operator.cluster import desired, owned_objects
from zonekeeper.operator.cluster.desired import Desired, RefusedResource
from zonekeeper.operator.kubernetes.api import DEPLOYMENTS, STATEFUL_SETS, Json

FIELDS = [(".".join(map(str, way)), way, spec) for way, spec in injections.fields()]
#: What stands in each of our pods whatever a resource says.
_FIXED = ("serviceAccountName", "automountServiceAccountToken", "securityContext", "hostNetwork")
_FIXED_IN_CONTAINER = ("name", "command", "args", "securityContext", "volumeMounts")
_OBJECT_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
#: Keys of maps that Kubernetes reads as labels, annotations, resources and the like.
_KEY = re.compile(r"([a-z0-9.-]+/)?[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")


def rendered(item: Json) -> list[tuple[str, Json]]:
    found = desired.read(item)
    assert isinstance(found, Desired), found
    made = owned_objects.all_of(found, item, "instance")
    return [(kind.plural, json.loads(json.dumps(body))) for kind, body in made]


def pods(objects: list[tuple[str, Json]]) -> Iterator[Json]:
    for kind, body in objects:
        if kind in (STATEFUL_SETS.plural, DEPLOYMENTS.plural):
            yield body["spec"]["template"]["spec"]


def texts(value: object, above: str = "") -> Iterator[tuple[str, str]]:
    """Give each text with the name that it stands under, and each name as a text of its own."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield "key", name
            yield from texts(inner, name)
    elif isinstance(value, list):
        for inner in value:
            yield from texts(inner, above)
    elif isinstance(value, str):
        yield above, value


def assert_inert(text: str, objects: list[tuple[str, Json]], harmless: list[Json]) -> None:
    """Assert that a text is a value and nothing else in all that was made."""
    for kind, body in objects:
        assert yaml.safe_load(yaml.safe_dump(body)) == body, "it is data in YAML, too"
        assert _OBJECT_NAME.fullmatch(body["metadata"]["name"]), (kind, body["metadata"]["name"])
        assert body["metadata"]["namespace"] == resource()["metadata"]["namespace"]
        for under, found in texts(body):
            if under == "key" and MARK in found:
                assert _KEY.fullmatch(found), f"{kind}: the key {found!r}"
            elif MARK in found:
                assert found == text or text in TEXTS["plain"], f"{kind}: {under} is {found!r}"
    for pod, plain in zip(pods(objects), harmless, strict=True):
        for name in _FIXED:
            assert pod.get(name) == plain.get(name), name
        assert not any("hostPath" in volume for volume in pod.get("volumes", []))
        (container,) = pod["containers"]
        (like,) = plain["containers"]
        for name in _FIXED_IN_CONTAINER:
            assert container.get(name) == like.get(name), name
        assert MARK not in json.dumps([container["command"], container.get("args")])
        ours = [one for one in container["env"] if one["name"].startswith("ZONEKEEPER_")]
        assert not [one for one in ours if "$(" in one.get("value", "")], "nothing is filled in"
        names = [one["name"] for one in container["env"]]
        assert len(names) == len(set(names)), "no variable is set twice"


@pytest.mark.parametrize(("name", "way", "spec"), FIELDS, ids=[name for name, *_ in FIELDS])
def test_no_text_is_more_than_a_text(name: str, way: Way, spec: Json) -> None:
    harmless = list(pods(rendered(resource())))
    for text in TEXTS.values():
        item = injections.with_text(way, spec, text)
        found = desired.read(item)
        if isinstance(found, RefusedResource):
            told = "\n".join(found.reasons)
            assert len(told) < 32_000, "a refusal is no flood"
            assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", told), "a refusal moves no terminal"
            continue
        assert_inert(text, rendered(item), harmless)


def test_every_kind_of_field_is_tried_and_some_texts_are_taken() -> None:
    ways = [name for name, *_ in FIELDS]
    assert len(ways) > 120
    for wanted in (
        "image",
        "metadata.uri",
        "zones.0.name",
        "config.*",
        "env.0.value",
        "podLabels.a",
    ):
        assert any(one == wanted or one.startswith(wanted) for one in ways), (wanted, ways)
    taken = [
        name
        for name, way, spec in FIELDS
        if isinstance(desired.read(injections.with_text(way, spec, TEXTS["plain"])), Desired)
    ]
    assert len(taken) > 15, taken
