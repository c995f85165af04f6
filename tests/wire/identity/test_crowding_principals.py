"""Streams of one principal count together over both transports of a bookie; others are served."""

import asyncio
import contextlib

import pytest

from tests.support.certificates import Authorities, Authority, of_role
from tests.wire.identity.secured_world import GRPC, SOCKET, SecuredBookie, secured
from tests.wire.link.worlds import BOOKIE, Writer
from zonekeeper.placement.base.ids import EntryId
from zonekeeper.wire.contract.links import BookieLink
from zonekeeper.wire.contract.service import ReadRequest
from zonekeeper.wire.formats import errors
from zonekeeper.wire.grpc.tls import TlsFiles
from zonekeeper.wire.host.host_limits import HostLimits
from zonekeeper.wire.identity.principals import ANY_INSTANCE, Role, uri_of

LIMIT_S = 60


def of_client(authority: Authority, name: str) -> TlsFiles:
    uris = (uri_of(ANY_INSTANCE, Role.CLIENT, name),)
    pair = authority.sign(name, name=name, hosts=(), uris=uris)
    return TlsFiles(
        authority=authority.pair.certificate, certificate=pair.certificate, key=pair.key
    )


async def read(link: BookieLink) -> None:
    """Read what is not there: the answer needs a Read stream."""
    request = ReadRequest(
        ledger_id=Writer(7).ledger_id,
        first_entry_id=EntryId(0),
        last_entry_id=EntryId(0),
        step=1,
        bytes_max=1,
    )
    try:
        await link.read(request)
    except (errors.NoSuchEntry, errors.NoSuchLedger):
        return


async def is_kept_out(served: SecuredBookie, way: str, files: TlsFiles) -> str:
    """Ask for one stream too many, over a new connection; give the refusal."""
    async with served.linked(way, files) as link:
        with pytest.raises(errors.NotConnected) as caught:
            await read(link)
    return str(caught.value)


@pytest.mark.parametrize(("held", "asked"), [(GRPC, SOCKET), (SOCKET, GRPC), (GRPC, GRPC)])
async def test_the_streams_of_one_principal_count_over_both_transports(
    held: str, asked: str, authorities: Authorities
) -> None:
    ours = authorities.ours
    bookie = of_role(ours, Role.BOOKIE, hosts=(BOOKIE,))
    greedy, modest = (of_client(ours, name) for name in ("greedy", "modest"))
    limits = HostLimits(principal_streams_max=1)
    async with secured(bookie, limits=limits) as served:
        async with served.linked(held, greedy) as link:
            await read(link)
            said = await is_kept_out(served, asked, greedy)
            assert "client/greedy has 1 streams here, over all its connections" in said
            async with served.linked(asked, modest) as other:
                await read(other)
            await read(link)
        assert served.access.figures.over_share["streams"] >= 1
        async with served.linked(asked, greedy) as again, asyncio.timeout(LIMIT_S):
            is_served = False
            while not is_served:  # the bookie may hear later that the first connection has ended
                with contextlib.suppress(errors.NotConnected):
                    await read(again)
                    is_served = True


async def test_a_connection_for_calls_counts_as_a_stream(authorities: Authorities) -> None:
    ours = authorities.ours
    bookie, greedy = of_role(ours, Role.BOOKIE, hosts=(BOOKIE,)), of_client(ours, "greedy")
    limits = HostLimits(principal_streams_max=1)
    async with secured(bookie, limits=limits) as served, served.linked(SOCKET, greedy) as link:
        assert (await link.info()).bookie_id == BOOKIE
        assert "client/greedy has 1 streams here" in await is_kept_out(served, GRPC, greedy)
