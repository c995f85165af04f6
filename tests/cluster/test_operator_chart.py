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
from zonekeeper.operator.admission import serving
from zonekeeper.operator.definition import crd
from zonekeeper.operator.kubernetes.api import CLUSTER_LABEL, REPAIRS_LABEL
from zonekeeper.operator.run import reviewing, settings
from zonekeeper.shell.monitoring import shipped

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


#: Without the definition, which is compared by itself, and without the pod of `helm test`.
BARE = ("--skip-tests", "--set", "definitions=false")


def bare(lab: Lab, *arguments: str) -> str:
    return template(lab, *BARE, *arguments)


def operators_pod(text: str) -> Json:
    """Give the spec of the operator's pods."""
    found: dict[str, Any] = dict(documents(text))
    pod: Json = found["Deployment/zonekeeper-operator"]["spec"]["template"]["spec"]
    return pod


def test_by_default_the_chart_is_the_manifests(operator: Lab) -> None:
    shipped: list[Path] = sorted((ROOT / "manifests" / "operator").glob("*.yaml"))
    manifests = dict(pair for path in shipped for pair in documents(path.read_text()))
    manifests.pop(f"Namespace/{SYSTEM}")  # helm's user makes it, or helm itself

    assert dict(documents(bare(operator))) == manifests


def test_the_definition_is_of_the_release_and_is_kept_by_an_uninstall(operator: Lab) -> None:
    whole = yaml.safe_load_all(template(operator, "--skip-tests"))
    (definition,) = (item for item in whole if item and item["kind"] == "CustomResourceDefinition")
    shipped = yaml.safe_load((ROOT / "manifests" / "crds" / "bookieclusters.yaml").read_text())

    assert definition["metadata"].pop("annotations") == {"helm.sh/resource-policy": "keep"}
    assert definition["metadata"].pop("labels")["app.kubernetes.io/managed-by"] == "Helm"
    assert definition == shipped
    assert not (CHART / "crds").exists(), "helm would never upgrade what stands there"


def test_in_named_namespaces_there_is_no_right_over_the_whole_cluster(operator: Lab) -> None:
    found = dict(documents(bare(operator, "--set", "namespaces={one,two}")))

    assert sorted(name.split("/")[0] for name in found) == [
        *("Deployment", "NetworkPolicy", "PodDisruptionBudget"),
        *("Role", "RoleBinding", "ServiceAccount"),
    ]
    whole = yaml.safe_load_all(bare(operator, "--set", "namespaces={one,two}"))
    roles = [item["metadata"]["namespace"] for item in whole if item and item["kind"] == "Role"]
    assert roles == ["one", "two"]


