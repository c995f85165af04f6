"""Processes of the operator stand for a Lease on one twin; each has a clock of its own."""

import asyncio
import datetime
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

import pytest

from tests.operator.resources import clock
from tests.support import virtual_time
from zonekeeper.operator.kubernetes.api import (
    EVENTS,
    LEASES,
    SERVICES,
    Json,
    KubernetesError,
    NotPermittedError,
    ObjectKind,
)
from zonekeeper.operator.kubernetes.memory_api import MemoryKubernetes
from zonekeeper.operator.lead import checking
from zonekeeper.operator.lead.checking import NoOperatorError
from zonekeeper.operator.lead.keeping_lease import LeaseClocks, LeaseLostError
from zonekeeper.operator.lead.leading import ActingRight
from zonekeeper.operator.lead.lease_objects import LEASE_NAME, LeasePlace
from zonekeeper.operator.lead.leased_api import LeasedKubernetes
from zonekeeper.operator.run import standing_by

PLACE = LeasePlace("default")
SERVICE: Json = {"metadata": {"name": "x", "namespace": "logs"}}


def epoch() -> datetime.datetime:
    """A wall clock that shows nonsense, and always the same."""
    return datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


class Machine:
    """The machine of one process: its clock, and whether the process is frozen."""

    def __init__(self, kubernetes: MemoryKubernetes, *, shows_ms: int = 0) -> None:
        self.kubernetes = kubernetes
        #: The difference of its clock to the loop's.
        self.shows_ms = shows_ms
        self.heard: list[str] = []
        self.errors: list[Exception] = []
        self.acting = asyncio.Event()
        self.stop = asyncio.Event()

    def elapsed_ms(self) -> int:
        return int(asyncio.get_running_loop().time() * 1_000) + self.shows_ms

    def right(
        self, me: str, *places: LeasePlace, wall: Callable[[], datetime.datetime] = clock
    ) -> ActingRight:
        clocks = LeaseClocks(elapsed_ms=self.elapsed_ms, wall=wall)
        return ActingRight(self.kubernetes, places or (PLACE,), me, clocks)

    async def hears(self, place: LeasePlace, holder: str) -> None:
        self.heard.append(f"{place}: {holder}")

    async def live(self, right: ActingRight) -> None:
        """Act until told to stop, as the operator's process does."""
        try:
            async with right.held(self.hears):
                self.acting.set()
                await self.stop.wait()
        except* LeaseLostError as group:
            self.errors.extend(group.exceptions)
        finally:
            self.acting.clear()


def lease(kubernetes: MemoryKubernetes) -> Json:
    found = kubernetes.peek(LEASES, "default", LEASE_NAME)
    assert found is not None
    spec: Json = found["spec"]
    return spec


@virtual_time.played
async def test_the_second_stands_by_until_the_first_is_gone_for_the_time_of_the_lease() -> None:
    kubernetes = MemoryKubernetes()
    first, second = Machine(kubernetes), Machine(kubernetes, shows_ms=10**9)
    async with asyncio.TaskGroup() as tasks:
        one = tasks.create_task(first.live(first.right("z_a_1")))
        await first.acting.wait()
        two = tasks.create_task(second.live(second.right("z_b_1", wall=epoch)))
        await asyncio.sleep(600)
        assert not second.acting.is_set()
        assert second.heard == ["default/zonekeeper-operator: z_a_1"]

        one.cancel()  # killed: nothing is given up
        began_s = asyncio.get_running_loop().time()
        await second.acting.wait()
        waited_s = asyncio.get_running_loop().time() - began_s

        assert 11 <= waited_s <= 16
        assert lease(kubernetes)["holderIdentity"] == "z_b_1"
        assert lease(kubernetes)["leaseTransitions"] == 1
        two.cancel()


@virtual_time.played
async def test_one_that_ends_in_order_makes_way_at_once() -> None:
    kubernetes = MemoryKubernetes()
    first, second = Machine(kubernetes), Machine(kubernetes)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(first.live(first.right("z_a_1")))
        await first.acting.wait()
        two = tasks.create_task(second.live(second.right("z_b_1")))
        await asyncio.sleep(30)
        first.stop.set()
        began_s = asyncio.get_running_loop().time()
        await second.acting.wait()

        assert asyncio.get_running_loop().time() - began_s <= 1
        two.cancel()


