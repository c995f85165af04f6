"""The pod of a probe: where it runs, what it shows, and what chooses it."""

import pytest

from tests.operator.resources import NAME, URI, resource
from zonekeeper.operator.cluster import desired
from zonekeeper.operator.cluster.desired import Desired
from zonekeeper.operator.kubernetes.api import CLIENT_LABEL, CLUSTER_LABEL, PROBES_LABEL, Json
from zonekeeper.operator.sight import probe_pod
from zonekeeper.placement.base.ids import ZoneName

ACCESS = {"bookies": "zk-bookies", "autorecovery": "zk-repair", "operator": "zk-operator"}
TLS = {"mode": "Operator"}


def read(**spec: object) -> Desired:
    found = desired.read(resource(**spec))
    assert isinstance(found, Desired), found
    return found


def made(zone: str = "a", secret: str | None = None, **spec: object) -> Json:
    name = probe_pod.name_of(NAME, "t")
    return probe_pod.made(read(**spec), resource(**spec), ZoneName(zone), name, secret)


def secrets(pod: Json) -> list[str]:
    return [one["secret"]["secretName"] for one in pod["spec"].get("volumes", ())]


@pytest.mark.parametrize("zone", ["a", "b", "c"])
def test_it_runs_in_another_zone_than_the_one_that_goes_away(zone: str) -> None:
    pod = made(zone)

    assert pod["spec"]["nodeSelector"] != {"topology.kubernetes.io/zone": zone}
    (container,) = pod["spec"]["containers"]
    assert container["command"][-2:] == ["--away", zone]
    own = {one["name"]: one.get("value") for one in container["env"]}["ZONEKEEPER_ZONE"]
    assert own != zone


def test_no_budget_and_no_service_chooses_it_and_bookies_let_it_in() -> None:
    pod = made()

    assert CLUSTER_LABEL not in pod["metadata"]["labels"]
    assert pod["metadata"]["labels"][CLIENT_LABEL] == NAME
    assert pod["metadata"]["labels"][PROBES_LABEL] == NAME
    assert pod["spec"]["restartPolicy"] == "Never"
    assert pod["spec"]["automountServiceAccountToken"] is False


def test_another_drill_has_another_pod() -> None:
    assert probe_pod.name_of(NAME, "t") != probe_pod.name_of(NAME, "u")


def test_it_shows_what_a_client_shows() -> None:
    assert secrets(made()) == []
    assert secrets(made(tls=TLS | {"clients": ["drill"]})) == ["log-client-drill-tls"]
    assert secrets(made(tls=TLS | {"clients": ["drill"]}, secret="mine")) == ["mine"]
    metadata = {"uri": URI, "credentials": ACCESS}
    assert secrets(made(metadata=metadata, secret="mine")) == ["mine"]
    assert secrets(made(metadata=metadata, tls=TLS, secret="mine")) == ["mine", "mine"]


def test_what_it_lacks_is_said_before_anything_begins() -> None:
    metadata = {"uri": URI, "credentials": ACCESS}

    assert probe_pod.lacks(read(), None) is None
    assert "add drill to spec.tls.clients" in str(probe_pod.lacks(read(tls=TLS), None))
    assert probe_pod.lacks(read(tls=TLS), "mine") is None
    assert probe_pod.lacks(read(tls=TLS | {"clients": ["drill"]}), None) is None
    assert "to the metadata store" in str(probe_pod.lacks(read(metadata=metadata), None))
    assert probe_pod.lacks(read(metadata=metadata), "mine") is None
