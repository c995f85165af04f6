"""The console over loopback, on a cluster in a file: what is served, live, and what is refused."""

import asyncio
import json
import shlex
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.shell.live_world import INSTANCE, WALL_MS, LiveWorld
from zonekeeper.metadata.bookies import bookie_records
from zonekeeper.metadata.bookies.bookie_records import Mark
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.store.background import alongside
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.shell.commands import console as command
from zonekeeper.shell.commands.audit import audit
from zonekeeper.shell.commands.autorecovery import autorecovery
from zonekeeper.shell.console import serving
from zonekeeper.shell.console.http_requests import ConsoleReply
from zonekeeper.shell.console.looker import Looker
from zonekeeper.shell.console.routes import Routes
from zonekeeper.shell.reaching import reaching
from zonekeeper.shell.reaching.reaching import Place

Data = dict[str, object]


class Console:
    """A console that serves, and requests to it."""

    def __init__(self, port: int) -> None:
        self.port = port

    async def raw(self, request: bytes) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(request)
            return await reader.read()
        finally:
            writer.close()

    async def get(self, path: str, *fields: str, method: str = "GET") -> tuple[int, str, bytes]:
        lines = [f"{method} {path} HTTP/1.1", f"Host: 127.0.0.1:{self.port}", *fields, "", ""]
        raw = await self.raw("\r\n".join(lines).encode())
        top, _, body = raw.partition(b"\r\n\r\n")
        return int(top.split()[1]), top.decode(), body

    async def data(self, path: str) -> Data:
        status, top, body = await self.get(path)
        assert status == 200, (top, body)
        found: Data = json.loads(body)
        return found

    async def until(self, path: str, seen: Callable[[Data], object]) -> Data:
        """Ask until something is seen."""
        async with asyncio.timeout(60):
            while True:
                if seen(found := await self.data(path)):
                    return found
                await asyncio.sleep(0.02)  # between two questions, as the page does


@asynccontextmanager
async def console(address: str, cluster_id: str | None = None) -> AsyncIterator[Console]:
    place = Place(address=address, cluster_id=cluster_id, as_json=False)
    looker = Looker(place, None, reaching.wall_ms)
    routes = Routes(looker, reaching.wall_ms)
    async with (
        serving.served(routes.answer, "127.0.0.1", 0, frozenset()) as port,
        alongside(looker.run()),
    ):
        yield Console(port)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LiveWorld:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    made = LiveWorld(tmp_path)
    made.build(lost="b")
    return made


def played(world: LiveWorld, work: Callable[[Console], Awaitable[None]]) -> None:
    async def done() -> None:
        async with console(world.address) as served:
            await work(served)

    asyncio.run(done())


def zones(data: Data) -> dict[str, dict[str, object]]:
    found = data["zones"]
    assert isinstance(found, list)
    return {zone["zone"]: zone for zone in found}


def test_the_page_and_its_parts_are_served_as_what_they_are(world: LiveWorld) -> None:
    async def work(served: Console) -> None:
        for path, kind in {
            "/": "text/html",
            "/console.css": "text/css",
            "/console.js": "text/javascript",
            "/icon.svg": "image/svg+xml",
        }.items():
            status, top, body = await served.get(path)
            assert (status, f"Content-Type: {kind}" in top, bool(body)) == (200, True, True)
            head = await served.get(path, method="HEAD")
            assert (head[0], head[2], f"Content-Length: {len(body)}" in head[1]) == (200, b"", True)
        assert (await served.get("/../looker.py"))[0] == 404
        assert (await served.get("/api/nothing"))[0] == 404

    played(world, work)


def test_a_held_zone_is_shown_as_the_commands_show_it(world: LiveWorld) -> None:
    async def work(served: Console) -> None:
        data = await served.until("/api/snapshot", lambda found: found["alerts"])
        lost = zones(data)["b"]
        gate = lost["gate"]
        assert isinstance(gate, dict)
        assert (gate["observation"], gate["permission"]) == ("down", "held")
        assert (gate["available"], gate["counted"]) == (0, 2)
        assert lost["held"] is not None
        units = lost["units"]
        assert isinstance(units, list)
        states = [bookie["state"] for unit in units for bookie in unit["bookies"]]
        assert states == ["absent", "absent"]
        alerts = data["alerts"]
        assert isinstance(alerts, list)
        assert ("zone b", "zoneDown", "page") in [
            (one["about"], one["alert"], one["severity"]) for one in alerts
        ]
        place = data["place"]
        assert isinstance(place, list)
        assert shlex.join(place).endswith(f"--cluster-id {INSTANCE}")

    played(world, work)