def test_names_that_look_like_numbers_stay_texts(operator: Lab) -> None:
    """YAML reads 123 and 1e3 as numbers, which Kubernetes refuses as names."""
    rendered: list[Json] = list(
        yaml.safe_load_all(
            operator.helm(
                *("template", "123", str(CHART), "--namespace", "1e3"),
                *("--set-string", "namespaces={456}", *BARE),
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
    pod = operators_pod(template(operator, *settings))

    assert pod["containers"][0]["image"] == rendered


def test_pods_are_pulled_placed_and_ranked_as_asked_for(operator: Lab, tmp_path: Path) -> None:
    asked = {
        "imagePullSecrets": [{"name": "pull"}],
        "nodeSelector": {"disk": "fast"},
        "tolerations": [{"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"}],
        "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
        "priorityClassName": "system-cluster-critical",
    }
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(asked))
    text = template(operator, "-f", str(tmp_path / "values.yaml"))
    pod = operators_pod(text)
    tested = next(item for item in yaml.safe_load_all(text) if item and item["kind"] == "Pod")

    for name in ("imagePullSecrets", "nodeSelector", "affinity", "priorityClassName"):
        assert pod[name] == asked[name]
    lost_nodes = [one["key"] for one in pod["tolerations"][:-1]]
    assert lost_nodes == ["node.kubernetes.io/unreachable", "node.kubernetes.io/not-ready"]
    assert pod["tolerations"][-1:] == asked["tolerations"] == tested["spec"]["tolerations"]
    assert tested["spec"]["imagePullSecrets"] == asked["imagePullSecrets"]


def test_the_platform_may_choose_the_user(operator: Lab) -> None:
    chosen = operators_pod(template(operator, "--set", "user=null"))
    ours = operators_pod(template(operator, "--set", "user=70000"))

    assert chosen["securityContext"] == {
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert (ours["securityContext"]["runAsUser"], ours["securityContext"]["runAsGroup"]) == (
        *(70_000, 70_000),
    )


WEBHOOK = "webhook.enabled=true,webhook.secretName=serving"


def test_by_default_there_is_no_webhook(operator: Lab) -> None:
    text = template(operator)

    assert "Webhook" not in text
    assert "webhook" not in text


def test_the_webhook_is_asked_of_every_replica_and_never_keeps_an_edit_waiting(
    operator: Lab,
) -> None:
    text = template(operator, "--set", f"{WEBHOOK},webhook.caBundle=Zm9v")
    items: list[Json] = [item for item in yaml.safe_load_all(text) if item]
    (service,) = (item for item in items if item["kind"] == "Service")
    (asked,) = (item for item in items if item["kind"] == "ValidatingWebhookConfiguration")
    pods = operators_template(text)
    one, of_definition = asked["webhooks"]
    (container,) = pods["spec"]["containers"]

    for each in (one, of_definition):
        assert each["failurePolicy"] == "Ignore"
        assert each["sideEffects"] == "None"
        assert each["clientConfig"]["caBundle"] == "Zm9v"
        called = each["clientConfig"]["service"]
        meta = service["metadata"]
        assert (called["namespace"], called["name"]) == (meta["namespace"], meta["name"])
        assert called["path"] == serving.PATH
        assert each["timeoutSeconds"] > reviewing.LOOK_SECONDS_MAX
    assert of_definition["rules"][0]["operations"] == ["DELETE"]
    (only,) = of_definition["matchConditions"]
    assert f'"{crd.definition()["metadata"]["name"]}"' in only["expression"]
    (rule,) = one["rules"]
    assert (rule["apiGroups"], rule["resources"]) == (["zonekeeper.io"], ["bookieclusters"])
    assert sorted(rule["operations"]) == ["CREATE", "UPDATE"], "nothing keeps one from its removal"
    assert "namespaceSelector" not in one
    (port,) = service["spec"]["ports"]
    assert port["port"] == one["clientConfig"]["service"]["port"]
    assert service["spec"]["selector"].items() <= pods["metadata"]["labels"].items()
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    said = {each["name"]: each.get("value") for each in container["env"]}
    parsed = settings.parse({"name": "x"}, {k: v for k, v in said.items() if v is not None})
    assert parsed.webhook is not None
    assert parsed.webhook.port == ports[port["targetPort"]]
    (mount,) = container["volumeMounts"]
    assert mount["mountPath"] == str(parsed.webhook_certificate)
    (volume,) = pods["spec"]["volumes"]
    assert volume == {"name": mount["name"], "secret": {"secretName": "serving", "optional": True}}


def test_an_authority_is_filled_in_by_annotations_and_served_namespaces_are_chosen(
    operator: Lab, tmp_path: Path
) -> None:
    asked: Json = {
        "namespaces": ["one", "two"],
        "webhook": {
            "enabled": True,
            "secretName": "serving",
            "annotations": {"cert-manager.io/inject-ca-from": "x/serving"},
            "serviceAnnotations": {"service.beta.openshift.io/serving-cert-secret-name": "serving"},
        },
    }
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(asked))
    text = template(operator, "-f", str(tmp_path / "values.yaml"))
    found = {item["kind"]: item for item in yaml.safe_load_all(text) if item}

    configured = found["ValidatingWebhookConfiguration"]
    one, of_definition = configured["webhooks"]
    assert configured["metadata"]["annotations"] == asked["webhook"]["annotations"]
    assert all("caBundle" not in each["clientConfig"] for each in (one, of_definition))
    assert "namespaceSelector" not in of_definition, "a definition is of no namespace"
    (chosen,) = one["namespaceSelector"]["matchExpressions"]
    assert chosen["key"] == "kubernetes.io/metadata.name"
    assert chosen["values"] == ["one", "two"]
    assert found["Service"]["metadata"]["annotations"] == asked["webhook"]["serviceAnnotations"]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ("webhook.enabled=true,webhook.caBundle=Zm9v", "webhook.secretName: is required"),
        (WEBHOOK, "webhook.caBundle: is required"),
        (f"{WEBHOOK},webhook.caBundle=-----BEGIN", "caBundle"),
        ("webhook.enabledd=true", "enabledd"),
    ],
)
def test_a_webhook_that_could_not_be_asked_is_refused(
    operator: Lab, values: str, words: str
) -> None:
    with pytest.raises(OSError, match="helm") as told:
        template(operator, "--set", values)

    assert words in str(told.value)


