"""A bookie's process with pages by certificate: what it shows to whom, and what it refuses."""

import asyncio
from http import HTTPStatus
from pathlib import Path

import pytest

from tests.bookie.life.process_world import BOOKIE, INSTANCE, World, refused, started
from tests.support.certificates import Authority, certified, of_role
from tests.support.http_port import ask, get
from tests.support.secured_pages import asked, showing
from zonekeeper.metadata.bookies import registration
from zonekeeper.wire.grpc.tls import TlsFiles
from zonekeeper.wire.identity.principals import Role


def flags(files: TlsFiles) -> dict[str, str]:
    return {
        "tls_authority": str(files.authority),
        "tls_certificate": str(files.certificate),
        "tls_key": str(files.key),
    }


async def test_it_shows_its_pages_by_certificate_and_its_registration_says_so(
    tmp_path: Path,
) -> None:
    world, authority = World(tmp_path), Authority(tmp_path / "ours")
    await world.make()
    monitor = of_role(authority, Role.MONITOR, instance=INSTANCE)
    client = of_role(authority, Role.CLIENT, instance=INSTANCE)
    names = tmp_path / "names"
    names.write_text("dns watch.example monitor watch\n")
    foreign = certified(authority, "watch.example", "foreign")
    mine = flags(certified(authority, BOOKIE, "bookie"))
    async with started(
        world, http_tls="on", listen_socket="127.0.0.1:0", access_names=str(names), **mine
    ) as bookie:
        trusted = authority.pair.certificate

        async def page(path: str, files: TlsFiles | None) -> tuple[int, str]:
            return await asked(bookie.http_port, get(path), showing(files, trusted))

        assert await page("/healthz", None) == (200, "alive\n")
        assert await page("/readyz", None) == (200, "ready\n")
        for path in ("/metrics", "/state"):
            assert (await page(path, None))[0] == HTTPStatus.FORBIDDEN
            assert (await page(path, client))[0] == HTTPStatus.FORBIDDEN
            assert (await page(path, foreign))[0] == HTTPStatus.OK
        status, text = await page("/metrics", monitor)
        assert status == HTTPStatus.OK
        assert 'zonekeeper_pages_refusals_total{role="client"} 2' in text
        assert 'zonekeeper_pages_refusals_total{role="none"} 2' in text
        assert f'"instance": "{INSTANCE}"' in (await page("/state", monitor))[1]
        assert (await ask(bookie.http_port, get("/healthz")))[0] == HTTPStatus.BAD_REQUEST
        async with world.cluster() as cluster:
            info = await registration.read_service_info(cluster, BOOKIE)
        assert info is not None
        assert info.pages_by_certificate


async def test_with_tls_and_without_the_setting_the_pages_stay_plain(tmp_path: Path) -> None:
    world, authority = World(tmp_path), Authority(tmp_path / "ours")
    await world.make()
    async with started(world, **flags(certified(authority, BOOKIE, "bookie"))) as bookie:
        status, text = await ask(bookie.http_port, get("/metrics"))
        assert status == HTTPStatus.OK
        assert "zonekeeper_pages_" not in text
        async with world.cluster() as cluster:
            info = await registration.read_service_info(cluster, BOOKIE)
        assert info is not None
        assert not info.pages_by_certificate


@pytest.mark.parametrize("is_broken", [False, True])
async def test_it_does_not_start_without_files_that_can_be_used(
    is_broken: bool, tmp_path: Path
) -> None:
    world, authority = World(tmp_path), Authority(tmp_path / "ours")
    await world.make()
    given: dict[str, str] = {}
    if is_broken:
        files = certified(authority, BOOKIE, "bookie")
        await asyncio.to_thread(files.key.write_text, "no key")
        given = flags(files)
    code, said = await refused(world.arguments(http_tls="on", **given))
    assert code == (1 if is_broken else 2)
    if is_broken:
        assert "--tls-authority, --tls-certificate, --tls-key: " in said
        assert "no PEM block of the kind PRIVATE KEY" in said
    else:
        assert "--http-tls: on needs --tls-authority, --tls-certificate, --tls-key" in said