def test_a_change_in_the_store_is_on_the_page_by_itself(world: LiveWorld) -> None:
    async def work(served: Console) -> None:
        await served.until("/api/snapshot", lambda found: found["zones"])
        mark = Mark(at_ms=WALL_MS, by="anna", reason="<b>old</b> disk")

        def change(cluster: Cluster) -> Awaitable[object]:
            return bookie_records.drain(cluster, BookieId("bk-a-0"), mark)

        await asyncio.to_thread(world.on, change)
        await served.until("/api/snapshot", lambda found: "<b>old</b> disk" in json.dumps(found))

    played(world, work)


def test_a_snapshot_that_is_the_same_is_not_sent_again_and_its_ages_are(world: LiveWorld) -> None:
    async def work(served: Console) -> None:
        await served.until("/api/snapshot", lambda found: found["queue"])
        async with asyncio.timeout(60):
            while True:
                _, top, _ = await served.get("/api/snapshot")
                tag = next(line for line in top.split("\r\n") if line.startswith("ETag: "))[6:]
                status, top, body = await served.get("/api/snapshot", f"If-None-Match: {tag}")
                if status == 304:
                    break
        assert body == b""
        ages = next(line for line in top.split("\r\n") if line.startswith("Zonekeeper-As-Of: "))
        assert {"zones", "queue"} <= json.loads(ages[18:]).keys()

    played(world, work)


def test_the_price_and_what_if_are_those_of_the_commands(world: LiveWorld) -> None:
    priced = world.call(autorecovery, "release", "--zone", "b", "--dry-run", "-o", "json")
    lost = world.call(audit, "lose", "--zone", "a", "-o", "json")

    async def work(served: Console) -> None:
        await served.until("/api/snapshot", lambda found: found["whole"])
        price = await served.until("/api/price?zone=b", lambda found: found["result"])
        assert price["result"] == json.loads(priced.stdout) if priced.exit_code == 0 else price
        loss = await served.until("/api/lose?zone=a", lambda found: found["result"])
        found = loss["result"]
        assert isinstance(found, dict)
        counts = json.loads(lost.stdout)["counts"]
        assert counts.items() <= found["counts"].items()
        assert (await served.get("/api/lose?zone=nowhere"))[0] == 404
        assert (await served.get("/api/lose?bookie=nobody"))[0] == 404
        assert (await served.get("/api/lose"))[0] == 404
        assert (await served.get("/api/price?zone=nowhere"))[0] == 404

    played(world, work)


def test_a_page_of_ledgers_is_asked_for_by_its_first_id(world: LiveWorld) -> None:
    async def work(served: Console) -> None:
        await served.until("/api/snapshot", lambda found: found["zones"])
        page = await served.until("/api/ledgers?first=5", lambda found: found["result"])
        assert page["result"] == {"first": "5", "ledgers": [], "next": None}
        for first in ("-1", "x", "9" * 30, "9" * 19, "%D9%A3"):
            assert (await served.get(f"/api/ledgers?first={first}"))[0] == 404

    played(world, work)


def test_a_runbook_is_given_and_only_a_runbook(world: LiveWorld) -> None:
    async def work(served: Console) -> None:
        text = (await served.data("/api/runbook?name=zoneHeld"))["text"]
        assert isinstance(text, str)
        assert "## What it means" in text
        assert (await served.get("/api/runbook?name=../shelf"))[0] == 404

    played(world, work)


def test_s186_strangers_other_methods_and_too_large_requests_are_refused(world: LiveWorld) -> None:
    async def work(served: Console) -> None:
        assert (await served.raw(b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n")).split()[
            1
        ] == b"421"
        assert (await served.get("/", method="POST"))[0] == 405
        large = await served.get("/", f"Cookie: {'x' * serving.REQUEST_BYTES_MAX}")
        assert large[0] == 431
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(b"GET / HT")
        writer.write_eof()
        assert (await reader.read()).split()[1] == b"400"
        writer.close()

    played(world, work)


def test_s186_connections_that_say_nothing_keep_nobody_out(world: LiveWorld) -> None:
    async def work(served: Console) -> None:
        idle = [
            await asyncio.open_connection("127.0.0.1", served.port)
            for _ in range(serving.CONNECTIONS_MAX + 20)
        ]
        assert (await served.get("/"))[0] == 200
        for _, writer in idle:
            writer.close()

    played(world, work)


async def test_s186_a_slow_client_ends_after_a_time_and_holds_one_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(serving, "REPLY_TIMEOUT_MS", 50)
    large = ConsoleReply(body=b"x" * (32 << 20))
    async with serving.served(lambda _: large, "127.0.0.1", 0, frozenset()) as port:
        before = len(asyncio.all_tasks())
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1)
        writer.transport.pause_reading()  # type: ignore[attr-defined]  # a socket has it
        writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        async with asyncio.timeout(60):
            begun = False
            while not begun or len(asyncio.all_tasks()) > before:
                begun = begun or len(asyncio.all_tasks()) > before
                await asyncio.sleep(0)
        writer.transport.resume_reading()  # type: ignore[attr-defined]  # a socket has it
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await reader.readexactly(len(large.body))
        writer.close()


