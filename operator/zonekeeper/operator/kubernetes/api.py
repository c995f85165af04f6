"""Kubernetes as the operator sees it: kinds of objects, and nine verbs on them.

It is an interface, because the operator's decisions are tested without a cluster: ``api_server``
speaks to a real API server, ``memory_api`` is its twin. Objects are plain JSON. The API server
checks their shape; the operator checks only the fields that it reads.

The operator writes every object by server-side apply under one field manager. So additions of
others (labels, annotations, sidecars) stay, and a field that the operator no longer names is
removed. A finalizer is different: if another manager has put it on, too, for example by restoring a
backup, it stays when the operator no longer names it. So a verb of its own takes it off.

Where only a few fields of an object are meant, ``edit`` changes them: an apply would remove every
other field that the same manager has applied before.
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

#: On every object that belongs to a cluster: the name of its resource.
CLUSTER_LABEL: Final = f"{GROUP}/cluster"
ZONE_LABEL: Final = f"{GROUP}/zone"
#: On a pod of an autorecovery process: the name of its cluster's resource. It does not carry
#: ``CLUSTER_LABEL``, by which the Service and the disruption budget choose bookies.
REPAIRS_LABEL: Final = f"{GROUP}/repairs"
#: On a pod that asks an image for its formats: the name of its cluster's resource. It does not
#: carry ``CLUSTER_LABEL`` either.
FORMATS_LABEL: Final = f"{GROUP}/formats"
#: On a pod that gives a bookie an empty disk: the name of its cluster's resource. It does not carry
#: ``CLUSTER_LABEL`` either.
REFILLS_LABEL: Final = f"{GROUP}/refills"
#: On such a pod: the uid of the bookie's pod that refused the disk.
REFUSED_BY: Final = f"{GROUP}/refused-by"
#: On a pod that writes while a zone is away for a drill: the name of its cluster's resource. It
#: does not carry ``CLUSTER_LABEL`` either.
PROBES_LABEL: Final = f"{GROUP}/probes"
#: On a pod of a client of bookies: the name of the resource whose bookies it may reach.
CLIENT_LABEL: Final = f"{GROUP}/client"
#: On a ControllerRevision with a kept spec: the name of its cluster's resource.
KEEPS_LABEL: Final = f"{GROUP}/keeps"
#: On a volume's claim: the INSTANCEID of the cluster whose data it holds.
INSTANCE_LABEL: Final = f"{GROUP}/instance"
#: On a volume's claim: the bookie of this name that was removed, and left the volume. No other
#: bookie starts on its disk.
LEFT_LABEL: Final = f"{GROUP}/left-by"
#: On a pod, from its StatefulSet's controller: the revision of the template that it was made from.
REVISION_LABEL: Final = "controller-revision-hash"
#: On a resource: bookies and autorecovery processes start anew each time that its value changes.
RESTART: Final = f"{GROUP}/restart"
#: On a resource: names a gate that is not to stop the next step of the roll, once.
OVERRIDE: Final = f"{GROUP}/override"
#: On a resource: bookies that run already are taken over, with the objects that run them. The value
#: is the instance of their root, so that no annotation of another cluster takes these.
ADOPT: Final = f"{GROUP}/adopt"
#: On a resource: this bookie is emptied, and gets another volume, once.
REPLACE: Final = f"{GROUP}/replace"
#: Keeps a deleted resource until the operator has removed its volumes and its root.
FINALIZER: Final = f"{GROUP}/operator"
#: On a deleted resource: its root is left behind where the store does not answer. The value is the
#: instance of the cluster, so that no annotation of an earlier resource lets go of this one.
FORCE_DELETE: Final = f"{GROUP}/force-delete"


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
        """Give the path of an object, of a part of it, or of a namespace ("": of all of them)."""
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
DEPLOYMENTS: Final = ObjectKind(group="apps", version="v1", plural="deployments", name="Deployment")
SERVICES: Final = ObjectKind(group="", version="v1", plural="services", name="Service")
SERVICE_ACCOUNTS: Final = ObjectKind(
    group="", version="v1", plural="serviceaccounts", name="ServiceAccount"
)
CONTROLLER_REVISIONS: Final = ObjectKind(
    group="apps", version="v1", plural="controllerrevisions", name="ControllerRevision"
)
BUDGETS: Final = ObjectKind(
    group="policy", version="v1", plural="poddisruptionbudgets", name="PodDisruptionBudget"
)
PODS: Final = ObjectKind(group="", version="v1", plural="pods", name="Pod")
CLAIMS: Final = ObjectKind(
    group="", version="v1", plural="persistentvolumeclaims", name="PersistentVolumeClaim"
)
NODES: Final = ObjectKind(group="", version="v1", plural="nodes", name="Node", namespaced=False)
PERSISTENT_VOLUMES: Final = ObjectKind(
    group="",
    version="v1",
    plural="persistentvolumes",
    name="PersistentVolume",
    namespaced=False,
)
SECRETS: Final = ObjectKind(group="", version="v1", plural="secrets", name="Secret")
POLICIES: Final = ObjectKind(
    group="networking.k8s.io", version="v1", plural="networkpolicies", name="NetworkPolicy"
)
#: Of cert-manager, which need not be there.
CERTIFICATES: Final = ObjectKind(
    group="cert-manager.io", version="v1", plural="certificates", name="Certificate"
)
STORAGE_CLASSES: Final = ObjectKind(
    group="storage.k8s.io",
    version="v1",
    plural="storageclasses",
    name="StorageClass",
    namespaced=False,
)
EVENTS: Final = ObjectKind(group="", version="v1", plural="events", name="Event")
LEASES: Final = ObjectKind(group="coordination.k8s.io", version="v1", plural="leases", name="Lease")

#: The kinds of objects that the operator makes for a cluster.
OWNED: Final = (SERVICE_ACCOUNTS, SERVICES, BUDGETS, STATEFUL_SETS, DEPLOYMENTS, POLICIES)


class KubernetesError(Trouble):
    """The API server refused, or was not reached (then ``status`` is 0); in its own words."""

    retryable = True

    def __init__(self, status: int, message: str, *, maybe_applied: bool = False) -> None:
        super().__init__(message)
        self.status = status
        #: It may have happened all the same: only reading again tells.
        self.maybe_applied = maybe_applied


class NotPermittedError(KubernetesError):
    """The role that the operator runs under does not allow the call."""


class GoneError(KubernetesError):
    """There is no object of this name, or its uid is not the one that was meant."""


class ObjectChangedError(KubernetesError):
    """The object has changed: its version is not the one that was meant."""


class Kubernetes(abc.ABC):
    """Nine verbs. Each may raise ``KubernetesError``; no verb tries again by itself."""

    @abc.abstractmethod
    async def get(self, kind: ObjectKind, namespace: str, name: str) -> Json | None:
        """Read one object as it stands now (never from a cache); None: there is none."""

    @abc.abstractmethod
    async def list(self, kind: ObjectKind, namespace: str, *, labels: str = "") -> list[Json]:
        """Read the objects of a namespace ("": of all) that have these labels, sorted by name."""

    @abc.abstractmethod
    async def create(self, kind: ObjectKind, body: Json) -> None:
        """Create an object."""

    @abc.abstractmethod
    async def apply(self, kind: ObjectKind, body: Json, *, subresource: str = "") -> None:
        """Give the object every field of ``body``, by server-side apply.

        A field that another manager has set to another value is overwritten. If ``metadata.uid`` is
        in the body, an object with another uid raises ``GoneError``. If
        ``metadata.resourceVersion`` is in it, another version raises ``ObjectChangedError``.
        """

    @abc.abstractmethod
    async def edit(self, kind: ObjectKind, seen: Json, changes: Json) -> None:
        """Merge ``changes`` into this very object at this very version; a None removes a field.

        A list is replaced as a whole. ``seen`` is the object as it was read. Raises ``GoneError``
        for another object, and ``ObjectChangedError`` for another version.
        """

    @abc.abstractmethod
    async def release(self, kind: ObjectKind, seen: Json) -> None:
        """Take the operator's finalizer off this very object; other finalizers stay.

        It does not matter which manager put the finalizer on. ``seen`` is the object as it was
        read, with the finalizer. The call is refused if the finalizer has another place in the list
        by now. Finalizers that others have added behind it do not matter.
        """

    @abc.abstractmethod
    async def delete(
        self, kind: ObjectKind, namespace: str, name: str, *, uid: str, orphans: bool = False
    ) -> None:
        """Delete this very object and what it owns; if it is gone already, that counts as done.

        With ``orphans`` what it owns stays, without this owner. The object is there until then.
        """

    @abc.abstractmethod
    async def log(self, namespace: str, pod: str, *, lines: int) -> str | None:
        """Read the end of the log of a pod's first container; None: there is no such log."""

    @abc.abstractmethod
    async def close(self) -> None:
        """Close the connections."""
