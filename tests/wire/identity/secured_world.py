"""A bookie with TLS on both transports, which holds the rights of roles; links of any certificate.

Both transports stand in front of one host, as in a bookie's process.
"""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.wire.link.reference_bookie import Disk, ReferenceBookie
from tests.wire.link.worlds import BOOKIE, PATIENT
from zonekeeper.wire.contract.links import BookieLink, LinkSettings
from zonekeeper.wire.formats import versions
from zonekeeper.wire.formats.addresses import Address
from zonekeeper.wire.grpc import grpc_link, tls
from zonekeeper.wire.grpc.grpc_server import GrpcServer
from zonekeeper.wire.grpc.tls import TlsFiles
from zonekeeper.wire.host.access import Access
from zonekeeper.wire.host.host_limits import HostLimits
from zonekeeper.wire.host.name_map_file import NameMapFile
from zonekeeper.wire.host.serving import Host
from zonekeeper.wire.identity.callers import Enforcement, OwnerRule
from zonekeeper.wire.link.transports import Transport
from zonekeeper.wire.running.audit_log import AuditLog
from zonekeeper.wire.socket import socket_link
from zonekeeper.wire.socket.socket_server import SocketServer
from zonekeeper.wire.socket.socket_tls import SocketTls

INSTANCE = "c0ffee"
GRPC, SOCKET = "grpc", "socket"
WAYS = (GRPC, SOCKET)


@dataclass(frozen=True, slots=True, kw_only=True)
class SecuredBookie:
    """A bookie that serves, and how it is reached."""

    bookie: ReferenceBookie
    access: Access
    ports: dict[str, int]

    @asynccontextmanager
    async def transported(self, way: str, files: TlsFiles | None) -> AsyncIterator[Transport]:
        """Give the bare way under a link, on which anything can be asked."""
        async with asyncio.TaskGroup() as tasks:
            if way == GRPC:
                over: Transport = grpc_link.transport(
                    BOOKIE,
                    f"127.0.0.1:{self.ports[GRPC]}",
                    credentials=None if files is None else tls.ClientCredentials(files),
                    speaks=versions.SPOKEN,
                )
            else:
                over = socket_link.transport(self._place(files), tasks=tasks, settings=PATIENT)
            try:
                yield over
            finally:
                await over.close()

    def _place(self, files: TlsFiles | None) -> socket_link.SocketPlace:
        return socket_link.SocketPlace(
            name=BOOKIE,
            address=Address("127.0.0.1", self.ports[SOCKET]),
            tls=None if files is None else SocketTls(files, serving=False),
        )

    @asynccontextmanager
    async def linked(
        self, way: str, files: TlsFiles | None, settings: LinkSettings = PATIENT
    ) -> AsyncIterator[BookieLink]:
        """Give a link with this certificate over one of the transports."""
        async with asyncio.TaskGroup() as tasks:
            if way == GRPC:
                link = grpc_link.connect(
                    BOOKIE,
                    f"127.0.0.1:{self.ports[GRPC]}",
                    credentials=None if files is None else tls.ClientCredentials(files),
                    tasks=tasks,
                    chance=random.Random(1),
                    settings=settings,
                )
            else:
                link = socket_link.connect(
                    self._place(files), tasks=tasks, chance=random.Random(1), settings=settings
                )
            try:
                yield link
            finally:
                await link.close()


@asynccontextmanager
async def secured(
    files: TlsFiles | None,
    enforcement: Enforcement = Enforcement.ON,
    names: Path | None = None,
    bookie: ReferenceBookie | None = None,
    owners: OwnerRule = OwnerRule.OFF,
    limits: HostLimits | None = None,
) -> AsyncIterator[SecuredBookie]:
    """Serve a bookie over both transports, with these files."""
    bookie = bookie or ReferenceBookie(BOOKIE, Disk())
    access = Access(
        enforcement,
        instance=INSTANCE,
        names=None if names is None else NameMapFile(names),
        audit=AuditLog(lambda: 0.0),
        owners=owners,
    )
    host = Host(bookie, limits, access=access)
    grpc_server = GrpcServer(
        host,
        "127.0.0.1:0",
        name=BOOKIE,
        credentials=None if files is None else tls.server_credentials(files),
    )
    encryption = None if files is None else SocketTls(files, serving=True)
    socket_server = SocketServer(host, Address("127.0.0.1", 0), name=BOOKIE, tls=encryption)
    await grpc_server.start()
    await socket_server.start()
    try:
        ports = {GRPC: grpc_server.port, SOCKET: socket_server.port}
        yield SecuredBookie(bookie=bookie, access=access, ports=ports)
    finally:
        await socket_server.stop(0)
        await grpc_server.stop(0)
