"""Certificates are rotated by changing their files; no process is started again for that."""

import asyncio
import logging
from pathlib import Path

import pytest

from tests.support.certificates import Authority, place
from tests.support.fronts import Front
from tests.wire.link.reference_bookie import Disk, ReferenceBookie
from tests.wire.link.worlds import BOOKIE, linked
from zonekeeper.wire.contract.links import BookieLink
from zonekeeper.wire.formats import errors
from zonekeeper.wire.grpc import grpc_server, tls
from zonekeeper.wire.host.serving import Host


async def until_served(link: BookieLink) -> None:
    """Ask until there is an answer."""
    async with asyncio.timeout(300):
        while True:
            try:
                assert (await link.info()).bookie_id == BOOKIE
            except (errors.ConnectionLost, errors.NotConnected):
                await asyncio.sleep(0)
            else:
                return


async def test_a_link_and_its_bookie_go_over_to_certificates_of_another_authority(
    tmp_path: Path,
) -> None:
    old, new = Authority(tmp_path / "old"), Authority(tmp_path / "new")
    bookie_files = place(tmp_path / "bookie", old, BOOKIE)
    client_files = place(tmp_path / "client", old, "client")
    left_behind = place(tmp_path / "left", old, "left")
    credentials = tls.server_credentials(bookie_files)
    host = Host(ReferenceBookie(BOOKIE, Disk()))
    server = grpc_server.GrpcServer(host, "127.0.0.1:0", name=BOOKIE, credentials=credentials)
    await server.start()
    front = Front(server.port)
    await front.open()
    try:
        async with linked(
            BOOKIE, f"127.0.0.1:{front.port}", tls.ClientCredentials(client_files)
        ) as link:
            await until_served(link)
            place(tmp_path / "bookie", new, BOOKIE)
            place(tmp_path / "client", new, "client")
            assert (await link.info()).bookie_id == BOOKIE, "the connection goes on"
            front.cut()
            await until_served(link)
            async with linked(
                BOOKIE, f"127.0.0.1:{server.port}", tls.ClientCredentials(left_behind)
            ) as late:
                with pytest.raises(errors.ConnectionLost):
                    await late.info()
    finally:
        await front.close()
        await server.stop(0)


def test_files_of_two_rotations_are_never_used_together(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ours")
    files = place(tmp_path / "client", authority, "client")
    comes_between = iter([False, True, False])

    def made(read: tls.TlsFiles) -> tuple[bytes, bytes]:
        certificate = read.certificate.read_bytes()
        if next(comes_between):
            place(tmp_path / "client", authority, "client")
        return certificate, read.key.read_bytes()

    kept = tls.MadeFromFiles(files, made)
    first = kept.made
    place(tmp_path / "client", authority, "client")

    assert not kept.renew()
    assert kept.made == first
    assert kept.renew()
    assert kept.made == (files.certificate.read_bytes(), files.key.read_bytes())


def test_files_that_cannot_be_used_change_nothing_and_are_told_of_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    authority = Authority(tmp_path / "ours")
    files = place(tmp_path / "client", authority, "client")
    credentials = tls.ClientCredentials(files)
    first = credentials.current()
    assert credentials.current() is first

    files.key.write_text("half of a ke")
    with caplog.at_level(logging.WARNING, logger=tls.__name__):
        assert credentials.current() is first
        assert credentials.current() is first
    assert len(caplog.records) == 1
    assert f"{files.key}: no PEM block" in caplog.text

    place(tmp_path / "client", authority, "client")
    assert credentials.current() is not first
