"""Images change under writes, between this release and the one before, on the same disks.

The tags are words: between two tags like 0.1.0 an older one is refused before it is asked.
"""

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import aiohttp
import pytest

from tests.cluster.installation import Clusters
from tests.cluster.kubelet.api import Api, ApiError, Json
from tests.cluster.processes import until
from tests.support import releases
from tests.support.autorecovery_processes import Metrics
from tests.zones import load
from tests.zones.load import Load
from zonekeeper.bookie.life import own_formats
from zonekeeper.client.api.client import Client
from zonekeeper.metadata.formats import release_formats
from zonekeeper.metadata.formats.release_formats import FormatRange
from zonekeeper.metadata.store.background import alongside

pytestmark = pytest.mark.cluster

BEFORE: Final = "zonekeeper:before"
#: The lab has no such image of its own, so it is the checkout.
NOW: Final = "zonekeeper:now"
SAMPLE_SECONDS: Final = 0.5
#: Production waits longer for an evaluation, and rests longer after a step.
SOON: Final = {
    "placement": {"upgradeDomains": 2},
    "zoneWatch": {"evaluateEvery": "1s", "startGrace": "2s"},
}
BYTES_MOVED: Final = "zonekeeper_repair_bytes_moved_total"


@dataclass(slots=True)
class Watch:
    """Looks at the pods all the time; what it saw is judged in the end."""

    clusters: Clusters
    samples: int = 0
    #: The units that were away at once, each time that there were several.
    several: list[set[str]] = field(default_factory=list)
    #: The numbers of each autorecovery process that there was, as it last said them.
    repairers: dict[str, Metrics] = field(default_factory=dict)

    async def run(self, api: Api) -> None:
        """Look every half second until cancelled."""
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=2)) as http:
            while True:
                with contextlib.suppress(ApiError):
                    await self._look(api, http)
                await asyncio.sleep(SAMPLE_SECONDS)

    async def _look(self, api: Api, http: aiohttp.ClientSession) -> None:
        base = f"/api/v1/namespaces/{self.clusters.space}/pods?labelSelector=zonekeeper.io"
        pods = (await api.call("GET", f"{base}%2Fcluster%3Dlog"))["items"]
        ready = {pod["metadata"]["name"] for pod in pods if _is_ready(pod)}
        away = {name for name in _BOOKIES if name not in ready}
        self.samples += 1
        if len(away) > 1:
            self.several.append(away)
        for pod in (await api.call("GET", f"{base}%2Frepairs%3Dlog"))["items"]:
            with contextlib.suppress(aiohttp.ClientError, TimeoutError, KeyError):
                async with http.get(f"http://{pod['status']['podIP']}:8080/metrics") as answer:
                    self.repairers[pod["metadata"]["uid"]] = Metrics(await answer.text())

    def moved(self, cause: str = "") -> int:
        """Say how many bytes all processes have copied."""
        labels = {"cause": cause} if cause else {}
        return int(sum(one.sum_of(BYTES_MOVED, **labels) for one in self.repairers.values()))


#: Each is a unit of its own: there are two upgrade domains in each zone.
_BOOKIES: Final = [f"log-{zone}-{ordinal}" for zone in "abc" for ordinal in range(2)]


def _is_ready(pod: Json) -> bool:
    conditions = pod.get("status", {}).get("conditions", ())
    said = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
    return said and not pod["metadata"].get("deletionTimestamp")


async def appending(client: Client, times: list[float]) -> None:
    """Append one entry after the other, and note how long each took; runs until cancelled."""
    loop = asyncio.get_running_loop()
    while True:
        async with client.create() as writer:
            for _ in range(load.LEDGER_ENTRIES):
                began = loop.time()
                await writer.append_and_wait(b"one")
                times.append(loop.time() - began)
                await asyncio.sleep(0.02)


@contextlib.asynccontextmanager
async def under_writes(clusters: Clusters) -> AsyncIterator[tuple[Load, list[float]]]:
    """Write in bursts, and one by one, while the block runs; then read what was acknowledged."""
    times: list[float] = []
    async with clusters.client() as client:
        async with load.under_load(client) as written, alongside(appending(client, times)):
            yield written, times
        assert written.failures == []
    async with clusters.client() as reader:
        for ledger, acked in written.acked.items():
            await load.check(reader, ledger, acked, recover=True)


