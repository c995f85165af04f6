"""An address is not a bookie: what a client finds at an address, and what it makes of that."""

import asyncio
import contextlib
import random
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Final

import pytest

from tests.support import fronts
from tests.support.raw_sockets import LIMIT_S
from tests.wire.grpc.test_grpc_meant import QUESTIONS, until_reached
from tests.wire.link.reference_bookie import Disk, ReferenceBookie
from tests.wire.link.worlds import KEY, PATIENT, WatchedHost, Writer, opened, read
from zonekeeper.placement.base.ids import BookieId, LedgerId
from zonekeeper.wire.contract.links import BookieLink
from zonekeeper.wire.formats import (
    bookie_names,
    carriers,
    errors,
    socket_framing,
    socket_messages,
    versions,
)
from zonekeeper.wire.formats.addresses import Address
from zonekeeper.wire.formats.proofs import Shown
from zonekeeper.wire.formats.socket_messages import BookieGreeting, RefusedGreeting
from zonekeeper.wire.host.host_limits import HostLimits
from zonekeeper.wire.socket import socket_link
from zonekeeper.wire.socket.connection import ConnectionTimes
from zonekeeper.wire.socket.socket_server import SocketLimits, SocketServer

A: Final = BookieId("bk-a-0")
B: Final = BookieId("bk-a-1")
LEDGER: Final = LedgerId(7)
SETTINGS: Final = replace(PATIENT, back_off_first_ms=1, back_off_max_ms=10)

#: What a stranger does with a connection.
Stranger = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def link_to(
    port: int, name: str = A, times: ConnectionTimes = socket_link.TIMES
) -> AsyncIterator[BookieLink]:
    async with asyncio.timeout(LIMIT_S), asyncio.TaskGroup() as tasks:
        link = socket_link.connect(
            socket_link.SocketPlace(
                name=name, address=Address("127.0.0.1", port), tls=None, times=times
            ),
            tasks=tasks,
            chance=random.Random(1),
            settings=SETTINGS,
        )
        try:
            yield link
        finally:
            await link.close()


@asynccontextmanager
async def bookie_at(
    stack: AsyncExitStack, bookie_id: BookieId, name: str | None = None
) -> AsyncIterator[tuple[ReferenceBookie, WatchedHost, int]]:
    bookie = ReferenceBookie(bookie_id, Disk())
    host = WatchedHost(bookie, HostLimits())
    server = SocketServer(host, Address("127.0.0.1", 0), name=name or bookie_id, tls=None)
    await server.start()
    stack.push_async_callback(server.stop, 0)
    yield bookie, host, server.port


