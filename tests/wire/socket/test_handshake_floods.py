"""Peers that begin to shake hands and never finish: honest ones get in beside them, on real ports.

No handshake here is ended by patience unless a test says so: patience is longer than any test.
"""

import asyncio
import contextlib
import dataclasses
import os
import random
import resource
import socket
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.support.certificates import Authorities, place
from tests.support.raw_sockets import LIMIT_S, raw_socket, until
from tests.wire.link.worlds import BOOKIE
from tests.wire.socket.strangers import (
    FOR_EVER_MS,
    HERE,
    THERE,
    Stranger,
    ask,
    failed,
    limited,
    serving,
    strangers,
    taken,
)
from zonekeeper.metadata.store.background import alongside
from zonekeeper.wire.formats.socket_messages import BookieGreeting, ConnectionKind
from zonekeeper.wire.grpc.tls import TlsFiles
from zonekeeper.wire.socket import accepting
from zonekeeper.wire.socket.accepting import Accepting, Unfinished
from zonekeeper.wire.socket.connection import EndCause
from zonekeeper.wire.socket.socket_server import SocketServer


async def test_half_handshakes_have_a_limit_and_the_oldest_goes_for_a_newer_one(
    bookie_files: TlsFiles, client_files: TlsFiles, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        serving(bookie_files, limited(waiting_max=3)) as server,
        strangers(server, client_files) as make,
    ):
        crowd = []
        for number in range(1, 11):
            crowd.append(make())
            crowd[-1].send(crowd[-1].hello[:100])
            await taken(server, number)
            assert server.figures.unfinished <= 3
        for gone in crowd[:7]:
            await gone.heard_end()
        assert all(stays.is_silent() for stays in crowd[7:])
        assert server.figures.ended == {EndCause.CROWDED_OUT: 7}
        await ask(server, client_files)
        assert crowd[-1].is_silent()
        assert caplog.text.count("had to go") == 1, "a flood is no flood of lines"


async def test_an_honest_client_gets_in_during_a_flood_of_half_handshakes(
    bookie_files: TlsFiles, client_files: TlsFiles
) -> None:
    async with (
        serving(bookie_files, limited(waiting_max=8)) as server,
        strangers(server, client_files) as make,
    ):

        async def flood() -> None:
            while True:
                stranger = make()
                stranger.send(stranger.hello[: random.randrange(len(stranger.hello))])
                await asyncio.sleep(0)

        async with alongside(flood()):
            await until(lambda: server.figures.ended[EndCause.CROWDED_OUT] > 0)
            for _ in range(3):
                await ask(server, client_files)
        assert server.figures.unfinished <= 8


async def test_a_slow_peer_of_another_host_does_not_go_for_a_flood(
    bookie_files: TlsFiles, client_files: TlsFiles
) -> None:
    async with (
        serving(bookie_files, limited(waiting_max=4)) as server,
        strangers(server, client_files) as make,
    ):
        slow = make(host=THERE)
        slow.send(slow.hello[:-1])
        await until(lambda: server.figures.unfinished == 1)
        for _ in range(20):
            stranger = make()
            stranger.send(stranger.hello[:1])
        await until(lambda: server.figures.ended[EndCause.CROWDED_OUT] == 17)
        slow.send(slow.hello[-1:])
        await slow.finish()
        await until(lambda: server.figures.now == server.figures.unfinished + 1)


async def test_peers_that_stall_after_their_hello_have_a_limit_and_the_oldest_goes(
    bookie_files: TlsFiles, client_files: TlsFiles
) -> None:
    limits = limited(begun_max=2, stalled_s=0)
    async with (
        serving(bookie_files, limits) as server,
        strangers(server, client_files) as make,
    ):
        crowd = []
        for _ in range(5):
            crowd.append(make(certified=False))
            crowd[-1].send(crowd[-1].hello)
            await crowd[-1].answered()
            assert server.figures.unfinished <= 2
        await crowd[0].heard_end()
        await until(lambda: server.figures.ended == {EndCause.CROWDED_OUT: 3})
        await crowd[-1].finish()


@pytest.mark.parametrize("part", [0, 1, 100, None], ids=["nothing", "a byte", "half", "hello"])
async def test_a_handshake_that_stalls_is_ended(
    bookie_files: TlsFiles, client_files: TlsFiles, part: int | None
) -> None:
    limits = dataclasses.replace(limited(), greeting_ms=200)
    async with (
        serving(bookie_files, limits) as server,
        strangers(server, client_files) as make,
    ):
        for number in (1, 2):  # the timer of the first is set again for the second
            stalls = make()
            stalls.send(stalls.hello[:part])
            await stalls.heard_end()
            await until(lambda: not server.figures.now)
            assert server.figures.ended == {EndCause.HANDSHAKE: number}
            assert not server.figures.unfinished


