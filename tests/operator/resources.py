"""Resources for tests of the operator, and what is said of them in few words."""

import datetime
import json
import zlib
from collections.abc import Mapping, Sequence

from zonekeeper.operator.cluster import kept_spec
from zonekeeper.operator.cluster.kept_spec import KeptSpec
from zonekeeper.operator.kubernetes.api import (
    BOOKIE_CLUSTERS,
    BUDGETS,
    CLAIMS,
    CONTROLLER_REVISIONS,
    DEPLOYMENTS,
    PODS,
    SECRETS,
    STATEFUL_SETS,
    Json,
)
from zonekeeper.operator.plan.plans import Action
from zonekeeper.operator.run.reconciling import Key

SPACE, NAME = "logs", "log"
KEY = Key(SPACE, NAME)
URI = "zk://zookeeper:2181/logs/ledgers"
NOW = "2026-01-02T03:04:05Z"

#: The kinds by which a world has changed or not.
PICTURED = (
    *(BOOKIE_CLUSTERS, CONTROLLER_REVISIONS, STATEFUL_SETS, DEPLOYMENTS, BUDGETS),
    *(PODS, CLAIMS, SECRETS),
)

#: What Kubernetes says of a process that ends as soon as it is started.
CRASHED = {
    "containerStatuses": [
        {
            "name": "bookie",
            "restartCount": 4,
            "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": {"exitCode": 1, "message": "the disk has format 9"}},
        }
    ]
}


def resource(**spec: object) -> Json:
    """Give a resource that is legal, without TLS and policies; ``spec`` changes it."""
    return {
        "apiVersion": "zonekeeper.io/v1alpha1",
        "kind": "BookieCluster",
        "metadata": {
            "name": NAME,
            "namespace": SPACE,
            "uid": "uid-log",
            "generation": 1,
            "finalizers": [],
        },
        "spec": {
            "image": "zonekeeper:0.1.0",
            "metadata": {"uri": URI},
            "zones": [{"name": "a"}, {"name": "b"}, {"name": "c"}],
            "bookiesPerZone": 2,
            "storage": {"size": "1Gi"},
            "update": {"bake": "0s"},
            "tls": {"mode": "Plaintext"},
            "network": {"policies": False},
            **spec,
        },
    }


def kept(*items: Json) -> tuple[KeptSpec, ...]:
    """Give what is kept of resources that were legal one after another, the newest first."""
    made = [kept_spec.revision(item, number=number) for number, item in enumerate(items, 1)]
    marked = [one | {"metadata": one["metadata"] | {"uid": "uid-of-kept"}} for one in made]
    return kept_spec.read(marked, items[0])


def revision_of(item: Json) -> str:
    """Name the version of a StatefulSet's template: the same template has the same name again."""
    text = json.dumps(item["spec"]["template"], sort_keys=True)
    return f"{item['metadata']['name']}-{zlib.crc32(text.encode()):x}"


def is_of_a_set(pod: Json) -> bool:
    """Did a StatefulSet make this pod?"""
    return any(owner["kind"] == "StatefulSet" for owner in pod["metadata"]["ownerReferences"])


def clock() -> datetime.datetime:
    """Give wall time that stands still."""
    return datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)


def statuses(conditions: Mapping[str, tuple[str, str]]) -> set[str]:
    """Give the statuses of all conditions but ``Secure``: these resources are in plaintext."""
    assert conditions["Secure"] == ("False", "Plaintext")
    return {status for kind, (status, _) in conditions.items() if kind != "Secure"}


def kinds_of(actions: Sequence[Action]) -> list[str]:
    """Name actions by their types."""
    return [type(action).__name__ for action in actions]
