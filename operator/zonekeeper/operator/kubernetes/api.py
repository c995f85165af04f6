"""Kubernetes as the operator sees it: kinds of objects, and seven verbs on them.

An interface, because the operator's decisions are tested without a cluster: ``api_server`` speaks
to a real API server, ``memory_api`` is its twin. Objects are plain JSON; their shape is the
API server's to check, ours only where we read a field.

Every object of ours is written by server-side apply under one field manager, so what others add to
it (labels, annotations, sidecars) survives, and what we no longer say is removed. Not so for a
finalizer: to say it no longer leaves it there if somebody else put it on too, as a backup does that
is played back. So it is taken off by a verb of its own.
"""

import abc
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from zonekeeper.placement.base.troubles import Trouble

#: A Kubernetes object. Its shape is the API server's to check.
Json: TypeAlias = dict[str, Any]

FIELD_MANAGER: Final = "zonekeeper-operator"

GROUP: Final = "zonekeeper.io"
VERSION: Final = "v1alpha1"

#: On everything that belongs to a cluster: the name of its resource.
CLUSTER_LABEL: Final = f"{GROUP}/cluster"
ZONE_LABEL: Final = f"{GROUP}/zone"
#: On a volume's claim: the INSTANCEID of the cluster whose data it holds.
INSTANCE_LABEL: Final = f"{GROUP}/instance"
#: On a pod, from its StatefulSet's controller: the revision of the template that it was made from.
REVISION_LABEL: Final = "controller-revision-hash"
#: What the operator removes itself when a resource is deleted that asks for it.
FINALIZER: Final = f"{GROUP}/operator"


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectKind:
    """A kind of object, and how its address is made."""

    group: str
    version: str
    plural: str
    name: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """Group and version as objects spell them."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str, name: str = "", subresource: str = "") -> str:
        """Give the path of one object, of one part of it, or of all of a namespace ("": all)."""
        parts = ["/apis" if self.group else "/api", self.api_version]
        if self.namespaced and namespace:
            parts += ["namespaces", namespace]
        parts += [self.plural, *(part for part in (name, subresource) if part)]
        return "/".join(parts)


BOOKIE_CLUSTERS: Final = ObjectKind(
    group=GROUP, version=VERSION, plural="bookieclusters", name="BookieCluster"
)
STATEFUL_SETS: Final = ObjectKind(
    group="apps", version="v1", plural="statefulsets", name="StatefulSet"
)
SERVICES: Final = ObjectKind(group="", version="v1", plural="services", name="Service")
SERVICE_ACCOUNTS: Final = ObjectKind(
    group="", version="v1", plural="serviceaccounts", name="ServiceAccount"
)
BUDGETS: Final = ObjectKind(
    group="policy", version="v1", plural="poddisruptionbudgets", name="PodDisruptionBudget"
)
PODS: Final = ObjectKind(group="", version="v1", plural="pods", name="Pod")
CLAIMS: Final = ObjectKind(
    group="", version="v1", plural="persistentvolumeclaims", name="PersistentVolumeClaim"
)
NODES: Final = ObjectKind(group="", version="v1", plural="nodes", name="Node", namespaced=False)
EVENTS: Final = ObjectKind(group="", version="v1", plural="events", name="Event")

#: What the operator makes for a cluster.
OWNED: Final = (SERVICE_ACCOUNTS, SERVICES, BUDGETS, STATEFUL_SETS)


class KubernetesError(Trouble):
    """The API server refused, or was not reached (then ``status`` is 0); in its own words."""

    retryable = True

    def __init__(self, status: int, message: str, *, maybe_applied: bool = False) -> None:
        super().__init__(message)
        self.status = status
        #: It may have happened all the same: only reading again tells.
        self.maybe_applied = maybe_applied


class NotPermittedError(KubernetesError):
    """The role that the operator runs under does not allow it."""


class GoneError(KubernetesError):
    """There is no such object, or it is not the one that was meant (another uid)."""


class ObjectChangedError(KubernetesError):
    """The object is another version by now than the one that was meant."""


class Kubernetes(abc.ABC):
    """Seven verbs. Each raises ``KubernetesError``; nothing is retried here."""

    @abc.abstractmethod
    async def get(self, kind: ObjectKind, namespace: str, name: str) -> Json | None:
        """Read one object as it stands now (never from a cache); None: there is none."""

    @abc.abstractmethod
    async def list(self, kind: ObjectKind, namespace: str, *, labels: str = "") -> list[Json]:
        """Read all objects of a namespace ("": of all) with these labels, sorted by name."""

    @abc.abstractmethod
    async def create(self, kind: ObjectKind, body: Json) -> None:
        """Create an object."""

    @abc.abstractmethod
    async def apply(self, kind: ObjectKind, body: Json, *, subresource: str = "") -> None:
        """Let what ``body`` says hold, server-side; conflicts with others are won.

        ``metadata.uid`` in the body means this very object: ``GoneError`` if it is another.
        ``metadata.resourceVersion`` means this very version; ``ObjectChangedError`` if not.
        """

    @abc.abstractmethod
    async def release(self, kind: ObjectKind, seen: Json) -> None:
        """Take our finalizer off this very object, whoever put it on; other finalizers stay.

        ``seen`` is the object as it was read, with the finalizer. It is refused if the finalizer
        has another place in the list by now; what others put on behind it is no hindrance.
        """

    @abc.abstractmethod
    async def delete(self, kind: ObjectKind, namespace: str, name: str, *, uid: str) -> None:
        """Delete this very object and what it owns; gone already counts as done."""

    @abc.abstractmethod
    async def close(self) -> None:
        """Let go of connections."""
