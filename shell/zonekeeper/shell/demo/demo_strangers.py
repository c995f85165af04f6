"""What a caller without a certificate gets from the bookies of the demonstration: no answer.

Both ways to each bookie are tried, gRPC and the socket lane: first with a certificate, then in
plain text. A bookie that does not answer the first is not tried. It would not answer the second
either, whatever it serves, and so it would be counted as one that refuses.

A try counts as refused only if the connection did not come about or broke. Any other end, also an
error that the bookie sends, comes over a connection in plain text.
"""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from zonekeeper.client.api import client as clients
from zonekeeper.client.api.client import Client
from zonekeeper.client.base.config import ClientConfig
from zonekeeper.client.base.ways import BookieWay
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.wire.formats import errors
from zonekeeper.wire.grpc.tls import TlsFiles

_WAYS: Final = (BookieWay.GRPC, BookieWay.SOCKET)
_REFUSED: Final = (errors.ConnectionLost, errors.NotConnected)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainTries:
    """Connections in plain text, each to a bookie that had just answered over TLS."""

    tried: int
    accepted: int


async def tries(cluster: Cluster, bookies: Collection[BookieId], files: TlsFiles) -> PlainTries:
    """Try each way to each bookie in plain text; nothing but its state is asked."""
    found = await asyncio.gather(*(_one_way(cluster, bookies, files, way) for way in _WAYS))
    return PlainTries(
        tried=sum(each.tried for each in found), accepted=sum(each.accepted for each in found)
    )


async def _one_way(
    cluster: Cluster, bookies: Collection[BookieId], files: TlsFiles, way: BookieWay
) -> PlainTries:
    async with clients.over_wire(cluster, ClientConfig(way=way, tls=files)) as known:
        answered = await asyncio.gather(*(_answers(known, bookie) for bookie in bookies))
    served = [one for one, answer in zip(bookies, answered, strict=True) if answer]
    async with clients.over_wire(cluster, ClientConfig(way=way)) as stranger:
        accepted = await asyncio.gather(*(_is_accepted(stranger, bookie) for bookie in served))
    return PlainTries(tried=len(served), accepted=sum(accepted))


async def _answers(client: Client, bookie: BookieId) -> bool:
    try:
        await (await client.bookies.pool.link(bookie)).info()
    except errors.ProtocolError:
        return False
    return True


async def _is_accepted(client: Client, bookie: BookieId) -> bool:
    try:
        await (await client.bookies.pool.link(bookie)).info()
    except errors.ProtocolError as error:
        return not isinstance(error, _REFUSED)
    return True
