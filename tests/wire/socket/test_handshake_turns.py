"""What one turn of the loop does with peers that come, fail or break off by the dozen."""

import asyncio
from collections.abc import Callable

import pytest

from tests.support.raw_sockets import LIMIT_S, until
from tests.wire.socket.strangers import (
    FOR_EVER_MS,
    Stranger,
    limited,
    serving,
    strangers,
)
from zonekeeper.wire.grpc.tls import TlsFiles
from zonekeeper.wire.socket import accepting
from zonekeeper.wire.socket.accepting import Unfinished
from zonekeeper.wire.socket.connection import EndCause
from zonekeeper.wire.socket.socket_server import SocketServer


async def test_a_turn_takes_few_connections_and_begins_one_handshake(
    bookie_files: TlsFiles, client_files: TlsFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[Unfinished] = []
    begin = SocketServer.begin

    def counting(self: SocketServer, one: Unfinished) -> "asyncio.Task[None]":
        begun.append(one)
        return begin(self, one)

    monkeypatch.setattr(SocketServer, "begin", counting)
    async with (
        serving(bookie_files, limited(begun_max=100, turns_max=100)) as server,
        strangers(server, client_files) as make,
    ):
        crowd = [make() for _ in range(50)]
        for each in crowd:
            each.send(each.hello)
        taken_before = begun_before = 0
        async with asyncio.timeout(LIMIT_S):
            while len(begun) < len(crowd):
                await asyncio.sleep(0)
                assert server.figures.now - taken_before <= accepting.HANDLED_A_TURN
                assert len(begun) - begun_before <= 1
                taken_before, begun_before = server.figures.now, len(begun)


async def test_few_end_in_a_turn_of_those_that_are_out_of_patience_together(
    bookie_files: TlsFiles, client_files: TlsFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    async with (
        serving(bookie_files, limited()) as server,
        strangers(server, client_files) as make,
    ):
        for _ in range(50):
            make()
        await until(lambda: server.figures.unfinished == 50)
        time = loop.time
        monkeypatch.setattr(loop, "time", lambda: time() + 2 * FOR_EVER_MS / 1_000)
        turns = 0
        while server.figures.now:
            before = server.figures.now
            await asyncio.sleep(0)
            assert before - server.figures.now <= accepting.HANDLED_A_TURN
            turns += 1
            assert turns < 10_000
        assert server.figures.ended == {EndCause.HANDSHAKE: 50}
        monkeypatch.undo()


async def break_off(server: SocketServer, make: Callable[[], Stranger]) -> None:
    """Let fifty come, and break off together."""
    crowd = [make() for _ in range(50)]
    await until(lambda: server.figures.unfinished == 50)
    for each in crowd:
        each.reset()


async def test_few_end_in_a_turn_of_those_that_break_off_together(
    bookie_files: TlsFiles, client_files: TlsFiles
) -> None:
    async with (
        serving(bookie_files, limited()) as server,
        strangers(server, client_files) as make,
    ):
        await break_off(server, make)
        async with asyncio.timeout(LIMIT_S):
            while server.figures.now:
                before = server.figures.now
                await asyncio.sleep(0)
                assert before - server.figures.now <= accepting.HANDLED_A_TURN
        assert server.figures.ended == {EndCause.HANDSHAKE: 50}


async def test_a_stop_ends_those_that_have_just_broken_off_once(
    bookie_files: TlsFiles, client_files: TlsFiles, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        serving(bookie_files, limited()) as server,
        strangers(server, client_files) as make,
    ):
        await break_off(server, make)
        for _ in range(10_000):
            if server.figures.ended:
                break
            await asyncio.sleep(0)
        await server.stop(0)
        for _ in range(20):
            await asyncio.sleep(0)
        assert server.figures.ended.total() == 50
        assert server.figures.ended[EndCause.STOPPING] > 0
        assert "Exception in callback" not in caplog.text


async def test_one_whose_patience_is_not_over_stays(
    bookie_files: TlsFiles, client_files: TlsFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    time, passed_s = loop.time, [0.0]
    monkeypatch.setattr(loop, "time", lambda: time() + passed_s[0])
    async with (
        serving(bookie_files, limited()) as server,
        strangers(server, client_files) as make,
    ):
        make()
        await until(lambda: server.figures.unfinished == 1)
        passed_s[0] = 0.75 * FOR_EVER_MS / 1_000
        make()
        await until(lambda: server.figures.unfinished == 2)
        passed_s[0] *= 2
        for _ in range(20):
            await asyncio.sleep(0)
        assert server.figures.ended == {EndCause.HANDSHAKE: 1}
        assert server.figures.now == 1
        monkeypatch.undo()