def p99_ms(times: list[float]) -> float:
    return sorted(times)[len(times) * 99 // 100] * 1_000


def ask(clusters: Clusters, image: str) -> None:
    """Ask for a cluster of six bookies that run an image."""
    update = {"bake": "0s", "deadline": "5m"}
    clusters.apply("log", image=image, bookiesPerZone=2, policy=SOON, update=update)


def images(clusters: Clusters) -> Iterator[str]:
    """Give the image of each bookie's pod."""
    selector = "zonekeeper.io/cluster=log"
    for pod in clusters.lab.list("pods", namespace=clusters.space, selector=selector):
        yield pod["spec"]["containers"][0]["image"]


def rolled_to(clusters: Clusters, image: str) -> None:
    """Wait until every bookie runs an image, and is well."""
    clusters.until(
        "log",
        lambda: (
            set(images(clusters)) == {image}
            and clusters.condition("log", "UpToDate").get("status") == "True"
            and clusters.condition("log", "Ready").get("status") == "True"
        ),
        what=f"all bookies run {image}",
    )


@pytest.mark.long
def test_three_changes_of_the_image_under_writes_lose_nothing(
    new_clusters: Callable[[], Clusters],
    tmp_path_factory: pytest.TempPathFactory,
    record_property: Callable[[str, object], None],
) -> None:
    folder: Path = tmp_path_factory.mktemp("before")
    before = releases.before(folder)
    record_property("the release before", before.made_of)
    clusters = new_clusters()
    clusters.lab.images.put(BEFORE, before.folder)
    ask(clusters, BEFORE)
    clusters.wait_for_ready("log")

    async def played() -> None:
        watch = Watch(clusters)
        async with (
            under_writes(clusters) as (written, times),
            Api(clusters.lab.control_plane.kubeconfig) as api,
            alongside(watch.run(api)),
        ):
            await asyncio.to_thread(until, lambda: len(times) >= 100, what="100 appends at rest")
            at_rest = p99_ms(times)
            times.clear()
            for image in (NOW, BEFORE, NOW):
                await asyncio.to_thread(ask, clusters, image)
                await asyncio.to_thread(rolled_to, clusters, image)
        record_property("entries", written.entries)
        record_property("samples", watch.samples)
        record_property("bytes copied for holes", watch.moved("holes"))
        record_property("p99 at rest, ms", round(at_rest, 1))
        record_property("p99 while rolling, ms", round(p99_ms(times), 1))
        assert watch.several == [], "at most one unit is away"
        assert watch.moved() == watch.moved("holes"), "nothing is copied but what was never written"

    asyncio.run(played())
    assert "log-formats" not in " ".join(clusters.left("pods")), "nobody asks an image any more"
    clusters.delete("log")


def test_an_image_that_cannot_be_pulled_or_is_too_old_gets_no_bookie(
    new_clusters: Callable[[], Clusters], tmp_path: Path
) -> None:
    ours = own_formats.of_this_release()
    disk = {**ours.disk, "checkpoint": FormatRange(1, 2)}
    older = release_formats.render(dataclasses.replace(ours, version="0.0.1", disk=disk))
    program = tmp_path / "bin" / "zonekeeper"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\nprintf '%s' '{older}' > \"$ZONEKEEPER_TERMINATION_LOG\"\n")
    program.chmod(0o755)
    clusters = new_clusters()
    clusters.lab.images.put("zonekeeper:older", tmp_path)
    clusters.apply("log", image=NOW, bookiesPerZone=1)
    clusters.wait_for_ready("log")

    clusters.lab.images.take_away("zonekeeper:missing")
    clusters.apply("log", image="zonekeeper:missing", bookiesPerZone=1)

    def is_told() -> bool:
        return "ImagePull" in clusters.condition("log", "Rolling").get("message", "")

    clusters.until("log", is_told, what="the pull that fails is told")
    clusters.apply("log", image="zonekeeper:older", bookiesPerZone=1)
    said = clusters.wait("log", "Rolling", "False", "imageNotVetted")

    def is_refused() -> bool:
        nonlocal said
        said = clusters.condition("log", "Rolling")
        return "must not run here" in said.get("message", "")

    clusters.until("log", is_refused, what="the image is refused")
    assert "checkpoint in version 3, and the image reads 1..2" in said["message"]
    assert set(images(clusters)) == {NOW}
    assert clusters.condition("log", "Ready")["status"] == "True"

    clusters.apply("log", image=NOW, bookiesPerZone=1)
    clusters.wait("log", "Rolling", "True")
    clusters.delete("log")


def test_a_bookie_that_refuses_its_disk_says_so_in_its_pods_status(
    new_clusters: Callable[[], Clusters],
) -> None:
    clusters = new_clusters()
    clusters.apply("log", image=NOW, bookiesPerZone=1)
    clusters.wait_for_ready("log")
    claim = clusters.lab.get("pvc", "data-log-c-0", namespace=clusters.space)
    (counts,) = clusters.lab.folder.glob(f"nodes/*/volumes/*{claim['spec']['volumeName']}*/boots")
    count = counts.read_bytes()
    counts.write_bytes(count[:4] + b"\x02" + count[5:])
    clusters.lab.kubectl("delete", "pod", "log-c-0", "-n", clusters.space)

    def last_words() -> str:
        pod = clusters.lab.get("pod", "log-c-0", namespace=clusters.space)
        statuses = pod.get("status", {}).get("containerStatuses", [])
        ended = [one["lastState"].get("terminated", {}) for one in statuses]
        return str(ended[0].get("message")) if ended else ""

    clusters.until("log", lambda: "newer zonekeeper" in last_words(), what="it says why")
    assert last_words() == (
        "the file 'boots' in the data folder was written by a newer zonekeeper (a count of starts "
        "has a version that is not supported: 2, this side reads 1): start that version; nothing "
        "is lost"
    )
    counts.write_bytes(count)
    clusters.wait_for_ready("log")
    clusters.delete("log")
