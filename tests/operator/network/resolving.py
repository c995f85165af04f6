"""Which pods may reach which under NetworkPolicies, by the rules of Kubernetes. Pure.

A pod that no policy chooses for a direction is open in that direction. One that some choose takes
what any of them allows, and nothing else. A packet needs both: out of its source, into its target.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from zonekeeper.operator.kubernetes.api import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A pod, or what stands outside of the cluster's network (without a namespace)."""

    name: str
    namespace: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    #: What of its parts the tests ask for.
    ports: tuple[tuple[int, str], ...] = ()


def may_reach(
    policies: Sequence[Json], source: Peer, target: Peer, port: int, protocol: str = "TCP"
) -> bool:
    """May a packet go there?"""
    return _allows(policies, "Egress", source, target, port, protocol) and _allows(
        policies, "Ingress", target, source, port, protocol
    )


def _allows(
    policies: Iterable[Json], direction: str, own: Peer, other: Peer, port: int, protocol: str
) -> bool:
    chosen = [
        one["spec"]
        for one in policies
        if own.namespace == one["metadata"]["namespace"]
        and direction in one["spec"]["policyTypes"]
        and _selects(one["spec"]["podSelector"], own.labels)
    ]
    if not chosen:
        return True
    section, side = ("egress", "to") if direction == "Egress" else ("ingress", "from")
    return any(
        _port_fits(rule.get("ports"), port, protocol)
        and _peer_fits(rule.get(side), own.namespace, other)
        for spec in chosen
        for rule in spec.get(section) or ()
    )


def _port_fits(ports: Sequence[Json] | None, port: int, protocol: str) -> bool:
    if not ports:
        return True
    return any(
        one.get("protocol", "TCP") == protocol and one.get("port", port) == port for one in ports
    )


def _peer_fits(peers: Sequence[Json] | None, namespace: str, other: Peer) -> bool:
    if not peers:
        return True
    return any(_fits(one, namespace, other) for one in peers)


def _fits(peer: Json, namespace: str, other: Peer) -> bool:
    assert peer.keys() <= {"podSelector", "namespaceSelector"}, "nothing else is made"
    if not other.namespace:
        return False
    if "namespaceSelector" in peer:
        about = {"kubernetes.io/metadata.name": other.namespace}
        if not _selects(peer["namespaceSelector"], about):
            return False
    elif other.namespace != namespace:
        return False
    return _selects(peer.get("podSelector", {}), other.labels)


def _selects(selector: Json, labels: Mapping[str, str]) -> bool:
    for one in selector.get("matchExpressions") or ():
        assert one["operator"] == "In", "nothing else is made"
        if labels.get(one["key"]) not in one["values"]:
            return False
    wanted: Mapping[str, str] = selector.get("matchLabels") or {}
    return wanted.items() <= labels.items()
