"""The reference bookie as a process of its own: prints its port, and serves until it is killed."""

import asyncio

from tests.wire.link.reference_bookie import Disk, ReferenceBookie
from tests.wire.link.worlds import BOOKIE
from zonekeeper.wire.grpc import grpc_server
from zonekeeper.wire.host.serving import Host


async def main() -> None:
    host = Host(ReferenceBookie(BOOKIE, Disk()))
    server = grpc_server.GrpcServer(host, "127.0.0.1:0", name=BOOKIE, credentials=None)
    await server.start()
    print(server.port, flush=True)  # noqa: T201 it is what the parent waits for
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
