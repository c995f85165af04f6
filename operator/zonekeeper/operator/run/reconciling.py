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
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from zonekeeper.operator.cluster import desired, kept_spec
from zonekeeper.operator.cluster.desired import Desired, RefusedResource
from zonekeeper.operator.kubernetes.api import (
    BOOKIE_CLUSTERS,
    GoneError,
    Json,
    Kubernetes,
    KubernetesError,
    ObjectChangedError,
)
from zonekeeper.operator.lead.leading import Right
from zonekeeper.operator.plan import planning
from zonekeeper.operator.plan.plans import Action, TurnPlan
from zonekeeper.operator.plan.predicates import Predicate
from zonekeeper.operator.plan.scaling import leaving
from zonekeeper.operator.roll.gates import RollGate
from zonekeeper.operator.roots.followed import FollowedBookies, Spawn
from zonekeeper.operator.roots.roots import Opener, RootFound, Roots
from zonekeeper.operator.run import observing, telling, turn_figures
from zonekeeper.operator.run.acting import Actor
from zonekeeper.operator.run.holdings_reading import HoldingsReading
from zonekeeper.operator.run.ledger_reading import LedgerReading
from zonekeeper.operator.run.observing import Earlier, LookTime
from zonekeeper.operator.run.telling import EventTeller
from zonekeeper.operator.run.turn_figures import TurnFigures, TurnTally
from zonekeeper.operator.sight import budget_sight
from zonekeeper.operator.sight.observed import Observed
from zonekeeper.operator.sight.watch_sight import WatchSight
from zonekeeper.placement.base.troubles import Trouble

PAUSE_MS: Final = 1_000
PAUSE_MS_MAX: Final = 60_000
#: An event begins a turn no sooner than this time after the last turn began: events that come close
#: together are one turn.
GATHERED_MS: Final = 1_000

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Clocks:
    """The clocks of the operator's process."""

    #: Gives wall time in UTC, for people.
    wall: Callable[[], datetime]
    #: Gives time that never goes back, for decisions.
    monotonic_ms: Callable[[], int]


