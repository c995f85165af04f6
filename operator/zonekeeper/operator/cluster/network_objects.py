"""The NetworkPolicies of a cluster: every path is denied that is not named here. Pure.

======================  =====================================================================
into bookies            gRPC and the socket lane, from: clients, other bookies, autorecovery
into pages (HTTP)       from namespaces that the resource names; from none by default
out of bookies          names (DNS), the metadata store, other bookies
out of autorecovery     names (DNS), the metadata store, bookies
images that are asked   nothing in, nothing out
======================  =====================================================================

A client is a pod of any namespace with the label ``zonekeeper.io/client``, or one of a namespace
that the resource names. The addresses of the metadata store are not known, only its ports: packets
to these ports may go to any address. The kubelet's probes come from the node, which a policy does
not stop.

A direction of ``policyTypes`` without a list denies all. An empty list would say the same, but the
API server stores none: the policy would never be as it is wanted, and be applied in each turn.

A policy takes effect only where the network of the Kubernetes cluster has a part that enforces it.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from zonekeeper.metadata.stores import uri
from zonekeeper.metadata.stores.uri import ZooKeeperAddress
from zonekeeper.operator.cluster import pod_parts
from zonekeeper.operator.cluster.desired import Desired
from zonekeeper.operator.kubernetes.api import (
    CLIENT_LABEL,
    CLUSTER_LABEL,
    FORMATS_LABEL,
    POLICIES,
    REPAIRS_LABEL,
    Json,
    ObjectKind,
)
from zonekeeper.wire.running import seam

PROGRAM: Final = "network"
#: Where resolvers listen: the second one is that of OpenShift's pods.
DNS_PORTS: Final = (53, 5_353)
_NAMESPACE: Final = "kubernetes.io/metadata.name"


def names(desired: Desired) -> tuple[tuple[ObjectKind, str], ...]:
    """Name what ``all_of`` gives, in its order."""
    if not desired.network.policies:
        return ()
    return tuple(
        (POLICIES, f"{desired.name}-{part}") for part in ("bookies", "autorecovery", "formats")
    )


def all_of(desired: Desired) -> tuple[tuple[ObjectKind, Json], ...]:
    """Give the policies; none, if the resource does without."""
    specs = (_of_bookies(desired), _of_autorecovery(desired), _of_formats(desired))
    return tuple(
        (kind, pod_parts.named(desired, name, program=PROGRAM) | {"spec": spec})
        for (kind, name), spec in zip(names(desired), specs, strict=False)
    )


def _of_bookies(desired: Desired) -> Json:
    bookies = _pods({CLUSTER_LABEL: desired.name})
    clients = [
        bookies,
        _pods({REPAIRS_LABEL: desired.name}),
        {"namespaceSelector": {}, **_pods({CLIENT_LABEL: desired.name})},
        *_from_namespaces(desired.network.clients_from),
    ]
    served = _bookie_ports(desired)
    return {
        **bookies,
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [{"from": clients, "ports": served}, *_pages(desired)],
        "egress": [*_surroundings(desired), {"to": [bookies], "ports": served}],
    }


def _of_autorecovery(desired: Desired) -> Json:
    to_bookies = {"to": [_pods({CLUSTER_LABEL: desired.name})], "ports": _bookie_ports(desired)}
    pages = _pages(desired)
    return {
        **_pods({REPAIRS_LABEL: desired.name}),
        "policyTypes": ["Ingress", "Egress"],
        **({"ingress": pages} if pages else {}),
        "egress": [*_surroundings(desired), to_bookies],
    }


def _of_formats(desired: Desired) -> Json:
    """Such a pod prints what its image knows, and speaks to nothing."""
    return {**_pods({FORMATS_LABEL: desired.name}), "policyTypes": ["Ingress", "Egress"]}


def _pods(labels: Mapping[str, str]) -> Json:
    return {"podSelector": {"matchLabels": dict(labels)}}


def _bookie_ports(desired: Desired) -> list[Json]:
    lane = [seam.SOCKET_PORT] if desired.socket_lane else []
    return [_port(one) for one in (seam.GRPC_PORT, *lane)]


def _port(number: int, protocol: str = "TCP") -> Json:
    return {"protocol": protocol, "port": number}


def _pages(desired: Desired) -> list[Json]:
    lookers = _from_namespaces(desired.network.pages_from)
    return [{"from": lookers, "ports": [_port(seam.HTTP_PORT)]}] if lookers else []


def _from_namespaces(found: tuple[str, ...]) -> list[Json]:
    if not found:
        return []
    chosen = {"key": _NAMESPACE, "operator": "In", "values": list(found)}
    return [{"namespaceSelector": {"matchExpressions": [chosen]}}]


def _ports(address: ZooKeeperAddress) -> set[int]:
    return {int(server.rpartition(":")[2]) for server in address.servers}


def _surroundings(desired: Desired) -> Iterator[Json]:
    """Give the ways to names and to the metadata store, at any address."""
    yield {"ports": [_port(one, by) for one in DNS_PORTS for by in ("UDP", "TCP")]}
    address = uri.parse(desired.metadata_uri)
    assert isinstance(address, ZooKeeperAddress), "the resource was read"
    yield {"ports": [_port(one) for one in sorted(_ports(address))]}
