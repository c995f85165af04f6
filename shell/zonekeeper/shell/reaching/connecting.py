"""How a command reaches bookies: by a client, over TLS if TLS files are given.

This module is separate from ``reaching``, so that a command that only reads records loads no
client.
"""

import os
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import wraps
from pathlib import Path

import click

from zonekeeper.client.api import client as clients
from zonekeeper.client.api.client import Client
from zonekeeper.client.base import beside_store, errors
from zonekeeper.client.base.config import ClientConfig
from zonekeeper.metadata.commands import opening, options
from zonekeeper.metadata.commands.exits import RefusedCommand
from zonekeeper.metadata.store.errors import StoreUnavailableError
from zonekeeper.shell.reaching import endpoints, reaching
from zonekeeper.shell.reaching.reaching import Place
from zonekeeper.wire.grpc import tls
from zonekeeper.wire.grpc.tls import TlsFiles
from zonekeeper.wire.running import page_asking
from zonekeeper.wire.running.page_asking import PageFiles


def over_tls(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that say how bookies are reached; the command gets them as ``tls``."""

    @wraps(command)
    def called(
        *,
        tls_authority: str | None,
        tls_certificate: str | None,
        tls_key: str | None,
        **rest: object,
    ) -> None:
        command(tls=_tls_files(tls_authority, tls_certificate, tls_key), **rest)

    with_files: Callable[..., None] = called
    for setting in reversed(tls.CLIENT_SETTINGS):
        is_file = click.Path(exists=True, dir_okay=False)
        with_files = options.option(setting, kind=is_file)(with_files)
    return with_files


@asynccontextmanager
async def connected(
    place: Place, tls: TlsFiles | None, *, lasting: bool = False, password: bytes = b""
) -> AsyncIterator[Client]:
    """Give a client of a cluster and its bookies; ``password`` is that of ledgers without another.

    ``lasting`` is for work that goes on for long: it sits out a store that is away later. Any
    other command gives up each request to the store within the time that it was given.
    """
    timeouts = opening.lasting() if lasting else opening.quick()
    async with AsyncExitStack() as stack:
        files = tls or beside_store.found(place.address, beside_store.ADMIN)
        config = ClientConfig(tls=files, store=timeouts, password=password)
        opened = clients.connect(place.address, config)
        try:
            client = await stack.enter_async_context(opened)
        except errors.MetadataFailed as error:
            if isinstance(error.__cause__, StoreUnavailableError):
                raise await opening.away(place.address, error.__cause__) from error
            raise
        reaching.check(client.cluster, place)
        await endpoints.note(client.cluster, place.address, reaching.wall_ms())
        yield client


def page_files(tls: TlsFiles | None) -> PageFiles | None:
    """Give the certificate that is shown to pages: that of the options, or of their variables."""
    if tls is None:
        return page_asking.of_environment(os.environ)
    return PageFiles(authority=tls.authority, certificate=tls.certificate, key=tls.key)


def _tls_files(authority: str | None, certificate: str | None, key: str | None) -> TlsFiles | None:
    """Give the TLS files, or None if no file is given; refuse an incomplete set."""
    if authority is None and certificate is None and key is None:
        return None
    if authority is None or certificate is None or key is None:
        raise RefusedCommand(
            "--tls-authority, --tls-certificate, --tls-key: give all three, or none"
        )
    return TlsFiles(authority=Path(authority), certificate=Path(certificate), key=Path(key))
