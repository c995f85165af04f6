"""An API server at whose calls an operator dies, whose answers are lost, whose reads are old."""

import enum
from collections.abc import Awaitable, Callable

from tests.operator import resources
from tests.operator.worlds import World
from zonekeeper.operator.kubernetes.api import Json, Kubernetes, KubernetesError, ObjectKind
from zonekeeper.operator.kubernetes.memory_api import MemoryKubernetes
from zonekeeper.operator.run.reconciling import Reconciler


class CallFault(enum.Enum):
    """What happens at one change."""

    #: The operator ends before it, or after it.
    DEATH_BEFORE = enum.auto()
    DEATH_AFTER = enum.auto()
    #: It is made, and the answer is lost.
    LOST = enum.auto()
    #: The operator ends after it, and the next one sees in its first turn what was before.
    STALE = enum.auto()


class OperatorEndedError(BaseException):
    """The operator's process has ended, in the midst of a turn."""


class FaultyKubernetes(Kubernetes):
    """Passes calls on; at the change of this number, a fault happens once."""

    def __init__(self, behind: MemoryKubernetes) -> None:
        self._behind = behind
        self.fault: CallFault | None = None
        self.at = 0
        self.changes = 0
        #: What reads see; None: what is there.
        self._before: MemoryKubernetes | None = None

    def look_anew(self) -> None:
        """Let reads see what is there."""
        self._before = None

    def see(self, old: MemoryKubernetes) -> None:
        """Let reads see what was there, until they look anew."""
        self._before = old

    async def get(self, kind: ObjectKind, namespace: str, name: str) -> Json | None:
        return await (self._before or self._behind).get(kind, namespace, name)

    async def list(self, kind: ObjectKind, namespace: str, *, labels: str = "") -> list[Json]:
        return await (self._before or self._behind).list(kind, namespace, labels=labels)

    async def create(self, kind: ObjectKind, body: Json) -> None:
        await self._change(lambda: self._behind.create(kind, body))

    async def apply(self, kind: ObjectKind, body: Json, *, subresource: str = "") -> None:
        await self._change(lambda: self._behind.apply(kind, body, subresource=subresource))

    async def edit(self, kind: ObjectKind, seen: Json, changes: Json) -> None:
        await self._change(lambda: self._behind.edit(kind, seen, changes))

    async def log(self, namespace: str, pod: str, *, lines: int) -> str | None:
        return await self._behind.log(namespace, pod, lines=lines)

    async def release(self, kind: ObjectKind, seen: Json) -> None:
        await self._change(lambda: self._behind.release(kind, seen))

    async def delete(
        self, kind: ObjectKind, namespace: str, name: str, *, uid: str, orphans: bool = False
    ) -> None:
        await self._change(
            lambda: self._behind.delete(kind, namespace, name, uid=uid, orphans=orphans)
        )

    async def close(self) -> None:
        return

    async def _change(self, change: Callable[[], Awaitable[None]]) -> None:
        self.changes += 1
        if self.fault is None or self.changes != self.at:
            await change()
            return
        if self.fault is CallFault.DEATH_BEFORE:
            raise OperatorEndedError
        if self.fault is CallFault.STALE:
            self._before = self._behind.copy()
        await change()
        if self.fault is CallFault.LOST:
            raise KubernetesError(0, "no answer", maybe_applied=True)
        raise OperatorEndedError


class FaultyCallsWorld(World):
    """The calls of its operator meet a fault; an operator that has ended has a successor."""

    faulty: FaultyKubernetes

    def new_operator(self) -> Reconciler:
        if not hasattr(self, "faulty"):
            self.faulty = FaultyKubernetes(self.kubernetes)
        return Reconciler(self.surroundings(kubernetes=self.faulty), resources.KEY)

    async def turn(self) -> int | None:
        try:
            wait_ms = await super().turn()
        except OperatorEndedError:
            await self.reconciler.close()
            self.reconciler = self.new_operator()
            return 0
        except KubernetesError:
            return 0  # the loop of turns goes on after a pause
        self.faulty.look_anew()
        return wait_ms
