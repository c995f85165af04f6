"""The turns of the pages' port: strangers are slowed, hosts alternate, and none is left waiting."""

import asyncio
from collections.abc import Iterable

import pytest

from tests.support import virtual_time
from zonekeeper.wire.running import looking
from zonekeeper.wire.socket import page_turns
from zonekeeper.wire.socket.handshakes import HandshakeLimits
from zonekeeper.wire.socket.page_turns import PageTurns

#: Two handshakes at once, and one a second from then on.
SLOW = HandshakeLimits(waiting_max=100, begun_max=100, failed_per_s=1.0, turns_max=2)


async def begun(
    turns: PageTurns, hosts: Iterable[str], *, shows: bool = False
) -> list[tuple[str, float]]:
    """Let peers of these hosts come at once; give when the handshake of each began."""
    loop, found = asyncio.get_running_loop(), list[tuple[str, float]]()
    start_s = loop.time()

    async def shake(host: str) -> None:
        async with turns.turn(host) as succeeded:
            found.append((host, round(loop.time() - start_s, 3)))
            if shows:
                succeeded()

    async with asyncio.TaskGroup() as tasks:
        for host in hosts:
            tasks.create_task(shake(host))
    return found


@virtual_time.played
async def test_peers_without_a_certificate_are_slowed_and_others_are_not() -> None:
    turns = PageTurns(SLOW)
    assert await begun(turns, "aaaaaaaa", shows=True) == [("a", 0.0)] * 8
    assert await begun(turns, "aaaa") == [("a", 0.0), ("a", 0.0), ("a", 1.0), ("a", 2.0)]


@virtual_time.played
async def test_hosts_alternate_so_that_a_probe_waits_for_one_other_handshake() -> None:
    turns = PageTurns(SLOW)
    await begun(turns, "aa")
    found = await begun(turns, "aaaaab")
    assert [host for host, _ in found[:3]] == ["a", "b", "a"]


async def test_a_turn_of_the_loop_begins_one_handshake() -> None:
    turns, begun_now, ended = PageTurns(), list[int](), asyncio.Event()

    async def shake() -> None:
        async with turns.turn("a"):
            begun_now.append(1)
            await ended.wait()

    async with asyncio.TaskGroup() as tasks:
        for _ in range(10):
            tasks.create_task(shake())
        most = 0
        async with asyncio.timeout(60):
            while len(begun_now) < 10:
                before = len(begun_now)
                await asyncio.sleep(0)
                most = max(most, len(begun_now) - before)
        ended.set()
    assert most == 1


@virtual_time.played
async def test_a_turn_that_comes_back_is_used_at_once() -> None:
    limits = HandshakeLimits(waiting_max=9, begun_max=9, failed_per_s=0.001, turns_max=1)
    turns, loop, found = PageTurns(limits), asyncio.get_running_loop(), list[float]()

    async def shake() -> None:
        async with turns.turn("a") as succeeded:
            await asyncio.sleep(1)
            found.append(round(loop.time() - start_s, 3))
            succeeded()

    start_s = loop.time()
    async with asyncio.TaskGroup() as tasks:
        for _ in range(3):
            tasks.create_task(shake())
    assert found == [1.0, 2.0, 3.0]


@virtual_time.played
async def test_one_that_must_make_room_is_told_and_one_that_gives_up_leaves_nothing() -> None:
    turns = PageTurns(HandshakeLimits(waiting_max=2, begun_max=9, failed_per_s=0.001, turns_max=1))
    await begun(turns, "a")

    async def wait(host: str) -> None:
        async with turns.turn(host):
            raise AssertionError("no turn is left")

    async def told(host: str) -> None:
        with pytest.raises(ConnectionAbortedError):
            await wait(host)

    async def gives_up(host: str) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await wait(host)

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(told("a"))
        for host in "bc":
            tasks.create_task(gives_up(host))
    async with asyncio.TaskGroup() as tasks:  # there is room again
        for host in "bc":
            tasks.create_task(gives_up(host))


def test_no_more_wait_than_the_port_has_connections_and_as_many_that_gave_way() -> None:
    assert page_turns.LIMITS.waiting_max >= looking.CONNECTIONS_MAX
    assert page_turns.LIMITS.begun_max > looking.CONNECTIONS_MAX
