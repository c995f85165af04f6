"""The admission webhook on a real API server: what placement refuses is not stored any more.

The webhook is that of a second installation, which stands by: it answers all the same. It runs
beside the lab's nodes, because nothing in the lab forwards a Service, and the API server reaches it
by its address. The rest of its configuration is the chart's.
"""

import base64
import json
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster import namespaces
from tests.cluster.installation import CHART, Clusters
from tests.cluster.lab import Lab
from tests.cluster.processes import Process, until
from tests.support.certificates import Authority
from zonekeeper.operator.admission import serving

pytestmark = [pytest.mark.cluster, pytest.mark.needs_lab]

#: Nothing else in the lab's network has it.
PORT = 19_443
ILLEGAL: dict[str, Any] = {"policy": {"quorums": {"ensemble": 3, "write": 2}}}


@pytest.fixture
def webhook(operator: Lab, tmp_path: Path) -> Iterator[Process]:
    """An operator that stands by and answers admission reviews, and the API server asks it."""
    address, folder = namespaces.HOST_ADDRESS, tmp_path / "secret"
    authority = Authority(tmp_path / "pki")
    pair = authority.sign("webhook", name="webhook", hosts=(address,))
    folder.mkdir()
    shutil.copy(pair.certificate, folder / "tls.crt")
    shutil.copy(pair.key, folder / "tls.key")
    process = Process(
        "webhook",
        [
            *(Path(sys.executable).parent / "zonekeeper", "operator", "run"),
            *("--installation", "another", "--name", "beside"),
            *("--http", f"{address}:0", "--webhook", f"{address}:{PORT}"),
            *("--webhook-certificate", str(folder)),
        ],
        log=tmp_path / "webhook.log",
        env={"KUBECONFIG": str(operator.kubeconfig)},
    )
    bundle = base64.b64encode(authority.pair.certificate.read_bytes()).decode()
    asked = configuration(operator, bundle)
    for each in asked["webhooks"]:
        each["clientConfig"] = {
            "url": f"https://{address}:{PORT}{serving.PATH}",
            "caBundle": bundle,
        }
    try:
        process.until(lambda: "certificate was read" in process.log.read_text(), what="the webhook")
        operator.kubectl("apply", "-f", "-", stdin=json.dumps(asked))
        yield process
    finally:
        name = asked["metadata"]["name"]
        operator.kubectl("delete", asked["kind"], name, "--ignore-not-found")
        process.stop()


def configuration(lab: Lab, bundle: str) -> dict[str, Any]:
    """Give what the chart renders for the API server."""
    values = f"webhook.enabled=true,webhook.secretName=serving,webhook.caBundle={bundle}"
    text = lab.helm("template", "another", str(CHART), "--set", values)
    (found,) = (
        item
        for item in yaml.safe_load_all(text)
        if item and item["kind"] == "ValidatingWebhookConfiguration"
    )
    return dict(found)


def is_refused(clusters: Clusters, name: str, **spec: Any) -> str:
    """Give the words of a refusal; "": it was stored."""
    try:
        clusters.apply(name, **spec)
    except OSError as error:
        return str(error)
    return ""


def test_what_placement_refuses_is_not_stored_and_without_the_webhook_it_is_and_is_told(
    new_clusters: Callable[[], Clusters], webhook: Process
) -> None:
    clusters = new_clusters()
    # The API server takes a new configuration up a moment later.
    until(lambda: is_refused(clusters, "bad", **ILLEGAL), what="the webhook is asked")
    if clusters.get("bad"):
        clusters.delete("bad")
    words = is_refused(clusters, "bad", **ILLEGAL)
    assert "bookieclusters.zonekeeper.io" in words
    assert "spec.policy" in words
    assert clusters.get("bad") == {}

    clusters.apply("good", bookiesPerZone=1, autoReplication={"perZone": 0})
    clusters.wait_for_ready("good")
    cannot = is_refused(clusters, "good", bookiesPerZone=1, image="zonekeeper:0.1.0", **ILLEGAL)
    assert "spec.policy" in cannot
    assert clusters.condition("good", "Legal")["status"] == "True"
    with pytest.raises(OSError, match=r"cannot be deleted while there are clusters"):
        clusters.lab.kubectl("delete", "crd", "bookieclusters.zonekeeper.io", "--dry-run=server")
    clusters.delete("good")

    webhook.stop()
    clusters.apply("bad", **ILLEGAL)
    told = clusters.wait("bad", "Legal", "False", "Refused")["message"]
    for line in told.splitlines():
        assert line in words