@dataclass(frozen=True, slots=True, order=True)
class Key:
    """Names a resource."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnSurroundings:
    """What the turns of one process share."""

    kubernetes: Kubernetes
    opener: Opener
    clocks: Clocks
    #: Each act asks it.
    right: Right
    #: Begins work that goes on beside the turns.
    spawn: Spawn
    #: The operator's own image; None: it was not told.
    own_image: str | None = None


class Reconciler:
    """Does the turns of one resource."""

    def __init__(
        self, around: TurnSurroundings, key: Key, *, wake: Callable[[], None] | None = None
    ) -> None:
        """``wake`` is called where bookies come, go or move, for another turn.

        Without it bookies are not followed: each turn reads all that it asks of them.
        """
        self._kubernetes = around.kubernetes
        self._own_image = around.own_image
        bookies = None if wake is None else FollowedBookies(around.spawn, wake)
        self._root = Roots(around.opener, wall_ms=self._wall_ms, bookies=bookies)
        self._reading = LedgerReading(around.spawn)
        self._held = HoldingsReading(self._root, around.spawn)
        self._actor = Actor(around.kubernetes, self._root, around.right)
        self._teller = EventTeller(around.kubernetes, around.clocks.wall)
        self._key = key
        self._clocks = around.clocks
        self._earlier = Earlier()
        self._last: tuple[Action, ...] = ()
        self._waited_for: Predicate | RollGate | None = None
        self._pause_ms = 0
        #: What the last turn has found; None: no turn came so far.
        self.shown: TurnFigures | None = None

    async def turn(self) -> int | None:
        """Do one turn; give the time until the next one in ms, or None if the resource is gone."""
        resource = await self._kubernetes.get(BOOKIE_CLUSTERS, self._key.namespace, self._key.name)
        if resource is None:
            return None
        resource = desired.with_own_image(resource, self._own_image)
        wanted = desired.read(resource)
        seen = await self._look(resource, wanted)
        plan = planning.decide(wanted, seen, telling.text_of(self._clocks.wall()))
        self.shown = turn_figures.of_plan(plan)
        self._earlier = self._seen(seen)
        judged = observing.judged_of(wanted, seen)
        await self._read_ledgers(seen, kept_spec.address(seen.kept, resource), judged)
        if not await self._say(plan, resource):
            return self._pause(planning.SOON_MS)
        self._name_the_wait(plan)
        for action in plan.actions:
            _logger.info("%s: %s", self._key, _short(action))
        address = kept_spec.address(seen.kept, resource)
        failures = await self._actor.perform(plan.actions, resource, address)
        for failure in failures:
            _logger.warning("%s: %s", self._key, failure)
        refused = self._actor.refused_orders
        self._earlier = replace(self._earlier, failures=failures, refused_orders=refused)
        return self._next(plan)

    async def caught_up(self) -> None:
        """Wait until the ledgers are read, if they are being read."""
        await self._reading.wait()
        await self._held.wait()

    async def _look(self, resource: Json, wanted: Desired | RefusedResource) -> Observed:
        """Look, and let what is to be known of bookies that are not asked for be read meanwhile."""
        moment = LookTime(now_ms=self._clocks.monotonic_ms(), wall_ms=self._wall_ms())
        seen = await observing.look(
            self._kubernetes, self._root, resource, wanted, self._earlier, moment
        )
        judged = observing.judged_of(wanted, seen)
        known = self._held.take(seen.holdings, seen.root, now_ms=moment.now_ms)
        known = observing.still_held(judged, seen, known, moment.now_ms)
        seen = replace(seen, holdings=known)
        self._held.want(observing.question(judged, seen, moment))
        return seen

    def _wall_ms(self) -> int:
        return int(self._clocks.wall().timestamp() * 1_000)

    def _seen(self, seen: Observed) -> Earlier:
        """Give what this turn leaves to the next one, if it can do nothing more."""
        return replace(
            self._earlier,
            watched=seen.watched,
            nodes=seen.nodes,
            rooms=seen.rooms,
            certificates=seen.certificates,
            holdings=seen.holdings,
            basis=observing.basis_of(seen.root),
            changed_ms=seen.changed_ms,
        )

    async def _read_ledgers(
        self, seen: Observed, address: str | None, judged: Desired | None
    ) -> None:
        """Let the ledgers be read, unless a bookie is away: then they are read when it is back.

        One that is not asked for may never come back, and is removed also then.
        """
        basis, root = observing.basis_of(seen.root), seen.root
        if basis is None or address is None or not isinstance(root, RootFound):
            self._reading.give_up()
            self._earlier = replace(self._earlier, ledgers=None)
            return
        # While a drain asks for its zone, some of its bookies are away already.
        is_away = any(
            pod.name not in root.registered
            and (judged is None or leaving.is_asked_for(judged, pod.name))
            for pod in seen.pods
        )
        if is_away and not budget_sight.is_asked_for(seen):
            return
        try:
            cluster = await self._root.cluster(address, instance=root.instance)
        except Trouble as error:
            _logger.warning("%s: the ledgers are not read: %s", self._key, error)
            return
        now_ms = self._clocks.monotonic_ms()
        sight = self._reading.want(cluster, basis, now_ms=now_ms)
        self._earlier = replace(self._earlier, ledgers=sight)

    @property
    def failed_acts(self) -> int:
        """The number of acts of the last turn that failed."""
        return len(self._earlier.failures)

    @property
    def watched(self) -> WatchSight:
        """What was seen of the zone watch, up to the last turn."""
        return self._earlier.watched

    async def close(self) -> None:
        """Close the metadata store."""
        self._reading.give_up()
        self._held.give_up()
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
        if not (self._earlier.failures or again):
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
        if _bare(plan.status) == _bare(resource.get("status", {})):
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
                await self._teller.tell(notice, resource)
            except KubernetesError as error:
                _logger.warning("%s: an event was not stored: %s", self._key, error)
        return True


class Reconcilers:
    """The tasks of all resources; they belong to ``group``."""

    def __init__(
        self, around: TurnSurroundings, group: asyncio.TaskGroup, *, tally: TurnTally
    ) -> None:
        self._around = around
        self._group = group
        self._tally = tally
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
        reconciler = Reconciler(self._around, key, wake=woken.set)
        pause_ms = PAUSE_MS
        self._tally.begun(str(key))
        try:
            while True:
                woken.clear()
                begun_ms = self._around.clocks.monotonic_ms()
                try:
                    wait_ms = await reconciler.turn()
                    pause_ms = PAUSE_MS
                    self._tally.ended_well(str(key), reconciler.shown, reconciler.failed_acts)
                except Exception as error:  # a failure of one resource must not end the other tasks
                    _logger.warning("%s: the turn failed: %r", key, error, exc_info=_bug(error))
                    wait_ms, pause_ms = pause_ms, min(2 * pause_ms, PAUSE_MS_MAX)
                    self._tally.failed(str(key))
                if wait_ms is None and not woken.is_set():
                    return
                await self._wait(woken, begun_ms, wait_ms or 0)
        finally:
            del self._woken[key]
            self._tally.gone(str(key))
            await reconciler.close()

    async def _wait(self, woken: asyncio.Event, begun_ms: int, wait_ms: int) -> None:
        """Wait for the next turn: the time of one that has begun, or an event's."""
        due_ms = self._around.clocks.monotonic_ms() + wait_ms
        try:
            await asyncio.wait_for(woken.wait(), wait_ms / 1000)
        except TimeoutError:
            return
        now_ms = self._around.clocks.monotonic_ms()
        gathered_ms = min(begun_ms + GATHERED_MS, due_ms) - now_ms
        await asyncio.sleep(max(0, gathered_ms) / 1000)


def _bare(status: object) -> object:
    """Give a status without empty lists: the API server drops a list that an apply empties."""
    if not isinstance(status, dict):
        return status
    return {name: _bare(value) for name, value in status.items() if value != []}


def _bug(error: Exception) -> bool:
    """Is the error a bug of ours, whose traceback is logged?"""
    return not isinstance(error, Trouble | OSError)


def _short(action: Action) -> str:
    kind = getattr(action, "kind", None)
    body = getattr(action, "body", None)
    name = body["metadata"]["name"] if body else getattr(action, "name", "")
    return " ".join(str(part) for part in (type(action).__name__, kind and kind.name, name) if part)
