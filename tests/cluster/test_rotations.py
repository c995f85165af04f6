"""Authorities follow each other under writes: no append fails, and no pod is started anew.

A writer that goes on keeps its connections, and would not notice a certificate. So beside it new
clients come all the time, over both ways, and each of them shakes hands with every bookie anew.
"""

import asyncio
import base64
import dataclasses
import itertools
import os
import random
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.client.patience import PATIENT
from tests.cluster import installation
from tests.cluster.followed_secret import followed
from tests.cluster.installation import ZONES, Clusters
from tests.cluster.kubelet.api import Api, Json
from tests.wire.link import worlds
from tests.zones import load
from zonekeeper.client.api import client as clients
from zonekeeper.client.base.ways import BookieWay
from zonekeeper.metadata.store.background import alongside
from zonekeeper.operator.cluster import tls_parts
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.wire.contract.links import BookieLink
from zonekeeper.wire.formats import bookie_names, errors
from zonekeeper.wire.formats.addresses import Address
from zonekeeper.wire.grpc.tls import ClientCredentials, TlsFiles
from zonekeeper.wire.running import seam
from zonekeeper.wire.socket import socket_link
from zonekeeper.wire.socket.socket_tls import SocketTls

pytestmark = [pytest.mark.cluster, pytest.mark.needs_lab]

#: Longer than the lab's kubelets need on a busy machine.
TLS: Final = {"settle": "2s", "clients": ["app"]}
APP: Final = tls_parts.client_name("log", "app")
AUTHORITY: Final = tls_parts.authority_name("log")
SECRETS: Final = (
    *(tls_parts.bookies_name("log", zone) for zone in ZONES),
    *(tls_parts.autorecovery_name("log"), APP),
)
WAYS: Final = (BookieWay.GRPC, BookieWay.SOCKET)
ENTRIES: Final = 5
#: A person's command for more than the lane has time for.
MINUTES: Final = float(os.environ.get("ROTATION_MINUTES", "10"))
WORD_SECONDS: Final = 2.0
POLL_SECONDS: Final = 0.05
#: Between newcomers: a small machine has more to do.
REST_SECONDS: Final = 0.2


class Looks:
    """Looks at the Secrets of a cluster, and at the files that its pods have of them."""

    def __init__(self, api: Api, clusters: Clusters) -> None:
        self._api = api
        self._path = f"/api/v1/namespaces/{clusters.space}/secrets"
        uids = {item["metadata"]["uid"] for item in pods(clusters)}
        volume = Path("volumes", tls_parts.VOLUME, tls_parts.AUTHORITIES)
        found = clusters.lab.folder.glob("nodes/*/pods/*")
        self._files = [folder / volume for folder in found if folder.name in uids]
        assert len(self._files) == len(uids)

    async def signs(self) -> bytes:
        """Give the authority that signs now."""
        item = await self._api.get(f"{self._path}/{AUTHORITY}")
        assert item is not None
        return value(item, tls_parts.CERTIFICATE)

    async def over(self, old: bytes) -> None:
        """Wait until one authority is left, another than this one, in all Secrets and pods."""

        def is_over(items: Mapping[str, Json]) -> bool:
            new = value(items[AUTHORITY], tls_parts.CERTIFICATE)
            left = {value(items[name], tls_parts.AUTHORITIES) for name in SECRETS}
            return new != old and left == {new}

        await self._seen(is_over)
        new = await self.signs()
        await waited(lambda: {file.read_bytes() for file in self._files} == {new})

    async def issued(self, old: bytes, files: TlsFiles) -> None:
        """Wait until another authority signs, and files show what it has signed."""
        shown = files.certificate.read_bytes()
        await self._seen(lambda items: value(items[AUTHORITY], tls_parts.CERTIFICATE) != old)
        await waited(lambda: files.certificate.read_bytes() != shown)

    async def _seen(self, holds: Callable[[Mapping[str, Json]], bool]) -> None:
        async with asyncio.timeout(installation.READY_SECONDS_MAX):
            async for found in self._api.states(self._path):
                if holds({item["metadata"]["name"]: item for item in found.values()}):
                    return