async def begin(stranger: Stranger, server: SocketServer, part: int | None) -> None:
    """Send a part of a hello, or all of it (None), and wait until the server has that."""
    stranger.send(stranger.hello[:part])
    if part is None:
        await stranger.answered()
    else:
        await until(lambda: server.figures.unfinished == 1)


@pytest.mark.parametrize("part", [0, 1, 100, None], ids=["nothing", "a byte", "half", "hello"])
async def test_a_connection_that_breaks_in_the_handshake_frees_its_place(
    bookie_files: TlsFiles, client_files: TlsFiles, part: int | None
) -> None:
    async with (
        serving(bookie_files, limited()) as server,
        strangers(server, client_files) as make,
    ):
        breaks = make()
        await begin(breaks, server, part)
        breaks.reset()
        await until(lambda: not server.figures.unfinished)
        await until(lambda: not server.figures.now)
        assert server.figures.ended == {EndCause.HANDSHAKE: 1}


async def test_a_peer_that_ends_its_side_before_its_hello_frees_its_place(
    bookie_files: TlsFiles, client_files: TlsFiles
) -> None:
    async with (
        serving(bookie_files, limited()) as server,
        strangers(server, client_files) as make,
    ):
        for part in (0, 3, 100):
            ends = make()
            ends.send(ends.hello[:part])
            ends.end_side()
            await ends.heard_end()
        await until(lambda: not server.figures.now)
        assert server.figures.ended == {EndCause.HANDSHAKE: 3}


@pytest.mark.parametrize("part", [0, 100, None], ids=["nothing", "half", "hello"])
async def test_a_bookie_that_stops_ends_handshakes_under_way(
    bookie_files: TlsFiles, client_files: TlsFiles, part: int | None
) -> None:
    async with (
        serving(bookie_files, limited()) as server,
        strangers(server, client_files) as make,
    ):
        stalls = make()
        await begin(stalls, server, part)
        async with asyncio.timeout(LIMIT_S):
            await server.stop(grace_ms=FOR_EVER_MS)
        await stalls.heard_end()
        assert not server.figures.now
        assert not server.figures.unfinished


async def test_handshakes_that_fail_are_slowed_and_those_that_succeed_are_not(
    bookie_files: TlsFiles, client_files: TlsFiles
) -> None:
    limits = limited(turns_max=3, failed_per_s=1 / FOR_EVER_MS)
    async with (
        serving(bookie_files, limits) as server,
        strangers(server, client_files) as make,
    ):
        for _ in range(6):
            await ask(server, client_files)
        for number in (1, 2):
            fails = make(certified=False)
            fails.send(fails.hello)
            await fails.finish()
            await failed(server, number)
        begins, waits = make(), make()
        for each in (begins, waits):
            each.send(each.hello)
        await begins.answered()
        async with raw_socket(server.port) as later:
            later.send(b"no hello")
            assert await later.hear() is None
        assert waits.is_silent(), "there is no turn for it"
        await begins.finish()
        await waits.finish()


