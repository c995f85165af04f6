"""How a command reaches the ledgers of logs: their bookies over TLS, and with a password."""

import functools
import os
import platform
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import SystemRandom
from typing import Final

import click

from zonekeeper.client.api.client import Surroundings
from zonekeeper.client.base.errors import Unauthorized
from zonekeeper.log.api.log_client import LogClient
from zonekeeper.log.base.errors import LogTrimmed
from zonekeeper.metadata.commands.exits import RefusedCommand
from zonekeeper.metadata.logs.log_cursors import NoCursorError
from zonekeeper.metadata.logs.logs import NoLogError
from zonekeeper.placement.base.hidden import Secret
from zonekeeper.shell.commands import ledger_options
from zonekeeper.shell.logs import noting
from zonekeeper.shell.reaching import connecting, reaching
from zonekeeper.shell.reaching.reaching import Place
from zonekeeper.wire.grpc.tls import TlsFiles

_PASSWORD: Final = click.option(
    "--password-file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="The password of the log's ledgers, in a file. Without it "
    f"{ledger_options.PASSWORD_VARIABLE} is used, if it is set.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogAccess:
    """What a command line says of the ledgers of logs; by default: no TLS, and no password."""

    tls: TlsFiles | None = None
    password_file: Path | None = None
    password: Secret = field(default=Secret(), repr=False)


def with_access(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that say how ledgers are reached; the command gets them as ``access``."""

    @functools.wraps(command)
    def called(*, tls: TlsFiles | None, password_file: Path | None, **rest: object) -> None:
        password = ledger_options.password(password_file)
        access = LogAccess(tls=tls, password_file=password_file, password=password)
        command(access=access, **rest)

    return connecting.over_tls(_PASSWORD(called))


def address(command: str) -> str:
    """Give what a command says of how it is reached; `log show` and `log cursors` show it."""
    return f"`zonekeeper {command}` on {platform.node()}, process {os.getpid()}"


@asynccontextmanager
async def there(place: Place, client: LogClient, name: str) -> AsyncIterator[None]:
    """Refuse what is not there, and a place that was trimmed: nothing was changed.

    Completion hears whether the log is there.
    """
    try:
        yield
    except NoLogError as error:
        noting.gone(place, client, name)
        raise RefusedCommand(str(error)) from None
    except (NoCursorError, LogTrimmed) as error:
        raise RefusedCommand(str(error)) from None
    noting.used(place, client, name)


@asynccontextmanager
async def connected(
    place: Place, access: LogAccess | None = None, *, lasting: bool = False
) -> AsyncIterator[LogClient]:
    """Give a client of the logs of a cluster; without access it reads and writes records only."""
    access = access or LogAccess()
    async with connecting.connected(
        place, access.tls, lasting=lasting, password=access.password
    ) as client:
        try:
            yield LogClient(client, Surroundings(SystemRandom(), reaching.wall_ms))
        except Unauthorized as error:
            tried = ledger_options.password_tried(access.password_file)
            raise RefusedCommand(f"{error}; {tried}") from None
