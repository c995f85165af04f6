"""Every pair of parts and every port: a path that is not listed here is denied."""

import itertools
from typing import Final

import pytest
import yaml

from tests.operator.network import resolving
from tests.operator.network.resolving import Peer
from tests.operator.resources import NAME, SPACE, resource
from tests.operator.worlds import World
from tests.support.checkout_root import ROOT
from zonekeeper.operator.cluster import desired, owned_objects
from zonekeeper.operator.cluster.desired import Desired
from zonekeeper.operator.kubernetes.api import (
    CLIENT_LABEL,
    DEPLOYMENTS,
    POLICIES,
    STATEFUL_SETS,
    Json,
)
from zonekeeper.operator.sight import formats_pod

SYSTEM: Final = "zonekeeper-system"
PORTS: Final = (
    *((port, "TCP") for port in (3181, 3182, 8080, 9443)),
    *itertools.product((53, 443, 2181, 2281, 5353, 6443, 8443, 16443, 22), ("TCP", "UDP")),
)
SECURE: Final[Json] = {"policies": True, "clientsFrom": ["apps"], "pagesFrom": ["watching"]}


def made(**spec: object) -> tuple[list[Json], dict[str, Peer]]:
    """Give the policies of a cluster, and the parts that its objects make."""
    item = resource(**{"socketLane": True, "network": SECURE, **spec})
    wanted = desired.read(item)
    assert isinstance(wanted, Desired), wanted
    objects = owned_objects.all_of(wanted, item, "instance")
    policies = [body for kind, body in objects if kind == POLICIES]
    pods = {
        kind.name: body["spec"]["template"]["metadata"]["labels"]
        for kind, body in objects
        if kind in (STATEFUL_SETS, DEPLOYMENTS)
    }
    asking = formats_pod.made(wanted, wanted.zones[0], item)["metadata"]["labels"]
    parts = {
        "bookie": Peer(name="bookie", namespace=SPACE, labels=pods["StatefulSet"]),
        "repair": Peer(name="repair", namespace=SPACE, labels=pods["Deployment"]),
        "formats": Peer(name="formats", namespace=SPACE, labels=asking),
    }
    return policies, parts


def operator() -> tuple[list[Json], Peer]:
    """Give the policy of the operator, and its pod."""
    folder = ROOT / "manifests" / "operator"
    policy = yaml.safe_load((folder / "network.yaml").read_text())
    deployment, _ = yaml.safe_load_all((folder / "deployment.yaml").read_text())
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    return [policy], Peer(name="operator", namespace=SYSTEM, labels=labels)


def others() -> dict[str, Peer]:
    """Give the parts that are not ours."""
    client = {CLIENT_LABEL: NAME}
    found = (
        Peer(name="client", namespace=SPACE, labels=client),
        Peer(name="client elsewhere", namespace="else", labels=client),
        Peer(name="client of another", namespace=SPACE, labels={CLIENT_LABEL: "other"}),
        Peer(name="app", namespace="apps"),
        Peer(name="neighbour", namespace=SPACE),
        Peer(name="monitor", namespace="watching"),
        Peer(name="bookie of another", namespace=SPACE, labels={"zonekeeper.io/cluster": "other"}),
        Peer(name="bookie elsewhere", namespace="else", labels={"zonekeeper.io/cluster": NAME}),
        Peer(name="store", namespace="zookeeper"),
        Peer(name="outside"),
    )
    return {one.name: one for one in found}


TO_BOOKIES: Final = ("bookie", "repair", "client", "client elsewhere", "app")
LANES: Final = (3181, 3182)
DNS: Final = ((53, "TCP"), (53, "UDP"), (5353, "TCP"), (5353, "UDP"))


#: Where each part of ours goes, among those that are not ours; the others' ways are not our matter.
OUTWARD: Final = {
    "bookie": (*DNS, (2181, "TCP")),
    "repair": (*DNS, (2181, "TCP")),
    "operator": (*DNS, *((one, "TCP") for one in (443, 6443, 8443, 16443, 2181, 2281))),
    "formats": (),
}


def is_listed(source: str, target: str, port: int, protocol: str, open_to: set[str]) -> bool:
    """Is this one of the paths that are needed? ``open_to``: parts that take everything."""
    by = (port, protocol)
    if target == "bookie" and protocol == "TCP" and port in LANES:
        return source in TO_BOOKIES
    if target in ("bookie", "repair") and by == (8080, "TCP"):
        return source == "monitor"
    if target not in open_to:
        return False
    return by in OUTWARD[source] if source in OUTWARD else True


def test_each_path_that_is_needed_is_open_and_every_other_is_denied() -> None:
    policies, ours = made()
    of_operator, process = operator()
    strangers = others()
    parts = {**ours, "operator": process, **strangers}
    wrong, opened = [], 0
    for source, target in itertools.product(parts, repeat=2):
        for port, protocol in PORTS:
            found = resolving.may_reach(
                [*policies, *of_operator], parts[source], parts[target], port, protocol
            )
            opened += found
            if found != is_listed(source, target, port, protocol, {*strangers}):
                wrong.append((source, target, port, protocol, found))

    assert wrong == []
    assert opened > 0


def test_without_more_namespaces_nobody_sees_pages_and_only_marked_clients_come_in() -> None:
    policies, ours = made(network={"policies": True})
    strangers = others()
    for name, peer in strangers.items():
        assert not resolving.may_reach(policies, peer, ours["bookie"], 8080)
        assert not resolving.may_reach(policies, peer, ours["repair"], 8080)
        comes = resolving.may_reach(policies, peer, ours["bookie"], 3181)
        assert comes == (name in ("client", "client elsewhere"))


def test_a_lane_that_is_not_served_is_not_open() -> None:
    policies, ours = made(socketLane=False)
    assert resolving.may_reach(policies, ours["repair"], ours["bookie"], 3181)
    assert not resolving.may_reach(policies, ours["repair"], ours["bookie"], 3182)


def test_the_ports_of_the_store_are_those_of_its_address() -> None:
    store = others()["store"]
    policies, ours = made(metadata={"uri": "zk://one:2182,two:2183/ledgers"})
    for part in ("bookie", "repair"):
        reached = [
            port
            for port in (2181, 2182, 2183)
            if resolving.may_reach(policies, ours[part], store, port)
        ]
        assert reached == [2182, 2183]


def test_a_resource_may_do_without_policies() -> None:
    policies, ours = made(network={"policies": False})
    assert policies == []
    assert resolving.may_reach(policies, others()["neighbour"], ours["bookie"], 3181)


@pytest.mark.parametrize("part", ["bookie", "repair", "formats"])
def test_a_policy_chooses_the_pods_of_its_own_cluster_alone(part: str) -> None:
    policies, ours = made()
    strange = dict(ours[part].labels)
    for name, value in strange.items():
        if value == NAME:
            strange[name] = "other"
    other = Peer(name="other", namespace=SPACE, labels=strange)
    assert resolving.may_reach(policies, others()["neighbour"], other, 22)


async def test_policies_that_stand_are_not_applied_again() -> None:
    world = World(network=None)
    await world.settle()
    assert len(await world.kubernetes.list(POLICIES, SPACE)) == 3
    assert (await world.plan()).actions == ()
