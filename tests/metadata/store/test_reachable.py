"""What is at an address, in words; and how long one server of an ensemble is waited for."""

import asyncio
import socket

import pytest

from zonekeeper.metadata.store import reachable
from zonekeeper.metadata.stores import zookeeper_patience
from zonekeeper.metadata.stores.timeouts import Timeouts


async def test_a_server_is_said_to_be_no_host_or_silent_or_to_take_a_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # taken, and nothing listens
        there, not_there = listening.getsockname()[1], held.getsockname()[1]
        servers = (f"127.0.0.1:{there}", f"127.0.0.1:{not_there}")
        said = await reachable.each_server(servers, 60_000)
    assert said == (
        f"127.0.0.1:{there} takes a connection and does not answer as a ZooKeeper with a quorum; "
        f"127.0.0.1:{not_there}: Connection refused"
    )
    assert await reachable.each_server((), 1) == ""
    with pytest.raises(OSError, match="no host name"):
        await reachable.resolved("a" * 100, 1)


async def test_a_look_up_that_does_not_end_keeps_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    over = asyncio.Event()
    loop = asyncio.get_running_loop()

    def never(*_: object, **__: object) -> list[object]:
        asyncio.run_coroutine_threadsafe(over.wait(), loop).result()
        return []

    monkeypatch.setattr(socket, "getaddrinfo", never)
    said = await reachable.each_server(("slow:2181",), 50)
    assert said == "slow:2181 does not take a connection"
    over.set()


@pytest.mark.parametrize(
    ("timeouts", "servers", "patience_s"),
    [
        (Timeouts(), 1, 10 / 3),
        (Timeouts(), 5, 2),
        (Timeouts(request_ms=1_200), 3, 0.4),
        (Timeouts(reach_ms=1_200), 3, 0.4),
        (Timeouts(session_ms=3_000, reach_ms=60_000), 1, 1),
    ],
)
def test_within_the_limit_all_servers_can_be_tried(
    timeouts: Timeouts, servers: int, patience_s: float
) -> None:
    assert zookeeper_patience.patience_s(timeouts, servers) == pytest.approx(patience_s)


def test_a_connection_has_the_shorter_of_two_limits() -> None:
    asked: list[object] = []

    def connect(*where: object, timeout: float, **_: object) -> socket.socket:
        asked.append((where, timeout))
        return socket.socket()

    limited = zookeeper_patience.limited(connect, 0.4)
    for given in (10.0, 0.1):
        limited("h", timeout=given).close()
    assert asked == [(("h",), 0.4), (("h",), 0.1)]


def test_a_time_limit_of_nothing_is_refused() -> None:
    assert (Timeouts().first_ms, Timeouts(reach_ms=7).first_ms) == (10_000, 7)
    with pytest.raises(ValueError, match="positive"):
        Timeouts(reach_ms=0)