@asynccontextmanager
async def stranger(does: Stranger) -> AsyncIterator[int]:
    """Give a port at which something else answers."""
    server = await asyncio.start_server(does, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        await fronts.close(server)


@pytest.mark.parametrize("question", QUESTIONS)
async def test_what_is_meant_for_another_bookie_is_refused_before_anything_is_done(
    question: str,
) -> None:
    async with AsyncExitStack() as stack:
        bookie, host, port = await stack.enter_async_context(bookie_at(stack, B))
        async with link_to(port, B) as honest:
            await opened(honest, LEDGER)
            async with link_to(port, A) as link:
                with pytest.raises(errors.NotConnected) as caught:
                    await QUESTIONS[question](link)
        assert not caught.value.maybe_applied
        assert f"at 127.0.0.1:{port}: {A} was meant, and {B} answers" in str(caught.value)
        ledger = bookie.disk.ledgers[LEDGER]
        assert len(host.pipes) == len(ledger.fragments) == 1, "those of the honest link"
        done = [ledger.fenced, ledger.packets, bookie.forced, bookie.out_of_limbo]
        assert not any([*done, bookie.read_only, bookie.compactions])


async def test_a_bookie_of_that_id_in_another_cluster_is_another_bookie() -> None:
    ours, theirs = (bookie_names.name_of(A, str(uuid.UUID(int=n))) for n in (1, 2))
    async with AsyncExitStack() as stack:
        bookie, _, port = await stack.enter_async_context(bookie_at(stack, A, theirs))
        async with link_to(port, ours) as link:
            with pytest.raises(errors.NotConnected, match=f"{ours} was meant") as caught:
                await link.fence(LEDGER, KEY)
        assert "a bookie of another cluster answers" in str(caught.value)
        assert str(uuid.UUID(int=2)) not in str(caught.value), "a peer could repeat it"
        assert not bookie.disk.ledgers
        async with link_to(port, theirs) as link:
            assert (await link.info()).bookie_id == A


async def test_a_name_that_leads_home_again_is_followed() -> None:
    async with AsyncExitStack() as stack, fronts.fronts() as ways:
        _, _, port_a = await stack.enter_async_context(bookie_at(stack, A))
        other, _, port_b = await stack.enter_async_context(bookie_at(stack, B))
        for name, port in ((A, port_a), (B, port_b)):
            await ways.add(name, port)
        async with link_to(ways[A].port) as link:
            ways.lead(A, to=B)
            for question in QUESTIONS.values():
                with pytest.raises(errors.NotConnected):
                    await question(link)
            ways.lead(A, to=A)
            assert (await link.info()).bookie_id == A
            await until_reached(link, Writer(LEDGER))
        assert not other.disk.ledgers


async def _apache(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer as a bookie of Apache's does that asks nobody who they are."""
    size = int.from_bytes(await reader.readexactly(4), "big")
    assert (await reader.readexactly(size)).startswith(b"\x02\x03\x00\x00")
    writer.write(socket_framing.headed(socket_messages.build_auth("AuthDisabledPlugin", b"")))
    await reader.read()
    writer.close()


async def _closes(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    del reader
    writer.close()


async def _talks_http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    await reader.read()
    writer.close()


def _greets(greeting: BookieGreeting | RefusedGreeting | bytes, then: bytes = b"") -> Stranger:
    """Answer a greeting with one of this kind, and say more."""

    async def does(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        size = int.from_bytes(await reader.readexactly(4), "big")
        await reader.readexactly(size)
        if isinstance(greeting, bytes):
            body = socket_messages.build_auth(socket_messages.PLUGIN, greeting)
        else:
            body = socket_messages.build_bookie_greeting(greeting)
        writer.write(socket_framing.headed(body) + then)
        await reader.read()
        writer.close()

    return does


@pytest.mark.parametrize(
    ("does", "words"),
    [
        (_apache, "a bookie of Apache BookKeeper answers"),
        (_closes, "no greeting came: .* is it the port of"),
        (_talks_http, "larger than the limit"),
        (_greets(b"[]"), "no JSON object"),
        (_greets(b"{}"), "bootEpoch is None"),
        (_greets(RefusedGreeting(code=9, detail="come again later")), "come again later"),
        (_greets(RefusedGreeting(code=4_000, detail="new trouble")), "new trouble"),
    ],
    ids=["apache", "closes", "HTTP", "a list", "nothing", "refuses", "unknown error"],
)
async def test_what_is_no_bookie_of_ours_was_not_reached(does: Stranger, words: str) -> None:
    async with stranger(does) as port, link_to(port) as link:
        for name in ("info", "read", "open_fragment", "tail"):
            with pytest.raises(errors.NotConnected, match=words) as caught:
                await QUESTIONS[name](link)
            assert (caught.value.retryable, caught.value.maybe_applied) == (True, False)
            assert f"127.0.0.1:{port}" in str(caught.value)


GREETING: Final = BookieGreeting(
    boot_epoch=1, speaks=versions.SPOKEN, message_bytes_max=8 << 20, calls_max=2
)


@pytest.mark.parametrize(
    "then",
    [
        socket_framing.headed(b"nonsense"),
        socket_framing.headed(carriers.build([carriers.Hello(boot_epoch=1)])),
        b"\xff" * 40,
    ],
    ids=["nonsense", "a carrier among calls", "an illegal length"],
)
async def test_a_bookie_that_breaks_the_rules_loses_the_connection_and_answers_are_unknown(
    then: bytes,
) -> None:
    async with stranger(_greets(GREETING, then)) as port, link_to(port) as link:
        with pytest.raises((errors.ConnectionLost, errors.NotConnected)):
            await link.info()


async def test_a_bookie_that_says_nothing_any_more_is_noticed_by_pings() -> None:
    times = ConnectionTimes(silent_ms=800, ping_ms=300)
    async with stranger(_greets(GREETING)) as port, link_to(port, times=times) as link:
        with pytest.raises(errors.ConnectionLost, match="nothing was heard for 800 ms") as caught:
            await link.info()
        assert caught.value.maybe_applied


async def test_a_bookie_that_is_quiet_and_answers_pings_is_kept() -> None:
    times = ConnectionTimes(silent_ms=800, ping_ms=200)
    async with AsyncExitStack() as stack:
        bookie, host, port = await stack.enter_async_context(bookie_at(stack, A))
        async with link_to(port, times=times) as link:
            writer, lane, outcomes = await opened(link, LEDGER)
            await asyncio.wait([asyncio.ensure_future(host.stream_ended.wait())], timeout=2)
            lane.append(writer.frame(b"x"))
            await outcomes.all_of(1)
            assert outcomes.acked_order == [0]
        assert bookie.disk.ledgers[LEDGER].packets


async def test_more_calls_than_the_bookie_takes_at_once_wait_their_turn() -> None:
    most = now = 0

    class Counts(ReferenceBookie):
        async def force(self, ledger_id: LedgerId, key: Shown | None = None) -> None:
            nonlocal most, now
            now += 1
            most = max(most, now)
            await asyncio.sleep(0)
            now -= 1

    host = WatchedHost(Counts(A, Disk()), HostLimits())
    limits = SocketLimits(calls_max=2)
    server = SocketServer(host, Address("127.0.0.1", 0), name=A, tls=None, limits=limits)
    await server.start()
    try:
        async with link_to(server.port) as link:
            await asyncio.gather(*(link.force(LedgerId(n)) for n in range(50)))
        assert most == 2
    finally:
        await server.stop(0)


async def test_nothing_that_listens_is_not_connected() -> None:
    async with stranger(_closes) as port:
        pass
    async with link_to(port) as link:
        with pytest.raises(errors.NotConnected, match=f"at 127.0.0.1:{port}: "):
            await link.info()
        with pytest.raises(errors.NotConnected):
            await link.read(read(7, 0, 0))


async def test_a_port_that_never_answers_is_given_up_in_the_time_to_connect() -> None:
    """No caller's limit ends the attempt, because all that need the connection share it."""
    gone = asyncio.Semaphore(0)

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while await reader.read(1 << 10):
                pass
        writer.close()
        gone.release()

    settings = replace(SETTINGS, connect_timeout_ms=50)
    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    place = socket_link.SocketPlace(name=A, address=Address("127.0.0.1", port), tls=None)
    async with asyncio.timeout(LIMIT_S), asyncio.TaskGroup() as tasks:
        lane = socket_link.transport(place, tasks=tasks, settings=settings)
        for _ in range(2):
            with pytest.raises(errors.NotConnected, match=f":{port}: no greeting in 50 ms"):
                await lane.reach()
            await gone.acquire()
        await lane.close()
    await fronts.close(server)
