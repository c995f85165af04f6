"""The chart renders what the manifests say, and refuses values that it does not know."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.installation import CHART, SYSTEM
from tests.cluster.kubelet.api import Json
from tests.cluster.lab import Lab
from tests.support.checkout_root import ROOT

pytestmark = pytest.mark.cluster

HELM_LABELS = ("helm.sh/chart", "app.kubernetes.io/managed-by", "app.kubernetes.io/instance")


def without_helm_labels(item: object) -> object:
    if isinstance(item, dict):
        return {k: without_helm_labels(v) for k, v in item.items() if k not in HELM_LABELS}
    return [without_helm_labels(each) for each in item] if isinstance(item, list) else item


def documents(text: str) -> Iterator[tuple[str, object]]:
    for item in yaml.safe_load_all(text):
        if item is not None:
            yield f"{item['kind']}/{item['metadata']['name']}", without_helm_labels(item)


def template(lab: Lab, *arguments: str) -> str:
    return lab.helm("template", "zonekeeper", str(CHART), "--namespace", SYSTEM, *arguments)


def test_by_default_the_chart_is_the_manifests(operator: Lab) -> None:
    shipped: list[Path] = sorted((ROOT / "manifests").glob("*.yaml"))
    manifests = dict(pair for path in shipped for pair in documents(path.read_text()))
    manifests.pop(f"Namespace/{SYSTEM}")  # helm's user makes it, or helm itself

    assert dict(documents(template(operator))) == manifests


def test_in_named_namespaces_there_is_no_right_over_the_whole_cluster(operator: Lab) -> None:
    found = dict(documents(template(operator, "--set", "namespaces={one,two}")))

    assert sorted(name.split("/")[0] for name in found) == [
        *("Deployment", "Role", "RoleBinding", "ServiceAccount")
    ]
    rendered: list[Json] = list(
        yaml.safe_load_all(template(operator, "--set", "namespaces={one,two}"))
    )
    roles = [item["metadata"]["namespace"] for item in rendered if item["kind"] == "Role"]
    assert roles == ["one", "two"]


def test_names_that_look_like_numbers_stay_texts(operator: Lab) -> None:
    """YAML reads 123 and 1e3 as numbers, which Kubernetes refuses as names."""
    rendered: list[Json] = list(
        yaml.safe_load_all(
            operator.helm(
                *("template", "123", str(CHART), "--namespace", "1e3"),
                *("--set-string", "namespaces={456}"),
            )
        )
    )

    assert {item["metadata"]["labels"]["app.kubernetes.io/instance"] for item in rendered} == {
        "123"
    }
    assert {item["metadata"]["namespace"] for item in rendered} == {"1e3", "456"}
    bindings = [item for item in rendered if item["kind"] == "RoleBinding"]
    assert [item["subjects"][0]["namespace"] for item in bindings] == ["1e3"]


@pytest.mark.parametrize(
    ("image", "rendered"),
    [
        ({"repository": "host.example:5000/x/zonekeeper"}, "host.example:5000/x/zonekeeper:0.1.0"),
        ({"tag": "0.2.0"}, "zonekeeper:0.2.0"),
        ({"tag": "0.2.0", "digest": f"sha256:{'a' * 64}"}, f"zonekeeper@sha256:{'a' * 64}"),
    ],
)
def test_the_operators_image_can_be_named_and_pinned(
    operator: Lab, image: dict[str, str], rendered: str
) -> None:
    settings = [part for key, text in image.items() for part in ("--set", f"image.{key}={text}")]
    found: dict[str, Any] = dict(documents(template(operator, *settings)))

    pod = found["Deployment/zonekeeper-operator"]["spec"]["template"]["spec"]
    assert pod["containers"][0]["image"] == rendered


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("imagee.tag=1", "imagee"),
        (f"image.repository=zonekeeper@sha256:{'a' * 64}", "repository"),
        ("image.repository=x/zonekeeper:0.1.0", "repository"),
        ("image.digest=0.1.0", "digest"),
        ("image=null", "image"),
    ],
)
def test_a_value_that_cannot_be_is_refused_by_its_name(
    operator: Lab, value: str, words: str
) -> None:
    with pytest.raises(OSError, match="values don't meet the specifications of the schema") as told:
        template(operator, "--set", value)

    assert words in str(told.value)
