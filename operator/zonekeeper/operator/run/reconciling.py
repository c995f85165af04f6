"""Turns: a turn looks, decides, writes the status, and acts. Each resource has a task of its own.

A task does one turn at a time. An event or a timer begins a turn. An event is only a hint: a turn
reads everything that it decides from. A failed act is shown in the status, and the next turn tries
again. The pause doubles with each failure, and with each turn that repeats the acts of the one
before. So a resource that cannot be built does not keep the operator or the API server busy.

The status is written before the acts, and only over the version of the resource that the turn has
read. If the resource has changed since, the turn does nothing more, and the next turn looks again.
The reason: once the status holds an instance, the schema refuses certain edits of the spec. An edit
between the look and the status would otherwise be locked in, while the acts still built the spec
from before the edit.
"""

import asyncio
import logging
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from zonekeeper.operator.cluster import desired
from zonekeeper.operator.kubernetes.api import (
    BOOKIE_CLUSTERS,
    EVENTS,
    FIELD_MANAGER,
    GoneError,
    Json,
    Kubernetes,
    KubernetesError,
    ObjectChangedError,
)
from zonekeeper.operator.plan import planning
from zonekeeper.operator.plan.conditions import Notice
from zonekeeper.operator.plan.plans import Action, TurnPlan
from zonekeeper.operator.plan.predicates import Predicate
from zonekeeper.operator.roots.roots import Opener, Roots
from zonekeeper.operator.run import observing
from zonekeeper.operator.run.acting import Actor
from zonekeeper.placement.base.troubles import Trouble

PAUSE_MS: Final = 1_000
PAUSE_MS_MAX: Final = 60_000
EVENT_MESSAGE_MAX: Final = 1_000

_logger = logging.getLogger(__name__)

#: Gives wall time in UTC.
Clock = Callable[[], datetime]


