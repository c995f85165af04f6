"""Autorecovery with pages by certificate: what it shows to whom, and what it announces."""

import asyncio
from http import HTTPStatus
from pathlib import Path

import pytest

from tests.replication.run.test_process import lived, parsed
from tests.shell.live_world import LiveWorld
from tests.support.certificates import Authority, certified, of_role
from tests.support.http_port import ask, get
from tests.support.secured_pages import asked, showing
from zonekeeper.metadata.cluster import announced
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.stores.opening import open_store
from zonekeeper.placement.base.settings import BadSettingError
from zonekeeper.wire.grpc.tls import TlsFiles
from zonekeeper.wire.identity.principals import Role


@pytest.fixture
def world(tmp_path: Path) -> LiveWorld:
    return LiveWorld(tmp_path)


def flags(files: TlsFiles) -> dict[str, str]:
    return {
        "tls_authority": str(files.authority),
        "tls_certificate": str(files.certificate),
        "tls_key": str(files.key),
    }


def test_it_shows_its_pages_by_certificate_and_announces_that(
    world: LiveWorld, tmp_path: Path
) -> None:
    world.build()
    authority = Authority(tmp_path / "ours")
    mine, trusted = certified(authority, "repairs", "repairs"), authority.pair.certificate

    async def instance(cluster: Cluster) -> str:
        return cluster.instance

    here = world.on(instance)
    monitor = of_role(authority, Role.MONITOR, instance=here)
    another = of_role(authority, Role.MONITOR, instance="another")

    async def look(port: int) -> None:
        async def page(path: str, files: TlsFiles | None) -> tuple[int, str]:
            return await asked(port, get(path), showing(files, trusted))

        assert await page("/healthz", None) == (200, "alive\n")
        assert await page("/readyz", None) == (200, "ready\n")
        for path in ("/metrics", "/state"):
            for files in (None, another, mine):
                assert (await page(path, files))[0] == HTTPStatus.FORBIDDEN
        status, text = await page("/metrics", monitor)
        assert status == HTTPStatus.OK
        assert 'zonekeeper_pages_refusals_total{role="none"} 6' in text
        assert '"name": "auto-1"' in (await page("/state", monitor))[1]
        assert (await ask(port, get("/metrics")))[0] == HTTPStatus.BAD_REQUEST
        store = await open_store(world.address)
        try:
            (one,) = await announced.read_all(await clusters.open_cluster(store))
        finally:
            await store.close()
        assert one.http_tls
        assert one.http.endswith(f":{port}")

    asyncio.run(lived(world, look, http_tls="on", **flags(mine)))


def test_without_files_it_is_refused_and_without_the_setting_pages_are_plain() -> None:
    with pytest.raises(BadSettingError, match="--http-tls: on needs --tls-authority"):
        parsed(http_tls="on")
    files = {"tls_authority": "/ca", "tls_certificate": "/crt", "tls_key": "/key"}
    assert parsed(**files).page_tls is None
    assert parsed(http_tls="on", **files).page_tls == parsed(**files).tls
