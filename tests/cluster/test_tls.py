"""What the network sees: of a cluster as the sample gives it nothing, of one in plaintext all.

A cluster goes from one to the other by a pause of its clients, not by an edit: the edit is refused,
says so, and disturbs nobody.
"""

import asyncio
import dataclasses
import http.client
import secrets
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, closing
from typing import Final

import pytest

from tests.client.patience import PATIENT
from tests.cluster import capture
from tests.cluster.capture import Capture
from tests.cluster.installation import PLAINTEXT, Clusters
from tests.cluster.kubelet.api import Json
from tests.cluster.processes import until
from tests.zones import load
from tests.zones.load import Load
from zonekeeper.client.api import client as clients
from zonekeeper.client.api.client import Client
from zonekeeper.client.base.config import ClientConfig
from zonekeeper.client.base.errors import ClientError
from zonekeeper.client.base.ways import BookieWay
from zonekeeper.placement.base.ids import LedgerId
from zonekeeper.wire.running import seam

pytestmark = [pytest.mark.cluster, pytest.mark.needs_lab]

ENTRIES: Final = 30
#: Each entry is so many marks: one of them is whole in some frame.
MARKS: Final = 40
REPLICAS: Final = 3
WAYS: Final = {BookieWay.GRPC: seam.GRPC_PORT, BookieWay.SOCKET: seam.SOCKET_PORT}
#: An edit that is refused has been looked at by then, and the writer goes on.
MORE: Final = 100


def new_mark() -> bytes:
    return secrets.token_hex(16).encode()


@asynccontextmanager
async def connected(
    clusters: Clusters, config: ClientConfig, *, secure: bool
) -> AsyncIterator[Client]:
    plain = clients.connect(clusters.uri, config)
    async with clusters.client(config=config) if secure else plain as client:
        yield client


async def check(client: Client, ledger: LedgerId, mark: bytes) -> None:
    reader = await client.open(ledger)
    read = [bytes(entry.payload) async for entry in reader.read_entries()]
    assert read == [mark * MARKS] * ENTRIES


def used(clusters: Clusters, mark: bytes, *, secure: bool) -> tuple[list[LedgerId], Capture]:
    """Write and read a ledger over each way, and give what the network saw."""

    async def use() -> list[LedgerId]:
        ledgers = []
        for way in WAYS:
            config = dataclasses.replace(PATIENT, way=way)
            async with connected(clusters, config, secure=secure) as client:
                async with client.create() as writer:
                    await writer.append_many([mark * MARKS] * ENTRIES)
                    await writer.flush()
                ledgers.append(LedgerId(writer.ledger_id))
                await check(client, ledgers[-1], mark)
        return ledgers

    with capture.captured(mark) as seen:
        ledgers = asyncio.run(use())
    assert seen.missed == 0
    for port in WAYS.values():
        written = REPLICAS * ENTRIES * MARKS * len(mark)
        assert seen.bytes_at[port] >= written, "the entries have gone over the network"
    return ledgers, seen


def read_all(clusters: Clusters, written: dict[LedgerId, bytes], *, secure: bool) -> None:
    async def read() -> None:
        async with connected(clusters, PATIENT, secure=secure) as client:
            for ledger, mark in written.items():
                await check(client, ledger, mark)

    asyncio.run(read())


def pods(clusters: Clusters) -> set[str]:
    return {item["metadata"]["uid"] for item in clusters.lab.list("pods", namespace=clusters.space)}


def apply(clusters: Clusters, tls: Mapping[str, str] | None = None) -> None:
    """Ask for a cluster; without a word about TLS it has that, and its pages are by certificate."""
    said: Json = {"network": {"pages": "Certificate"}} if tls is None else {"tls": tls}
    clusters.apply("log", bookiesPerZone=1, autoReplication={"perZone": 0}, **said)


def made_anew(clusters: Clusters, tls: Mapping[str, str] | None = None) -> None:
    """Go the way that the refusal names; no client is there."""
    clusters.delete("log")
    apply(clusters, tls)
    clusters.wait_for_ready("log")


async def edited_under_writes(clusters: Clusters) -> str:
    """Ask for TLS while a client writes on; give what the operator says of it."""

    async def more(written: Load) -> None:
        aim = written.entries + MORE
        await asyncio.to_thread(until, lambda: written.entries >= aim, what="the writer goes on")

    async with clients.connect(clusters.uri, PATIENT) as client, load.under_load(client) as written:
        await more(written)
        await asyncio.to_thread(apply, clusters, {"mode": "Operator"})
        said = await asyncio.to_thread(clusters.wait, "log", "Legal", "False", "Blocked")
        await more(written)
        await asyncio.to_thread(apply, clusters, PLAINTEXT)
        await asyncio.to_thread(clusters.wait, "log", "Legal", "True")
    assert written.failures == []
    return str(said["message"])


def answers(clusters: Clusters, path: str) -> set[int]:
    """Ask each pod for a page over TLS, without a certificate; give the statuses."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # as a kubelet asks
    found = set()
    for pod in clusters.lab.list("pods", namespace=clusters.space):
        connection = http.client.HTTPSConnection(
            pod["status"]["podIP"], seam.HTTP_PORT, timeout=30, context=context
        )
        with closing(connection):
            connection.request("GET", path)
            found.add(connection.getresponse().status)
    return found


async def refused(clusters: Clusters, mark: bytes) -> None:
    """Let a client without a certificate try; it gives up soon."""
    config = dataclasses.replace(PATIENT, add_timeout_ms=2_000)
    async with clients.connect(clusters.uri, config) as client:
        with pytest.raises(ClientError):
            async with client.create() as writer:
                await writer.append_and_wait(mark)


def test_the_network_sees_payloads_in_plaintext_alone_and_a_pause_leads_to_tls_and_back(
    new_clusters: Callable[[], Clusters],
) -> None:
    clusters, mark = new_clusters(), new_mark()
    apply(clusters, PLAINTEXT)
    clusters.wait_for_ready("log")
    assert clusters.wait("log", "Secure", "False", "Plaintext")
    assert clusters.left("secrets") == []
    ledgers, seen = used(clusters, mark, secure=False)
    assert all(seen.found_at[port] > 0 for port in WAYS.values())
    written = dict.fromkeys(ledgers, mark)

    before = pods(clusters)
    said = asyncio.run(edited_under_writes(clusters))
    assert "delete the resource under onDelete: Retain" in said
    assert pods(clusters) == before, "an edit that is refused rolls nothing"

    made_anew(clusters)
    assert clusters.wait("log", "Secure", "True", "Operator")
    assert answers(clusters, seam.READY_PATH) == {200}, "the kubelet's probes pass"
    assert answers(clusters, seam.METRICS_PATH) == {403}
    mark = new_mark()
    ledgers, seen = used(clusters, mark, secure=True)
    assert not any(seen.found_at.values())
    written |= dict.fromkeys(ledgers, mark)
    read_all(clusters, written, secure=True)
    asyncio.run(refused(clusters, mark))

    made_anew(clusters, PLAINTEXT)
    read_all(clusters, written, secure=False)
    clusters.delete("log")
