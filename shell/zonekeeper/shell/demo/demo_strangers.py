"""What a caller without a certificate gets from the bookies of the demonstration: no answer.

Both ways to each bookie are tried, gRPC and the socket lane: with a certificate, and in plain text.
A bookie that answers neither refused nothing: it was not reached. So a way counts as tried only if
one of the two was answered.

A try counts as refused only if the connection did not come about or broke. Any other end, also an
error that the bookie sends, comes over a connection in plain text.
"""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Final

from zonekeeper.client.api import client as clients
from zonekeeper.client.api.client import Client
from zonekeeper.client.base.config import ClientConfig
from zonekeeper.client.base.ways import BookieWay
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.wire.contract.links import LinkSettings
from zonekeeper.wire.formats import errors
from zonekeeper.wire.grpc.tls import TlsFiles

_WAYS: Final = (BookieWay.GRPC, BookieWay.SOCKET)
#: A handshake on a busy machine takes less; a refusal comes at once.
_PATIENT: Final = LinkSettings(connect_timeout_ms=10_000, call_timeout_ms=10_000)
_REFUSED: Final = (errors.ConnectionLost, errors.NotConnected)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainTries:
    """Connections in plain text: ``accepted <= tried <= ways``."""

    #: The ways to all bookies that there were.
    ways: int
    #: Those at which a bookie was reached.
    tried: int
    accepted: int


async def tries(cluster: Cluster, bookies: Collection[BookieId], files: TlsFiles) -> PlainTries:
    """Try each way to each bookie in plain text; nothing but its state is asked."""
    found = [
        one
        for answers in await asyncio.gather(
            *(_one_way(cluster, bookies, files, way) for way in _WAYS)
        )
        for one in answers
    ]
    return PlainTries(
        ways=len(found),
        tried=sum(over_tls or in_plain for over_tls, in_plain in found),
        accepted=sum(in_plain for _, in_plain in found),
    )


async def _one_way(
    cluster: Cluster, bookies: Collection[BookieId], files: TlsFiles, way: BookieWay
) -> list[tuple[bool, bool]]:
    """Say of each bookie whether it answers over TLS, and whether it does in plain text."""
    config = ClientConfig(way=way, links=_PATIENT)
    async with (
        clients.over_wire(cluster, replace(config, tls=files)) as known,
        clients.over_wire(cluster, config) as stranger,
    ):
        over_tls = await asyncio.gather(*(_answers(known, bookie) for bookie in bookies))
        in_plain = await asyncio.gather(*(_answers(stranger, bookie) for bookie in bookies))
    return list(zip(over_tls, in_plain, strict=True))


async def _answers(client: Client, bookie: BookieId) -> bool:
    """Does a connection come about, whatever is said over it?"""
    try:
        await (await client.bookies.pool.link(bookie)).info()
    except errors.ProtocolError as error:
        return not isinstance(error, _REFUSED)
    return True
