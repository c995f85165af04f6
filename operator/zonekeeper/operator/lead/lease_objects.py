"""The Lease as an object in Kubernetes, and the names of its holders. Pure.

A holder's name is ``<installation>_<pod>_<start>``. No name in Kubernetes has an underscore, so the
three can be told apart. The number of renewals stands in an annotation: the time of a renewal is
for people, and a clock that stands still or goes back must not hide a renewal.
"""

from dataclasses import dataclass
from typing import Final

from zonekeeper.operator.kubernetes.api import GROUP, LEASES, Json
from zonekeeper.operator.lead.tenure import NOBODY, LeaseRecord, LeaseTimes

#: The one name of all Leases of operators: that of any installation excludes the others.
LEASE_NAME: Final = "zonekeeper-operator"
RENEWALS: Final = f"{GROUP}/renewals"
_BETWEEN: Final = "_"


@dataclass(frozen=True, slots=True)
class LeasePlace:
    """Where a Lease is."""

    namespace: str
    name: str = LEASE_NAME

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


def holder_name(installation: str, pod: str, start: str) -> str:
    """Name one start of a process."""
    return _BETWEEN.join((installation, pod, start))


def installation_of(holder: str) -> str:
    """Give the installation that a holder belongs to."""
    return holder.partition(_BETWEEN)[0]


def record_of(item: Json) -> LeaseRecord:
    """Read a Lease; what another program has made of it reads as one that nobody holds."""
    spec = item.get("spec") or {}
    renewals = (item["metadata"].get("annotations") or {}).get(RENEWALS, "")
    return LeaseRecord(
        holder=str(spec.get("holderIdentity") or NOBODY),
        renewals=int(renewals) if renewals.isdecimal() else 0,
        transitions=int(spec.get("leaseTransitions") or 0),
    )


def body(
    place: LeasePlace, record: LeaseRecord, times: LeaseTimes, *, now: str, over: Json | None
) -> Json:
    """Say the Lease; ``over`` is the object that was read, and only this version is replaced."""
    named = {"name": place.name, "namespace": place.namespace}
    if over is not None:
        named |= {key: over["metadata"][key] for key in ("uid", "resourceVersion")}
    return {
        "apiVersion": LEASES.api_version,
        "kind": LEASES.name,
        "metadata": {**named, "annotations": {RENEWALS: str(record.renewals)}},
        "spec": {
            "holderIdentity": record.holder,
            "leaseDurationSeconds": times.lease_ms // 1_000,
            "leaseTransitions": record.transitions,
            "renewTime": now,
        },
    }