@virtual_time.played
async def test_the_lease_is_not_given_up_while_an_act_is_under_way() -> None:
    kubernetes = MemoryKubernetes()
    first, second = Machine(kubernetes), Machine(kubernetes)
    right = first.right("z_a_1")
    over = asyncio.Event()

    async def act() -> None:
        await asyncio.sleep(60)
        over.set()

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(first.live(right))
        await first.acting.wait()
        acting = tasks.create_task(right.perform(act))
        await asyncio.sleep(0)
        acting.cancel()
        first.stop.set()
        two = tasks.create_task(second.live(second.right("z_b_1")))
        await asyncio.sleep(1)

        assert lease(kubernetes)["holderIdentity"] == "z_a_1", "its holder has not ended"
        await second.acting.wait()
        two.cancel()
        await over.wait()


@virtual_time.played
async def test_a_process_that_was_frozen_and_comes_back_writes_nothing_and_ends() -> None:
    kubernetes = MemoryKubernetes()
    frozen = Machine(kubernetes)
    right = frozen.right("z_a_1")
    leased = LeasedKubernetes(kubernetes, right)
    writes: list[str] = []
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(frozen.live(right))
        await frozen.acting.wait()
        await leased.create(SERVICES, SERVICE)
        await asyncio.sleep(100)  # it renews meanwhile
        assert right.left_ms()
        found = await leased.get(SERVICES, "logs", "x")
        assert found is not None

        frozen.shows_ms += 11_000  # the clock jumps: the next line comes right after the one before
        kubernetes.disturb = lambda verb, kind: writes.append(f"{verb} {kind.name}")
        calls: list[Callable[[], Awaitable[None]]] = [
            partial(leased.create, SERVICES, SERVICE),
            partial(leased.apply, SERVICES, found),
            partial(leased.apply, SERVICES, found, subresource="status"),
            partial(leased.release, SERVICES, found),
            partial(leased.delete, SERVICES, "logs", "x", uid=found["metadata"]["uid"]),
        ]
        for call in calls:
            with pytest.raises(LeaseLostError, match="nothing was done"):
                await call()
        assert await leased.list(SERVICES, "logs"), "it may still look"

    assert len(frozen.errors) == 1
    assert [one for one in writes if not one.startswith(("get", "list"))] == []


@virtual_time.played
async def test_one_whose_lease_was_taken_ends_at_its_next_look() -> None:
    kubernetes = MemoryKubernetes()
    robbed = Machine(kubernetes)
    right = robbed.right("z_a_1")
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(robbed.live(right))
        await robbed.acting.wait()
        item = kubernetes.peek(LEASES, "default", LEASE_NAME)
        assert item is not None
        item["spec"]["holderIdentity"] = "z_b_1"
        kubernetes.put(LEASES, item)

    assert "z_b_1 holds it now" in str(robbed.errors)
    assert lease(kubernetes)["holderIdentity"] == "z_b_1"


@virtual_time.played
async def test_an_api_server_that_is_away_for_seconds_ends_nothing_and_for_longer_does() -> None:
    kubernetes = MemoryKubernetes()
    holder = Machine(kubernetes)

    def away(verb: str, kind: ObjectKind) -> None:
        raise KubernetesError(0, "no answer")

    async with asyncio.TaskGroup() as tasks:
        right = holder.right("z_a_1")
        living = tasks.create_task(holder.live(right))
        await holder.acting.wait()
        for _ in range(5):
            kubernetes.disturb = away
            await asyncio.sleep(6)
            kubernetes.disturb = lambda verb, kind: None
            await asyncio.sleep(4)
        assert holder.acting.is_set()

        kubernetes.disturb = away
        await living
    assert "no answer" in str(holder.errors)


