"""Who may talk to whom, by certificate."""

import asyncio
import random
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from tests.wire.link.reference_bookie import Disk, ReferenceBookie
from tests.wire.link.worlds import BOOKIE
from zonekeeper.placement.ids import BookieId
from zonekeeper.wire import errors, grpc_link, grpc_server, tls
from zonekeeper.wire.serving import Host
from zonekeeper.wire.tls import TlsFiles

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")


def openssl(*arguments: str | Path) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)


def make_authority(folder: Path, name: str) -> None:
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    subject = ("-subj", f"/CN={name}", "-days", "2", "-addext", "basicConstraints=critical,CA:TRUE")
    out = ("-keyout", folder / f"{name}.key", "-out", folder / f"{name}.crt")
    openssl("req", "-x509", *key, *subject, *out)


def make_certificate(folder: Path, authority: str, name: str, file: str) -> TlsFiles:
    """A certificate for a name, signed by an authority."""
    key, request, certificate = (folder / f"{file}.{end}" for end in ("key", "csr", "crt"))
    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    openssl("req", *curve, "-subj", f"/CN={name}", "-keyout", key, "-out", request)
    extensions = folder / f"{file}.ext"
    extensions.write_text(f"subjectAltName=DNS:{name}\n")
    signer = ("-CA", folder / f"{authority}.crt", "-CAkey", folder / f"{authority}.key")
    serial = ("-CAcreateserial", "-days", "1", "-extfile", extensions)
    openssl("x509", "-req", "-in", request, *signer, *serial, "-out", certificate)
    return TlsFiles(authority=folder / f"{authority}.crt", certificate=certificate, key=key)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certificates")
    for authority in ("ours", "theirs"):
        make_authority(folder, authority)
    return folder


@pytest.fixture(scope="module")
def bookie_files(folder: Path) -> TlsFiles:
    return make_certificate(folder, "ours", BOOKIE, "bookie")


@pytest.fixture(scope="module")
def client_files(folder: Path) -> TlsFiles:
    return make_certificate(folder, "ours", "client", "client")


async def ask(bookie_files: TlsFiles, client_files: TlsFiles | None) -> BookieId:
    """Let a client ask a bookie who it is."""
    host = Host(ReferenceBookie(BOOKIE, Disk()))
    server = grpc_server.GrpcServer(
        host, "127.0.0.1:0", credentials=tls.server_credentials(bookie_files)
    )
    await server.start()
    try:
        async with asyncio.TaskGroup() as tasks:
            link = grpc_link.connect(
                BOOKIE,
                f"127.0.0.1:{server.port}",
                credentials=None if client_files is None else tls.client_credentials(client_files),
                tasks=tasks,
                chance=random.Random(1),
            )
            try:
                return (await link.info()).bookie_id
            finally:
                await link.close()
    finally:
        await server.stop(0)


def test_both_sides_of_one_authority_talk(bookie_files: TlsFiles, client_files: TlsFiles) -> None:
    assert asyncio.run(ask(bookie_files, client_files)) == BOOKIE


def refused(bookie_files: TlsFiles, client_files: TlsFiles | None) -> None:
    with pytest.raises(ExceptionGroup) as caught:
        asyncio.run(ask(bookie_files, client_files))
    assert caught.group_contains(errors.ConnectionLost)


def test_a_client_without_tls_is_not_served(bookie_files: TlsFiles) -> None:
    refused(bookie_files, None)


def test_a_client_of_another_authority_is_not_served(folder: Path, bookie_files: TlsFiles) -> None:
    stranger = make_certificate(folder, "theirs", "client", "stranger")
    refused(bookie_files, replace(stranger, authority=bookie_files.authority))


def test_a_bookie_of_another_authority_is_not_believed(
    folder: Path, client_files: TlsFiles
) -> None:
    impostor = make_certificate(folder, "theirs", BOOKIE, "impostor")
    refused(replace(impostor, authority=client_files.authority), client_files)


def test_another_bookie_of_the_same_cluster_is_not_believed(
    folder: Path, client_files: TlsFiles
) -> None:
    refused(make_certificate(folder, "ours", "rack-b-0", "other"), client_files)


def test_a_file_that_is_not_what_it_should_be_is_named(client_files: TlsFiles) -> None:
    swapped = replace(client_files, certificate=client_files.key)
    with pytest.raises(ValueError, match=rf"{client_files.key}: no PEM block .* CERTIFICATE"):
        tls.client_credentials(swapped)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        tls.server_credentials(replace(client_files, key=Path("/nowhere.pem")))
