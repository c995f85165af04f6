"""Which clients and bookies may talk to each other, by certificate."""

import asyncio
import random
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.certificates import Authorities, certified
from tests.wire.link.reference_bookie import Disk, ReferenceBookie
from tests.wire.link.worlds import BOOKIE, linked
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.wire.formats import errors
from zonekeeper.wire.grpc import grpc_link, grpc_server, tls
from zonekeeper.wire.grpc.tls import TlsFiles
from zonekeeper.wire.host.serving import Host


async def ask(bookie_files: TlsFiles, client_files: TlsFiles | None) -> BookieId:
    """Let a client ask a bookie for its id."""
    host = Host(ReferenceBookie(BOOKIE, Disk()))
    server = grpc_server.GrpcServer(
        host,
        "127.0.0.1:0",
        name=BOOKIE,
        credentials=tls.server_credentials(bookie_files),
    )
    await server.start()
    try:
        credentials = None if client_files is None else tls.ClientCredentials(client_files)
        async with linked(BOOKIE, f"127.0.0.1:{server.port}", credentials) as link:
            return (await link.info()).bookie_id
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


def test_a_client_of_another_authority_is_not_served(
    authorities: Authorities, bookie_files: TlsFiles
) -> None:
    stranger = certified(authorities.theirs, "client", "stranger")
    refused(bookie_files, replace(stranger, authority=bookie_files.authority))


def test_a_bookie_of_another_authority_is_not_believed(
    authorities: Authorities, client_files: TlsFiles
) -> None:
    impostor = certified(authorities.theirs, BOOKIE, "impostor")
    refused(replace(impostor, authority=client_files.authority), client_files)


def test_another_bookie_of_the_same_cluster_is_not_believed(
    authorities: Authorities, client_files: TlsFiles
) -> None:
    refused(certified(authorities.ours, "rack-b-0", "other"), client_files)


async def test_a_bookie_whose_id_has_a_colon_is_not_asked(
    client_files: TlsFiles,
) -> None:
    async with asyncio.TaskGroup() as tasks:
        with pytest.raises(errors.NotConnected, match=r"'rack-a-0:1' cannot be .* without colons"):
            grpc_link.connect(
                "rack-a-0:1@cluster",
                "127.0.0.1:1",
                credentials=tls.ClientCredentials(client_files),
                tasks=tasks,
                chance=random.Random(1),
            )


def test_a_file_that_is_not_what_it_should_be_is_named(client_files: TlsFiles) -> None:
    swapped = replace(client_files, certificate=client_files.key)
    with pytest.raises(ValueError, match=rf"{client_files.key}: no PEM block .* CERTIFICATE"):
        tls.ClientCredentials(swapped)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        tls.server_credentials(replace(client_files, key=Path("/nowhere.pem")))