@virtual_time.played
async def test_an_answer_that_is_lost_makes_neither_two_holders_nor_none() -> None:
    kubernetes = MemoryKubernetes()
    first, second = Machine(kubernetes), Machine(kubernetes)

    class Losing(MemoryKubernetes):
        """Does each write, and then says that there was no answer."""

        lost = 0

        async def apply(self, kind: ObjectKind, body: Json, *, subresource: str = "") -> None:
            await kubernetes.apply(kind, body, subresource=subresource)
            self._lose()

        async def create(self, kind: ObjectKind, body: Json) -> None:
            await kubernetes.create(kind, body)
            self._lose()

        async def get(self, kind: ObjectKind, namespace: str, name: str) -> Json | None:
            return await kubernetes.get(kind, namespace, name)

        def _lose(self) -> None:
            self.lost += 1
            if self.lost % 2:
                raise KubernetesError(0, "no answer", maybe_applied=True)

    first.kubernetes = Losing()
    async with asyncio.TaskGroup() as tasks:
        one = tasks.create_task(first.live(first.right("z_a_1")))
        two = tasks.create_task(second.live(second.right("z_b_1")))
        await asyncio.sleep(300)
        acting = [machine.acting.is_set() for machine in (first, second)]
        assert sorted(acting) == [False, True]
        one.cancel()
        two.cancel()


@virtual_time.played
async def test_without_the_right_to_read_leases_a_process_ends_at_its_start() -> None:
    kubernetes = MemoryKubernetes()

    def forbidden(verb: str, kind: ObjectKind) -> None:
        raise NotPermittedError(403, "leases is forbidden")

    kubernetes.disturb = forbidden
    machine = Machine(kubernetes)
    told = []
    try:
        await machine.live(machine.right("z_a_1"))
    except* NotPermittedError as group:
        told = [str(one) for one in group.exceptions]
    assert told == ["leases is forbidden"]


@virtual_time.played
async def test_of_two_that_serve_some_of_the_same_namespaces_one_stands_by() -> None:
    kubernetes = MemoryKubernetes()
    first, second = Machine(kubernetes), Machine(kubernetes)
    one, two, three = (LeasePlace(name) for name in ("one", "two", "three"))
    async with asyncio.TaskGroup() as tasks:
        a = tasks.create_task(first.live(first.right("z_a_1", one, two)))
        waiting = second.right("y_b_1", three, two)
        b = tasks.create_task(second.live(waiting))
        await first.acting.wait()
        await asyncio.sleep(300)

        assert not second.acting.is_set()
        assert not waiting.left_ms(), "it holds one Lease of two"
        assert second.heard == ["two/zonekeeper-operator: z_a_1"]
        first.stop.set()
        await second.acting.wait()
        a.cancel()
        b.cancel()


async def told_of(kubernetes: MemoryKubernetes, holder: str) -> list[Json]:
    await standing_by.tell(kubernetes, PLACE, holder, "z_a_1", clock)
    return await kubernetes.list(EVENTS, "default")


async def test_another_installation_is_told_of_in_an_event_and_a_replica_is_not() -> None:
    kubernetes = MemoryKubernetes()
    assert await told_of(kubernetes, "z_b_1") == []

    (event,) = await told_of(kubernetes, "y_a_1")

    assert (event["reason"], event["type"]) == ("StandsBy", "Warning")
    assert event["involvedObject"]["kind"] == "Lease"
    assert "y_a_1, of another installation" in event["message"]


async def test_an_event_that_cannot_be_stored_ends_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    kubernetes = MemoryKubernetes()

    def refuse(verb: str, kind: ObjectKind) -> None:
        raise NotPermittedError(403, "events is forbidden")

    kubernetes.disturb = refuse
    await standing_by.tell(kubernetes, PLACE, "y_a_1", "z_a_1", clock)

    assert "another installation" in caplog.text
    assert "events is forbidden" in caplog.text


