"""The chart renders what the manifests say, and refuses values that it does not know."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.cluster.installation import CHART, CHECKOUT, SYSTEM
from tests.cluster.kubelet.api import Json
from tests.cluster.lab import Lab

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
    shipped: list[Path] = sorted((CHECKOUT / "manifests").glob("*.yaml"))
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


def test_a_misspelled_value_is_refused(operator: Lab) -> None:
    with pytest.raises(OSError, match="imagee"):
        template(operator, "--set", "imagee.tag=1")
