"""What the operator puts into a pod is what a bookie reads there, and is probed where it answers.

The pod's template is made as for a real cluster, its fields are filled in as Kubernetes does, and
the bookie's own settings and pages are asked. So neither side can be changed without the other.
"""

from pathlib import Path
from typing import Final

import click
import pytest

from tests.operator.worlds import resource
from zonekeeper.bookie.life import settings
from zonekeeper.bookie.life.life import Conditions
from zonekeeper.bookie.life.pages import PagesView
from zonekeeper.bookie.life.settings import BookieSettings
from zonekeeper.bookie.serving.measuring import Measures
from zonekeeper.metadata.stores.settings import METADATA
from zonekeeper.operator.cluster import desired, owned_objects
from zonekeeper.operator.kubernetes.api import SERVICES, STATEFUL_SETS, Json
from zonekeeper.placement.base import upgrade_domains
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.base.upgrade_domains import RoundRobin
from zonekeeper.shell.main import main
from zonekeeper.wire.formats.addresses import Address
from zonekeeper.wire.running import seam

INSTANCE: Final = "6f2ee3ee-52a8-4b5c-8f0e-4a3c8d5f0c11"
POD_IP: Final = "10.0.0.7"
ORDINAL: Final = 1

#: An operator and a bookie may be of different versions: this page of the past is never changed.
FOR_EVER: Final = {
    "METADATA": "ZONEKEEPER_METADATA",
    "BOOKIE_ID": "ZONEKEEPER_BOOKIE_ID",
    "ZONE": "ZONEKEEPER_ZONE",
    "UPGRADE_DOMAINS": "ZONEKEEPER_UPGRADE_DOMAINS",
    "DATA": "ZONEKEEPER_DATA",
    "LISTEN": "ZONEKEEPER_LISTEN",
    "ADVERTISE": "ZONEKEEPER_ADVERTISE",
    "HTTP": "ZONEKEEPER_HTTP",
    "COMMAND": ("zonekeeper", "bookie", "run"),
    "GRPC_PORT": 3181,
    "HTTP_PORT": 8080,
    "ALIVE_PATH": "/healthz",
    "READY_PATH": "/readyz",
    "METRICS_PATH": "/metrics",
    "STATE_PATH": "/state",
}


@pytest.fixture
def wanted() -> desired.Desired:
    found = desired.read(resource())
    assert isinstance(found, desired.Desired)
    return found


@pytest.fixture
def objects(wanted: desired.Desired) -> list[tuple[object, Json]]:
    return [(kind, body) for kind, body in owned_objects.all_of(wanted, resource(), INSTANCE)]


@pytest.fixture
def sets(objects: list[tuple[object, Json]]) -> list[Json]:
    return [body for kind, body in objects if kind == STATEFUL_SETS]


def container(stateful_set: Json) -> Json:
    found: list[Json] = stateful_set["spec"]["template"]["spec"]["containers"]
    (only,) = found
    return only


def environment(stateful_set: Json) -> dict[str, str]:
    """Give a pod's environment as Kubernetes makes it of the template."""
    pod = f"{stateful_set['metadata']['name']}-{ORDINAL}"
    fields = {"metadata.name": pod, "status.podIP": POD_IP}
    return {
        one["name"]: one["value"]
        if "value" in one
        else fields[one["valueFrom"]["fieldRef"]["fieldPath"]]
        for one in container(stateful_set)["env"]
    }


def told(stateful_set: Json) -> BookieSettings:
    """Give what the bookie in the pod takes from its environment alone."""
    return settings.parse({}, environment(stateful_set))


def test_the_bookie_is_told_all_that_the_operator_says(
    wanted: desired.Desired, sets: list[Json]
) -> None:
    assert len(sets) == len(wanted.zones)
    for zone, each in zip(wanted.zones, sets, strict=True):
        found = told(each)
        count = wanted.policy.placement.upgrade_domains
        domain = upgrade_domains.of_ordinal(ORDINAL, RoundRobin(upgrade_domains=count))
        assert found.metadata == wanted.metadata_uri
        assert found.bookie_id == f"{owned_objects.set_name(wanted.name, zone.name)}-{ORDINAL}"
        assert found.location == Location(zone.name, domain)
        assert found.data == Path(owned_objects.DATA_FOLDER)
        assert found.advertise == POD_IP


def test_every_variable_of_the_pod_is_a_setting_of_the_bookie(sets: list[Json]) -> None:
    known = {setting.environment for setting in settings.SETTINGS}
    for each in sets:
        assert environment(each).keys() <= known


def test_the_data_is_where_the_volume_is(sets: list[Json]) -> None:
    for each in sets:
        (mount,) = container(each)["volumeMounts"]
        assert told(each).data == Path(mount["mountPath"])


def test_the_bookie_listens_at_the_ports_that_are_told_to_others(
    objects: list[tuple[object, Json]], sets: list[Json]
) -> None:
    (service,) = (body for kind, body in objects if kind == SERVICES)
    for each in sets:
        ports = {one["name"]: one["containerPort"] for one in container(each)["ports"]}
        found = told(each)
        assert found.listen == Address("0.0.0.0", ports["grpc"])
        assert found.http == Address("0.0.0.0", ports["http"])
        asked = {one["targetPort"]: one["port"] for one in service["spec"]["ports"]}
        assert asked == ports


def test_a_bookie_that_is_told_no_ports_takes_those_of_the_pods(sets: list[Json]) -> None:
    for each in sets:
        fewer = environment(each)
        told_by_operator = told(each)
        del fewer["ZONEKEEPER_LISTEN"], fewer["ZONEKEEPER_HTTP"]
        by_itself = settings.parse({}, fewer)
        assert (by_itself.listen, by_itself.http) == (
            told_by_operator.listen,
            told_by_operator.http,
        )


@pytest.mark.parametrize(
    ("probe", "answers"), [("livenessProbe", "alive\n"), ("readinessProbe", "ready\n")]
)
def test_probes_ask_for_pages_that_the_bookie_has(
    sets: list[Json], probe: str, answers: str
) -> None:
    pages = PagesView("bk", "1", Conditions(), Measures()).pages()
    for each in sets:
        asked = container(each)[probe]["httpGet"]
        ports = {one["name"]: one["containerPort"] for one in container(each)["ports"]}
        assert ports[asked["port"]] == told(each).http.port
        assert pages[asked["path"]]().text == answers


def test_the_pod_runs_a_command_that_there_is(sets: list[Json]) -> None:
    for each in sets:
        program, *words = container(each)["command"]
        assert program == main.name
        command: click.Command = main
        for word in words:
            assert isinstance(command, click.Group)
            inner = command.get_command(click.Context(command), word)
            assert inner is not None, word
            command = inner
        flags = {name.removeprefix("--") for one in command.params for name in one.opts}
        assert flags >= {setting.name for setting in settings.SETTINGS}


def test_what_stands_on_the_seam_stands_there_for_ever() -> None:
    names = {name for name in vars(seam) if name.isupper()}

    assert {name: getattr(seam, name) for name in names} == FOR_EVER
    assert METADATA.environment == seam.METADATA
