"""What the operator puts into a pod is what the process reads there, and is asked where it answers.

The pod's template is made as for a real cluster, its fields are filled in as Kubernetes does, and
the process's own settings and pages are asked. So neither side can be changed without the other.
"""

from pathlib import Path
from typing import Final

import click
import pytest

from tests.operator.resources import resource
from zonekeeper.bookie.life import settings
from zonekeeper.bookie.life.life import Conditions
from zonekeeper.bookie.life.pages import PagesView
from zonekeeper.bookie.life.settings import BookieSettings
from zonekeeper.bookie.segments import arrivals
from zonekeeper.bookie.serving.measuring import Measures
from zonekeeper.metadata.stores.settings import METADATA
from zonekeeper.operator.cluster import desired, owned_objects
from zonekeeper.operator.kubernetes.api import (
    BUDGETS,
    DEPLOYMENTS,
    SERVICES,
    STATEFUL_SETS,
    Json,
)
from zonekeeper.operator.shapes import volumes
from zonekeeper.placement.base import fields, upgrade_domains
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.base.settings import GivenSettings, Setting, variable_of
from zonekeeper.placement.base.upgrade_domains import RoundRobin
from zonekeeper.replication.run import settings as repair_settings
from zonekeeper.shell.main import main
from zonekeeper.wire.formats import addresses
from zonekeeper.wire.formats.addresses import Address
from zonekeeper.wire.running import bookie_config, seam
from zonekeeper.wire.running.logs import LogLevel

INSTANCE: Final = "6f2ee3ee-52a8-4b5c-8f0e-4a3c8d5f0c11"
POD_IP: Final = "10.0.0.7"
#: Not the default, and an ordinal whose upgrade domain would be another under the default.
DOMAINS: Final = 5
ORDINAL: Final = 4

RESOURCE: Final = resource(policy={"placement": {"upgradeDomains": DOMAINS}})

#: An operator and a bookie may be of different versions: this page of the past is never changed.
FOR_EVER: Final = {
    "METADATA": "ZONEKEEPER_METADATA",
    "BOOKIE_ID": "ZONEKEEPER_BOOKIE_ID",
    "ZONE": "ZONEKEEPER_ZONE",
    "UPGRADE_DOMAINS": "ZONEKEEPER_UPGRADE_DOMAINS",
    "DATA": "ZONEKEEPER_DATA",
    "JOURNAL": "ZONEKEEPER_JOURNAL",
    "LISTEN": "ZONEKEEPER_LISTEN",
    "LISTEN_SOCKET": "ZONEKEEPER_LISTEN_SOCKET",
    "ADVERTISE": "ZONEKEEPER_ADVERTISE",
    "HTTP": "ZONEKEEPER_HTTP",
    "HTTP_TLS": "ZONEKEEPER_HTTP_TLS",
    "TLS_AUTHORITY": "ZONEKEEPER_TLS_AUTHORITY",
    "TLS_CERTIFICATE": "ZONEKEEPER_TLS_CERTIFICATE",
    "TLS_KEY": "ZONEKEEPER_TLS_KEY",
    "NAME": "ZONEKEEPER_NAME",
    "COMMAND": ("zonekeeper", "bookie", "run"),
    "FORMATS_COMMAND": ("zonekeeper", "bookie", "formats", "--output", "json"),
    "REPAIR_COMMAND": ("zonekeeper", "autorecovery", "run"),
    "PROBE_COMMAND": ("zonekeeper", "operator", "probe", "--away"),
    "REFILL_COMMAND": ("zonekeeper", "bookie", "cookie", "replace-disk", "--yes", "--id"),
    "TERMINATION_LOG": "ZONEKEEPER_TERMINATION_LOG",
    "TERMINATION_LOG_PATH": "/dev/termination-log",
    "LOST_DISK": "the disk was wiped, or is not mounted; mount the right one. If it is lost for "
    "good",
    "GRPC_PORT": 3181,
    "HTTP_PORT": 8080,
    "SOCKET_PORT": 3182,
    "ALIVE_PATH": "/healthz",
    "READY_PATH": "/readyz",
    "METRICS_PATH": "/metrics",
    "STATE_PATH": "/state",
}


@pytest.fixture
def wanted() -> desired.Desired:
    found = desired.read(RESOURCE)
    assert isinstance(found, desired.Desired)
    return found


@pytest.fixture
def objects(wanted: desired.Desired) -> list[tuple[object, Json]]:
    return [(kind, body) for kind, body in owned_objects.all_of(wanted, RESOURCE, INSTANCE)]


@pytest.fixture
def sets(objects: list[tuple[object, Json]]) -> list[Json]:
    return [body for kind, body in objects if kind == STATEFUL_SETS]


@pytest.fixture
def deployments(objects: list[tuple[object, Json]]) -> list[Json]:
    return [body for kind, body in objects if kind == DEPLOYMENTS]


def container(owner: Json) -> Json:
    """Give the one container of the pods of a StatefulSet or a Deployment."""
    found: list[Json] = owner["spec"]["template"]["spec"]["containers"]
    (only,) = found
    return only