def test_the_test_s_pod_keeps_to_the_restricted_standard(operator: Lab) -> None:
    whole = yaml.safe_load_all(template(operator))
    tested = next(item for item in whole if item and item["kind"] == "Pod")
    ours = operators_pod(template(operator))

    assert tested["metadata"]["annotations"]["helm.sh/hook"] == "test"
    assert tested["spec"]["securityContext"] == ours["securityContext"]
    (one,), (other,) = tested["spec"]["containers"], ours["containers"]
    assert one["securityContext"] == other["securityContext"]
    assert one["image"] == other["image"]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("imagee.tag=1", "imagee"),
        (f"image.repository=zonekeeper@sha256:{'a' * 64}", "repository"),
        ("image.repository=x/zonekeeper:0.1.0", "repository"),
        ("image.digest=0.1.0", "digest"),
        ("image=null", "image"),
        ("replicas=0", "replicas"),
        ("replicas=null", "replicas"),
        ("user=0", "user"),
        ("leaseNamespace=Upper", "leaseNamespace"),
        ("nodeSelector.disk=1", "nodeSelector"),
        ("tolerations[0].effect=NoWay", "tolerations"),
        ("tolerations[0].keyy=x", "keyy"),
        ("affinity.nodeAfinity.x=1", "nodeAfinity"),
        ("imagePullSecrets[0]=pull", "imagePullSecrets"),
        ("resources.limit.memory=1Gi", "limit"),
        ("priorityClassName=UPPER", "priorityClassName"),
        ("definitions=maybe", "definitions"),
    ],
)
def test_a_value_that_cannot_be_is_refused_by_its_name(
    operator: Lab, value: str, words: str
) -> None:
    with pytest.raises(OSError, match="values don't meet the specifications of the schema") as told:
        template(operator, "--set", value)

    assert words in str(told.value)


def test_monitoring_is_rendered_where_it_is_asked_for(operator: Lab) -> None:
    asked = "monitoring.dashboard=true,monitoring.rules=true,monitoring.podMonitor=true"
    rendered = template(operator, "--set", f"{asked},monitoring.labels.release=prometheus")
    items: list[Json] = [item for item in yaml.safe_load_all(rendered) if item is not None]
    of_kind = {item["kind"]: item for item in items}

    assert of_kind["ConfigMap"]["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert of_kind["ConfigMap"]["data"]["zonekeeper.json"] + "\n" == shipped.dashboard()
    assert of_kind["PrometheusRule"]["spec"] == yaml.safe_load(shipped.rules())
    assert of_kind["PrometheusRule"]["metadata"]["labels"]["release"] == "prometheus"
    monitors = [item["spec"] for item in items if item["kind"] == "PodMonitor"]
    chosen = [
        one["selector"]["matchExpressions"][0]["key"]
        for one in monitors
        if "matchExpressions" in one["selector"]
    ]
    assert sorted(chosen) == sorted([REPAIRS_LABEL, CLUSTER_LABEL])
    (of_operator,) = (one for one in monitors if "matchLabels" in one["selector"])
    pods = operators_template(rendered)["metadata"]["labels"]
    assert of_operator["selector"]["matchLabels"].items() <= pods.items()
    assert of_operator["namespaceSelector"] == {"matchNames": [SYSTEM]}
    assert "scheme" not in str(monitors)

    secured = template(operator, "--set", f"{asked},monitoring.certificate=looks")
    found = [item for item in yaml.safe_load_all(secured) if item is not None]
    monitors = [item["spec"] for item in found if item["kind"] == "PodMonitor"]
    asks = [
        one["podMetricsEndpoints"][0] for one in monitors if "matchExpressions" in one["selector"]
    ]
    assert len(asks) == 2
    for one in asks:
        assert one["scheme"] == "https"
        assert one["tlsConfig"] == {
            "cert": {"secret": {"name": "looks", "key": "tls.crt"}},
            "keySecret": {"name": "looks", "key": "tls.key"},
            "insecureSkipVerify": True,
        }
    (of_operator,) = (one for one in monitors if "matchLabels" in one["selector"])
    assert of_operator["podMetricsEndpoints"] == [{"port": "http", "path": "/metrics"}]


def operators_template(text: str) -> Json:
    """Give the template of the operator's pods, as it was rendered."""
    whole = yaml.safe_load_all(text)
    deployment = next(item for item in whole if item and item["kind"] == "Deployment")
    found: Json = deployment["spec"]["template"]
    return found
