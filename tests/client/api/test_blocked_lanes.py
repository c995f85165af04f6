"""Bookies whose socket lane is out of reach while gRPC is not: real sockets, a real client.

A front stands before the lane of each bookie. It leads to the lane, or to what may stand there in
its place: something that closes each connection, that takes it and never answers, or that speaks
another protocol. A port at which no process listens is one more.
"""

import asyncio
import dataclasses
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.client.api.test_over_grpc import cluster_of
from tests.client.patience import PATIENT
from tests.support.fronts import Fronts, fronts
from tests.support.raw_sockets import LIMIT_S
from zonekeeper.client.api import client as clients
from zonekeeper.client.api.client import Client
from zonekeeper.client.base import errors
from zonekeeper.client.base.ways import BookieWay
from zonekeeper.placement.base.ids import ZoneName
from zonekeeper.wire.lanes import way_choice

#: A lane is given up after two seconds; gRPC has six, on any machine.
LINKS: Final = dataclasses.replace(PATIENT.links, connect_timeout_ms=8_000)
CONFIG: Final = dataclasses.replace(PATIENT, zone=ZoneName("a"), way=BookieWay.OFFERED, links=LINKS)
BLOCKS: Final = pytest.mark.parametrize("block", ["closed", "silent", "another protocol"])


class Lanes:
    """The lanes of three bookies, behind fronts."""

    def __init__(self, ways: Fronts, uri: str) -> None:
        self._ways = ways
        self.uri = uri
        self.ports: dict[str, int] = {}

    def lead(self, to: int | None) -> None:
        """Let each lane's port lead there from now on; None: to the lane itself."""
        for zone in "abc":
            front = self._ways[zone]
            front.leads_to = self._ways.home(zone) if to is None else to
            front.cut()


@asynccontextmanager
async def blocked(folder: Path, block: str) -> AsyncIterator[Lanes]:
    async with (
        fronts() as ways,
        cluster_of(folder, "abc", lanes="abc", lane_front=ways.add) as (uri, _),
        await asyncio.start_server(_http, "127.0.0.1", 0) as other,
    ):
        lanes = Lanes(ways, uri)
        with socket.create_server(("127.0.0.1", 0)) as silent, _refusing() as refusing:
            places = {
                "silent": silent.getsockname()[1],
                "closed": refusing,
                "another protocol": other.sockets[0].getsockname()[1],
            }
            lanes.lead(places[block])
            yield lanes


class _refusing:  # noqa: N801 it is used as a function
    """A port at which no process listens; it is held until the block ends."""

    def __enter__(self) -> int:
        self._held = socket.socket()
        self._held.bind(("127.0.0.1", 0))
        port: int = self._held.getsockname()[1]
        return port

    def __exit__(self, *_: object) -> None:
        self._held.close()


async def _http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1 << 10)
    writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    writer.close()


async def write_and_read(client: Client) -> None:
    expected = [b"entry %d" % number for number in range(100)]
    async with client.create() as writer:
        await writer.append_many(expected)
        await writer.flush()
    reader = await client.open(writer.ledger_id)
    assert [bytes(entry.payload) async for entry in reader.read_entries()] == expected


def over_lanes(client: Client) -> int:
    """How many streams and connections for calls go over lanes."""
    links = [known.link for known in client.bookies.pool._known.values()]
    transports = [link._transport for link in links]  # type: ignore[attr-defined]  # a StreamLink has it
    return sum(len(each.lane._streams) for each in transports if each.lane is not None)


@BLOCKS
async def test_a_client_writes_and_reads_over_grpc_and_then_over_the_lanes_it_is_given(
    tmp_path: Path,
    block: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(way_choice, "PROBE_FIRST_MS", 1)
    monkeypatch.setattr(way_choice, "PROBE_MAX_MS", 50)
    async with (
        asyncio.timeout(3 * LIMIT_S),
        blocked(tmp_path, block) as lanes,
        clients.connect(lanes.uri, CONFIG) as client,
    ):
        with caplog.at_level(logging.INFO):
            await write_and_read(client)
            used = set(client.counters.lanes_blocked)
            assert len(used) >= 2
            assert client.bookies.suspects == frozenset()
            assert client.counters.ensemble_changes == 0
            said = [text for text in caplog.messages if "is used over gRPC" in text]
            assert len(said) == client.counters.lanes_blocked.total()
            assert all("socket lane is not reached: " in text for text in said)
            assert "the socket lane of" not in caplog.text

            lanes.lead(None)

            def all_reached() -> bool:
                return all(f"lane of {bookie} is reached" in caplog.text for bookie in used)

            while not all_reached():
                await write_and_read(client)
        await write_and_read(client)
        assert over_lanes(client) >= 2
        assert client.bookies.suspects == frozenset()


@pytest.mark.parametrize(
    ("block", "said"),
    [
        ("closed", "no greeting came: the connection was closed; is it the port"),
        ("silent", "no answer in 1000 ms"),
        ("another protocol", "no greeting came: message is larger than the limit"),
    ],
)
async def test_a_client_that_is_set_to_the_lane_goes_no_other_way_and_says_what_is_wrong(
    tmp_path: Path, block: str, said: str
) -> None:
    config = dataclasses.replace(
        CONFIG,
        way=BookieWay.SOCKET,
        links=dataclasses.replace(LINKS, connect_timeout_ms=1_000),
    )
    async with (
        asyncio.timeout(3 * LIMIT_S),
        blocked(tmp_path, block) as lanes,
        clients.connect(lanes.uri, config) as client,
    ):
        with pytest.raises(errors.ClientError, match=said) as failed:
            await write_and_read(client)
        assert "at 127.0.0.1:" in str(failed.value)
        assert client.counters.lanes_blocked.total() == 0


@pytest.mark.parametrize("way", [BookieWay.OFFERED, BookieWay.SOCKET])
async def test_nobody_listens_at_the_port_that_is_registered(
    tmp_path: Path, way: BookieWay
) -> None:
    config = dataclasses.replace(CONFIG, way=way)
    with _refusing() as port:

        async def nowhere(zone: str, lane: int) -> int:
            del zone, lane
            return port

        async with (
            asyncio.timeout(3 * LIMIT_S),
            cluster_of(tmp_path, "abc", lanes="abc", lane_front=nowhere) as (uri, _),
            clients.connect(uri, config) as client,
        ):
            if way is BookieWay.OFFERED:
                await write_and_read(client)
                assert client.bookies.suspects == frozenset()
            else:
                with pytest.raises(errors.ClientError, match=f"at 127.0.0.1:{port}: "):
                    await write_and_read(client)