async def waited(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(installation.READY_SECONDS_MAX):
        while True:
            if holds():
                return
            await asyncio.sleep(POLL_SECONDS)


def value(item: Json, key: str) -> bytes:
    return base64.b64decode(item["data"].get(key, ""))


def pods(clusters: Clusters) -> list[Json]:
    return clusters.lab.list("pods", namespace=clusters.space)


def starts(clusters: Clusters) -> dict[str, int]:
    """Give how often each pod was started, by its uid."""
    return {
        item["metadata"]["uid"]: item["status"]["containerStatuses"][0]["restartCount"]
        for item in pods(clusters)
    }


async def ask(clusters: Clusters, word: str) -> None:
    """Ask for another authority."""
    said = f"zonekeeper.io/rotate={word}"
    words = ("annotate", "--overwrite", "bookiecluster", "log", "-n", clusters.space, said)
    await asyncio.to_thread(clusters.lab.kubectl, *words)


async def rotated(clusters: Clusters, looks: Looks, word: str) -> None:
    """Ask for another authority, and wait until the one before has gone."""
    old = await looks.signs()
    await ask(clusters, word)
    await looks.over(old)


class Newcomers:
    """Clients that come, write a ledger, read it and go, one after the other over each way."""

    def __init__(self, clusters: Clusters, files: TlsFiles) -> None:
        self._clusters = clusters
        self._files = files
        self.count = 0

    async def run(self) -> None:
        for way in itertools.cycle(WAYS):
            config = dataclasses.replace(PATIENT, way=way, tls=self._files)
            async with clients.connect(self._clusters.uri, config) as client:
                async with client.create() as writer:
                    await load.append(writer, ENTRIES)
                    await writer.flush()
                await load.check(client, writer.ledger_id, writer.last_confirmed, recover=False)
            self.count += 1
            await asyncio.sleep(REST_SECONDS)

    async def more(self) -> None:
        """Wait until one that comes from now on was served over each way."""
        aim = self.count + len(WAYS) + 1
        await waited(lambda: self.count >= aim)


@asynccontextmanager
async def under_load(
    clusters: Clusters, folder: Path
) -> AsyncIterator[tuple[Newcomers, list[load.Load]]]:
    """Write over each way while the block runs, with newcomers; in the end all is read again."""
    files = installation.tls_files(folder)
    newcomers = Newcomers(clusters, files)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(
            followed(clusters.lab.kubeconfig, clusters.space, APP, folder)
        )
        written = []
        for way in WAYS:
            config = dataclasses.replace(PATIENT, way=way, tls=files)
            client = await stack.enter_async_context(clients.connect(clusters.uri, config))
            written.append(await stack.enter_async_context(load.under_load(client)))
        async with alongside(newcomers.run()):
            yield newcomers, written
    assert [failure for one in written for failure in one.failures] == []
    reading = dataclasses.replace(PATIENT, tls=files)
    async with clients.connect(clusters.uri, reading) as reader:
        for one in written:
            for ledger, acked in one.acked.items():
                await load.check(reader, ledger, acked, recover=True)


@asynccontextmanager
async def linked(
    way: BookieWay, name: str, host: str, files: TlsFiles
) -> AsyncIterator[BookieLink]:
    """Give a new connection to one bookie."""
    if way is BookieWay.GRPC:
        address = f"{host}:{seam.GRPC_PORT}"
        async with worlds.linked(BookieId(name), address, ClientCredentials(files)) as link:
            yield link
        return
    place = socket_link.SocketPlace(
        name=name, address=Address(host, seam.SOCKET_PORT), tls=SocketTls(files, serving=False)
    )
    async with asyncio.TaskGroup() as tasks:
        chance = random.Random(1)
        link = socket_link.connect(place, tasks=tasks, chance=chance, settings=worlds.PATIENT)
        try:
            yield link
        finally:
            await link.close()


async def refusals(clusters: Clusters, bookie: str, files: TlsFiles) -> list[str]:
    """Give what a new connection to a bookie over each way ends with; nothing: it is served."""
    found = await asyncio.to_thread(clusters.lab.get, "pod", bookie, namespace=clusters.space)
    about = await asyncio.to_thread(clusters.get, "log")
    name = bookie_names.name_of(BookieId(bookie), about["status"]["instance"])
    said = []
    for way in WAYS:
        async with linked(way, name, found["status"]["podIP"], files) as link:
            try:
                assert (await link.info()).bookie_id == bookie
            except errors.WireError as error:
                said.append(f"{way.value}: {error}")
    return said


async def one_side_is_late(clusters: Clusters, looks: Looks, files: TlsFiles) -> None:
    """Rotate while the kubelet of zone c is cut off: its bookie reads its files too late."""
    old = await looks.signs()
    (node,) = clusters.lab.nodes_of("c")
    with clusters.lab.frozen_kubelet(node):
        await ask(clusters, "late")
        await looks.issued(old, files)
        assert await refusals(clusters, "log-a-0", files) == []
        assert len(await refusals(clusters, "log-c-0", files)) == len(WAYS)
    await looks.over(old)
    assert await refusals(clusters, "log-c-0", files) == []


def built(clusters: Clusters) -> None:
    clusters.apply("log", bookiesPerZone=1, tls=TLS)
    clusters.wait_for_ready("log")
    clusters.wait("log", "Secure", "True", "Operator")


def test_authorities_follow_each_other_under_writes_and_one_side_may_be_late(
    new_clusters: Callable[[], Clusters],
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    clusters = new_clusters()
    built(clusters)
    before = starts(clusters)

    async def played() -> None:
        files, early = installation.tls_files(tmp_path), clusters.client_files()
        async with (
            Api(clusters.lab.kubeconfig) as api,
            under_load(clusters, tmp_path) as (newcomers, written),
            clusters.client(config=PATIENT) as lasting,
            lasting.create() as writer,
        ):
            await writer.append_and_wait(b"before")
            for zone in ZONES:
                assert await refusals(clusters, f"log-{zone}-0", early) == []
            looks = Looks(api, clusters)
            for word in ("one", "two"):
                await newcomers.more()
                await rotated(clusters, looks, word)
            await one_side_is_late(clusters, looks, files)
            await newcomers.more()
            await writer.append_and_wait(b"on a connection of before")
            for zone in ZONES:
                assert len(await refusals(clusters, f"log-{zone}-0", early)) == len(WAYS)
            record_property("entries", sum(one.entries for one in written))
            record_property("newcomers", newcomers.count)

    asyncio.run(played())
    assert starts(clusters) == before, "no pod was made anew or started again"
    clusters.wait("log", "Secure", "True", "Operator")
    clusters.delete("log")


@pytest.mark.long
def test_a_word_every_two_seconds_for_minutes_fails_no_append(
    new_clusters: Callable[[], Clusters],
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    """``ROTATION_MINUTES`` says for how long: `make rotations`."""
    clusters = new_clusters()
    built(clusters)
    before = starts(clusters)

    async def played() -> None:
        async with (
            Api(clusters.lab.kubeconfig) as api,
            under_load(clusters, tmp_path) as (newcomers, written),
        ):
            looks, words = Looks(api, clusters), 0
            authorities = {await looks.signs()}
            loop = asyncio.get_running_loop()
            ends = loop.time() + 60 * MINUTES
            while loop.time() < ends:
                words += 1
                await ask(clusters, str(words))
                await asyncio.sleep(WORD_SECONDS)
                authorities.add(await looks.signs())
            await rotated(clusters, looks, "at-last")
            await newcomers.more()
        figures = {
            "minutes": MINUTES,
            "words": words,
            "authorities": len(authorities),
            "entries": sum(one.entries for one in written),
            "newcomers": newcomers.count,
            "failed appends": sum(len(one.failures) for one in written),
        }
        for name, figure in figures.items():
            record_property(name, figure)
        print(figures)  # noqa: T201 what a person has asked for

    asyncio.run(played())
    assert starts(clusters) == before, "no pod was made anew or started again"
    clusters.delete("log")