async def test_a_hello_in_pieces_begins_when_it_is_whole(
    bookie_files: TlsFiles, client_files: TlsFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = counted(monkeypatch)
    async with (
        serving(bookie_files, limited()) as server,
        strangers(server, client_files) as make,
    ):
        slow = make()
        for byte in slow.hello[:-1]:
            slow.send(bytes([byte]))
            await asyncio.sleep(0)
        await until(lambda: server.figures.unfinished == 1)
        assert looks.total() <= 2, "one for the head, and none for each byte"
        slow.send(slow.hello[-1:])
        await slow.finish()
        await until(lambda: not server.figures.unfinished)
        assert looks.total() <= 3
        assert server.figures.now == 1
        await slow.greet()  # of fewer bytes than the hello: what is awaited is small again


async def test_a_kernel_that_wakes_for_each_byte_costs_few_looks(
    bookie_files: TlsFiles, client_files: TlsFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accepting, "_wake_at", lambda *_: None)
    looks = counted(monkeypatch)
    async with (
        serving(bookie_files, limited()) as server,
        strangers(server, client_files) as make,
    ):
        slow = make()
        for byte in slow.hello[:-1]:
            slow.send(bytes([byte]))
            await asyncio.sleep(0.001)
        slow.send(slow.hello[-1:])
        await slow.finish()
        await until(lambda: not server.figures.unfinished)
        assert looks.total() <= 12, "each waits twice as long as the one before"


def counted(monkeypatch: pytest.MonkeyPatch) -> Counter[Unfinished]:
    """Count the looks at hellos."""
    looks: Counter[Unfinished] = Counter()
    look = Accepting._look

    def counting(self: Accepting, one: Unfinished) -> None:
        looks[one] += 1
        look(self, one)

    monkeypatch.setattr(Accepting, "_look", counting)
    return looks


async def test_a_peer_without_tls_is_told_from_its_first_bytes(
    bookie_files: TlsFiles, caplog: pytest.LogCaptureFixture
) -> None:
    firsts = (b"GET / HTTP/1.1\r\n", b"\x16\x03\x01\xff\xff" + bytes(9), b"\x16\x03\x01\0\0\0")
    async with serving(bookie_files, limited()) as server:
        for number, first in enumerate(firsts, 1):
            async with raw_socket(server.port) as peer:
                peer.send(first)
                assert await peer.hear() is None
            await failed(server, number)
        assert server.figures.ended == {EndCause.HANDSHAKE: 3}
        assert caplog.text.count("the peer does not begin with its hello") == 3


async def test_a_handshake_uses_the_files_as_they_are_when_it_begins(
    authorities: Authorities, tmp_path: Path
) -> None:
    bookie = place(tmp_path / "bookie", authorities.theirs, BOOKIE)
    client = place(tmp_path / "client", authorities.ours, "client")
    async with serving(bookie, limited()) as server, strangers(server, client) as make:
        waits = make()
        waits.send(waits.hello[:100])
        await until(lambda: server.figures.unfinished == 1)
        place(tmp_path / "bookie", authorities.ours, BOOKIE)
        waits.send(waits.hello[100:])
        await waits.finish()
        await until(lambda: not server.figures.unfinished)
        assert server.figures.now == 1


async def test_without_tls_half_greetings_have_a_limit_and_the_oldest_goes() -> None:
    async with serving(None, limited(waiting_max=3)) as server, AsyncExitStack() as crowd:
        peers = []
        for number in range(1, 11):
            peers.append(await crowd.enter_async_context(raw_socket(server.port)))
            peers[-1].send(b"\0\0\0\x60")
            await taken(server, number)
            assert server.figures.unfinished <= 3
        for gone in peers[:7]:
            assert await gone.hear() is None
        await until(lambda: server.figures.now == 3)
        assert server.figures.ended == {EndCause.CROWDED_OUT: 7}
        await ask(server, None)


async def test_a_peer_that_has_greeted_never_goes_for_others() -> None:
    async with serving(None, limited(waiting_max=1)) as server, AsyncExitStack() as crowd:
        greeted = await crowd.enter_async_context(raw_socket(server.port))
        assert isinstance(await greeted.greet(BOOKIE, ConnectionKind.CALLS), BookieGreeting)
        for _ in range(5):
            await crowd.enter_async_context(raw_socket(server.port))
        await until(lambda: server.figures.ended == {EndCause.CROWDED_OUT: 4})
        greeted.say(b"ZKPI")
        assert await greeted.hear() == b"ZKPO"


async def test_connections_that_go_in_the_turn_in_which_they_came_leave_nothing() -> None:
    async with serving(None, limited(waiting_max=1)) as server, AsyncExitStack() as ends:
        crowd = [socket.create_connection((HERE, server.port)) for _ in range(8)]
        for each in crowd:
            ends.callback(each.close)
        await until(lambda: server.figures.ended == {EndCause.CROWDED_OUT: 7})
        assert server.figures.now == server.figures.unfinished == 1
        loop = asyncio.get_running_loop()
        for each in crowd[:7]:
            each.setblocking(False)
            async with asyncio.timeout(LIMIT_S):
                assert await loop.sock_recv(each, 1) == b""


async def test_a_client_without_a_certificate_gives_back_its_place(
    bookie_files: TlsFiles, client_files: TlsFiles
) -> None:
    async with (
        serving(bookie_files, limited()) as server,
        strangers(server, client_files) as make,
    ):
        stranger = make(certified=False)
        stranger.send(stranger.hello)
        await stranger.finish()
        await until(lambda: not server.figures.now)
        assert server.figures.ended == {EndCause.HANDSHAKE: 1}
        assert not server.figures.unfinished


async def test_the_time_before_a_handshake_counts_for_its_patience(
    bookie_files: TlsFiles, client_files: TlsFiles
) -> None:
    async with serving(bookie_files, limited()) as server:
        await server.stop(0)  # nothing else comes
        ours, theirs = socket.socketpair()
        long_ago_s = asyncio.get_running_loop().time() - 2 * FOR_EVER_MS / 1_000
        with theirs:
            ours.setblocking(False)
            server.begin(Unfinished(ours, (HERE, 1), long_ago_s))
            await failed(server, 1)


async def test_a_process_without_descriptors_takes_connections_again_once_it_has_some(
    caplog: pytest.LogCaptureFixture,
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    async with serving(None, limited()) as server:
        peer = socket.socket()
        peer.setblocking(False)
        resource.setrlimit(resource.RLIMIT_NOFILE, (peer.fileno() + 1, hard))
        try:
            with contextlib.ExitStack() as held:
                with contextlib.suppress(OSError):
                    while True:
                        held.callback(os.close, os.dup(peer.fileno()))
                await asyncio.get_running_loop().sock_connect(peer, (HERE, server.port))
                await until(lambda: "cannot take a connection" in caplog.text)
                assert not server.figures.now
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        await taken(server, 1)
        peer.close()
        await until(lambda: not server.figures.now)