async def test_s186_a_client_that_takes_all_but_the_rest_ends_after_a_time_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An answer that fits into our own buffer is written at once, and is not yet sent."""
    begin = asyncio.start_server

    async def with_a_small_buffer(
        serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
        host: str,
        port: int,
        limit: int,
        **rest: None,
    ) -> asyncio.Server:
        assert not any(rest.values()), "the console has no TLS"
        server = await begin(serve, host, port, limit=limit)
        for one in server.sockets:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)
        return server

    monkeypatch.setattr(asyncio, "start_server", with_a_small_buffer)
    monkeypatch.setattr(serving, "REPLY_TIMEOUT_MS", 50)
    reply = ConsoleReply(body=b"x" * 48_000)
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        client.setblocking(False)
        loop = asyncio.get_running_loop()
        async with serving.served(lambda _: reply, "127.0.0.1", 0, frozenset()) as port:
            before = len(asyncio.all_tasks())
            await loop.sock_connect(client, ("127.0.0.1", port))
            await loop.sock_sendall(client, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            async with asyncio.timeout(60):
                begun = False
                while not begun or len(asyncio.all_tasks()) > before:
                    begun = begun or len(asyncio.all_tasks()) > before
                    await asyncio.sleep(0)
                taken = 0
                with suppress(ConnectionError):
                    while part := await loop.sock_recv(client, 65_536):
                        taken += len(part)
            assert taken < len(reply.body), "the server has ended the connection before"


def test_a_console_of_another_cluster_refuses(world: LiveWorld) -> None:
    async def work() -> None:
        async with console(world.address, cluster_id="another"):
            await asyncio.Event().wait()

    with pytest.raises(Exception, match="another cluster"):
        asyncio.run(asyncio.wait_for(work(), 60))


def test_s184_a_console_that_starts_while_the_store_is_away_serves_and_says_so(
    world: LiveWorld, tmp_path: Path
) -> None:
    """What an earlier look has noted is enough to start; nothing is shown that was not read."""
    folder = tmp_path / "cache" / "zonekeeper" / "endpoints"

    async def noted(served: Console) -> None:
        await served.until("/api/snapshot", lambda found: found["zones"] and folder.exists())

    played(world, noted)
    path = tmp_path / "meta.db"
    away = path.rename(tmp_path / "away.db")

    async def work(served: Console) -> None:
        data = await served.until("/api/snapshot", is_away)
        assert data["instance"] == INSTANCE
        assert zones(data), "bookies that were noted are shown"
        for zone in zones(data).values():
            gate = zone["gate"]
            assert isinstance(gate, dict)
            assert (gate["observation"], gate["reason"]) == ("unknown", "not read")
        ledgers = await served.data("/api/ledgers")
        assert (ledgers["underWay"], ledgers["result"]) == (False, None)
        away.rename(path)
        back = await served.until("/api/snapshot", lambda found: not is_away(found))
        assert back["store"] == {"away": False, "sinceMs": None, "trouble": None}

    played(world, work)


def is_away(data: Data) -> bool:
    store = data["store"]
    assert isinstance(store, dict)
    return store["away"] is True


@pytest.mark.parametrize("host", ["127.0.0.1", "256.1.1.1"])
def test_where_it_cannot_listen_the_console_says_so_and_ends(world: LiveWorld, host: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        words = ("--metadata", world.address, "--host", host, "--port", port)
        found = CliRunner().invoke(command.console, words)
    assert (found.exit_code, found.stdout) == (1, "")
    (line,) = found.stderr.splitlines()
    assert line.startswith(f"Error: cannot listen on {host}, port {port} (see --host, --port): ")


def test_an_address_where_no_command_has_seen_a_cluster_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    async def work() -> None:
        async with console(f"sqlite://{tmp_path / 'slip.db'}"):
            await asyncio.Event().wait()

    with pytest.raises(Exception, match="there is no such file"):
        asyncio.run(asyncio.wait_for(work(), 60))