@virtual_time.played
async def test_a_check_waits_for_a_renewal_and_names_the_holder() -> None:
    kubernetes = MemoryKubernetes()
    machine = Machine(kubernetes)
    async with asyncio.TaskGroup() as tasks:
        living = tasks.create_task(machine.live(machine.right("z_a_1")))
        await machine.acting.wait()

        assert await checking.acts(kubernetes, PLACE, "", "z") == "z_a_1"
        with pytest.raises(NoOperatorError, match="of the installation z; y stands by"):
            await checking.acts(kubernetes, PLACE, "", "y")
        living.cancel()
    with pytest.raises(NoOperatorError, match="z_a_1 does not renew it"):
        await checking.acts(kubernetes, PLACE, "", "z")
    with pytest.raises(NoOperatorError, match="nobody holds it"):
        await checking.acts(MemoryKubernetes(), PLACE, "", "z")


@virtual_time.played
async def test_a_lease_that_a_person_touches_or_spoils_has_one_holder_again() -> None:
    kubernetes = MemoryKubernetes()
    machine = Machine(kubernetes)
    async with asyncio.TaskGroup() as tasks:
        living = tasks.create_task(machine.live(machine.right("z_a_1")))
        await machine.acting.wait()
        item = kubernetes.peek(LEASES, "default", LEASE_NAME)
        assert item is not None
        item["metadata"]["annotations"] = {"zonekeeper.io/renewals": "many", "theirs": "x"}
        kubernetes.put(LEASES, item)
        await asyncio.sleep(60)
        assert machine.acting.is_set()

        kubernetes.mark_deleted(LEASES, "default", LEASE_NAME)
        await asyncio.sleep(60)
        assert machine.acting.is_set()
        assert lease(kubernetes)["holderIdentity"] == "z_a_1"
        living.cancel()
        with suppress(asyncio.CancelledError):
            await living


@virtual_time.played
async def test_a_holder_counts_its_time_from_the_begin_of_its_write() -> None:
    class Slow(MemoryKubernetes):
        """Writes at once, and answers three seconds later."""

        async def create(self, kind: ObjectKind, body: Json) -> None:
            await super().create(kind, body)
            await asyncio.sleep(3)

    kubernetes = Slow()
    machine = Machine(kubernetes)
    right = machine.right("z_a_1")
    async with asyncio.TaskGroup() as tasks:
        living = tasks.create_task(machine.live(right))
        await machine.acting.wait()
        assert right.left_ms() == 7_000
        living.cancel()


@virtual_time.played
async def test_of_two_that_take_the_same_lease_at_once_one_does() -> None:
    class Slow(MemoryKubernetes):
        """Has read at once, and answers a little later: all read before any writes."""

        async def get(self, kind: ObjectKind, namespace: str, name: str) -> Json | None:
            found = await super().get(kind, namespace, name)
            await asyncio.sleep(0.1)
            return found

    kubernetes = Slow()
    spec = {"holderIdentity": "x_gone_1", "leaseTransitions": 4}
    kubernetes.put(LEASES, {"metadata": {"name": LEASE_NAME, "namespace": "default"}, "spec": spec})
    machines = [Machine(kubernetes) for _ in range(3)]
    async with asyncio.TaskGroup() as tasks:
        living = [
            tasks.create_task(one.live(one.right(f"z_{number}_1")))
            for number, one in enumerate(machines)
        ]
        for _ in range(600):
            await asyncio.sleep(0.1)
            assert sum(one.acting.is_set() for one in machines) <= 1
        assert sum(one.acting.is_set() for one in machines) == 1
        assert lease(kubernetes)["leaseTransitions"] == 5
        for task in living:
            task.cancel()


@virtual_time.played
async def test_the_lease_is_given_up_when_the_last_act_has_ended() -> None:
    kubernetes = MemoryKubernetes()
    first, second = Machine(kubernetes), Machine(kubernetes)
    right = first.right("z_a_1")
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(first.live(right))
        await first.acting.wait()
        tasks.create_task(right.perform(lambda: asyncio.sleep(2)))
        await asyncio.sleep(0)
        first.stop.set()
        two = tasks.create_task(second.live(second.right("z_b_1")))
        began_s = asyncio.get_running_loop().time()
        await second.acting.wait()

        assert 2 <= asyncio.get_running_loop().time() - began_s <= 4
        two.cancel()
