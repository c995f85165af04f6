"""A bookie and its client go through rotations over both transports, each reading files late."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.operator.certificates import handshakes
from tests.operator.certificates.handshakes import secret
from tests.operator.certificates.keeping import Keeping
from tests.operator.resources import NAME
from tests.support.raw_sockets import LIMIT_S
from tests.wire.link import worlds
from tests.wire.link.reference_bookie import Disk, ReferenceBookie
from zonekeeper.operator.certificates import secret_data
from zonekeeper.operator.cluster import tls_parts
from zonekeeper.operator.kubernetes.api import Json
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.wire.contract.links import BookieLink
from zonekeeper.wire.formats.addresses import Address
from zonekeeper.wire.grpc import grpc_server, tls
from zonekeeper.wire.grpc.tls import TlsFiles
from zonekeeper.wire.host.serving import Host
from zonekeeper.wire.socket import socket_link
from zonekeeper.wire.socket.socket_server import SocketServer
from zonekeeper.wire.socket.socket_tls import SocketTls

BOOKIE = BookieId(f"{NAME}-a-0")
APP = tls_parts.client_name(NAME, "app")
#: Valid also by the machine's clock, which the transports look at.
LONG = {
    "mode": "Operator",
    "settle": "1s",
    "clients": ["app"],
    "lifetime": "3650d",
    "authorityLifetime": "36500d",
}
#: Turns by which the one side reads its files later than the other; ``settle`` is one more.
LATE = 4


def files_in(folder: Path) -> TlsFiles:
    folder.mkdir(exist_ok=True)
    return TlsFiles(
        authority=folder / tls_parts.AUTHORITIES,
        certificate=folder / tls_parts.CERTIFICATE,
        key=folder / tls_parts.KEY,
    )


def put(files: TlsFiles, item: Json) -> None:
    """Replace the files by those of a Secret, as a kubelet does."""
    for path in (files.authority, files.certificate, files.key):
        new = path.with_suffix(".new")
        new.write_bytes(secret_data.value(item, path.name))
        if not path.exists() or path.read_bytes() != new.read_bytes():
            new.rename(path)


@asynccontextmanager
async def over_grpc(port: int, files: TlsFiles) -> AsyncIterator[BookieLink]:
    async with worlds.linked(BOOKIE, f"127.0.0.1:{port}", tls.ClientCredentials(files)) as link:
        yield link


@asynccontextmanager
async def over_socket(port: int, files: TlsFiles) -> AsyncIterator[BookieLink]:
    place = socket_link.SocketPlace(
        name=BOOKIE, address=Address("127.0.0.1", port), tls=SocketTls(files, serving=False)
    )
    async with asyncio.timeout(LIMIT_S), asyncio.TaskGroup() as tasks:
        link = socket_link.connect(
            place, tasks=tasks, chance=random.Random(1), settings=worlds.PATIENT
        )
        try:
            yield link
        finally:
            await link.close()


@pytest.mark.parametrize("late", ["bookie", "client"])
async def test_every_new_connection_of_every_turn_is_served(tmp_path: Path, late: str) -> None:
    kept = Keeping(**LONG)
    await kept.rest()
    kept.step_ms = 200
    sides = {
        "bookie": (files_in(tmp_path / "bookie"), handshakes.bookies("a")),
        "client": (files_in(tmp_path / "client"), APP),
    }
    history = {
        side: [secret(kept.kubernetes, name)] * (LATE + 1) for side, (_, name) in sides.items()
    }
    for side, (files, _) in sides.items():
        put(files, history[side][-1])
    bookie, client = sides["bookie"][0], sides["client"][0]
    host = Host(ReferenceBookie(BOOKIE, Disk()))
    grpc = grpc_server.GrpcServer(
        host, "127.0.0.1:0", name=BOOKIE, credentials=tls.server_credentials(bookie)
    )
    lane = SocketServer(
        host, Address("127.0.0.1", 0), name=BOOKIE, tls=SocketTls(bookie, serving=True)
    )
    await grpc.start()
    await lane.start()
    served, seen = 0, set[bytes]()
    try:
        for word in ("one", "two"):
            kept.rotate(word)
            for _ in range(20):
                await kept.turn()
                for side, (files, name) in sides.items():
                    history[side].append(secret(kept.kubernetes, name))
                    put(files, history[side][-1 - LATE if side == late else -1])
                seen.add(client.authority.read_bytes())
                for port, linked in ((grpc.port, over_grpc), (lane.port, over_socket)):
                    async with linked(port, client) as link:
                        assert (await link.info()).bookie_id == BOOKIE
                        served += 1
    finally:
        await grpc.stop(0)
        await lane.stop(0)
    assert served == 80
    assert len(seen) >= 5, "one, both, the other, both and a third one were trusted"
