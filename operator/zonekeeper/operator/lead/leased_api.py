"""Kubernetes for the process that may act: each write asks for the right before its call."""

from zonekeeper.operator.kubernetes.api import Json, Kubernetes, ObjectKind
from zonekeeper.operator.lead.leading import Right


class LeasedKubernetes(Kubernetes):
    """Reads at any time, and writes only while the process may act."""

    def __init__(self, kubernetes: Kubernetes, right: Right) -> None:
        self._kubernetes = kubernetes
        self._right = right

    async def get(self, kind: ObjectKind, namespace: str, name: str) -> Json | None:
        """Read one object."""
        return await self._kubernetes.get(kind, namespace, name)

    async def list(self, kind: ObjectKind, namespace: str, *, labels: str = "") -> list[Json]:
        """Read objects by labels."""
        return await self._kubernetes.list(kind, namespace, labels=labels)

    async def create(self, kind: ObjectKind, body: Json) -> None:
        """Create an object; raises ``LeaseLostError``."""
        await self._right.perform(lambda: self._kubernetes.create(kind, body))

    async def apply(self, kind: ObjectKind, body: Json, *, subresource: str = "") -> None:
        """Apply an object; raises ``LeaseLostError``."""
        await self._right.perform(
            lambda: self._kubernetes.apply(kind, body, subresource=subresource)
        )

    async def edit(self, kind: ObjectKind, seen: Json, changes: Json) -> None:
        """Change fields of an object; raises ``LeaseLostError``."""
        await self._right.perform(lambda: self._kubernetes.edit(kind, seen, changes))

    async def release(self, kind: ObjectKind, seen: Json) -> None:
        """Take the operator's finalizer off; raises ``LeaseLostError``."""
        await self._right.perform(lambda: self._kubernetes.release(kind, seen))

    async def delete(
        self, kind: ObjectKind, namespace: str, name: str, *, uid: str, orphans: bool = False
    ) -> None:
        """Delete an object; raises ``LeaseLostError``."""
        await self._right.perform(
            lambda: self._kubernetes.delete(kind, namespace, name, uid=uid, orphans=orphans)
        )

    async def log(self, namespace: str, pod: str, *, lines: int) -> str | None:
        """Read the end of a log."""
        return await self._kubernetes.log(namespace, pod, lines=lines)

    async def close(self) -> None:
        """Close the connections."""
        await self._kubernetes.close()