@dataclass(frozen=True, slots=True, order=True)
class Key:
    """Names a resource."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class Reconciler:
    """Does the turns of one resource."""

    def __init__(self, kubernetes: Kubernetes, opener: Opener, key: Key, clock: Clock) -> None:
        self._kubernetes = kubernetes
        self._root = Roots(opener)
        self._actor = Actor(kubernetes, self._root)
        self._key = key
        self._clock = clock
        self._failures: tuple[str, ...] = ()
        self._last: tuple[Action, ...] = ()
        self._waited_for: Predicate | None = None
        self._pause_ms = 0

    async def turn(self) -> int | None:
        """Do one turn; give the time until the next one in ms, or None if the resource is gone."""
        resource = await self._kubernetes.get(BOOKIE_CLUSTERS, self._key.namespace, self._key.name)
        if resource is None:
            return None
        wanted = desired.read(resource)
        seen = await observing.look(self._kubernetes, self._root, resource, wanted, self._failures)
        plan = planning.decide(wanted, seen, _text(self._clock()))
        if not await self._say(plan, resource):
            return self._pause(planning.SOON_MS)
        self._name_the_wait(plan)
        for action in plan.actions:
            _logger.info("%s: %s", self._key, _short(action))
        address = desired.metadata_uri(resource)
        self._failures = await self._actor.perform(plan.actions, resource, address)
        for failure in self._failures:
            _logger.warning("%s: %s", self._key, failure)
        return self._next(plan)

    async def close(self) -> None:
        """Close the metadata store."""
        await self._root.close()

    def _name_the_wait(self, plan: TurnPlan) -> None:
        """Log the wait of a plan, each time that its predicate changes."""
        waiting = plan.waits_for
        predicate = None if waiting is None else waiting.predicate
        if waiting is not None and predicate != self._waited_for:
            _logger.info(
                "%s: waits for %s: %s (what to do: %s)",
                self._key,
                waiting.predicate,
                waiting.why,
                waiting.predicate.runbook,
            )
        self._waited_for = predicate

    def _next(self, plan: TurnPlan) -> int:
        """Give the time until the next turn; it grows while the same acts are tried again."""
        again = bool(plan.actions) and plan.actions == self._last
        self._last = plan.actions
        if not (self._failures or again):
            self._pause_ms = 0
            return plan.recheck_ms
        return self._pause(plan.recheck_ms)

    def _pause(self, least_ms: int) -> int:
        self._pause_ms = min(max(2 * self._pause_ms, PAUSE_MS), PAUSE_MS_MAX)
        return max(self._pause_ms, least_ms)

    async def _say(self, plan: TurnPlan, resource: Json) -> bool:
        """Write the status, if it has changed, and then its events.

        False: the resource is gone, or has changed since it was read.
        """
        meta = resource["metadata"]
        if plan.status == resource.get("status", {}):
            return True
        named = {name: meta[name] for name in ("name", "namespace", "uid", "resourceVersion")}
        try:
            await self._kubernetes.apply(
                BOOKIE_CLUSTERS, {"metadata": named, "status": plan.status}, subresource="status"
            )
        except (GoneError, ObjectChangedError):
            return False
        for notice in plan.notices:
            _logger.log(
                logging.WARNING if notice.warning else logging.INFO,
                "%s: %s",
                self._key,
                notice.message,
            )
            try:
                await self._kubernetes.create(EVENTS, self._event(notice, resource))
            except KubernetesError as error:
                _logger.warning("%s: an event was not stored: %s", self._key, error)
        return True

    def _event(self, notice: Notice, resource: Json) -> Json:
        meta = resource["metadata"]
        now = _text(self._clock())
        return {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.name,
            "metadata": {
                "name": f"{meta['name']}.{uuid.uuid4().hex[:16]}",
                "namespace": meta["namespace"],
            },
            "involvedObject": {
                "apiVersion": BOOKIE_CLUSTERS.api_version,
                "kind": BOOKIE_CLUSTERS.name,
                "name": meta["name"],
                "namespace": meta["namespace"],
                "uid": meta["uid"],
            },
            "type": "Warning" if notice.warning else "Normal",
            "reason": notice.reason,
            "message": notice.message[:EVENT_MESSAGE_MAX],
            "source": {"component": FIELD_MANAGER},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }


class Reconcilers:
    """The tasks of all resources; they belong to ``group``."""

    def __init__(
        self, kubernetes: Kubernetes, opener: Opener, group: asyncio.TaskGroup, clock: Clock
    ) -> None:
        self._kubernetes = kubernetes
        self._opener = opener
        self._group = group
        self._clock = clock
        self._woken: dict[Key, asyncio.Event] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def wake(self, key: Key) -> None:
        """Begin a turn of a resource, now or after the turn that runs."""
        woken = self._woken.get(key)
        if woken is None:
            woken = self._woken[key] = asyncio.Event()
            task = self._group.create_task(self._keep(key, woken), name=str(key))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        woken.set()

    def stop(self) -> None:
        """End all turns; the next operator finds and finishes what is half done."""
        for task in tuple(self._tasks):
            task.cancel()

    async def _keep(self, key: Key, woken: asyncio.Event) -> None:
        reconciler = Reconciler(self._kubernetes, self._opener, key, self._clock)
        pause_ms = PAUSE_MS
        try:
            while True:
                woken.clear()
                try:
                    wait_ms = await reconciler.turn()
                    pause_ms = PAUSE_MS
                except Exception as error:  # a failure of one resource must not end the other tasks
                    _logger.warning("%s: the turn failed: %r", key, error, exc_info=_bug(error))
                    wait_ms, pause_ms = pause_ms, min(2 * pause_ms, PAUSE_MS_MAX)
                if wait_ms is None and not woken.is_set():
                    return
                await _wait(woken, wait_ms or 0)
        finally:
            del self._woken[key]
            await reconciler.close()


async def _wait(woken: asyncio.Event, wait_ms: int) -> None:
    try:
        await asyncio.wait_for(woken.wait(), wait_ms / 1000)
    except TimeoutError:
        return


def _bug(error: Exception) -> bool:
    """Is the error a bug of ours, whose traceback is logged?"""
    return not isinstance(error, Trouble | OSError)


def _text(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _short(action: Action) -> str:
    kind = getattr(action, "kind", None)
    body = getattr(action, "body", None)
    name = body["metadata"]["name"] if body else getattr(action, "name", "")
    return " ".join(str(part) for part in (type(action).__name__, kind and kind.name, name) if part)
