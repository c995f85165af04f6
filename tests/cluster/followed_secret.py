"""A Secret as files of this machine, kept as a kubelet keeps them in an application's pod."""

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.cluster.kubelet import atomic_files
from tests.cluster.kubelet.api import Api
from zonekeeper.metadata.store.background import alongside


@asynccontextmanager
async def followed(kubeconfig: Path, space: str, name: str, folder: Path) -> AsyncIterator[None]:
    """Keep a folder as the Secret is while the block runs; the Secret is there."""
    path = f"/api/v1/namespaces/{space}/secrets"

    def put(data: dict[str, str]) -> None:
        atomic_files.put(folder, {key: base64.b64decode(text) for key, text in data.items()})

    async def follow(api: Api) -> None:
        async for found in api.states(path, f"fieldSelector=metadata.name={name}"):
            for item in found.values():
                put(item["data"])

    async with Api(kubeconfig) as api:
        first = await api.get(f"{path}/{name}")
        assert first is not None, f"no Secret {name} in {space}"
        put(first["data"])
        async with alongside(follow(api)):
            yield
