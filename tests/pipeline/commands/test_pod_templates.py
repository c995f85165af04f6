"""The templates of Spark's pods: what they promise of security, zones and secrets."""

import re
from typing import Final

import pytest
import yaml

from tests.cluster.spark_jobs import granted, manifest
from tests.support.checkout_root import ROOT
from zonekeeper.client.base import config
from zonekeeper.client.base.config import ClientConfig
from zonekeeper.operator.cluster import tls_parts
from zonekeeper.operator.kubernetes.api import CLIENT_LABEL, Json

ZONE_LABEL: Final = "metadata.labels['topology.kubernetes.io/zone']"
MOUNTED_AT: Final = "/etc/zonekeeper/tls"
NAMES: Final = ("driver", "executor")


def template(name: str) -> Json:
    found: Json = yaml.safe_load((ROOT / "manifests" / "spark" / f"{name}.yaml").read_text("utf-8"))
    return found


@pytest.mark.parametrize("name", NAMES)
def test_a_pod_keeps_to_the_strictest_security_standard(name: str) -> None:
    spec = template(name)["spec"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    (container,) = spec["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }
    assert "image" not in container, "spark-submit says it"


@pytest.mark.parametrize("name", NAMES)
def test_a_pod_knows_its_zone_by_its_own_label(name: str) -> None:
    (container,) = template(name)["spec"]["containers"]
    (variable,) = container["env"]
    assert variable["name"] == config.ZONE_VARIABLE
    assert variable["valueFrom"] == {"fieldRef": {"fieldPath": ZONE_LABEL}}


def test_a_zone_that_kubernetes_does_not_know_is_no_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before 1.35 a pod has no label of its zone: the variable is there, and empty."""
    monkeypatch.setenv(config.ZONE_VARIABLE, "")
    assert config.own_zone(ClientConfig()) is None


@pytest.mark.parametrize("name", NAMES)
def test_secrets_are_files_that_the_pods_user_reads(name: str) -> None:
    spec = template(name)["spec"]
    (container,) = spec["containers"]
    (volume,) = spec["volumes"]
    (mount,) = container["volumeMounts"]
    assert mount == {"name": volume["name"], "mountPath": MOUNTED_AT, "readOnly": True}
    assert volume["secret"] == {
        "secretName": tls_parts.client_name("log", "spark"),
        "defaultMode": 0o440,
        "optional": True,
    }
    assert spec["securityContext"]["fsGroup"] == spec["securityContext"]["runAsGroup"]


@pytest.mark.parametrize("name", NAMES)
def test_the_cluster_s_policies_let_a_pod_reach_its_bookies(name: str) -> None:
    assert template(name)["metadata"]["labels"] == {CLIENT_LABEL: "log"}


def test_executors_ask_the_api_server_nothing_and_stand_in_all_zones() -> None:
    spec = template("executor")["spec"]
    assert spec["automountServiceAccountToken"] is False
    assert "automountServiceAccountToken" not in template("driver")["spec"]
    (spread,) = spec["topologySpreadConstraints"]
    assert spread["topologyKey"] == "topology.kubernetes.io/zone"
    assert spread["labelSelector"] == {"matchLabels": {"spark-role": "executor"}}
    assert spread["matchLabelKeys"] == ["spark-app-selector"], "of one application alone"
    assert spread["nodeTaintsPolicy"] == "Honor", "a lost zone would hold up all others"
    assert {
        one["key"].rsplit("/", 1)[1]: one["tolerationSeconds"] for one in spec["tolerations"]
    } == {
        "unreachable": 15,
        "not-ready": 15,
    }


def test_the_page_shows_the_rights_that_ship() -> None:
    page = (ROOT / "docs" / "pipeline-kubernetes.md").read_text("utf-8")
    for role in ("spark-driver", "spark-submit"):
        rows = re.findall(rf"^\| `{role}` \| (\S.*) \| (\w.*) \|$", page, re.M)
        shown = {
            (resource.strip("`"), verb)
            for resources, verbs in rows
            for resource in resources.split(", ")
            for verb in verbs.split(", ")
        }
        assert shown == {(right.resource, right.verb) for right in granted(role)}


def test_no_right_reaches_beyond_the_namespace_or_to_a_secret() -> None:
    kinds = {one["kind"] for one in manifest("rbac.yaml")}
    assert kinds == {"ServiceAccount", "Role", "RoleBinding"}
    for role in ("spark-driver", "spark-submit"):
        rights = granted(role)
        assert not {"*", "secrets"} & {right.resource for right in rights}
        assert "*" not in {right.verb for right in rights}
