"""The process kubelet tells the API server what its containers do, and forgets no change."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from tests.cluster.kubelet.api import Api, Json
from tests.cluster.kubelet.pods import HOSTNAME_MAX, Node, Pod
from tests.support import virtual_time


class _SlowServer(Api):
    """An API server; ``meanwhile`` happens while it answers for the first time."""

    def __init__(self, meanwhile: Callable[[], None] = lambda: None) -> None:
        self.told: list[Json] = []
        self.twice = asyncio.Event()
        self._meanwhile = meanwhile

    async def patch(self, path: str, body: Json) -> Json | None:
        """Take a status."""
        self.told.append(body["status"])
        if len(self.told) == 1:
            self._meanwhile()
        else:
            self.twice.set()
        return {}


def pod_of(api: Api, name: str) -> Pod:
    node = Node(
        name="a-0",
        address="10.244.1.1",
        folder=Path("/nowhere"),
        hosts_file=Path("/nowhere/hosts"),
        images_file=Path("/nowhere/images"),
        api_address="10.244.0.1",
        api_port=6443,
    )
    about = {"name": name, "namespace": "spark", "uid": "1"}
    pod = {"metadata": about, "spec": {"containers": [{"name": "main", "image": "none"}]}}
    return Pod(api, node, pod, "10.244.1.2")


@virtual_time.played
async def test_what_changes_while_the_server_answers_is_told_next() -> None:
    def started() -> None:
        (state,) = pod.state.main
        state.pid, state.waiting = 7, None
        pod._changed.set()  # as where a container starts

    server = _SlowServer(started)
    pod = pod_of(server, "once")
    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        publishing = tasks.create_task(pod._publish())
        await server.twice.wait()
        publishing.cancel()
    assert [one["phase"] for one in server.told] == ["Pending", "Running"]


def test_a_host_s_name_is_the_pod_s_as_long_as_the_kernel_takes_it() -> None:
    assert pod_of(_SlowServer(), "copy-driver").hostname == "copy-driver"
    assert pod_of(_SlowServer(), "x" * 253).hostname == "x" * HOSTNAME_MAX