def environment(owner: Json) -> dict[str, str]:
    """Give a pod's environment as Kubernetes makes it of the template."""
    pod = f"{owner['metadata']['name']}-{ORDINAL}"
    fields = {"metadata.name": pod, "status.podIP": POD_IP}
    return {
        one["name"]: one["value"]
        if "value" in one
        else fields[one["valueFrom"]["fieldRef"]["fieldPath"]]
        for one in container(owner)["env"]
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
        domain = upgrade_domains.of_ordinal(ORDINAL, RoundRobin(upgrade_domains=DOMAINS))
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


def test_arrival_segments_are_on_the_journal_volume_where_there_is_one() -> None:
    storage = {"size": "1Gi", "journal": {"size": "2Gi", "className": "fast"}}
    item = resource(storage=storage)
    found = desired.read(item)
    assert isinstance(found, desired.Desired)
    made = [
        body for kind, body in owned_objects.all_of(found, item, INSTANCE) if kind == STATEFUL_SETS
    ]

    assert len(made) == len(found.zones)
    for each in made:
        mounts = {one["name"]: one["mountPath"] for one in container(each)["volumeMounts"]}
        claims = {
            one["metadata"]["name"]: one["spec"] for one in each["spec"]["volumeClaimTemplates"]
        }
        assert told(each).journal == Path(mounts["journal"])
        assert told(each).data == Path(mounts["data"])
        assert claims["journal"]["resources"]["requests"]["storage"] == "2Gi"
        assert claims["journal"]["storageClassName"] == "fast"
        assert "storageClassName" not in claims["data"]


def test_a_bookie_reads_the_settings_that_were_chosen_for_it() -> None:
    chosen = {
        "gc-interval": "3m",
        "ledgers": 5_000,
        "disk-full": "80%",
        "disk-warn": "70%",
        "disk-low": "75%",
        "log-level": "debug",
    }
    item = resource(config=chosen)
    found = desired.read(item)
    assert isinstance(found, desired.Desired)
    (first, *_) = (
        body for kind, body in owned_objects.all_of(found, item, INSTANCE) if kind == STATEFUL_SETS
    )

    read = told(first)
    assert read.collecting.every_ms == 180_000
    assert read.ledgers_max == 5_000
    marks = read.disk_marks
    assert (marks.warn, marks.low, marks.full) == (0.7, 0.75, 0.8)
    assert read.logging.level is LogLevel.DEBUG


def test_every_setting_of_a_bookie_is_chosen_by_a_person_or_reserved() -> None:
    names = [setting.name for setting in settings.SETTINGS]

    assert sorted([*bookie_config.CHOSEN, *bookie_config.RESERVED]) == sorted(names)
    for name in bookie_config.CHOSEN:
        (setting,) = (one for one in settings.SETTINGS if one.name == name)
        assert setting.environment == variable_of(name)


TEXTS: Final = (
    *("1", "0", "-1", "1.5", "64", "1ms", "90s", "10m", "1h", "2d", "0s", "1 s", "1w"),
    *("1KiB", "64MiB", "256MiB", "1GiB", "2TiB", "0MiB", "64MB", "1%", "90%", "100%", "0%", "101%"),
    *("debug", "info", "warning", "error", "trace", "text", "json", "yaml", "", "x" * 99),
    *("off", "warn", "named", "on", "yes"),
)
TLS: Final = ("authority", "certificate", "key")


@pytest.mark.parametrize("name", sorted(bookie_config.CHOSEN))
def test_a_bookie_reads_what_the_operator_lets_a_person_choose(name: str) -> None:
    """A pod whose bookie refuses its environment would end again and again."""
    kind = bookie_config.CHOSEN[name]
    good = [text for text in (*TEXTS, 1, 64) if _reads(kind, text)]

    assert good
    for given in good:
        marks = {"disk-full": "100%"} if name in bookie_config.MARKS else {}
        marks |= {"disk-warn": "1%", "disk-low": "1%"} if name == bookie_config.FULL_MARK else {}
        config = {**marks, name: str(given)}
        environment = {variable_of(one): text for one, text in config.items()}
        if name == bookie_config.ACCESS:  # roles stand in certificates
            environment |= {variable_of(f"tls-{one}"): one for one in TLS}
        settings.parse({"data": "/data", "metadata": "zk://zk/x", "id": "bk-a-0"}, environment)


def _reads(kind: fields.Kind, given: object) -> bool:
    try:
        kind.read("x", given)
    except fields.InvalidFieldsError:
        return False
    return True


def test_the_least_sizes_are_the_bookie_s() -> None:
    least = arrivals.sizes_on(1, reserve_bytes=1)

    assert least.segment_bytes * least.segments_max == bookie_config.ARRIVAL_BYTES_MIN
    on_least = arrivals.sizes_on(
        volumes.WHOLE_MIB_MIN << 20, reserve_bytes=arrivals.RESERVE_BYTES_DEFAULT
    )
    taken = on_least.segment_bytes * on_least.segments_max + on_least.reserve_bytes
    assert (volumes.WHOLE_MIB_MIN << 20) - taken > on_least.segment_bytes
    assert (volumes.PART_MIB_MIN << 20) - taken > on_least.segment_bytes


def test_a_bookie_that_may_drain_for_longest_ends_before_it_is_killed() -> None:
    assert bookie_config.DRAIN_MS_MAX < 1_000 * owned_objects.TERMINATION_SECONDS


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


def test_the_lane_is_where_the_pod_and_the_service_say() -> None:
    item = resource(socketLane=True)
    wanted = desired.read(item)
    assert isinstance(wanted, desired.Desired)
    made = owned_objects.all_of(wanted, item, INSTANCE)
    (service,) = (body for kind, body in made if kind == SERVICES)
    asked = {one["targetPort"]: one["port"] for one in service["spec"]["ports"]}
    bookies = [body for kind, body in made if kind == STATEFUL_SETS]
    assert len(bookies) == len(wanted.zones)
    for each in bookies:
        ports = {one["name"]: one["containerPort"] for one in container(each)["ports"]}
        assert told(each).listen_socket == Address("0.0.0.0", ports["socket"])
        assert asked == ports
        assert len(set(ports.values())) == len(ports)


def test_without_the_lane_no_bookie_is_told_of_it(sets: list[Json]) -> None:
    for each in sets:
        assert told(each).listen_socket is None
        assert "socket" not in str(container(each)["ports"])


def test_a_bookie_of_before_the_lane_passes_over_what_it_is_told_of_it() -> None:
    """Such an image, in a resource that asks for the lane, serves gRPC as it did."""
    item = resource(socketLane=True)
    wanted = desired.read(item)
    assert isinstance(wanted, desired.Desired)
    before = [one for one in settings.SETTINGS if one.environment != seam.LISTEN_SOCKET]
    for kind, body in owned_objects.all_of(wanted, item, INSTANCE):
        if kind == STATEFUL_SETS:
            given = GivenSettings(before, {}, environment(body))
            assert given.read("listen", addresses.parse) == told(body).listen


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


def test_an_autorecovery_process_is_told_all_that_the_operator_says(
    wanted: desired.Desired, deployments: list[Json]
) -> None:
    assert len(deployments) == len(wanted.zones)
    for zone, each in zip(wanted.zones, deployments, strict=True):
        found = repair_settings.parse({}, environment(each))
        assert found.metadata == wanted.metadata_uri
        assert found.zone == zone.name
        assert found.name == f"log-{zone.name}-autorecovery-{ORDINAL}"
        assert found.advertise == POD_IP
        (port,) = container(each)["ports"]
        assert (port["name"], found.http) == ("http", Address("0.0.0.0", port["containerPort"]))


@pytest.mark.parametrize(
    ("probe", "path"), [("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")]
)
def test_an_autorecovery_process_is_probed_where_every_process_answers(
    deployments: list[Json], probe: str, path: str
) -> None:
    for each in deployments:
        assert container(each)[probe]["httpGet"] == {"path": path, "port": "http"}


def test_bookies_are_not_chosen_together_with_autorecovery_processes(
    objects: list[tuple[object, Json]], deployments: list[Json], sets: list[Json]
) -> None:
    selectors = [
        body["spec"]["selector"].get("matchLabels", body["spec"]["selector"])
        for kind, body in objects
        if kind in (SERVICES, BUDGETS, STATEFUL_SETS)
    ]
    assert len(selectors) == 2 + len(sets)
    for each in deployments:
        labels = each["spec"]["template"]["metadata"]["labels"]
        assert each["spec"]["selector"]["matchLabels"].items() <= labels.items()
        for selector in selectors:
            assert not selector.items() <= labels.items()
    for each in sets:
        labels = each["spec"]["template"]["metadata"]["labels"]
        for other in deployments:
            assert not other["spec"]["selector"]["matchLabels"].items() <= labels.items()


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


def test_the_pods_run_commands_that_there_are(sets: list[Json], deployments: list[Json]) -> None:
    tables: list[tuple[Json, tuple[Setting, ...]]] = [(each, settings.SETTINGS) for each in sets]
    tables += [(each, repair_settings.SETTINGS) for each in deployments]
    for each, table in tables:
        program, *words = container(each)["command"]
        assert program == main.name
        command: click.Command = main
        for word in words:
            assert isinstance(command, click.Group)
            inner = command.get_command(click.Context(command, **command.context_settings), word)
            assert inner is not None, word
            command = inner
        flags = {name.removeprefix("--") for one in command.params for name in one.opts}
        assert flags >= {setting.name for setting in table}


def test_what_stands_on_the_seam_stands_there_for_ever() -> None:
    names = {name for name in vars(seam) if name.isupper()}

    assert {name: getattr(seam, name) for name in names} == FOR_EVER
    assert METADATA.environment == seam.METADATA
